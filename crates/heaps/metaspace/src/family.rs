//! The family of HotSpot's metaspaces: `metaspace:jdk11` to `metaspace:jdk18`.

use crate::elastic::ElasticMetaspace;
use crate::old::{Heap11, Options11};
use crate::plan::{ArenaPlan, Plan};
use crate::spec::{self, Generation, PARAMETERS};
use heaplab_heap::{Family, FamilyError, Lab, Name, Region, Row, Traits, Workload};
use std::fmt;

/// The family's name.
const METASPACE: &str = "metaspace";

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Metaspaces;

/// A metaspace with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metaspace(pub spec::Spec);

impl fmt::Display for Metaspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{METASPACE}:{}", self.0)
    }
}

impl heaplab_heap::Spec for Metaspace {
    fn traits(&self) -> Traits {
        Traits { limit: self.0.limit_text(), walked: true, ..Traits::default() }
    }
}

impl Family for Metaspaces {
    type Spec = Metaspace;

    fn rows(&self) -> Vec<Row> {
        let row = |(generation, name, summary): &(Generation, &str, &'static str)| Row {
            name: format!("{METASPACE}:{name}"),
            summary,
            parameters: PARAMETERS
                .iter()
                .filter(|parameter| *generation != Generation::Jdk11 || parameter.name != "reclaim")
                .map(Into::into)
                .collect(),
            example: Some(match generation {
                Generation::Jdk11 => "metaspace:jdk11,limit=64m",
                Generation::Jdk16 => "metaspace:jdk16,reclaim=aggressive",
                Generation::Jdk17 => "metaspace:jdk17,reclaim=aggressive,limit=64m",
                Generation::Jdk18 => "metaspace:jdk18,limit=64m",
            }),
            is_built_in: true,
            is_walked: true,
            ..Row::default()
        };
        Generation::ALL.iter().map(row).collect()
    }

    fn parse(&self, name: &Name) -> Option<Result<Metaspace, FamilyError>> {
        let of_family = name.head == METASPACE;
        let pieces = [name.variant.clone().unwrap_or_default(), name.parameters_text()];
        let text = pieces.join(",");
        of_family.then(|| {
            spec::Spec::parse(text.trim_end_matches(',')).map(Metaspace).map_err(FamilyError::wrong)
        })
    }

    fn run<L: Lab>(&self, Metaspace(spec): &Metaspace, lab: L) -> Result<L::Output, FamilyError> {
        let plan = plan(lab.workload());
        if spec.generation == Generation::Jdk11 {
            return Ok(lab.manual(Heap11::new(Options11::from(spec), plan)));
        }
        let heap = ElasticMetaspace::new(*spec, plan);
        Ok(lab.manual(heap.map_err(|error| {
            FamilyError::Failed(format!("no address space for the metaspace: {error}"))
        })?))
    }
}

/// The kind of arena of each region of a workload.
pub fn plan(workload: &dyn Workload) -> Plan {
    let regions = (0..=workload.facts().regions).map(|region| workload.region(Region(region)));
    Plan::new(regions.map(|region| ArenaPlan::parse(region.kind, region.growth_policy)).collect())
}
