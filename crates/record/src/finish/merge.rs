//! All rings as one sequence, in a legal order.
//!
//! # The order, and why there is a legal one
//! Rings are merged by stamp. A free is stamped before its call and an allocation after it. When
//! address X passes from one thread to another, then stamp(free X) < X is released < X is taken <
//! stamp(alloc X): the merged order is legal as it is. Only a reallocation that moves acts at an
//! instant that no stamp names: it takes Y and releases X somewhere between its two stamps. It is
//! placed at its second stamp, or, if an allocation of X comes first, right before that allocation.
//! That place is legal: an allocator copies before it lets go, so Y was taken no later than X was
//! released; whoever held Y before stamped its free before releasing it, hence stamp(free Y) < Y
//! taken <= X released < X taken again < stamp(alloc X), and that free has been placed already. If
//! the allocation of X is itself such a reallocation, the same holds for it: they are placed one
//! after the other along X, which ends because each step goes back in real time.
//!
//! This rests on stamps that are read where they stand. Processors read their counter ahead of what
//! precedes it, while that waits for another processor, as for a lock that it holds. Reading it in
//! its place (`lfence`, `rdtscp`) would make each event wait for all before it, which costs more
//! than all else that the hook does. So an allocation at an address that lives, or a free of one
//! that does not, waits, and its ring with it, for a while (see [`super::waits`]). The true order
//! is one in which every ring advances and every address alternates between birth and death, so
//! that the event waited for is in another ring. Where rings wait for each other, because a free
//! that came too early ended the life before the one it was of, one record is set aside until its
//! address allows it and its ring goes on (see `parking`). What is still impossible then is
//! resolved as a loss and counted, never left wrong: see [`Counts`].

mod parking;
mod plain;
mod rows;

use super::live_heap::LiveHeap;
use super::streams::{Files, Stream};
use super::tables::{ImageTables, TableBuilder};
use super::waits::Waits;
use crate::clock::Clock;
use crate::image::Image;
use heaplab_trace::{Event, EventSink, Op, TraceError};
use plain::Ended;
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
    /// The thread that one part of the ring has announced and the other has not: its tid, and
    /// whether the nested part is to follow.
    announced: Option<(u32, bool)>,
    /// The stream of the ring's main part, which knows the thread.
    main: usize,
    opened: bool,
    realloc: ReallocState,
    /// It has waited long enough.
    forced: bool,
    /// It is one record that was set aside, which waits from here on.
    aside_since: Option<u64>,
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
    /// Records set aside that wait, and places of those that are over.
    aside: usize,
    spare: Vec<usize>,
    object: u64,
    records: u64,
}

impl<'a, S: EventSink> Merge<'a, S> {
    /// Merges `streams`, each with the place of its image in `images`; stacks are cut to
    /// `stack_depth` frames.
    pub fn new(
        files: &'a Files,
        clock: Clock,
        stack_depth: u32,
        sink: &'a mut S,
        images: Vec<ImageInput>,
        streams: Vec<(usize, Stream)>,
    ) -> Self {
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
            let main = mains
                .get(&crate::spool::block::RingId { nested: false, ..stream.id })
                .copied()
                .unwrap_or(place);
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
                aside_since: None,
            });
            queue.push(Reverse((stream.key, place)));
        }
        Merge {
            files,
            clock,
            sink,
            builder: TableBuilder::new(clock, stack_depth),
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
            aside: 0,
            spare: Vec::new(),
            object: 0,
            records: 0,
        }
    }

    /// Runs to the end. `actions` are in order of time; `progress` is told now and then how many
    /// records that were.
    pub fn run(
        &mut self,
        mut actions: Vec<(u64, Action)>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), TraceError> {
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
                && let Some((stream, since)) = self.waits.end_first()
            {
                self.end_wait(stream, since);
                continue;
            }
            let Some(Reverse((_, place))) = self.queue.pop() else { return Ok(()) };
            self.limit = [self.queue.peek().map(|Reverse((key, _))| *key), action_key, deadline]
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(u64::MAX);
            self.run_stream(place)?;
        }
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
                let process = pid
                    .and_then(|pid| {
                        self.builder.tables.processes.iter().rposition(|process| process.pid == pid)
                    })
                    .map(|row| row as u32);
                let row = self.builder.add_mark(name, key, process);
                self.emit(
                    Event {
                        op: Op::Mark,
                        object: u64::from(row),
                        process: process.unwrap_or(0),
                        ..Event::default()
                    },
                    key,
                )
            }
        }
    }

    fn begin(&mut self, place: usize) {
        let Some(input) = self.images[place].take() else { return };
        let heap = match input.parent {
            Some(parent) => {
                self.children_left[parent] -= 1;
                let heap = self.processes[parent]
                    .as_mut()
                    .map(|parent| parent.heap.fork())
                    .unwrap_or_default();
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
        if self.streams_left[place] == 0
            && self.children_left[place] == 0
            && self.images[place].is_none()
        {
            self.processes[place] = None;
        }
    }

    fn run_stream(&mut self, place: usize) -> Result<(), TraceError> {
        if !self.states[place].opened {
            self.states[place].opened = true;
            self.states[place].row = self.processes[self.states[place].process]
                .as_ref()
                .map_or(0, |process| process.tables.row);
            if self.advance(place) {
                self.enqueue(place);
            }
            return Ok(());
        }
        loop {
            match self.run_plain(place)? {
                Ended::Special => {}
                Ended::Later => {
                    self.enqueue(place);
                    return Ok(());
                }
                Ended::Over => {
                    self.close(place);
                    return Ok(());
                }
            }
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
        self.close(place);
        false
    }

    /// The stream has no more records.
    #[cold]
    fn close(&mut self, place: usize) {
        if let Some(why) = self.streams[place].damage.take() {
            let id = self.streams[place].id;
            self.damage.push(format!(
                "ring {} of process {} (image {}) could not be read to its end: {why}",
                id.ring, id.pid, id.seq
            ));
        }
        if self.states[place].aside_since.is_some() {
            self.aside -= 1;
            self.spare.push(place);
        }
        let process = self.states[place].process;
        self.streams_left[process] -= 1;
        self.drop_if_over(process);
    }

    #[inline(always)]
    fn emit(&mut self, mut event: Event, stamp: u64) -> Result<(), TraceError> {
        event.time_ns = self.clock.ns(stamp);
        event.stack = self.builder.stack_row(event.stack);
        self.counts.events += 1;
        self.counts.last_ns = self.counts.last_ns.max(event.time_ns);
        self.sink.push(&event)
    }

    /// Objects born so far.
    pub fn objects(&self) -> u64 {
        self.object
    }
}
