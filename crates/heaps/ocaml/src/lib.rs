//! OCaml 4's minor and major heap with next-fit, first-fit and best-fit, as a heap that any
//! workload can run on.
//!
//! It answers two questions: the cost of a workload under OCaml's collector, and the best of its
//! three policies for the workload. The rules are those of OCaml's runtime (`runtime/*.c`, versions
//! 4.12.0 to 4.14.2), read there and written anew; the head of each module names its sources. A run
//! makes the same decisions as the real runtime, slice for slice: when it collects, how much it
//! marks and sweeps, where each block lies.
//!
//! **The program around the workload.** A heap of the lab has no program, but OCaml's pacing
//! depends on one. So this heap contains the smallest program that can run a workload: its
//! arguments (one string in an array) and one array of slots, allocated directly in the major heap.
//! This array is the only root of the workload's objects. `heaplab-ocamlrt` has the same program in
//! OCaml.
//!
//! Where to look:
//!
//! - [`spec`]: the names of the policies, and `OCAMLRUNPARAM`'s parameters.
//! - [`facts`]: the runtime's constants; [`strategy`]: the differences between versions, as data.
//! - `block`, `chunk`: words, and chunks of the major heap; `placement`, `malloc`: their addresses.
//! - `ordered`, `next_fit`, `first_fit`, `best_fit`, `splay`: the free lists.
//! - `minor`, `cycle`, `pacing`, `mark`, `prefetch`, `sweep`, `compact`: the collector, a file a
//!   mechanism.
//! - [`heap`]: the heap; [`log`]: its record of each slice; `check`: its invariants.
//!
//! ```
//! use heaplab_heap::Heap as _;
//! use heaplab_ocaml::{OCaml, spec::Spec};
//! let heap = OCaml::new(Spec::parse("best-fit,o=80,s=32k").unwrap()).unwrap();
//! assert_eq!(heap.counters().heap_words, 126_976, "31 pages of 4096 words");
//! heap.check_deep().unwrap();
//! ```

#[cfg(not(target_pointer_width = "64"))]
compile_error!("heaplab-ocaml follows the runtime of 64-bit machines");

mod best_fit;
mod block;
mod check;
mod chunk;
mod compact;
mod cycle;
pub mod facts;
mod family;
mod first_fit;
mod fit;
pub mod heap;
pub mod log;
mod malloc;
mod mark;
mod minor;
mod next_fit;
mod ordered;
mod pacing;
mod placement;
mod prefetch;
mod program;
pub mod spec;
mod splay;
pub mod strategy;
mod sweep;

pub use family::{Named, OCamls};
pub use heap::OCaml;
pub use log::{Counters, Phase, Slice};
pub use program::slot_fields;
