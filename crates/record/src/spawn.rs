//! Starts the target: as it would run without us, but for two variables in its environment.

use crate::diagnose;
use crate::error::RecordError;
use crate::preload;
use crate::signals::Signals;
use heaplab_recorder::SPOOL_VARIABLE;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Where the program's file is; an error where it cannot be started at all.
pub fn locate(program: &OsStr) -> Result<PathBuf, RecordError> {
    let search = std::env::var_os("PATH");
    let shown = || program.to_string_lossy().into_owned();
    let path = diagnose::find_program(program, search.as_deref()).ok_or_else(|| RecordError::NotFound(shown()))?;
    if !path.exists() {
        return Err(RecordError::NotFound(shown()));
    }
    if !diagnose::is_executable(&path) {
        let reason = if path.is_dir() { "it is a folder" } else { "this user has no permission to execute it" };
        return Err(RecordError::NotExecutable { path, reason: reason.to_owned() });
    }
    Ok(path)
}

/// Starts `command` (its first word names the program at `path`), recorded into `spool` by the recorder `object`, if there is one. Standard input, output and error,
/// the process group and the working folder are heaplab's own; the signal mask is what it was before `signals` were taken.
pub fn start(path: &Path, command: &[OsString], object: Option<&Path>, spool: &Path, signals: &Signals) -> Result<Child, RecordError> {
    let mut child = as_it_would_run(path, command, signals);
    if let Some(object) = object {
        child.env("LD_PRELOAD", preload::variable(object, std::env::var_os("LD_PRELOAD").as_deref()));
        child.env(SPOOL_VARIABLE, spool);
    }
    child.spawn().map_err(|error| RecordError::NotExecutable { path: path.to_owned(), reason: error.to_string() })
}

/// `command`, with the signal mask as it was before `signals` were taken.
pub(crate) fn as_it_would_run(path: &Path, command: &[OsString], signals: &Signals) -> Command {
    let mut child = Command::new(path);
    child.args(command.get(1..).unwrap_or_default());
    if let Some(name) = command.first() {
        child.arg0(name);
    }
    let mask = signals.mask_before();
    // SAFETY: between fork and exec the closure makes one async-signal-safe call on plain data that it owns.
    unsafe {
        child.pre_exec(move || {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
            Ok(())
        });
    }
    child
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_started_is_said() {
        assert!(matches!(locate(OsStr::new("no-such-program-anywhere")), Err(RecordError::NotFound(_))));
        assert!(matches!(locate(OsStr::new("/no/such/file")), Err(RecordError::NotFound(_))));
        assert!(matches!(locate(OsStr::new("/")), Err(RecordError::NotExecutable { .. })));
        assert!(matches!(locate(OsStr::new("/etc/passwd")), Err(RecordError::NotExecutable { .. })));
        assert!(locate(OsStr::new("sh")).is_ok());
    }
}
