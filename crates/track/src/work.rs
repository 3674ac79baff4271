//! A command that is run to its end, for a while at most, and ended as a whole.
//!
//! The command leads a process group of its own, so its children end with it when its time is over,
//! somebody interrupts the measurement, or heaplab is killed. Its output goes into a file, so a
//! build that writes megabytes neither fills memory nor waits for a reader.

use crate::TrackError;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks at a command.
const PAUSE: Duration = Duration::from_millis(5);
/// Of its output the last bytes and lines are kept.
const KEPT_BYTES: u64 = 4096;
const KEPT_LINES: usize = 8;

/// When a command is ended.
#[derive(Clone, Copy, Debug)]
pub struct Limit<'a> {
    /// After so long.
    pub time: Duration,
    /// When this is set.
    pub stop: &'a AtomicBool,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Well.
    Well,
    /// By the interruption.
    Stopped,
    /// On failure: the reason, and the command's last lines.
    Badly {
        /// Why.
        reason: String,
        /// The command's last lines.
        output: String,
    },
}

/// Runs `command` to its end, its output in the file `log`.
///
/// # Errors
/// The file cannot be written, or the command cannot be waited for.
pub fn ran(command: &mut Command, log: &Path, limit: Limit) -> Result<Ended, TrackError> {
    let file = File::options().create(true).read(true).write(true).truncate(true).open(log);
    let mut file = file.map_err(TrackError::io(log, "write"))?;
    let both = || file.try_clone().map_err(TrackError::io(log, "write"));
    command.stdin(Stdio::null()).stdout(both()?).stderr(both()?).process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let program = command.get_program().to_string_lossy();
            let reason = format!("{program} cannot be started: {error}");
            return Ok(Ended::Badly { reason, output: String::new() });
        }
    };
    let guard = Guard::of(child.id());
    let began = Instant::now();
    let ended = loop {
        if let Some(status) =
            child.try_wait().map_err(TrackError::io(log, "wait for the writer of"))?
        {
            break Ok(status);
        }
        let is_stopped = limit.stop.load(Ordering::Relaxed);
        if is_stopped || began.elapsed() > limit.time {
            end_group(child.id());
            let _ = child.wait();
            break Err(is_stopped);
        }
        std::thread::sleep(PAUSE);
    };
    drop(guard);
    // Ctrl-C on a terminal may end the command before the flag is seen.
    let is_interrupt = |status: &ExitStatus| {
        matches!(status.signal(), Some(2 | 15)) || matches!(status.code(), Some(130 | 143))
    };
    Ok(match ended {
        Ok(status) if status.success() => Ended::Well,
        Ok(status) if is_interrupt(&status) && is_set_soon(limit.stop) => Ended::Stopped,
        Ok(status) => Ended::Badly { reason: described(status), output: tail(&mut file) },
        Err(true) => Ended::Stopped,
        Err(false) => Ended::Badly {
            reason: format!("it ran longer than {} s and was ended", limit.time.as_secs_f64()),
            output: tail(&mut file),
        },
    })
}

/// A shell that ends a process group should heaplab be killed: it waits for a word on a pipe, and
/// the kernel closes the pipe of a dead heaplab without one.
struct Guard(Option<Child>);

impl Guard {
    fn of(group: u32) -> Guard {
        let text = format!("read -r word || kill -s KILL -- -{group}");
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &text]).stdin(Stdio::piped()).process_group(0);
        // Without the guard a killed heaplab leaves its command running, and nothing else.
        Guard(shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(shell) = &mut self.0 {
            let pipe = shell.stdin.as_mut();
            if pipe.is_none_or(|pipe| pipe.write_all(b"done\n").is_err()) {
                let _ = shell.kill();
            }
            let _ = shell.wait();
        }
    }
}

fn is_set_soon(stop: &AtomicBool) -> bool {
    std::thread::sleep(PAUSE * 4);
    stop.load(Ordering::Relaxed)
}

fn end_group(leader: u32) {
    if let Some(group) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        // A process that has ended meanwhile needs no signal.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

fn described(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal} ended it"),
        (None, None) => "it ended otherwise".into(),
    }
}

/// The last lines of the output.
fn tail(file: &mut File) -> String {
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = Vec::new();
    let read = file
        .seek(SeekFrom::Start(length.saturating_sub(KEPT_BYTES)))
        .and_then(|_| file.take(KEPT_BYTES).read_to_end(&mut bytes));
    if read.is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(KEPT_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str, seconds: f64, stop: bool) -> Ended {
        let folder = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(stop);
        let limit = Limit { time: Duration::from_secs_f64(seconds), stop: &stop };
        let mut command = Command::new("/bin/sh");
        ran(command.args(["-c", text]), &folder.path().join("log"), limit).unwrap()
    }

    #[test]
    fn how_a_command_ended_is_said_with_its_last_words() {
        assert_eq!(shell("echo fine", 60.0, false), Ended::Well);
        let Ended::Badly { reason, output } = shell("seq 9999; echo no >&2; exit 3", 60.0, false)
        else {
            panic!()
        };
        assert_eq!((reason.as_str(), output.lines().count()), ("exit code 3", 8));
        assert!(output.ends_with("9999\nno"), "{output}");
        let Ended::Badly { reason, .. } = shell("sleep 60 & sleep 60", 0.1, false) else {
            panic!()
        };
        assert!(reason.contains("longer than 0.1 s"), "{reason}");
        assert_eq!(shell("sleep 60", 60.0, true), Ended::Stopped);
        let Ended::Badly { reason, .. } = shell("kill -9 $$", 60.0, false) else { panic!() };
        assert_eq!(reason, "signal 9 ended it");
    }
}
