//! A plan's file: which bundles on which heaps, how often.
//!
//! ```toml
//! bundles = ["sqlite.heaplab", "jq.heaplab"]     # beside this file, or absolute
//! heaps = ["glibc", "jemalloc", "v8:many,overhead={20..320x5}"]
//! repetitions = 10
//! ```
//!
//! The first heap is the one that the others are compared with. A range in braces is one heap a
//! value, written as `heaplab curve` has it.

use crate::SweepError;
use heaplab_curve::vary::Vary;
use heaplab_experiment::many;
use heaplab_experiment::prepare::How;
use heaplab_experiment::results::{HugePages, Measure, Touch};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// A plan as its file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The recordings; those that are not absolute lie beside the plan.
    pub bundles: Vec<PathBuf>,
    /// The heaps with their parameters; a range in braces stands for one heap a value.
    pub heaps: Vec<String>,
    /// Blocks of time cells of each workload.
    #[serde(default = "ten")]
    pub repetitions: u32,
    /// Only space, or only time.
    #[serde(default)]
    pub only: Option<Measure>,
    /// Which blocks of a workload are written.
    #[serde(default)]
    pub touch: Touch,
    /// Whether the kernel may use huge pages in space cells.
    #[serde(default)]
    pub huge_pages: HugePages,
    /// Differences within this many percent are called equivalent.
    #[serde(default = "three")]
    pub margin_percent: f64,
    /// Of the cells' order and the bootstrap.
    #[serde(default = "one")]
    pub seed: u64,
    /// Seconds after which a cell counts as failed.
    #[serde(default = "ten_minutes")]
    pub limit_s: u64,
}

fn ten() -> u32 {
    10
}

fn three() -> f64 {
    3.0
}

fn one() -> u64 {
    1
}

fn ten_minutes() -> u64 {
    600
}

/// Most repetitions: a block is a file.
const REPETITIONS_MAX: u32 = 100_000;
/// Most heaps: a block runs all of them.
const HEAPS_MAX: usize = 1_000;

impl Plan {
    /// Reads the plan at `path`; its bundles get the plan's folder before them.
    ///
    /// # Errors
    /// The file cannot be read, or asks for the impossible: the error names the place and what is
    /// expected.
    pub fn read(path: &Path) -> Result<Plan, SweepError> {
        let text = fs::read_to_string(path).map_err(SweepError::io(path, "read"))?;
        let wrong = |reason| SweepError::Plan { path: path.into(), reason };
        let mut plan = Plan::parse(&text).map_err(wrong)?;
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        for bundle in &mut plan.bundles {
            *bundle = folder.join(&*bundle);
        }
        Ok(plan)
    }

    /// Reads a plan's text.
    ///
    /// # Errors
    /// In words, the line named.
    pub fn parse(text: &str) -> Result<Plan, String> {
        let mut plan: Plan =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let within = |name: &str, is_within: bool, expected: &str| match is_within {
            true => Ok(()),
            false => Err(format!("{name}: expected {expected}")),
        };
        within("bundles", !plan.bundles.is_empty(), "at least one recording")?;
        within("heaps", !plan.heaps.is_empty(), "at least one heap")?;
        within(
            "repetitions",
            (1..=REPETITIONS_MAX).contains(&plan.repetitions),
            "a number from 1 to 100000",
        )?;
        within(
            "margin_percent",
            (0.0..=100.0).contains(&plan.margin_percent),
            "a number from 0 to 100",
        )?;
        within("limit_s", (1..=31_536_000).contains(&plan.limit_s), "seconds, at most a year")?;
        many::names(&plan.bundles).map_err(|error| error.to_string())?;
        plan.heaps = with_ranges(&plan.heaps)?;
        Ok(plan)
    }

    /// How its workloads are measured.
    pub fn how(&self) -> How {
        How {
            touch: self.touch,
            threads: false,
            reps: self.repetitions,
            seed: self.seed,
            margin: self.margin_percent / 100.0,
            huge_pages: self.huge_pages,
        }
    }

    /// Whether space is measured, and time.
    pub fn measures(&self) -> (bool, bool) {
        (self.only != Some(Measure::Time), self.only != Some(Measure::Space))
    }
}

/// Every heap, a range in braces as one heap a value.
fn with_ranges(heaps: &[String]) -> Result<Vec<String>, String> {
    let mut all: Vec<String> = Vec::new();
    for heap in heaps {
        let range = Vary::of_words(std::slice::from_ref(heap));
        match range.map_err(|error| format!("heaps: {error}"))? {
            None => all.push(heap.clone()),
            Some(Vary { before, values, after, .. }) => {
                all.extend(values.iter().map(|value| format!("{before}{value}{after}")));
            }
        }
        if all.len() > HEAPS_MAX {
            return Err(format!("heaps: expected at most {HEAPS_MAX}, ranges counted"));
        }
    }
    match all.iter().enumerate().find(|(at, heap)| all[..*at].contains(heap)) {
        Some((_, twice)) => Err(format!("heaps: {twice} stands twice")),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_one_heap_a_value() {
        let plan = Plan::parse(
            "bundles = ['a.heaplab']\nheaps = ['glibc', 'v8:many,overhead={20..80x3}']\n",
        )
        .unwrap();
        assert_eq!(
            plan.heaps,
            ["glibc", "v8:many,overhead=20", "v8:many,overhead=40", "v8:many,overhead=80"]
        );
        assert_eq!((plan.repetitions, plan.measures()), (10, (true, true)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let of = |line: &str| {
            Plan::parse(&format!("bundles = ['a.heaplab']\nheaps = ['glibc']\n{line}\n"))
                .map(|_| ())
                .unwrap_err()
        };
        insta::assert_snapshot!(
            [
                of("repetitons = 3"),
                of("repetitions = 0"),
                of("margin_percent = -1"),
                of("only = 'speed'"),
                Plan::parse("bundles = []\nheaps = ['glibc']").unwrap_err(),
                Plan::parse("bundles = ['x/a.heaplab', 'y/a.heaplab']\nheaps = ['glibc']")
                    .unwrap_err(),
                Plan::parse("bundles = ['a']\nheaps = ['glibc', 'glibc']").unwrap_err(),
                Plan::parse("bundles = ['a']\nheaps = ['v8:many,overhead={20..}']").unwrap_err(),
                Plan::parse("bundles = ['a'\nheaps").unwrap_err(),
            ]
            .join("\n---\n")
        );
    }
}
