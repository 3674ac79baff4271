//! Workloads that tests and examples share: births and deaths in slots, with forced collections.

use heaplab_heap::{Ask, Birth, Collected, Object, Origin, OutOfMemory, Place, World};
use heaplab_v8::V8Heap;
use std::collections::HashSet;
use std::ptr::NonNull;

/// All shapes, by name. In "arrays" scavenges promote large arrays while pages wait to be swept.
pub const SHAPES: [&str; 8] =
    ["mixed", "same", "queue", "phases", "dart", "generational", "large", "arrays"];

/// Shapes with hidden classes (V8: maps): maps alone, maps among arrays, phases of many maps that
/// die together, maps that live longer the earlier they are born.
pub const MAP_SHAPES: [&str; 4] = ["maps", "map-mixed", "map-phases", "map-ages"];

/// The length of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Births.
    pub births: u32,
    /// Births between forced collections.
    pub every: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Knuth's linear congruence: the recording used the same.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % end) as u32
    }
}

/// One step of a workload.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// An array of this many words is born in a slot.
    Birth(u32, u32),
    /// A hidden class is born in a slot.
    Map(u32),
    /// The object in a slot dies.
    Death(u32),
    /// A full collection is forced.
    Collect,
}

/// The steps of a shape.
pub fn workload(shape: &str, length: Length) -> Vec<Step> {
    let Length { births, every, seed } = length;
    let mut random = Random(seed);
    let mut steps = Vec::new();
    for at in 0..births {
        if MAP_SHAPES.contains(&shape) {
            map_step(shape, [at, births, every], &mut random, &mut steps);
            if at % every == every - 1 {
                steps.push(Step::Collect);
            }
            continue;
        }
        let (slot, words) = match shape {
            "mixed" => mixed(&mut random),
            "same" => (random.below(6_000), 7),
            "queue" => (at % 5_000, 1 + random.below(60)),
            "phases" => {
                if at % every == 0 && at > 0 {
                    steps.extend((0..5_000).filter(|_| random.below(10) < 7).map(Step::Death));
                }
                (random.below(5_000), (4 << (at / every)) + random.below(8))
            }
            "dart" => {
                if at == births / 2 {
                    steps.extend((0..at).step_by(2).map(Step::Death));
                }
                let small = if at % 2 == 0 { 260 } else { 1 };
                (at, if at >= births / 2 { 300 } else { small })
            }
            "generational" => {
                let slot = if random.below(10) == 0 {
                    100 + random.below(3_000)
                } else {
                    random.below(100)
                };
                (slot, 1 + random.below(40))
            }
            "arrays" => {
                let big = [1_018, 2_038, 8_125, 8_192, 16_375, 16_377];
                let words = match random.below(20) {
                    0 => big[random.below(6) as usize],
                    _ => 1 + random.below(14),
                };
                (random.below(20_000), words)
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
        if at % every == every - 1 {
            steps.push(Step::Collect);
        }
    }
    // An empty slot's object cannot die.
    let mut filled = HashSet::new();
    steps.retain(|step| match *step {
        Step::Birth(slot, _) | Step::Map(slot) => {
            filled.insert(slot);
            true
        }
        Step::Death(slot) => filled.remove(&slot),
        Step::Collect => true,
    });
    steps
}

/// One birth of a shape with hidden classes, and the deaths before it.
fn map_step(
    shape: &str,
    [at, births, every]: [u32; 3],
    random: &mut Random,
    steps: &mut Vec<Step>,
) {
    match shape {
        "maps" => steps.push(Step::Map(random.below(20_000))),
        "map-mixed" if random.below(3) == 0 => steps.push(Step::Map(4_000 + random.below(9_000))),
        "map-mixed" => {
            let (slot, words) = mixed(random);
            steps.push(Step::Birth(slot, words));
        }
        "map-phases" => {
            if at % every == 0 && at > 0 {
                let percent = [95, 50, 80][(at / every) as usize % 3];
                steps.extend((0..30_000).filter(|_| random.below(100) < percent).map(Step::Death));
            }
            steps.push(Step::Map(random.below(30_000)));
        }
        _ => {
            // The slots in use shrink to a tenth.
            let slots = 40_000 - 36_000 * u64::from(at) / u64::from(births);
            let slot = random.below(slots);
            steps.extend((random.below(4) == 0).then_some(Step::Death(40_000 - 1 - slot)));
            steps.push(Step::Map(slot));
        }
    }
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

/// Number of slots that the steps use.
pub fn slots(steps: &[Step]) -> u32 {
    let slot = |step: &Step| match *step {
        Step::Birth(slot, _) | Step::Map(slot) | Step::Death(slot) => slot + 1,
        Step::Collect => 0,
    };
    steps.iter().map(slot).max().unwrap_or(0)
}

/// Runs steps on a heap; `old`: objects are born in old space.
pub fn run(heap: &mut V8Heap, steps: &[Step], old: bool) {
    try_run(heap, steps, old).expect("room for all objects");
}

/// The same, up to the first step for which the heap has no room.
pub fn try_run(heap: &mut V8Heap, steps: &[Step], old: bool) -> Result<(), OutOfMemory> {
    let mut table = Table(vec![None; slots(steps) as usize]);
    let usual = if old { Place::Old } else { Place::Any };
    for step in steps {
        let birth =
            |slot, size, place| Birth { slot, size, align: 1, origin: Origin::Generated, place };
        let birth = match *step {
            Step::Collect => {
                heap.collect(Ask::Full, &mut table)?;
                continue;
            }
            Step::Death(slot) => {
                let before = table.0[slot as usize].take().map(|object| object.address);
                heap.stored(slot, before, None);
                continue;
            }
            Step::Birth(slot, words) => birth(slot, words as usize * 8, usual),
            Step::Map(slot) => birth(slot, 64, Place::HiddenClass),
        };
        let Birth { slot, size, .. } = birth;
        let address = heap.allocate(birth, &mut table)?;
        let before = table.0[slot as usize].replace(Object { address, size, root: true });
        heap.stored(slot, before.map(|object| object.address), Some(address));
    }
    Ok(())
}
