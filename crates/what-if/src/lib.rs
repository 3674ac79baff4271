//! A recorded workload as a changed program would have it, for developers who ask what a fix would
//! save before they touch the code.
//!
//! A [`Rule`] says which requests it concerns (a [`Place`]) and how they change (a [`Change`]). A
//! [`Changer`] reads events and emits the changed ones, in an order that a program can have
//! produced. [`change`] makes a bundle of another. [`Rule::assumption`] states what a change
//! assumes, and the bundle's `meta.json` keeps it.
//!
//! The ideas are the fixes of "Clownshoes available in sizes 2^10+1 and up!" (2011), "Please grow
//! your buffers exponentially" (2014) and the Necko buffer cache of "MemShrink progress, week 31"
//! (2012). Only requests change. A recording does not have the program's use of its memory between
//! two requests, and a program that would make other requests because of the change makes the old
//! ones here.
//!
//! Memory follows the live objects that a rule concerns, and a quarter of a byte for every object
//! born.
//!
//! ```
//! use heaplab_trace::{Event, Op, tables::Tables};
//! use heaplab_what_if::{Change, Changer, Growth, Place, Rule};
//!
//! let place = Place::Stacks { name: "read_line".into(), stacks: vec![0] };
//! let rules = [Rule { place, except: Vec::new(), change: Change::Grow(Growth::Factor(2.0)) }];
//! let mut changer = Changer::new(&Tables::default(), &rules, None)?;
//! let mut changed = Vec::new();
//! changer.push(&Event { size: 100, ..Event::default() }, &mut changed)?;
//! for size in 101..=200 {
//!     changer.push(&Event { op: Op::Realloc, size, ..Event::default() }, &mut changed)?;
//! }
//! changer.finish(&mut changed)?;
//! // One step to 200 bytes in the place of a hundred.
//! assert_eq!(changed.len(), 2);
//! assert_eq!(changed[1].size, 200);
//! # Ok::<(), heaplab_what_if::WhatIfError>(())
//! ```

#![forbid(unsafe_code)]

mod arena;
mod bundle;
mod cache;
mod changed_rows;
mod changer;
mod error;
mod objects;
mod options;
mod parse;
mod place;
mod pool;
mod renumber;
mod rule;
mod sizes;
mod successor;

pub use bundle::{Changed, beside, change, is_recording};
pub use changer::{Changer, Done};
pub use error::WhatIfError;
pub use options::RuleOptions;
pub use place::Place;
pub use rule::{CHUNK_BYTES, Change, Growth, Rule, Sizes};
pub use sizes::SizeRow;
