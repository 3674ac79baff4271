//! The contracts a heap fulfils, what it reports, and the checks every heap must pass.
//!
//! For whoever writes a heap, and for whoever drives one. A heap is a real memory manager on real
//! memory: it hands out addresses that may be written. A driver is generic over [`Manual`], so a
//! heap's own crate and ten lines of main replay any workload on it (`examples/own-heap`).
//!
//! - [`heap`]: what every heap says of itself.
//! - [`manual`]: the contract of heaps whose blocks the program frees, and the regions that die as
//!   a whole.
//! - [`footprint`]: where a heap's bytes are, kept apart.
//! - [`structure`]: where each of its bytes is, of heaps that can say so.
//! - [`verified`]: a heap wrapped so that overlaps, lost contents and wrong alignments are found as
//!   they happen.
//! - [`conformance`]: lists of operations that any heap must survive.
//! - [`family`]: how a heap enters the lab; [`name`], [`parameter`]: how heaps are named.
//!
//! Collected heaps have another contract, because they decide themselves when to look for the dead:
//! [`collected`], with [`world`] as the workload's side of it and [`collection`] as its result.

pub mod collected;
pub mod collected_conformance;
pub mod collection;
pub mod conformance;
pub mod family;
pub mod footprint;
pub mod heap;
pub mod log;
pub mod manual;
pub mod name;
pub mod parameter;
pub mod structure;
pub mod verified;
pub mod witness;
pub mod world;

pub use collected::{Ask, Birth, Collected, Origin, OutOfMemory};
pub use collection::{Collection, FreeBlocks, FreeLists, SpaceChange, SpaceState, Work};
pub use family::{
    Family, FamilyError, Lab, OutsideReport, ParameterRow, RegionFacts, Row, Spec, Traits,
    Workload, WorkloadFacts, WorkloadStep,
};
pub use footprint::Footprint;
pub use heap::{CheckError, Heap};
pub use log::{CollectorLog, SliceRow};
pub use manual::{Block, Manual, Region, Request};
pub use name::Name;
pub use parameter::Parameter;
pub use structure::{Part, Role};
pub use verified::{Verified, Violation};
pub use world::{Object, World};
