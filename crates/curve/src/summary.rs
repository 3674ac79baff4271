//! From blocks to results: points, curves, comparisons.

use crate::budget::Budget;
use crate::cell::{CellReport, Measure};
use crate::compare::{self, Fitted};
use crate::effect;
use crate::plan::{CellId, Plan};
use crate::results::{
    Comparison, LeastSpace, Medians, PointResult, Ratio, Results, RuntimeTold, VERSION,
    VariantResult,
};
use crate::run::{Block, Measured};
use crate::sample::{Samples, point_of};
use crate::verdict;
use heaplab_experiment::results::Workload;
use heaplab_experiment::run::machine;
use heaplab_statistics::median;

/// Facts that the command line has and the plan lacks.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The command, as a line.
    pub command: String,
    /// The range, as it was given.
    pub vary: String,
    /// A budget.
    pub budget: Option<Budget>,
    /// The workload, if heaps of the lab ran; `None`: a command ran.
    pub workload: Option<Workload>,
}

/// All results of `measured`.
pub fn summarize(plan: &Plan, measured: &Measured, asked: &Asked) -> Results {
    let samples = Samples::new(plan, &measured.blocks);
    let fitted: Vec<(Fitted, VariantResult)> = (0..plan.variants.len())
        .map(|variant| variant_result(plan, measured, &samples, variant, asked.workload.is_some()))
        .collect();
    let (fits, mut variants): (Vec<Fitted>, Vec<VariantResult>) = fitted.into_iter().unzip();
    mark_dominated(plan, &samples, &mut variants);
    let comparisons = (1..variants.len())
        .map(|other| comparison(plan, &samples, &fits, &variants, other))
        .collect();
    let mut results = Results {
        version: VERSION,
        command: asked.command.clone(),
        vary: asked.vary.clone(),
        workload: asked.workload.clone(),
        settings: plan.settings.clone(),
        runtime: runtime_told(plan, &measured.blocks),
        machine: machine(),
        blocks: measured.blocks.len() as u32,
        variants,
        comparisons,
        ended: measured.ended.as_ref().map(ToString::to_string),
        ..Results::default()
    };
    verdict::speak(&mut results, measured, asked, &samples);
    results
}

/// All measurements of a cell.
fn measures(blocks: &[Block], cell: CellId) -> Vec<&Measure> {
    reports(blocks, cell).filter_map(CellReport::measure).collect()
}

fn reports(blocks: &[Block], cell: CellId) -> impl Iterator<Item = &CellReport> {
    blocks
        .iter()
        .flat_map(|block| &block.cells)
        .filter(move |known| known.cell == cell)
        .map(|known| &known.report)
}

fn variant_result(
    plan: &Plan,
    measured: &Measured,
    samples: &Samples,
    variant: usize,
    is_lab: bool,
) -> (Fitted, VariantResult) {
    let own: Vec<CellId> =
        samples.cells.iter().copied().filter(|cell| cell.variant == variant).collect();
    let settings: Vec<usize> = own
        .iter()
        .filter(|cell| cell.setting.is_some())
        .filter_map(|cell| samples.index(*cell))
        .collect();
    let runs: Vec<usize> =
        settings.iter().copied().filter(|index| samples.points.whole[*index].is_some()).collect();
    let values: Vec<_> = runs.iter().map(|index| samples.of(samples.cells[*index])).collect();
    let own_blocks = measured.blocks.iter().flat_map(|block| &block.cells);
    let mut own_measures = own_blocks
        .filter(|cell| cell.cell.variant == variant)
        .filter_map(|cell| cell.report.measure());
    // A heap of the lab that never collects does the same with each value.
    let is_idle = is_lab
        && own_measures.all(|measure| measure.collections.is_some_and(|told| told.cycles == 0))
        && !effect::is_seen_in(&values, |point| point.space);
    let effect = runs.len() < 2 || !is_idle && effect::is_seen(&values);
    let (fitted, curve) = compare::fit(samples, &runs);
    let mut points: Vec<PointResult> =
        own.iter().map(|cell| point(plan, &measured.blocks, samples, *cell)).collect();
    if let Some(default) = own.iter().position(|cell| cell.setting.is_none()) {
        let end = beyond(plan, samples, own[default], &runs);
        if end.is_none() {
            points[default].like = like(plan, samples, own[default], &runs);
        }
        points[default].beyond = end;
    }
    (fitted, VariantResult { name: plan.variants[variant].name.clone(), points, curve, effect })
}

fn point(plan: &Plan, blocks: &[Block], samples: &Samples, cell: CellId) -> PointResult {
    let measures = measures(blocks, cell);
    let index = samples.index(cell);
    let failed = || {
        reports(blocks, cell).filter_map(|report| {
            if let CellReport::Failed(failure) = report { Some(failure) } else { None }
        })
    };
    PointResult {
        setting: plan.setting_label(cell),
        value: cell.setting.and_then(|index| plan.vary.values.get(index)).cloned(),
        runs: measures.len() as u32,
        time_s: samples.points.estimate(|points| Some(points[index?]?.time)),
        space_bytes: samples.points.estimate(|points| Some(points[index?]?.space)),
        space_bytes_max: measures
            .iter()
            .map(|measure| point_of(plan, measure).space)
            .fold(0.0, f64::max),
        medians: Medians {
            garbage_bytes: index.and_then(|index| garbage(samples, index)),
            ..medians(&measures)
        },
        failures: failed().count() as u32,
        failure: failed().last().map(|failure| failure.reason.clone()),
        ..PointResult::default()
    }
}

/// The garbage of a collection, if there are enough collections for a mean.
fn garbage(samples: &Samples, index: usize) -> Option<f64> {
    samples.points.whole[index]?.garbage.filter(|garbage| garbage.is_finite())
}

/// Medians of everything but the garbage of a collection.
fn medians(measures: &[&Measure]) -> Medians {
    let of = |value: fn(&Measure) -> f64| {
        median(&measures.iter().map(|measure| value(measure)).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let committed: Vec<f64> = measures
        .iter()
        .filter_map(|measure| measure.committed_bytes)
        .map(|bytes| bytes as f64)
        .collect();
    let told: Vec<_> = measures.iter().filter_map(|measure| measure.collections).collect();
    let cycles: Vec<f64> = told.iter().map(|collections| collections.cycles as f64).collect();
    Medians {
        wall_s: of(|measure| measure.wall_ns as f64 / 1e9),
        user_s: of(|measure| measure.user_ns as f64 / 1e9),
        system_s: of(|measure| measure.system_ns as f64 / 1e9),
        peak_bytes: of(|measure| measure.peak_bytes as f64),
        peak_anonymous_bytes: of(|measure| measure.peak_anonymous_bytes as f64),
        mean_anonymous_bytes: of(|measure| measure.mean_anonymous_bytes as f64),
        committed_bytes: median(&committed),
        major_faults: of(|measure| measure.major_faults as f64),
        context_switches: (
            of(|measure| measure.voluntary_switches as f64),
            of(|measure| measure.involuntary_switches as f64),
        ),
        processes: of(|measure| f64::from(measure.processes)),
        cycles: median(&cycles),
        garbage_bytes: None,
    }
}

/// Spaces of settings that are alike differ by less, as logarithms.
const SAME_SPACE: f64 = 0.05;

/// The setting at the default's place. By the garbage of a collection it may lie between two
/// numbers; without known garbage it is the nearest point.
fn like(plan: &Plan, samples: &Samples, default: CellId, runs: &[usize]) -> Option<String> {
    let points = &samples.points.whole;
    let own = points[samples.index(default)?]?;
    let known: Vec<(usize, crate::fit::Point)> = runs
        .iter()
        .filter_map(|index| Some((samples.cells[*index].setting?, points[*index]?)))
        .collect();
    let numbers: Vec<(f64, f64)> = known
        .iter()
        .filter_map(|(setting, point)| Some((plan.vary.number(*setting)?, point.garbage?)))
        .filter(|(_, garbage)| garbage.is_finite())
        .collect();
    let alike: Vec<usize> = known
        .iter()
        .filter(|(_, point)| own.garbage.is_some() && point.garbage == own.garbage)
        // Settings without collections have equal garbage, whatever their space.
        .filter(|(_, point)| (point.space / own.space).ln().abs() < SAME_SPACE)
        .map(|(setting, _)| *setting)
        .collect();
    if let [first, .., last] = alike[..]
        && last - first + 1 == alike.len()
    {
        let label = |setting: usize| Some(plan.vary.label(plan.vary.values.get(setting)?));
        return Some(format!("{} to {}", label(first)?, label(last)?));
    }
    if let Some(garbage) = own.garbage.filter(|garbage| garbage.is_finite())
        && let Some(pair) = numbers.windows(2).find(|pair| {
            (pair[0].1 - garbage) * (pair[1].1 - garbage) <= 0.0 && pair[0].1 != pair[1].1
        })
    {
        let share = (garbage / pair[0].1).ln() / (pair[1].1 / pair[0].1).ln();
        // Garbage is about proportional to the value, so both are on logarithms. Zero has none.
        let (from, to) = (pair[0].0, pair[1].0);
        let is_positive = from > 0.0 && to > 0.0;
        let value =
            if is_positive { from * (to / from).powf(share) } else { from + (to - from) * share };
        return Some(plan.vary.label(&format!("{value:.0}")));
    }
    let far = |point: &crate::fit::Point| {
        (point.time / own.time).ln().abs() + (point.space / own.space).ln().abs()
    };
    let nearest = known.iter().min_by(|a, b| far(&a.1).total_cmp(&far(&b.1)))?;
    plan.vary.values.get(nearest.0).map(|value| plan.vary.label(value))
}

/// Ratio of a default's garbage a collection to that at an end of the range, from which the default
/// lies beyond the range.
const BEYOND_FROM: f64 = 1.1;

/// The end of the range beyond which the default lies, by the garbage of a collection. A setting
/// without a collection has more than any other one.
fn beyond(plan: &Plan, samples: &Samples, default: CellId, runs: &[usize]) -> Option<String> {
    let points = &samples.points.whole;
    let own = points[samples.index(default)?]?.garbage?;
    let known: Vec<(usize, f64)> = runs
        .iter()
        .filter_map(|index| Some((samples.cells[*index].setting?, points[*index]?.garbage?)))
        .collect();
    let by_garbage = |a: &&(usize, f64), b: &&(usize, f64)| a.1.total_cmp(&b.1);
    let (least, most) = (known.iter().min_by(by_garbage)?, known.iter().max_by(by_garbage)?);
    let end = match own {
        _ if own > most.1 * BEYOND_FROM => most.0,
        _ if own * BEYOND_FROM < least.1 => least.0,
        _ => return None,
    };
    plan.vary.values.get(end).map(|value| plan.vary.label(value))
}

/// For each point the first other point, of any variant, that needs less of both.
fn mark_dominated(plan: &Plan, samples: &Samples, variants: &mut [VariantResult]) {
    let all: Vec<usize> = (0..samples.cells.len()).collect();
    for (index, cell) in samples.cells.iter().enumerate() {
        // Differences between settings of a variant without an effect are noise.
        let has_effect = variants[cell.variant].effect;
        let others = all.iter().copied();
        let others: Vec<usize> = others
            .filter(|other| has_effect || samples.cells[*other].variant != cell.variant)
            .collect();
        let Some(better) = compare::dominating(samples, index, &others) else { continue };
        let name = plan.label(samples.cells[better]);
        let setting = plan.setting_label(*cell);
        if let Some(point) =
            variants[cell.variant].points.iter_mut().find(|point| point.setting == setting)
        {
            point.dominated_by = Some(name);
        }
    }
}

fn comparison(
    plan: &Plan,
    samples: &Samples,
    fits: &[Fitted],
    variants: &[VariantResult],
    other: usize,
) -> Comparison {
    let points = |variant: usize| -> Vec<usize> {
        let is_own = |index: &usize| {
            samples.cells[*index].variant == variant && samples.points.whole[*index].is_some()
        };
        (0..samples.cells.len())
            .filter(is_own)
            .filter(|index| samples.cells[*index].setting.is_some())
            .collect()
    };
    let (first, second) = (points(0), points(other));
    let dominated = |points: &[usize], by: &[usize]| {
        let count = points
            .iter()
            .filter(|index| compare::dominating(samples, **index, by).is_some())
            .count();
        (count as u32, points.len() as u32)
    };
    let has_effect = variants[0].effect && variants[other].effect;
    let ratio = |of: fn(&Fitted, &Fitted) -> Result<Ratio, &'static str>| {
        if has_effect {
            of(&fits[0], &fits[other])
        } else {
            Err("the varied value has no effect that is shown")
        }
    };
    let (space, time) = (ratio(compare::space_at_equal_time), ratio(compare::time_at_equal_space));
    Comparison {
        variant: plan.variants[other].name.clone(),
        baseline: plan.variants[0].name.clone(),
        reason: space.as_ref().err().filter(|_| time.is_err()).map(|reason| (*reason).into()),
        least_space: space.is_err().then(|| least_space(plan, samples, &first, &second)).flatten(),
        space_at_equal_time: space.ok(),
        time_at_equal_space: time.ok(),
        baseline_dominated: dominated(&first, &second),
        dominated: dominated(&second, &first),
    }
}

/// The settings with the least space among those at `first` and at `second`.
fn least_space(
    plan: &Plan,
    samples: &Samples,
    first: &[usize],
    second: &[usize],
) -> Option<LeastSpace> {
    let space = |index: usize| samples.points.whole[index].map_or(f64::MAX, |point| point.space);
    let least =
        |indices: &[usize]| indices.iter().copied().min_by(|a, b| space(*a).total_cmp(&space(*b)));
    let (baseline, variant) = (least(first)?, least(second)?);
    let ratio = |of: fn(&crate::fit::Point) -> f64| {
        samples
            .steady
            .estimate(|points| Some(of(points[variant].as_ref()?) / of(points[baseline].as_ref()?)))
    };
    Some(LeastSpace {
        setting: plan.setting_label(samples.cells[variant]),
        baseline_setting: plan.setting_label(samples.cells[baseline]),
        space: ratio(|point| point.space)?,
        time: ratio(|point| point.time)?,
    })
}

fn runtime_told(plan: &Plan, blocks: &[Block]) -> Option<RuntimeTold> {
    let runtime = plan.runtime?;
    let mut measures =
        blocks.iter().flat_map(|block| &block.cells).filter_map(|cell| cell.report.measure());
    let answered = measures.any(|measure| measure.collections.is_some());
    Some(RuntimeTold { name: runtime.name().into(), question: runtime.question().into(), answered })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Failure;
    use crate::runtimes::Runtime;
    use crate::simulated::{Program, experiment};
    use heaplab_statistics::Random;

    fn said(plan: &Plan, blocks: Vec<Block>, budget: Option<&str>) -> (Results, String) {
        let budget = budget.map(|text| Budget::parse(text).unwrap());
        let asked = Asked {
            command: "./bench".into(),
            vary: "OCAMLRUNPARAM=o={20..320x10}".into(),
            budget,
            workload: None,
        };
        let results = summarize(plan, &Measured { blocks, ended: None }, &asked);
        let text = [results.verdict.join("\n"), results.cautions.join("\n")].join("\n\n");
        (results, text)
    }

    #[test]
    fn what_is_said_of_two_programs() {
        let first = Program::EXAMPLE;
        let second = Program { c: first.c * 0.7, m: first.m * 0.7, ..first };
        let (mut plan, mut blocks) = experiment(&[first, second], 10, 3);
        plan.settings.default = true;
        let mut random = Random(9);
        for (variant, program) in [first, second].iter().enumerate() {
            for block in &mut blocks {
                let report = CellReport::Measured(Box::new(program.run(80e6, 1.0, &mut random)));
                block.cells.push(crate::run::BlockCell {
                    cell: CellId { variant, setting: None },
                    report,
                });
                // The first variant's least setting never runs.
                for cell in block
                    .cells
                    .iter_mut()
                    .filter(|cell| cell.cell == CellId { variant: 0, setting: Some(0) })
                {
                    cell.report = CellReport::Failed(Failure {
                        reason: "it ended with status 2: out of memory".into(),
                        ..Failure::default()
                    });
                }
            }
        }
        let (results, text) = said(&plan, blocks, Some("200MB"));
        insta::assert_snapshot!(text);
        let like =
            results.variants[1].points.last().and_then(|point| point.like.as_deref()).unwrap();
        assert_eq!(like, "o=80", "its garbage was put in");
        let json = serde_json::to_value(&results).unwrap();
        assert!(json["variants"][0]["curve"].get("a").is_none(), "a, b and c stay inside");
    }

    #[test]
    fn the_least_space_is_compared_where_times_are_alike() {
        let first = Program { k: 0.0, ..Program::EXAMPLE };
        let second = Program { c: first.c * 0.7, m: first.m * 0.7, ..first };
        let (plan, blocks) = experiment(&[first, second], 10, 3);
        let (results, text) = said(&plan, blocks, None);
        let comparison = &results.comparisons[0];
        assert!(comparison.space_at_equal_time.is_none(), "{text}");
        let least = comparison.least_space.as_ref().unwrap();
        assert!(least.space.low < 0.7 && 0.7 < least.space.high && least.space.high < 0.75);
        assert!(text.contains("between settings of either beyond the noise"), "{text}");
        assert!(
            text.contains("Least space: a=2 o=20 needs 0.69 of what a=0 o=20 needs (0.68 to 0.71)")
                && text.contains("; no difference shown)."),
            "{text}"
        );
    }

    #[test]
    fn a_default_outside_of_the_range_is_said_to_be() {
        let (mut plan, mut blocks) = experiment(&[Program::EXAMPLE], 8, 5);
        plan.settings.default = true;
        let mut random = Random(4);
        for block in &mut blocks {
            let report =
                CellReport::Measured(Box::new(Program::EXAMPLE.run(600e6, 1.0, &mut random)));
            let cell = CellId { variant: 0, setting: None };
            block.cells.push(crate::run::BlockCell { cell, report });
        }
        let (results, text) = said(&plan, blocks, None);
        let default = results.variants[0].points.last().unwrap();
        assert_eq!((default.like.as_deref(), default.beyond.as_deref()), (None, Some("o=320")));
        assert!(text.contains(", beyond o=320, where the range ends"), "{text}");
    }

    #[test]
    fn settings_that_collect_just_like_the_default_are_all_named() {
        let (mut plan, mut blocks) = experiment(&[Program::EXAMPLE], 8, 5);
        plan.settings.default = true;
        let mut random = Random(4);
        for block in &mut blocks {
            let cells = &mut block.cells;
            cells.push(crate::run::BlockCell {
                cell: CellId { variant: 0, setting: None },
                report: CellReport::Skipped,
            });
            for cell in cells.iter_mut().filter(|cell| cell.cell.setting.is_none_or(|at| at < 3)) {
                let run = Program::EXAMPLE.run(30e6, 1.0, &mut random);
                cell.report = CellReport::Measured(Box::new(run));
            }
        }
        let (results, _) = said(&plan, blocks, None);
        let default = results.variants[0].points.last().unwrap();
        assert_eq!(default.like.as_deref(), Some("o=20 to o=37"));
    }

    #[test]
    fn a_variable_that_is_not_read_has_no_curve() {
        let (plan, mut blocks) = experiment(&[Program::EXAMPLE], 8, 5);
        let mut random = Random(4);
        for cell in blocks.iter_mut().flat_map(|block| &mut block.cells) {
            cell.report =
                CellReport::Measured(Box::new(Program::EXAMPLE.run(80e6, 1.0, &mut random)));
        }
        let (results, text) = said(&plan, blocks, None);
        assert!(!results.variants[0].effect);
        insta::assert_snapshot!(text);
        assert!(!crate::svg::picture(&results).contains("stroke-width=\"2\""), "no curve is drawn");
    }

    #[test]
    fn a_runtime_that_collects_as_often_with_each_value_is_not_said_to_ignore_it() {
        let (mut plan, mut blocks) = experiment(&[Program::EXAMPLE], 8, 5);
        plan.runtime = Some(Runtime::Ocaml);
        let mut random = Random(4);
        for cell in blocks.iter_mut().flat_map(|block| &mut block.cells) {
            cell.report =
                CellReport::Measured(Box::new(Program::EXAMPLE.run(80e6, 1.0, &mut random)));
        }
        let (_, text) = said(&plan, blocks, None);
        assert!(text.contains("OCaml runs and collects as often with each"), "{text}");
        assert!(!text.contains("seems not to read"), "{text}");
    }

    #[test]
    fn without_garbage_a_curve_comes_with_a_warning() {
        let program = Program { noise: 0.002, tells: false, ..Program::EXAMPLE };
        let (plan, blocks) = experiment(&[program], 10, 2);
        let (results, text) = said(&plan, blocks, None);
        assert_eq!(results.variants[0].curve.method, Some("hyperbola"));
        assert!(text.contains("ill-conditioned"), "{text}");
    }
}
