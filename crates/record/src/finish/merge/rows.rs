//! One record as a row: births, deaths, moves, and the rarer records of a ring.

use super::super::address_map::Live;
use super::super::live_heap::{Around, Found, LiveHeap};
use super::super::residence::claims::Owner;
use super::super::streams::Stream;
use super::super::tables::{ImageTables, TableBuilder};
use super::{Merge, NO_THREAD, ReallocState, Step};
use crate::spool::record::{FAILED, FAMILY_SHIFT, Kind, Record, ZEROED};
use heaplab_preload::layout;
use heaplab_trace::{Event, EventSink, Family, Flags, Op, TraceError};

/// The end of a range that the kernel rounds up to whole pages.
fn page_end(start: u64, bytes: u64) -> u64 {
    let page_bytes = rustix::param::page_size() as u64;
    start.saturating_add(bytes).checked_next_multiple_of(page_bytes).unwrap_or(u64::MAX)
}

impl<S: EventSink> Merge<'_, S> {
    #[inline]
    pub(super) fn apply(&mut self, place: usize) -> Result<Step, TraceError> {
        let record = self.streams[place].current;
        self.records += 1;
        let process = self.states[place].process;
        let Some(state) = &mut self.processes[process] else { return Ok(Step::Done) };
        if record.stamp > state.cut_at {
            self.counts.after_cut += u64::from(!matches!(
                record.kind,
                Kind::ThreadBegin | Kind::ThreadEnd | Kind::Node | Kind::Map | Kind::Unmap
            ));
            return Ok(Step::Done);
        }
        match record.kind {
            Kind::Alloc => self.birth(place, &record),
            Kind::Free => self.death(place, &record),
            Kind::Realloc => self.reallocation(place, &record),
            Kind::UsableSizeRead => self.usable_size_read(place, &record),
            Kind::Report => self.reported(place, &record),
            Kind::ThreadBegin => {
                self.begin_thread(place, record.address as u32, [record.size, record.usable]);
                Ok(Step::Done)
            }
            Kind::ThreadEnd => {
                self.builder.name_thread(
                    self.states[self.states[place].main].thread,
                    [record.size, record.usable],
                );
                Ok(Step::Done)
            }
            Kind::Node => {
                define_node(
                    &mut self.builder,
                    &mut state.tables,
                    &mut self.streams[place],
                    &record,
                );
                Ok(Step::Done)
            }
            Kind::Map => {
                let owner = if u32::from(record.flags) == layout::MAP_ALLOCATOR {
                    Owner::Allocator
                } else {
                    Owner::Program(self.streams[place].stack_of(record.stack).unwrap_or(0))
                };
                state.residence.claims.claim(
                    record.address,
                    page_end(record.address, record.size),
                    owner,
                );
                Ok(Step::Done)
            }
            Kind::Unmap => {
                let end = page_end(record.address, record.size);
                state.residence.claims.release(record.address, end);
                Ok(Step::Done)
            }
            Kind::Mark => self.marked(place, &record),
        }
    }

    fn usable_size_read(&mut self, place: usize, record: &Record) -> Result<Step, TraceError> {
        let process = self.states[place].process;
        let Some(state) = &self.processes[process] else { return Ok(Step::Done) };
        let Some(found) = state.heap.get(record.address) else { return Ok(Step::Done) };
        let event = Event {
            op: Op::UsableSizeRead,
            flags: if found.inherited { Flags::INHERITED } else { Flags::default() },
            object: found.live.object,
            address: record.address,
            ..Event::default()
        };
        self.emit_in(place, event, record.stamp)?;
        Ok(Step::Done)
    }

    /// The program sets a mark. Reporters are asked between two marks.
    fn marked(&mut self, place: usize, record: &Record) -> Result<Step, TraceError> {
        let process = self.states[place].process;
        let Some(state) = &mut self.processes[process] else { return Ok(Step::Done) };
        state.around = Around::default();
        let (row, name) = (state.tables.row, self.streams[place].mark_name());
        let object = u64::from(self.builder.add_mark(name, record.stamp, Some(row)));
        self.emit_in(place, Event { op: Op::Mark, object, ..Event::default() }, record.stamp)?;
        Ok(Step::Done)
    }

    /// A memory reporter names a block. One that is not live has a row, too: the reporter errs.
    fn reported(&mut self, place: usize, record: &Record) -> Result<Step, TraceError> {
        let process = self.states[place].process;
        let Some(state) = &mut self.processes[process] else { return Ok(Step::Done) };
        let exact = state.heap.get(record.address);
        let is_inside = u32::from(record.flags) & layout::REPORT_INSIDE != 0;
        let found = exact.or_else(|| {
            let start = is_inside.then(|| state.around.start(&state.heap, record.address))??;
            state.heap.get(start)
        });
        let (object, flags) = match found {
            Some(found) if found.inherited => (found.live.object, Flags::INHERITED),
            Some(found) => (found.live.object, Flags::default()),
            None => (0, Flags::FAILED),
        };
        let stack = self.streams[place].stack_of(record.stack).unwrap_or(0);
        let address = record.address;
        let event = Event { op: Op::Report, flags, stack, object, address, ..Event::default() };
        self.emit_in(place, event, record.stamp)?;
        Ok(Step::Done)
    }

    pub(super) fn birth(&mut self, place: usize, record: &Record) -> Result<Step, TraceError> {
        let process = self.states[place].process;
        if record.flags & FAILED != 0 || record.address == 0 {
            let event = self.born(place, record, 0, Flags::FAILED);
            self.emit_in(place, event, record.stamp)?;
            return Ok(Step::Done);
        }
        let live = Live { object: self.object, size: record.size };
        if !self.heap(process).insert_if_free(record.address, live) {
            if let Step::Away = self.vacate(place, record.address, record.stamp)? {
                return Ok(Step::Away);
            }
            // Pulling a reallocation forward may have been a birth in a forked child.
            let live = Live { object: self.object, size: record.size };
            self.heap(process).insert_if_free(record.address, live);
        }
        let event = self.born(place, record, self.object, Flags::default());
        self.object += 1;
        self.emit_in(place, event, record.stamp)?;
        self.grow(process, record.size);
        self.wake(process, record.address, true);
        Ok(Step::Done)
    }

    #[inline]
    pub(super) fn death(&mut self, place: usize, record: &Record) -> Result<Step, TraceError> {
        let process = self.states[place].process;
        let Some(found) = self.heap(process).remove(record.address) else {
            if self.may_park(place, record.address, true) {
                return Ok(Step::Away);
            }
            self.counts.unknown_frees += 1;
            return Ok(Step::Done);
        };
        self.dead(place, found, record.address, record.stamp)?;
        self.wake(process, record.address, false);
        Ok(Step::Done)
    }

    pub(super) fn dead(
        &mut self,
        place: usize,
        found: Found,
        address: u64,
        stamp: u64,
    ) -> Result<(), TraceError> {
        let flags = if found.inherited { Flags::INHERITED } else { Flags::default() };
        if !found.inherited {
            self.shrink(self.states[place].process, found.live.size);
        }
        self.emit_in(
            place,
            Event { op: Op::Free, flags, object: found.live.object, address, ..Event::default() },
            stamp,
        )
    }

    pub(super) fn reallocation(
        &mut self,
        place: usize,
        record: &Record,
    ) -> Result<Step, TraceError> {
        let process = self.states[place].process;
        if record.flags & FAILED != 0 || record.address == 0 {
            if let Some(found) = self.heap(process).get(record.old_address) {
                let flags = if found.inherited {
                    Flags::FAILED.with(Flags::INHERITED)
                } else {
                    Flags::FAILED
                };
                let event = Event {
                    op: Op::Realloc,
                    address: record.old_address,
                    ..self.born(place, record, found.live.object, flags)
                };
                self.emit_in(place, event, record.stamp)?;
            }
            return Ok(Step::Done);
        }
        let moved = record.address != record.old_address;
        match self.states[place].realloc {
            ReallocState::Applied => {
                self.states[place].realloc = ReallocState::None;
                return Ok(Step::Done);
            }
            // Another stream acts before it is over.
            ReallocState::None if moved && record.after > self.limit => {
                self.states[place].realloc = ReallocState::Open;
                self.open_reallocs.push(place);
                self.streams[place].key = self.streams[place].key.max(record.after);
                self.enqueue(place);
                // A birth there that came too early can now pull it forward.
                self.wake(process, record.old_address, false);
                return Ok(Step::Away);
            }
            ReallocState::None | ReallocState::Open => {}
        }
        let step = self.reallocate(place, record, moved)?;
        if let Step::Done = step
            && self.states[place].realloc == ReallocState::Open
        {
            self.states[place].realloc = ReallocState::None;
            self.open_reallocs.retain(|open| *open != place);
        }
        Ok(step)
    }

    pub(super) fn reallocate(
        &mut self,
        place: usize,
        record: &Record,
        moved: bool,
    ) -> Result<Step, TraceError> {
        let process = self.states[place].process;
        let stamp = if moved { record.after } else { record.stamp };
        if self.heap(process).get(record.old_address).is_none()
            && self.may_park(place, record.old_address, true)
        {
            return Ok(Step::Away);
        }
        if moved
            && self.heap(process).get(record.address).is_some()
            && let Step::Away = self.vacate(place, record.address, stamp)?
        {
            return Ok(Step::Away);
        }
        let flags = if moved { Flags::MOVED } else { Flags::default() };
        match self.heap(process).remove(record.old_address) {
            Some(found) if !found.inherited => {
                let object = found.live.object;
                self.heap(process).insert(record.address, Live { object, size: record.size });
                let event = Event { op: Op::Realloc, ..self.born(place, record, object, flags) };
                self.emit_in(place, event, stamp)?;
                self.shrink(process, found.live.size);
            }
            other => {
                // Of an inherited object only the copy ends; an unknown one has no row. The rest is
                // a birth.
                match other {
                    Some(found) => self.dead(place, found, record.old_address, stamp)?,
                    None => self.counts.unknown_reallocs += 1,
                }
                let object = self.object;
                self.heap(process).insert(record.address, Live { object, size: record.size });
                self.object += 1;
                let event = self.born(place, record, object, Flags::default());
                self.emit_in(place, event, stamp)?;
            }
        }
        self.grow(process, record.size);
        self.wake(process, record.address, true);
        if moved {
            self.wake(process, record.old_address, false);
        }
        Ok(Step::Done)
    }

    #[inline]
    pub(super) fn heap(&mut self, process: usize) -> &mut LiveHeap {
        // `apply` has seen the process, and only the end of its last stream removes it.
        match &mut self.processes[process] {
            Some(state) => &mut state.heap,
            None => unreachable!("a stream outlives its process"),
        }
    }

    #[inline]
    pub(super) fn grow(&mut self, process: usize, bytes: u64) {
        if let Some(state) = &mut self.processes[process] {
            state.live_bytes = state.live_bytes.saturating_add(bytes);
            if state.live_bytes > self.counts.peak_bytes {
                (self.counts.peak_bytes, self.counts.peak_process) =
                    (state.live_bytes, state.tables.row);
            }
        }
    }

    #[inline]
    pub(super) fn shrink(&mut self, process: usize, bytes: u64) {
        if let Some(state) = &mut self.processes[process] {
            state.live_bytes = state.live_bytes.saturating_sub(bytes);
        }
    }

    /// Fills the row of a birth.
    #[inline]
    pub(super) fn born(
        &mut self,
        place: usize,
        record: &Record,
        object: u64,
        flags: Flags,
    ) -> Event {
        let stack = self.streams[place].stack_of(record.stack).unwrap_or_else(|| {
            self.builder.unknown_stacks += 1;
            0
        });
        let mut event = Event {
            op: Op::Alloc,
            flags,
            stack,
            object,
            address: record.address,
            ..Event::default()
        };
        fill(&mut event, record);
        event
    }

    /// Writes a row of the stream's thread.
    #[inline(always)]
    pub(super) fn emit_in(
        &mut self,
        place: usize,
        mut event: Event,
        stamp: u64,
    ) -> Result<(), TraceError> {
        let state = &self.states[place];
        event.process = state.row;
        event.thread = self.states[state.main].thread;
        if event.thread == NO_THREAD {
            event.thread = self.unnamed_thread(place);
        }
        self.emit(event, stamp)
    }

    /// A thread takes the ring. Both parts of the ring announce the thread, in either order; the
    /// first makes the row.
    pub(super) fn begin_thread(&mut self, place: usize, tid: u32, name: [u64; 2]) {
        let (row, main) = (self.states[place].row, self.states[place].main);
        if self.states[main].announced == Some((tid, place != main)) {
            self.states[main].announced = None;
            return;
        }
        self.states[main].announced = Some((tid, place == main));
        self.states[main].thread = self.builder.add_thread(row, tid, name);
    }

    /// A thread without a recorded beginning.
    #[cold]
    pub(super) fn unnamed_thread(&mut self, place: usize) -> u32 {
        let (row, main) = (self.states[place].row, self.states[place].main);
        self.states[main].thread = self.builder.add_thread(row, 0, [0; 2]);
        self.states[main].thread
    }
}

/// Fills the fields of a birth's or a reallocation's block.
#[inline(always)]
pub(super) fn fill(event: &mut Event, record: &Record) {
    if record.flags & ZEROED != 0 {
        event.flags = event.flags.with(Flags::ZEROED);
    }
    event.family = Family::from_number(record.flags >> FAMILY_SHIFT & 3).unwrap_or_default();
    (event.align_log2, event.size, event.usable) = (record.align_log2, record.size, record.usable);
}

/// Makes the node that the stream's `record` defines a row of `stacks`.
#[inline(always)]
pub(super) fn define_node(
    builder: &mut TableBuilder,
    tables: &mut ImageTables,
    stream: &mut Stream,
    record: &Record,
) {
    // An unknown caller leaves its callees as outermost frames.
    let parent =
        u32::try_from(record.size).ok().and_then(|parent| stream.stack_of(parent)).unwrap_or(0);
    let row = builder.define(tables, parent, record.address, record.stamp);
    stream.define(record.stack, row);
}
