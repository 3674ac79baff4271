//! The records that are as they should be, one after the other: nearly all there are.
//!
//! While no ring waits and no reallocation is open, a ring that is the earliest needs nothing but its own process's blocks. So this holds all of
//! it in hand for as long as that lasts, instead of looking each up for every record; whatever is special is left to
//! [`Merge::apply`], untouched. What is written here is what that would have written.

use super::super::address_map::Live;
use super::super::live_heap::LiveHeap;
use super::super::streams::Stream;
use super::rows::{define_node, fill};
use super::{Merge, NO_THREAD, ReallocState};
use crate::spool::record::{FAILED, Kind};
use heaplab_trace::{Event, EventSink, Flags, Op, TraceError};

/// What ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The stream's record is special.
    Special,
    /// Another stream's record, or something else, comes before the stream's.
    Later,
    /// The stream has no more records.
    Over,
}

impl<S: EventSink> Merge<'_, S> {
    /// Writes the stream's records while they are plain.
    pub(super) fn run_plain(&mut self, place: usize) -> Result<Ended, TraceError> {
        let state = &self.states[place];
        let thread = self.states[state.main].thread;
        let alone = self.waits.is_empty() && self.open_reallocs.is_empty();
        if !alone || state.forced || state.realloc != ReallocState::None || thread == NO_THREAD {
            return Ok(Ended::Special);
        }
        let Some(process) = &mut self.processes[state.process] else { return Ok(Ended::Special) };
        let (stream, row, limit) = (&mut self.streams[place], state.row, self.limit);
        let (mut counts, mut object, mut live_bytes) = (self.counts, self.object, process.live_bytes);
        let ended = loop {
            let record = &stream.current;
            let mut stamp = record.stamp;
            if stamp > process.cut_at {
                break Ended::Special;
            }
            let mut event = Event { process: row, thread, address: record.address, ..Event::default() };
            match record.kind {
                Kind::Free => {
                    let Some(live) = process.heap.remove_own(record.address) else { break Ended::Special };
                    live_bytes = live_bytes.saturating_sub(live.size);
                    (event.op, event.object) = (Op::Free, live.object);
                }
                Kind::Alloc | Kind::Realloc if record.flags & FAILED != 0 || record.address == 0 => break Ended::Special,
                Kind::Alloc => {
                    let Some(stack) = stream.stack_of(record.stack) else { break Ended::Special };
                    if !process.heap.insert_if_free(record.address, Live { object, size: record.size }) {
                        break Ended::Special;
                    }
                    (event.op, event.object, event.stack) = (Op::Alloc, object, stack);
                    object += 1;
                    fill(&mut event, record);
                    live_bytes = live_bytes.saturating_add(record.size);
                }
                Kind::Realloc => {
                    let Some((at, freed)) = reallocate(&mut process.heap, stream, limit, &mut event) else { break Ended::Special };
                    stamp = at;
                    live_bytes = live_bytes.saturating_sub(freed).saturating_add(event.size);
                }
                Kind::Node => define_node(&mut self.builder, &mut process.tables, stream),
                _ => break Ended::Special,
            }
            if stream.current.kind != Kind::Node {
                event.time_ns = self.clock.ns(stamp);
                counts.events += 1;
                counts.last_ns = counts.last_ns.max(event.time_ns);
                if live_bytes > counts.peak_bytes {
                    (counts.peak_bytes, counts.peak_process) = (live_bytes, row);
                }
                self.sink.push(&event)?;
            }
            self.records += 1;
            if !stream.advance(self.files) {
                break Ended::Over;
            }
            if stream.key > limit {
                break Ended::Later;
            }
        };
        (self.counts, self.object, process.live_bytes) = (counts, object, live_bytes);
        Ok(ended)
    }
}

/// Makes `event` the stream's reallocation; gives the moment that it acts at and the bytes there were. `None`, and all is as it was, where it is
/// not plain.
#[inline(always)]
fn reallocate(heap: &mut LiveHeap, stream: &Stream, limit: u64, event: &mut Event) -> Option<(u64, u64)> {
    let record = &stream.current;
    let moved = record.address != record.old_address;
    let stack = stream.stack_of(record.stack)?;
    if moved && (record.after > limit || heap.get(record.address).is_some()) {
        return None;
    }
    let live = heap.remove_own(record.old_address)?;
    heap.insert(record.address, Live { size: record.size, ..live });
    (event.op, event.object, event.stack) = (Op::Realloc, live.object, stack);
    event.flags = if moved { Flags::MOVED } else { Flags::default() };
    fill(event, record);
    Some((if moved { record.after } else { record.stamp }, live.size))
}
