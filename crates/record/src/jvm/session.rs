//! One recording from start to end: reads the pipe, notes which JVMs write into it and how much memory they have, passes signals on.

use super::pipe::{LogPipe, PIPE_BYTES, Taken};
use super::spool::LogWriter;
use super::{Options, Progress};
use crate::control::ControlPage;
use crate::error::RecordError;
use crate::signals::{self, Signals};
use crate::{proc_fs, spawn};
use heaplab_recorder::SPOOL_VARIABLE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashSet;
use std::ffi::OsStr;
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
/// Bytes after which what was in the pipe before them has been read, for sure.
const PIPE_PASSED_BYTES: u64 = 2 * PIPE_BYTES as u64;
/// Most JVMs that are told apart.
const JVMS_LIMIT: usize = 4096;
/// Bytes of a JVM's arguments that are noted: they are one line of the spool, and a command line may have megabytes.
const ARGUMENTS_BYTES_LIMIT: usize = 32 << 10;

/// A recording under way.
pub struct Session {
    notebook: Notebook,
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
    let signals = Signals::take().map_err(RecordError::io("cannot take signals over for", spool))?;
    let argument = pipe.java_argument();
    let mut words = options.command.clone();
    if is_java {
        words.insert(1, argument.clone());
    }
    let mut child = spawn::as_it_would_run(program, &words, &signals);
    if !is_java {
        let mut value = std::env::var_os("JAVA_TOOL_OPTIONS").unwrap_or_default();
        if !value.is_empty() {
            value.push(OsStr::new(" "));
        }
        value.push(&argument);
        child.env("JAVA_TOOL_OPTIONS", value);
    }
    // By this `heaplab mark` finds the recording.
    child.env(SPOOL_VARIABLE, spool);
    let child = child.spawn().map_err(|error| RecordError::NotExecutable { path: program.to_owned(), reason: error.to_string() })?;
    Ok(Session {
        notebook: Notebook { log, failed: None, jvms: Vec::new(), known: HashSet::new(), last_pid: 0, last_ns: 0, lines: 0, bytes: 0 },
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
    /// Until the recording is over. What could not be written is said.
    pub fn run(mut self, progress: &mut dyn FnMut(Progress)) -> (u32, Option<ExitStatus>, Option<String>) {
        let mut sampled = Instant::now();
        loop {
            let taken = self.pipe.lines(&mut |line, whole| self.notebook.line(line, whole));
            self.notebook.note_ends(taken != Taken::Some);
            self.pass_signals_on();
            if self.status.is_none() {
                self.status = self.child.try_wait().ok().flatten();
                if self.status.is_some() {
                    // What it wrote last is still in the pipe.
                    continue;
                }
            }
            let is_over = self.status.is_some() && taken != Taken::Some && self.nobody_left(taken);
            if is_over || self.ending_signals >= PATIENCE {
                return self.end();
            }
            if sampled.elapsed() >= SAMPLE {
                sampled = Instant::now();
                self.notebook.sample(taken != Taken::Some);
                self.control.tick();
                progress(Progress { jvms: self.notebook.jvms.len(), lines: self.notebook.lines, log_bytes: self.notebook.bytes });
            }
            self.notebook.write(false);
            if taken != Taken::Some {
                self.wait(taken);
            }
        }
    }

    /// Whether no JVM writes, and none can come: the target's descendants, which have the pipe's name in their environment, have ended too.
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

    fn end(mut self) -> (u32, Option<ExitStatus>, Option<String>) {
        self.drain();
        self.notebook.sample(true);
        // A JVM that was seen to have ended wrote its last lines before.
        let is_empty = self.drain();
        self.notebook.note_ends(is_empty);
        self.notebook.write(true);
        self.control.tick();
        if descendants_live(&self.spool) {
            self.pipe.leave();
        }
        (self.child.id(), self.status, self.notebook.failed)
    }

    /// Reads what is in the pipe, as far as somebody who goes on writing lets it; whether that was everything.
    fn drain(&mut self) -> bool {
        let mut take = || self.pipe.lines(&mut |line, whole| self.notebook.line(line, whole));
        (0..DRAIN_READS).any(|_| take() != Taken::Some)
    }

    /// Until there is something to read, a signal, or a turn is over. A pipe without a writer is always "ready", so it is left out then.
    fn wait(&self, taken: Taken) {
        let (signals, pipe) = (self.signals.descriptor(), self.pipe.descriptor());
        let mut both = [PollFd::from_borrowed_fd(signals, PollFlags::IN), PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)];
        let watched = if taken == Taken::NoWriter { 1 } else { 2 };
        let turn = if taken == Taken::NoWriter { TURN / 10 } else { TURN };
        let timeout = Timespec { tv_sec: 0, tv_nsec: turn.as_nanos() as _ };
        // An error is an interruption: the next turn looks again.
        let _ = poll(&mut both[..watched], Some(&timeout));
    }

    fn pass_signals_on(&mut self) {
        while let Some(arrived) = self.signals.next() {
            self.ending_signals += 1;
            if self.status.is_some() {
                // Only JVMs that the program started are left: they run on unrecorded.
                self.ending_signals = PATIENCE;
            } else if !arrived.from_terminal {
                signals::send(self.child.id(), arrived.signal);
            }
        }
    }
}

/// Whether a process lives that has this recording's name in its environment.
pub fn descendants_live(spool: &Path) -> bool {
    let is_one = |pid: u32| proc_fs::environment(pid, SPOOL_VARIABLE).is_some_and(|named| named == spool.as_os_str());
    proc_fs::all().into_iter().any(is_one)
}

/// How far a JVM is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Lives,
    /// It has ended, and its last lines may be in the pipe: so many bytes had been read when that was seen.
    Gone(u64),
    /// It has ended, and that is noted behind its last line.
    Ended,
}

/// Lines into the spool, with heaplab's own between them.
struct Notebook {
    log: LogWriter,
    /// Why nothing more is written; the pipe is read on.
    failed: Option<String>,
    /// JVMs that wrote, and how far each is.
    jvms: Vec<(u32, Life)>,
    /// Those that may write.
    known: HashSet<u64>,
    last_pid: u64,
    last_ns: u64,
    lines: u64,
    bytes: u64,
}

impl Notebook {
    fn line(&mut self, line: &[u8], whole: bool) {
        (self.lines, self.bytes) = (self.lines + 1, self.bytes + line.len() as u64 + 1);
        if let Some((time_ns, pid, end)) = decorations(line) {
            self.last_ns = self.last_ns.max(time_ns);
            if pid != self.last_pid {
                self.last_pid = pid;
                if self.jvms.len() < JVMS_LIMIT && self.known.insert(pid) {
                    self.begins(&line[..end], pid as u32);
                }
            }
        }
        self.put(line, whole);
    }

    /// The first line of a JVM, decorated so: what it is.
    fn begins(&mut self, decorations: &[u8], pid: u32) {
        self.jvms.push((pid, Life::Lives));
        let executable = proc_fs::executable(pid).map_or(String::new(), |path| path.to_string_lossy().into_owned());
        let (arguments, parent) = (leading(proc_fs::arguments(pid)), proc_fs::parent(pid));
        let noted = serde_json::json!({ "executable": executable, "arguments": arguments, "parent": parent });
        let note = [decorations, format!("[0] heaplab: process {noted}").as_bytes()].concat();
        self.put(&note, true);
    }

    /// Notes how much memory the JVMs have. Where lines wait in the pipe, the moment is that of the last one read, so that
    /// they are not behind it.
    fn sample(&mut self, is_empty: bool) {
        let now_ns = crate::clock::Moment::now().monotonic_ns;
        let time_ns = if is_empty { now_ns } else { self.last_ns };
        for index in 0..self.jvms.len() {
            let (pid, life) = self.jvms[index];
            if life != Life::Lives {
                continue;
            }
            match proc_fs::memory(pid) {
                Some((resident_bytes, anonymous_bytes)) => {
                    let note = format!("[{time_ns}ns][{pid}][0] heaplab: memory {resident_bytes} {anonymous_bytes}");
                    self.put(note.as_bytes(), true);
                }
                None => self.jvms[index].1 = Life::Gone(self.bytes),
            }
        }
    }

    /// Notes which JVMs have ended, once their last lines were read: the pipe was found empty after they had, or its whole content
    /// was read since. Another process may have such a pid from then on.
    fn note_ends(&mut self, is_empty: bool) {
        for index in 0..self.jvms.len() {
            let (pid, Life::Gone(bytes)) = self.jvms[index] else { continue };
            if !is_empty && self.bytes < bytes + PIPE_PASSED_BYTES {
                continue;
            }
            let time_ns = if is_empty { crate::clock::Moment::now().monotonic_ns } else { self.last_ns };
            self.jvms[index].1 = Life::Ended;
            self.known.remove(&u64::from(pid));
            self.last_pid = 0;
            self.put(format!("[{time_ns}ns][{pid}][0] heaplab: ended").as_bytes(), true);
        }
    }

    fn put(&mut self, line: &[u8], whole: bool) {
        if self.failed.is_none() {
            self.failed = self.log.line(line, whole).err().map(said);
        }
    }

    /// Writes what has waited; `all`: everything.
    fn write(&mut self, all: bool) {
        if self.failed.is_none() {
            let written = if all { self.log.flush() } else { self.log.flush_old() };
            self.failed = written.err().map(said);
        }
    }
}

/// The first of these words, then "..." where there are more than are noted.
fn leading(mut words: Vec<String>) -> Vec<String> {
    let mut bytes = 0;
    let mut fits = |word: &String| {
        bytes += word.len() + 1;
        bytes <= ARGUMENTS_BYTES_LIMIT
    };
    let kept = words.iter().take_while(|word| fits(word)).count();
    if kept < words.len() {
        words.truncate(kept);
        words.push(String::from("..."));
    }
    words
}

fn said(error: RecordError) -> String {
    format!("{error}; the recording ends there, the program ran on")
}

/// The time and the pid that a line is decorated with, and where the second decoration ends.
fn decorations(line: &[u8]) -> Option<(u64, u64, usize)> {
    let first = memchr::memchr(b']', line)?;
    let second = first + 1 + memchr::memchr(b']', &line[first + 1..])?;
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.trim().parse::<u64>().ok();
    let time_ns = number(line[..first].strip_prefix(b"[")?.strip_suffix(b"ns")?)?;
    let pid = number(line[first + 1..second].strip_prefix(b"[")?)?;
    Some((time_ns, pid, second + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jvm::spool;
    use std::process::{Command, Stdio};

    fn notebook(spool: &Path) -> Notebook {
        Notebook {
            log: LogWriter::create(spool).unwrap(),
            failed: None,
            jvms: Vec::new(),
            known: HashSet::new(),
            last_pid: 0,
            last_ns: 0,
            lines: 0,
            bytes: 0,
        }
    }

    /// The lines that the spool has.
    fn noted(spool: &Path) -> Vec<String> {
        let mut lines = Vec::new();
        let damage = spool::read(spool, |line, _| {
            lines.push(String::from_utf8_lossy(line).into_owned());
            Ok(())
        });
        assert_eq!(damage.unwrap(), None);
        lines
    }

    /// A process that ends with its standard input.
    fn process(arguments: &[String]) -> Child {
        let child = Command::new("/bin/sh").args(["-c", "read -r _", "jvm"]).args(arguments).stdin(Stdio::piped()).spawn().unwrap();
        // `spawn` returns when the old program is gone, a moment before the kernel knows the new one's arguments.
        while proc_fs::arguments(child.id()).is_empty() {
            std::thread::yield_now();
        }
        child
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    /// The end of a JVM is noted behind its last lines, and a process that has its pid later is another.
    #[test]
    fn a_jvm_ends_behind_its_last_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut notebook = notebook(folder.path());
        let child = process(&[]);
        let pid = child.id();
        notebook.line(format!("[1ns][{pid}][1] the first").as_bytes(), true);
        notebook.sample(false);
        notebook.note_ends(true);
        end(child);
        notebook.sample(false);
        notebook.note_ends(false);
        notebook.line(format!("[2ns][{pid}][1] the last").as_bytes(), true);
        notebook.note_ends(false);
        notebook.note_ends(true);
        notebook.sample(true);
        notebook.line(format!("[3ns][{pid}][1] another's").as_bytes(), true);
        notebook.sample(true);
        (0..30).for_each(|_| notebook.line(&vec![b'x'; 100_000], true));
        notebook.note_ends(false);
        notebook.write(true);
        let lines = noted(folder.path());
        let words = ["heaplab: process", "the first", "heaplab: memory", "the last", "heaplab: ended", "heaplab: process", "another's"];
        let kinds: Vec<&str> = lines.iter().filter_map(|line| words.iter().find(|word| line.contains(**word)).copied()).collect();
        assert_eq!(kinds, [&words[..], &["heaplab: ended"]].concat(), "{lines:?}");
    }

    #[test]
    fn a_jvm_with_a_long_command_line_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let mut notebook = notebook(folder.path());
        let mut arguments = vec![String::from("-cp"), "\u{1}".repeat(30_000)];
        arguments.extend((0..5).map(|_| "x".repeat(100_000)));
        let child = process(&arguments);
        let pid = child.id();
        (0..2048).for_each(|_| notebook.line("x".repeat(99).as_bytes(), true));
        notebook.line(format!("[1ns][{pid}][1] the first").as_bytes(), true);
        notebook.line(format!("[2ns][{pid}][1] the second").as_bytes(), true);
        notebook.write(true);
        end(child);
        let lines = noted(folder.path());
        assert_eq!((lines.len(), lines[2049].ends_with("the first"), lines[2050].ends_with("the second")), (2051, true, true));
        let (_, text) = lines[2048].split_once("heaplab: process ").unwrap();
        let note: serde_json::Value = serde_json::from_str(text).unwrap();
        let words: Vec<&str> = note["arguments"].as_array().unwrap().iter().filter_map(|word| word.as_str()).collect();
        assert_eq!((words.len(), words[words.len() - 2].len(), words[words.len() - 1]), (7, 30_000, "..."));
    }

    #[test]
    fn time_and_pid_are_found() {
        assert_eq!(decorations(b"[123ns][45][67] Arena @0x1"), Some((123, 45, 11)));
        assert_eq!(decorations(b"[123ns][ 45 ][67] x"), Some((123, 45, 13)));
        for other in [&b"[123ns] x"[..], b"[1s][45][6]", b"", b"]]", b"[][]", b"[123ns]45]"] {
            assert_eq!(decorations(other), None);
        }
    }
}
