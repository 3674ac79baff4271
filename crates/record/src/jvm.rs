//! Recordings of JVMs' metaspaces: each JVM writes its own log into a named pipe, and the log
//! becomes the bundle.
//!
//! Nothing is patched or preloaded. The log has hundreds of bytes an allocation (`cargo xtask bench
//! jvm`), so it is never stored raw: heaplab reads it from the pipe and packs it block by block
//! into the spool. It becomes the bundle when the program has ended, or by `heaplab recover`. If
//! the program is `java` itself, it gets `-Xlog` as its first argument and produces no extra
//! output. Any other program (a script, Maven, a launcher) gets the option through
//! `JAVA_TOOL_OPTIONS`, which every JVM mentions on standard error; `java` gets it in this way too
//! if its child JVMs are to be recorded. All JVMs that start with that variable are recorded, each
//! as a process of the bundle. JVMs without it (`java` got only the argument, or a starter clears
//! the variable) are named when the recording ends (`jvm/unlogged.rs`).
//!
//! A JVM waits when the pipe is full, so heaplab reads the pipe as long as the JVM lives. A log
//! line that heaplab cannot parse is counted, not fatal. If heaplab is killed, JVMs with the pipe
//! open run on: their writes fail, and HotSpot ignores that. JVMs that start later find a link to
//! /dev/null in the pipe's place (`jvm/keeper.rs`). A name that dies with heaplab
//! (`/proc/PID/fd/N`) would not do, because HotSpot refuses to start if it cannot open its log.

mod finish;
mod keeper;
mod log_lines;
mod pipe;
mod release;
mod session;
mod spool;
mod unlogged;

pub(crate) use release::is_java;
pub use spool::is_spool;

use crate::control::{ControlPage, Settings};
use crate::error::RecordError;
use crate::{clock, output, proc_fs, spawn};
use heaplab_jvm::log::Counts;
use heaplab_text::words::{bytes, count, plural};
use spool::Facts;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use unlogged::UnloggedJvm;

/// Characters shown of the command line of an unrecorded JVM.
const COMMAND_CHARACTERS: usize = 120;

/// How to record.
#[derive(Clone, Debug)]
pub struct JvmOptions {
    /// The command line: the program, then its arguments.
    pub command: Vec<OsString>,
    /// The bundle; neither it nor its spool may exist.
    pub output: PathBuf,
    /// Replace a bundle of that name, once the new one is whole.
    pub replace: bool,
    /// End with the started program, even if a JVM that it started runs on.
    pub detach_children: bool,
    /// Also record JVMs that the program starts if it is `java` itself. Then all of them mention
    /// the variable on standard error.
    pub jvm_children: bool,
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// JVMs so far.
    pub jvms: usize,
    /// Lines of their logs.
    pub lines: u64,
    /// Bytes of these.
    pub log_bytes: u64,
}

impl std::fmt::Display for Progress {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (jvms, lines) = (plural(self.jvms as u64, "JVM"), count(self.lines));
        write!(to, "recording: {jvms}, {lines} lines of log ({})", bytes(self.log_bytes))
    }
}

/// The result of a recording.
pub type Recorded = crate::target::Recorded<Counts>;

/// Runs the target and records its JVMs into the bundle.
///
/// # Errors
/// The program cannot be started, is a Java before 17, or starts no JVM that writes a log: then
/// nothing is left behind. The log is not understood, or the bundle cannot be written: then the
/// spool is left for [`recover`]. The target is waited for in each of these cases.
pub fn record(
    options: &JvmOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recorded, RecordError> {
    let program = spawn::located(&options.command)?;
    let is_java = release::check(&program)?;
    output::with_spool(&options.output, |spool| {
        record_into(options, &program, is_java, spool, progress)
    })
}

fn record_into(
    options: &JvmOptions,
    program: &Path,
    is_java: bool,
    spool: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recorded, RecordError> {
    // The page is there for its lock and its clock; no target reads it.
    let settings = Settings { stack_depth: 2, ..Settings::default() };
    let control = ControlPage::create(spool, settings)?;
    let pipe = pipe::LogPipe::create()?;
    let facts = Facts {
        command: spawn::shown(&options.command),
        program: program.to_string_lossy().into_owned(),
        began_unix_s: clock::unix_s(),
        pipe: pipe.folder().to_owned(),
        named: spool.to_owned(),
    };
    facts.write(spool)?;
    let session = session::start(program, options, pipe, is_java, spool, control)?;
    let session::Ended { ending, failed, unlogged } = session.run(progress);
    let by_argument = is_java && !options.jvm_children;
    let missed = unlogged.iter().map(|jvm| not_recorded(jvm, by_argument)).collect();
    finish::finish(spool, &options.output, options.replace, Some(ending), missed, failed)
}

/// Whether this argument makes a JVM write no log, despite earlier arguments.
fn turns_logs_off(argument: &str) -> bool {
    argument == "-Xlog:disable"
}

/// The note about a JVM that wrote no log.
fn not_recorded(stranger: &UnloggedJvm, by_argument: bool) -> String {
    // One line, whatever control characters the text has.
    let mut words = stranger.arguments.join(" ").replace(char::is_control, " ");
    if let Some((at, _)) = words.char_indices().nth(COMMAND_CHARACTERS) {
        words.truncate(at);
        words.push_str("...");
    }
    let why = if stranger.arguments.iter().any(|word| turns_logs_off(word)) {
        "its -Xlog:disable turns the log off that heaplab asks for"
    } else if by_argument {
        "the program's own JVM alone was asked; --jvm-children asks those that it starts, too"
    } else {
        "it is older than JDK 17, or started without JAVA_TOOL_OPTIONS"
    };
    format!("the metaspace of the JVM {} ({words}): {why}", stranger.pid)
}

/// Finishes the spool of a recording whose heaplab died.
///
/// # Errors
/// The folder is not the spool of a JVM's recording, there is nothing in its log, or the bundle
/// cannot be written.
pub fn recover(spool: &Path, output: &Path, replace: bool) -> Result<Recorded, RecordError> {
    let recorded = finish::finish(spool, output, replace, None, Vec::new(), None)?;
    let facts = Facts::read(spool)?;
    let absolute = std::path::absolute(spool).map_err(RecordError::io("cannot find", spool))?;
    let named = if facts.named.as_os_str().is_empty() { &absolute } else { &facts.named };
    if !proc_fs::recording_lives(named) {
        keeper::remove_link(&facts.pipe);
    }
    Ok(recorded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jvm::spool::LogWriter;
    use crate::target::Ending;
    use heaplab_preload::SPOOL_VARIABLE;
    use std::process::{Command, Stdio};

    /// A spool with one line of a JVM, whose heaplab is gone.
    fn left(spool: &Path, facts: Facts, line: &str) {
        std::fs::create_dir(spool).unwrap();
        let settings = Settings { stack_depth: 2, ..Settings::default() };
        drop(ControlPage::create(spool, settings).unwrap());
        facts.write(spool).unwrap();
        let mut log = LogWriter::create(spool).unwrap();
        log.line(line.as_bytes(), true).unwrap();
        log.flush().unwrap();
    }

    /// A JVM with an unknown log format still counts as a JVM, and its log stays.
    #[test]
    fn a_log_that_is_not_understood_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (spool, output) = (folder.path().join("x.spool"), folder.path().join("x.heaplab"));
        left(&spool, Facts::default(), "[5ns][7][1] Arena @0x0a0 (non-class sm): : made.");
        let ending = Some(Ending { pid: 7, status: None });
        let error = finish::finish(&spool, &output, false, ending, Vec::new(), None).unwrap_err();
        assert!(matches!(error, RecordError::Finish { .. }), "{error}");
        let said = error.to_string();
        assert!(
            said.contains("is unlike any known JDK's; the first: line 1") && said.contains("made"),
            "{said}"
        );
        assert!(!output.exists());
    }

    /// Of JVMs before 16 there is nothing to keep: no bundle, and no spool to recover that from.
    #[test]
    fn jvms_that_are_too_old_are_no_recording() {
        let folder = tempfile::tempdir().unwrap();
        let (spool, output) = (folder.path().join("x.spool"), folder.path().join("x.heaplab"));
        left(&spool, Facts::default(), "[5ns][7][1] SpaceManager(): 0x00007f57b401c4d0");
        let error = finish::finish(&spool, &output, false, None, Vec::new(), None).unwrap_err();
        assert!(
            matches!(error, RecordError::Nothing(_)) && error.to_string().contains("before JDK 16"),
            "{error}"
        );
        assert!(!output.exists());
    }

    #[test]
    fn what_turns_the_log_off_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (spool, output) = (folder.path().join("x.spool"), folder.path().join("x.heaplab"));
        let command = ["java", "-Xlog:disable", "-version"].map(String::from).to_vec();
        left(&spool, Facts { command, ..Facts::default() }, "");
        std::fs::remove_file(spool.join("jvm-log")).unwrap();
        LogWriter::create(&spool).unwrap();
        let error = finish::finish(&spool, &output, false, None, Vec::new(), None).unwrap_err();
        assert!(error.to_string().contains("-Xlog:disable"), "{error}");
    }

    /// heaplab and its keeper were killed together, so the pipe itself is left.
    #[test]
    fn a_pipe_that_nobody_replaced_goes_too() {
        let folder = tempfile::tempdir().unwrap();
        let (spool, pipe) = (folder.path().join("x.spool"), folder.path().join("pipe"));
        std::fs::create_dir(&pipe).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            pipe.join("log"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        left(
            &spool,
            Facts { pipe: pipe.clone(), named: spool.clone(), ..Facts::default() },
            "[5ns][7][1] Arena @0x0a0 (non-class sm): : born.",
        );
        recover(&spool, &folder.path().join("one.heaplab"), false).unwrap();
        assert!(!pipe.exists());
    }

    #[test]
    fn a_jvm_that_was_not_recorded_is_named_in_one_line() {
        let stranger =
            |word: &str| UnloggedJvm { pid: 7, arguments: vec!["java".into(), word.into()] };
        let said = not_recorded(&stranger("a\nb\u{1b}[31m"), true);
        assert!(
            said.contains("the JVM 7 (java a b [31m): ") && said.contains("--jvm-children"),
            "{said}"
        );
        let said = not_recorded(&stranger("-Xlog:disable"), false);
        assert!(
            said.ends_with("its -Xlog:disable turns the log off that heaplab asks for"),
            "{said}"
        );
        let said = not_recorded(&stranger(&"é".repeat(500)), false);
        assert!(said.contains("é...): it is older"), "{said}");
    }

    /// Recovering the spool by any path leaves the link for the program's next JVM while the
    /// program lives.
    #[test]
    fn the_link_stays_while_the_program_lives() {
        let folder = tempfile::tempdir().unwrap();
        let (spool, pipe) = (folder.path().join("x.spool"), folder.path().join("pipe"));
        std::fs::create_dir(&pipe).unwrap();
        std::os::unix::fs::symlink("/dev/null", pipe.join("log")).unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("by")).unwrap();
        let facts = Facts { pipe: pipe.clone(), named: spool.clone(), ..Facts::default() };
        left(&spool, facts, "[5ns][7][1] Arena @0x0a0 (non-class sm): : born.");
        let mut program = Command::new("/bin/sh");
        let mut program = program
            .args(["-c", "read -r _"])
            .env(SPOOL_VARIABLE, &spool)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        recover(&folder.path().join("by/x.spool"), &folder.path().join("one.heaplab"), false)
            .unwrap();
        assert!(pipe.join("log").is_symlink());
        drop(program.stdin.take());
        program.wait().unwrap();
        recover(&folder.path().join("by/x.spool"), &folder.path().join("two.heaplab"), false)
            .unwrap();
        assert!(!pipe.exists());
    }
}
