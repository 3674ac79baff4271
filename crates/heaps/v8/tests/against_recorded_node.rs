//! Seven workloads on this heap and on the real V8: old space is equal to the byte before and after
//! each forced collection, for all six strategies. The real figures are in `fixtures/`, recorded
//! from Node 13.14.0.

mod shapes;

use heaplab_heap::Collected;
use heaplab_v8::{Spec, V8Heap, strategy};
use shapes::{Length, SHAPES, run, workload};

const RECORDED: &str = include_str!("fixtures/node-13.14.0-never-compact.txt");
const LENGTH: Length = Length { births: 24_000, every: 6_000, seed: 7 };

#[test]
fn old_space_is_equal_to_the_byte() {
    for shape in SHAPES {
        let steps = workload(shape, LENGTH);
        for (number, strategy) in strategy::released().iter().enumerate() {
            let spec = format!("{},version=7.9,compact=never", strategy.name);
            let mut heap = V8Heap::new(Spec::parse(&spec).unwrap()).unwrap();
            run(&mut heap, &steps, false);
            let forced =
                heap.collections().iter().filter(|collection| collection.cause == "forced");
            let ours: Vec<String> = forced
                .enumerate()
                .map(|(at, collection)| {
                    let (b, a) = (collection.before, collection.after);
                    let before =
                        format!("{} {} {}", b.committed_bytes, b.used_bytes, b.available_bytes);
                    let after =
                        format!("{} {} {}", a.committed_bytes, a.used_bytes, a.available_bytes);
                    format!("{shape} {number} {at} {before} {after}")
                })
                .collect();
            let prefix = format!("{shape} {number} ");
            let real: Vec<&str> =
                RECORDED.lines().filter(|line| line.starts_with(&prefix)).collect();
            assert_eq!(ours, real, "{spec}");
            assert_eq!(real.len() as u32, LENGTH.births / LENGTH.every);
        }
    }
}
