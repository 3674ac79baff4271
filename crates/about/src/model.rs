//! What is shown: a process's explicit allocations as one tree, everything else as trees beside it,
//! and in words what cannot be true.

use crate::tree::{Growing, Node, nearest};
use crate::{Mark, Report, Saved};
use heaplab_reporter::{Kind, Units};
use heaplab_text::words;
use serde::Serialize;
use std::collections::BTreeMap;

const UNCLASSIFIED_PATH: &str = "explicit/heap-unclassified";
const UNCLASSIFIED: &str = "What no reporter names: heap-allocated less all that is reported of kind \
                            heap. The allocator's rounding is in it where reporters count what was \
                            asked for.";

/// All processes of a reading, or of a difference of two.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Model {
    /// The one with the most resident memory first.
    pub processes: Vec<Process>,
    /// Whether bytes on the heap include what the allocator rounds up.
    pub has_usable_size: bool,
    /// How many readings the ranges are of.
    pub readings: u64,
    /// Whether amounts are differences.
    pub is_difference: bool,
    /// What the program said beside its reports.
    pub errors: Vec<String>,
    /// Marks that the running program has set, oldest first.
    pub marks: Vec<Mark>,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Process {
    /// `name (pid 4711)`.
    pub name: String,
    /// The tree `explicit`, with `heap-unclassified`.
    pub explicit: Option<Node>,
    /// What the allocator has given out by its own count.
    pub heap_allocated: Option<i64>,
    /// Trees and single values beside it.
    pub other: Vec<Node>,
    /// What cannot be true, as sentences.
    pub warnings: Vec<String>,
}

impl Model {
    /// Of a reading.
    pub fn of(saved: &Saved) -> Model {
        Model::built(saved, false)
    }

    /// Of what [`crate::difference::between`] gave.
    pub fn of_difference(saved: &Saved) -> Model {
        Model::built(saved, true)
    }

    fn built(saved: &Saved, is_difference: bool) -> Model {
        let mut by_process: BTreeMap<&str, Vec<&Report>> = BTreeMap::new();
        for report in &saved.reports {
            by_process.entry(&report.process).or_default().push(report);
        }
        let mut processes: Vec<(i64, Process)> = by_process
            .into_iter()
            .map(|(name, reports)| {
                let resident = |report: &&&Report| report.path == "resident";
                let resident = reports.iter().find(resident).map_or(0, |report| report.amount);
                (resident, process(name, &reports, is_difference))
            })
            .collect();
        processes.sort_by_key(|(resident, _)| std::cmp::Reverse(*resident));
        Model {
            processes: processes.into_iter().map(|(_, process)| process).collect(),
            has_usable_size: saved.has_usable_size,
            readings: 1,
            is_difference,
            errors: saved.said.errors.clone(),
            marks: saved.said.marks.clone(),
        }
    }

    /// Takes in an earlier reading: its amounts widen the ranges of this one.
    pub fn widen(&mut self, earlier: &Model) {
        self.readings += earlier.readings;
        for process in &mut self.processes {
            let same = |old: &&Process| old.name == process.name;
            let Some(old) = earlier.processes.iter().find(same) else { continue };
            if let (Some(now), Some(then)) = (&mut process.explicit, &old.explicit) {
                now.widen(then);
            }
            for node in &mut process.other {
                if let Some(then) = old.other.iter().find(|then| then.name == node.name) {
                    node.widen(then);
                }
            }
        }
    }
}

fn process(name: &str, reports: &[&Report], is_difference: bool) -> Process {
    let mut warnings = Vec::new();
    let (mut tree, mut mixed) = (Growing::default(), Vec::new());
    let (mut heap, mut allocated) = (0_i128, None::<i128>);
    for report in reports {
        let Report { path, units, description, presence, .. } = report;
        let amount = i128::from(report.amount);
        if path == "heap-allocated" && *units == Units::Bytes {
            allocated = Some(allocated.unwrap_or(0) + amount);
        }
        let is_explicit = path.starts_with("explicit/");
        if is_explicit && report.kind == Kind::Heap {
            heap += amount;
        }
        if is_explicit && amount < 0 && !is_difference {
            warnings.push(format!("{path} is negative: its reporter subtracts too much"));
        }
        if !tree.add(path, *units, amount, description, *presence) {
            mixed.push(path.as_str());
        }
    }
    if let Some(first) = mixed.first() {
        let sentence = words::so_many(
            mixed.len() as u64,
            "[report counts|reports count] something else than others of the same path, and [is|are] left out",
        );
        warnings
            .push(format!("{sentence}: {first}{}", if mixed.len() > 1 { " first" } else { "" }));
    }
    // In a difference, a total that stayed the same is not there.
    let total = allocated.or(is_difference.then_some(0));
    if let Some(total) = total {
        let rest = total - heap;
        if rest != 0 || !is_difference {
            tree.add(UNCLASSIFIED_PATH, Units::Bytes, rest, UNCLASSIFIED, None);
        }
        warnings.extend(too_much(reports, total, rest).filter(|_| !is_difference));
    } else if heap > 0 {
        warnings.push(
            "there is no heap-allocated, so heap-unclassified is unknown: the allocator does not \
             say what it has given out"
                .into(),
        );
    }
    let (mut roots, beyond) = tree.grown();
    // What is wrong with heap-unclassified has been said.
    warnings.extend(beyond.iter().filter(|path| *path != UNCLASSIFIED_PATH).map(|path| {
        format!(
            "{path}: its reports add up to more than 64 bits hold, which cannot be true; the \
             nearest number is shown"
        )
    }));
    let explicit =
        roots.iter().position(|root| root.name == "explicit" && !root.children.is_empty());
    let explicit = explicit.map(|at| roots.remove(at));
    // Trees first, then single values by name, as about:memory.
    roots.sort_by(|a, b| (a.children.is_empty(), &a.name).cmp(&(b.children.is_empty(), &b.name)));
    Process {
        name: name.into(),
        explicit,
        heap_allocated: allocated.map(nearest),
        other: roots,
        warnings,
    }
}

/// Warns where reporters name more bytes than the heap has.
fn too_much(reports: &[&Report], total: i128, rest: i128) -> impl Iterator<Item = String> {
    let size = |amount: i128| words::bytes(nearest(amount).unsigned_abs());
    let liars: Vec<String> = reports
        .iter()
        .filter(|report| report.path.starts_with("explicit/") && report.kind == Kind::Heap)
        .filter(|report| i128::from(report.amount) > total)
        .map(|report| {
            format!(
                "{} says {}, but the allocator has given out only {}",
                report.path,
                size(report.amount.into()),
                size(total)
            )
        })
        .collect();
    let twice = (rest < 0).then(|| {
        format!(
            "reporters name {} more than the allocator has given out ({}): blocks are counted \
             twice, or by size where their amount is only estimated; a recording with `heaplab \
             record --dmd` shows which",
            size(rest),
            size(total)
        )
    });
    liars.into_iter().chain(twice)
}
