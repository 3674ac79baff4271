//! A run of a workload in the real runtime.
//!
//! Steps go into the driver's standard input while the driver reads: a workload of any length takes
//! no memory and leaves no file.

use crate::messages::{LEVELS, Slice, Slices};
use crate::{Driver, OCamlError};
use heaplab_heap::Ask;
use heaplab_ocaml::Counters;
use heaplab_ocaml::spec::Spec;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::process::{Child, Stdio};

/// One step of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An object of this many bytes is born and stored.
    Birth {
        /// The slot that gets it.
        slot: u32,
        /// Bytes.
        size: usize,
    },
    /// The slot is emptied.
    Death {
        /// The slot whose object dies.
        slot: u32,
    },
    /// The program requests a collection: `Gc.minor` or `Gc.full_major`.
    Collect(Ask),
    /// `Gc.compact`.
    Compact,
}

/// The runtime's counters at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The counters of `Gc.quick_stat`.
    #[serde(flatten)]
    pub counters: Counters,
    /// The places of all objects, as in [`heaplab_ocaml::OCaml::placement`].
    pub placement: u64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// After each requested collection.
    pub collections: Vec<Report>,
    /// At the end.
    pub end: Report,
    /// Each slice, if requested.
    pub slices: Vec<Slice>,
    /// CPU time of the process, ns, the reading of steps included.
    pub cpu_ns: u64,
    /// Peak of resident bytes without those of files; `None`: the kernel does not tell.
    pub peak_anonymous_bytes: Option<u64>,
}

/// The driver's last report.
#[derive(Clone, Copy, Default, Deserialize)]
struct Usage {
    cpu_ns: u64,
    peak_anonymous_bytes: i64,
}

impl Driver {
    /// Runs `steps` over `slots` slots with the parameters of `spec`. `messages`: the runtime
    /// reports each slice, which takes time.
    ///
    /// # Errors
    /// A step that the driver cannot take, or the driver dies.
    pub fn run(
        &self,
        spec: &Spec,
        slots: u32,
        steps: impl IntoIterator<Item = Step>,
        messages: bool,
    ) -> Result<Run, OCamlError> {
        self.feed(spec, slots, messages, |put| steps.into_iter().try_for_each(put))
    }

    /// [`Driver::run`] with steps that come by calls: `steps` gets a function for each step, and
    /// ends at that function's first error.
    ///
    /// # Errors
    /// As for [`Driver::run`], or an error of `steps`.
    pub fn feed<F>(
        &self,
        spec: &Spec,
        slots: u32,
        messages: bool,
        steps: F,
    ) -> Result<Run, OCamlError>
    where
        F: FnOnce(&mut dyn FnMut(Step) -> Result<(), String>) -> Result<(), String>,
    {
        let levels = if messages { LEVELS } else { 0 };
        let mut command = self.command();
        // No other runtime parameters reach the driver: its decisions would depend on them, as they
        // do on its argument.
        command
            .env_remove("CAMLRUNPARAM")
            .env("OCAMLRUNPARAM", format!("{},v={levels}", spec.run_parameters()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |source| OCamlError::Start { driver: self.program().to_owned(), source };
        let mut child = Killed(command.spawn().map_err(failed)?);
        let (Some(input), Some(output), Some(errors)) =
            (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take())
        else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        std::thread::scope(|scope| {
            let told = scope.spawn(move || read_messages(errors));
            let said = scope.spawn(move || read_reports(output));
            let mut writer = Writer {
                to: BufWriter::with_capacity(1 << 16, input),
                slots,
                written: 0,
                failure: None,
            };
            let fed = writer
                .begin()
                .and_then(|()| steps(&mut |step| writer.put(step)))
                .and_then(|()| writer.end());
            let (steps, failure) = (writer.written, writer.failure.take());
            drop(writer);
            if !matches!(failure, None | Some(Failure::Pipe)) || failure.is_none() && fed.is_err() {
                // The driver waits for a step that will not come.
                let _ = child.0.kill();
            }
            let status = child.0.wait().map_err(failed)?;
            let (slices, message) = told.join().unwrap_or_default();
            let reports = said.join().unwrap_or_else(|_| Ok((Vec::new(), Usage::default())));
            match (failure, fed) {
                (Some(Failure::Step(step, what)), _) => Err(OCamlError::Step { step, what }),
                (None, Err(error)) => Err(OCamlError::Workload(error)),
                (None, Ok(())) if status.success() => {
                    let (reports, usage) = reports?;
                    Run::of(reports, usage, slices)
                }
                _ => Err(died(status.to_string(), steps, message)),
            }
        })
    }
}

impl Run {
    /// The run whose driver sent this.
    fn of(mut reports: Vec<Report>, usage: Usage, slices: Vec<Slice>) -> Result<Run, OCamlError> {
        let Some(end) = reports.pop() else {
            return Err(OCamlError::Output {
                expected: "the counters of the run",
                found: String::new(),
            });
        };
        let peak = u64::try_from(usage.peak_anonymous_bytes).ok();
        Ok(Run {
            collections: reports,
            end,
            slices,
            cpu_ns: usage.cpu_ns,
            peak_anonymous_bytes: peak.filter(|peak| *peak > 0),
        })
    }
}

fn died(status: String, steps: u64, message: String) -> OCamlError {
    let memory = ["Out_of_memory", "out of memory", "not enough memory", "cannot allocate"];
    match memory.iter().any(|text| message.contains(text)) {
        true => OCamlError::OutOfMemory { steps, message },
        false => OCamlError::Died { status, steps, message },
    }
}

/// A child that does not outlive its owner.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

enum Failure {
    /// A step that cannot be written: its number, and the part that does not fit.
    Step(u64, String),
    /// The driver has closed its input.
    Pipe,
}

/// Writes steps as the driver reads them.
struct Writer<W> {
    to: W,
    slots: u32,
    written: u64,
    failure: Option<Failure>,
}

impl<W: Write> Writer<W> {
    fn begin(&mut self) -> Result<(), String> {
        match i32::try_from(heaplab_ocaml::slot_fields(self.slots)) {
            Ok(fields) => self.write(&fields.to_le_bytes()),
            Err(_) => self.unfit(format!("{} slots; at most {}", self.slots, i32::MAX)),
        }
    }

    fn put(&mut self, step: Step) -> Result<(), String> {
        let (slot, words) = match step {
            Step::Birth { slot, .. } | Step::Death { slot } if slot >= self.slots => {
                return self.unfit(format!("slot {slot} of {}", self.slots));
            }
            Step::Birth { slot, size } => (slot as i32, size.div_ceil(8).max(1)),
            Step::Death { slot } => (slot as i32, 0),
            Step::Collect(Ask::Full) => (-1, 0),
            Step::Collect(Ask::Minor) => (-2, 0),
            Step::Compact => (-3, 0),
        };
        let Ok(words) = i32::try_from(words) else {
            return self.unfit(format!("an object of {words} words; at most {}", i32::MAX));
        };
        self.written += 1;
        self.pair(slot, words)
    }

    fn end(&mut self) -> Result<(), String> {
        self.pair(-4, 0)?;
        self.to.flush().or_else(|_| self.broken())
    }

    fn pair(&mut self, slot: i32, words: i32) -> Result<(), String> {
        let [a, b, c, d] = slot.to_le_bytes();
        let [e, f, g, h] = words.to_le_bytes();
        self.write(&[a, b, c, d, e, f, g, h])
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.to.write_all(bytes).or_else(|_| self.broken())
    }

    fn broken(&mut self) -> Result<(), String> {
        self.failure = Some(Failure::Pipe);
        Err("the OCaml driver has ended".into())
    }

    fn unfit(&mut self, what: String) -> Result<(), String> {
        self.failure = Some(Failure::Step(self.written, what.clone()));
        Err(what)
    }
}

/// The slices, and the last line.
fn read_messages(from: impl Read) -> (Vec<Slice>, String) {
    let mut slices = Slices::default();
    let mut last = String::new();
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        slices.line(&line);
        if !line.trim().is_empty() {
            last.clear();
            last.push_str(&line);
        }
    }
    (slices.finish(), last)
}

fn read_reports(from: impl Read) -> Result<(Vec<Report>, Usage), OCamlError> {
    let mut reports = Vec::new();
    let mut usage = Usage::default();
    for line in BufReader::new(from).lines().map_while(Result::ok) {
        if let Ok(last) = serde_json::from_str(&line) {
            usage = last;
        } else {
            let report = serde_json::from_str(&line);
            reports.push(
                report.map_err(|_| OCamlError::Output {
                    expected: "counters as JSON",
                    found: line,
                })?,
            );
        }
    }
    Ok((reports, usage))
}
