//! Starts the target as it would run without us, except for two variables in its environment, and
//! notices its end.

use crate::diagnose;
use crate::error::RecordError;
use crate::inherited::{self, Environment};
use crate::jvm;
use crate::mappings::jvm::OPTIONS;
use crate::preload;
use crate::python;
use crate::signals::Signals;
use heaplab_preload::SPOOL_VARIABLE;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

/// A `wait` status of a stopped process: neither an exit status nor a signal.
const NEITHER: i32 = 0x7f;

/// Settings for the recorder in the program's environment.
#[derive(Clone, Copy, Debug)]
pub struct Preloading<'a> {
    /// The recorder; `None` if the program's dynamic linker would fail over it.
    pub object: Option<&'a Path>,
    /// Whether `ASAN_OPTIONS` must tell AddressSanitizer to accept the recorder.
    pub asan_is_told: bool,
    /// Whether Python must take objects from malloc.
    pub sets_python: bool,
    /// Whether JVMs must track their memory and answer questions about it.
    pub asks_jvms: bool,
}

/// A program's exit code as a shell shows it: 128 + N if signal N ended the program.
pub fn exit_code(status: ExitStatus) -> u8 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1) as u8
}

/// The words of a command line as text.
pub(crate) fn shown(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The file of the program that a command line names; an error if it cannot be started.
pub(crate) fn located(command: &[OsString]) -> Result<PathBuf, RecordError> {
    locate(command.first().ok_or_else(|| RecordError::NotFound(String::new()))?)
}

/// The program's file; an error if it cannot be started.
fn locate(program: &OsStr) -> Result<PathBuf, RecordError> {
    let search = std::env::var_os("PATH");
    let shown = || program.to_string_lossy().into_owned();
    let path = diagnose::find_program(program, search.as_deref())
        .ok_or_else(|| RecordError::NotFound(shown()))?;
    if !path.exists() {
        return Err(RecordError::NotFound(shown()));
    }
    if !diagnose::is_executable(&path) {
        let reason = if path.is_dir() {
            "it is a folder"
        } else {
            "this user has no permission to execute it"
        };
        return Err(RecordError::NotExecutable { path, reason: reason.to_owned() });
    }
    Ok(path)
}

/// `ASAN_OPTIONS` with [`diagnose::ASAN_ALLOWS`] before the user's options: the last value of an
/// option counts.
fn asan_options(existing: Option<&OsStr>) -> OsString {
    let mut value = OsString::from(diagnose::ASAN_ALLOWS);
    if let Some(existing) = existing.filter(|existing| !existing.is_empty()) {
        value.push(":");
        value.push(existing);
    }
    value
}

/// `JDK_JAVA_OPTIONS` with [`OPTIONS`] before the user's: the last value of an option counts.
fn java_options(existing: Option<&OsStr>) -> OsString {
    let mut value = OsString::from(OPTIONS.join(" "));
    if let Some(existing) = existing.filter(|existing| !existing.is_empty()) {
        value.push(" ");
        value.push(existing);
    }
    value
}

/// Starts `command` (its first word names the program at `path`), recorded into `spool`. Standard
/// input, output and error, the process group and the working folder are heaplab's; the signal mask
/// is the one before `signals` were taken.
pub fn start(
    path: &Path,
    command: &[OsString],
    how: Preloading<'_>,
    spool: &Path,
    signals: &Signals,
) -> Result<Child, RecordError> {
    let mut environment = Environment::inherited();
    if how.asan_is_told {
        environment.set("ASAN_OPTIONS", asan_options);
    }
    if how.sets_python {
        python::set_environment(&mut environment);
    }
    let mut command = command.to_vec();
    if how.asks_jvms && jvm::is_java(path) {
        command.splice(1..1, OPTIONS.map(OsString::from));
    } else if how.asks_jvms {
        // Before 18 a JVM gets the first option by its launcher's command line alone, and this
        // variable is a part of it.
        environment.set("JDK_JAVA_OPTIONS", java_options);
    }
    if let Some(object) = how.object {
        environment.set("LD_PRELOAD", |before| preload::variable(object, before));
        environment.set(SPOOL_VARIABLE, |_| spool.as_os_str().to_owned());
    }
    as_it_would_run(path, &command, signals, environment)
}

/// Starts `command` in `environment`, with the signal mask and ignored signals from before
/// `signals` were taken.
pub(crate) fn as_it_would_run(
    path: &Path,
    command: &[OsString],
    signals: &Signals,
    environment: Environment,
) -> Result<Child, RecordError> {
    let mut child = Command::new(path);
    child.args(command.get(1..).unwrap_or_default());
    if let Some(name) = command.first() {
        child.arg0(name);
    }
    let mask = signals.mask_before();
    let handling = |is_ignored| if is_ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    let (on_pipe, on_child) =
        (handling(inherited::pipe_is_ignored()), handling(signals.child_was_ignored()));
    let environment = environment.block();
    // SAFETY: between fork and exec the closure makes async-signal-safe calls on plain data that it
    // owns, allocates nothing, and is the only thread. `Command` runs it after its own changes;
    // `Command` has no variables of its own and takes the current `environ`.
    unsafe {
        child.pre_exec(move || {
            libc::signal(libc::SIGPIPE, on_pipe);
            libc::signal(libc::SIGCHLD, on_child);
            environment.install();
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
            Ok(())
        });
    }
    child.spawn().map_err(|error| RecordError::NotExecutable {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// How the target has ended; `None`: it runs. If another caller has waited for it, the end is
/// unknown, and the status has neither a code nor a signal.
pub(crate) fn ended(child: &mut Child) -> Option<ExitStatus> {
    match child.try_wait() {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
            Some(ExitStatus::from_raw(NEITHER))
        }
        other => other.ok().flatten(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_asan_are_kept() {
        assert_eq!(asan_options(None), "verify_asan_link_order=0");
        assert_eq!(asan_options(Some("".as_ref())), "verify_asan_link_order=0");
        assert_eq!(
            asan_options(Some("detect_leaks=0".as_ref())),
            "verify_asan_link_order=0:detect_leaks=0"
        );
    }

    #[test]
    fn options_of_java_are_kept() {
        let ours = java_options(None).into_string().unwrap();
        assert_eq!(ours, "-XX:NativeMemoryTracking=detail -XX:+StartAttachListener");
        assert_eq!(java_options(Some("-Xmx1g".as_ref())), *format!("{ours} -Xmx1g"));
    }

    #[test]
    fn what_cannot_be_started_is_said() {
        assert!(matches!(
            locate(OsStr::new("no-such-program-anywhere")),
            Err(RecordError::NotFound(_))
        ));
        assert!(matches!(locate(OsStr::new("/no/such/file")), Err(RecordError::NotFound(_))));
        assert!(matches!(locate(OsStr::new("/")), Err(RecordError::NotExecutable { .. })));
        assert!(matches!(
            locate(OsStr::new("/etc/passwd")),
            Err(RecordError::NotExecutable { .. })
        ));
        assert!(locate(OsStr::new("sh")).is_ok());
    }

    /// An embedding program may ignore SIGCHLD or wait for all its children.
    #[test]
    fn a_target_that_somebody_else_waited_for_has_ended() {
        let mut child = Command::new("true").spawn().unwrap();
        // SAFETY: a null status is allowed, and the child is ours.
        assert!(unsafe { libc::waitpid(child.id() as i32, std::ptr::null_mut(), 0) } > 0);
        let status = ended(&mut child).expect("it has ended");
        assert_eq!((status.code(), status.signal()), (None, None));
    }
}
