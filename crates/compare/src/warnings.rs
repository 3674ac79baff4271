//! Facts about the recordings that a reader must know before believing a comparison.

use crate::run::Run;
use hashbrown::HashSet;
use heaplab_text::words::percent;

/// Programs with different names must share this part of their requested bytes to be one renamed
/// program.
const SHARED_LEAST: f64 = 0.1;

pub(crate) fn warnings(sides: [&[Run]; 2]) -> Vec<String> {
    let mut warnings = Vec::new();
    let all = || sides.iter().flat_map(|runs| runs.iter());
    let differ = |value: &dyn Fn(&Run) -> String| {
        let mut values: Vec<String> = all().map(value).collect();
        values.sort();
        values.dedup();
        (values.len() > 1).then(|| values.join(", "))
    };
    warnings.extend(other_program(sides));
    if let Some(allocators) = differ(&|run| or(&run.recorded.allocator, "an unknown allocator")) {
        warnings.push(format!("Recorded under different allocators ({allocators}): slop and resident memory are theirs, and a program that reads usable sizes asks otherwise."));
    }
    if let Some(depths) = differ(&|run| run.recorded.stack_depth.to_string()) {
        warnings.push(format!("Recorded with stacks of different depths ({depths} frames): stacks that were cut differ. Record both with the same --stack-depth."));
    }
    if differ(&|run| run.sampled_every_words.to_string()).is_some() {
        warnings.push("Some are sampled profiles and some are not, or at different rates: their numbers cannot be compared as they are.".into());
    }
    for runs in sides {
        let mut paths: Vec<&str> = runs.iter().map(|run| run.recorded.path.as_str()).collect();
        paths.sort_unstable();
        if let Some(twice) = paths.windows(2).find(|pair| pair[0] == pair[1]) {
            warnings.push(format!("{} is given more than once on one side: the same run again says nothing of how runs differ, so that intervals are too narrow.", twice[0]));
        }
    }
    for run in all() {
        if !run.recorded.process.is_empty() {
            warnings.push(format!("{} has several processes: this is about {} alone (--process chooses, `all` adds them up).", run.recorded.path, run.recorded.process));
        }
        if let Some(cut) = &run.recorded.cut {
            warnings.push(format!("{} was cut: {cut}", run.recorded.path));
        }
        for loss in &run.recorded.losses {
            warnings.push(format!("{}: {loss}", run.recorded.path));
        }
    }
    warnings
}

/// Whether the sides are of two programs: other names, and little that asks on both.
fn other_program(sides: [&[Run]; 2]) -> Option<String> {
    let [before, after] = [sides[0].first()?, sides[1].first()?];
    if before.program_name == after.program_name {
        return None;
    }
    let functions = [before, after].map(|run| {
        run.stacks.keys().filter_map(|path| path.first()).copied().collect::<HashSet<u32>>()
    });
    let shared = |side: usize, run: &Run| {
        let (mut of_both, mut all) = (0u128, 0u128);
        for (path, lines) in &run.stacks {
            let bytes: u128 = lines.values().map(|held| u128::from(held.requested_bytes)).sum();
            all += bytes;
            if path.first().is_some_and(|function| functions[1 - side].contains(function)) {
                of_both += bytes;
            }
        }
        if all == 0 { 0.0 } else { of_both as f64 / all as f64 }
    };
    let share = shared(0, before).min(shared(1, after));
    let are = format!(
        "{} before, {} after",
        or(&before.program_name, "an unnamed program"),
        or(&after.program_name, "an unnamed program")
    );
    (share < SHARED_LEAST).then(|| {
        format!("These look like two different programs ({are}): functions that ask on both sides make {} of what is asked for. The differences below are those of two programs, not of a change.", percent(share))
    })
}

fn or(text: &str, nothing: &str) -> String {
    if text.is_empty() { nothing.into() } else { text.into() }
}
