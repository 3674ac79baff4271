//! One recording from start to end: prepares the spool, starts the target, drains until all have
//! ended.
//!
//! The recording ends when the started process and all recorded descendants have ended
//! (`detach_children`: when the started process has). A terminating signal goes to the target
//! first; heaplab ends when the target does. heaplab ends the recording while processes run on in
//! two cases: the started process has ended already, or this is the third such signal.

mod begin;
mod last_program;
mod recorded;

pub use recorded::Recorded;

use crate::clock;
use crate::control::ControlPage;
use crate::diagnose::{self, Obstacle};
use crate::drain::{Drainer, Lost, Totals};
use crate::error::RecordError;
use crate::mappings::sampler;
use crate::python::Frames;
use crate::signals::Signals;
use crate::spool::note::{How, Note};
use crate::target::PATIENCE;
use crate::unrecorded::{Unrecorded, Watch};
use crate::{execs, proc_fs, spawn, unrecorded};
use begin::{begin, prepare};
use heaplab_preload::layout;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Shortest and longest time between two looks at the rings.
const TURN: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(5));
/// Time between two looks for ends, new files and clock readings.
const HOUSEKEEPING: Duration = Duration::from_millis(100);
/// How long to wait for a forked process's file after all others have ended; the process may wait
/// for a processor.
const FILE_WAIT: Duration = Duration::from_secs(2);

/// What to record, where, and how much of it.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The command line: the program, then its arguments.
    pub command: Vec<OsString>,
    /// The spool folder; it must not exist.
    pub spool: PathBuf,
    /// Innermost frames of each stack; 0: none.
    pub stack_depth: u32,
    /// Python's frames in stacks; `None`: native frames only.
    pub python: Option<Frames>,
    /// Ask JVMs for the purposes of their memory; needs `samples`.
    pub jvm_memory: bool,
    /// Bytes of a thread's ring: a power of two, at least 64 KiB. A process's first thread has more
    /// ([`crate::control::first_ring_bytes`]).
    pub ring_bytes: u32,
    /// A signal that sets a mark; 0: none.
    pub mark_signal: u32,
    /// Time between two checks of each process's memory; zero: none. `None`: often at first and
    /// then less so, because a program may grow to its peak within its first milliseconds.
    pub samples: Option<Duration>,
    /// End with the started process, whatever its descendants do.
    pub detach_children: bool,
    /// Record which blocks memory reporters name.
    pub reports: bool,
    /// Act as if the disk were full once the spool has this many bytes; for tests.
    pub spool_limit_bytes: Option<u64>,
}

/// Reports during the recording, for display.
#[derive(Clone, Debug)]
pub enum Progress {
    /// The program has an obstacle; it starts all the same, for its children's sake.
    Obstacle(String),
    /// Figures, several times a second.
    Totals(Totals),
    /// Recording stopped, for this reason; the program runs on.
    Stopped(String),
    /// A part of a process is not recorded, and why.
    Missing(String),
    /// The started process has ended; these descendants run on and are still recorded.
    Waiting(Vec<u32>),
}

impl Progress {
    /// What a person is told of it; `None` of figures.
    pub fn words(&self, program: &OsStr) -> Option<String> {
        let program = program.display();
        Some(match self {
            Progress::Totals(_) => return None,
            Progress::Obstacle(text) => format!("note: {text}"),
            Progress::Missing(text) => text.clone(),
            Progress::Stopped(text) => {
                format!("recording has stopped, and {program} runs on: {text}")
            }
            Progress::Waiting(pids) => {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                format!(
                    "{program} has ended; still recording its descendants ({}): Ctrl-C leaves them",
                    pids.join(", ")
                )
            }
        })
    }
}

fn obstacle_text(program: &Path, obstacle: Option<&Obstacle>) -> Option<String> {
    obstacle.map(|obstacle| format!("{} {obstacle}", program.display()))
}

/// Runs the target and records it into the spool.
pub fn record(
    options: &RecordOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recorded, RecordError> {
    let program = spawn::located(&options.command)?;
    let obstacle = diagnose::obstacle(&program, std::env::var_os("PATH").as_deref());
    let (asan_is_told, obstacle) = match obstacle {
        Some(obstacle) if obstacle.ends_with_asan_options() => (true, None),
        obstacle => (false, obstacle),
    };
    if asan_is_told {
        progress(Progress::Obstacle(format!(
            "{} gets {} in ASAN_OPTIONS, or AddressSanitizer would end it",
            program.display(),
            diagnose::ASAN_ALLOWS
        )));
    }
    if let Some(text) = obstacle_text(&program, obstacle.as_ref()) {
        progress(Progress::Obstacle(text));
    }
    prepare(&options.spool)?;
    let preloads = !obstacle.as_ref().is_some_and(Obstacle::forbids_preloading);
    let begun = begin(options, &program, preloads, asan_is_told);
    let (mut session, child) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            // Nothing ran: the spool holds nothing to keep.
            let _ = fs::remove_dir_all(&options.spool);
            return Err(error);
        }
    };
    session.obstacle = obstacle;
    session.program = program;
    Ok(session.run(child, progress))
}

struct Session<'a> {
    options: &'a RecordOptions,
    control: ControlPage,
    drainer: Drainer,
    signals: Signals,
    spool: PathBuf,
    pid: u32,
    watch: Watch,
    status: Option<ExitStatus>,
    /// Why recording stopped.
    stopped: Option<String>,
    ending_signals: u32,
    unrecorded: Vec<Unrecorded>,
    obstacle: Option<Obstacle>,
    program: PathBuf,
    announced: u64,
    waiting_told: bool,
    stop_told: bool,
    lost_told: bool,
    /// Losses not yet reported.
    untold: Vec<String>,
    refused_told: u32,
    cut_told: HashSet<u32>,
    /// Processes without a file, and the start of the wait for each.
    awaited: HashMap<u32, Instant>,
    /// The started process's name at its end.
    last_name: Option<String>,
}

impl Session<'_> {
    fn run(mut self, mut child: Child, progress: &mut dyn FnMut(Progress)) -> Recorded {
        let mut first = self.drainer.note(&Note::Started { pid: self.pid });
        if let Some(text) = obstacle_text(&self.program, self.obstacle.as_ref()) {
            first = first.and_then(|()| self.drainer.note(&Note::Loss { text }));
        }
        if let Err(error) = first {
            self.stop(&error);
        }
        let descriptor = rustix::process::Pid::from_raw(self.pid as i32).and_then(|pid| {
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
        });
        let mut turn = TURN.0;
        let began = Instant::now();
        let (mut housekeeping, mut sampling, mut showing) = (began, began, began);
        loop {
            let may_have_ended = self.wait(turn, descriptor.as_ref());
            self.ending_signals +=
                self.signals.pass_on(self.pid, self.status.is_none(), &self.spool);
            if self.status.is_none() && may_have_ended {
                self.last_name = proc_fs::name_of_ended(self.pid);
                self.status = spawn::ended(&mut child);
                if self.status.is_some() {
                    housekeeping = Instant::now();
                }
            }
            match self.turn() {
                Ok(fullest) => {
                    turn = match fullest {
                        // Rings are emptied from an eighth on; half full at a turn leaves the other
                        // half for a burst.
                        ..125 => (turn * 2).min(TURN.1),
                        125..500 => turn,
                        _ => (turn / 2).max(TURN.0),
                    }
                }
                Err(error) => self.stop(&error),
            }
            let now = Instant::now();
            let keeps_house = now >= housekeeping;
            if keeps_house {
                housekeeping = now + HOUSEKEEPING;
                if let Err(error) = self.keep_house() {
                    self.stop(&error);
                }
            }
            if self.options.samples != Some(Duration::ZERO)
                && now >= sampling
                && self.drainer.living().next().is_some()
            {
                if let Err(error) = self.sample() {
                    self.stop(&error);
                }
                let processes = self.drainer.living().count();
                let pause = || sampler::until_next_check(now - began, processes);
                sampling = now + self.options.samples.unwrap_or_else(pause);
            }
            if now >= showing {
                showing = now + Duration::from_millis(200);
                progress(Progress::Totals(self.drainer.totals()));
            }
            self.tell(progress);
            if self.is_over(keeps_house, progress) {
                break;
            }
        }
        self.finish(progress)
    }

    /// Sleeps until the next turn, a signal, or the started process's end. Returns whether it may
    /// have ended: the descriptor says so, or there is none.
    fn wait(&self, turn: Duration, descriptor: Option<&rustix::fd::OwnedFd>) -> bool {
        let mut descriptors =
            vec![PollFd::from_borrowed_fd(self.signals.descriptor(), PollFlags::IN)];
        if let Some(descriptor) = descriptor.filter(|_| self.status.is_none()) {
            descriptors.push(PollFd::new(descriptor, PollFlags::IN));
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: turn.subsec_nanos().into() };
        let polled = poll(&mut descriptors, Some(&timeout));
        polled.is_err() || descriptors.get(1).is_none_or(|ended| !ended.revents().is_empty())
    }

    fn turn(&mut self) -> io::Result<u64> {
        if self.stopped.is_some() {
            return Ok(0);
        }
        if self.control.announced() != self.announced {
            self.discover()?;
        }
        self.drainer.turn()
    }

    /// Looks for new files. An unreadable one is one unrecorded process; the others are recorded.
    fn discover(&mut self) -> io::Result<()> {
        self.announced = self.control.announced();
        let mut outcome = self.drainer.discover(self.announced);
        let lost = self.drainer.take_lost();
        let execs = if lost.is_empty() { Vec::new() } else { execs::read(&self.spool) };
        for Lost { pid, reason } in lost {
            let found = unrecorded::unread(pid, reason, proc_fs::executable(pid), &execs);
            // Only once: there may be thousands, and the end names them.
            if !self.lost_told {
                self.lost_told = true;
                self.untold.push(format!("process {pid} is not recorded: it {}", found.reason));
            }
            outcome = outcome.and(self.drainer.note(&found.note()));
            self.unrecorded.push(found);
        }
        outcome
    }

    fn keep_house(&mut self) -> io::Result<()> {
        for found in self.watch.look() {
            let note = found.note();
            self.unrecorded.push(found);
            if self.stopped.is_none() {
                self.drainer.note(&note)?;
            }
        }
        self.control.tick();
        if self.stopped.is_none() {
            self.discover()?;
            let (pid, how) = (self.pid, self.status.map(how_of));
            self.drainer.reap(|asked| how.filter(|_| asked == pid))?;
        }
        Ok(())
    }

    fn sample(&mut self) -> io::Result<()> {
        if self.stopped.is_some() { Ok(()) } else { self.drainer.sample() }
    }

    /// The spool cannot be written: tells targets, which run on unrecorded.
    fn stop(&mut self, error: &io::Error) {
        if self.stopped.is_some() {
            return;
        }
        self.control.stop();
        let full = matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge | io::ErrorKind::QuotaExceeded
        );
        let at_ns = elapsed_ns(self.control.origin().monotonic_ns);
        let reason = if full {
            String::from("no space was left")
        } else {
            format!("the spool could not be written ({error})")
        };
        self.stopped = Some(format!("{reason} after {:.1} s", at_ns as f64 / 1e9));
    }

    /// Reports at once what is no longer recorded, or could not be: at the end the user may have
    /// waited for days.
    fn tell(&mut self, progress: &mut dyn FnMut(Progress)) {
        if let Some(text) = self.stopped.as_ref().filter(|_| !self.stop_told) {
            self.stop_told = true;
            progress(Progress::Stopped(text.clone()));
        }
        if let Some(refused) = self.control.refused()
            && refused.count > self.refused_told
        {
            // Only once: there may be thousands, and the end gives the number.
            if self.refused_told == 0 {
                progress(Progress::Missing(format!(
                    "process {} {}",
                    refused.pid,
                    refused.reason()
                )));
            }
            self.refused_told = refused.count;
        }
        for text in self.untold.drain(..) {
            progress(Progress::Missing(text));
        }
        for (pid, reason) in self.drainer.take_cut() {
            let why = match reason {
                layout::CUT_NO_SPACE => "no space was left for it",
                layout::CUT_UNREAD => "heaplab cannot read a file of it",
                layout::CUT_TIMELESS => {
                    "it has entered a sandbox (seccomp's strict mode, or PR_SET_TSC)"
                }
                // heaplab's own requests are reported above.
                _ => continue,
            };
            // Only once for a process that has become another program.
            if self.cut_told.insert(pid) {
                progress(Progress::Missing(format!("process {pid} is no longer recorded: {why}")));
            }
        }
    }

    /// `kept_house`: this turn has looked for new files and ends.
    fn is_over(&mut self, kept_house: bool, progress: &mut dyn FnMut(Progress)) -> bool {
        if self.status.is_none() {
            if self.ending_signals >= PATIENCE {
                self.stopped_by_user();
                return true;
            }
            return false;
        }
        let others: Vec<u32> = self.drainer.living().map(|key| key.0).collect();
        if self.options.detach_children || self.stopped.is_some() {
            return true;
        }
        if others.is_empty() {
            return self.ending_signals > 0 || (kept_house && !self.awaits_a_file());
        }
        if !self.waiting_told {
            self.waiting_told = true;
            self.ending_signals = 0;
            progress(Progress::Waiting(others));
        } else if self.ending_signals > 0 {
            self.stopped_by_user();
            return true;
        }
        false
    }

    /// Whether a process of this recording runs without a file yet: a child of a parent that ended
    /// right after the fork, such as a daemon. The wait is at most [`FILE_WAIT`], because
    /// unrecordable processes never make a file.
    fn awaits_a_file(&mut self) -> bool {
        let mut silent = proc_fs::all().into_iter().filter(|pid| {
            !self.drainer.has_seen(*pid) && proc_fs::is_of_recording(*pid, &self.spool)
        });
        silent.any(|pid| self.awaited.entry(pid).or_insert_with(Instant::now).elapsed() < FILE_WAIT)
    }

    fn stopped_by_user(&mut self) {
        let at_ns = elapsed_ns(self.control.origin().monotonic_ns);
        self.stopped.get_or_insert(format!(
            "ended by a signal to heaplab after {:.1} s, while processes ran on",
            at_ns as f64 / 1e9
        ));
    }

    fn finish(mut self, progress: &mut dyn FnMut(Progress)) -> Recorded {
        self.tell_last_program();
        // Also when the spool takes no more: the ends of its processes are known all the same.
        let (pid, how) = (self.pid, self.status.map(how_of));
        let discovered = self.discover();
        let mut outcome = discovered.and(self.drainer.reap(|asked| how.filter(|_| asked == pid)));
        if self.drainer.living().next().is_some() {
            self.control.stop();
            outcome = outcome.and(self.drainer.leave());
        }
        if let Err(error) = &outcome {
            self.stop(error);
        }
        if let Some(text) = self.drainer.silence_of_jvms().filter(|_| self.stopped.is_none())
            && let Err(error) = self.drainer.note(&Note::Loss { text })
        {
            self.stop(&error);
        }
        self.control.tick();
        let last = match &self.stopped {
            Some(text) => Note::Cut { text: text.clone() },
            None => Note::Complete { counter: clock::counter() },
        };
        if let Err(error) = self.drainer.note(&last) {
            self.stop(&error);
            let text = self.stopped.clone().unwrap_or_default();
            // As a rule not written either, but known to a finisher in this process.
            let _ = self.drainer.note(&Note::Cut { text });
        }
        progress(Progress::Totals(self.drainer.totals()));
        Recorded {
            status: self.status,
            totals: self.drainer.totals(),
            pid: self.pid,
            spool: self.spool,
            cut: self.stopped,
            unrecorded: self.unrecorded,
            refused: self.control.refused(),
            obstacle: self.obstacle,
            program: self.program,
            left_in_rings: self.drainer.has_left(),
            index: self.drainer.into_index(),
        }
    }
}

pub(crate) fn how_of(status: ExitStatus) -> How {
    match (status.code(), status.signal()) {
        (Some(code), _) => How::Exited(code),
        (None, Some(signal)) => How::Signalled(signal),
        (None, None) => How::Gone,
    }
}

fn elapsed_ns(since_ns: u64) -> u64 {
    clock::ClockReading::now().monotonic_ns.saturating_sub(since_ns)
}
