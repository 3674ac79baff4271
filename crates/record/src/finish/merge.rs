//! All rings as one sequence, in a legal order.
//!
//! # The order, and why there is a legal one
//! Rings are merged by stamp. A free is stamped before its call and an allocation after its call.
//! When address X passes from one thread to another, then stamp(free X) < X is released < X is
//! taken < stamp(alloc X): the merged order is legal as it is. Only a moving reallocation acts at
//! an instant without a stamp: it takes Y and releases X somewhere between its two stamps. It is
//! placed at its second stamp, or, if an allocation of X comes first, right before that allocation.
//! That place is legal: an allocator copies before it releases, so Y was taken no later than X was
//! released. The previous holder of Y stamped its free before releasing Y, hence stamp(free Y) < Y
//! taken <= X released < X taken again < stamp(alloc X), and that free has been placed already. If
//! the allocation of X is itself a moving reallocation, the same holds for it: both are placed one
//! after the other along X. The chain ends because each step goes back in real time.
//!
//! This assumes that each stamp is read in program order. But processors read their counter ahead
//! of earlier instructions that wait for another processor, such as for a lock. Reading it in order
//! (`lfence`, `rdtscp`) would make each event wait for all before it, and cost more than the rest
//! of the hook. So an allocation at a live address, or a free of a dead one, waits for a while,
//! together with its ring (see [`super::waits`]). In the true order every ring advances and every
//! address alternates between birth and death: the awaited event is in another ring. Rings may wait
//! for each other, if a free came too early and ended the life before its own. Then one record is
//! set aside until its address allows it, and its ring goes on (see `parking`). Records that remain
//! impossible are resolved as losses and counted, never left wrong: see [`Counts`].

mod parking;
mod plain;
mod rows;

use super::live_heap::{Around, LiveHeap};
use super::residence::{Residence, ResidenceMoment};
use super::streams::{Files, Stream};
use super::tables::{ImageTables, TableBuilder};
use super::waits::Waits;
use crate::clock::Clock;
use crate::image::Image;
use heaplab_trace::tables::ResidentPart;
use heaplab_trace::{Event, EventSink, Op, TraceError};
use plain::Ended;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

const NO_THREAD: u32 = u32::MAX;
/// Most resident bytes of a part; addresses of programs have fewer bits.
const RESIDENT_BYTES_MAX: u64 = (1 << 48) - 1;

/// Counts of records that could not be ordered or did not fit together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows written.
    pub events: u64,
    /// Objects born.
    pub objects: u64,
    /// Frees of addresses without a known live object; left out.
    pub unknown_frees: u64,
    /// Reallocations of such addresses; written as births.
    pub unknown_reallocs: u64,
    /// Births at an address with a live object; the birth ends that object.
    pub ended_by_reuse: u64,
    /// Records of a process after its cut; left out.
    pub after_cut: u64,
    /// Peak of live bytes in one process.
    pub peak_bytes: u64,
    /// The process of that peak (row of the table).
    pub peak_process: u32,
    /// Time of the last row.
    pub last_ns: u64,
}

/// An event outside of all rings, at a given moment.
#[derive(Debug)]
pub enum Action {
    /// The image (by its index in the list) begins.
    Begin(usize),
    /// A mark from outside: its name and process.
    Mark(String, Option<u32>),
    /// The resident memory of the image (by its index in the list).
    Resident(usize, Box<ResidenceMoment>),
}

/// An image with its streams, the input of merging.
#[derive(Debug)]
pub struct ImageInput {
    /// The content of its process file.
    pub image: Image,
    /// Index of the image that it is a fork of.
    pub parent: Option<usize>,
    /// heaplab started this image.
    pub is_first: bool,
}

#[derive(Debug)]
struct ProcessState {
    tables: ImageTables,
    heap: LiveHeap,
    residence: Residence,
    cut_at: u64,
    live_bytes: u64,
    around: Around,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReallocState {
    None,
    /// Past its first stamp, before its second.
    Open,
    /// An allocation of the released address has pulled it forward.
    Applied,
}

#[derive(Debug)]
struct StreamState {
    process: usize,
    /// The process's row, once the stream is open.
    row: u32,
    thread: u32,
    /// The thread that one part of the ring has announced and the other has not: its tid, and
    /// whether the nested part is still to follow.
    announced: Option<(u32, bool)>,
    /// The stream of the ring's main part, which knows the thread.
    main: usize,
    opened: bool,
    realloc: ReallocState,
    /// The stream has waited long enough.
    forced: bool,
    /// The stream is one record that was set aside; it has waited since this stamp.
    aside_since: Option<u64>,
}

enum Step {
    /// The record is done.
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
    /// Counts so far.
    pub counts: Counts,
    /// Streams that ended early, and why.
    pub damage: Vec<String>,
    images: Vec<Option<ImageInput>>,
    processes: Vec<Option<ProcessState>>,
    streams_left: Vec<usize>,
    children_left: Vec<usize>,
    /// Moments to come of each image's resident memory.
    moments_left: Vec<usize>,
    /// Parts of resident memory so far.
    pub resident: Vec<ResidentPart>,
    streams: Vec<Stream>,
    states: Vec<StreamState>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    /// The running stream goes on while its key is at most this.
    limit: u64,
    waits: Waits,
    open_reallocs: Vec<usize>,
    /// Waiting records that were set aside, and the slots of finished ones.
    aside: usize,
    spare: Vec<usize>,
    object: u64,
    records: u64,
}

impl<'a, S: EventSink> Merge<'a, S> {
    /// Merges `streams`, each with its image's index in `images`; cuts stacks to `stack_depth`
    /// frames.
    pub fn new(
        files: &'a Files,
        clock: Clock,
        stack_depth: u32,
        sink: &'a mut S,
        images: Vec<ImageInput>,
        streams: Vec<(usize, Stream)>,
    ) -> Self {
        let mut streams_left = vec![0; images.len()];
        let moments_left = vec![0; images.len()];
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
            moments_left,
            resident: Vec::new(),
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

    /// Runs to the end. `actions` are in order of time; `progress` gets the number of records now
    /// and then.
    pub fn run(
        &mut self,
        mut actions: Vec<(u64, Action)>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), TraceError> {
        for (_, action) in &actions {
            if let Action::Resident(place, _) = action {
                self.moments_left[*place] += 1;
            }
        }
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
            Action::Resident(place, moment) => {
                self.divide(place, &moment);
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

    /// Divides the resident memory of a process at this moment.
    fn divide(&mut self, place: usize, moment: &ResidenceMoment) {
        self.moments_left[place] -= 1;
        if let Some(process) = &mut self.processes[place] {
            let time_ns = self.clock.ns(moment.counter);
            let parts = process.residence.divide(moment, &process.heap);
            for ((kind, name, stack), figures) in parts.by_key {
                self.resident.push(ResidentPart {
                    time_ns,
                    process: process.tables.row,
                    kind,
                    name,
                    stack: self.builder.stack_row(stack),
                    // What no kernel says would make the bundle unreadable.
                    bytes: figures.bytes.min(RESIDENT_BYTES_MAX),
                    huge_bytes: figures.huge_bytes.min(RESIDENT_BYTES_MAX),
                    mappings: figures.mappings,
                    reserved_bytes: figures.reserved_bytes.min(RESIDENT_BYTES_MAX),
                    committed_bytes: figures.committed_bytes.min(RESIDENT_BYTES_MAX),
                });
            }
        }
        self.drop_if_over(place);
    }

    fn begin(&mut self, place: usize) {
        let Some(input) = self.images[place].take() else { return };
        let (heap, residence) = match input.parent {
            Some(parent) => {
                self.children_left[parent] -= 1;
                let copies = self.processes[parent]
                    .as_mut()
                    .map(|parent| (parent.heap.fork(), parent.residence.clone()))
                    .unwrap_or_default();
                self.drop_if_over(parent);
                copies
            }
            None => Default::default(),
        };
        let cut_at = input.image.cut.map_or(u64::MAX, |(counter, _)| counter);
        let tables = self.builder.add_image(input.image, input.is_first);
        self.processes[place] = Some(ProcessState {
            tables,
            heap,
            residence,
            cut_at,
            live_bytes: 0,
            around: Around::default(),
        });
        self.drop_if_over(place);
    }

    /// Forgets the live blocks of a process that does nothing more and has no forks to come.
    fn drop_if_over(&mut self, place: usize) {
        if self.streams_left[place] == 0
            && self.children_left[place] == 0
            && self.moments_left[place] == 0
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

    /// Goes to the stream's next record; closes the stream at its end.
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
