//! Compares with the judge itself: workloads run in each installed Node and on this heap. Old space
//! is equal to the byte before and after each forced collection, for all six strategies, both where
//! nothing moves and where everything does.
//!
//! The workloads differ from those of the recorded figures: other lengths, other random numbers.

mod installed;
mod oracle;
mod shapes;

use heaplab_v8::facts;
use installed::have;
use oracle::{Setting, blocks, equal, line, map_line, waste};
use shapes::{Length, MAP_SHAPES, SHAPES, workload};

#[test]
fn old_space_is_equal_to_the_byte_in_each_version() {
    for node in facts::VERSIONS.map(|version| version.node) {
        if !have(node) {
            continue;
        }
        // "mixed", "phases", "large", and "dart" where blocks are dropped.
        let shapes = SHAPES.into_iter().step_by(3);
        let arrays = (0..4).map(|strategy| ("arrays", strategy, "never"));
        let never = shapes.flat_map(|shape| (0..6).map(move |strategy| (shape, strategy, "never")));
        let always = [("mixed", 0), ("mixed", 5), ("phases", 5), ("dart", 1), ("large", 1)];
        let always = always.map(|(shape, strategy)| (shape, strategy, "always"));
        for (shape, strategy, compact) in never.chain(arrays).chain(always) {
            let length = Length { births: 15_000, every: 5_000, seed: 37 };
            let steps = workload(shape, length);
            let setting =
                Setting { node, compact, strategy, gc: "forced", limit_mb: 0, sweeping: "lazy" };
            let ran = setting.real(&steps).unwrap();
            let ours = setting.ours(&steps, &ran);
            let real = ran.run.collections;
            assert_eq!((real.len(), ours.len()), (3, 3));
            for (real, ours) in real.iter().zip(&ours) {
                assert_eq!(line(ours), line(real), "{shape} {setting:?}");
                assert_eq!(blocks(ours), blocks(real), "{shape} {setting:?}");
                assert_eq!(waste(ours), waste(real), "{shape} {setting:?}");
                assert!(equal(real, ours) && blocks(real).is_some());
            }
            assert!(real[2].after.used_bytes > 0, "{real:?}");
        }
    }
}

/// Map space too, with maps among arrays and maps alone; swept a page at a time, and whole, where
/// the fullest pages come first.
#[test]
fn map_space_is_equal_to_the_byte_in_each_version() {
    for node in facts::VERSIONS.map(|version| version.node) {
        if !have(node) {
            continue;
        }
        let ways = [("lazy", "never"), ("whole", "never"), ("whole", "always")];
        for shape in &MAP_SHAPES[1..3] {
            let steps = workload(shape, Length { births: 40_000, every: 8_000, seed: 61 });
            for (sweeping, compact) in ways {
                let setting =
                    Setting { node, compact, strategy: 5, gc: "forced", limit_mb: 0, sweeping };
                let ran = setting.real(&steps).unwrap();
                let ours = setting.ours(&steps, &ran);
                let real = ran.run.collections;
                assert_eq!((real.len(), ours.len()), (5, 5));
                for (real, ours) in real.iter().zip(&ours) {
                    assert_eq!(map_line(ours), map_line(real), "{shape} {setting:?}");
                    assert!(equal(real, ours), "{shape} {setting:?}");
                }
                assert!(map_line(&real[4])[1][1] > 0, "{real:?}");
            }
        }
    }
}

/// Without a limit there are scavenges alone. Close to a limit full collections come at the same
/// births too; this heap counts Node's own objects against the limit as V8 does.
#[test]
fn collections_of_its_own_are_those_of_each_version() {
    for node in facts::VERSIONS.map(|version| version.node) {
        if !have(node) {
            continue;
        }
        for (births, limit_mb, fulls) in [(20_000, 0, 0), (80_000, 20, 5)] {
            let steps = workload("mixed", Length { births, every: 700_000, seed: 41 });
            for strategy in [0, 5] {
                let setting = Setting {
                    node,
                    compact: "never",
                    strategy,
                    gc: "own",
                    limit_mb,
                    sweeping: "lazy",
                };
                let ran = setting.real(&steps).unwrap();
                let ours = setting.ours(&steps, &ran);
                let mut real = ran.run.collections;
                // The driver forces one at the end.
                assert_eq!(real.pop().map(|last| last.cause).as_deref(), Some("forced"));
                let full = ours.iter().filter(|one| one.kind == "mark-sweep").count();
                assert!(ours.len() > 4 && full >= fulls, "{setting:?}: {full} of {}", ours.len());
                assert_eq!(ours.len(), real.len(), "{setting:?}");
                for (real, ours) in real.iter().zip(&ours) {
                    assert_eq!((ours.births, line(ours)), (real.births, line(real)), "{setting:?}");
                    assert!(equal(real, ours), "{setting:?}");
                }
            }
        }
    }
}
