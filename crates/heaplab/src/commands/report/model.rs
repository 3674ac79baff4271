//! `--model`: what a recorded JVM's workload would hold in the metaspace of another JDK, at the
//! moments that the recording names and at the one asked for.
//!
//! The workload runs on the model from its first request to that moment, in the recorded order:
//! births and deaths of arenas, requests, blocks given back, and purges where the JVM purged.

use crate::output::Misasked;
use anyhow::{Context, Result};
use heaplab_metaspace::designs::{Design, design};
use heaplab_metaspace::plan::ArenaPlan;
use heaplab_metaspace::spec::Spec;
use heaplab_profile::At;
use heaplab_profile::choose::{self, Moment};
use heaplab_text::lines;
use heaplab_text::words::{bytes, duration};
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::tables::ChunkOp;
use heaplab_trace::{Event, EventSource, Op};
use std::collections::HashMap;
use std::ptr::NonNull;

/// The model on which a workload without chunks is shown, unless another is asked for.
pub const DEFAULT: &str = "metaspace:jdk17";

/// Bytes of a word.
const WORD_BYTES: u64 = 8;

struct Run<'b> {
    bundle: &'b Bundle,
    model: Box<dyn Design>,
    process: u32,
    row: u64,
    chunk: usize,
    arenas: HashMap<u32, usize>,
    blocks: HashMap<u64, (u32, NonNull<u8>, usize)>,
    /// Blocks by arena, so that they go with it.
    of_arena: HashMap<u32, Vec<u64>>,
    refused: u64,
}

/// The model's listing at `wanted` (the end), with a line for each of the recording's marks before
/// it.
///
/// # Errors
/// No model or moment is so called, the events cannot be read, or the recording is not of a
/// metaspace.
pub fn text(bundle: &Bundle, process: u32, name: &str, wanted: Option<&str>) -> Result<String> {
    if !heaplab_jvm::is_metaspace(bundle.tables()) {
        misasked!(
            "--model is for recordings of a JVM's metaspace: {} is none",
            bundle.path().display()
        );
    }
    let Some(spec) = name.strip_prefix("metaspace:") else {
        misasked!(
            "{name:?} is no model: they are named as `heaplab heaps` names them: metaspace:jdk11, metaspace:jdk17,reclaim=aggressive, ..."
        );
    };
    let spec = Spec::parse(spec).map_err(|error| Misasked(error.to_string()))?;
    let tables = bundle.tables();
    let selection = Selection { process: Some(process) };
    let at = match wanted.map(|text| choose::moment(tables, selection, text)).transpose()? {
        None | Some(Moment::End) => None,
        Some(Moment::Peak) => misasked!(
            "--model takes marks, times and end: the peak of a model is another moment than the JVM's"
        ),
        Some(Moment::At(At::Mark(row))) => {
            Some(tables.marks.get(row as usize).map_or(0, |mark| mark.time_ns))
        }
        Some(Moment::At(At::Time(time_ns))) => Some(time_ns),
        Some(Moment::At(At::Row(_))) => misasked!("--model takes marks, times and end"),
    };
    let mut run = Run {
        bundle,
        model: design(spec).context("reserving class space")?,
        process,
        row: 0,
        chunk: 0,
        arenas: HashMap::new(),
        blocks: HashMap::new(),
        of_arena: HashMap::new(),
        refused: 0,
    };
    let mut marks = tables.marks.iter().peekable();
    let (mut lines, mut listing, mut last_ns) = (String::new(), None, 0);
    let mut events = bundle.events(Selection::default())?;
    events
        .for_each(|event| {
            while let Some(mark) = marks.next_if(|mark| mark.time_ns < event.time_ns) {
                lines.push_str(&run.line(&mark.name, mark.time_ns));
            }
            if at.is_some_and(|at| event.time_ns > at) && listing.is_none() {
                listing = Some(run.model.listing(name));
            }
            last_ns = event.time_ns;
            run.event(event);
            Ok(())
        })
        .map_err(choose::of_recording(bundle))?;
    run.purges(u64::MAX);
    marks.for_each(|mark| lines.push_str(&run.line(&mark.name, mark.time_ns)));
    lines.push_str(&run.line("end", last_ns));
    let listing = listing.unwrap_or_else(|| run.model.listing(name));
    let refused = if run.refused > 0 {
        format!("{} requests were refused by the model and left out.\n", run.refused)
    } else {
        String::new()
    };
    let when = wanted.unwrap_or("end");
    let head = format!(
        "{:<24}{:>12}{:>12}{:>12}{:>16}\n",
        "moment", "time", "used", "committed", "in free chunks"
    );
    Ok(format!("\nThe same workload on {name}\n\n{head}{lines}{refused}\nat {when}:\n{listing}"))
}

impl Run<'_> {
    fn line(&self, name: &str, time_ns: u64) -> String {
        let moment = self.model.usage();
        let [used, committed, free] =
            [moment.used, moment.committed, moment.free_chunks].map(bytes);
        let name = lines::cut(name, 23);
        format!("{name:<24}{:>12}{used:>12}{committed:>12}{free:>16}\n", duration(time_ns))
    }

    /// The JVM's purges before the event of this row.
    fn purges(&mut self, row: u64) {
        while let Some(chunk) =
            self.bundle.tables().chunks.get(self.chunk).filter(|chunk| chunk.row <= row)
        {
            if chunk.op == ChunkOp::Purge && chunk.process == self.process {
                self.model.purge();
            }
            self.chunk += 1;
        }
    }

    fn event(&mut self, event: &Event) {
        self.purges(self.row);
        self.row += 1;
        if event.process != self.process || !event.counts() {
            return;
        }
        match event.op {
            Op::ArenaBirth => {
                let row = self.bundle.tables().arenas.get(event.arena as usize);
                let plan = row.map_or_else(ArenaPlan::default, |row| {
                    ArenaPlan::parse(&row.kind, &row.growth_policy)
                });
                self.arenas.insert(event.arena, self.model.birth(plan));
            }
            Op::Alloc => {
                let words = event.size.div_ceil(WORD_BYTES) as usize;
                let Some(arena) = self.arenas.get(&event.arena) else { return };
                match self.model.allocate(*arena, words) {
                    Some(block) => {
                        self.blocks.insert(event.object, (event.arena, block, words));
                        self.of_arena.entry(event.arena).or_default().push(event.object);
                    }
                    None => self.refused += 1,
                }
            }
            Op::Free => {
                let Some((arena, block, words)) = self.blocks.remove(&event.object) else { return };
                if let Some(arena) = self.arenas.get(&arena) {
                    // SAFETY: the block was allocated from this arena with these words, leaves the
                    // table here, and nobody ever looks into it.
                    unsafe { self.model.deallocate(*arena, block, words) };
                }
            }
            Op::ArenaDeath => {
                for object in self.of_arena.remove(&event.arena).unwrap_or_default() {
                    self.blocks.remove(&object);
                }
                if let Some(arena) = self.arenas.remove(&event.arena) {
                    // SAFETY: its blocks were forgotten just now.
                    unsafe { self.model.death(arena) };
                }
            }
            // A purge of a trace without chunks.
            Op::Trim => self.model.purge(),
            _ => {}
        }
    }
}
