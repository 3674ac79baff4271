//! Conditions on a recording: assertions for CI, with a baseline.
//!
//! For projects whose build must fail when a change costs memory. An [`Assertion`] is a condition
//! in the language of `heaplab_expression` over the names that [`Measured`] knows: bytes and counts
//! of the whole run, of functions, of marks. [`Answer`] checks several against a recording.
//! [`Decision`] is the result of a gate of any kind (heap snapshots have one, too), and [`junit`]
//! writes it for a CI server.
//!
//! ```
//! use heaplab_gate::Assertion;
//!
//! let gate = Assertion::read("peak < 50MB && allocations(\"render\") < 1.1 * baseline")?;
//! assert!(gate.asks_baseline());
//! let error = Assertion::read("paek < 50MB").unwrap_err().to_string();
//! assert!(error.starts_with("paek is not known; there are peak,"));
//! # Ok::<(), heaplab_expression::Misread>(())
//! ```

mod assertion;
mod baseline;
mod decision;
pub mod junit;
mod measured;
mod names;
mod recording;

pub use assertion::{Asked, Assertion, Checked, Largest};
pub use decision::{Decision, Doubt};
pub use measured::{Measured, Unmeasured};
pub use recording::{Answer, Recording};
