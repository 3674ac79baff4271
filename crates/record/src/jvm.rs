//! Recordings of a JVM's metaspace: the JVM writes its own log into a named pipe, and what comes out of it goes into the bundle.
//!
//! Nothing is patched or preloaded, and the log, some 500 bytes an allocation, is never stored. A program that is `java` itself gets
//! `-Xlog` as its first argument; any other (a script, Maven, a launcher) gets it through `JAVA_TOOL_OPTIONS`, which the JVM then mentions on
//! standard error. Where several JVMs start, the first is recorded.
//!
//! The JVM waits when the pipe is full, so the pipe is read as long as it lives, whatever else happens: a log line that
//! cannot be understood is counted, not fatal. Should heaplab be killed, a JVM that has the pipe open runs on: its writes fail,
//! which it ignores. But the pipe's name and what was set in the program's environment outlive heaplab then, and a JVM
//! that the program starts later waits at opening a pipe that nobody reads; it has to be ended by hand. A name that dies
//! with heaplab (`/proc/PID/fd/N`) would not help: where HotSpot cannot open its log it refuses to start.

mod pipe;
mod release;

use crate::error::RecordError;
use crate::signals::{self, Signals};
use crate::{proc_fs, spawn};
use heaplab_trace::TraceError;
use heaplab_trace::bundle::{BundleWriter, Meta};
use heaplab_trace::import::jvm_log::{Counts, Importer};
use heaplab_trace::import::{self, Imported};
use heaplab_trace::tables::Ended;
use pipe::{LogPipe, Taken};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant, SystemTime};

/// Longest time between two looks at the target.
const TURN: Duration = Duration::from_millis(50);
/// Time between two samples of the JVM's resident memory, and between two reports of progress.
const SAMPLE: Duration = Duration::from_millis(100);
/// Signals after which the recording ends although the target does not.
const PATIENCE: u32 = 3;

/// How to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command line: the program, then its arguments.
    pub command: Vec<OsString>,
    /// The bundle; it must not exist.
    pub output: PathBuf,
    /// End when the started program has ended, although a JVM that it started runs on.
    pub detach_children: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// How the started program ended; `None`: it runs on.
    pub status: Option<ExitStatus>,
    /// What was recorded, as `meta.json` has it but for the counts that are filled in there.
    pub meta: Meta,
    /// What the log amounted to.
    pub counts: Counts,
    /// The bundle.
    pub output: PathBuf,
}

impl Recorded {
    /// The started program's exit code, 128 + N where signal N ended it.
    pub fn exit_code(&self) -> u8 {
        let Some(status) = self.status else { return 0 };
        status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1) as u8
    }
}

/// Runs the target and records its JVM into the bundle.
///
/// # Errors
/// The program cannot be started, is a Java before 17, or starts no JVM whose log can be read; the bundle cannot be written. The target is
/// waited for in each of these cases, and then nothing is left behind.
pub fn record(options: &Options, progress: &mut dyn FnMut(Counts)) -> Result<Recorded, RecordError> {
    let name = options.command.first().ok_or_else(|| RecordError::NotFound(String::new()))?;
    let program = spawn::locate(name)?;
    let is_java = release::check(&program)?;
    let writer = BundleWriter::create(&options.output)?;
    let pipe = LogPipe::create()?;
    let signals = Signals::take().map_err(RecordError::io("cannot take signals over for", &options.output))?;
    let child = start(&program, &options.command, is_java, &pipe, &signals)?;
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let shown = options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>();
    let log = import::Options { name: PathBuf::from(format!("the log of {}", shown.join(" "))), lenient: true };
    let mut session = Session {
        importer: Importer::new(&log),
        failed: None,
        lines: 0,
        child,
        status: None,
        signals,
        pipe,
        ending_signals: 0,
        writer,
        detach_children: options.detach_children,
    };
    session.run(progress);
    session.finish(&program, shown, began, &options.output)
}

fn start(path: &Path, command: &[OsString], is_java: bool, pipe: &LogPipe, signals: &Signals) -> Result<Child, RecordError> {
    let argument = pipe.java_argument();
    let mut words = command.to_vec();
    if is_java {
        words.insert(1, argument.clone());
    }
    let mut child = spawn::as_it_would_run(path, &words, signals);
    if !is_java {
        let mut value = std::env::var_os("JAVA_TOOL_OPTIONS").unwrap_or_default();
        if !value.is_empty() {
            value.push(OsStr::new(" "));
        }
        value.push(&argument);
        child.env("JAVA_TOOL_OPTIONS", value);
    }
    child.spawn().map_err(|error| RecordError::NotExecutable { path: path.to_owned(), reason: error.to_string() })
}

struct Session {
    importer: Importer,
    /// Why nothing more is written; the pipe is read on.
    failed: Option<TraceError>,
    lines: u64,
    child: Child,
    status: Option<ExitStatus>,
    signals: Signals,
    pipe: LogPipe,
    ending_signals: u32,
    writer: BundleWriter,
    detach_children: bool,
}

impl Session {
    fn run(&mut self, progress: &mut dyn FnMut(Counts)) {
        let mut sampled = Instant::now();
        loop {
            let taken = self.take();
            self.pass_signals_on();
            if self.status.is_none() {
                self.status = self.child.try_wait().ok().flatten();
                if self.status.is_some() {
                    // What it wrote last is still in the pipe.
                    continue;
                }
            }
            let is_over = self.status.is_some() && (taken == Taken::NoWriter || self.detach_children);
            if (is_over && taken != Taken::Some) || self.ending_signals >= PATIENCE {
                return;
            }
            if sampled.elapsed() >= SAMPLE {
                sampled = Instant::now();
                self.sample();
                progress(self.importer.counts());
            }
            if taken != Taken::Some {
                self.wait(taken);
            }
        }
    }

    /// Reads what is in the pipe, up to a buffer's worth.
    fn take(&mut self) -> Taken {
        let Session { importer, failed, lines, pipe, writer, .. } = self;
        pipe.lines(&mut |line, whole| {
            *lines += 1;
            if failed.is_none() {
                *failed = importer.line(*lines, line, whole, writer).err();
            }
        })
    }

    fn sample(&mut self) {
        let pid = self.importer.pid().unwrap_or(0) as u32;
        if let Some((resident_bytes, anonymous_bytes)) = proc_fs::memory(pid).filter(|_| pid != 0) {
            self.importer.memory(resident_bytes, anonymous_bytes);
        }
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
                // Only a JVM that the program started is left: it runs on unrecorded.
                self.ending_signals = PATIENCE;
            } else if !arrived.from_terminal {
                signals::send(self.child.id(), arrived.signal);
            }
        }
    }

    fn finish(mut self, program: &Path, command: Vec<String>, began_unix_s: u64, output: &Path) -> Result<Recorded, RecordError> {
        let counts = self.importer.counts();
        let jvm = self.importer.pid();
        let is_child = jvm.is_none_or(|pid| pid == u64::from(self.child.id()));
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        if counts.lines == 0 {
            return Err(RecordError::Nothing(format!(
                "{} started no JVM that writes a log of its metaspace (JDK 17 or later){}",
                program.display(),
                self.status.map_or(String::new(), |status| format!("; it ended with {status}"))
            )));
        }
        let Imported { mut tables, mut meta } = self.importer.finish(&mut self.writer)?;
        meta.program = command.join(" ");
        meta.began_unix_s = began_unix_s;
        meta.architecture = std::env::consts::ARCH.into();
        let seconds = meta.duration_ns as f64 / 1e9;
        let signal = self.status.and_then(|status| status.signal());
        if self.status.is_none() {
            meta.cut = Some(format!("heaplab stopped the recording at {seconds:.3} s; the program ran on unrecorded"));
        } else if let Some(signal) = signal.filter(|_| is_child) {
            meta.cut = Some(format!("signal {signal} ended the JVM; its log ends at {seconds:.3} s"));
        }
        if let Some(process) = tables.processes.first_mut() {
            process.pid = jvm.unwrap_or(self.child.id().into()) as u32;
            process.executable = program.to_string_lossy().into_owned();
            process.arguments = command;
            process.ended = match self.status.filter(|_| is_child) {
                Some(status) => status.code().map_or(Ended::Signalled(signal.unwrap_or(0)), Ended::Exited),
                None => Ended::Unknown,
            };
            process.ended_ns = self.status.map(|_| meta.duration_ns);
        }
        self.writer.finish(&tables, meta.clone())?;
        Ok(Recorded { status: self.status, meta, counts, output: output.to_owned() })
    }
}
