//! One OS thread a recorded thread, with what one thread does to another's block kept in order.
//!
//! What must stay in order is what happens to one slot: a block is born, grows and dies in that
//! order, and its slot is used again only then. Each instruction on a slot has a number, counted
//! per slot. Where two that follow each other are by different threads, the earlier one
//! **publishes** its number in the slot's counter (with release order) and the later one **waits**
//! until it is there (with acquire order). Everything else runs freely: threads that do not share
//! blocks never wait for each other. Since slots go back to the thread that freed them (the
//! compiler sees to it), most of these edges are real cross-thread frees.
//!
//! The edges come from a recorded order in which every instruction comes after all that it waits
//! for, so there is no cycle and no deadlock. Marks are barriers: all threads reach one before any
//! goes on. When space is measured every checkpoint is one.
//!
//! A thread ends with its last instruction, so that what allocators do at a thread's end happens,
//! and begins in the recorded order of first instructions, not before there is room: no more exist
//! at once than did in the recording. That cannot block. If a thread waits for room, one of those
//! that exist had its last instruction, in recorded order, before that thread's first; all that it
//! still has to do comes before that too, and so does all that it waits for, whose threads have
//! begun. The recorded order goes on wherever it stands.

mod order;
mod plan;

use crate::cell::Runs;
use crate::driver::{ReplayError, run};
use crate::pages::Pages;
use crate::{Table, Touch, system};
use heaplab_heap::Manual;
use heaplab_trace::program::Program;
use order::Order;
use plan::{Lane, Plan, Stretch};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{Builder, Scope, Thread};

/// Threads that may exist at once.
const ALIVE_MAX: usize = 2048;
/// Threads that a pass starts: each costs the system some 80 us, which are twenty seconds of
/// nothing else.
pub const STARTED_MAX: u32 = 1 << 18;

/// What all threads of a pass share.
struct Shared<'a> {
    table: &'a Table,
    order: &'a Order,
    touch: Touch,
    /// Threads that have not yet reached the end of the segment.
    running: AtomicUsize,
    /// Threads that exist.
    alive: AtomicUsize,
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

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }
}

/// A thread that exists. However it ends, the others learn of it: they would wait for ever for one
/// that panicked.
struct Presence<'a>(&'a Shared<'a>);

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(ReplayError::Threads("a thread of the driver panicked".into()));
        }
        self.0.alive.fetch_sub(1, Ordering::AcqRel);
        self.0.coordinator.unpark();
    }
}

/// A thread's place in its own instructions.
struct Worker<'a, H> {
    lane: Lane<'a>,
    heap: H,
    at: usize,
    edge: usize,
}

impl<H: Manual> Worker<'_, H> {
    fn run_to(&mut self, end: u64, shared: &Shared) {
        if let Err(error) = self.stretch(end, shared) {
            shared.fail(error);
        }
    }

    fn stretch(&mut self, end: u64, shared: &Shared) -> Result<(), ReplayError> {
        while let Some(edge) =
            self.lane.edges.get(self.edge).filter(|edge| edge.at < end + u64::from(edge.waits == 0))
        {
            run(
                shared.touch,
                self.lane.words,
                &mut self.at,
                edge.at as usize,
                shared.table,
                &mut self.heap,
            )?;
            if edge.waits == 0 {
                shared.order.publish(edge.slot, edge.number);
            } else if !shared.order.wait(edge.slot, edge.number, &shared.failed) {
                return Ok(());
            }
            self.edge += 1;
        }
        run(shared.touch, self.lane.words, &mut self.at, end as usize, shared.table, &mut self.heap)
    }
}

/// A program on many threads.
pub(crate) struct Threaded<'a, H> {
    program: &'a Program,
    heap: H,
    plan: Plan,
    table: Table,
    order: Order,
    /// Where each thread is to stop; one word a thread, read by it when it is woken.
    goals: Pages<AtomicU64>,
    /// The threads that sleep until the next segment, or will.
    handles: Vec<Option<Thread>>,
    /// Whether every checkpoint is a barrier.
    every_checkpoint: bool,
}

impl<'a, H: Manual + Clone + Send> Threaded<'a, H> {
    pub(crate) fn new(
        program: &'a Program,
        heap: H,
        every_checkpoint: bool,
    ) -> Result<Self, ReplayError> {
        let threads = program.facts().threads;
        if threads > STARTED_MAX {
            let why = format!(
                "{threads} threads, and no more than {STARTED_MAX} are started: replay it in recorded order (without --threads)"
            );
            return Err(ReplayError::Threads(why));
        }
        let slots = program.facts().slots as usize;
        let (table, order) = (Table::new::<H>(program)?, Order::new(slots)?);
        let plan = Plan::new(program, every_checkpoint)?;
        if plan.alive_max() > ALIVE_MAX {
            let alive = plan.alive_max();
            let why = format!(
                "{alive} threads exist at once, and no more than {ALIVE_MAX} are started: replay it in recorded order (without --threads)"
            );
            return Err(ReplayError::Threads(why));
        }
        let (goals, handles) = (Pages::zeroed(plan.threads())?, vec![None; plan.threads()]);
        Ok(Threaded { program, heap, plan, table, order, goals, handles, every_checkpoint })
    }

    fn run_pass(
        &mut self,
        touch: Touch,
        mut at_barrier: impl FnMut(&mut H) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        let Threaded { heap, plan, table, order, goals, handles, .. } = self;
        let (plan, goals) = (&*plan, &*goals);
        for goal in goals.iter() {
            goal.store(0, Ordering::Relaxed);
        }
        let shared = Shared {
            table,
            order,
            touch,
            running: AtomicUsize::new(0),
            alive: AtomicUsize::new(0),
            coordinator: std::thread::current(),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        };
        std::thread::scope(|scope| {
            for stretches in plan.segments() {
                shared.running.store(stretches.len(), Ordering::Release);
                for stretch in stretches {
                    start(scope, stretch, plan, goals, handles, heap, &shared);
                }
                while shared.running.load(Ordering::Acquire) > 0 && !shared.has_failed() {
                    std::thread::park();
                }
                if !shared.has_failed()
                    && let Err(error) = at_barrier(heap)
                {
                    shared.fail(error);
                }
                if shared.has_failed() {
                    // Whoever sleeps sees the failure and ends.
                    handles.iter_mut().filter_map(Option::take).for_each(|handle| handle.unpark());
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

/// Lets a thread run its stretch: wakes it, or begins it as soon as there is room.
fn start<'scope, 'env, H: Manual + Clone + Send + 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    stretch: &Stretch,
    plan: &'scope Plan,
    goals: &'scope [AtomicU64],
    handles: &mut [Option<Thread>],
    heap: &H,
    shared: &'scope Shared<'scope>,
) {
    let index = stretch.thread as usize;
    let lane = plan.lane(index);
    let is_last = stretch.end == lane.words.len() as u64;
    goals[index].store(stretch.end, Ordering::Release);
    if let Some(handle) = handles[index].take() {
        handle.unpark();
        handles[index] = Some(handle).filter(|_| !is_last);
        return;
    }
    while shared.alive.load(Ordering::Acquire) >= plan.alive_max() && !shared.has_failed() {
        std::thread::park();
    }
    if shared.has_failed() {
        return;
    }
    shared.alive.fetch_add(1, Ordering::AcqRel);
    let (goal, heap) = (&goals[index], heap.clone());
    match Builder::new()
        .stack_size(256 << 10)
        .spawn_scoped(scope, move || work(lane, heap, goal, shared))
    {
        Ok(handle) => handles[index] = Some(handle.thread().clone()).filter(|_| !is_last),
        Err(error) => shared.fail(ReplayError::Threads(format!(
            "{error}: replay it in recorded order (without --threads)"
        ))),
    }
}

/// The life of a thread: run to the goal, say so, sleep until there is another; end with the last
/// instruction.
fn work<H: Manual>(lane: Lane<'_>, heap: H, goal: &AtomicU64, shared: &Shared) {
    // Dropped after the heap.
    let _presence = Presence(shared);
    let mut worker = Worker { lane, heap, at: 0, edge: 0 };
    let mut done = 0;
    loop {
        let end = goal.load(Ordering::Acquire);
        if shared.has_failed() {
            break;
        }
        if end > done {
            worker.run_to(end, shared);
            done = end;
            if shared.running.fetch_sub(1, Ordering::AcqRel) == 1 || shared.has_failed() {
                shared.coordinator.unpark();
            }
        }
        if done == lane.words.len() as u64 || shared.has_failed() {
            break;
        }
        if goal.load(Ordering::Acquire) == done {
            std::thread::park();
        }
    }
}

impl<H: Manual + Clone + Send> Runs for Threaded<'_, H> {
    type Heap = H;

    fn heap(&mut self) -> &mut H {
        &mut self.heap
    }

    fn pass(&mut self, touch: Touch) -> Result<(), ReplayError> {
        self.run_pass(touch, |_| Ok(()))
    }

    fn pass_with(
        &mut self,
        touch: Touch,
        each: impl FnMut(&mut H) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        debug_assert!(
            self.every_checkpoint
                && self.plan.segments().count() == self.program.checkpoints().len()
        );
        self.run_pass(touch, each)
    }

    fn rewind(&mut self) {
        self.table.release(&mut self.heap);
        self.order.rewind();
    }

    /// The time that passes, which is what threads are for.
    fn clock() -> u64 {
        system::wall_ns()
    }
}
