//! Profile, findings and comparisons as one self-contained HTML page: it opens from a disk, asks no
//! network for anything, and carries its data inside.
//!
//! For readers who look at a recording or send it to somebody. [`page`] turns the analyses' results
//! into the page's own model ([`model`]), bounded in size ([`limits`]). [`html`] writes that model,
//! the scripts and the style into one text. The scripts (`assets/`) are plain modules without a
//! framework or a build step, joined in order.

mod compose;
mod convert;
pub mod limits;
pub mod model;

pub use compose::{SHARED_SCRIPTS, STYLE, composed, html, shorten};
pub use convert::{flame_of, page};
pub(crate) use convert::{ratio_row, space_row};
