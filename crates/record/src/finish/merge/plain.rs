//! The records that are as they should be, one after the other: nearly all there are.
//!
//! While no ring waits and no reallocation is open, a ring that is the earliest needs nothing but its own process's blocks. So this holds all of
//! it in hand for as long as that lasts, instead of looking each up for every record; whatever is special is left to
//! [`Merge::apply`], untouched. What is written here is what that would have written.

use super::super::address_map::Live;
use super::super::live_heap::LiveHeap;
use super::super::streams::Stream;
use super::rows::{define_node, fill};
use super::{Counts, Merge, NO_THREAD, ProcessState, ReallocState};
use crate::clock::Clock;
use crate::spool::record::{FAILED, Kind, Record, TakeShort};
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
        let (row, limit) = (state.row, self.limit);
        let ProcessState { tables, heap, cut_at, live_bytes } = process;
        let mut cursor = self.streams[place].take_out();
        let mut run = Run {
            sink: &mut *self.sink,
            clock: self.clock,
            stream: &mut self.streams[place],
            heap,
            blank: Event { process: row, thread, ..Event::default() },
            bound: limit.min(*cut_at),
            counts: self.counts,
            object: self.object,
            live_bytes: *live_bytes,
            records: 0,
            latest: cursor.key,
        };
        let ended = loop {
            let record = cursor.record;
            if record.stamp > *cut_at {
                break Ended::Special;
            }
            match record.kind {
                Kind::Free if run.free(&record)? => {}
                Kind::Alloc if run.alloc(&record)? => {}
                Kind::Realloc if run.reallocate(&record, limit)? => {}
                Kind::Node => {
                    define_node(&mut self.builder, tables, run.stream, &record);
                    run.records += 1;
                }
                _ => break Ended::Special,
            }
            cursor.run_short(&mut run)?;
            cursor.key = run.latest;
            if !cursor.advance() {
                run.stream.put_back(cursor);
                let more = run.stream.advance(self.files);
                cursor = run.stream.take_out();
                if !more {
                    break Ended::Over;
                }
            }
            run.latest = cursor.key;
            if cursor.key > limit {
                break Ended::Later;
            }
        };
        run.stream.put_back(cursor);
        *live_bytes = run.live_bytes;
        (self.counts, self.object) = (run.counts, run.object);
        self.records += run.records;
        Ok(ended)
    }
}

/// What a run has in hand.
struct Run<'a, S> {
    sink: &'a mut S,
    clock: Clock,
    stream: &'a mut Stream,
    heap: &'a mut LiveHeap,
    /// What all rows of the run have in common.
    blank: Event,
    /// No record that was not looked at before may have a later stamp.
    bound: u64,
    counts: Counts,
    object: u64,
    live_bytes: u64,
    records: u64,
    /// The latest stamp so far.
    latest: u64,
}

impl<S: EventSink> Run<'_, S> {
    /// Writes the row of a record with this stamp.
    #[inline(always)]
    fn emit(&mut self, mut event: Event, stamp: u64) -> Result<bool, TraceError> {
        event.time_ns = self.clock.ns(stamp);
        self.records += 1;
        self.counts.events += 1;
        self.counts.last_ns = self.counts.last_ns.max(event.time_ns);
        self.sink.push(&event)?;
        Ok(true)
    }

    #[inline(always)]
    fn grow(&mut self, bytes: u64) {
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        if self.live_bytes > self.counts.peak_bytes {
            (self.counts.peak_bytes, self.counts.peak_process) = (self.live_bytes, self.blank.process);
        }
    }

    /// A reallocation that nothing comes in between; whether it was one.
    #[inline(always)]
    fn reallocate(&mut self, record: &Record, limit: u64) -> Result<bool, TraceError> {
        if record.flags & FAILED != 0 || record.address == 0 {
            return Ok(false);
        }
        let mut event = Event { address: record.address, ..self.blank };
        let Some((stamp, freed)) = reallocate(self.heap, self.stream, record, limit, &mut event) else { return Ok(false) };
        self.live_bytes = self.live_bytes.saturating_sub(freed);
        self.grow(event.size);
        self.emit(event, stamp)
    }
}

impl<S: EventSink> TakeShort for Run<'_, S> {
    type Error = TraceError;

    #[inline(always)]
    fn alloc(&mut self, record: &Record) -> Result<bool, TraceError> {
        if record.stamp > self.bound || record.flags & FAILED != 0 || record.address == 0 {
            return Ok(false);
        }
        let Some(stack) = self.stream.stack_of(record.stack) else { return Ok(false) };
        let object = self.object;
        if !self.heap.insert_if_free(record.address, Live { object, size: record.size }) {
            return Ok(false);
        }
        self.object += 1;
        self.latest = self.latest.max(record.stamp);
        self.grow(record.size);
        let mut event = Event { op: Op::Alloc, object, stack, address: record.address, ..self.blank };
        fill(&mut event, record);
        self.emit(event, record.stamp)
    }

    #[inline(always)]
    fn free(&mut self, record: &Record) -> Result<bool, TraceError> {
        if record.stamp > self.bound {
            return Ok(false);
        }
        let Some(live) = self.heap.remove_own(record.address) else { return Ok(false) };
        self.live_bytes = self.live_bytes.saturating_sub(live.size);
        self.latest = self.latest.max(record.stamp);
        self.emit(Event { op: Op::Free, object: live.object, address: record.address, ..self.blank }, record.stamp)
    }
}

/// Makes `event` the reallocation `record` of the stream; gives the moment that it acts at and the bytes there were. `None`, and all is as it was, where it is
/// not plain.
#[inline(always)]
fn reallocate(heap: &mut LiveHeap, stream: &Stream, record: &Record, limit: u64, event: &mut Event) -> Option<(u64, u64)> {
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
