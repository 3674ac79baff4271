//! Ordinary records, one after the other: nearly all records.
//!
//! While no ring waits and no reallocation is open, the earliest ring needs only its own process's
//! blocks. So this code keeps them at hand for the whole run instead of looking them up for every
//! record. Special records are left to [`Merge::apply`], untouched. It writes exactly the rows that
//! `apply` would write.

use super::super::address_map::Live;
use super::super::live_heap::LiveHeap;
use super::super::streams::Stream;
use super::super::tables::TableBuilder;
use super::rows::{define_node, fill};
use super::{Counts, Merge, NO_THREAD, ProcessState, ReallocState};
use crate::clock::Clock;
use crate::spool::record::{FAILED, Kind, Record, TakeShort};
use heaplab_trace::{Event, EventSink, Flags, Op, TraceError};

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The stream's record is special.
    Special,
    /// Another stream's record, or an action, comes first.
    Later,
    /// The stream has ended.
    Over,
}

impl<S: EventSink> Merge<'_, S> {
    /// Writes the stream's records while they are ordinary.
    pub(super) fn run_plain(&mut self, place: usize) -> Result<Ended, TraceError> {
        let state = &self.states[place];
        let thread = self.states[state.main].thread;
        let alone = self.waits.is_empty() && self.open_reallocs.is_empty();
        #[cfg(test)]
        let alone = alone && !tests::ONE_BY_ONE.get();
        if !alone || state.forced || state.realloc != ReallocState::None || thread == NO_THREAD {
            return Ok(Ended::Special);
        }
        let Some(process) = &mut self.processes[state.process] else { return Ok(Ended::Special) };
        let (row, limit) = (state.row, self.limit);
        let ProcessState { tables, heap, cut_at, live_bytes, .. } = process;
        let mut cursor = self.streams[place].take_out();
        let mut run = Run {
            sink: &mut *self.sink,
            builder: &mut self.builder,
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
                    define_node(run.builder, tables, run.stream, &record);
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

/// The state that a run keeps at hand.
struct Run<'a, S> {
    sink: &'a mut S,
    builder: &'a mut TableBuilder,
    clock: Clock,
    stream: &'a mut Stream,
    heap: &'a mut LiveHeap,
    /// The fields that all rows of the run share.
    blank: Event,
    /// No new record may have a later stamp.
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
        event.stack = self.builder.stack_row(event.stack);
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
            (self.counts.peak_bytes, self.counts.peak_process) =
                (self.live_bytes, self.blank.process);
        }
    }

    /// Writes a reallocation with nothing in between; returns whether it did.
    #[inline(always)]
    fn reallocate(&mut self, record: &Record, limit: u64) -> Result<bool, TraceError> {
        if record.flags & FAILED != 0 || record.address == 0 {
            return Ok(false);
        }
        let mut event = Event { address: record.address, ..self.blank };
        let Some((stamp, freed)) = reallocate(self.heap, self.stream, record, limit, &mut event)
        else {
            return Ok(false);
        };
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
        let mut event =
            Event { op: Op::Alloc, object, stack, address: record.address, ..self.blank };
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
        self.emit(
            Event { op: Op::Free, object: live.object, address: record.address, ..self.blank },
            record.stamp,
        )
    }
}

/// Makes `event` the reallocation `record` of the stream; returns its moment and the bytes before.
/// `None`, with nothing changed, if the record is special.
#[inline(always)]
fn reallocate(
    heap: &mut LiveHeap,
    stream: &Stream,
    record: &Record,
    limit: u64,
    event: &mut Event,
) -> Option<(u64, u64)> {
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

#[cfg(test)]
mod tests {
    use super::super::super::merge_spool;
    use super::super::super::streams::Files;
    use crate::control::{CONTROL_FILE, ControlPage, Settings};
    use crate::discover::process_path;
    use crate::spool::EVENTS_FILE;
    use crate::spool::block::RingId;
    use crate::spool::record::{Encoder, Kind, Record};
    use crate::spool::writer::SpoolWriter;
    use heaplab_preload::layout::{Control, PROCESS_MAGIC, ProcessHeader, VERSION};
    use heaplab_trace::Event;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::mem::{offset_of, size_of};
    use std::path::Path;

    thread_local! {
        /// Leaves every record to [`super::Merge::apply`].
        pub(super) static ONE_BY_ONE: Cell<bool> = const { Cell::new(false) };
    }

    /// Kind, ticks since the record before, address, old address or stack, size, flags.
    type Told = (u8, i64, u8, u8, u64, u8);

    /// Few addresses and stacks, for many collisions; ticks that sometimes do not fit a short
    /// record, or go back.
    fn record() -> impl Strategy<Value = Told> {
        let ticks = prop_oneof![8 => 0_i64..40, 1 => -200_i64..0, 1 => 65_530_i64..65_540];
        let size = prop_oneof![4 => 1_u64..200, 1 => 65_530_u64..65_540, 1 => any::<u64>().prop_map(|size| size >> 20)];
        (0_u8..12, ticks, 0_u8..12, 0_u8..12, size, 0_u8..32)
    }

    /// The control page and the header of process 1, which was cut at `cut`.
    fn write_headers(folder: &Path, cut: Option<u64>) {
        let put = |bytes: &mut [u8], at: usize, value: &[u8]| {
            bytes[at..at + value.len()].copy_from_slice(value)
        };
        let settings = Settings { stack_depth: 16, ..Settings::default() };
        drop(ControlPage::create(folder, settings).unwrap());
        let mut control = std::fs::read(folder.join(CONTROL_FILE)).unwrap();
        for (at, value) in [
            (offset_of!(Control, origin_counter), 1_u64),
            (offset_of!(Control, origin_ns), 1),
            (offset_of!(Control, end_counter), 3_000_000_001),
            (offset_of!(Control, end_ns), 1_000_000_001),
        ] {
            put(&mut control, at, &value.to_le_bytes());
        }
        std::fs::write(folder.join(CONTROL_FILE), control).unwrap();
        let mut process = vec![0; size_of::<ProcessHeader>()];
        put(&mut process, offset_of!(ProcessHeader, magic), &PROCESS_MAGIC.to_le_bytes());
        put(&mut process, offset_of!(ProcessHeader, version), &VERSION.to_le_bytes());
        put(&mut process, offset_of!(ProcessHeader, pid), &1_u32.to_le_bytes());
        put(&mut process, offset_of!(ProcessHeader, begin_counter), &10_u64.to_le_bytes());
        if let Some(cut) = cut {
            put(
                &mut process,
                offset_of!(ProcessHeader, state),
                &heaplab_preload::layout::PROCESS_CUT.to_le_bytes(),
            );
            put(&mut process, offset_of!(ProcessHeader, cut_counter), &cut.to_le_bytes());
        }
        std::fs::write(process_path(folder, (1, 0)), process).unwrap();
    }

    fn spool(folder: &Path, rings: &[Vec<Told>], block: usize, cut: Option<u64>) {
        write_headers(folder, cut);
        let mut writer = SpoolWriter::create(&folder.join(EVENTS_FILE)).unwrap();
        let mut encoder = Encoder::new(1 << 16);
        for (number, records) in rings.iter().enumerate() {
            let (mut stamp, mut given) = (1000_u64, 0);
            for records in records.chunks(block) {
                encoder.begin(stamp);
                for &(what, ticks, address, old, size, flags) in records {
                    stamp = stamp.saturating_add_signed(ticks);
                    let at = |number: u8| 0x5600_0000_0000 + u64::from(number) * 48;
                    let plain = Record {
                        stamp,
                        address: at(address),
                        flags: flags & 0x1b,
                        size,
                        stack: old.into(),
                        ..Record::default()
                    };
                    let usual = (size.saturating_add(23) & !15).max(32) - 8;
                    let plain = match what {
                        0..5 => Record { usable: usual, flags: plain.flags & !2, ..plain },
                        5 => plain,
                        6..9 => Record { kind: Kind::Free, stack: 0, size: 0, ..plain },
                        9 => Record {
                            kind: Kind::Realloc,
                            old_address: at(old),
                            after: stamp + size % 90,
                            stack: 0,
                            ..plain
                        },
                        10 => Record {
                            kind: Kind::Node,
                            stack: u32::from(old) + 1,
                            size: (address / 2).into(),
                            flags: 0,
                            ..plain
                        },
                        _ => Record { kind: Kind::UsableSizeRead, stack: 0, size: 0, ..plain },
                    };
                    encoder.push(&plain);
                }
                let ring = RingId { pid: 1, ring: number as u32, ..RingId::default() };
                writer
                    .records(
                        &encoder,
                        ring,
                        given,
                        given + records.len() as u64,
                        stamp_of(records, stamp),
                    )
                    .unwrap();
                given += records.len() as u64;
            }
        }
    }

    /// The stamp before the records that end at `end`.
    fn stamp_of(records: &[Told], end: u64) -> u64 {
        records.iter().rev().fold(end, |stamp, record| stamp.saturating_add_signed(-record.1))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]
        #[test]
        fn what_is_written_in_a_run_is_what_would_be_written_one_by_one(
            rings in prop::collection::vec(prop::collection::vec(record(), 1..120), 1..4), block in 1_usize..50, cut in prop::option::of(1000_u64..4000),
        ) {
            let folder = tempfile::tempdir().unwrap();
            spool(folder.path(), &rings, block, cut);
            let merged = |one_by_one: bool| {
                let files = Files::open(folder.path()).unwrap();
                ONE_BY_ONE.set(one_by_one);
                let mut events: Vec<Event> = Vec::new();
                let (tables, _, counts) = merge_spool(&files, None, &mut events, &mut |_| {}).unwrap();
                (events, tables.stacks, counts)
            };
            let (run, slow) = (merged(false), merged(true));
            prop_assert_eq!(run.0, slow.0);
            prop_assert_eq!((run.1, run.2), (slow.1, slow.2));
        }
    }
}
