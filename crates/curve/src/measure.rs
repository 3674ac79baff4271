//! One run of a command, in a process of its own beside it: starts the command, samples its memory,
//! waits, and ends its remaining processes.
//!
//! This process is the reaper of everything that the command starts (`PR_SET_CHILD_SUBREAPER`): no
//! descendant escapes from the count or stays behind. Its standard input stays open while the
//! requesting process lives; the input's end ends the command and all of its processes.
//!
//! The kernel's own peak (`ru_maxrss`) is exact, but a program begins with the peak of the process
//! that started it. If the result is not above this process's own peak, the largest sampled `VmHWM`
//! takes its place. A program that ended before the first sample has no `VmHWM`; the kernel's
//! figure is then an upper bound.

use crate::cell::{Canary, CellReport, CellRequest, Failure, Look, Measure};
use crate::handling::Output;
use crate::runtimes::{LINE_BYTES_MAX, Teller};
use crate::tree::{self, Memory};
use heaplab_experiment::process::describe;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::VecDeque;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Looks that are kept of a run.
const LOOKS_KEPT: usize = 128;
/// Time between two searches for new processes, which read all of `/proc`.
const SEARCH_INTERVAL: Duration = Duration::from_millis(100);
/// The kernel counts resident pages of a process in batches: two of its figures of one moment
/// differ by as much.
const COUNTED_TOGETHER_BYTES: u64 = 1 << 20;
/// Time for children to end by themselves after the command's end.
const GRACE: Duration = Duration::from_millis(200);
/// Last lines of standard error kept as the reason of a failure.
const LINES_KEPT: usize = 20;

/// Reads a request from standard input, carries it out, and writes the report to standard output.
///
/// # Errors
/// The request cannot be read, or the report not written.
pub fn serve() -> std::io::Result<()> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let request: CellRequest = serde_json::from_str(&line)?;
    let mut out = std::io::stdout().lock();
    match &request.launch {
        Some(_) => serde_json::to_writer(&mut out, &run(&request))?,
        None => serde_json::to_writer(&mut out, &canary(&request))?,
    }
    out.flush()
}

/// The canary on the command's processors.
fn canary(request: &CellRequest) -> Canary {
    let _ = pin(&request.cores);
    let begin = Instant::now();
    let cpu_ns = match heaplab_replay::cell::canary() {
        heaplab_replay::CellReport::Canary { ns } => ns,
        _ => 0,
    };
    Canary { cpu_ns, wall_ns: begin.elapsed().as_nanos() as u64 }
}

/// Keeps this process on these processors; returns the earlier set.
fn pin(cores: &[u32]) -> Option<CpuSet> {
    let before = sched_getaffinity(None).ok()?;
    if cores.is_empty() {
        return Some(before);
    }
    let mut set = CpuSet::new();
    cores
        .iter()
        .filter(|core| (**core as usize) < CpuSet::MAX_CPU)
        .for_each(|core| set.set(*core as usize));
    sched_setaffinity(None, &set).ok()?;
    Some(before)
}

/// Carries out a run.
fn run(request: &CellRequest) -> CellReport {
    let failed = |reason: String| {
        CellReport::Failed(Failure { reason, not_started: true, ..Failure::default() })
    };
    if let Err(error) = set_child_subreaper(Some(getpid())) {
        return failed(format!("this process cannot take over orphans: {error}"));
    }
    let (command, copies) = match command(request) {
        Ok(command) => command,
        Err(reason) => return failed(reason),
    };
    match start(command, request) {
        Ok((begin, child)) => {
            // The kernel's peak of a command begins with that of this process at its exec.
            let own = tree::memory(&[std::process::id()]);
            let own_peak = own.map_or(0, |memory| memory.peak_bytes);
            finish(request, begin, (child, copies), own_peak)
        }
        Err(reason) => failed(reason),
    }
}

/// The copy of a stream, for example a file.
type Copy = Box<dyn Write + Send>;

/// Copies of standard output and of standard error.
type Copies = [Option<Copy>; 2];

fn command(request: &CellRequest) -> Result<(Command, Copies), String> {
    let launch = request.launch.clone().unwrap_or_default();
    let Some((program, arguments)) = launch.words.split_first() else {
        return Err("there is no command".into());
    };
    let mut command = Command::new(program);
    command.args(arguments).process_group(0).stderr(Stdio::piped());
    for name in &launch.unset {
        command.env_remove(name);
    }
    command.envs(launch.set.iter().map(|(name, value)| (name, value)));
    let tells_on_output = request.runtime.is_some_and(|runtime| runtime.tells_on_output());
    let (stdout, copies): (Stdio, Copies) = match &request.output {
        Output::Null if !tells_on_output => (Stdio::null(), [None, None]),
        Output::Null | Output::Pipe => (Stdio::piped(), [None, None]),
        Output::Inherit => {
            let shown = || Some(Box::new(std::io::stderr()) as Copy);
            (Stdio::piped(), [shown(), shown()])
        }
        Output::File(path) => {
            let file = std::fs::File::create(path)
                .map_err(|error| format!("--output: {path} cannot be written: {error}"))?;
            if tells_on_output {
                (Stdio::piped(), [Some(Box::new(file)), None])
            } else {
                (file.into(), [None, None])
            }
        }
    };
    command.stdout(stdout);
    match &request.input {
        None => command.stdin(Stdio::null()),
        Some(path) => command.stdin(
            std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?,
        ),
    };
    Ok((command, copies))
}

/// Starts the command on its processors; this process stays where it is.
fn start(mut command: Command, request: &CellRequest) -> Result<(Instant, Child), String> {
    let before = pin(&request.cores);
    if before.is_none() {
        return Err(format!("it cannot be put on the processors {:?}", request.cores));
    }
    let begin = Instant::now();
    let child = command.spawn();
    if let Some(before) = before {
        // If this fails, this process samples memory from the command's processor. That costs only
        // precision.
        let _ = sched_setaffinity(None, &before);
    }
    let child = child.map_err(|error| {
        format!("{} cannot be started: {error}", command.get_program().display())
    })?;
    Ok((begin, child))
}

/// Watches a command until it has ended, then its remaining processes.
fn finish(
    request: &CellRequest,
    begin: Instant,
    (mut child, [output_copy, errors_copy]): (Child, Copies),
    own_peak: u64,
) -> CellReport {
    let teller = request.runtime.map(Teller::new);
    let on_output = request.runtime.is_some_and(|runtime| runtime.tells_on_output());
    let output = child
        .stdout
        .take()
        .map(|stream| listen(stream, teller.clone().filter(|_| on_output), output_copy));
    let errors = child
        .stderr
        .take()
        .map(|stream| listen(stream, teller.filter(|_| !on_output), errors_copy));
    let (is_over, pid) = (AtomicBool::new(false), child.id());
    let (status, wall, watched) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| Watch::new(request, begin, pid).until(&is_over));
        let status = child.wait();
        let wall = begin.elapsed();
        is_over.store(true, Ordering::Relaxed);
        (status, wall, watcher.join().unwrap_or_default())
    });
    let left_behind = end_what_is_left(!watched.timed_out && !watched.is_abandoned);
    let heard: Vec<Heard> =
        [output, errors].into_iter().flatten().filter_map(|thread| thread.join().ok()).collect();
    let (peak_bytes, peak_is_bound) = watched.peak_bytes(own_peak);
    let failure = if watched.timed_out {
        Some(format!("it did not end within {} s", request.timeout_ms as f64 / 1e3))
    } else {
        failure(request, status, &heard)
    };
    if let Some(reason) = failure {
        let wall_ns = wall.as_nanos() as u64;
        return CellReport::Failed(Failure {
            reason,
            timed_out: watched.timed_out,
            not_started: false,
            wall_ns,
            peak_bytes,
        });
    }
    let mut teller = heard.into_iter().find_map(|heard| heard.teller);
    if let (Some(teller), Some(folder)) = (&mut teller, &request.logs) {
        teller.read_logs(folder);
    }
    let usage = children_usage();
    CellReport::Measured(Box::new(Measure {
        wall_ns: wall.as_nanos() as u64,
        peak_bytes,
        peak_is_bound,
        peak_anonymous_bytes: watched.peak_anonymous_bytes,
        mean_anonymous_bytes: watched.mean_anonymous_bytes(),
        processes: watched.processes,
        looks: watched.looks,
        series: watched.series,
        left_behind,
        collections: teller.and_then(|teller| teller.collections()),
        ..usage
    }))
}

/// Why an ended run does not count.
fn failure(
    request: &CellRequest,
    status: io::Result<ExitStatus>,
    heard: &[Heard],
) -> Option<String> {
    let status = match status {
        Ok(status) => status,
        Err(error) => return Some(format!("its process was lost: {error}")),
    };
    match status.code() {
        Some(code) if request.ignore_failure.accept(code) => {
            heard.iter().find_map(|heard| heard.uncopied.clone())
        }
        _ => {
            let tail = heard.last().map(|heard| heard.tail.clone()).unwrap_or_default();
            Some(said(status, &tail))
        }
    }
}

/// The reason of a failure: the status and the last lines of standard error. Runtimes print a
/// reason first and its place behind it.
fn said(status: ExitStatus, tail: &VecDeque<String>) -> String {
    let telling = [
        "memory",
        "Memory",
        "error",
        "Error",
        "fatal",
        "Fatal",
        "FATAL",
        "exception",
        "Exception",
        "panic",
        "not found",
        "cannot",
    ];
    let line =
        tail.iter().find(|line| telling.iter().any(|word| line.contains(word))).or(tail.back());
    describe(status, line.map_or("", String::as_str))
}

/// The lines of a stream.
struct Heard {
    teller: Option<Teller>,
    /// The reason why a part of the stream is missing in its copy.
    uncopied: Option<String>,
    tail: VecDeque<String>,
}

/// Reads a stream to its end. Parses a runtime's lines, keeps the last of the others, and copies
/// everything if there is a copy.
fn listen(
    mut stream: impl Read + Send + 'static,
    teller: Option<Teller>,
    mut copy: Option<Copy>,
) -> JoinHandle<Heard> {
    std::thread::spawn(move || {
        let mut heard = Heard { teller, uncopied: None, tail: VecDeque::new() };
        let (mut buffer, mut line) = (vec![0; 1 << 16], Vec::new());
        // At the end of the stream or at an error, the lines so far stand.
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            if let Some(Err(error)) = copy.as_mut().map(|copy| copy.write_all(&buffer[..read])) {
                heard.uncopied = Some(format!("its output cannot be written: {error}"));
                copy = None;
            }
            for part in buffer[..read].split_inclusive(|byte| *byte == b'\n') {
                // Keeps the beginning of a line that is too long.
                line.extend_from_slice(
                    &part[..part.len().min(LINE_BYTES_MAX.saturating_sub(line.len()))],
                );
                if part.ends_with(b"\n") {
                    heard.take(&line);
                    line.clear();
                }
            }
        }
        if !line.is_empty() {
            heard.take(&line);
        }
        heard
    })
}

impl Heard {
    fn take(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim();
        let is_told = self.teller.as_mut().is_some_and(|teller| teller.line(line));
        if !is_told && !line.is_empty() {
            if self.tail.len() == LINES_KEPT {
                self.tail.pop_front();
            }
            self.tail.push_back(line.chars().take(300).collect());
        }
    }
}

/// Figures of a command while it runs.
#[derive(Debug, Default)]
struct Watch {
    timeout: Duration,
    interval: Duration,
    begin: Option<Instant>,
    pids: Vec<u32>,
    searched: Option<Instant>,
    timed_out: bool,
    is_abandoned: bool,
    looks: u32,
    processes: u32,
    seen: Memory,
    peak_anonymous_bytes: u64,
    /// The sum of anonymous bytes times nanoseconds, and the sum of these nanoseconds.
    area: (f64, f64),
    last: Option<(Instant, u64)>,
    series: Vec<Look>,
    /// Samples in one entry of the series.
    looks_an_entry: u32,
}

impl Watch {
    fn new(request: &CellRequest, begin: Instant, pid: u32) -> Watch {
        let (timeout, interval) = (
            Duration::from_millis(request.timeout_ms),
            Duration::from_millis(request.interval_ms.max(1)),
        );
        Watch {
            timeout,
            interval,
            begin: Some(begin),
            pids: vec![pid],
            looks_an_entry: 1,
            ..Watch::default()
        }
    }

    /// Samples until the command is over. Ends the command when its time is up, or when the
    /// requesting process is gone.
    fn until(mut self, is_over: &AtomicBool) -> Watch {
        let input = std::io::stdin();
        let begin = self.begin.unwrap_or_else(Instant::now);
        while !is_over.load(Ordering::Relaxed) {
            self.look(begin);
            if self.timed_out || self.is_abandoned || begin.elapsed() > self.timeout {
                self.timed_out = !self.is_abandoned;
                kill_all();
            }
            let pause = Timespec {
                tv_sec: self.interval.as_secs() as i64,
                tv_nsec: self.interval.subsec_nanos().into(),
            };
            if self.is_abandoned {
                std::thread::sleep(self.interval);
            } else if poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&pause))
                .is_ok_and(|ready| ready > 0)
            {
                // Nothing is ever written behind the request, so this is the end of input.
                self.is_abandoned = true;
            }
        }
        self
    }

    fn look(&mut self, begin: Instant) {
        let now = Instant::now();
        if self.searched.is_none_or(|searched| now - searched >= SEARCH_INTERVAL) {
            self.pids = tree::descendants(std::process::id());
            self.searched = Some(now);
        } else {
            // A command behind a shell may live for less than the time between two searches.
            for pid in tree::listed_descendants(std::process::id()) {
                if !self.pids.contains(&pid) {
                    self.pids.push(pid);
                }
            }
        }
        let Some(memory) = tree::memory(&self.pids) else { return };
        self.processes = self.processes.max(self.pids.len() as u32);
        self.looks += 1;
        self.seen.peak_bytes = self.seen.peak_bytes.max(memory.peak_bytes);
        self.seen.resident_bytes = self.seen.resident_bytes.max(memory.resident_bytes);
        self.peak_anonymous_bytes = self.peak_anonymous_bytes.max(memory.anonymous_bytes);
        if let Some((before, bytes)) = self.last {
            let length = (now - before).as_nanos() as f64;
            self.area.0 += (bytes + memory.anonymous_bytes) as f64 / 2.0 * length;
            self.area.1 += length;
        }
        self.last = Some((now, memory.anonymous_bytes));
        let ms = (now - begin).as_millis() as u64;
        self.keep(Look {
            ms,
            resident_bytes: memory.resident_bytes,
            anonymous_bytes: memory.anonymous_bytes,
        });
    }

    /// Keeps a sample. If there are too many, two become one, with the larger bytes of both.
    fn keep(&mut self, look: Look) {
        let larger = |a: Look, b: Look| Look {
            ms: a.ms,
            resident_bytes: a.resident_bytes.max(b.resident_bytes),
            anonymous_bytes: a.anonymous_bytes.max(b.anonymous_bytes),
        };
        match self.series.last_mut() {
            Some(last) if !(self.looks - 1).is_multiple_of(self.looks_an_entry) => {
                *last = larger(*last, look)
            }
            _ => self.series.push(look),
        }
        if self.series.len() == LOOKS_KEPT {
            self.series =
                self.series.chunks(2).map(|pair| larger(pair[0], pair[pair.len() - 1])).collect();
            self.looks_an_entry *= 2;
        }
    }

    fn mean_anonymous_bytes(&self) -> u64 {
        match self.area {
            (_, 0.0) => self.peak_anonymous_bytes,
            (area, length) => (area / length) as u64,
        }
    }

    /// The kernel's peak if it is the command's own, else the largest sample. If a command ended
    /// before its second sample and is smaller than this process, the kernel's peak is an upper
    /// bound: returns true. (The first sample may be of the moment after its exec.)
    fn peak_bytes(&self, own_peak: u64) -> (u64, bool) {
        let kernels = children_peak();
        let seen = self.seen.peak_bytes.max(self.seen.resident_bytes);
        match kernels > own_peak + COUNTED_TOGETHER_BYTES {
            true => (seen.max(kernels), false),
            false if self.looks < 2 || seen == 0 => (kernels, true),
            false => (seen, false),
        }
    }
}

/// Ends every visible descendant.
fn kill_all() {
    for pid in tree::descendants(std::process::id()) {
        if let Some(pid) = Pid::from_raw(pid as i32) {
            // It may just have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Waits for the command's remaining processes, and ends those that do not end by themselves;
/// returns their names.
fn end_what_is_left(with_grace: bool) -> Vec<String> {
    let end = Instant::now() + if with_grace { GRACE } else { Duration::ZERO };
    let mut names: Vec<String> = Vec::new();
    loop {
        while let Ok(Some(_)) = waitpid(None, WaitOptions::NOHANG) {}
        let left = tree::descendants(std::process::id());
        if left.is_empty() {
            return names;
        }
        if Instant::now() >= end {
            for name in left.iter().map(|pid| tree::name(*pid)).filter(|_| with_grace) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            kill_all();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn usage() -> libc::rusage {
    // SAFETY: a rusage holds plain integers and lives through the call; RUSAGE_CHILDREN is a valid
    // first argument.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    }
}

/// Largest resident set of any process waited for.
fn children_peak() -> u64 {
    usage().ru_maxrss as u64 * 1024
}

/// Figures of all processes waited for, together.
fn children_usage() -> Measure {
    let usage = usage();
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Measure {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
        major_faults: usage.ru_majflt as u64,
        minor_faults: usage.ru_minflt as u64,
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
        ..Measure::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_is_thinned_and_keeps_its_peak() {
        let mut watch = Watch { looks_an_entry: 1, ..Watch::default() };
        for ms in 0..10_000 {
            watch.looks += 1;
            let bytes = if ms == 7_777 { 1_000_000 } else { ms };
            watch.keep(Look { ms, resident_bytes: bytes, anonymous_bytes: bytes });
        }
        assert!(
            watch.series.len() < LOOKS_KEPT && watch.series.len() >= LOOKS_KEPT / 2,
            "{}",
            watch.series.len()
        );
        assert_eq!(watch.series.iter().map(|look| look.resident_bytes).max(), Some(1_000_000));
        assert!(
            watch.series.windows(2).all(|pair| pair[0].ms < pair[1].ms) && watch.series[0].ms == 0
        );
    }

    #[test]
    fn what_a_program_says_is_bounded() {
        let text = format!(
            "{}\nallocated_words: 2\nminor_words: 1\npromoted_words: 0\nmajor_words: 1\nmajor_collections: 3\nlast",
            "x".repeat(1 << 20)
        );
        let heard = listen(
            std::io::Cursor::new(text),
            Some(Teller::new(crate::runtimes::Runtime::Ocaml)),
            None,
        )
        .join()
        .unwrap();
        assert_eq!(heard.teller.unwrap().collections().unwrap().cycles, 3);
        assert_eq!(heard.tail.back().map(String::as_str), Some("last"));
        assert!(heard.tail.iter().all(|line| line.len() <= 300));
    }
}
