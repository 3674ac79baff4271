//! A bundle as a recording to replay: any JVM's metaspace recorded by `heaplab record
//! --jvm-metaspace`. So tuning on this repository's recordings can be checked on an unseen one.

use super::workload::{Recording, Step};
use anyhow::{Context, Result, bail};
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::{EventSource, Op};
use std::path::Path;

/// Most bytes of a block: a replay's offsets have 32 bits.
const BYTES_MAX: u64 = 1 << 30;

/// Reads the arenas of all processes of a bundle. A block belongs to the arena of its birth.
pub fn read(path: &Path) -> Result<Recording> {
    let bundle = Bundle::open(path).with_context(|| path.display().to_string())?;
    let arenas = bundle.tables().arenas.len();
    let class = bundle.tables().arenas.iter().map(|arena| arena.kind == "class").collect();
    let mut recording = Recording {
        steps: Vec::new(),
        blocks: Vec::new(),
        dying: vec![Vec::new(); arenas],
        arenas,
        class,
    };
    // For each block: whether it died before its arena. For each arena: whether it began.
    let (mut freed, mut began) = (Vec::new(), vec![false; arenas]);
    bundle.events(Selection::default())?.for_each(|event| {
        if !event.counts() {
            return Ok(());
        }
        match event.op {
            Op::Alloc => {
                let bytes = event.size.clamp(1, BYTES_MAX).next_multiple_of(8) as u32;
                if !std::mem::replace(&mut began[event.arena as usize], true) {
                    recording.steps.push(Step::Begin(event.arena));
                }
                recording.blocks.push((event.arena, bytes));
                freed.push(false);
                recording.steps.push(Step::Allocate(event.arena, bytes));
            }
            Op::Free => {
                let block = event.object as usize;
                let lives =
                    recording.blocks.get(block).is_some_and(|(arena, _)| began[*arena as usize]);
                if lives && !std::mem::replace(&mut freed[block], true) {
                    recording.steps.push(Step::Free(block as u32));
                }
            }
            Op::ArenaBirth if !std::mem::replace(&mut began[event.arena as usize], true) => {
                recording.steps.push(Step::Begin(event.arena));
            }
            Op::ArenaDeath if std::mem::replace(&mut began[event.arena as usize], false) => {
                recording.steps.push(Step::End(event.arena));
            }
            _ => {}
        }
        Ok(())
    })?;
    if recording.blocks.is_empty() {
        bail!(
            "{}: there is no block in it; record a JVM with `heaplab record --jvm-metaspace`",
            path.display()
        );
    }
    for (block, (arena, _)) in
        recording.blocks.iter().enumerate().filter(|(block, _)| !freed[*block])
    {
        recording.dying[*arena as usize].push(block as u32);
    }
    Ok(recording)
}
