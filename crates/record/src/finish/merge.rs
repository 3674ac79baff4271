//! All rings as one sequence, in a legal order.
//!
//! # The order, and why there is a legal one
//! Rings are merged by stamp. A free is stamped before its call and an allocation after it. When address X passes from one
//! thread to another, then stamp(free X) < X is released < X is taken < stamp(alloc X): the merged order is legal as it is.
//! Only a reallocation that moves acts at an instant that no stamp names: it takes Y and releases X somewhere between its two
//! stamps. It is placed at its second stamp, or, if an allocation of X comes first, right before that allocation. That place
//! is legal: an allocator copies before it lets go, so Y was taken no later than X was released; whoever held Y before
//! stamped its free before releasing it, hence stamp(free Y) < Y taken <= X released < X taken again < stamp(alloc X), and that
//! free has been placed already. If the allocation of X is itself such a reallocation, the same holds for it: they are placed one
//! after the other along X, which ends because each step goes back in real time.
//!
//! This rests on one clock for all processors. Should a stamp be off nevertheless, an allocation at an address that lives (or a
//! free of one that does not) waits, and its ring with it, for a while (see [`super::waits`]). The true order is
//! one in which every ring advances and every address alternates between birth and death, so that the event waited for is in
//! another ring. What is still impossible then is resolved as a loss and counted, never left wrong: see [`Counts`].

use super::address_map::Live;
use super::live_heap::{Found, LiveHeap};
use super::streams::{Files, Stream};
use super::tables::{ImageTables, TableBuilder};
use super::waits::{Waits, Wanted};
use crate::clock::Clock;
use crate::image::Image;
use crate::spool::record::{FAILED, FAMILY_SHIFT, Kind, Record, ZEROED};
use heaplab_trace::{Event, EventSink, Family, Flags, Op, TraceError};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

const NO_THREAD: u32 = u32::MAX;

/// What could not be put in order or did not fit together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows written.
    pub events: u64,
    /// Objects born.
    pub objects: u64,
    /// Frees of addresses where nothing was known to live; left out.
    pub unknown_frees: u64,
    /// Reallocations of such addresses; written as births.
    pub unknown_reallocs: u64,
    /// Births at an address whose object was not known to be dead; that object is ended there.
    pub ended_by_reuse: u64,
    /// Records of a process after it cut its recording; left out.
    pub after_cut: u64,
    /// Most bytes that one process had live.
    pub peak_bytes: u64,
    /// Which process (row of the table).
    pub peak_process: u32,
    /// Time of the last row.
    pub last_ns: u64,
}

/// Something that happens at a moment outside of all rings.
#[derive(Debug)]
pub enum Action {
    /// The image (by its place in the list) begins.
    Begin(usize),
    /// A mark from outside: its name and the process it concerns.
    Mark(String, Option<u32>),
}

/// An image with its streams, as merging takes it.
#[derive(Debug)]
pub struct ImageInput {
    /// What its process file says.
    pub image: Image,
    /// Place in the list of the image that it is a fork of.
    pub parent: Option<usize>,
    /// It is the one that heaplab started.
    pub is_first: bool,
}

#[derive(Debug)]
struct ProcessState {
    tables: ImageTables,
    heap: LiveHeap,
    cut_at: u64,
    live_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReallocState {
    None,
    /// Its first stamp has passed, its second has not.
    Open,
    /// An allocation of the address that it released has pulled it forward.
    Applied,
}

#[derive(Debug)]
struct StreamState {
    process: usize,
    /// The process's row, once the stream is open.
    row: u32,
    thread: u32,
    /// The thread that one part of the ring has announced and the other has not: its tid, and whether the nested part is to follow.
    announced: Option<(u32, bool)>,
    /// The stream of the ring's main part, which knows the thread.
    main: usize,
    opened: bool,
    realloc: ReallocState,
    /// It has waited long enough.
    forced: bool,
}

enum Step {
    /// The record is dealt with.
    Done,
    /// The stream waits or is queued again.
    Away,
}

/// Merges streams into a sink.
#[derive(Debug)]
pub struct Merge<'a, S> {
    files: &'a Files,
    clock: Clock,
    sink: &'a mut S,
    /// The tables so far.
    pub builder: TableBuilder,
    /// What was counted so far.
    pub counts: Counts,
    /// Streams that ended early, and why.
    pub damage: Vec<String>,
    images: Vec<Option<ImageInput>>,
    processes: Vec<Option<ProcessState>>,
    streams_left: Vec<usize>,
    children_left: Vec<usize>,
    streams: Vec<Stream>,
    states: Vec<StreamState>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    /// The running stream goes on while its key is not above this.
    limit: u64,
    waits: Waits,
    open_reallocs: Vec<usize>,
    object: u64,
    records: u64,
}

impl<'a, S: EventSink> Merge<'a, S> {
    /// Merges `streams`, each with the place of its image in `images`.
    pub fn new(files: &'a Files, clock: Clock, sink: &'a mut S, images: Vec<ImageInput>, streams: Vec<(usize, Stream)>) -> Self {
        let mut streams_left = vec![0; images.len()];
        let mut children_left = vec![0; images.len()];
        for parent in images.iter().filter_map(|image| image.parent) {
            children_left[parent] += 1;
        }
        let mains: HashMap<_, usize> = streams
            .iter()
            .enumerate()
            .filter(|(_, (_, stream))| !stream.id.nested)
            .map(|(place, (_, stream))| (stream.id, place))
            .collect();
        let mut states = Vec::new();
        let mut queue = BinaryHeap::new();
        for (place, (process, stream)) in streams.iter().enumerate() {
            streams_left[*process] += 1;
            let main = mains.get(&crate::spool::block::RingId { nested: false, ..stream.id }).copied().unwrap_or(place);
            let realloc = ReallocState::None;
            states.push(StreamState {
                process: *process,
                row: 0,
                thread: NO_THREAD,
                announced: None,
                main,
                opened: false,
                realloc,
                forced: false,
            });
            queue.push(Reverse((stream.key, place)));
        }
        Merge {
            files,
            clock,
            sink,
            builder: TableBuilder::new(clock),
            counts: Counts::default(),
            damage: Vec::new(),
            processes: images.iter().map(|_| None).collect(),
            images: images.into_iter().map(Some).collect(),
            streams_left,
            children_left,
            streams: streams.into_iter().map(|(_, stream)| stream).collect(),
            states,
            queue,
            limit: 0,
            waits: Waits::default(),
            open_reallocs: Vec::new(),
            object: 0,
            records: 0,
        }
    }

    /// Runs to the end. `actions` are in order of time; `progress` is told now and then how many records that were.
    pub fn run(&mut self, mut actions: Vec<(u64, Action)>, progress: &mut dyn FnMut(u64)) -> Result<(), TraceError> {
        actions.reverse();
        let mut told = 0;
        loop {
            if self.records - told > 1 << 18 {
                told = self.records;
                progress(told);
            }
            let next = self.queue.peek().map(|Reverse((key, _))| *key);
            let action_key = actions.last().map(|(key, _)| *key);
            if action_key.is_some_and(|key| next.is_none_or(|next| key <= next)) {
                if self.end_waits_before(actions.last().map(|(_, action)| action)) {
                    continue;
                }
                if let Some((key, action)) = actions.pop() {
                    self.act(key, action)?;
                }
                continue;
            }
            let deadline = self.waits.deadline();
            if deadline.is_some_and(|deadline| next.is_none_or(|next| deadline < next))
                && let Some(stream) = self.waits.end_first()
            {
                self.states[stream].forced = true;
                self.enqueue(stream);
                continue;
            }
            let Some(Reverse((_, place))) = self.queue.pop() else { return Ok(()) };
            self.limit =
                [self.queue.peek().map(|Reverse((key, _))| *key), action_key, deadline].into_iter().flatten().min().unwrap_or(u64::MAX);
            self.run_stream(place)?;
        }
    }

    /// A fork copies what its parent had done by then, so that no ring of the parent may still wait with something older.
    /// Whether one did; it is queued before the fork now.
    fn end_waits_before(&mut self, action: Option<&Action>) -> bool {
        let Some(Action::Begin(child)) = action else { return false };
        let Some(parent) = self.images[*child].as_ref().and_then(|image| image.parent) else { return false };
        let Some(stream) = self.waits.end_one_of(parent) else { return false };
        self.states[stream].forced = true;
        self.enqueue(stream);
        true
    }

    fn enqueue(&mut self, place: usize) {
        let key = self.streams[place].key;
        self.limit = self.limit.min(key);
        self.queue.push(Reverse((key, place)));
    }

    fn act(&mut self, key: u64, action: Action) -> Result<(), TraceError> {
        match action {
            Action::Begin(place) => {
                self.begin(place);
                Ok(())
            }
            Action::Mark(name, pid) => {
                let process =
                    pid.and_then(|pid| self.builder.tables.processes.iter().rposition(|process| process.pid == pid)).map(|row| row as u32);
                let row = self.builder.add_mark(name, key, process);
                self.emit(Event { op: Op::Mark, object: u64::from(row), process: process.unwrap_or(0), ..Event::default() }, key)
            }
        }
    }

    fn begin(&mut self, place: usize) {
        let Some(input) = self.images[place].take() else { return };
        let heap = match input.parent {
            Some(parent) => {
                self.children_left[parent] -= 1;
                let heap = self.processes[parent].as_mut().map(|parent| parent.heap.fork()).unwrap_or_default();
                self.drop_if_over(parent);
                heap
            }
            None => LiveHeap::default(),
        };
        let cut_at = input.image.cut.map_or(u64::MAX, |(counter, _)| counter);
        let tables = self.builder.add_image(input.image, input.is_first);
        self.processes[place] = Some(ProcessState { tables, heap, cut_at, live_bytes: 0 });
        self.drop_if_over(place);
    }

    /// Forgets what lives in a process that does nothing more and that nobody will be forked from.
    fn drop_if_over(&mut self, place: usize) {
        if self.streams_left[place] == 0 && self.children_left[place] == 0 && self.images[place].is_none() {
            self.processes[place] = None;
        }
    }

    fn run_stream(&mut self, place: usize) -> Result<(), TraceError> {
        if !self.states[place].opened {
            self.states[place].opened = true;
            self.states[place].row = self.processes[self.states[place].process].as_ref().map_or(0, |process| process.tables.row);
            if self.advance(place) {
                self.enqueue(place);
            }
            return Ok(());
        }
        loop {
            if let Step::Away = self.apply(place)? {
                return Ok(());
            }
            self.states[place].forced = false;
            if !self.advance(place) {
                return Ok(());
            }
            if self.streams[place].key > self.limit {
                self.enqueue(place);
                return Ok(());
            }
        }
    }

    /// Goes to the stream's next record; closes it where there is none.
    #[inline]
    fn advance(&mut self, place: usize) -> bool {
        if self.streams[place].advance(self.files) {
            return true;
        }
        if let Some(why) = self.streams[place].damage.take() {
            let id = self.streams[place].id;
            self.damage.push(format!("ring {} of process {} (image {}) could not be read to its end: {why}", id.ring, id.pid, id.seq));
        }
        let process = self.states[place].process;
        self.streams_left[process] -= 1;
        self.drop_if_over(process);
        false
    }

    #[inline]
    fn apply(&mut self, place: usize) -> Result<Step, TraceError> {
        let record = self.streams[place].current;
        self.records += 1;
        let process = self.states[place].process;
        let Some(state) = &mut self.processes[process] else { return Ok(Step::Done) };
        if record.stamp > state.cut_at {
            self.counts.after_cut += u64::from(!matches!(record.kind, Kind::ThreadBegin | Kind::ThreadEnd | Kind::Node));
            return Ok(Step::Done);
        }
        match record.kind {
            Kind::Alloc => self.birth(place, &record),
            Kind::Free => self.death(place, &record),
            Kind::Realloc => self.reallocation(place, &record),
            Kind::UsableSizeRead => {
                let Some(found) = state.heap.get(record.address) else { return Ok(Step::Done) };
                let flags = if found.inherited { Flags::INHERITED } else { Flags::default() };
                let event = Event { op: Op::UsableSizeRead, flags, object: found.live.object, address: record.address, ..Event::default() };
                self.emit_in(place, event, record.stamp)?;
                Ok(Step::Done)
            }
            Kind::ThreadBegin => {
                self.begin_thread(place, record.address as u32, [record.size, record.usable]);
                Ok(Step::Done)
            }
            Kind::ThreadEnd => {
                self.builder.name_thread(self.states[self.states[place].main].thread, [record.size, record.usable]);
                Ok(Step::Done)
            }
            Kind::Node => {
                // A caller that is not known leaves its callees as outermost frames.
                let parent = u32::try_from(record.size).ok().and_then(|parent| self.streams[place].stack_of(parent)).unwrap_or(0);
                let row = self.builder.define(&mut state.tables, parent, record.address, record.stamp);
                self.streams[place].define(record.stack, row);
                Ok(Step::Done)
            }
            Kind::Mark => {
                let (row, name) = (state.tables.row, self.streams[place].mark_name());
                let object = u64::from(self.builder.add_mark(name, record.stamp, Some(row)));
                self.emit_in(place, Event { op: Op::Mark, object, ..Event::default() }, record.stamp)?;
                Ok(Step::Done)
            }
        }
    }

    fn birth(&mut self, place: usize, record: &Record) -> Result<Step, TraceError> {
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
    fn death(&mut self, place: usize, record: &Record) -> Result<Step, TraceError> {
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

    fn dead(&mut self, place: usize, found: Found, address: u64, stamp: u64) -> Result<(), TraceError> {
        let flags = if found.inherited { Flags::INHERITED } else { Flags::default() };
        if !found.inherited {
            self.shrink(self.states[place].process, found.live.size);
        }
        self.emit_in(place, Event { op: Op::Free, flags, object: found.live.object, address, ..Event::default() }, stamp)
    }

    fn reallocation(&mut self, place: usize, record: &Record) -> Result<Step, TraceError> {
        let process = self.states[place].process;
        if record.flags & FAILED != 0 || record.address == 0 {
            if let Some(found) = self.heap(process).get(record.old_address) {
                let flags = if found.inherited { Flags::FAILED.with(Flags::INHERITED) } else { Flags::FAILED };
                let event = Event { op: Op::Realloc, address: record.old_address, ..self.born(place, record, found.live.object, flags) };
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
            // Somebody else does something before it is over.
            ReallocState::None if moved && record.after > self.limit => {
                self.states[place].realloc = ReallocState::Open;
                self.open_reallocs.push(place);
                self.streams[place].key = self.streams[place].key.max(record.after);
                self.enqueue(place);
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

    fn reallocate(&mut self, place: usize, record: &Record, moved: bool) -> Result<Step, TraceError> {
        let process = self.states[place].process;
        let stamp = if moved { record.after } else { record.stamp };
        if self.heap(process).get(record.old_address).is_none() && self.may_park(place, record.old_address, true) {
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
                // Of an inherited object only the copy ends; of an unknown one nothing is known. The rest is a birth.
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

    /// Something lives where a birth is to be: pulls the reallocation forward that released it, or waits, or ends it.
    #[cold]
    fn vacate(&mut self, place: usize, address: u64, stamp: u64) -> Result<Step, TraceError> {
        let process = self.states[place].process;
        let releases =
            |open: &usize| *open != place && self.states[*open].process == process && self.streams[*open].current.old_address == address;
        if let Some(at) = self.open_reallocs.iter().position(releases) {
            let open = self.open_reallocs.swap_remove(at);
            self.states[open].realloc = ReallocState::Applied;
            let record = self.streams[open].current;
            // It is out of the list, so that this ends; it may not wait, because somebody waits for it.
            let forced = std::mem::replace(&mut self.states[open].forced, true);
            self.reallocate(open, &record, true)?;
            self.states[open].forced = forced;
        }
        if self.heap(process).get(address).is_none() {
            return Ok(Step::Done);
        }
        if self.may_park(place, address, false) {
            return Ok(Step::Away);
        }
        if let Some(found) = self.heap(process).remove(address) {
            self.counts.ended_by_reuse += 1;
            self.dead(place, found, address, stamp)?;
        }
        Ok(Step::Done)
    }

    /// Makes the stream wait for `address`, where it may wait and somebody could make it true.
    #[cold]
    fn may_park(&mut self, place: usize, address: u64, birth: bool) -> bool {
        let process = self.states[place].process;
        if self.states[place].forced || self.streams_left[process] < 2 {
            return false;
        }
        self.waits.park(place, self.streams[place].key, Wanted { process, address, birth });
        true
    }

    /// Something was born (or died) at `address`: whoever waited for it goes on.
    #[inline]
    fn wake(&mut self, process: usize, address: u64, birth: bool) {
        if let Some(stream) = self.waits.end_for(Wanted { process, address, birth }) {
            self.enqueue(stream);
        }
    }

    #[inline]
    fn heap(&mut self, process: usize) -> &mut LiveHeap {
        // `apply` has seen that the process is there, and nothing but the end of its last stream takes it away.
        match &mut self.processes[process] {
            Some(state) => &mut state.heap,
            None => unreachable!("a stream outlives its process"),
        }
    }

    #[inline]
    fn grow(&mut self, process: usize, bytes: u64) {
        if let Some(state) = &mut self.processes[process] {
            state.live_bytes = state.live_bytes.saturating_add(bytes);
            if state.live_bytes > self.counts.peak_bytes {
                (self.counts.peak_bytes, self.counts.peak_process) = (state.live_bytes, state.tables.row);
            }
        }
    }

    #[inline]
    fn shrink(&mut self, process: usize, bytes: u64) {
        if let Some(state) = &mut self.processes[process] {
            state.live_bytes = state.live_bytes.saturating_sub(bytes);
        }
    }

    /// The row of a birth.
    #[inline]
    fn born(&mut self, place: usize, record: &Record, object: u64, flags: Flags) -> Event {
        let stack = self.streams[place].stack_of(record.stack).unwrap_or_else(|| {
            self.builder.unknown_stacks += 1;
            0
        });
        Event {
            op: Op::Alloc,
            flags: if record.flags & ZEROED != 0 { flags.with(Flags::ZEROED) } else { flags },
            family: Family::from_number(record.flags >> FAMILY_SHIFT & 3).unwrap_or_default(),
            align_log2: record.align_log2,
            stack,
            object,
            size: record.size,
            usable: record.usable,
            address: record.address,
            ..Event::default()
        }
    }

    /// Writes a row of the stream's thread.
    #[inline(always)]
    fn emit_in(&mut self, place: usize, mut event: Event, stamp: u64) -> Result<(), TraceError> {
        let state = &self.states[place];
        event.process = state.row;
        event.thread = self.states[state.main].thread;
        if event.thread == NO_THREAD {
            event.thread = self.unnamed_thread(place);
        }
        self.emit(event, stamp)
    }

    #[inline(always)]
    fn emit(&mut self, mut event: Event, stamp: u64) -> Result<(), TraceError> {
        event.time_ns = self.clock.ns(stamp);
        self.counts.events += 1;
        self.counts.last_ns = self.counts.last_ns.max(event.time_ns);
        self.sink.push(&event)
    }

    /// A thread takes the ring up. Both parts of the ring say so, in either order; the first makes the row.
    fn begin_thread(&mut self, place: usize, tid: u32, name: [u64; 2]) {
        let (row, main) = (self.states[place].row, self.states[place].main);
        if self.states[main].announced == Some((tid, place != main)) {
            self.states[main].announced = None;
            return;
        }
        self.states[main].announced = Some((tid, place == main));
        self.states[main].thread = self.builder.add_thread(row, tid, name);
    }

    /// A thread whose beginning was not recorded.
    #[cold]
    fn unnamed_thread(&mut self, place: usize) -> u32 {
        let (row, main) = (self.states[place].row, self.states[place].main);
        self.states[main].thread = self.builder.add_thread(row, 0, [0; 2]);
        self.states[main].thread
    }

    /// Objects born so far.
    pub fn objects(&self) -> u64 {
        self.object
    }
}
