//! Recordings of a program before and after a change: what differs, and whether that is more than
//! runs differ by themselves.
//!
//! For developers who ask whether a change helped. Each recording is read once and reduced to its
//! distinct stacks and sizes ([`Reducer::reduce`]), so a comparison of long recordings needs the
//! memory of one pass. [`Reducer::compare`] matches them over builds: by function names and not by
//! addresses, through lines that moved and functions that were inlined. The result ([`Comparison`])
//! is rendered as text ([`text`]), as JSON ([`json`]) and as a page ([`page`]).
//!
//! With several recordings a side every difference has the interval of the rank-sum test
//! (`heaplab_statistics::shift_apart`). An interval that holds zero is no difference.
//! Intervals of single functions are not corrected for how many functions there are: one of many
//! that is just beyond its spread may be chance.
//!
//! ```no_run
//! use heaplab_compare::{Reducer, text};
//! use heaplab_report::{Shown, analyse};
//! use heaplab_trace::bundle::{Bundle, Selection};
//!
//! let mut reducer = Reducer::default();
//! let mut runs = Vec::new();
//! for path in ["before.heaplab", "after.heaplab"] {
//!     let bundle = Bundle::open(path.as_ref())?;
//!     let analysis = analyse(&bundle, Selection::default(), None, Vec::new(), &mut |_| {})?;
//!     runs.push(reducer.reduce(&bundle, &analysis, &Shown::Nothing));
//! }
//! let after = runs.split_off(1);
//! let comparison = reducer.compare(runs, after, "peak");
//! let look = heaplab_text::paint::Look { width: 80, listing_width: 80, colour: false, top: 10 };
//! print!("{}", text::comparison(&comparison, &look));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod change;
mod comparison;
mod findings;
pub mod json;
mod limit;
mod matching;
mod names;
pub mod page;
mod run;
#[cfg(test)]
mod tests;
pub mod text;
mod verdict;
mod warnings;

pub use change::Change;
pub use comparison::{
    Comparison, FigureChange, FunctionChange, HeldChange, LineChange, MarkChange, Presence,
    SizeChange, StackChange,
};
pub use findings::{Became, FindingChange};
pub use limit::Limit;
pub use run::{Figure, Recorded, Reducer, Run};
pub use verdict::{Outcome, Verdict};
