//! The contracts of heaps, their reports, and the checks that every heap must pass.
//!
//! For authors of heaps and of drivers. A heap is a real memory manager on real memory: it hands
//! out addresses that may be written. A driver is generic over [`Manual`], so a heap's own crate
//! and ten lines of main replay any workload on it (`examples/own-heap`).
//!
//! - [`heap`]: the common part of every heap.
//! - [`manual`]: the contract of heaps with blocks that the program frees, and the regions that die
//!   as a whole.
//! - [`footprint`]: where a heap's bytes are, kept apart.
//! - [`structure`]: where each byte is, for heaps that can tell.
//! - [`verified`]: a wrapper that finds overlaps, lost contents and wrong alignments as they
//!   happen.
//! - [`conformance`]: lists of operations that any heap must survive.
//! - [`family`]: how a heap enters the lab; [`name`], [`parameter`]: how heaps are named.
//!
//! Collected heaps have another contract, because they decide themselves when to collect:
//! [`collected`], with [`world`] as the workload's side and [`collection`] as the result.

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
mod prefetch;
pub mod structure;
pub mod verified;
pub mod witness;
pub mod world;

pub use collected::{Ask, Birth, Collected, Origin, OutOfMemory, Place};
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
pub use prefetch::prefetch;
pub use structure::{Part, Role};
pub use verified::{Verified, Violation};
pub use world::{Object, World};
