//! One recording from start to end: starts the program with the addon in its environment, passes
//! signals on, waits. The heaps write by themselves.

use super::{Progress, options, spool};
use crate::control::ControlPage;
use crate::error::RecordError;
use crate::inherited::Environment;
use crate::target::{Ending, Target};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest time between two looks at the target.
const TURN: Duration = Duration::from_millis(20);
/// Time between two progress reports, and between two looks for processes that the target left
/// behind.
const LOOK: Duration = Duration::from_millis(100);

/// A running recording.
pub struct Session {
    target: Target,
    control: ControlPage,
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
    let mut environment = Environment::inherited();
    environment.set(options::VARIABLE, |before| options::value(addon, before));
    // The addon finds the spool by the target's variable.
    let target = Target::start(program, command, environment, spool)?;
    Ok(Session { target, control, detach_children, spool: spool.to_owned() })
}

impl Session {
    /// Runs until the recording is over.
    pub fn run(mut self, progress: &mut dyn FnMut(Progress)) -> Ending {
        let mut looked = Instant::now();
        loop {
            let must_end = self.target.pass_signals_on();
            let has_just_ended = self.target.has_just_ended();
            let has_ended = self.target.status.is_some();
            let looks = looked.elapsed() >= LOOK;
            if looks {
                looked = Instant::now();
                self.control.tick();
                progress(self.progress());
            }
            let is_over = (has_just_ended && self.detach_children)
                || (has_ended && (has_just_ended || looks) && !self.target.recording_lives());
            if is_over || must_end {
                self.control.tick();
                return self.target.ending();
            }
            self.wait();
        }
    }

    fn progress(&self) -> Progress {
        let streams = spool::streams(&self.spool);
        Progress { heaps: streams.len(), spool_bytes: streams.iter().map(|(_, bytes)| bytes).sum() }
    }

    /// Waits for a signal or the end of a turn.
    fn wait(&self) {
        let mut signals =
            [PollFd::from_borrowed_fd(self.target.signals.descriptor(), PollFlags::IN)];
        let timeout = Timespec { tv_sec: 0, tv_nsec: TURN.as_nanos() as _ };
        // An error is an interruption: the next turn looks again.
        let _ = poll(&mut signals, Some(&timeout));
    }
}
