//! One recording from start to end: reads the pipe, notes which JVMs write into it and how much
//! memory they have, passes signals on.

use super::log_lines::{LogLines, Processes};
use super::pipe::{LogPipe, Taken};
use super::spool::LogWriter;
use super::unlogged::{UnloggedJvm, UnloggedJvms};
use super::{Options, Progress};
use crate::control::ControlPage;
use crate::error::RecordError;
use crate::inherited::Environment;
use crate::signals::{self, Signals};
use crate::{proc_fs, spawn};
use heaplab_preload::SPOOL_VARIABLE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Longest time between two looks at the target.
const TURN: Duration = Duration::from_millis(50);
/// Time between two samples of the JVMs' resident memory, and between two reports of progress.
const SAMPLE: Duration = Duration::from_millis(100);
/// Signals after which the recording ends although the target does not.
const PATIENCE: u32 = 3;
/// Reads after which the rest of a pipe that somebody still fills is left alone.
const DRAIN_READS: u32 = 64;

/// How a recording ended.
pub struct Ended {
    /// The started program.
    pub pid: u32,
    /// How it ended; `None`: it runs on.
    pub status: Option<ExitStatus>,
    /// What could not be written.
    pub failed: Option<String>,
    /// JVMs that wrote no log.
    pub unlogged: Vec<UnloggedJvm>,
}

/// A recording under way.
pub struct Session {
    log_lines: LogLines,
    unlogged: UnloggedJvms,
    child: Child,
    status: Option<ExitStatus>,
    signals: Signals,
    pipe: LogPipe,
    control: ControlPage,
    ending_signals: u32,
    detach_children: bool,
    spool: PathBuf,
    /// When it was last looked for processes that the target left behind.
    looked: Instant,
}

/// Starts the target at `program`, to be recorded into `spool`.
pub fn start(
    program: &Path,
    options: &Options,
    pipe: LogPipe,
    is_java: bool,
    spool: &Path,
    control: ControlPage,
) -> Result<Session, RecordError> {
    let log = LogWriter::create(spool)?;
    let signals =
        Signals::take().map_err(RecordError::io("cannot take signals over for", spool))?;
    let argument = pipe.java_argument();
    let mut words = options.command.clone();
    let by_argument = is_java && !options.jvm_children;
    if by_argument {
        words.insert(1, argument.clone());
    }
    let mut environment = Environment::inherited();
    if !by_argument {
        environment.set("JAVA_TOOL_OPTIONS", |before| {
            let mut value = before.unwrap_or_default().to_owned();
            if !value.is_empty() {
                value.push(" ");
            }
            value.push(&argument);
            value
        });
    }
    // By this `heaplab mark` finds the recording.
    environment.set(SPOOL_VARIABLE, |_| spool.as_os_str().to_owned());
    let mut child = spawn::as_it_would_run(program, &words, &signals, environment);
    let child = child.spawn().map_err(|error| RecordError::NotExecutable {
        path: program.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(Session {
        log_lines: LogLines::new(log, Processes::real()),
        unlogged: UnloggedJvms::of(child.id()),
        child,
        status: None,
        signals,
        pipe,
        control,
        ending_signals: 0,
        detach_children: options.detach_children,
        spool: spool.to_owned(),
        looked: Instant::now(),
    })
}

impl Session {
    /// Until the recording is over.
    pub fn run(mut self, progress: &mut dyn FnMut(Progress)) -> Ended {
        let mut sampled = Instant::now();
        loop {
            let taken = self.pipe.lines(&mut |line, whole| self.log_lines.line(line, whole));
            self.log_lines.note_ends(taken != Taken::Some);
            self.pass_signals_on();
            if self.status.is_none() {
                self.status = spawn::ended(&mut self.child);
                if self.status.is_some() {
                    // Its last lines are still in the pipe.
                    continue;
                }
            }
            let is_over = self.status.is_some() && taken != Taken::Some && self.nobody_left(taken);
            if is_over || self.ending_signals >= PATIENCE {
                return self.end();
            }
            if self.status.is_none() {
                // Later its pid may belong to a foreign process.
                self.unlogged.look();
            }
            if sampled.elapsed() >= SAMPLE {
                sampled = Instant::now();
                self.log_lines.sample(taken != Taken::Some);
                self.control.tick();
                progress(self.log_lines.progress());
            }
            self.log_lines.write(false);
            if taken != Taken::Some {
                self.wait(taken);
            }
        }
    }

    /// Whether no JVM writes, and none can come: the target's descendants, which have the pipe's
    /// name in their environment, have ended too.
    fn nobody_left(&mut self, taken: Taken) -> bool {
        if self.detach_children {
            return true;
        }
        if taken != Taken::NoWriter || self.looked.elapsed() < TURN {
            return false;
        }
        let left = descendants_live(&self.spool);
        self.looked = Instant::now();
        !left
    }

    fn end(mut self) -> Ended {
        self.drain();
        self.log_lines.sample(true);
        // A JVM that was seen to have ended wrote its last lines before.
        let is_empty = self.drain();
        self.log_lines.note_ends(is_empty);
        self.log_lines.write(true);
        self.control.tick();
        if descendants_live(&self.spool) {
            self.pipe.leave();
        }
        let unlogged = self.unlogged.but(|pid, start_ticks| self.log_lines.has(pid, start_ticks));
        Ended {
            pid: self.child.id(),
            status: self.status,
            failed: self.log_lines.failed(),
            unlogged,
        }
    }

    /// Reads the pipe's content, with at most [`DRAIN_READS`] reads, because a writer may go on.
    /// Returns whether that was everything.
    fn drain(&mut self) -> bool {
        let mut take = || self.pipe.lines(&mut |line, whole| self.log_lines.line(line, whole));
        (0..DRAIN_READS).any(|_| take() != Taken::Some)
    }

    /// Waits for input, a signal, or the end of the turn. A pipe without a writer is always
    /// "ready", so it is left out.
    fn wait(&self, taken: Taken) {
        let (signals, pipe) = (self.signals.descriptor(), self.pipe.descriptor());
        let mut both = [
            PollFd::from_borrowed_fd(signals, PollFlags::IN),
            PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN),
        ];
        let watched = if taken == Taken::NoWriter { 1 } else { 2 };
        let turn = if taken == Taken::NoWriter { TURN / 10 } else { TURN / 2 };
        let timeout = Timespec { tv_sec: 0, tv_nsec: turn.as_nanos() as _ };
        // An error is an interruption: the next turn looks again.
        let _ = poll(&mut both[..watched], Some(&timeout));
    }

    fn pass_signals_on(&mut self) {
        while let Some(arrived) = self.signals.next() {
            let reached_target = arrived.reached_target(self.child.id(), &self.spool);
            if reached_target && arrived.sender.is_some() {
                continue;
            }
            self.ending_signals += 1;
            if self.status.is_some() {
                // Only JVMs that the program started are left: they run on unrecorded.
                self.ending_signals = PATIENCE;
            } else if !reached_target {
                signals::send(self.child.id(), arrived.signal);
            }
        }
    }
}

/// Whether a process lives that has this recording's name in its environment.
pub fn descendants_live(spool: &Path) -> bool {
    let is_one = |pid: u32| {
        proc_fs::environment(pid, SPOOL_VARIABLE).is_some_and(|named| named == spool.as_os_str())
    };
    proc_fs::all().into_iter().any(is_one)
}
