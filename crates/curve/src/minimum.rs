//! The least setting with which a command runs, by bisection: how small may a heap be? The idea is
//! running-ng's minheap.
//!
//! The range's ends bracket the answer; a larger value never runs worse, by assumption. A value
//! runs if each of several tries runs, because near the edge luck decides. Whole numbers are
//! distinguished by one, others by a hundredth of their value.

use crate::cell::CellReport;
use crate::plan::{CellId, Plan};
use crate::source::{CellSource, Stopped};
use serde::Serialize;

/// Tries of one value.
pub const TRIES: u32 = 3;
/// Most tested values, for any range.
const TESTS_MAX: u32 = 64;

/// A variant's result.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Minimum {
    /// The variant.
    pub variant: String,
    /// The least setting that runs; `None`: no setting of the range runs.
    pub least: Option<String>,
    /// The largest setting seen to fail; `None`: no setting failed.
    pub fails: Option<String>,
    /// The failure of this setting.
    pub failure: Option<String>,
}

/// The reason why a range cannot be bisected.
#[derive(Debug, thiserror::Error)]
pub enum MinimumError {
    /// The values are not numbers.
    #[error("--min-heap needs a range of numbers: {0} is none")]
    NoNumber(String),
    /// The source ended.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Finds the least setting of each variant. Calls `tell` before each test of a value.
///
/// # Errors
/// The values are not numbers, or the source ends early.
pub fn find(
    plan: &Plan,
    source: &dyn CellSource,
    mut tell: impl FnMut(&str),
) -> Result<Vec<Minimum>, MinimumError> {
    let number = |text: &str| text.parse::<f64>().map_err(|_| MinimumError::NoNumber(text.into()));
    let numbers: Vec<f64> =
        plan.vary.values.iter().map(|value| number(value)).collect::<Result<_, _>>()?;
    let (low, high) = (
        numbers.iter().copied().fold(f64::INFINITY, f64::min),
        numbers.iter().copied().fold(0.0, f64::max),
    );
    let is_whole = plan.vary.values.iter().all(|value| !value.contains('.'));
    (0..plan.variants.len())
        .map(|variant| bisect(plan, source, variant, (low, high), is_whole, &mut tell))
        .collect()
}

fn bisect(
    plan: &Plan,
    source: &dyn CellSource,
    variant: usize,
    (low, high): (f64, f64),
    is_whole: bool,
    tell: &mut dyn FnMut(&str),
) -> Result<Minimum, MinimumError> {
    let written = |value: f64| if is_whole { format!("{value:.0}") } else { format!("{value}") };
    let label = |value: f64| plan.vary.label(&written(value));
    let mut found = Minimum { variant: plan.variants[variant].name.clone(), ..Minimum::default() };
    let mut test = |value: f64, found: &mut Minimum| -> Result<bool, Stopped> {
        tell(format!("{} {}", found.variant, label(value)).trim());
        let failure = failure(plan, source, variant, &written(value))?;
        let runs = failure.is_none();
        if runs {
            found.least = Some(label(value));
        } else {
            (found.fails, found.failure) = (Some(label(value)), failure);
        }
        Ok(runs)
    };
    if !test(high, &mut found)? || test(low, &mut found)? {
        return Ok(found);
    }
    let (mut fails, mut runs) = (low, high);
    for _ in 0..TESTS_MAX {
        let apart = if is_whole { 1.0 } else { runs * 0.01 };
        if runs - fails <= apart {
            break;
        }
        // The geometric mean: between 8 and 1024 that is 91.
        let middle = if fails > 0.0 { (fails * runs).sqrt() } else { runs / 2.0 };
        let middle = if is_whole { middle.round().clamp(fails + 1.0, runs - 1.0) } else { middle };
        if test(middle, &mut found)? { runs = middle } else { fails = middle }
    }
    Ok(found)
}

/// The failure of a value in one of its tries; `None`: the value runs.
fn failure(
    plan: &Plan,
    source: &dyn CellSource,
    variant: usize,
    value: &str,
) -> Result<Option<String>, Stopped> {
    let mut plan = plan.clone();
    plan.vary.values = vec![value.into()];
    for _ in 0..TRIES {
        if let CellReport::Failed(failure) =
            source.run(&plan, CellId { variant, setting: Some(0) })?
        {
            return Ok(Some(failure.reason));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Canary, Failure};
    use crate::plan::{Settings, variants};
    use crate::vary::Vary;

    /// Runs from a value on.
    struct From(f64);

    impl CellSource for From {
        fn run(&self, plan: &Plan, _: CellId) -> Result<CellReport, Stopped> {
            let value: f64 = plan.vary.values[0].parse().unwrap();
            Ok(match value >= self.0 {
                true => CellReport::Measured(Box::default()),
                false => {
                    CellReport::Failed(Failure { reason: "no memory".into(), ..Failure::default() })
                }
            })
        }

        fn canary(&self, _: &Plan) -> Result<Canary, Stopped> {
            Ok(Canary::default())
        }
    }

    fn least(vary: &str, from: f64) -> (Option<String>, Option<String>) {
        let vary = Vary::of_variable(vary).unwrap();
        let variants = variants(&["./b".into()], &vary, &[]).unwrap();
        let plan = Plan {
            vary,
            variants,
            settings: Settings::default(),
            runtime: None,
            shard: (0, 1),
            results: None,
            code_version: String::new(),
        };
        let found = find(&plan, &From(from), |_| {}).unwrap().remove(0);
        (found.least, found.fails)
    }

    #[test]
    fn every_edge_is_found() {
        for edge in 9..=64 {
            let named = |value: i32| Some(format!("-Xmx{value}m"));
            assert_eq!(
                least("JAVA_TOOL_OPTIONS=-Xmx{8..64x2}m", f64::from(edge)),
                (named(edge), named(edge - 1))
            );
        }
        assert_eq!(least("M=8..64x2", 1.0), (Some("M=8".into()), None));
        assert_eq!(least("M=8..64x2", 65.0), (None, Some("M=64".into())));
        let (least, _) = least("M=0.5..4.0x2", 2.0);
        let least: f64 = least.unwrap()[2..].parse().unwrap();
        assert!((2.0..2.03).contains(&least), "{least}");
    }
}
