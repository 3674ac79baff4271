//! One recording from start to end: reads the pipe, notes which JVMs write into it and how much
//! memory they have, passes signals on.

use super::log_lines::{LogLines, Processes};
use super::pipe::{LogPipe, Taken};
use super::spool::LogWriter;
use super::unlogged::{UnloggedJvm, UnloggedJvms};
use super::{JvmOptions, Progress};
use crate::control::ControlPage;
use crate::error::RecordError;
use crate::inherited::Environment;
use crate::target::{Ending, Target};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest time between two looks at the target.
const TURN: Duration = Duration::from_millis(50);
/// Time between two samples of the JVMs' resident memory, and between two reports of progress.
const SAMPLE: Duration = Duration::from_millis(100);
/// Reads after which the rest of a pipe that somebody still fills is left alone.
const DRAIN_READS: u32 = 64;

/// How a recording ended.
pub struct Ended {
    /// How the program ended.
    pub ending: Ending,
    /// What could not be written.
    pub failed: Option<String>,
    /// JVMs that wrote no log.
    pub unlogged: Vec<UnloggedJvm>,
}

/// A recording under way.
pub struct Session {
    log_lines: LogLines,
    unlogged: UnloggedJvms,
    target: Target,
    pipe: LogPipe,
    control: ControlPage,
    detach_children: bool,
    /// When it was last looked for processes that the target left behind.
    looked: Instant,
}

/// Starts the target at `program`, to be recorded into `spool`.
pub fn start(
    program: &Path,
    options: &JvmOptions,
    pipe: LogPipe,
    is_java: bool,
    spool: &Path,
    control: ControlPage,
) -> Result<Session, RecordError> {
    let log = LogWriter::create(spool)?;
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
    let target = Target::start(program, &words, environment, spool)?;
    Ok(Session {
        log_lines: LogLines::new(log, Processes::real()),
        unlogged: UnloggedJvms::of(target.pid()),
        target,
        pipe,
        control,
        detach_children: options.detach_children,
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
            let must_end = self.target.pass_signals_on();
            if self.target.has_just_ended() {
                // Its last lines are still in the pipe.
                continue;
            }
            let has_ended = self.target.status.is_some();
            let is_over = has_ended && taken != Taken::Some && self.nobody_left(taken);
            if is_over || must_end {
                return self.end();
            }
            if !has_ended {
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
        let left = self.target.recording_lives();
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
        if self.target.recording_lives() {
            self.pipe.leave();
        }
        let unlogged = self.unlogged.but(|pid, start_ticks| self.log_lines.has(pid, start_ticks));
        Ended { ending: self.target.ending(), failed: self.log_lines.failed(), unlogged }
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
        let (signals, pipe) = (self.target.signals.descriptor(), self.pipe.descriptor());
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
}
