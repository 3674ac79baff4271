//! `cargo xtask bench ocaml-equal`: heaplab's OCaml heap and the real runtime on the same
//! workloads, with the number of runs in which each figure is equal.
//!
//! Workloads are recordings, and the shapes that the tests of `heaplab-ocamlrt` generate. The
//! runtime is that of the `ocamlopt` in the path; `crates/heaps/ocamlrt/examples/build-runtime.sh`
//! builds others.

#[path = "../../../crates/heaps/ocamlrt/tests/common/mod.rs"]
mod common;

use super::POLICIES;
use crate::programs::root;
use anyhow::{Context, Result, anyhow, ensure};
use common::{COMPARED, Outcome, Shape, generate, outcome};
use heaplab_heap::{Workload as _, WorkloadStep};
use heaplab_ocaml::spec::Spec;
use heaplab_ocamlrt::{Driver, Step};
use heaplab_replay::workload::Replayed;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::program::{self, Program};
use std::path::{Path, PathBuf};

/// Settings for each policy beside the shapes' own: overheads with both minor heaps, and
/// compactions that start by themselves.
const SETTINGS: [&str; 11] = [
    "o=20,s=32k",
    "o=40,s=32k",
    "o=80,s=32k",
    "o=160,s=32k",
    "o=320,s=32k",
    "o=20,s=256k",
    "o=40,s=256k",
    "o=80,s=256k",
    "o=160,s=256k",
    "o=320,s=256k",
    "o=20,s=4k,O=30,i=61440",
];
/// Recordings in the repository.
const BUNDLES: [&str; 2] = ["traces/sqlite.heaplab", "traces/python.heaplab"];

/// Arguments of `cargo xtask bench ocaml-equal`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shapes of generated workloads: all, none, or names with commas
    #[arg(long, default_value = "all")]
    shapes: String,
    /// Steps of each generated workload
    #[arg(long, default_value_t = 250_000)]
    steps: usize,
    /// Slots of each generated workload
    #[arg(long, default_value_t = 3000)]
    slots: u32,
    /// What generated workloads are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Heaps instead of each policy with each setting, such as first-fit,o=80,s=8k
    #[arg(long = "on", value_name = "SPEC")]
    specs: Vec<String>,
    /// Recordings; without any, those of traces/
    #[arg(value_parser = super::super::existing)]
    bundles: Vec<PathBuf>,
}

/// A workload by its name: slots and steps.
struct Workload {
    name: String,
    slots: u32,
    steps: Vec<Step>,
}

/// Runs the comparison.
pub fn run(args: &Args) -> Result<()> {
    let driver = Driver::build()?;
    let folder = tempfile::tempdir()?;
    let mut workloads = generated(args)?;
    let bundles = match args.bundles.as_slice() {
        [] if args.shapes == "all" => BUNDLES.map(|name| root().join(name)).into(),
        bundles => bundles.to_vec(),
    };
    for bundle in &bundles {
        workloads.push(recorded(bundle, folder.path())?);
    }
    ensure!(!workloads.is_empty(), "no workload: --shapes none and no recording");
    let specs = if args.specs.is_empty() {
        POLICIES
            .iter()
            .flat_map(|policy| SETTINGS.map(|setting| format!("{policy},{setting}")))
            .collect()
    } else {
        args.specs.clone()
    };
    let table = Table::of(&driver, &workloads, &specs)?;
    print!("{}", table.text());
    ensure!(table.is_equal(), "{} of {} runs differ", table.different, table.runs());
    Ok(())
}

fn generated(args: &Args) -> Result<Vec<Workload>> {
    let known = Shape::ALL.map(|(name, _)| name).join(", ");
    let wanted: Vec<&str> = match args.shapes.as_str() {
        "all" => Shape::ALL.map(|(name, _)| name).into(),
        "none" => Vec::new(),
        names => names.split(',').collect(),
    };
    let workload = |name: &str| {
        let shape = Shape::ALL.into_iter().find(|(known, _)| *known == name);
        let (_, shape) = shape
            .ok_or_else(|| anyhow!("--shapes: there is no shape {name:?}; there are {known}"))?;
        // With the usual number of steps, blocks this large would be tens of gigabytes.
        let steps = if shape == Shape::Large { args.steps / 20 } else { args.steps };
        let steps = generate(shape, steps, args.slots, args.seed);
        Ok(Workload { name: name.into(), slots: args.slots, steps })
    };
    wanted.into_iter().map(workload).collect()
}

/// A recording's steps. They are compiled in `folder`, so that the recording's files do not change.
fn recorded(bundle: &Path, folder: &Path) -> Result<Workload> {
    let name = bundle.file_name().context("a recording has a name")?;
    let copy = folder.join(name);
    std::fs::create_dir_all(&copy)?;
    for entry in std::fs::read_dir(bundle).with_context(|| bundle.display().to_string())? {
        let entry = entry?;
        // Kept results of replays are a folder: skipped.
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), copy.join(entry.file_name()))?;
        }
    }
    let program = program::cached(&Bundle::open(&copy)?, Selection::default())?;
    let slots = program.facts().slots;
    Ok(Workload { name: name.to_string_lossy().into(), slots, steps: steps(&program)? })
}

fn steps(program: &Program) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut put = |step| match step {
        WorkloadStep::Allocate { slot, size, .. } | WorkloadStep::Reallocate { slot, size } => {
            steps.push(Step::Birth { slot, size: size as usize });
            Ok(())
        }
        WorkloadStep::Free { slot } => {
            steps.push(Step::Death { slot });
            Ok(())
        }
        WorkloadStep::Collect(ask) => {
            steps.push(Step::Collect(ask));
            Ok(())
        }
        _ => Ok(()),
    };
    Replayed(program).steps(&mut put).map_err(|error| anyhow!(error))?;
    Ok(steps)
}

/// For each workload its runs and the number of equal ones.
struct Table {
    version: String,
    rows: Vec<Row>,
    different: usize,
}

struct Row {
    name: String,
    runs: usize,
    slices: usize,
    equal: [usize; COMPARED.len()],
    /// The first different slice or report of each run.
    differences: Vec<String>,
}

impl Table {
    fn of(driver: &Driver, workloads: &[Workload], specs: &[String]) -> Result<Table> {
        let mut table = Table { version: driver.version().into(), rows: Vec::new(), different: 0 };
        for workload in workloads {
            let mut row = Row {
                name: workload.name.clone(),
                runs: specs.len(),
                slices: 0,
                equal: [0; COMPARED.len()],
                differences: Vec::new(),
            };
            for text in specs {
                let spec = Spec::parse(&format!("{text},version={}", driver.version()))?;
                let found = outcome(driver, spec, workload.slots, &workload.steps)
                    .map_err(|error| anyhow!("{}, {text}: {error}", workload.name))?;
                row.add(text, found);
            }
            table.different += row.differences.len();
            eprintln!("{}: {} runs", row.name, row.runs);
            table.rows.push(row);
        }
        Ok(table)
    }

    fn runs(&self) -> usize {
        self.rows.iter().map(|row| row.runs).sum()
    }

    fn is_equal(&self) -> bool {
        self.different == 0
    }

    fn text(&self) -> String {
        let mut text = format!(
            "equal to OCaml {}, of so many runs\n\n| workload | runs | slices compared | {} |\n",
            self.version,
            COMPARED.join(" | ")
        );
        text += &format!("|---|---|---|{}\n", "---|".repeat(COMPARED.len()));
        let line = |name: &str, runs: usize, slices: usize, equal: [usize; COMPARED.len()]| {
            let equal = equal.map(|equal| equal.to_string()).join(" | ");
            format!("| {name} | {runs} | {slices} | {equal} |\n")
        };
        for row in &self.rows {
            text += &line(&row.name, row.runs, row.slices, row.equal);
        }
        let sum = |of: &dyn Fn(&Row) -> usize| self.rows.iter().map(of).sum();
        let equal = std::array::from_fn(|nth| sum(&|row| row.equal[nth]));
        text += &line("all", self.runs(), sum(&|row| row.slices), equal);
        let differences = self.rows.iter().flat_map(|row| &row.differences);
        text + &differences.map(|difference| format!("\n{difference}\n")).collect::<String>()
    }
}

impl Row {
    fn add(&mut self, spec: &str, found: Outcome) {
        self.slices += found.slices;
        for (sum, equal) in self.equal.iter_mut().zip(found.equal) {
            *sum += usize::from(equal);
        }
        if let Some(difference) = found.difference {
            self.differences.push(format!("{}, {spec} differs in {difference}", self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_table_is_equal() {
        let driver = match Driver::build() {
            Ok(driver) => driver,
            Err(error) => {
                heaplab_oracle::skip(error);
                return;
            }
        };
        let shapes = "mixed,cache,phases,forced,tides".into();
        let args = Args {
            shapes,
            steps: 20_000,
            slots: 1000,
            seed: 77,
            specs: Vec::new(),
            bundles: Vec::new(),
        };
        let folder = tempfile::tempdir().unwrap();
        let mut workloads = generated(&args).unwrap();
        workloads.extend(BUNDLES.map(|name| recorded(&root().join(name), folder.path()).unwrap()));
        let specs = ["next-fit,o=20,s=4k,O=30", "first-fit,o=80,s=8k", "best-fit,o=320,s=32k"];
        let table = Table::of(&driver, &workloads, &specs.map(String::from)).unwrap();
        assert!(table.is_equal() && table.runs() == 21, "{}", table.text());
        let all = table.text().lines().last().unwrap().to_owned();
        assert!(all.ends_with(&format!("{}|", "| 21 ".repeat(COMPARED.len()))), "{all}");
    }

    #[test]
    fn a_difference_is_counted_and_told() {
        let row = Row {
            name: "cache".into(),
            runs: 0,
            slices: 0,
            equal: [0; COMPARED.len()],
            differences: Vec::new(),
        };
        let mut table = Table { version: "4.13.1".into(), rows: vec![row], different: 1 };
        assert!(!table.is_equal());
        table.rows[0].differences.push("cache, best-fit differs in slice 3".into());
        assert!(table.text().ends_with("\ncache, best-fit differs in slice 3\n"));
    }
}
