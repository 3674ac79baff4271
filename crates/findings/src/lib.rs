//! Slop, clownshoes, growth, churn and leaks, with what each would save.
//!
//! For programmers who ask what to change in a program. The detectors observe the profile's pass
//! ([`find`]), so a report reads its recording once. Each detector is one module with its
//! detection, its evidence (a [`Finding`]) and its words: `growth`, `churn`, `leaks`, and
//! `clownshoes` with three files beside it. [`slop`] makes the counts table and the sums by
//! allocator. [`metaspace`] looks at a JVM's metaspace at a moment instead of a pass.
//!
//! Source: "Clownshoes available in sizes 2^10+1 and up!" (2011) and "Please grow your buffers
//! exponentially" (2014), both on Firefox. Deviation: costs are given for several allocators,
//! because a size that is free on one is waste on another. A site that reads its usable size is
//! never called waste.
//!
//! ```
//! use heaplab_findings::{CLOWNSHOES, Options, find};
//! use heaplab_trace::{Event, source::Slice, tables::Tables};
//!
//! let tables = Tables::default();
//! let events: Vec<Event> = (0..1000).map(|object| Event { object, size: 4104, ..Event::default() }).collect();
//! let (profile, findings) = find(&tables, &mut Slice(&events), &Default::default(), Options::default())?;
//! assert_eq!(profile.peak.live.bytes, 1000 * 4104);
//! let shoe = findings.findings.iter().find(|finding| finding.kind == CLOWNSHOES).unwrap();
//! assert!(shoe.title.contains("4,104-byte requests, 8 bytes over 4,096"));
//! # Ok::<(), heaplab_trace::TraceError>(())
//! ```

#![forbid(unsafe_code)]

mod chain;
mod churn;
mod clownshoe;
mod clownshoe_cost;
mod clownshoe_words;
mod clownshoes;
mod detect;
mod finding;
mod first_sentences;
mod function;
mod group;
mod growth;
mod leaks;
pub mod metaspace;
mod model;
mod nameless;
mod options;
mod rank;
mod sites;
pub mod slop;
mod spread;
mod strategy;

pub use churn::{CHURN, Churn, ChurnPattern};
pub use clownshoe::{CLOWNSHOES, Cause, Clownshoe, ShoeSize};
pub use detect::find;
pub use finding::{Finding, Kind, Run};
pub use growth::{GROWTH, Growth, GrowthStrategy, Through};
pub use leaks::{LEAK, Leak, LeakClock, LeakPattern};
pub use model::*;
pub use options::Options;
pub use rank::ORDER;

detect::detectors! {
    pairs: clownshoes::Pairs,
    growths: growth::Growths,
    churns: churn::Churns,
    leaks: leaks::Leaks,
}
