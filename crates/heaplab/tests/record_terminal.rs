//! `heaplab record`, `replay` and `curve` on a terminal: what of their progress a person sees.

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

/// A terminal's two ends.
fn terminal() -> (File, OwnedFd) {
    let (mut master, mut slave) = (-1, -1);
    // SAFETY: openpty writes two descriptors that nobody else owns, and takes null for what is not
    // wanted.
    unsafe {
        let opened = libc::openpty(
            &raw mut master,
            &raw mut slave,
            std::ptr::null_mut(),
            std::ptr::null(),
            std::ptr::null(),
        );
        assert_eq!(opened, 0);
        for end in [master, slave] {
            libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC);
        }
        (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    }
}

/// What stands on the terminal after a recording of half a second, with standard error on it, and
/// standard output too or nowhere.
fn shown(folder: &Path, options: &[&str], has_output: bool) -> String {
    let mut record = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    record.current_dir(folder).args(["record", "--force", "-o", "x.heaplab"]).args(options);
    record.args(["--", "sh", "-c", "echo before; sleep 0.5; echo after"]);
    written(record, has_output)
}

/// What a command that succeeds writes to the terminal.
fn written(mut command: Command, has_output: bool) -> String {
    let (mut master, slave) = terminal();
    let output = if has_output { Stdio::from(slave.try_clone().unwrap()) } else { Stdio::null() };
    let mut child = command.stdin(Stdio::null()).stdout(output).stderr(slave).spawn().unwrap();
    drop(command);
    let mut all = Vec::new();
    let mut part = [0; 4096];
    // An error is the terminal's other end being closed.
    while let Ok(length @ 1..) = master.read(&mut part) {
        all.extend_from_slice(&part[..length]);
    }
    assert!(child.wait().unwrap().success());
    String::from_utf8_lossy(&all).into_owned()
}

/// An editor's screen and a prompt are spoilt by a line between them.
#[test]
fn progress_is_not_written_where_the_program_writes() {
    let folder = tempfile::tempdir().unwrap();
    let shown = |options: &[&str], has_output| shown(folder.path(), options, has_output);
    let own = shown(&[], true);
    assert!(
        own.contains("before\r\nafter\r\n")
            && own.contains("finishing: ")
            && !own.contains("recording: "),
        "{own:?}"
    );
    let elsewhere = shown(&[], false);
    assert!(
        elsewhere.contains("recording: ") && elsewhere.contains("finishing: "),
        "{elsewhere:?}"
    );
    let asked = shown(&["--progress", "always"], true);
    assert!(asked.contains("recording: "), "{asked:?}");
    for never in [&["--progress", "never"][..], &["-q"]] {
        let quiet = shown(never, false);
        assert!(
            !quiet.contains("recording: ")
                && !quiet.contains("finishing: ")
                && quiet.contains("heaplab: next"),
            "{quiet:?}"
        );
    }
}

#[test]
fn a_replay_shows_its_progress_unless_it_is_quiet() {
    let folder = tempfile::tempdir().unwrap();
    shown(folder.path(), &["-q"], false);
    let replay = |options: &[&str]| {
        let mut replay = Command::new(env!("CARGO_BIN_EXE_heaplab"));
        replay.current_dir(folder.path()).args(["replay", "x.heaplab", "--space", "--on", "glibc"]);
        replay.args(options);
        written(replay, false)
    };
    let loud = replay(&[]);
    assert!(loud.contains(" cells, "), "{loud:?}");
    for quiet in ["--quiet", "-q"] {
        let quiet = replay(&[quiet]);
        assert!(!quiet.contains("cells"), "{quiet:?}");
    }
}

#[test]
fn a_curve_shows_its_progress_unless_it_is_quiet() {
    let folder = tempfile::tempdir().unwrap();
    let curve = |options: &[&str]| {
        let mut curve = Command::new(env!("CARGO_BIN_EXE_heaplab"));
        curve.current_dir(folder.path()).args(["curve", "--vary", "N={1,2}", "--no-default"]);
        curve.args(options).args(["--", "true"]);
        written(curve, false)
    };
    for (options, progress) in
        [(&["--reps", "1"][..], " runs, "), (&["--min-heap"], " tries at most")]
    {
        let loud = curve(options);
        assert!(loud.contains(progress), "{loud:?}");
        for quiet in ["--quiet", "-q"] {
            let quiet = curve(&[options, &[quiet]].concat());
            assert_eq!(quiet, "");
        }
    }
}
