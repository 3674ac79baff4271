//! One number before and after, over the runs of each side.

use crate::run::middle;
use heaplab_statistics::shift_apart;
use serde::Serialize;

/// The confidence that intervals have where there are runs enough.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// A number before and after. All whole: bytes, objects or requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Change {
    /// The middle of the runs before.
    pub before: u64,
    /// The middle of the runs after.
    pub after: u64,
    /// The middle of all differences of a run after and a run before.
    pub difference: i64,
    /// Lower end of the interval of this difference; of one run a side the difference itself.
    pub low: i64,
    /// Upper end.
    pub high: i64,
}

impl Change {
    /// Of the values of all runs.
    pub(crate) fn of(before: &[u64], after: &[u64]) -> Change {
        if let ([before], [after]) = (before, after) {
            let difference = *after as i64 - *before as i64;
            return Change {
                before: *before,
                after: *after,
                difference,
                low: difference,
                high: difference,
            };
        }
        let values = |of: &[u64]| of.iter().map(|value| *value as f64).collect::<Vec<f64>>();
        let shift = shift_apart(&values(before), &values(after), CONFIDENCE);
        let (estimate, _) = shift.unwrap_or_default();
        Change {
            before: middle(before),
            after: middle(after),
            difference: estimate.value.round() as i64,
            low: estimate.low.round() as i64,
            high: estimate.high.round() as i64,
        }
    }

    /// Whether zero lies outside of the interval: more than the runs of one side differ by
    /// themselves.
    pub fn is_beyond_spread(&self) -> bool {
        self.low > 0 || self.high < 0
    }

    /// The difference as a share of the value before; `None`: that was 0.
    pub fn share(&self) -> Option<f64> {
        (self.before > 0).then(|| self.difference as f64 / self.before as f64)
    }
}

/// The confidence of an interval from so many runs; `None`: one run a side has none.
pub(crate) fn confidence(before: usize, after: usize) -> Option<f64> {
    if before < 2 && after < 2 {
        return None;
    }
    let zeroes = |count: usize| vec![0.0; count];
    shift_apart(&zeroes(before), &zeroes(after), CONFIDENCE).map(|(_, confidence)| confidence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_difference_inside_of_the_spread_is_none() {
        let noise = Change::of(&[100, 104, 98], &[101, 97, 105]);
        assert!(!noise.is_beyond_spread(), "{noise:?}");
        let real = Change::of(&[100, 104, 98], &[111, 107, 115]);
        assert!(real.is_beyond_spread() && real.difference == 11, "{real:?}");
        assert_eq!(confidence(1, 1), None);
        assert!((confidence(3, 3).unwrap() - 0.9).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn the_way_back_is_the_negative(
            before in prop::collection::vec(0u64..1 << 40, 1..8),
            after in prop::collection::vec(0u64..1 << 40, 1..8),
        ) {
            let (there, back) = (Change::of(&before, &after), Change::of(&after, &before));
            prop_assert_eq!((there.difference, there.low, there.high), (-back.difference, -back.high, -back.low));
            prop_assert_eq!((there.before, there.after), (back.after, back.before));
        }
    }
}
