//! Seven workloads on this heap and on the real V8 of two versions: old space before and after each
//! forced collection, where nothing moves and where everything does. The real figures are in
//! `fixtures/`.

mod shapes;

use heaplab_heap::{Collected, Collection};
use heaplab_v8::{Spec, V8Heap, strategy};
use shapes::{Length, SHAPES, run, workload};

const NEVER_7_9: &str = include_str!("fixtures/node-13.14.0-never-compact.txt");
const NEVER_8_4: &str = include_str!("fixtures/node-14.21.3-never-compact.txt");
const ALWAYS_7_9: &str = include_str!("fixtures/node-13.14.0-always-compact.txt");
const ALWAYS_8_4: &str = include_str!("fixtures/node-14.21.3-always-compact.txt");
const LENGTH: Length = Length { births: 24_000, every: 6_000, seed: 7 };

fn shapes_recorded() -> impl Iterator<Item = &'static str> {
    SHAPES.into_iter().filter(|shape| *shape != "arrays")
}

/// The forced collections of a run as a golden file has them: the place of the collection, then
/// committed, used and available bytes before and after.
fn ours(shape: &str, strategy: usize, version: &str, compact: &str) -> Vec<Vec<u64>> {
    let steps = workload(shape, LENGTH);
    let name = &strategy::released()[strategy].name;
    let spec = format!("{name},version={version},compact={compact}");
    let mut heap = V8Heap::new(Spec::parse(&spec).unwrap()).unwrap();
    run(&mut heap, &steps, false);
    let forced = heap.collections().iter().filter(|collection| collection.cause == "forced");
    let numbers = |(at, one): (u64, &Collection)| {
        let states = [one.before, one.after].into_iter();
        let bytes = |state: heaplab_heap::SpaceState| {
            [state.committed_bytes, state.used_bytes, state.available_bytes]
        };
        std::iter::once(at).chain(states.flat_map(bytes)).collect()
    };
    (0..).zip(forced).map(numbers).collect()
}

/// The lines of a golden file for a run.
fn real(recorded: &str, shape: &str, strategy: usize) -> Vec<Vec<u64>> {
    let prefix = format!("{shape} {strategy} ");
    let lines = recorded.lines().filter_map(|line| line.strip_prefix(&prefix));
    let numbers = |line: &str| line.split(' ').map(|number| number.parse().unwrap()).collect();
    let lines: Vec<_> = lines.map(numbers).collect();
    assert_eq!(lines.len() as u32, LENGTH.births / LENGTH.every, "{shape} {strategy}");
    lines
}

/// Committed and used bytes of a line, before and after.
fn pages(line: &[u64]) -> [u64; 4] {
    [line[1], line[2], line[4], line[5]]
}

#[test]
fn old_space_is_equal_to_the_byte() {
    for shape in shapes_recorded() {
        for strategy in 0..6 {
            let real = real(NEVER_7_9, shape, strategy);
            assert_eq!(ours(shape, strategy, "7.9", "never"), real, "{shape} {strategy}");
        }
    }
}

/// In other cases Node's own objects, which are not recorded, decide the order of equal pages, or
/// move too: by some bytes other blocks are free.
#[test]
fn pages_and_objects_are_as_many() {
    let never = (0..6).map(|strategy| ("8.4", "never", NEVER_8_4, strategy));
    let always = [("7.9", ALWAYS_7_9), ("8.4", ALWAYS_8_4)].into_iter();
    let always = always.flat_map(|(version, recorded)| {
        [0, 5].map(|strategy| (version, "always", recorded, strategy))
    });
    for (version, compact, recorded, strategy) in never.chain(always) {
        for shape in shapes_recorded() {
            let real: Vec<_> =
                real(recorded, shape, strategy).iter().map(|line| pages(line)).collect();
            let ours: Vec<_> =
                ours(shape, strategy, version, compact).iter().map(|line| pages(line)).collect();
            assert_eq!(ours, real, "{version} {compact} {shape} {strategy}");
        }
    }
}
