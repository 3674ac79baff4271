//! The results of an experiment, for `--json` and the picture. A curve is a line inside of the
//! measured range, never three parameters.

use heaplab_experiment::results::{Machine, Workload};
use heaplab_statistics::Estimate;
use serde::Serialize;

/// Blocks below which intervals are rough.
pub const BLOCKS_MIN: u32 = 6;

/// The version of this shape.
pub const VERSION: u32 = 1;

/// Everything that was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Results {
    /// [`VERSION`].
    pub version: u32,
    /// The command, as a line.
    pub command: String,
    /// The range, as it was given.
    pub vary: String,
    /// The workload, if heaps of the lab ran; `None`: a command ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// The settings of the measurement.
    pub settings: crate::plan::Settings,
    /// The runtime that reported its collections, and the way of asking it.
    pub runtime: Option<RuntimeTold>,
    /// The machine of the measurement.
    pub machine: Machine,
    /// Blocks with at least one cell.
    pub blocks: u32,
    /// Variants, in the order given; the others are compared with the first.
    pub variants: Vec<VariantResult>,
    /// Variants against the first.
    pub comparisons: Vec<Comparison>,
    /// The answer for a budget.
    pub budget: Option<BudgetAnswer>,
    /// Sentences.
    pub verdict: Vec<String>,
    /// The limits of the verdict.
    pub cautions: Vec<String>,
    /// The reason why the experiment ended before its last block.
    pub ended: Option<String>,
}

impl Results {
    /// Whether any run was measured.
    pub fn has_runs(&self) -> bool {
        self.variants.iter().flat_map(|variant| &variant.points).any(|point| point.runs > 0)
    }

    /// Whether no variant shows an effect of the varied value, with enough blocks to say so.
    pub fn is_without_effect(&self) -> bool {
        self.blocks >= BLOCKS_MIN && self.variants.iter().all(|variant| !variant.effect)
    }
}

/// A runtime whose report was requested.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RuntimeTold {
    /// Its name.
    pub name: String,
    /// The way of asking it.
    pub question: String,
    /// Whether it reported in any run.
    pub answered: bool,
}

/// One variant: its points and its curve.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VariantResult {
    /// Its name; empty if there is only one variant.
    pub name: String,
    /// Its settings in order; the default last.
    pub points: Vec<PointResult>,
    /// Its curve.
    pub curve: CurveResult,
    /// Whether the varied value shows an effect.
    pub effect: bool,
}

/// One setting of a variant.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PointResult {
    /// Its name: `o=80`, `default`.
    pub setting: String,
    /// The value; `None`: the default.
    pub value: Option<String>,
    /// Runs that ended well.
    pub runs: u32,
    /// Seconds, of the chosen time.
    pub time_s: Option<Estimate>,
    /// Bytes, of the chosen space.
    pub space_bytes: Option<Estimate>,
    /// The largest space of any run.
    pub space_bytes_max: f64,
    /// Medians of everything else.
    pub medians: Medians,
    /// Runs that failed.
    pub failures: u32,
    /// The reason of the last failure.
    pub failure: Option<String>,
    /// A point that needs less space and less time.
    pub dominated_by: Option<String>,
    /// For the default: the setting at the same place of the curve.
    pub like: Option<String>,
    /// For a default whose collections find more or less garbage than those of every setting: the
    /// setting at that end of the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond: Option<String>,
}

impl PointResult {
    /// Whether it is the default.
    pub fn is_default(&self) -> bool {
        self.value.is_none()
    }
}

/// Medians over a setting's runs.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Medians {
    /// Seconds on the wall.
    pub wall_s: f64,
    /// Seconds of user time.
    pub user_s: f64,
    /// Seconds of system time.
    pub system_s: f64,
    /// Largest resident set.
    pub peak_bytes: f64,
    /// Most anonymous memory.
    pub peak_anonymous_bytes: f64,
    /// Mean of anonymous memory.
    pub mean_anonymous_bytes: f64,
    /// Most committed bytes, by the account of a heap of the lab.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub committed_bytes: Option<f64>,
    /// Major faults.
    pub major_faults: f64,
    /// Switches because it waited, and because another process had its turn.
    pub context_switches: (f64, f64),
    /// Processes at once.
    pub processes: f64,
    /// Collections, if the runtime reports them.
    pub cycles: Option<f64>,
    /// Bytes of garbage a collection.
    pub garbage_bytes: Option<f64>,
}

/// A variant's curve.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CurveResult {
    /// `halves` (garbage of collections known), `hyperbola`, or `None`.
    pub method: Option<&'static str>,
    /// Whether the curve is good enough; if not, only the points count.
    pub fits: bool,
    /// Why not.
    pub reason: Option<String>,
    /// Distance of points from the curve, as shares of their time and space.
    pub residuals: (f64, f64),
    /// The curve over the measured times.
    pub line: Vec<LinePoint>,
}

/// A place on a curve.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LinePoint {
    /// Seconds.
    pub time_s: f64,
    /// Bytes.
    pub space_bytes: Estimate,
}

/// A variant against the first one.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Comparison {
    /// The variant.
    pub variant: String,
    /// The variant of the comparison.
    pub baseline: String,
    /// The variant's space over the baseline's at equal time.
    pub space_at_equal_time: Option<Ratio>,
    /// The variant's time over the baseline's at equal space.
    pub time_at_equal_space: Option<Ratio>,
    /// Why there is no ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Without a ratio of space at equal time: the settings with the least space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_space: Option<LeastSpace>,
    /// Points of the baseline with a point of the variant below and left of them, and the number of
    /// the baseline's points.
    pub baseline_dominated: (u32, u32),
    /// The reverse: points of the variant with such a point of the baseline, and the number of the
    /// variant's points.
    pub dominated: (u32, u32),
}

/// The setting with the least space of a variant, against that of the first variant.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LeastSpace {
    /// The variant's setting.
    pub setting: String,
    /// The baseline's setting.
    pub baseline_setting: String,
    /// The variant's space over the baseline's.
    pub space: Estimate,
    /// The variant's time over the baseline's.
    pub time: Estimate,
}

/// A ratio over the common range.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ratio {
    /// By two curves, `halves` or `hyperbola`; or `points`: by the [lower left
    /// edge](crate::frontier) of both variants' points.
    pub method: &'static str,
    /// The geometric mean over the range.
    pub mean: Estimate,
    /// The range: seconds or bytes.
    pub range: (f64, f64),
    /// The ratio at places of the range, ends included.
    pub at: Vec<(f64, Estimate)>,
}

/// The choice for a budget.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BudgetAnswer {
    /// The budget as it was given.
    pub budget: String,
    /// Variant and setting; `None`: no setting fits.
    pub setting: Option<String>,
}
