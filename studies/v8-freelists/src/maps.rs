//! Map space with each order of its pages: the figure that the document leaves out.
//!
//! A recording does not say which of its objects are maps. In Node 14.21.3 the recorded programs
//! end with two to four pages of maps, Node's own among them, after at most two full collections:
//! no order of so few pages can matter. So these workloads are stated. Sweeping is complete when
//! the first map after a collection is born, as V8's sweeper threads leave it; without them V8
//! orders nothing.

use crate::replay::Table;
use anyhow::Result;
use heaplab_heap::{Ask, Birth, Collected, Object, Origin, Place, SpaceState};
use heaplab_v8::facts::PAGE_BYTES;
use heaplab_v8::{Spec, V8Heap};

/// Births of a cycle in which many maps are born.
const BURST: u32 = 30_000;
/// Workloads of each kind, which differ in their random numbers.
const SEEDS: u64 = 3;
/// The order without sorting; then V8's, and its opposite.
const ORDERS: [&str; 3] = ["linked-last", "fullest-first", "emptiest-first"];

/// A kind of workload. A cycle ends with a full collection, which notices its deaths.
struct Kind {
    name: &'static str,
    cycles: usize,
    /// The first of so many cycles is a burst.
    burst_every: usize,
    /// Births of the other cycles.
    quiet: u32,
    /// Percentage of maps that die in their first cycle, and in each later one.
    die: [u32; 2],
    /// Bursts are pages that load in one tab after the other. A page ends when its tab loads the
    /// next one, with all maps born since its own burst.
    tabs: usize,
}

const KINDS: [Kind; 4] = [
    Kind { name: "no pauses", cycles: 40, burst_every: 1, quiet: 0, die: [33, 33], tabs: 1 },
    Kind {
        name: "bursts and pauses, deaths at any age",
        cycles: 200,
        burst_every: 100,
        quiet: 2_000,
        die: [20, 20],
        tabs: 1,
    },
    Kind {
        name: "bursts and pauses, most die young",
        cycles: 200,
        burst_every: 100,
        quiet: 500,
        die: [90, 10],
        tabs: 1,
    },
    Kind { name: "three tabs", cycles: 400, burst_every: 40, quiet: 500, die: [50, 2], tabs: 3 },
];

/// One step: maps by their number in birth order.
enum Step {
    Birth,
    Death(u32),
    Collect,
}

/// Knuth's linear congruence.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(end)) as u32
    }

    /// Each map of `live` dies with this chance.
    fn kill(&mut self, live: &mut Vec<u32>, percent: u32, steps: &mut Vec<Step>) {
        live.retain(|&map| {
            let dies = self.below(100) < percent;
            if dies {
                steps.push(Step::Death(map));
            }
            !dies
        });
    }
}

/// A workload of maps alone, and its births.
fn steps(kind: &Kind, seed: u64) -> (Vec<Step>, u32) {
    let mut random = Random(seed);
    let (mut steps, mut births) = (Vec::new(), 0);
    let mut live = vec![Vec::new(); kind.tabs];
    for cycle in 0..kind.cycles {
        let is_burst = cycle % kind.burst_every == 0;
        let tab = cycle / kind.burst_every % kind.tabs;
        if is_burst && kind.tabs > 1 {
            steps.extend(live[tab].drain(..).map(Step::Death));
        }
        let count = if is_burst { BURST } else { kind.quiet };
        let mut young: Vec<u32> = (births..births + count).collect();
        births += count;
        steps.extend(young.iter().map(|_| Step::Birth));
        let [at_once, later] = kind.die;
        random.kill(&mut young, at_once, &mut steps);
        live.iter_mut().for_each(|maps| random.kill(maps, later, &mut steps));
        live[tab].append(&mut young);
        steps.push(Step::Collect);
    }
    (steps, births)
}

/// Mean and most committed bytes of map space, before and after each full collection.
fn committed((steps, births): &(Vec<Step>, u32), order: &str) -> Result<[f64; 2]> {
    let text = format!("version=8.4,shape=recorded,compact=never,sweeping=whole,maps={order}");
    let mut heap = V8Heap::new(Spec::parse(&text)?)?;
    let mut table = Table::new(*births);
    let mut births = 0..*births;
    for step in steps {
        match *step {
            Step::Birth => {
                let Some(slot) = births.next() else { break };
                let (size, place) = (72, Place::HiddenClass);
                let birth = Birth { slot, size, align: 1, origin: Origin::Runtime, place };
                let address = heap.allocate(birth, &mut table)?;
                table.0[slot as usize] = Some(Object { address, size, root: true });
                heap.stored(slot, None, Some(address));
            }
            Step::Death(slot) => {
                let before = table.0[slot as usize].take().map(|object| object.address);
                heap.stored(slot, before, None);
            }
            Step::Collect => heap.collect(Ask::Full, &mut table)?,
        }
    }
    let maps = heap.collections().iter().flat_map(|one| {
        let map = one.spaces.iter().find(|space| space.name == "map").cloned().unwrap_or_default();
        [map.before, map.after]
    });
    let all: Vec<f64> = maps.map(|state: SpaceState| state.committed_bytes as f64).collect();
    Ok([all.iter().sum::<f64>() / all.len() as f64, all.iter().copied().fold(0.0, f64::max)])
}

/// Against the order without sorting: means over the seeds, with the least and the most.
pub fn row() -> Result<String> {
    let (mut said, mut peaks) = (Vec::new(), 0.0_f64);
    for kind in &KINDS {
        let (mut pages, mut ratios) = (0.0, [const { Vec::new() }; 2]);
        for seed in 1..=SEEDS {
            let steps = steps(kind, seed);
            let [linked, sorted @ ..] = ORDERS.map(|order| committed(&steps, order));
            let [average, most] = linked?;
            pages += average / PAGE_BYTES as f64 / SEEDS as f64;
            for (order, ratios) in sorted.into_iter().zip(&mut ratios) {
                let [ours, our_most] = order?;
                ratios.push((ours / average - 1.0) * 100.0);
                peaks = peaks.max((our_most / most - 1.0).abs() * 100.0);
            }
        }
        let [fullest, emptiest] = ratios.map(|ratios| percent(&ratios));
        said.push(format!(
            "{} ({pages:.1} pages): {fullest}, emptiest first {emptiest}",
            kind.name
        ));
    }
    Ok(format!("on average: {}; peaks differ by {peaks:.1} %", said.join("; ")))
}

/// `-2.2 % (-7.3 to +8.2)`: the mean, the least and the most; `0.0 %` if all are equal to it.
fn percent(values: &[f64]) -> String {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.iter().all(|value| *value == 0.0) {
        return "0.0 %".into();
    }
    format!("{mean:+.1} % ({least:+.1} to {most:+.1})")
}
