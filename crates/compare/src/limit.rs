//! How much live bytes may grow, for CI.

use crate::{Comparison, Figure, Outcome};
use heaplab_text::words::bytes;

/// How much growth is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// As a share of the bytes before.
    Share(f64),
    /// In bytes.
    Bytes(f64),
}

impl Limit {
    /// `2%`, or bytes with a unit: `64kB`.
    ///
    /// # Errors
    /// The text is neither; the error says what is expected.
    pub fn parse(text: &str) -> Result<Limit, String> {
        let limit = match text.trim().strip_suffix('%') {
            Some(percent) => {
                percent.trim().parse().ok().map(|percent: f64| Limit::Share(percent / 100.0))
            }
            None => heaplab_expression::bytes(text).map(Limit::Bytes),
        };
        let is_limit = |limit: &Limit| {
            let (Limit::Share(value) | Limit::Bytes(value)) = limit;
            *value >= 0.0 && value.is_finite()
        };
        limit
            .filter(is_limit)
            .ok_or_else(|| "expected a share such as 2%, or bytes such as 64kB or 1MiB".to_owned())
    }

    /// A sentence where live bytes grew by more than is allowed, and beyond the spread of the runs.
    pub fn excess(self, comparison: &Comparison) -> Option<String> {
        let live = comparison.figures.iter().find(|row| row.figure == Figure::LiveBytes)?;
        let allowed = match self {
            Limit::Share(share) => share * live.change.before as f64,
            Limit::Bytes(bytes) => bytes,
        };
        let is_over =
            comparison.verdict.outcome == Outcome::More && live.change.difference as f64 > allowed;
        is_over.then(|| {
            format!(
                "live bytes ({}) grew by {}; --fail-over allows {}",
                comparison.moment,
                bytes(live.change.difference.unsigned_abs()),
                bytes(allowed as u64)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_shares_or_bytes() {
        assert_eq!(Limit::parse("2%"), Ok(Limit::Share(0.02)));
        assert_eq!(Limit::parse("1.5 MiB"), Ok(Limit::Bytes(1_572_864.0)));
        assert_eq!(Limit::parse("0"), Ok(Limit::Bytes(0.0)));
        for wrong in ["", "-1", "2 %%", "5 apples", "nan", "inf%"] {
            assert!(Limit::parse(wrong).is_err(), "{wrong}");
        }
    }
}
