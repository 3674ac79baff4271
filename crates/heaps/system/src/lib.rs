//! The allocators of this system as they are: glibc, jemalloc, mimalloc, any shared library, and
//! none at all.
//!
//! Each is called through its own functions, not through whatever `malloc` the process was linked
//! with, so that all of them live in one binary and a replay chooses. Their parameters are read
//! before `main`, from the environment; that is why a heap with parameters is a fresh process with
//! [`Spec::environment`].
//!
//! - [`malloc`]: a C allocator as a heap: one adapter for all of them.
//! - [`glibc`], [`jemalloc`], [`mimalloc`], [`library`]: their functions, counters and versions.
//! - [`null`]: the heap that does nothing: what remains is the driver's own cost.
//! - [`family`]: how they enter the lab.
//! - [`table`]: every name and parameter, from which parsing, limits and help derive.

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
