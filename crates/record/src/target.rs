//! What recordings without the preload object share: their program, its end, and their result.

use crate::error::RecordError;
use crate::inherited::Environment;
use crate::signals::Signals;
use crate::{proc_fs, spawn};
use heaplab_preload::SPOOL_VARIABLE;
use heaplab_trace::bundle::Meta;
use heaplab_trace::tables::Process;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};

/// Signals after which a recording ends even if its program does not.
pub(crate) const PATIENCE: u32 = 3;

/// The started program.
pub(crate) struct Target {
    /// How it ended; `None`: it runs.
    pub status: Option<ExitStatus>,
    /// Signals to heaplab.
    pub signals: Signals,
    child: Child,
    ending_signals: u32,
    spool: PathBuf,
}

/// How a recording ended, if heaplab lived to see it.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    /// The started program.
    pub pid: u32,
    /// How it ended; `None`: it runs on.
    pub status: Option<ExitStatus>,
}

/// The result of a recording.
#[derive(Clone, Debug)]
pub struct Recorded<Counts> {
    /// How the started program ended; `None`: it runs on, or nobody saw its end.
    pub status: Option<ExitStatus>,
    /// The content of `meta.json`, except the counts filled in there.
    pub meta: Meta,
    /// Counts of the recorded.
    pub counts: Counts,
    /// The recorded processes, in the order of their beginnings.
    pub processes: Vec<Process>,
    /// The bundle.
    pub output: PathBuf,
}

impl<Counts> Recorded<Counts> {
    /// The started program's exit code; 128 + N if signal N ended it, 1 if it runs on.
    pub fn exit_code(&self) -> u8 {
        self.status.map_or(1, spawn::exit_code)
    }
}

impl Target {
    /// Starts `command` (its first word names the program at `program`) in `environment`, with the
    /// name of `spool`, by which `heaplab mark` finds the recording.
    pub fn start(
        program: &Path,
        command: &[OsString],
        mut environment: Environment,
        spool: &Path,
    ) -> Result<Target, RecordError> {
        let signals =
            Signals::take().map_err(RecordError::io("cannot take signals over for", spool))?;
        environment.set(SPOOL_VARIABLE, |_| spool.as_os_str().to_owned());
        let child = spawn::as_it_would_run(program, command, &signals, environment)?;
        Ok(Target { status: None, signals, child, ending_signals: 0, spool: spool.to_owned() })
    }

    /// The started program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether this look is the first that finds the program ended.
    pub fn has_just_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = spawn::ended(&mut self.child);
            return self.status.is_some();
        }
        false
    }

    /// Passes signals on. Returns whether the recording must end now; its processes run on.
    pub fn pass_signals_on(&mut self) -> bool {
        let runs = self.status.is_none();
        let arrived = self.signals.pass_on(self.pid(), runs, &self.spool);
        self.ending_signals += arrived;
        self.ending_signals >= PATIENCE || (arrived > 0 && !runs)
    }

    /// Whether a process of the recording lives: the program, or a descendant.
    pub fn recording_lives(&self) -> bool {
        proc_fs::recording_lives(&self.spool)
    }

    /// How the recording ended.
    pub fn ending(&self) -> Ending {
        Ending { pid: self.pid(), status: self.status }
    }
}

impl Ending {
    /// The words of how the program ended, behind others; empty if nobody saw its end.
    pub fn words(ending: Option<&Ending>) -> String {
        let status = ending.and_then(|ending| ending.status);
        status.map_or(String::new(), |status| format!("; it ended with {status}"))
    }
}
