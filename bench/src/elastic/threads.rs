//! Two threads beside one: throughput with arenas of their own in one space, and the machine's own
//! limit at that moment.
//!
//! Two processors of a virtual machine may be halves of one core, share caches, and lose turns to
//! other guests. So a ratio to one thread alone says little about a library. Each round therefore
//! measures, for a few milliseconds each and in a rotating order: one thread on either processor;
//! two threads in one space; two *processes* with a space each, which share nothing of a library's;
//! and plain arithmetic on one and two threads. Ratios are those of a round. Medians are printed
//! with limits that contain the true median in 19 of 20 samples, for any distribution. No round is
//! left out; each kind of measurement ran once before the first.
//!
//! Threads stay on their processors, begin at the same nanosecond, and work until the same one: a
//! thread that ended earlier would leave the other one alone.

use super::peers::words;
use super::time::{Middle, cpu_ns, touch};
use super::workload::sizes;
use anyhow::{Context, Result, ensure};
use heaplab_elastic::{Growth, Options, Reclaim, Space};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Begins a worker's specification on the command line.
pub const WORKER: &str = "worker";
/// Length of each measurement.
const WINDOW_NS: u64 = 4_000_000;
/// Notice that threads get before a measurement begins, so that all of them run by then.
const LEAD_NS: u64 = 300_000;
/// Blocks of an arena, and arenas between two looks at the clock.
const BLOCKS: usize = 20;
const ARENAS_A_LOOK: usize = 25;
/// Steps of arithmetic between two looks.
const STEPS_A_LOOK: u64 = 4_000;

/// A worker's work during a window.
#[derive(Clone, Copy, Debug)]
enum Task {
    Arenas,
    Arithmetic,
}

/// The work done.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Done {
    /// Allocations, or steps of arithmetic.
    count: u64,
    /// Since the planned start of the window.
    clock_ns: u64,
    cpu_ns: u64,
    /// Number of times that the thread gave up its processor by itself, and its page faults.
    waits: i64,
    faults: i64,
}

/// Work a nanosecond, by elapsed time and by CPU time.
#[derive(Clone, Copy, Debug)]
struct Rate {
    clock: f64,
    cpu: f64,
}

impl Rate {
    fn of(done: &[Done]) -> Rate {
        let sum = |ns: fn(&Done) -> u64| {
            done.iter().map(|done| done.count as f64 / ns(done).max(1) as f64).sum()
        };
        Rate { clock: sum(|done| done.clock_ns), cpu: sum(|done| done.cpu_ns) }
    }

    /// The rate of two together, relative to the mean of each alone.
    fn beside(self, alone: [Rate; 2]) -> Rate {
        let mean = |rate: fn(&Rate) -> f64| alone.iter().map(rate).sum::<f64>() / 2.0;
        Rate { clock: self.clock / mean(|rate| rate.clock), cpu: self.cpu / mean(|rate| rate.cpu) }
    }
}

/// Throughputs of two, relative to one.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Threads {
    /// Rounds.
    pub rounds: usize,
    /// One thread, ns an allocation by elapsed time: the median.
    pub one_ns: f64,
    /// Two threads in one space, as a multiple of one thread's throughput, by elapsed time.
    pub by_clock: Middle,
    /// The same by CPU time, which leaves out waits for other programs and for locks.
    pub by_cpu: Middle,
    /// The same for two processes with a space each.
    pub processes_by_clock: Middle,
    /// The same by CPU time.
    pub processes_by_cpu: Middle,
    /// Arithmetic on two threads.
    pub arithmetic: Middle,
    /// Two threads' throughput in one space divided by two processes'.
    pub to_processes_by_clock: Middle,
    /// The same by CPU time.
    pub to_processes_by_cpu: Middle,
    /// Number of times that a thread of two gave up its processor by itself, in a million
    /// allocations.
    pub waits_per_million: f64,
    /// Its page faults in a million allocations.
    pub faults_per_million: f64,
}

fn clock_ns() -> u64 {
    // SAFETY: a timespec of zeros is valid, and the call fills it.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Times this thread gave its processor up by itself, and its page faults.
fn usage() -> (i64, i64) {
    // SAFETY: a rusage of zeros is valid, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    (usage.ru_nvcsw, usage.ru_minflt)
}

/// The first two processors this process may run on.
fn processors() -> Option<[usize; 2]> {
    // SAFETY: a set of zeros is valid, and the call fills it.
    let allowed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) == 0).then_some(set)
    }?;
    // SAFETY: the numbers are below the set's size.
    let mut all = (0..libc::CPU_SETSIZE as usize)
        .filter(|processor| unsafe { libc::CPU_ISSET(*processor, &allowed) });
    Some([all.next()?, all.next()?])
}

/// Keeps this thread on a processor.
fn stay_on(processor: usize) -> Result<()> {
    // SAFETY: a set of zeros is valid; the number was one that the process may run on.
    let outcome = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    ensure!(
        outcome == 0,
        "cannot stay on processor {processor}: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}

/// Arenas on one thread.
struct Worker {
    space: Space,
    sizes: Vec<u32>,
    at_a_time: usize,
    /// The next index into the sizes.
    next: usize,
}

impl Worker {
    fn new(space: Space, at_a_time: usize) -> Result<Worker> {
        Ok(Worker { space, sizes: sizes(200_000, 116, 3)?, at_a_time, next: 0 })
    }

    /// Works from one time to another.
    fn run(&mut self, task: Task, start_ns: u64) -> Done {
        while clock_ns() < start_ns {
            std::hint::spin_loop();
        }
        let (cpu, before) = (cpu_ns(), usage());
        let (mut count, mut now_ns, mut arenas) = (0, start_ns, Vec::with_capacity(self.at_a_time));
        while now_ns < start_ns + WINDOW_NS {
            count += match task {
                Task::Arenas => self.fill(&mut arenas),
                Task::Arithmetic => {
                    black_box(arithmetic(black_box(count)));
                    STEPS_A_LOOK
                }
            };
            now_ns = clock_ns();
        }
        let (after, cpu_ns) = (usage(), cpu_ns() - cpu);
        Done {
            count,
            clock_ns: now_ns - start_ns,
            cpu_ns,
            waits: after.0 - before.0,
            faults: after.1 - before.1,
        }
    }

    /// Fills some arenas; drops them when the allowed number is live.
    fn fill(&mut self, arenas: &mut Vec<heaplab_elastic::Arena>) -> u64 {
        for _ in 0..ARENAS_A_LOOK {
            let arena = self.space.arena(Growth::SMALL).expect("memory");
            for (nth, size) in self.sizes[self.next..][..BLOCKS].iter().enumerate() {
                touch(arena.allocate(words(*size as usize)).expect("memory").as_ptr(), nth);
            }
            self.next = (self.next + BLOCKS) % self.sizes.len();
            arenas.push(arena);
            if arenas.len() == self.at_a_time {
                arenas.clear();
            }
        }
        (ARENAS_A_LOOK * BLOCKS) as u64
    }
}

/// Each step waits for the previous one; no memory is used.
fn arithmetic(mut value: u64) -> u64 {
    for _ in 0..STEPS_A_LOOK {
        value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ 0x5555;
    }
    value
}

fn space() -> Result<Space> {
    Ok(Space::new(Options {
        reclaim: Reclaim::AtReturn { keep_bytes: 4 << 20 },
        ..Options::default()
    })?)
}

/// A thread of this process that works when it is told.
struct Thread {
    tasks: Sender<(Task, u64)>,
    done: Receiver<Done>,
}

impl Thread {
    fn start(mut worker: Worker, processor: usize) -> Thread {
        let (tasks, told) = channel();
        let (answers, done) = channel();
        std::thread::spawn(move || {
            if stay_on(processor).is_err() {
                return;
            }
            for (task, start_ns) in told {
                if answers.send(worker.run(task, start_ns)).is_err() {
                    return;
                }
            }
        });
        Thread { tasks, done }
    }

    fn tell(&self, task: Task, start_ns: u64) -> Result<()> {
        self.tasks.send((task, start_ns)).ok().context("a worker could not stay on its processor")
    }

    fn wait(&self) -> Result<Done> {
        self.done.recv().context("a worker could not stay on its processor")
    }
}

/// A process with a space of its own.
struct Process {
    process: Child,
    tasks: ChildStdin,
    done: BufReader<ChildStdout>,
}

impl Process {
    fn start(at_a_time: usize, processor: usize) -> Result<Process> {
        let spec = format!("{WORKER},{at_a_time},{processor}");
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["elastic", "--child", &spec]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().context("cannot start this program again")?;
        let tasks = process.stdin.take().context("its input")?;
        let done = BufReader::new(process.stdout.take().context("its output")?);
        Ok(Process { process, tasks, done })
    }

    fn tell(&mut self, start_ns: u64) -> Result<()> {
        writeln!(self.tasks, "{start_ns}").context("the other process is gone")
    }

    fn wait(&mut self) -> Result<Done> {
        let mut line = String::new();
        self.done.read_line(&mut line)?;
        serde_json::from_str(&line).context("the other process is gone")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs in the child of [`Process`]: works once for each line of input, until the input ends.
pub fn worker_child(at_a_time: &str, processor: &str) -> Result<()> {
    stay_on(processor.parse()?)?;
    let mut worker = Worker::new(space()?, at_a_time.parse()?)?;
    for line in std::io::stdin().lines() {
        let done = worker.run(Task::Arenas, line?.parse()?);
        println!("{}", serde_json::to_string(&done)?);
    }
    Ok(())
}

/// The measured threads or processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One of the threads.
    Alone(usize),
    Threads,
    Processes,
    ArithmeticAlone(usize),
    ArithmeticTwice,
}

/// In the order of a round's results; each round begins with another kind.
const KINDS: [Kind; 7] = [
    Kind::Alone(0),
    Kind::Alone(1),
    Kind::Threads,
    Kind::Processes,
    Kind::ArithmeticAlone(0),
    Kind::ArithmeticAlone(1),
    Kind::ArithmeticTwice,
];

struct Workers {
    threads: [Thread; 2],
    process: Process,
}

impl Workers {
    fn measure(&mut self, kind: Kind) -> Result<Vec<Done>> {
        let start_ns = clock_ns() + LEAD_NS;
        let (task, threads) = match kind {
            Kind::Alone(nth) => (Task::Arenas, nth..nth + 1),
            Kind::Threads => (Task::Arenas, 0..2),
            Kind::Processes => (Task::Arenas, 0..1),
            Kind::ArithmeticAlone(nth) => (Task::Arithmetic, nth..nth + 1),
            Kind::ArithmeticTwice => (Task::Arithmetic, 0..2),
        };
        if kind == Kind::Processes {
            self.process.tell(start_ns)?;
        }
        let threads = &self.threads[threads];
        threads.iter().try_for_each(|thread| thread.tell(task, start_ns))?;
        let mut done = threads.iter().map(Thread::wait).collect::<Result<Vec<_>>>()?;
        if kind == Kind::Processes {
            done.push(self.process.wait()?);
        }
        Ok(done)
    }
}

/// Measures as the module describes; each thread has `at_a_time` arenas at a time. `None`: there is
/// only one processor.
pub fn threads(rounds: usize, at_a_time: usize) -> Result<Option<Threads>> {
    let Some(processors) = processors() else { return Ok(None) };
    let (space, process) = (space()?, Process::start(at_a_time, processors[1])?);
    let start = |processor| Ok(Thread::start(Worker::new(space.clone(), at_a_time)?, processor));
    let threads: Result<Vec<Thread>> = processors.into_iter().map(start).collect();
    let threads = threads?.try_into().ok().context("two threads")?;
    let mut workers = Workers { threads, process };
    for kind in KINDS {
        workers.measure(kind)?;
    }
    let (mut results, mut together) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut result = [Rate { clock: 0.0, cpu: 0.0 }; KINDS.len()];
        for at in 0..KINDS.len() {
            let at = (at + round) % KINDS.len();
            let done = workers.measure(KINDS[at])?;
            result[at] = Rate::of(&done);
            if KINDS[at] == Kind::Threads {
                together.extend(done);
            }
        }
        results.push(result);
    }
    Ok(Some(summary(&results, &together)))
}

fn summary(results: &[[Rate; KINDS.len()]], together: &[Done]) -> Threads {
    let of = |ratio: &dyn Fn(&[Rate; KINDS.len()]) -> f64| {
        Middle::of(results.iter().map(ratio).collect())
    };
    let alone = |result: &[Rate; KINDS.len()]| [result[0], result[1]];
    let million = together.iter().map(|done| done.count).sum::<u64>() as f64 / 1e6;
    Threads {
        rounds: results.len(),
        one_ns: of(&|result| 2.0 / (result[0].clock + result[1].clock)).median,
        by_clock: of(&|result| result[2].beside(alone(result)).clock),
        by_cpu: of(&|result| result[2].beside(alone(result)).cpu),
        processes_by_clock: of(&|result| result[3].beside(alone(result)).clock),
        processes_by_cpu: of(&|result| result[3].beside(alone(result)).cpu),
        arithmetic: of(&|result| result[6].beside([result[4], result[5]]).clock),
        to_processes_by_clock: of(&|result| result[2].clock / result[3].clock),
        to_processes_by_cpu: of(&|result| result[2].cpu / result[3].cpu),
        waits_per_million: together.iter().map(|done| done.waits).sum::<i64>() as f64 / million,
        faults_per_million: together.iter().map(|done| done.faults).sum::<i64>() as f64 / million,
    }
}
