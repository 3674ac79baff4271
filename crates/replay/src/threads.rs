//! One OS thread a recorded thread, with the order of one thread's operations on another's block
//! kept.
//!
//! The order matters for one slot: a block is born, grows and dies in this order, and only then its
//! slot is reused. Each instruction on a slot has a number, counted per slot. If two successive
//! ones are by different threads, the earlier one **publishes** its number in the slot's counter
//! (with release order) and the later one **waits** for this number (with acquire order).
//! Everything else runs freely: threads that share no blocks never wait for each other. Slots go
//! back to the thread that freed them (the compiler sees to it), so most of these edges are real
//! cross-thread frees.
//!
//! The edges come from a recorded order in which every instruction comes after all that it waits
//! for: no cycle and no deadlock. Marks are barriers: all threads reach one before any goes on. In
//! a measurement of space every checkpoint is one.
//!
//! A thread ends with its last instruction, so that allocators do their work at a thread's end. A
//! thread begins in the recorded order of first instructions, and only when there is room: no more
//! threads exist at once than in the recording. This cannot block. If a thread waits for room, the
//! last instruction of one of the existing threads comes, in recorded order, before the waiting
//! thread's first. All its remaining instructions come before that too, and so do all those it
//! waits for; their threads have begun. So the recorded order goes on from any point.

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

/// Most threads that exist at once.
const ALIVE_MAX: usize = 2048;
/// Most threads that a pass starts. A start costs the system some 80 us: in all twenty seconds.
pub const STARTED_MAX: u32 = 1 << 18;

/// The state shared by all threads of a pass.
struct Shared<'a> {
    table: &'a Table,
    order: &'a Order,
    touch: Touch,
    /// Threads before the end of the segment.
    running: AtomicUsize,
    /// Existing threads.
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

/// An existing thread. Its `Drop` tells the other threads of its end, also after a panic: else they
/// would wait for ever.
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
    /// The word at which each thread must stop; a thread reads its own when it wakes.
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
                    // Sleepers see the failure and end.
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

/// Lets a thread run its stretch: wakes it, or starts it once there is room.
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

/// The life of a thread: run to the goal, report, sleep until the next goal; end with the last
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

    /// Elapsed time: the purpose of threads.
    fn clock() -> u64 {
        system::wall_ns()
    }
}
