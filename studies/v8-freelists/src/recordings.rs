//! The recorded programs: their list, and reading them.
//!
//! Each is a run of `programs/run.cjs`, recorded by `heaplab record --node` and kept without stacks
//! in `traces/v8`. A folder named by `HEAPLAB_V8_RECORDINGS` comes first, so that larger recordings
//! of the same programs (`record` makes them) go through the same claims.

use anyhow::{Context, Result};
use heaplab_trace::bundle::{Bundle, BundleWriter, Meta, Selection};
use heaplab_trace::tables::{Arena, Process, StackNode, Tables, Thread};
use heaplab_trace::{Event, EventSink, EventSource, Flags, NO_STACK, Op};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kind of program in the document's terms: its claims are about both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tool at real work; the document has web pages.
    Real,
    /// One of Octane's benchmarks.
    Synthetic,
    /// Real programs in several tabs at once.
    Session,
}

/// A program of `programs/run.cjs`.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// Its name in `run.cjs`.
    pub name: &'static str,
    /// Its kind in the document's terms.
    pub kind: Kind,
    /// Amount of recorded work, as an argument of `run.cjs`.
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
    /// An object of this many bytes is born in a slot.
    Birth {
        /// The slot.
        slot: u32,
        /// Its bytes in the heap, header included.
        bytes: u32,
    },
    /// The object of a slot dies.
    Death(u32),
}

/// A recording in memory: births and deaths in order. The recorded collections are left out,
/// because they are the recorder's.
#[derive(Debug)]
pub struct Recording {
    /// The program.
    pub program: Recorded,
    steps: Vec<(u32, u32)>,
    /// Slots that hold an object at the end.
    left: Vec<u32>,
    slots: u32,
}

/// Means a death in a pair of [`Recording`]; no object has this many bytes.
const DEATH: u32 = u32::MAX;

impl Recording {
    /// Reads the recording of a program.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn read(program: Recorded) -> Result<Recording> {
        let path = path(program.name);
        let bundle = Bundle::open(&path).with_context(|| {
            format!(
                "{}: no recording; `cargo xtask study v8-freelists record` makes it",
                path.display()
            )
        })?;
        let mut events = bundle.events(Selection { process: Some(0) })?;
        let mut reader = Reader::default();
        events.for_each(|event| {
            reader.take(event);
            Ok(())
        })?;
        let mut left: Vec<u32> = reader.slots.into_values().collect();
        left.sort_unstable();
        Ok(Recording { program, steps: reader.steps, left, slots: reader.most })
    }

    fn step(&self, at: usize) -> Step {
        match self.steps[at] {
            (slot, DEATH) => Step::Death(slot),
            (slot, bytes) => Step::Birth { slot, bytes },
        }
    }
}

/// Gives objects slots; the slot emptied last is reused first.
#[derive(Default)]
struct Reader {
    slots: HashMap<u64, u32>,
    free: Vec<u32>,
    steps: Vec<(u32, u32)>,
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
                let bytes = u32::try_from(event.size).unwrap_or(DEATH).min(DEATH - 1);
                self.steps.push((slot, bytes));
            }
            Op::Free => {
                if let Some(slot) = self.slots.remove(&event.object) {
                    self.free.push(slot);
                    self.steps.push((slot, DEATH));
                }
            }
            _ => {}
        }
    }
}

/// A workload for a heap: a recording, or several in turns.
#[derive(Debug)]
pub struct Workload {
    /// Name of the program, or of the session.
    pub name: &'static str,
    /// The kind of its programs.
    pub kind: Kind,
    pieces: Vec<Piece>,
    /// Slots.
    pub slots: u32,
}

/// Some steps of a recording, in slots of its own.
#[derive(Clone, Copy, Debug)]
struct Piece {
    recording: &'static Recording,
    from: usize,
    to: usize,
    slot: u32,
    /// Whether the program ends here: its remaining objects then die.
    ends: bool,
}

impl Workload {
    /// One program, which leaves its remaining objects alive.
    pub fn alone(recording: &'static Recording) -> Workload {
        let to = recording.steps.len();
        Workload {
            name: recording.program.name,
            kind: recording.program.kind,
            pieces: vec![Piece { recording, from: 0, to, slot: 0, ends: false }],
            slots: recording.slots,
        }
    }

    /// Programs as pages of a browser: `tabs` tabs run `pages` programs each, one after the other,
    /// and drop each before the next. Tabs take turns of [`TURN_STEPS`]. The next tab begins with
    /// the next program.
    pub fn session(
        name: &'static str,
        recordings: &[&'static Recording],
        tabs: usize,
        pages: usize,
    ) -> Workload {
        let slots = recordings.iter().map(|recording| recording.slots).max().unwrap_or(0);
        let mut pieces = Vec::new();
        let mut at = vec![(0, 0); tabs];
        while at.iter().any(|(page, _)| *page < pages) {
            for (tab, (page, from)) in at.iter_mut().enumerate().filter(|(_, at)| at.0 < pages) {
                let recording = recordings[(tab + *page) % recordings.len()];
                let to = (*from + TURN_STEPS).min(recording.steps.len());
                let ends = to == recording.steps.len();
                let slot = tab as u32 * slots;
                pieces.push(Piece { recording, from: *from, to, slot, ends });
                (*page, *from) = if ends { (*page + 1, 0) } else { (*page, to) };
            }
        }
        Workload { name, kind: Kind::Session, pieces, slots: slots * tabs as u32 }
    }

    /// Births and deaths, in order.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        self.pieces.iter().flat_map(|piece| {
            let steps = (piece.from..piece.to).map(|at| piece.recording.step(at));
            let left = if piece.ends { &piece.recording.left[..] } else { &[] };
            steps.chain(left.iter().map(|slot| Step::Death(*slot))).map(|step| match step {
                Step::Birth { slot, bytes } => Step::Birth { slot: slot + piece.slot, bytes },
                Step::Death(slot) => Step::Death(slot + piece.slot),
            })
        })
    }

    /// Bytes of every birth, in order.
    pub fn sizes(&self) -> impl Iterator<Item = u32> {
        self.steps().filter_map(|step| match step {
            Step::Birth { bytes, .. } => Some(bytes),
            Step::Death(_) => None,
        })
    }
}

/// Steps of a tab until the next one has its turn.
const TURN_STEPS: usize = 20_000;

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

/// The path of a Node that `npm ci` installed in the study's folder.
pub fn installed(node: &str) -> Option<PathBuf> {
    let path = folder().join("node_modules").join(node).join("bin/node");
    path.is_file().then_some(path)
}

/// Records programs into `to`: those of `names`, or all. Each does `scale` times the work of the
/// kept recordings.
///
/// # Errors
/// Node is not installed, or a recording fails.
pub fn record(to: &Path, names: &[String], scale: u32) -> Result<()> {
    let node = installed("node22").context(
        "studies/v8-freelists has no Node: `npm ci --ignore-scripts` there installs it with the programs",
    )?;
    let to = &std::path::absolute(to)?;
    std::fs::create_dir_all(to).with_context(|| format!("{}: cannot create", to.display()))?;
    for program in PROGRAMS {
        if !names.is_empty() && !names.iter().any(|name| name == program.name) {
            continue;
        }
        let times = program.times * scale;
        let whole = to.join(format!("{}.whole.heaplab", program.name));
        let status = Command::new(heaplab_study::heaplab()?)
            .args(["record", "--node", "--force", "--stack-depth", "1", "-o"])
            .arg(&whole)
            .arg("--")
            .arg(&node)
            .args(["programs/run.cjs", program.name, &times.to_string()])
            .current_dir(folder())
            .status()
            .context("starting heaplab record")?;
        anyhow::ensure!(status.success(), "recording {} failed ({status})", program.name);
        strip(&whole, &to.join(format!("{}.heaplab", program.name)), program.name, times)?;
        std::fs::remove_dir_all(&whole)?;
    }
    Ok(())
}

/// Writes a recording again without stacks, times, addresses and the recorder's own collections.
fn strip(from: &Path, to: &Path, name: &str, times: u32) -> Result<()> {
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
        program: format!("node programs/run.cjs {name} {times}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(name: &'static str, births: u32) -> &'static Recording {
        let mut steps: Vec<(u32, u32)> = (0..births).map(|slot| (slot, 24)).collect();
        steps.extend((1..births).map(|slot| (slot, DEATH)));
        let program = Recorded { name, kind: Kind::Real, times: 1 };
        Box::leak(Box::new(Recording { program, steps, left: vec![0], slots: births }))
    }

    #[test]
    fn tabs_share_no_slot_and_drop_the_page_before() {
        let (long, short) = (recording("long", 15_000), recording("short", 5));
        let session = Workload::session("session", &[long, short], 2, 3);
        let mut live = vec![false; session.slots as usize];
        let mut births = 0;
        for step in session.steps() {
            match step {
                Step::Birth { slot, bytes } => {
                    assert!(!std::mem::replace(&mut live[slot as usize], true) && bytes == 24);
                    births += 1;
                }
                Step::Death(slot) => {
                    assert!(std::mem::replace(&mut live[slot as usize], false));
                }
            }
        }
        // Three pages a tab, alternating between the two programs.
        assert_eq!(births, 3 * 15_000 + 3 * 5);
        assert!(live.iter().all(|live| !live), "the last page is dropped too");
        assert_eq!(Workload::alone(short).steps().count(), 9);
    }
}
