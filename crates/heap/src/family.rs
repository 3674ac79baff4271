//! How a heap enters the lab: names, parameters, needs, and running it.
//!
//! A [`Family`] is a crate with one type that implements this trait, and a line in the binary's
//! table. It parses names into a [`Spec`], gives a spec's needs ([`Traits`]), and hands the heap to
//! a [`Lab`]. The lab is generic over heaps: the driver is compiled for each heap, and no event
//! costs a virtual call.
//!
//! A real runtime (Node, OCaml) is no heap of this process. Its family gives the lab a function
//! ([`Lab::outside`]) that receives the steps of the [`Workload`] and reports the runtime's work.

use crate::{Ask, Collected, Collection, CollectorLog, Manual, Name, Place, Region};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// A family of heaps.
pub trait Family: Copy + Send + Sync + 'static {
    /// One heap of the family with its parameters.
    type Spec: Spec;

    /// The heaps as `heaplab heaps` lists them.
    fn rows(&self) -> Vec<Row>;

    /// Parses a name; `None`: another family's name.
    fn parse(&self, name: &Name) -> Option<Result<Self::Spec, FamilyError>>;

    /// Checks that the workload has everything that the parameters name.
    ///
    /// # Errors
    /// A parameter names a thing that the workload lacks, such as a kind of arena.
    fn suits(&self, spec: &Self::Spec, workload: &dyn Workload) -> Result<(), FamilyError> {
        let _ = (spec, workload);
        Ok(())
    }

    /// Makes the heap and gives it to the lab.
    ///
    /// # Errors
    /// The heap cannot be made: no address space, a library that cannot be loaded, a missing
    /// runtime.
    fn run<L: Lab>(&self, spec: &Self::Spec, lab: L) -> Result<L::Output, FamilyError>;
}

/// One heap of a family with its parameters. Prints as its name on the command line.
pub trait Spec: fmt::Display + fmt::Debug + Clone + Eq + Send + Sync + 'static {
    /// Facts for the lab, known before the heap runs.
    fn traits(&self) -> Traits;
}

/// Facts about a heap that the lab needs before it runs the heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Environment of the heap's process.
    pub environment: Vec<(String, String)>,
    /// The heap's space differs from run to run: measure it several times.
    pub space_depends_on_time: bool,
    /// The heap's limit, as on the command line: `limit=64m`.
    pub limit: Option<String>,
    /// The name of the same heap without huge pages; `None`: the heap has no such switch, or has it
    /// set.
    pub without_huge_pages: Option<String>,
    /// A library to load into the heap's process. The lab tries it once before any cell.
    pub library: Option<PathBuf>,
    /// Other files that determine the result: a runtime's executable. Results are cached by these
    /// files' content.
    pub files: Vec<PathBuf>,
    /// A cell writes a file beside its result, so that no earlier result stands in for it.
    pub writes_file: bool,
    /// The heap can list its parts ([`Heap::walk`](crate::Heap::walk)).
    pub walked: bool,
    /// The CPU time of a pass is the heap's.
    pub timed: bool,
    /// Threads may share the heap.
    pub threaded: bool,
    /// The heap belongs into a comparison. The null heap does not.
    pub compared: bool,
}

impl Default for Traits {
    /// A heap of one thread without needs.
    fn default() -> Traits {
        Traits {
            environment: Vec::new(),
            space_depends_on_time: false,
            limit: None,
            without_huge_pages: None,
            library: None,
            files: Vec::new(),
            writes_file: false,
            walked: false,
            timed: true,
            threaded: false,
            compared: true,
        }
    }
}

/// A way to run heaps: a measurement, a check, a walk. A family calls one of the four methods.
pub trait Lab: Sized {
    /// The result.
    type Output;

    /// The workload, for a family that adapts its heap to it.
    fn workload(&self) -> &dyn Workload;

    /// Whether the heap will be walked and not timed: bookkeeping for walks is welcome.
    fn walks(&self) -> bool {
        false
    }

    /// Whether slices and counters are wanted ([`OutsideReport::log`]); reporting them costs a
    /// runtime time.
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

    /// Runs a runtime outside of this process. An error of `run` becomes the cell's, in words.
    fn outside(
        self,
        run: &mut dyn FnMut(&dyn Workload) -> Result<OutsideReport, String>,
    ) -> Self::Output;
}

/// The questions that a family may ask about the workload.
pub trait Workload {
    /// Facts known before the first step.
    fn facts(&self) -> WorkloadFacts;

    /// The facts of a region; empty for [`Region::MALLOC`] and unknown regions.
    fn region(&self, region: Region) -> RegionFacts<'_>;

    /// Calls `visit` with each step, in order. Ends at the first error of `visit` and returns this
    /// error.
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
    /// Slots: the maximum of objects live at once.
    pub slots: u32,
    /// Regions besides malloc's, numbered from 1.
    pub regions: u32,
    /// Objects born.
    pub objects: u64,
    /// Maximum of requested bytes live at once.
    pub peak_requested_bytes: u64,
    /// Threads.
    pub threads: u32,
}

/// The workload's facts of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionFacts<'a> {
    /// Its kind: `class`, `request`.
    pub kind: &'a str,
    /// Its growth policy, in the recorded program's word: `boot`, `standard`.
    pub growth_policy: &'a str,
}

/// A step of a workload, for a family that feeds its own runtime. Slots are empty before a birth
/// and reused after a death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadStep {
    /// An object is born in `slot`.
    Allocate {
        /// The object's slot.
        slot: u32,
        /// Bytes.
        size: u64,
        /// A power of two; 1: none requested.
        align: u64,
        /// Zeroed memory was requested.
        zeroed: bool,
        /// The object's region.
        region: Region,
        /// The place that the program chose.
        place: Place,
    },
    /// The object in `slot` gets a new size.
    Reallocate {
        /// The object's slot.
        slot: u32,
        /// Bytes.
        size: u64,
    },
    /// The object in `slot` dies: the program frees it, or the last reference to it goes.
    Free {
        /// The object's slot.
        slot: u32,
    },
    /// The program lets go of the object in `slot`, which lives while others refer to it. The slot
    /// is not reused.
    Release {
        /// The object's slot.
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
    /// A region ends, after a [`WorkloadStep::Free`] of each of its blocks.
    EndRegion(Region),
    /// The program asks for a collection.
    Collect(Ask),
    /// The program asks the heap to give memory back.
    Trim,
    /// A moment for measuring space: a mark of the workload, its peak, its end, or a regular one.
    Checkpoint {
        /// Index in the program's list of checkpoints.
        index: u32,
    },
}

/// A report of a runtime outside of this process on its workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutsideReport {
    /// Name and version: `node 13.14.0 (V8 8.1)`.
    pub version: String,
    /// All collections, oldest first.
    pub collections: Vec<Collection>,
    /// Committed bytes that no collection counts: those of a minor heap.
    #[serde(default)]
    pub uncounted_bytes: u64,
    /// CPU time of the process, ns.
    pub cpu_ns: u64,
    /// Peak of anonymous resident bytes, if the family measured it.
    pub peak_anonymous_bytes: Option<u64>,
    /// Slices and counters, if requested and available.
    #[serde(default)]
    pub log: CollectorLog,
}

/// A row of `heaplab heaps`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// Its name on the command line.
    pub name: String,
    /// A description in one line.
    pub summary: &'static str,
    /// The argument behind the colon, before any parameter.
    pub argument: Option<&'static str>,
    /// Its parameters.
    pub parameters: Vec<ParameterRow>,
    /// An example with parameters, as on the command line.
    pub example: Option<&'static str>,
    /// Why its space differs from run to run; `None`: it does not.
    pub space_depends_on_time: Option<&'static str>,
    /// Its own version text.
    pub version: Option<String>,
    /// It needs only this binary, and takes part in the tour.
    #[serde(skip)]
    pub is_built_in: bool,
    /// It can be walked.
    #[serde(skip)]
    pub is_walked: bool,
}

/// A parameter of a heap.
#[derive(Clone, Debug, Serialize)]
pub struct ParameterRow {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its possible values.
    pub takes: String,
    /// Its value when not named.
    pub default: &'static str,
    /// Its effect, in one line.
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
