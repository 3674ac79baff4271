//! A report on a recording: one model ([`Report`]), rendered as text for a terminal ([`text`]), as
//! JSON ([`json`]) and as one HTML page ([`page`]).
//!
//! A new section has its model in `report.rs` or in the analyses' results, its words in `text/`,
//! and its part of the page in `page/convert`.
//!
//! ```no_run
//! use heaplab_report::{Report, Shown, analyse, text};
//! use heaplab_trace::bundle::{Bundle, Selection};
//!
//! let bundle = Bundle::open("app.heaplab".as_ref())?;
//! let analysis = analyse(&bundle, Selection::default(), None, Vec::new(), &mut |_| {})?;
//! let look = heaplab_text::paint::Look { width: 80, listing_width: 80, colour: false, top: 10 };
//! print!("{}", text::report(&Report::new(&bundle, &analysis, &Shown::Nothing), &look));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod advice;
mod analysis;
pub mod frames;
pub mod heap_at;
pub mod json;
mod measured_savings;
pub mod metaspace;
mod metaspace_model;
pub mod moments;
pub mod page;
mod question;
mod report;
pub mod text;
mod what_if;

pub use analysis::{
    Analysis, analyse, analyse_for_page, analyse_whole, analyse_with, numbered, profile_of, select,
};
pub use heap_at::{HeapAt, HeapAtError, HeapMoment};
pub use measured_savings::{Saved, SavingsError, Tried};
pub use metaspace_model::{DEFAULT_MODEL, ModelError, on_model};
pub use moments::Shown;
pub use question::{Answer, Question};
pub use report::{JvmMetaspace, Report};
pub use what_if::WhatIf;
