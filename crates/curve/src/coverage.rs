//! Checks intervals with programs of known curves: for how many of 100 seeds does each interval
//! hold the true value?
//!
//! The results are counts, not chances, because seeds are fixed.

use crate::cell::CellReport;
use crate::compare::{fit, space_at_equal_time, time_at_equal_space};
use crate::fit::Curve;
use crate::plan::CellId;
use crate::sample::Samples;
use crate::simulated::{Program, experiment};
use heaplab_statistics::Estimate;
use std::io::Write;

/// Seeds of a test; HEAPLAB_CURVE_SEEDS sets another number. A debug build takes half a second a
/// seed.
fn seeds() -> u64 {
    let asked = std::env::var("HEAPLAB_CURVE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    asked.filter(|seeds| *seeds > 0).unwrap_or(100)
}

/// Shows counts, which docs/curve.md has, beside the test's name.
fn tell(counts: &str) {
    let _ = writeln!(std::io::stderr(), "{counts}");
}

const FIRST: [usize; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
const SECOND: [usize; 10] = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19];

fn holds(estimate: Option<Estimate>, truth: f64) -> u64 {
    u64::from(estimate.is_some_and(|estimate| estimate.low <= truth && truth <= estimate.high))
}

/// Number of seeds whose intervals hold a, b and c, and number of seeds whose intervals hold the
/// values wrong by [`WRONG`], as infinitely wide intervals would.
fn recovered(program: Program, reps: u32) -> ([u64; 3], [u64; 3]) {
    let (mut counts, mut wrong) = ([0; 3], [0; 3]);
    for seed in 0..seeds() {
        let (plan, blocks) = experiment(&[program], reps, seed);
        let samples = Samples::new(&plan, &blocks);
        let (_, result) = fit(&samples, &FIRST);
        assert!(result.fits, "seed {seed}: {:?}", result.reason);
        // The true time has the blocks' speeds in it.
        let curves = samples
            .points
            .map(|points| Curve::fit(&points.iter().copied().flatten().collect::<Vec<_>>()));
        let of = |value: fn(&Curve) -> f64| curves.estimate(|curve| curve.as_ref().map(value));
        let found = [of(|curve| curve.a), of(|curve| curve.b), of(|curve| curve.c)];
        let truths = [program.a, program.k * program.m, program.c];
        for (at, (found, truth)) in found.into_iter().zip(truths).enumerate() {
            counts[at] += holds(found, truth);
            wrong[at] += holds(found, truth * WRONG[at]);
        }
    }
    (counts, wrong)
}

/// Factors that make a, b and c wrong: intervals are some 3 %, 20 % and 5 % wide to each side.
const WRONG: [f64; 3] = [1.1, 1.6, 1.2];

#[test]
fn known_parameters_are_recovered() {
    // The command's default number of blocks.
    let (counts, wrong) = recovered(Program::EXAMPLE, 10);
    tell(&format!("a, b and c in {counts:?}"));
    assert!(counts.into_iter().all(|count| count * 100 >= seeds() * 95), "{counts:?}");
    assert!(wrong.into_iter().all(|count| count * 100 <= seeds() * 5), "held: {wrong:?}");
}

#[test]
fn known_ratios_are_recovered() {
    let first = Program::EXAMPLE;
    // All of its space is 0.7 of the first: so is its curve at any time.
    let second = Program { c: first.c * 0.7, m: first.m * 0.7, ..first };
    let time =
        |program: Program, space: f64| program.k * program.m / (space - program.c) + program.a;
    let (mut in_space, mut in_time, mut wrong) = (0, 0, 0);
    for seed in 0..seeds() {
        let (plan, blocks) = experiment(&[first, second], 10, seed);
        let samples = Samples::new(&plan, &blocks);
        let ((one, _), (two, _)) = (fit(&samples, &FIRST), fit(&samples, &SECOND));
        let space = space_at_equal_time(&one, &two).ok().map(|ratio| ratio.mean);
        in_space += holds(space, 0.7);
        wrong += holds(space, 0.7 * 1.15) + holds(space, 0.7 / 1.15);
        let Ok(ratio) = time_at_equal_space(&one, &two) else { continue };
        let truths = ratio.at.iter().map(|(space, estimate)| {
            holds(Some(*estimate), time(second, *space) / time(first, *space))
        });
        in_time += truths.min().unwrap_or(0);
    }
    tell(&format!("a ratio of space in {in_space}, of time at all five places in {in_time}"));
    assert!(
        in_space * 100 >= seeds() * 95 && in_time * 100 >= seeds() * 90,
        "{in_space}, {in_time}"
    );
    assert!(wrong * 100 <= seeds() * 5, "a ratio that is wrong by 15 % is held {wrong} times");
}

/// Programs with a step in their time that no curve has: the slower half of settings takes a
/// quarter more. The ratio of two such programs is known all the same, also if one is much noisier.
#[test]
fn known_ratios_of_points_without_a_curve_are_recovered() {
    for (noise, of_second) in [(0.02, 0.02), (0.005, 0.04)] {
        let first = Program { noise, ..Program::EXAMPLE };
        let second = Program { c: first.c * 0.7, m: first.m * 0.7, noise: of_second, ..first };
        let (mut found, mut wrong) = (0, 0);
        for seed in 0..seeds() {
            let (plan, mut blocks) = experiment(&[first, second], 10, seed);
            let is_slower = |cell: CellId| cell.setting.is_some_and(|setting| setting < 5);
            for cell in blocks.iter_mut().flat_map(|block| &mut block.cells) {
                let slower = is_slower(cell.cell);
                if let CellReport::Measured(measure) = &mut cell.report {
                    measure.wall_ns += if slower { measure.wall_ns / 4 } else { 0 };
                }
            }
            let samples = Samples::new(&plan, &blocks);
            let ((one, result), (two, _)) = (fit(&samples, &FIRST), fit(&samples, &SECOND));
            assert!(!result.fits, "seed {seed}");
            let ratio = space_at_equal_time(&one, &two).unwrap();
            assert_eq!(ratio.method, "points");
            found += holds(Some(ratio.mean), 0.7);
            wrong += holds(Some(ratio.mean), 0.7 * 1.15) + holds(Some(ratio.mean), 0.7 / 1.15);
        }
        tell(&format!(
            "noise {noise} and {of_second}: {found} hold the ratio, {wrong} a wrong one"
        ));
        assert!(found * 100 >= seeds() * 90, "noise {noise} and {of_second}: {found}");
        assert!(wrong * 100 <= seeds() * 5, "a ratio that is wrong by 15 % is held {wrong} times");
    }
}
