//! Writes the log's lines into the spool, with heaplab's own lines between them: the first line,
//! the memory and the end of each JVM.
//!
//! A line names its JVM by pid alone, and the kernel reuses a pid, at once if few are free. So a
//! JVM is a pid and its start from `/proc/PID/stat`. A line belongs to another process if that
//! process started after the JVM and before the line was written.

use super::Progress;
use super::pipe::PIPE_BYTES;
use super::spool::LogWriter;
use crate::error::RecordError;
use crate::proc_fs::{self, Memory, Stat};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;

/// After this many more bytes, everything that was in the pipe before has been read.
const PIPE_PASSED_BYTES: u64 = 2 * PIPE_BYTES as u64;
/// Most JVMs that are distinguished.
const JVMS_LIMIT: usize = 4096;
/// Bytes of a JVM's arguments that are noted: they are one line of the spool, and a command line
/// may have megabytes.
const ARGUMENTS_BYTES_LIMIT: usize = 32 << 10;
/// Interval, by the clock of a JVM's lines, of checks that its pid is still its own: no pid comes
/// round sooner.
const LOOK_NS: u64 = 5_000_000;

/// How far a JVM is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Lives,
    /// It has ended, but its last lines may be in the pipe. The number: bytes read when that was
    /// noticed.
    Gone(u64),
    /// It has ended, and a note behind its last line says so.
    Ended,
}

/// A JVM that wrote.
#[derive(Debug)]
struct Jvm {
    pid: u32,
    /// As [`Stat::start_ticks`]; `None`: it had gone when its first line was read.
    start_ticks: Option<u64>,
    life: Life,
    /// Lines from this time on are looked at whether they are another process's.
    look_ns: u64,
}

/// How processes are looked at; a test has its own.
pub struct Processes {
    /// Start of the process with that pid, in ticks since boot.
    pub start_ticks: Box<dyn Fn(u32) -> Option<u64>>,
    /// Nanoseconds of a tick.
    pub tick_ns: u64,
    /// How far the clock of starts, which counts while the machine sleeps, is now ahead of the
    /// clock of lines.
    pub ahead_ns: Box<dyn Fn() -> u64>,
}

impl Processes {
    /// Those of this machine.
    pub fn real() -> Processes {
        Processes {
            start_ticks: Box::new(|pid| Stat::read(pid).map(|stat| stat.start_ticks)),
            tick_ns: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
            ahead_ns: Box::new(|| {
                // In this order the difference is never too small.
                let [monotonic, boot] = [ClockId::Monotonic, ClockId::Boottime].map(|clock| {
                    let time = clock_gettime(clock);
                    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
                });
                boot.saturating_sub(monotonic)
            }),
        }
    }

    /// The time of a line by the clock of starts.
    fn by_starts(&self, line_ns: u64) -> u64 {
        line_ns.saturating_add((self.ahead_ns)())
    }

    /// Whether a process had started when a line was written. In the tick of its start it had not:
    /// no JVM writes so soon.
    fn had_started(&self, start_ticks: u64, line_ns: u64) -> bool {
        (start_ticks + 1).saturating_mul(self.tick_ns) <= self.by_starts(line_ns)
    }
}

/// Lines into the spool, with heaplab's own between them.
pub struct LogLines {
    log: LogWriter,
    processes: Processes,
    /// Why nothing more is written; the pipe is read on.
    failed: Option<String>,
    /// JVMs that wrote, in order of their first line.
    jvms: Vec<Jvm>,
    /// Those that may write, by pid.
    known: HashMap<u64, usize>,
    /// The last line's pid, and its JVM if it is distinguished.
    last: (u64, Option<usize>),
    last_ns: u64,
    lines: u64,
    bytes: u64,
}

impl LogLines {
    pub fn new(log: LogWriter, processes: Processes) -> LogLines {
        let known = HashMap::new();
        LogLines {
            log,
            processes,
            failed: None,
            jvms: Vec::new(),
            known,
            last: (0, None),
            last_ns: 0,
            lines: 0,
            bytes: 0,
        }
    }

    pub fn progress(&self) -> Progress {
        Progress { jvms: self.jvms.len(), lines: self.lines, log_bytes: self.bytes }
    }

    /// Why nothing more was written.
    pub fn failed(self) -> Option<String> {
        self.failed
    }

    /// Whether the process with that pid and start wrote a line.
    pub fn has(&self, pid: u32, start_ticks: u64) -> bool {
        self.jvms
            .iter()
            .any(|jvm| jvm.pid == pid && jvm.start_ticks.is_none_or(|start| start == start_ticks))
    }

    /// A line of the log.
    pub fn line(&mut self, line: &[u8], whole: bool) {
        (self.lines, self.bytes) = (self.lines + 1, self.bytes + line.len() as u64 + 1);
        if let Some((time_ns, pid, end)) = decorations(line) {
            self.last_ns = self.last_ns.max(time_ns);
            if pid != self.last.0 {
                self.last = (pid, self.known.get(&pid).copied());
                if self.last.1.is_none() {
                    self.begins(&line[..end], pid, time_ns);
                }
            }
            if let Some(index) = self.last.1
                && self.is_anothers(index, time_ns)
            {
                self.note_end(index, self.last_ns);
                self.begins(&line[..end], pid, time_ns);
            }
        }
        self.put(line, whole);
    }

    /// Notes a new JVM at its first line, which has these decorations.
    fn begins(&mut self, decorations: &[u8], pid: u64, time_ns: u64) {
        if self.jvms.len() == JVMS_LIMIT {
            self.last = (pid, None);
            return;
        }
        let number = pid as u32;
        // A process that is younger than the line has the pid of a JVM that is gone.
        let is_writer = |start: &u64| {
            start.saturating_mul(self.processes.tick_ns) <= self.processes.by_starts(time_ns)
        };
        let start_ticks = (self.processes.start_ticks)(number).filter(is_writer);
        let executable = start_ticks
            .and_then(|_| proc_fs::executable(number))
            .map_or(String::new(), |path| path.to_string_lossy().into_owned());
        let (arguments, parent) = start_ticks.map_or((Vec::new(), 0), |_| {
            (leading(proc_fs::arguments(number)), proc_fs::parent(number))
        });
        let noted = serde_json::json!({ "executable": executable, "arguments": arguments, "parent": parent });
        let note = [decorations, format!("[0] heaplab: process {noted}").as_bytes()].concat();
        self.put(&note, true);
        let index = self.jvms.len();
        self.jvms.push(Jvm {
            pid: number,
            start_ticks,
            life: Life::Lives,
            look_ns: time_ns + LOOK_NS,
        });
        self.known.insert(pid, index);
        self.last = (pid, Some(index));
    }

    /// Whether another process now has that JVM's pid and wrote the line.
    fn is_anothers(&mut self, index: usize, time_ns: u64) -> bool {
        let jvm = &mut self.jvms[index];
        if time_ns < jvm.look_ns {
            return false;
        }
        jvm.look_ns = time_ns + LOOK_NS;
        let now = (self.processes.start_ticks)(jvm.pid);
        now.is_some_and(|start| {
            jvm.start_ticks != Some(start) && self.processes.had_started(start, time_ns)
        })
    }

    /// Notes how much memory the JVMs have. Where lines wait in the pipe, the moment is that of the
    /// last one read, so that they are not behind it.
    pub fn sample(&mut self, is_empty: bool) {
        let now_ns = crate::clock::ClockReading::now().monotonic_ns;
        let time_ns = if is_empty { now_ns } else { self.last_ns };
        for index in 0..self.jvms.len() {
            let Jvm { pid, start_ticks, life, .. } = self.jvms[index];
            if life != Life::Lives {
                continue;
            }
            let memory = proc_fs::memory(pid);
            // Asked for behind the memory, which is then that of this JVM.
            let is_same = start_ticks.is_some() && (self.processes.start_ticks)(pid) == start_ticks;
            match memory.filter(|_| is_same) {
                Some(Memory { resident_bytes, anonymous_bytes, .. }) => {
                    let note = format!(
                        "[{time_ns}ns][{pid}][0] heaplab: memory {resident_bytes} {anonymous_bytes}"
                    );
                    self.put(note.as_bytes(), true);
                }
                None => self.jvms[index].life = Life::Gone(self.bytes),
            }
        }
    }

    /// Notes the end of JVMs whose last lines were read: the pipe was empty after their end, or its
    /// whole content was read since. From then on another process may have the pid.
    pub fn note_ends(&mut self, is_empty: bool) {
        for index in 0..self.jvms.len() {
            let Life::Gone(bytes) = self.jvms[index].life else { continue };
            if !is_empty && self.bytes < bytes + PIPE_PASSED_BYTES {
                continue;
            }
            let time_ns = if is_empty {
                crate::clock::ClockReading::now().monotonic_ns
            } else {
                self.last_ns
            };
            self.note_end(index, time_ns);
        }
    }

    fn note_end(&mut self, index: usize, time_ns: u64) {
        let pid = self.jvms[index].pid;
        self.jvms[index].life = Life::Ended;
        self.known.remove(&u64::from(pid));
        self.last = (0, None);
        self.put(format!("[{time_ns}ns][{pid}][0] heaplab: ended").as_bytes(), true);
    }

    fn put(&mut self, line: &[u8], whole: bool) {
        if self.failed.is_none() {
            self.failed = self.log.line(line, whole).err().map(said);
        }
    }

    /// Writes lines that have waited; `all`: all lines.
    pub fn write(&mut self, all: bool) {
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
#[path = "log_lines/tests.rs"]
mod tests;
