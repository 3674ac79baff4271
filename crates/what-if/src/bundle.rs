//! A bundle of another: the same tables, the changed events, and in `meta.json` where it came from.

use crate::successor::Buffers;
use crate::{Change, Changer, Done, Rule, WhatIfError};
use heaplab_trace::bundle::{Bundle, BundleWriter, Meta, Origin, Selection};
use heaplab_trace::order::LiveSet;
use heaplab_trace::{EventSource, FREED_BY_PROGRAM, Op};
use std::path::{Path, PathBuf};

/// The result of a change.
#[derive(Clone, Debug)]
pub struct Changed {
    /// What each rule did, in their order.
    pub done: Vec<Done>,
    /// Where the new bundle came from, as its `meta.json` has it.
    pub origin: Origin,
}

/// Writes `bundle` as changed by `rules` to `path`, and replaces a bundle there. `process`: whose
/// requests change, a row of `processes`; `None`: all. `progress` gets the number of events read.
///
/// # Errors
/// No stack has a rule's function, a rule concerns no request, the workload is not one that can be
/// changed so, the recording cannot be read, or the new one not be written.
pub fn change(
    bundle: &Bundle,
    rules: &[Rule],
    process: Option<u32>,
    path: &Path,
    mut progress: impl FnMut(u64),
) -> Result<Changed, WhatIfError> {
    let (meta, tables) = (bundle.meta(), bundle.tables());
    if !tables.chunks.is_empty() {
        return Err(WhatIfError::Metaspace);
    }
    let is_freed = meta.death_rule.is_empty() || meta.death_rule == FREED_BY_PROGRAM;
    if let Some(done) = rules.iter().filter(|_| !is_freed).find_map(Rule::needs_frees) {
        return Err(WhatIfError::Collected { death_rule: meta.death_rule.clone(), done });
    }
    let mut changer = Changer::new(tables, rules, process)?;
    if rules.iter().any(|rule| rule.change == Change::DropUnfreed) {
        for (number, objects) in never_freed(bundle, &changer, rules, process)? {
            changer.never_freed(number, objects);
        }
    }
    if rules.iter().any(|rule| matches!(rule.change, Change::Grow(_))) {
        let mut buffers = Buffers::default();
        bundle.events(Selection::default())?.for_each(|event| {
            changer.look(&mut buffers, event);
            Ok(())
        })?;
        changer.judge_by(buffers);
    }
    let mut writer = BundleWriter::replace(path)?;
    writer.leave_out_addresses();
    let (mut read, mut batch) = (0, Vec::new());
    let mut events = bundle.events(Selection::default())?;
    loop {
        events.next_batch(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        for event in &batch {
            changer.push(event, &mut writer)?;
        }
        read += batch.len() as u64;
        progress(read);
    }
    changer.finish(&mut writer)?;
    // Nothing may be left for a rule behind another of its stacks, beside one that leaves out what
    // is never freed, or of whose stacks all are excepted; but for all rules together.
    let is_idle = changer.done().iter().all(|done| done.requests == 0);
    let leaves_out = rules.iter().any(|rule| rule.change == Change::DropUnfreed);
    let idle = rules.iter().zip(changer.done()).enumerate().find(|(number, (rule, done))| {
        let may_be = changer.is_shadowed(*number)
            || (leaves_out && !matches!(rule.change, Change::Sizes(_) | Change::DropUnfreed));
        done.requests == 0 && (is_idle || !may_be)
    });
    if let Some((_, (rule, _))) = idle {
        return Err(WhatIfError::Nothing { rule: rule.words() });
    }
    let origin = origin(bundle, rules);
    // The system's view of the process shows the unchanged program.
    let tables = heaplab_trace::tables::Tables {
        samples: Vec::new(),
        resident: Vec::new(),
        ..tables.clone()
    };
    let meta = Meta {
        writer: String::new(),
        origin: Some(origin.clone()),
        moves_unknown: true,
        ..meta.clone()
    };
    writer.finish(&tables, meta)?;
    Ok(Changed { done: changer.done().to_vec(), origin })
}

fn origin(bundle: &Bundle, rules: &[Rule]) -> Origin {
    let mut assumptions: Vec<String> = Vec::new();
    for rule in rules {
        let assumption = rule.assumption();
        if !assumptions.iter().any(|known| known == assumption) {
            assumptions.push(assumption.into());
        }
    }
    Origin {
        bundle: bundle.path().display().to_string(),
        changes: rules.iter().map(Rule::words).collect(),
        assumptions,
    }
}

/// The objects of each rule's place that are never freed.
fn never_freed(
    bundle: &Bundle,
    changer: &Changer,
    rules: &[Rule],
    process: Option<u32>,
) -> Result<Vec<(usize, LiveSet)>, WhatIfError> {
    let mut live: Vec<(usize, LiveSet)> = rules
        .iter()
        .enumerate()
        .filter(|(_, rule)| rule.change == Change::DropUnfreed)
        .map(|(number, _)| (number, LiveSet::default()))
        .collect();
    bundle.events(Selection { process })?.for_each(|event| {
        if !event.counts() || !matches!(event.op, Op::Alloc | Op::Realloc | Op::Free) {
            return Ok(());
        }
        let rule = changer.unfreed_rule_of(event.stack).filter(|_| event.op != Op::Free);
        for (number, objects) in &mut live {
            if rule == Some(*number) {
                objects.insert(event.object);
            } else {
                objects.remove(event.object);
            }
        }
        Ok(())
    })?;
    Ok(live)
}

/// `app.what-if.heaplab` of `app.heaplab`.
pub fn beside(bundle: &Path) -> PathBuf {
    let mut name = bundle.file_stem().unwrap_or(bundle.as_os_str()).to_owned();
    name.push(".what-if.heaplab");
    bundle.with_file_name(name)
}

/// Whether a bundle lies there that is no changed one: it must not be replaced.
pub fn is_recording(path: &Path) -> bool {
    path.exists() && Bundle::open(path).is_ok_and(|there| there.meta().origin.is_none())
}

#[cfg(test)]
mod tests;
