//! How often the detector of steps errs: on unchanged programs under several kinds of noise, and on
//! steps that are there. `cargo test -p heaplab-track --test alarms -- --nocapture` prints the
//! counts.

use heaplab_statistics::Random;
use heaplab_track::steps::steps;

const SERIES: u64 = 1_000;

struct Noise {
    random: Random,
    last: f64,
}

impl Noise {
    fn new(seed: u64) -> Noise {
        Noise { random: Random(seed), last: 0.0 }
    }

    fn uniform(&mut self) -> f64 {
        ((self.random.draw() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn alike(&mut self, by: f64) -> f64 {
        self.last = by * self.last + (1.0 - by * by).sqrt() * self.normal();
        self.last
    }
}

type Kind = (&'static str, fn(&mut Noise) -> f64);

/// In units of their own deviation, where they have one.
const KINDS: [Kind; 9] = [
    ("normal", Noise::normal),
    ("skewed (log-normal)", |noise| noise.normal().exp()),
    ("heavy tailed (Cauchy)", |noise| (std::f64::consts::PI * (noise.uniform() - 0.5)).tan()),
    ("alike by 0.3", |noise| noise.alike(0.3)),
    ("alike by 0.5", |noise| noise.alike(0.5)),
    ("two values, one in 7 runs", |noise| f64::from(noise.uniform() < 0.15)),
    ("two values, one in 50 runs", |noise| f64::from(noise.uniform() < 0.02)),
    ("three values", |noise| (noise.uniform() * 3.0).floor()),
    ("an outlier in 20 runs", |noise| if noise.uniform() < 0.05 { 1e3 } else { noise.normal() }),
];

/// A history; runs of one commit are made one after the other.
fn history(
    kind: fn(&mut Noise) -> f64,
    commits: usize,
    runs: usize,
    seed: u64,
    level: impl Fn(usize) -> f64,
) -> Vec<Vec<f64>> {
    let mut noise = Noise::new(seed * 7_919 + 1);
    (0..50).for_each(|_| {
        kind(&mut noise);
    });
    (0..commits).map(|at| (0..runs).map(|_| kind(&mut noise) + level(at)).collect()).collect()
}

/// At most one alarm in 100 series of an unchanged program, for any noise.
#[test]
fn an_unchanged_program_gives_no_alarm() {
    for (name, kind) in KINDS {
        let mut line = format!("{name:28}");
        for (commits, runs) in [(12, 1), (30, 1), (30, 3), (60, 1)] {
            let is_alarm =
                |seed: &u64| !steps(&history(kind, commits, runs, *seed, |_| 0.0)).is_empty();
            let alarms = (0..SERIES).filter(is_alarm).count() as u64;
            line.push_str(&format!("  {commits} x {runs}: {alarms:3} of {SERIES}"));
            assert!(alarms * 100 <= SERIES, "{line}");
        }
        println!("{line}");
    }
}

/// How often a real step is found, by its size in deviations of the noise.
#[test]
fn steps_that_are_there_are_found() {
    let normal = KINDS[0].1;
    let found = |commits: usize, runs: usize, at: usize, size: f64| {
        let is_found = |seed: &u64| {
            let series =
                history(normal, commits, runs, *seed, |here| if here < at { 0.0 } else { size });
            steps(&series).iter().any(|step| step.earliest <= at && at <= step.latest)
        };
        let all = 100;
        let found = (0..all).filter(is_found).count();
        println!("{commits} x {runs}, {size} deviations at {at}: {found} of {all}");
        found as f64 / all as f64
    };
    assert!(found(30, 1, 15, 2.0) >= 0.35);
    assert!(found(30, 1, 15, 4.0) >= 0.9);
    assert!(found(30, 3, 15, 2.0) >= 0.8);
    assert!(found(60, 1, 30, 2.0) >= 0.85);
    assert!(found(30, 1, 22, 4.0) >= 0.15);
    // Of the newest commit only repetitions tell.
    assert!(found(30, 3, 29, 60.0) >= 0.95);
    assert!(found(30, 1, 29, 60.0) <= 0.05);
}
