//! Seven workloads on this heap and on the real V8: old space is equal to the byte before and after
//! each forced collection, for all six strategies. The real figures are in `fixtures/`, recorded
//! from Node 13.14.0.

use heaplab_heap::{Ask, Birth, Collected, Object, Origin, World};
use heaplab_v8::{Spec, V8Heap, strategy};
use std::ptr::NonNull;

const RECORDED: &str = include_str!("fixtures/node-13.14.0-never-compact.txt");
const BIRTHS: u32 = 24_000;
const EVERY: u32 = 6_000;

/// Knuth's linear congruence: the recording used the same.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % end) as u32
    }
}

enum Step {
    Birth(u32, u32),
    Death(u32),
    Collect,
}

fn workload(shape: &str) -> Vec<Step> {
    let mut random = Random(7);
    let mut steps = Vec::new();
    for at in 0..BIRTHS {
        let (slot, words) = match shape {
            "mixed" => mixed(&mut random),
            "same" => (random.below(6_000), 7),
            "queue" => (at % 5_000, 1 + random.below(60)),
            "phases" => {
                if at % EVERY == 0 && at > 0 {
                    steps.extend((0..5_000).filter(|_| random.below(10) < 7).map(Step::Death));
                }
                (random.below(5_000), (4 << (at / EVERY)) + random.below(8))
            }
            "dart" => {
                if at == BIRTHS / 2 {
                    steps.extend((0..at).step_by(2).map(Step::Death));
                }
                let small = if at % 2 == 0 { 260 } else { 1 };
                (at, if at >= BIRTHS / 2 { 300 } else { small })
            }
            "generational" => {
                let slot = if random.below(10) == 0 {
                    100 + random.below(3_000)
                } else {
                    random.below(100)
                };
                (slot, 1 + random.below(40))
            }
            _ => {
                let slot = random.below(500);
                (
                    slot,
                    if random.below(100) < 3 {
                        16_000 + random.below(4_000)
                    } else {
                        1 + random.below(30)
                    },
                )
            }
        };
        steps.push(Step::Birth(slot, words));
        if at % EVERY == EVERY - 1 {
            steps.push(Step::Collect);
        }
    }
    steps
}

fn mixed(random: &mut Random) -> (u32, u32) {
    let slot = random.below(4_000);
    let words = match random.below(100) {
        0..50 => 1 + random.below(8),
        50..98 => 9 + random.below(192),
        _ => 200 + random.below(3_896),
    };
    (slot, words)
}

struct Table(Vec<Option<Object>>);

impl World for Table {
    fn slots(&self) -> u32 {
        self.0.len() as u32
    }

    fn object(&self, slot: u32) -> Option<Object> {
        self.0[slot as usize]
    }

    fn fields(&self, _slot: u32, _visit: &mut dyn FnMut(u32)) {}

    fn moved(&mut self, slot: u32, to: NonNull<u8>) {
        self.0[slot as usize].as_mut().unwrap().address = to;
    }

    fn reclaimed(&mut self, slot: u32) {
        panic!("slot {slot} held a root");
    }
}

fn run(heap: &mut V8Heap, steps: &[Step]) {
    let mut table = Table(vec![None; BIRTHS as usize]);
    for step in steps {
        match *step {
            Step::Collect => heap.collect(Ask::Full, &mut table).unwrap(),
            Step::Death(slot) => {
                let before = table.0[slot as usize].take().map(|object| object.address);
                heap.stored(slot, before, None);
            }
            Step::Birth(slot, words) => {
                let size = words as usize * 8;
                let birth = Birth { slot, size, align: 1, origin: Origin::Generated, old: false };
                let address = heap.allocate(birth, &mut table).unwrap();
                let before = table.0[slot as usize].replace(Object { address, size, root: true });
                heap.stored(slot, before.map(|object| object.address), Some(address));
            }
        }
    }
}

#[test]
fn old_space_is_equal_to_the_byte() {
    for shape in ["mixed", "same", "queue", "phases", "dart", "generational", "large"] {
        let steps = workload(shape);
        for (number, strategy) in strategy::released().iter().enumerate() {
            let spec = format!("{},version=7.9,compact=never", strategy.name);
            let mut heap = V8Heap::new(Spec::parse(&spec).unwrap()).unwrap();
            run(&mut heap, &steps);
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
            assert_eq!(real.len() as u32, BIRTHS / EVERY);
        }
    }
}
