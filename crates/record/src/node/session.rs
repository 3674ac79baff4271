//! One recording from start to end: starts the program with the addon in its environment, passes
//! signals on, waits. The heaps write by themselves.

use super::finish::Ending;
use super::{Progress, options, spool};
use crate::control::ControlPage;
use crate::error::RecordError;
use crate::inherited::Environment;
use crate::signals::{self, Signals};
use crate::{proc_fs, spawn};
use heaplab_preload::SPOOL_VARIABLE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Longest time between two looks at the target.
const TURN: Duration = Duration::from_millis(20);
/// Time between two progress reports, and between two looks for processes that the target left
/// behind.
const LOOK: Duration = Duration::from_millis(100);
/// Signals after which the recording ends even if the target does not.
const PATIENCE: u32 = 3;

/// A running recording.
pub struct Session {
    child: Child,
    status: Option<ExitStatus>,
    signals: Signals,
    control: ControlPage,
    ending_signals: u32,
    detach_children: bool,
    spool: PathBuf,
}

/// Starts `command` (its first word names the program at `program`), which the addon at `addon`
/// records into `spool`.
pub fn start(
    program: &Path,
    command: &[OsString],
    detach_children: bool,
    addon: &Path,
    spool: &Path,
    control: ControlPage,
) -> Result<Session, RecordError> {
    let signals =
        Signals::take().map_err(RecordError::io("cannot take signals over for", spool))?;
    let mut environment = Environment::inherited();
    environment.set(options::VARIABLE, |before| options::value(addon, before));
    // The addon finds the spool by this variable, and `heaplab mark` the recording.
    environment.set(SPOOL_VARIABLE, |_| spool.as_os_str().to_owned());
    let mut child = spawn::as_it_would_run(program, command, &signals, environment);
    let child = child.spawn().map_err(|error| RecordError::NotExecutable {
        path: program.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(Session {
        child,
        status: None,
        signals,
        control,
        ending_signals: 0,
        detach_children,
        spool: spool.to_owned(),
    })
}

impl Session {
    /// Runs until the recording is over.
    pub fn run(mut self, progress: &mut dyn FnMut(Progress)) -> Ending {
        let mut looked = Instant::now();
        loop {
            self.pass_signals_on();
            if self.status.is_none() {
                self.status = spawn::ended(&mut self.child);
                if self.status.is_some() && (self.detach_children || !descendants_live(&self.spool))
                {
                    return self.end();
                }
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.control.tick();
                progress(self.progress());
                if self.status.is_some() && !descendants_live(&self.spool) {
                    return self.end();
                }
            }
            if self.ending_signals >= PATIENCE {
                return self.end();
            }
            self.wait();
        }
    }

    fn end(self) -> Ending {
        self.control.tick();
        Ending { pid: self.child.id(), status: self.status }
    }

    fn progress(&self) -> Progress {
        let streams = spool::streams(&self.spool);
        Progress { heaps: streams.len(), spool_bytes: streams.iter().map(|(_, bytes)| bytes).sum() }
    }

    /// Waits for a signal or the end of a turn.
    fn wait(&self) {
        let mut signals = [PollFd::from_borrowed_fd(self.signals.descriptor(), PollFlags::IN)];
        let timeout = Timespec { tv_sec: 0, tv_nsec: TURN.as_nanos() as _ };
        // An error is an interruption: the next turn looks again.
        let _ = poll(&mut signals, Some(&timeout));
    }

    fn pass_signals_on(&mut self) {
        while let Some(arrived) = self.signals.next() {
            let reached_target = arrived.reached_target(self.child.id(), &self.spool);
            if reached_target && arrived.sender.is_some() {
                continue;
            }
            self.ending_signals += 1;
            if self.status.is_some() {
                // Only descendants of the program are left, and run on.
                self.ending_signals = PATIENCE;
            } else if !reached_target {
                signals::send(self.child.id(), arrived.signal);
            }
        }
    }
}

/// Whether a living process has this recording's spool in its environment.
fn descendants_live(spool: &Path) -> bool {
    let is_one = |pid: u32| {
        proc_fs::environment(pid, SPOOL_VARIABLE).is_some_and(|named| named == spool.as_os_str())
    };
    proc_fs::all().into_iter().any(is_one)
}
