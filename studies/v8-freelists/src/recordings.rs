//! The recorded programs: which there are, and reading them.
//!
//! Each is a run of `programs/run.cjs`, recorded by `heaplab record --node` and kept without
//! stacks in `traces/v8`. A folder that `HEAPLAB_V8_RECORDINGS` names is looked at first, so that
//! larger recordings of the same programs (`record` makes them) go through the same claims.

use anyhow::{Context, Result};
use heaplab_trace::bundle::{Bundle, BundleWriter, Meta, Selection};
use heaplab_trace::tables::{Arena, Process, StackNode, Tables, Thread};
use heaplab_trace::{Event, EventSink, EventSource, Flags, NO_STACK, Op};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What kind of program the document would have it: its claims are about both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tool at real work: the document's are web pages.
    Real,
    /// One of Octane's benchmarks.
    Synthetic,
}

/// A program of `programs/run.cjs`.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// As `run.cjs` names it.
    pub name: &'static str,
    /// What the document would call it.
    pub kind: Kind,
    /// How much of its work is recorded, as `run.cjs` takes it.
    pub times: u32,
}

const fn real(name: &'static str, times: u32) -> Recorded {
    Recorded { name, kind: Kind::Real, times }
}

const fn synthetic(name: &'static str, times: u32) -> Recorded {
    Recorded { name, kind: Kind::Synthetic, times }
}

/// All of them.
pub const PROGRAMS: [Recorded; 8] = [
    real("tsc", 1),
    real("eslint", 2),
    real("babel", 2),
    real("terser", 2),
    real("json-cache", 3),
    synthetic("splay", 1),
    synthetic("earley-boyer", 2),
    synthetic("pdfjs", 1),
];

/// The environment variable that names a folder of other recordings.
const FOLDER: &str = "HEAPLAB_V8_RECORDINGS";

/// One step of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An object of so many bytes is born in a slot.
    Birth {
        /// The slot.
        slot: u32,
        /// Its bytes in the heap, header included.
        bytes: u32,
    },
    /// The object of a slot dies.
    Death(u32),
}

/// A recording in memory.
#[derive(Debug)]
pub struct Workload {
    /// The program.
    pub program: Recorded,
    /// Births and deaths, in order. The recorded collections are left out: they are the recorder's.
    pub steps: Vec<Step>,
    /// Slots.
    pub slots: u32,
}

impl Workload {
    /// Reads the recording of a program.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn read(program: Recorded) -> Result<Workload> {
        let path = path(program.name);
        let bundle = Bundle::open(&path).with_context(|| {
            format!(
                "{}: no recording; `cargo xtask study v8-freelists record` makes it",
                path.display()
            )
        })?;
        let mut events = bundle.events(Selection { process: Some(0) })?;
        let mut reader =
            Reader { slots: HashMap::new(), free: Vec::new(), steps: Vec::new(), most: 0 };
        events.for_each(|event| {
            reader.take(event);
            Ok(())
        })?;
        Ok(Workload { program, steps: reader.steps, slots: reader.most })
    }

    /// Bytes of every birth, in order.
    pub fn sizes(&self) -> impl Iterator<Item = u32> {
        self.steps.iter().filter_map(|step| match step {
            Step::Birth { bytes, .. } => Some(*bytes),
            Step::Death(_) => None,
        })
    }
}

/// Gives objects slots, the one that was left last first.
struct Reader {
    slots: HashMap<u64, u32>,
    free: Vec<u32>,
    steps: Vec<Step>,
    most: u32,
}

impl Reader {
    fn take(&mut self, event: &Event) {
        match event.op {
            Op::Alloc if !event.flags.contains(Flags::FAILED) => {
                let slot = self.free.pop().unwrap_or_else(|| {
                    self.most += 1;
                    self.most - 1
                });
                self.slots.insert(event.object, slot);
                let bytes = u32::try_from(event.size).unwrap_or(u32::MAX);
                self.steps.push(Step::Birth { slot, bytes });
            }
            Op::Free => {
                if let Some(slot) = self.slots.remove(&event.object) {
                    self.free.push(slot);
                    self.steps.push(Step::Death(slot));
                }
            }
            _ => {}
        }
    }
}

fn path(name: &str) -> PathBuf {
    let file = format!("{name}.heaplab");
    let other = std::env::var_os(FOLDER).map(|folder| PathBuf::from(folder).join(&file));
    other
        .filter(|path| path.is_dir())
        .unwrap_or_else(|| heaplab_study::in_tree("traces/v8").join(file))
}

/// The study's folder.
pub fn folder() -> PathBuf {
    heaplab_study::in_tree("studies/v8-freelists")
}

/// A Node that `npm ci` installed in the study's folder.
pub fn installed(node: &str) -> Option<PathBuf> {
    let path = folder().join("node_modules").join(node).join("bin/node");
    path.is_file().then_some(path)
}

/// Records programs into `to`: those of `names`, or all; each so many times as much work as the
/// kept recordings.
///
/// # Errors
/// Node is not installed, or a recording fails.
pub fn record(to: &Path, names: &[String], scale: u32) -> Result<()> {
    let node = installed("node22").context(
        "studies/v8-freelists has no Node: `npm ci --ignore-scripts` there installs it with the programs",
    )?;
    std::fs::create_dir_all(to).with_context(|| format!("{}: cannot create", to.display()))?;
    for program in PROGRAMS {
        if !names.is_empty() && !names.iter().any(|name| name == program.name) {
            continue;
        }
        let whole = to.join(format!("{}.whole.heaplab", program.name));
        let status = Command::new(heaplab_study::heaplab()?)
            .args(["record", "--node", "--force", "--stack-depth", "1", "-o"])
            .arg(&whole)
            .arg("--")
            .arg(&node)
            .args(["programs/run.cjs", program.name, &(program.times * scale).to_string()])
            .current_dir(folder())
            .status()
            .context("starting heaplab record")?;
        anyhow::ensure!(status.success(), "recording {} failed ({status})", program.name);
        strip(&whole, &to.join(format!("{}.heaplab", program.name)), program)?;
        std::fs::remove_dir_all(&whole)?;
    }
    Ok(())
}

/// Writes a recording again without stacks, times and addresses, and without the recorder's own
/// collections.
fn strip(from: &Path, to: &Path, program: Recorded) -> Result<()> {
    let bundle = Bundle::open(from)?;
    let mut writer = BundleWriter::replace(to)?;
    bundle.events(Selection { process: Some(0) })?.for_each(|event| match event.op {
        Op::Alloc | Op::Free => writer.push(&Event {
            op: event.op,
            object: event.object,
            size: event.size,
            flags: event.flags,
            family: event.family,
            stack: NO_STACK,
            ..Event::default()
        }),
        _ => Ok(()),
    })?;
    let tables = Tables {
        stacks: vec![StackNode::default()],
        processes: vec![Process::default()],
        threads: vec![Thread::default()],
        arenas: vec![Arena::default()],
        ..Tables::default()
    };
    let kept = bundle.meta();
    let meta = Meta {
        program: format!("node programs/run.cjs {} {}", program.name, program.times),
        allocator: kept.allocator.clone(),
        death_rule: kept.death_rule.clone(),
        granularity_bytes: kept.granularity_bytes,
        losses: kept.losses.clone(),
        architecture: kept.architecture.clone(),
        ..Meta::default()
    };
    writer.finish(&tables, meta)?;
    Ok(())
}
