//! The real allocators of this system: glibc, jemalloc, mimalloc, any shared library, and none at
//! all.
//!
//! Each is called through its own functions, not through the `malloc` that the process was linked
//! with: all of them live in one binary, and a replay chooses one. Allocators read their parameters
//! before `main`, from the environment. So a heap with parameters is a fresh process with
//! [`Spec::environment`].
//!
//! - [`malloc`]: a C allocator as a heap: one adapter for all of them.
//! - [`glibc`], [`jemalloc`], [`mimalloc`], [`library`]: their functions, counters and versions.
//! - [`null`]: the heap that does nothing: shows the driver's own cost.
//! - [`family`]: how they enter the lab.
//! - [`table`]: every name and parameter, the basis of parsing, limits and help.

pub mod family;
pub mod glibc;
pub mod jemalloc;
pub mod library;
pub mod malloc;
pub mod mimalloc;
pub mod null;
pub mod table;

pub use family::Allocators;
pub use malloc::{Malloc, System};
pub use table::{HEAPS, Kind, NamedHeap, Parameter, Spec, SpecError, Takes};
