//! The files of a sweep: `sweep.json` describes it; `NAME/space.json` and `NAME/block-00003.json`
//! hold a job's result and its node.
//!
//! A folder needs nothing else: a report is made where no bundle and no heap is. Files of several
//! machines are put together by copying them into one folder, or by naming all folders.

use crate::node::Node;
use crate::{Job, SweepError, Work};
use heaplab_experiment::plan::{HeapCell, Plan};
use heaplab_experiment::results::{Results, Settings, Workload};
use heaplab_experiment::run::{Block, check_block, write_json};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The version of the files; it changes when a field changes its meaning.
const FORMAT_VERSION: u32 = 1;
/// The file that describes a sweep.
const SWEEP_FILE: &str = "sweep.json";
/// Larger files are none of a sweep: a block is some kilobytes, space with its moments less than
/// a megabyte a heap.
const LARGEST_BYTES: u64 = 1 << 30;

/// A sweep's description, without its bundles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The version of the files.
    pub format_version: u32,
    /// The content of the heaplab that runs it, as its blocks have it.
    pub heaplab: String,
    /// Whether space is measured.
    pub space: bool,
    /// Whether time is measured.
    pub time: bool,
    /// The workloads, in the plan's order.
    pub workloads: Vec<OneWorkload>,
}

/// One workload of a sweep: what its blocks have to agree on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OneWorkload {
    /// Its name: the bundle's folder without `.heaplab`.
    pub name: String,
    /// What identifies its blocks.
    pub experiment: String,
    /// The workload.
    pub workload: Workload,
    /// The heaps, the one compared with first.
    pub heaps: Vec<HeapCell>,
    /// The settings of the measurement.
    pub settings: Settings,
    /// The content of what runs it.
    pub code_version: String,
}

impl OneWorkload {
    pub(crate) fn of(name: &str, plan: &Plan) -> OneWorkload {
        OneWorkload {
            name: name.into(),
            experiment: plan.name(),
            workload: plan.workload.clone(),
            heaps: plan.heaps.clone(),
            settings: plan.settings.clone(),
            code_version: plan.code_version.clone(),
        }
    }

    /// The plan of its blocks. It has no program, so it can be summarized but not run.
    pub(crate) fn plan(&self) -> Plan {
        Plan {
            workload: self.workload.clone(),
            heaps: self.heaps.clone(),
            settings: self.settings.clone(),
            space: false,
            code_version: self.code_version.clone(),
            ..Plan::default()
        }
    }
}

impl About {
    /// What `plans` are, run by a heaplab of this content.
    pub(crate) fn of(
        heaplab: String,
        (space, time): (bool, bool),
        plans: &[(String, Plan)],
    ) -> About {
        let workloads = plans.iter().map(|(name, plan)| OneWorkload::of(name, plan)).collect();
        About { format_version: FORMAT_VERSION, heaplab, space, time, workloads }
    }

    /// Why `other` is no part of this sweep; `None` if it is one, even with more repetitions.
    pub(crate) fn differs(&self, other: &About) -> Option<String> {
        if self.heaplab != other.heaplab {
            return Some(format!(
                "it has blocks of another heaplab ({} here, {} there)",
                other.heaplab, self.heaplab
            ));
        }
        if (self.space, self.time) != (other.space, other.time) {
            return Some(String::from("its plan measures another of space and time"));
        }
        let names = |about: &About| -> Vec<String> {
            about.workloads.iter().map(|one| one.name.clone()).collect()
        };
        if names(self) != names(other) {
            return Some(format!(
                "its plan has other workloads ({}, and here {})",
                names(self).join(", "),
                names(other).join(", ")
            ));
        }
        let pairs = self.workloads.iter().zip(&other.workloads);
        let differs = |(one, other): (&OneWorkload, &OneWorkload)| {
            let what = match () {
                () if one.experiment == other.experiment => return None,
                () if one.heaps != other.heaps => "other heaps",
                () if one.workload != other.workload => "another recording of this name",
                () if one.code_version != other.code_version => {
                    "another recording of this name, or another library of a heap"
                }
                () => "other settings (touch, huge_pages, margin_percent, seed)",
            };
            Some(format!("{}: its plan has {what}", one.name))
        };
        pairs.into_iter().find_map(differs)
    }

    /// Takes the larger number of repetitions of each workload.
    pub(crate) fn take_repetitions(&mut self, other: &About) {
        for (one, other) in self.workloads.iter_mut().zip(&other.workloads) {
            one.settings.reps = one.settings.reps.max(other.settings.reps);
        }
    }

    /// Reads the description of the sweep in the folder.
    ///
    /// # Errors
    /// It holds no sweep, or one of a newer version.
    pub fn read(folder: &Path) -> Result<About, SweepError> {
        let path = folder.join(SWEEP_FILE);
        if !path.exists() {
            return Err(SweepError::NoResults(folder.into()));
        }
        let about: About = read_json(&path)?;
        if about.format_version != FORMAT_VERSION {
            return Err(SweepError::Malformed {
                path,
                reason: format!(
                    "expected version {FORMAT_VERSION}, found {}",
                    about.format_version
                ),
            });
        }
        let name = about.workloads.iter().map(|one| &one.name).find(|name| !is_file_name(name));
        match name {
            Some(name) => Err(SweepError::Malformed {
                path,
                reason: format!("{name:?} is no name of a workload"),
            }),
            None => Ok(about),
        }
    }

    /// Begins a folder, or goes on with one of the same sweep. A folder that was made for more
    /// repetitions keeps them: its blocks are there.
    ///
    /// # Errors
    /// The folder holds another sweep, or cannot be written to.
    pub(crate) fn keep(&self, folder: &Path) -> Result<(), SweepError> {
        let path = folder.join(SWEEP_FILE);
        if path.exists() {
            let there = About::read(folder)?;
            if let Some(reason) = there.differs(self) {
                return Err(SweepError::Other { path: folder.into(), reason });
            }
            let mut both = self.clone();
            both.take_repetitions(&there);
            if there != both {
                write_json(&path, &both)?;
            }
            return Ok(());
        }
        Ok(write_json(&path, self)?)
    }
}

/// A name that stays in its folder.
fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

/// A block of times, and its node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimeFile {
    /// The node.
    pub node: Node,
    /// The results.
    #[serde(flatten)]
    pub block: Block,
}

/// The space of one workload on all heaps, and its node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SpaceFile {
    /// The node.
    pub node: Node,
    /// The experiment it belongs to.
    pub experiment: String,
    /// The results, without a date: the same at any time.
    pub results: Results,
}

/// Where a job's result lies.
pub(crate) fn file(folder: &Path, job: &Job) -> PathBuf {
    folder.join(format!("{job}.json"))
}

/// The times of one block, where they are whole and of this experiment.
pub(crate) fn read_time(path: &Path, plan: &Plan) -> Result<TimeFile, SweepError> {
    let file: TimeFile = read_json(path)?;
    check_block(plan, &file.block, path)?;
    Ok(file)
}

/// The space of one workload, if it is of this experiment.
pub(crate) fn read_space(path: &Path, one: &OneWorkload) -> Result<SpaceFile, SweepError> {
    let file: SpaceFile = read_json(path)?;
    let heaps = || file.results.heaps.iter().map(|heap| &heap.heap);
    if file.experiment != one.experiment || !heaps().eq(one.heaps.iter().map(|heap| &heap.name)) {
        return Err(SweepError::Malformed {
            path: path.into(),
            reason: String::from("it is of another sweep"),
        });
    }
    Ok(file)
}

/// Numbers of the time blocks in a workload's folder, rising.
pub(crate) fn blocks(folder: &Path, workload: &str) -> Result<Vec<u32>, SweepError> {
    let folder = folder.join(workload);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(SweepError::io(&folder, "list")(error)),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry.map_err(SweepError::io(&folder, "list"))?.file_name();
        let number = name.to_str().and_then(|name| {
            let number = name.strip_prefix("block-")?.strip_suffix(".json")?.parse::<u32>().ok()?;
            // `block-0.json` is somebody's copy; its number is not where the block lies.
            (name == format!("block-{number:05}.json")).then_some(number)
        });
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The file of a time block.
pub(crate) fn block_file(folder: &Path, workload: &str, block: u32) -> PathBuf {
    file(folder, &Job { workload: workload.into(), work: Work::Time(block) })
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, SweepError> {
    let found = fs::metadata(path).map_err(SweepError::io(path, "read"))?;
    let malformed = |reason: String| SweepError::Malformed { path: path.into(), reason };
    // A pipe of this name would be waited for, forever.
    if !found.is_file() {
        return Err(malformed(String::from("it is no regular file")));
    }
    if found.len() > LARGEST_BYTES {
        let length = found.len();
        return Err(malformed(format!("it has {length} bytes, more than results ever have")));
    }
    let bytes = fs::read(path).map_err(SweepError::io(path, "read"))?;
    serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))
}
