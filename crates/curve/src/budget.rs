//! The best setting within a user's limit of space or time.

use crate::compare::is_below;
use crate::fit::Point;
use crate::results::{BudgetAnswer, PointResult, Results, VariantResult};
use crate::sample::Samples;
use crate::verdict::{seconds, space};

/// The limit of a user's time or space.
#[derive(Clone, Debug, PartialEq)]
pub enum Budget {
    /// Bytes, as they were given.
    Space(f64, String),
    /// Seconds, as they were given.
    Time(f64, String),
}

impl Budget {
    /// `300MB`, `1.5GiB`, `12s`, `800ms`.
    ///
    /// # Errors
    /// A sentence with the expected forms.
    pub fn parse(text: &str) -> Result<Budget, String> {
        const EXPECTED: &str = "expected bytes (300MB, 1.5GiB) or a time (12s, 800ms)";
        let unit = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
        let number: f64 = text[..unit].trim().parse().map_err(|_| EXPECTED)?;
        if !number.is_finite() || number <= 0.0 {
            return Err(EXPECTED.into());
        }
        let scale = match text[unit..].trim() {
            "B" => 1.0,
            "kB" | "KB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "K" | "KiB" => 1024.0,
            "M" | "MiB" => 1_048_576.0,
            "G" | "GiB" => 1_073_741_824.0,
            "ms" => return Ok(Budget::Time(number / 1e3, text.into())),
            "s" => return Ok(Budget::Time(number, text.into())),
            "min" => return Ok(Budget::Time(number * 60.0, text.into())),
            _ => return Err(EXPECTED.into()),
        };
        Ok(Budget::Space(number * scale, text.into()))
    }
}

/// A point with its variant and its index among all cells.
#[derive(Clone, Copy)]
struct Placed<'a> {
    cell: usize,
    variant: &'a VariantResult,
    point: &'a PointResult,
}

impl Placed<'_> {
    fn name(&self) -> String {
        format!("{} {}", self.variant.name, self.point.setting).trim().to_string()
    }

    fn time(&self) -> f64 {
        self.point.time_s.map_or(f64::INFINITY, |time| time.value)
    }

    fn space(&self) -> f64 {
        self.point.space_bytes.map_or(f64::INFINITY, |space| space.value)
    }
}

/// The best setting within a budget. For space the setting's largest run counts, because a limit
/// applies to every run; for time the median.
pub(crate) fn answer(
    results: &Results,
    budget: &Budget,
    samples: &Samples,
) -> (BudgetAnswer, String) {
    let all = results
        .variants
        .iter()
        .flat_map(|variant| variant.points.iter().map(move |point| (variant, point)))
        .enumerate()
        .map(|(cell, (variant, point))| Placed { cell, variant, point });
    let reliable: Vec<Placed<'_>> =
        all.filter(|at| at.point.runs > 0 && at.point.failures == 0).collect();
    let is_within = |at: &&Placed<'_>| match budget {
        Budget::Space(limit, _) => at.point.space_bytes_max <= *limit,
        Budget::Time(limit, _) => at.time() <= *limit,
    };
    let is_space = matches!(budget, Budget::Space(..));
    let within: Vec<Placed<'_>> = reliable.iter().filter(is_within).copied().collect();
    let measured = |at: &Placed<'_>| if is_space { at.time() } else { at.space() };
    let limited = |at: &Placed<'_>| if is_space { at.point.space_bytes_max } else { at.time() };
    let least = |of: &[Placed<'_>], by: &dyn Fn(&Placed<'_>) -> f64| {
        of.iter().min_by(|a, b| by(a).total_cmp(&by(b))).map(|at| at.cell)
    };
    let at = |cell: Option<usize>| reliable.iter().find(|at| Some(at.cell) == cell);
    let (best, nearest) = (at(least(&within, &measured)), at(least(&reliable, &limited)));
    let both = |at: &Placed<'_>| (seconds(at.time()), space(at.point.space_bytes_max));
    let (Budget::Space(_, text) | Budget::Time(_, text)) = budget;
    let sentence = match (best, nearest) {
        (Some(found), _) => {
            let (took, most) = both(found);
            let (best, first, second) = if is_space {
                ("fastest", took, format!("at most {most}"))
            } else {
                ("smallest", most, took)
            };
            format!(
                "Under {text} the {best} is {}: {first}, {second}.{}",
                found.name(),
                alike(found, &within, samples, is_space)
            )
        }
        (None, Some(found)) => {
            let (took, most) = both(found);
            let (first, second) = if is_space { (most, took) } else { (took, most) };
            let kept = if is_space { " that all runs of a setting kept to" } else { "" };
            format!(
                "No answer under {text}: the least{kept} is {first} at {} ({second}).",
                found.name()
            )
        }
        (None, None) => format!("No answer under {text}: nothing ran."),
    };
    (BudgetAnswer { budget: text.clone(), setting: best.map(Placed::name) }, sentence)
}

/// Most settings named as good as the best.
const ALIKE_MAX: usize = 3;
/// The chance of calling a setting worse than the best that is as good.
const ALIKE_CHANCE: f64 = 0.05;

/// The settings that no t test over blocks shows to be worse than the best.
fn alike(best: &Placed<'_>, within: &[Placed<'_>], samples: &Samples, by_time: bool) -> String {
    let value = if by_time { |point: &Point| point.time } else { |point: &Point| point.space };
    let is_alike = |at: &&Placed<'_>| {
        at.cell != best.cell
            && !is_below(&samples.logarithms(best.cell, at.cell, value), 0.0, ALIKE_CHANCE)
    };
    let names: Vec<String> = within.iter().filter(is_alike).map(Placed::name).collect();
    let what = if by_time { "fast" } else { "small" };
    let listed = match &names[..] {
        [] => return String::new(),
        [one] => one.clone(),
        names if names.len() > ALIKE_MAX => {
            format!("{} and {} more", names[..ALIKE_MAX].join(", "), names.len() - ALIKE_MAX)
        }
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    };
    format!(" {listed} may be as {what}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_bytes_or_times() {
        assert_eq!(Budget::parse("300MB"), Ok(Budget::Space(3e8, "300MB".into())));
        assert_eq!(
            Budget::parse("1.5GiB"),
            Ok(Budget::Space(1.5 * 1_073_741_824.0, "1.5GiB".into()))
        );
        assert_eq!(Budget::parse("800ms"), Ok(Budget::Time(0.8, "800ms".into())));
        for wrong in ["", "MB", "300", "-3s", "3 parsecs", "infs"] {
            assert!(Budget::parse(wrong).unwrap_err().contains("300MB"), "{wrong}");
        }
    }
}
