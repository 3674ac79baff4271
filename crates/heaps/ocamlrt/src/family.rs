//! The family `ocamlrt`: the workload in the real OCaml runtime.

use crate::{Driver, Report, Step};
use heaplab_heap::{
    Collection, CollectorLog, Family, FamilyError, Lab, Name, OutsideReport, Row, SpaceState,
    Traits, Workload, WorkloadStep,
};
use heaplab_ocaml::spec::{PARAMETERS, Spec};
use heaplab_ocaml::strategy::Version;
use std::fmt;

/// The family's name.
const NAME: &str = "ocamlrt";
/// Parameters that the runtime lacks: nothing limits its memory. The version is the compiler's.
const OURS: [&str; 1] = ["limit"];

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Runtimes;

/// The runtime with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runtime(pub Spec);

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAME}:{}", self.0)
    }
}

impl heaplab_heap::Spec for Runtime {
    fn traits(&self) -> Traits {
        // A missing OCaml is reported when it is to run.
        let files =
            Driver::build().map(|driver| vec![driver.program().to_owned()]).unwrap_or_default();
        // A cell's process starts with a bare environment, and must find the compiler and the
        // compiled driver.
        let known = ["PATH", "HOME", "XDG_CACHE_HOME"].into_iter();
        let environment =
            known.filter_map(|name| Some((name.into(), std::env::var(name).ok()?))).collect();
        Traits { files, environment, ..Traits::default() }
    }
}

impl Family for Runtimes {
    type Spec = Runtime;

    fn rows(&self) -> Vec<Row> {
        vec![Row {
            name: NAME.into(),
            summary: "the real OCaml runtime (ocamlopt 4.12 to 4.14): a small OCaml program runs the workload",
            parameters: PARAMETERS
                .iter()
                .filter(|parameter| !OURS.contains(&parameter.name))
                .map(Into::into)
                .collect(),
            example: Some("ocamlrt:a=2,o=80,s=32k"),
            ..Row::default()
        }]
    }

    fn parse(&self, name: &Name) -> Option<Result<Runtime, FamilyError>> {
        if name.head != NAME {
            return None;
        }
        if let Some((key, _)) = name.parameters.iter().find(|(key, _)| OURS.contains(&key.as_str()))
        {
            return Some(Err(FamilyError::Wrong(format!(
                "{NAME} has no parameter {key}: nothing limits the runtime's memory"
            ))));
        }
        Some(Spec::of_name(name).map(Runtime).map_err(FamilyError::wrong))
    }

    fn run<L: Lab>(&self, Runtime(spec): &Runtime, lab: L) -> Result<L::Output, FamilyError> {
        let driver = Driver::build().map_err(FamilyError::failed)?;
        let wanted = spec.version.strategy().name;
        if Version::named(driver.version()) != Some(spec.version) {
            let what = format!(
                "{NAME}: version={wanted} is asked for, and ocamlopt is {}; give version={0}",
                driver.version()
            );
            return Err(FamilyError::Failed(what));
        }
        let logs = lab.logs();
        Ok(lab.outside(&mut |workload| run(&driver, spec, workload, logs)))
    }
}

/// Feeds the workload to the driver. Returns one row for each collection of the workload and one
/// for the end. With `logs` the runtime reports its slices.
fn run(
    driver: &Driver,
    spec: &Spec,
    workload: &dyn Workload,
    logs: bool,
) -> Result<OutsideReport, String> {
    let mut births = Vec::new();
    let (mut born, mut born_bytes) = (0, 0);
    let run = driver.feed(spec, workload.facts().slots, logs, |put| {
        workload.steps(&mut |step| {
            let step = match step {
                WorkloadStep::Allocate { slot, size, .. } | WorkloadStep::Reallocate { slot, size } => {
                    (born, born_bytes) = (born + 1, born_bytes + size);
                    Step::Birth { slot, size: usize::try_from(size).map_err(|error| error.to_string())? }
                }
                WorkloadStep::Free { slot } => Step::Death { slot },
                WorkloadStep::Collect(ask) => {
                    births.push((born, born_bytes));
                    Step::Collect(ask)
                }
                WorkloadStep::Release { .. } | WorkloadStep::Reference { .. } => {
                    return Err("the workload has references between objects; ocamlrt runs workloads whose deaths are known".into());
                }
                // The runtime has no regions, and does not return memory on request.
                WorkloadStep::BeginRegion(_)
                | WorkloadStep::EndRegion(_)
                | WorkloadStep::Trim
                | WorkloadStep::Checkpoint { .. } => return Ok(()),
            };
            put(step)
        })
    });
    let run = run.map_err(|error| error.to_string())?;
    births.push((born, born_bytes));
    let rows = run.collections.iter().map(|report| (report, "forced")).chain([(&run.end, "end")]);
    let collections =
        rows.zip(births).map(|((report, cause), births)| row(report, cause, births)).collect();
    let slices = run.slices.iter().map(|slice| slice.row(spec.initial_words));
    let log = if logs { run.end.counters.log(slices.collect()) } else { CollectorLog::default() };
    Ok(OutsideReport {
        version: format!("OCaml {}", driver.version()),
        collections,
        uncounted_bytes: spec.minor_words as u64 * 8,
        cpu_ns: run.cpu_ns,
        peak_anonymous_bytes: run.peak_anonymous_bytes,
        log,
    })
}

/// The counters as a collection: the major heap after it. The runtime does not tell the state
/// before it.
fn row(report: &Report, cause: &'static str, (births, born_bytes): (u64, u64)) -> Collection {
    let counters = report.counters;
    let bytes = |words: u64| words * 8;
    let after = SpaceState {
        used_bytes: bytes(counters.heap_words - counters.free_words),
        available_bytes: bytes(counters.free_words),
        committed_bytes: bytes(counters.heap_words),
        waste_bytes: None,
    };
    Collection {
        kind: "major".into(),
        cause: cause.into(),
        births,
        born_bytes,
        before: after,
        after,
        ..Collection::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed() {
        let parse = |text: &str| Runtimes.parse(&Name::parse(text)).unwrap();
        assert_eq!(parse("ocamlrt:a=0,o=40").unwrap().to_string(), "ocamlrt:next-fit,o=40");
        assert!(parse("ocamlrt:limit=1g").unwrap_err().to_string().contains("nothing limits"));
        assert!(Runtimes.parse(&Name::parse("ocaml:a=0")).is_none());
    }
}
