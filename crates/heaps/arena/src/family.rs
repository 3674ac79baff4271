//! The family of arena libraries: `elastic` with its parameters, and `bump`.

use crate::bump::Bumps;
use crate::bump_walk::WalkedBumps;
use crate::elastic::Elastic;
use crate::spec::{self, PARAMETERS};
use heaplab_heap::{Family, FamilyError, Lab, Name, Region, Row, Traits, Workload};
use std::collections::BTreeSet;
use std::fmt;

/// heaplab's own elastic arenas, by name.
const ELASTIC: &str = "elastic";
/// bumpalo, by name.
const BUMP: &str = "bump";

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Arenas;

/// An arena library with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Library {
    /// Elastic arenas.
    Elastic(spec::Spec),
    /// bumpalo.
    Bump,
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Library::Elastic(spec) if *spec == spec::Spec::default() => f.write_str(ELASTIC),
            Library::Elastic(spec) => write!(f, "{ELASTIC}:{spec}"),
            Library::Bump => f.write_str(BUMP),
        }
    }
}

impl heaplab_heap::Spec for Library {
    fn traits(&self) -> Traits {
        let traits = Traits { walked: true, ..Traits::default() };
        match self {
            Library::Elastic(spec) => Traits {
                space_depends_on_time: spec.depends_on_time(),
                limit: spec.limit().map(|limit| format!("limit={limit}")),
                without_huge_pages: spec
                    .options()
                    .huge_pages
                    .then(|| format!("{ELASTIC}:huge_pages=false")),
                ..traits
            },
            Library::Bump => traits,
        }
    }
}

impl Family for Arenas {
    type Spec = Library;

    fn rows(&self) -> Vec<Row> {
        let elastic = Row {
            name: ELASTIC.into(),
            summary: "heaplab's elastic arenas: one space with an arena for each arena of the workload",
            parameters: PARAMETERS.iter().map(Into::into).collect(),
            example: Some("elastic:growth=fast,reclaim=trim,huge_pages=true"),
            is_built_in: true,
            is_walked: true,
            ..Row::default()
        };
        let summary = "bumpalo: one Bump for each arena of the workload, dropped whole";
        let bump = Row {
            name: BUMP.into(),
            summary,
            is_built_in: true,
            is_walked: true,
            ..Row::default()
        };
        vec![elastic, bump]
    }

    fn parse(&self, name: &Name) -> Option<Result<Library, FamilyError>> {
        let has_any = name.variant.is_some() || !name.parameters_text().is_empty();
        match name.head.as_str() {
            ELASTIC => {
                let pieces = [name.variant.clone().unwrap_or_default(), name.parameters_text()];
                Some(
                    spec::Spec::parse(&pieces.join(","))
                        .map(Library::Elastic)
                        .map_err(FamilyError::wrong),
                )
            }
            BUMP if has_any => {
                Some(Err(FamilyError::Wrong(format!("{}: {BUMP} has no parameters", name.text))))
            }
            BUMP => Some(Ok(Library::Bump)),
            _ => None,
        }
    }

    /// Refuses a growth for a kind of arena that the workload lacks.
    fn suits(&self, library: &Library, workload: &dyn Workload) -> Result<(), FamilyError> {
        let Library::Elastic(spec) = library else { return Ok(()) };
        let growths = spec.growths();
        let regions =
            (1..=workload.facts().regions).map(|region| workload.region(Region(region)).kind);
        let kinds: BTreeSet<&str> = regions.filter(|kind| !kind.is_empty()).collect();
        match growths.kinds().find(|kind| !kinds.contains(kind)) {
            None => Ok(()),
            Some(unknown) if kinds.is_empty() => Err(FamilyError::Wrong(format!(
                "{library}: no arena of the workload has a kind, so that none is {unknown}"
            ))),
            Some(unknown) => {
                let known = kinds.into_iter().collect::<Vec<_>>().join(", ");
                Err(FamilyError::Wrong(format!(
                    "{library}: no arena of the workload is of kind {unknown}; they are {known}"
                )))
            }
        }
    }

    fn run<L: Lab>(&self, library: &Library, lab: L) -> Result<L::Output, FamilyError> {
        let spec = match library {
            Library::Elastic(spec) => spec,
            Library::Bump if lab.walks() => return Ok(lab.manual(WalkedBumps::default())),
            Library::Bump => return Ok(lab.manual(Bumps::default())),
        };
        let (growths, workload) = (spec.growths(), lab.workload());
        let of_arenas = (1..=workload.facts().regions).map(|region| {
            let facts = workload.region(Region(region));
            growths.of_arena(facts.kind, facts.growth_policy)
        });
        let growth = std::iter::once(growths.of_no_arena()).chain(of_arenas).collect();
        let heap = Elastic::new(spec.options(), growth);
        Ok(lab.manual(heap.map_err(|error| {
            FamilyError::Failed(format!("no address space for elastic arenas: {error}"))
        })?))
    }
}
