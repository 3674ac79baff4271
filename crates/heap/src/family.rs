//! How a heap enters the lab: its names, its parameters, what it needs, and how it is run.
//!
//! A [`Family`] is a crate with one type that implements this trait, and a line in the table of the
//! binary. It parses its names into a [`Spec`], says of a spec what a process needs ([`Traits`]),
//! and hands the heap to a [`Lab`], which is generic over heaps: so the driver is compiled for each
//! heap, and no event costs a virtual call.
//!
//! A real runtime (Node, OCaml) is no heap of this process. Its family gives the lab a function
//! ([`Lab::outside`]) that is fed the steps of the [`Workload`] and reports what the runtime did.

use crate::{Ask, Collected, Collection, CollectorLog, Manual, Name, Region};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// A family of heaps.
pub trait Family: Copy + Send + Sync + 'static {
    /// One heap of the family with its parameters.
    type Spec: Spec;

    /// The heaps as `heaplab heaps` lists them.
    fn rows(&self) -> Vec<Row>;

    /// Parses a name; `None`: it is not one of this family's.
    fn parse(&self, name: &Name) -> Option<Result<Self::Spec, FamilyError>>;

    /// Checks that the parameters are about what the workload has.
    ///
    /// # Errors
    /// A parameter names what the workload has not, such as a kind of arena.
    fn suits(&self, spec: &Self::Spec, workload: &dyn Workload) -> Result<(), FamilyError> {
        let _ = (spec, workload);
        Ok(())
    }

    /// Makes the heap and gives it to the lab.
    ///
    /// # Errors
    /// The heap cannot be made: no address space, a library that cannot be loaded, a runtime that
    /// is not there.
    fn run<L: Lab>(&self, spec: &Self::Spec, lab: L) -> Result<L::Output, FamilyError>;
}

/// One heap of a family with its parameters. Prints as it is named on the command line.
pub trait Spec: fmt::Display + fmt::Debug + Clone + Eq + Send + Sync + 'static {
    /// What the lab has to know before it runs the heap.
    fn traits(&self) -> Traits;
}

/// What the lab has to know of a heap before it runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Environment of the heap's process.
    pub environment: Vec<(String, String)>,
    /// The heap's space differs from run to run and is measured several times.
    pub space_depends_on_time: bool,
    /// The limit that the heap was given, as named: `limit=64m`.
    pub limit: Option<String>,
    /// The heap as it is named where it keeps huge pages away; `None`: it has no such switch, or
    /// does so already.
    pub without_huge_pages: Option<String>,
    /// A library that is loaded into the heap's process. It is tried once before any cell.
    pub library: Option<PathBuf>,
    /// Other files that decide what is measured: a runtime's executable. Results are kept by their
    /// content.
    pub files: Vec<PathBuf>,
    /// The heap says where its parts are ([`Heap::walk`](crate::Heap::walk)).
    pub walked: bool,
    /// CPU time of a pass is the heap's.
    pub timed: bool,
    /// Threads may share the heap.
    pub threaded: bool,
    /// The heap stands beside others in a comparison. The null heap does not.
    pub compared: bool,
}

impl Default for Traits {
    /// A heap of one thread that needs nothing.
    fn default() -> Traits {
        Traits {
            environment: Vec::new(),
            space_depends_on_time: false,
            limit: None,
            without_huge_pages: None,
            library: None,
            files: Vec::new(),
            walked: false,
            timed: true,
            threaded: false,
            compared: true,
        }
    }
}

/// What runs heaps: a measurement, a check, a walk. A family calls one of the four.
pub trait Lab: Sized {
    /// What comes out of it.
    type Output;

    /// The workload, for a family that sets its heap up for it.
    fn workload(&self) -> &dyn Workload;

    /// The heap will be walked and not timed: bookkeeping that only a walk needs is welcome.
    fn walks(&self) -> bool {
        false
    }

    /// Slices and counters are asked for ([`OutsideReport::log`]); telling them takes a runtime
    /// time.
    fn logs(&self) -> bool {
        false
    }

    /// Runs a heap whose blocks the program frees.
    fn manual<H: Manual>(self, heap: H) -> Self::Output;

    /// The same for a heap that threads may share, one clone each.
    fn shared<H: Manual + Clone + Send>(self, heap: H) -> Self::Output {
        self.manual(heap)
    }

    /// Runs a heap that collects.
    fn collected<H: Collected>(self, heap: H) -> Self::Output;

    /// Runs what is outside of this process. An error of `run` is the cell's, in words.
    fn outside(
        self,
        run: &mut dyn FnMut(&dyn Workload) -> Result<OutsideReport, String>,
    ) -> Self::Output;
}

/// What a family may ask of the workload.
pub trait Workload {
    /// Facts that are known before the first step.
    fn facts(&self) -> WorkloadFacts;

    /// What is known of a region; [`Region::MALLOC`] and regions of which nothing is known: empty.
    fn region(&self, region: Region) -> RegionFacts<'_>;

    /// Calls `visit` with each step, in order. Ends at the first error of `visit`, which is then
    /// returned.
    ///
    /// # Errors
    /// An error of `visit`, or the workload is damaged.
    fn steps(
        &self,
        visit: &mut dyn FnMut(WorkloadStep) -> Result<(), String>,
    ) -> Result<(), String>;
}

/// Facts of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkloadFacts {
    /// Largest block, bytes.
    pub block_size_max: u64,
    /// Slots: the most objects live at once.
    pub slots: u32,
    /// Regions besides malloc's; they are numbered from 1.
    pub regions: u32,
    /// Objects born.
    pub objects: u64,
    /// Most requested bytes live at once.
    pub peak_requested_bytes: u64,
    /// Threads.
    pub threads: u32,
}

/// What the workload says of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionFacts<'a> {
    /// Its kind: `class`, `request`.
    pub kind: &'a str,
    /// How it is to grow, in the recorded program's word: `boot`, `standard`.
    pub growth_policy: &'a str,
}

/// A step of a workload, for a family that feeds a runtime of its own. Slots are empty before a
/// birth and used again after a death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadStep {
    /// An object is born in `slot`.
    Allocate {
        /// Where the program keeps it.
        slot: u32,
        /// Bytes.
        size: u64,
        /// A power of two; 1: none asked for.
        align: u64,
        /// Asked for zeroed.
        zeroed: bool,
        /// Where it lives.
        region: Region,
        /// The program allocated it in the old generation.
        old: bool,
    },
    /// The object in `slot` gets a new size.
    Reallocate {
        /// Where the program keeps it.
        slot: u32,
        /// Bytes.
        size: u64,
    },
    /// The object in `slot` dies: the program frees it, or nothing refers to it any more.
    Free {
        /// Where the program kept it.
        slot: u32,
    },
    /// The program lets go of the object in `slot`, which lives while others refer to it. The slot
    /// is not used again.
    Release {
        /// Where the program kept it.
        slot: u32,
    },
    /// Field `field` of the object in `from` now refers to the object in `to`; `None`: to nothing.
    Reference {
        /// The referring object.
        from: u32,
        /// Index of the field.
        field: u32,
        /// The object referred to.
        to: Option<u32>,
    },
    /// A region begins.
    BeginRegion(Region),
    /// A region ends; a [`WorkloadStep::Free`] of each of its blocks comes before.
    EndRegion(Region),
    /// The program asks for a collection.
    Collect(Ask),
    /// The program asks the heap to give memory back.
    Trim,
    /// The recorded heap promoted the object in `slot` here.
    Promote {
        /// Where the program keeps it.
        slot: u32,
    },
    /// A moment at which space is measured: a mark of the workload, its peak, its end, or one at a
    /// regular distance.
    Checkpoint {
        /// Index in the program's list of checkpoints.
        index: u32,
    },
}

/// What a runtime outside of this process did with a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutsideReport {
    /// Name and version: `node 13.14.0 (V8 8.1)`.
    pub version: String,
    /// All collections, oldest first.
    pub collections: Vec<Collection>,
    /// CPU time of the process, ns.
    pub cpu_ns: u64,
    /// Most anonymous resident bytes, where the family measured them.
    pub peak_anonymous_bytes: Option<u64>,
    /// Slices and counters, where they were asked for and the runtime has them.
    #[serde(default)]
    pub log: CollectorLog,
}

/// A row of `heaplab heaps`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// As it is named on the command line.
    pub name: String,
    /// What it is, in a line.
    pub summary: &'static str,
    /// What follows the colon before any parameter.
    pub argument: Option<&'static str>,
    /// Its parameters.
    pub parameters: Vec<ParameterRow>,
    /// It with some of them, as on the command line.
    pub example: Option<&'static str>,
    /// Why its space differs from run to run, where it does.
    pub space_depends_on_time: Option<&'static str>,
    /// What it says of itself.
    pub version: Option<String>,
    /// It needs nothing but this binary, and stands in the tour.
    #[serde(skip)]
    pub is_built_in: bool,
    /// It can be walked.
    #[serde(skip)]
    pub is_walked: bool,
}

/// A parameter of a heap.
#[derive(Clone, Debug, Serialize)]
pub struct ParameterRow {
    /// As it is named on the command line.
    pub name: &'static str,
    /// The values it takes.
    pub takes: String,
    /// What it is without being named.
    pub default: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
}

impl From<&crate::Parameter> for ParameterRow {
    fn from(parameter: &crate::Parameter) -> ParameterRow {
        let crate::Parameter { name, takes, default, help } = *parameter;
        ParameterRow { name, takes: takes.into(), default, help }
    }
}

/// Why a family does not run a heap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FamilyError {
    /// The name, a parameter or a value is wrong; in words.
    #[error("{0}")]
    Wrong(String),
    /// The heap cannot be made here; in words.
    #[error("{0}")]
    Failed(String),
}

impl FamilyError {
    /// The name or a parameter is wrong.
    pub fn wrong(error: impl fmt::Display) -> FamilyError {
        FamilyError::Wrong(error.to_string())
    }

    /// The heap cannot be made here.
    pub fn failed(error: impl fmt::Display) -> FamilyError {
        FamilyError::Failed(error.to_string())
    }
}
