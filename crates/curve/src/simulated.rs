//! Programs with curves known by construction, for tests: a collection finds G bytes of garbage,
//! time is a + k / G and space is c + m G, both times a noise of some percent and a block's own
//! noise.

use crate::cell::{CellReport, Measure};
use crate::plan::{CellId, Plan, Settings, Variant};
use crate::run::{Block, BlockCell};
use crate::runtimes::Collections;
use crate::vary::Vary;
use heaplab_statistics::Random;

/// A program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Seconds without collections.
    pub a: f64,
    /// Seconds times bytes.
    pub k: f64,
    /// Bytes of live data.
    pub c: f64,
    /// Bytes of heap a byte of garbage.
    pub m: f64,
    /// Standard deviation of a run's time and space, as a share.
    pub noise: f64,
    /// Whether it reports its collections.
    pub tells: bool,
}

impl Program {
    /// Ten seconds, a third of them collecting at the first setting; a heap from 130 to 580 MB.
    pub const EXAMPLE: Program =
        Program { a: 10.0, k: 1.0e8, c: 1.0e8, m: 1.5, noise: 0.02, tells: true };

    /// A run in which each collection finds this much garbage.
    pub fn run(&self, garbage: f64, disturbance: f64, random: &mut Random) -> Measure {
        let mut noisy = |value: f64| value * (1.0 + self.noise * normal(random)).max(0.5);
        let cycles = (3.0e9 / garbage).round().max(1.0);
        let wall_ns = (noisy(self.a + self.k / garbage) * disturbance * 1e9) as u64;
        let peak_bytes = noisy(self.c + self.m * garbage) as u64;
        let told =
            Collections { cycles: cycles as u64, collected_bytes: (garbage * cycles) as u64 };
        Measure {
            wall_ns,
            peak_bytes,
            user_ns: wall_ns,
            looks: 1_000,
            collections: self.tells.then_some(told),
            ..Measure::default()
        }
    }
}

/// A normal number from twelve uniform ones (Irwin and Hall).
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.below(1 << 32) as f64 / (1_u64 << 32) as f64).sum::<f64>() - 6.0
}

/// An experiment with a variant for each program, and ten settings from 20 to 320, which are also
/// millions of bytes of garbage a collection.
pub fn experiment(programs: &[Program], reps: u32, seed: u64) -> (Plan, Vec<Block>) {
    let vary = Vary::of_variable("OCAMLRUNPARAM=o={20..320x10}").expect("it is a range");
    let named =
        |index: usize| if programs.len() > 1 { format!("a={}", 2 * index) } else { String::new() };
    let variant = |index: usize| Variant {
        name: named(index),
        words: vec!["./bench".into()],
        ..Variant::default()
    };
    let settings = Settings { reps, seed: 1, confidence: 0.95, ..Settings::default() };
    let variants = (0..programs.len()).map(variant).collect();
    let plan = Plan {
        vary,
        variants,
        settings,
        runtime: None,
        shard: (0, 1),
        results: None,
        code_version: String::new(),
    };
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let blocks = (0..reps).map(|block| {
        let disturbance = 1.0 + 0.02 * normal(&mut random);
        let mut cell = |cell: CellId| {
            let garbage =
                plan.vary.number(cell.setting.unwrap_or(4)).expect("values are numbers") * 1e6;
            let measure = programs[cell.variant].run(garbage, disturbance, &mut random);
            BlockCell { cell, report: CellReport::Measured(Box::new(measure)) }
        };
        Block {
            experiment: plan.identity(),
            block,
            canary: None,
            cells: plan.order(block).into_iter().map(&mut cell).collect(),
        }
    });
    let blocks = blocks.collect();
    (plan, blocks)
}
