//! The small language of `heaplab check`, `snapshot check` and `snapshot query`.
//!
//! For whoever lets a person write conditions. What names and functions mean is not known here: who
//! evaluates an [`Expression`] is asked for each. Whole numbers stay whole. An error ([`Misread`])
//! shows the text with a caret under the place.
//!
//! ```
//! use heaplab_expression::{Expression, Value};
//!
//! let gate = Expression::read("peak < 50MB && leaked(\"parse_*\") == 0")?;
//! let holds = gate.is_true(&mut |name, _| Value::Integer(if name == "peak" { 49_000_000 } else { 0 }));
//! assert!(holds);
//! let error = Expression::read("peak < 50Mb").unwrap_err().to_string();
//! assert!(error.starts_with("\"Mb\" is no unit") && error.ends_with("\n  peak < 50Mb\n         ^"));
//! # Ok::<(), heaplab_expression::Misread>(())
//! ```

mod expression;
mod pattern;
mod token;
mod value;

pub use expression::Expression;
pub use pattern::Pattern;
pub use token::{Misread, Token, Tokens, bytes};
pub use value::Value;
