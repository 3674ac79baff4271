//! The choice of a recording's process.

use crate::live::{IntegerMap, Live};
use crate::observe::Object;
use heaplab_trace::arena_members::ArenaMembers;
use heaplab_trace::{EventSource, Op, TraceError};
use serde::Serialize;

/// The size of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct ProcessPeak {
    /// Row of the `processes` table.
    pub process: u32,
    /// Its events.
    pub events: u64,
    /// Peak of live requested bytes.
    pub peak_bytes: u64,
}

/// The peaks of all processes with events, largest first (ties: the earlier process).
///
/// # Errors
/// An error of the source.
pub fn process_peaks<S: EventSource>(source: &mut S) -> Result<Vec<ProcessPeak>, TraceError> {
    let mut live = Live::default();
    let mut arenas = ArenaMembers::default();
    let mut processes: IntegerMap<u32, (ProcessPeak, u64)> = IntegerMap::default();
    let fresh = |process| (ProcessPeak { process, ..ProcessPeak::default() }, 0u64);
    source.for_each(|event| {
        let (peak, now) = processes.entry(event.process).or_insert_with(|| fresh(event.process));
        peak.events += 1;
        if !event.counts() {
            return Ok(());
        }
        // The owner's sum is in the object's own row of the table, because another process cannot
        // free it.
        let drop = |now: &mut u64, object: Option<Object>| {
            *now = now.saturating_sub(object.map_or(0, |object| object.size))
        };
        match event.op {
            Op::Alloc => {
                live.insert(event.object, Object { size: event.size, ..Object::default() });
                *now = now.saturating_add(event.size);
                arenas.born(event.arena, event.object, |object| live.get_mut(object).is_some());
            }
            Op::Realloc => {
                if let Some(object) = live.get_mut(event.object) {
                    *now = now.saturating_sub(object.size).saturating_add(event.size);
                    object.size = event.size;
                }
            }
            Op::Free => drop(now, live.remove(event.object)),
            Op::ArenaDeath => {
                let members = arenas.died(event.arena).into_iter();
                members.for_each(|object| drop(now, live.remove(object)));
            }
            _ => {}
        }
        peak.peak_bytes = peak.peak_bytes.max(*now);
        Ok(())
    })?;
    let mut peaks: Vec<ProcessPeak> = processes.into_values().map(|(peak, _)| peak).collect();
    peaks.sort_by(|a, b| b.peak_bytes.cmp(&a.peak_bytes).then(a.process.cmp(&b.process)));
    Ok(peaks)
}
