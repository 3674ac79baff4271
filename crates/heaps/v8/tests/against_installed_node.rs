//! The judge itself: workloads in each Node that is installed and on this heap; old space is equal
//! to the byte before and after each forced collection, for all six strategies.
//!
//! The workloads are not those of the recorded figures: other lengths, other random numbers.

mod oracle;
mod shapes;

use heaplab_node::{NodeError, Spec, find};
use heaplab_v8::facts;
use oracle::{Setting, blocks, equal, line};
use shapes::{Length, SHAPES, workload};

/// The versions that CI installs.
const REQUIRED: [&str; 2] = ["13.14.0", "14.21.3"];

/// Whether this Node is installed. Says so where it is not; fails where
/// `HEAPLAB_REQUIRE_ORACLES=1`, for the versions that CI installs.
fn have(version: &str) -> bool {
    let found = Spec::parse(&format!("version={version}"))
        .map_err(|error| error.to_string())
        .and_then(|spec| find::node(&spec).map_err(|error: NodeError| error.to_string()));
    let Err(error) = found else { return true };
    let required = REQUIRED.contains(&version)
        && std::env::var("HEAPLAB_REQUIRE_ORACLES").as_deref() == Ok("1");
    assert!(!required, "{error}");
    eprintln!("skipped: {error}");
    false
}

#[test]
fn old_space_is_equal_to_the_byte_in_each_version() {
    for node in facts::VERSIONS.map(|version| version.node) {
        if !have(node) {
            continue;
        }
        // "mixed", "phases", "large".
        for shape in SHAPES.into_iter().step_by(3) {
            let steps = workload(shape, Length { births: 15_000, every: 5_000, seed: 31 });
            for strategy in 0..6 {
                let setting = Setting { node, compact: "never", strategy, gc: "forced" };
                let (real, _) = setting.real(&steps).unwrap();
                let ours = setting.ours(&steps, Vec::new());
                assert_eq!((real.len(), ours.len()), (3, 3));
                for (real, ours) in real.iter().zip(&ours) {
                    assert_eq!(line(ours), line(real), "{shape} {setting:?}");
                    assert_eq!(blocks(ours), blocks(real), "{shape} {setting:?}");
                    assert!(equal(real, ours) && blocks(real).is_some());
                }
                assert!(real[2].after.used_bytes > 0, "{real:?}");
            }
        }
    }
}

/// What is free at the ends of the pages that a compaction fills depends on the sizes of Node's own
/// objects, which the real V8 moves behind the workload's.
const AVAILABLE_MAX_BYTES: u64 = 300;
/// So a page more or less is taken where less than this is left of all.
const ALL_BUT_FULL_BYTES: u64 = 4096;

#[test]
fn pages_are_those_of_each_version_when_all_are_emptied() {
    let (mut equal, mut all) = (0, 0);
    for node in facts::VERSIONS.map(|version| version.node) {
        if !have(node) {
            continue;
        }
        for shape in ["mixed", "phases"] {
            let steps = workload(shape, Length { births: 15_000, every: 5_000, seed: 37 });
            for strategy in [0, 5] {
                let setting = Setting { node, compact: "always", strategy, gc: "forced" };
                let (real, _) = setting.real(&steps).unwrap();
                let ours = setting.ours(&steps, Vec::new());
                assert_eq!((real.len(), ours.len()), (3, 3));
                for (real, ours) in real.iter().zip(&ours) {
                    let ([_, real], [_, ours]) = (line(real), line(ours));
                    assert_eq!(ours[1], real[1], "{shape} {setting:?}: used");
                    let is_equal = ours[0] == real[0];
                    (equal, all) = (equal + u32::from(is_equal), all + 1);
                    let off = ours[2].abs_diff(real[2]);
                    assert!(
                        if is_equal {
                            off <= AVAILABLE_MAX_BYTES
                        } else {
                            ours[0].abs_diff(real[0]) == facts::PAGE_BYTES as u64
                                && ours[2].min(real[2]) < ALL_BUT_FULL_BYTES
                        },
                        "{shape} {setting:?}: {real:?} in Node, {ours:?} here"
                    );
                }
            }
        }
    }
    assert!(equal * 10 >= all * 8, "{equal} of {all} collections left as many pages");
}

#[test]
fn collections_of_its_own_are_those_of_each_version() {
    for node in facts::VERSIONS.map(|version| version.node) {
        if !have(node) {
            continue;
        }
        let steps = workload("mixed", Length { births: 20_000, every: 7_000, seed: 41 });
        for strategy in [0, 5] {
            let setting = Setting { node, compact: "never", strategy, gc: "own" };
            let (mut real, _) = setting.real(&steps).unwrap();
            let ours = setting.ours(&steps, Vec::new());
            // The driver forces one at the end.
            assert_eq!(real.pop().map(|last| last.cause).as_deref(), Some("forced"));
            assert!(ours.len() > 4 && ours.iter().all(|one| one.kind == "scavenge"));
            assert_eq!(ours.len(), real.len(), "{setting:?}");
            for (real, ours) in real.iter().zip(&ours) {
                assert_eq!((ours.births, line(ours)), (real.births, line(real)), "{setting:?}");
                assert!(equal(real, ours), "{setting:?}");
            }
        }
    }
}
