//! One OS thread a recorded thread, with what one thread does to another's block kept in order.
//!
//! What must stay in order is what happens to one slot: a block is born, grows and dies in that order, and its slot is
//! used again only then. Each instruction on a slot has a number, counted per slot. Where two that follow each other
//! are by different threads, the earlier one **publishes** its number in the slot's counter (with release order) and the
//! later one **waits** until it is there (with acquire order). Everything else runs freely: threads that do not share
//! blocks never wait for each other. Since slots go back to the thread that freed them (the compiler sees to it), most
//! of these edges are real cross-thread frees.
//!
//! The edges come from a recorded order in which every instruction comes after all that it waits for, so there is no
//! cycle and no deadlock. Marks are barriers: all threads reach one before any goes on. When space is measured every
//! checkpoint is one.
//!
//! A thread exists from the segment (between two barriers) of its first instruction to that of its last, as
//! recorded threads come and go, so that what allocators do at a thread's end happens.

use crate::cell::Runs;
use crate::driver::{ReplayError, release, run};
use crate::pages::{Pages, Zeroable};
use crate::{Table, Touch, system};
use heaplab_heap::Allocating;
use heaplab_trace::program::{Program, Step};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;

/// Threads that may exist at once.
const ALIVE_MAX: usize = 2048;
/// Looks at a counter before the processor is given to somebody else.
const SPINS: u32 = 100;

/// A place in a thread's instructions at which something is to be done about the order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    /// Before the instruction at this word of the thread's.
    at: u64,
    /// 0: publish, 1: wait. A publication belongs to the instruction before, so it comes first.
    waits: u32,
    slot: u32,
    number: u64,
}

// SAFETY: integers; zero is a value.
unsafe impl Zeroable for Edge {}

/// How far a thread goes in a segment.
#[derive(Clone, Copy)]
struct Stretch {
    thread: u32,
    /// Word of the thread's instructions at which the segment ends.
    end: u64,
}

// SAFETY: integers; zero is a value.
unsafe impl Zeroable for Stretch {}

/// The last instruction on a slot.
#[derive(Clone, Copy)]
struct Last {
    /// Its number on the slot; 0: there was none.
    number: u64,
    /// Word behind it in its thread's instructions.
    behind: u64,
    thread: u32,
}

// SAFETY: integers; zero is a value.
unsafe impl Zeroable for Last {}

#[derive(Default)]
struct Lane {
    words: Pages<u32>,
    edges: Pages<Edge>,
    /// Words at the last barrier.
    cut: u64,
}

/// The program taken apart: instructions and edges for each thread, stretches for each segment.
struct Plan {
    lanes: Vec<Lane>,
    stretches: Pages<Stretch>,
    /// For each segment, where its stretches end.
    segments: Pages<u64>,
}

impl Plan {
    /// `every_checkpoint`: all checkpoints are barriers, not only marks.
    fn new(program: &Program, every_checkpoint: bool) -> Result<Plan, ReplayError> {
        let facts = program.facts();
        if facts.regions > 0 {
            return Err(ReplayError::Threads("a program with arenas is replayed in recorded order (without --threads)".into()));
        }
        // Every thread has an instruction of one word at least.
        let threads = (facts.threads.max(1) as usize).min(program.words().len().max(1));
        let mut plan = Plan { lanes: Vec::new(), stretches: Pages::new(), segments: Pages::new() };
        plan.lanes.resize_with(threads, Lane::default);
        let mut last: Pages<Last> = Pages::zeroed(facts.slots as usize)?;
        let words = program.words();
        let end = words.len() as u64;
        let barriers = program.checkpoints().iter();
        let mut barriers = barriers.filter(|checkpoint| every_checkpoint || checkpoint.mark.is_some() || checkpoint.word == end).peekable();
        let (mut thread, mut at) = (0, 0);
        loop {
            while barriers.next_if(|barrier| barrier.word <= at as u64).is_some() {
                plan.cut()?;
            }
            let word = at;
            let Some(step) = heaplab_trace::program::decode(words, &mut at)? else { break };
            match step {
                Step::Thread { thread: next } => {
                    let outside = || ReplayError::Threads(format!("word {word} of the replay program: thread {next} of {threads}"));
                    thread = Some(next as usize).filter(|next| *next < threads).ok_or_else(outside)?;
                }
                Step::Free { slot } | Step::Allocate { slot, .. } | Step::Reallocate { slot, .. } | Step::UsableSize { slot } => {
                    let outside = ReplayError::Slot { word, slot, found: "outside of the table" };
                    let last = last.as_mut_slice().get_mut(slot as usize).ok_or(outside)?;
                    plan.instruction(thread, slot, last, &words[word..at])?;
                }
                Step::RegionBirth { .. } | Step::RegionDeath { .. } => {
                    return Err(ReplayError::Threads(format!("word {word} of the replay program: an arena in a program without arenas")));
                }
            }
        }
        for lane in &mut plan.lanes {
            lane.edges.as_mut_slice().sort_unstable();
        }
        Ok(plan)
    }

    fn instruction(&mut self, thread: usize, slot: u32, last: &mut Last, words: &[u32]) -> Result<(), ReplayError> {
        if last.number != 0 && last.thread as usize != thread {
            let earlier = Edge { at: last.behind, waits: 0, slot, number: last.number };
            self.lanes[last.thread as usize].edges.push(earlier)?;
            let lane = &mut self.lanes[thread];
            lane.edges.push(Edge { at: lane.words.len() as u64, waits: 1, slot, number: last.number })?;
        }
        let lane = &mut self.lanes[thread];
        lane.words.extend(words)?;
        *last = Last { number: last.number + 1, behind: lane.words.len() as u64, thread: thread as u32 };
        Ok(())
    }

    /// A barrier: whoever did something since the last one has a stretch up to here.
    fn cut(&mut self) -> Result<(), ReplayError> {
        for (thread, lane) in self.lanes.iter_mut().enumerate() {
            let end = lane.words.len() as u64;
            if end > lane.cut {
                lane.cut = end;
                self.stretches.push(Stretch { thread: thread as u32, end })?;
            }
        }
        self.segments.push(self.stretches.len() as u64)?;
        Ok(())
    }
}

/// What all threads of a pass share.
struct Shared<'a> {
    table: &'a Table,
    /// For each slot, the number of the last published instruction on it.
    published: &'a Pages<AtomicU64>,
    touch: Touch,
    /// Threads that have not yet reached the end of the segment.
    running: AtomicUsize,
    coordinator: Thread,
    failed: AtomicBool,
    failure: Mutex<Option<ReplayError>>,
}

impl Shared<'_> {
    fn fail(&self, error: ReplayError) {
        if let Ok(mut failure) = self.failure.lock() {
            failure.get_or_insert(error);
        }
        self.failed.store(true, Ordering::Release);
    }

    /// Waits until instruction `number` on `slot` is done; false: another thread failed and it never will be.
    fn wait(&self, slot: u32, number: u64) -> bool {
        let counter = &self.published[slot as usize];
        let mut looks = 0_u32;
        while counter.load(Ordering::Acquire) < number {
            looks += 1;
            if looks < SPINS {
                std::hint::spin_loop();
                continue;
            }
            if self.failed.load(Ordering::Acquire) {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }
}

/// A thread's place in its own instructions.
struct Worker<'a, H> {
    lane: &'a Lane,
    heap: H,
    at: usize,
    edge: usize,
}

impl<H: Allocating> Worker<'_, H> {
    fn run_to(&mut self, end: u64, shared: &Shared) {
        if let Err(error) = self.stretch(end, shared) {
            shared.fail(error);
        }
    }

    fn stretch(&mut self, end: u64, shared: &Shared) -> Result<(), ReplayError> {
        while let Some(edge) = self.lane.edges.get(self.edge).filter(|edge| edge.at < end + u64::from(edge.waits == 0)) {
            run(shared.touch, &self.lane.words, &mut self.at, edge.at as usize, shared.table, &mut self.heap)?;
            if edge.waits == 0 {
                shared.published[edge.slot as usize].store(edge.number, Ordering::Release);
            } else if !shared.wait(edge.slot, edge.number) {
                return Ok(());
            }
            self.edge += 1;
        }
        run(shared.touch, &self.lane.words, &mut self.at, end as usize, shared.table, &mut self.heap)
    }
}

/// A program on many threads.
pub(crate) struct Threaded<'a, H> {
    program: &'a Program,
    heap: H,
    plan: Plan,
    table: Table,
    published: Pages<AtomicU64>,
    /// Whether every checkpoint is a barrier.
    every_checkpoint: bool,
}

impl<'a, H: Allocating + Clone + Send> Threaded<'a, H> {
    pub(crate) fn new(program: &'a Program, heap: H, every_checkpoint: bool) -> Result<Self, ReplayError> {
        let slots = program.facts().slots as usize;
        let (table, published) = (Table::zeroed(slots)?, Pages::zeroed(slots)?);
        Ok(Threaded { program, heap, plan: Plan::new(program, every_checkpoint)?, table, published, every_checkpoint })
    }

    fn run_pass(&mut self, touch: Touch, mut at_barrier: impl FnMut(&mut H) -> Result<(), ReplayError>) -> Result<(), ReplayError> {
        let Threaded { heap, plan, table, published, .. } = self;
        let shared = Shared {
            table,
            published,
            touch,
            running: AtomicUsize::new(0),
            coordinator: std::thread::current(),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        };
        let lanes = &plan.lanes;
        // Where each thread is to stop; one word a thread, read by it when it is woken.
        let goals: Vec<AtomicU64> = lanes.iter().map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            let mut handles: Vec<Option<Thread>> = vec![None; lanes.len()];
            let mut alive = 0;
            let mut first = 0;
            for segment in plan.segments.iter() {
                let stretches = &plan.stretches[first..*segment as usize];
                first = *segment as usize;
                shared.running.store(stretches.len(), Ordering::Release);
                for Stretch { thread, end } in stretches {
                    let index = *thread as usize;
                    goals[index].store(*end, Ordering::Release);
                    if let Some(handle) = &handles[index] {
                        handle.unpark();
                    } else {
                        alive += 1;
                        let (lane, goal, shared, heap) = (&lanes[index], &goals[index], &shared, heap.clone());
                        let builder = std::thread::Builder::new().stack_size(256 << 10);
                        let spawned = builder.spawn_scoped(scope, move || work(lane, heap, goal, shared));
                        match spawned {
                            Ok(handle) if alive <= ALIVE_MAX => handles[index] = Some(handle.thread().clone()),
                            other => {
                                let why = other.err().map_or_else(|| format!("more than {ALIVE_MAX} at once"), |error| error.to_string());
                                shared.fail(ReplayError::Threads(format!("{why}: replay it in recorded order (without --threads)")));
                                release_workers(&goals, &handles);
                                return;
                            }
                        }
                    }
                    alive -= usize::from(*end == lanes[index].words.len() as u64);
                }
                while shared.running.load(Ordering::Acquire) > 0 && !shared.failed.load(Ordering::Acquire) {
                    std::thread::park();
                }
                if !shared.failed.load(Ordering::Acquire)
                    && let Err(error) = at_barrier(heap)
                {
                    shared.fail(error);
                }
                if shared.failed.load(Ordering::Acquire) {
                    release_workers(&goals, &handles);
                    return;
                }
            }
        });
        match shared.failure.into_inner() {
            Ok(None) => Ok(()),
            Ok(Some(error)) => Err(error),
            Err(_) => Err(ReplayError::Threads("a thread of the driver panicked".into())),
        }
    }
}

/// Wakes every thread so that it sees the failure and ends.
fn release_workers(goals: &[AtomicU64], handles: &[Option<Thread>]) {
    for (goal, handle) in goals.iter().zip(handles) {
        goal.store(u64::MAX, Ordering::Release);
        if let Some(handle) = handle {
            handle.unpark();
        }
    }
}

/// The life of a thread: run to the goal, say so, sleep until there is another; end with the last instruction.
fn work<H: Allocating>(lane: &Lane, heap: H, goal: &AtomicU64, shared: &Shared) {
    let mut worker = Worker { lane, heap, at: 0, edge: 0 };
    let mut done = 0;
    loop {
        let end = goal.load(Ordering::Acquire);
        if shared.failed.load(Ordering::Acquire) {
            break;
        }
        if end > done {
            worker.run_to(end, shared);
            done = end;
            if shared.running.fetch_sub(1, Ordering::AcqRel) == 1 || shared.failed.load(Ordering::Acquire) {
                shared.coordinator.unpark();
            }
        }
        if done == lane.words.len() as u64 || shared.failed.load(Ordering::Acquire) {
            break;
        }
        if goal.load(Ordering::Acquire) == done {
            std::thread::park();
        }
    }
    shared.coordinator.unpark();
}

impl<H: Allocating + Clone + Send> Runs for Threaded<'_, H> {
    type Heap = H;

    fn heap(&mut self) -> &mut H {
        &mut self.heap
    }

    fn pass(&mut self, touch: Touch) -> Result<(), ReplayError> {
        self.run_pass(touch, |_| Ok(()))
    }

    fn pass_with(&mut self, touch: Touch, each: impl FnMut(&mut H) -> Result<(), ReplayError>) -> Result<(), ReplayError> {
        debug_assert!(self.every_checkpoint && self.plan.segments.len() == self.program.checkpoints().len());
        self.run_pass(touch, each)
    }

    fn rewind(&mut self) {
        release(&self.table, &mut self.heap);
        for counter in self.published.iter() {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// The time that passes, which is what threads are for.
    fn clock() -> u64 {
        system::wall_ns()
    }
}
