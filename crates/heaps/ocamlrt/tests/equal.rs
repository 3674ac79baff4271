//! heaplab's OCaml heap against the real runtime: every slice, every counter, and every object's
//! place.

mod common;

use common::{Shape, compare, generate, run};
use heaplab_heap::{Collected, SliceRow};
use heaplab_ocaml::OCaml;
use heaplab_ocaml::spec::Spec;
use heaplab_ocamlrt::{Driver, OCamlError};

/// The driver; `None` if OCaml is absent and not required.
fn driver() -> Option<Driver> {
    match Driver::build() {
        Ok(driver) => Some(driver),
        Err(error @ (OCamlError::Missing | OCamlError::Version(_))) => {
            heaplab_oracle::skip(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The rules of the installed compiler on this machine.
fn spec(driver: &Driver, text: &str) -> Spec {
    let spec = Spec::parse(&format!("{text},version={}", driver.version())).unwrap();
    Spec { signal_stack_bytes: signal_stack_bytes().unwrap_or(spec.signal_stack_bytes), ..spec }
}

/// glibc's `SIGSTKSZ`: four times the bytes that the kernel needs to save this processor's state
/// (`AT_MINSIGSTKSZ`).
fn signal_stack_bytes() -> Option<usize> {
    const AT_MINSIGSTKSZ: usize = 51;
    let words = std::fs::read("/proc/self/auxv").ok()?;
    let words = words.chunks_exact(8).map(|word| usize::from_ne_bytes(word.try_into().unwrap()));
    let words: Vec<usize> = words.collect();
    let entry = words.chunks_exact(2).find(|entry| entry[0] == AT_MINSIGSTKSZ)?;
    Some(4 * entry[1])
}

fn all_equal(shapes: &[Shape], specs: &[&str], steps: usize) {
    let Some(driver) = driver() else { return };
    for (nth, shape) in shapes.iter().enumerate() {
        let slots = [300, 3000, 12_000][nth % 3];
        let workload = generate(*shape, steps, slots, nth as u64);
        for text in specs {
            if let Err(difference) = compare(&driver, spec(&driver, text), slots, &workload) {
                panic!("{shape:?}, {text}: {difference}");
            }
        }
    }
}

#[test]
fn each_policy_is_equal_on_each_shape() {
    let shapes: Vec<Shape> = Shape::ALL
        .into_iter()
        .map(|(_, shape)| shape)
        .filter(|shape| *shape != Shape::Large)
        .collect();
    all_equal(
        &shapes,
        &["best-fit,o=80,s=32k", "next-fit,o=80,s=32k", "first-fit,o=80,s=32k"],
        60_000,
    );
}

#[test]
fn overheads_and_minor_heaps_are_equal() {
    let specs = [
        "best-fit,o=20,s=4k",
        "next-fit,o=320,s=4k",
        "first-fit,o=40,s=256k",
        "best-fit,o=160,s=32k,w=7",
        "best-fit,i=64k,h=200k,s=8k",
    ];
    all_equal(&[Shape::Mixed, Shape::Cache, Shape::Phases], &specs, 100_000);
}

#[test]
fn rows_of_slices_and_counters_are_equal() {
    let Some(driver) = driver() else { return };
    let workload = generate(Shape::Mixed, 60_000, 3000, 5);
    let spec = spec(&driver, "best-fit,o=80,s=32k");
    let mut heap = OCaml::new(spec).unwrap();
    run(&mut heap, 3000, &workload);
    let theirs = driver.run(&spec, 3000, workload.iter().copied(), true).unwrap();
    let ours = heap.log();
    assert_eq!(ours.counters, theirs.end.counters.log(Vec::new()).counters);
    assert!(ours.slices.len() > 20 && ours.slices.len() == theirs.slices.len());
    for (ours, theirs) in ours.slices.into_iter().zip(theirs.slices) {
        let theirs = theirs.row(spec.initial_words);
        assert!((ours.p - theirs.p).abs() < 1e-6 && (ours.backlog - theirs.backlog).abs() < 1e-6);
        let ours = SliceRow { births: None, p: theirs.p, backlog: theirs.backlog, ..ours };
        assert_eq!(ours, theirs);
    }
}

#[test]
fn large_objects_are_equal() {
    all_equal(&[Shape::Large], &["best-fit,s=32k", "next-fit,s=32k", "first-fit,s=32k"], 3000);
}

/// Compactions return chunks. New chunks then lie among the runtime's other blocks from malloc: the
/// page table and the mark stack move, grow and leave holes.
#[test]
fn chunks_lie_in_the_same_order_after_some_were_given_back() {
    let Some(driver) = driver() else { return };
    let workload = generate(Shape::Tides, 200_000, 8000, 3);
    for text in [
        "next-fit,i=61440,O=30,s=4k,o=40",
        "first-fit,O=20,s=8k,o=80",
        "best-fit,O=50,s=4k,o=20,h=120k",
        "next-fit,O=20,s=32k,o=200,h=1m",
    ] {
        compare(&driver, spec(&driver, text), 8000, &workload)
            .unwrap_or_else(|difference| panic!("{text}: {difference}"));
    }
}

#[test]
fn compactions_are_equal() {
    all_equal(
        &[Shape::Tides, Shape::Forced],
        &["best-fit,s=8k,o=20,O=50", "next-fit,s=32k,o=200,O=20", "first-fit,s=32k,o=80"],
        150_000,
    );
}

/// If a cycle ends within a requested collection, the next cycle begins before the program's next
/// store.
#[test]
fn the_loop_polls_after_a_collection_that_was_asked_for() {
    let Some(driver) = driver() else { return };
    for (steps, seed) in [(25_000, 1), (30_000, 1), (35_000, 1), (40_000, 1)] {
        let workload = generate(Shape::Forced, steps, 3000, seed);
        compare(&driver, spec(&driver, "first-fit,o=80,s=8k"), 3000, &workload)
            .unwrap_or_else(|difference| panic!("{steps} steps: {difference}"));
    }
}
