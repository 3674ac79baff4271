//! Two collectors as in textbooks, each whole on a screen: mark-sweep and semi-space copying.
//!
//! A small example that passes every check, for authors of collected heaps, and a plain baseline
//! for comparisons with a published design. Source: Jones, Hosking and Moss, "The Garbage
//! Collection Handbook", 2nd edition (2023), chapters 2 (mark-sweep) and 4 (copying).
//!
//! Deviations: an object has no fields of its own in memory; references are the world's. Pacing is
//! the simplest possible: collect when the bytes allocated since the last collection reach the
//! bytes live after it, or another part of them (`overhead`).
//!
//! ```
//! use heaplab_heap::{Ask, Birth, Collected, Origin, Place, witness::{Objects, Witness}};
//! use heaplab_textbook::{MarkSweep, Options};
//!
//! let mut heap = MarkSweep::new(Options::default())?;
//! let mut world = Witness::new(1);
//! let birth = Birth { slot: 0, size: 100, align: 1, origin: Origin::Generated, place: Place::Any };
//! let object = heap.allocate(birth, &mut world)?;
//! world.born(0, object, 100);
//! world.died(0);
//! heap.collect(Ask::Full, &mut world)?;
//! assert_eq!(heap.collections()[0].after.used_bytes, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod facts;
mod family;
mod heap;
mod mark_sweep;
mod semi_space;
mod strategy;

pub use family::{Spec, Textbook};
pub use mark_sweep::MarkSweep;
pub use semi_space::SemiSpace;
pub use strategy::{Design, Options};
