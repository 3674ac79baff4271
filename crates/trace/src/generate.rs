//! Workloads from a stated distribution, for benchmarks and tests: of any length, in memory for the
//! live objects only, the same for the same seed.
//!
//! The defaults follow SQLite's requests (few sizes, most objects dead within the next few calls,
//! some that stay): a generated bundle compresses and replays like a recorded one. A generated
//! workload proves nothing about a real program.

use crate::tables::{Arena, Frame, Process, StackNode, Tables, Thread};
use crate::{Event, EventSource, Flags, ObjectId, Op, TraceError};

/// The parameters of a generated workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Sizes in bytes, each with its weight.
    pub sizes: Vec<(u64, u32)>,
    /// Number of live objects that the workload grows to and stays near.
    pub live_objects: u64,
    /// Deaths of the object born last, of 1000 deaths.
    pub young_deaths_permille: u32,
    /// Reallocations, of 1000 events.
    pub reallocations_permille: u32,
    /// Mean time between two events, ns; the gaps vary from a third of the mean to about twenty
    /// times.
    pub gap_ns: u64,
    /// Distinct stacks.
    pub stacks: u32,
    /// Threads.
    pub threads: u32,
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution {
            sizes: vec![
                (16, 2222),
                (24, 1536),
                (40, 1300),
                (32, 525),
                (136, 512),
                (88, 300),
                (256, 120),
                (1032, 66),
                (4104, 48),
                (8224, 3),
                (65_544, 1),
            ],
            live_objects: 20_000,
            young_deaths_permille: 850,
            reallocations_permille: 80,
            gap_ns: 60,
            stacks: 300,
            threads: 1,
        }
    }
}

/// Gives the events of a generated workload.
#[derive(Debug)]
pub struct Generator {
    distribution: Distribution,
    /// Running sums of the weights, for the choice of a size.
    weights: Vec<u64>,
    left: u64,
    random: u64,
    live: Vec<ObjectId>,
    born: ObjectId,
    time_ns: u64,
}

impl Generator {
    /// `events` events; the same for the same `seed`.
    ///
    /// # Panics
    /// The distribution has no sizes, stacks or threads.
    pub fn new(distribution: Distribution, events: u64, seed: u64) -> Generator {
        assert!(
            distribution.stacks > 0 && distribution.threads > 0,
            "a workload has stacks and threads"
        );
        let weights: Vec<u64> = distribution
            .sizes
            .iter()
            .scan(0, |sum, (_, weight)| {
                *sum += u64::from(*weight);
                Some(*sum)
            })
            .collect();
        assert!(weights.last().is_some_and(|sum| *sum > 0), "a workload has sizes");
        Generator {
            distribution,
            weights,
            left: events,
            random: seed,
            live: Vec::new(),
            born: 0,
            time_ns: 0,
        }
    }

    /// The tables that the events refer to.
    pub fn tables(&self) -> Tables {
        let stacks = self.distribution.stacks;
        Tables {
            stacks: (0..=stacks)
                .map(|row| StackNode { parent: row / 8, frame: row % stacks.min(64) })
                .collect(),
            frames: (0..stacks.min(64))
                .map(|row| Frame { function: Some(format!("generated_{row}")), ..Frame::default() })
                .collect(),
            processes: vec![Process { executable: "generated".into(), ..Process::default() }],
            threads: (0..self.distribution.threads)
                .map(|row| Thread { process: 0, tid: row + 1, ..Thread::default() })
                .collect(),
            arenas: vec![Arena { kind: "malloc".into(), ..Arena::default() }],
            ..Tables::default()
        }
    }

    /// splitmix64 (Steele, Lea, Flood 2014).
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_random()) * u128::from(limit)) >> 64) as u64
    }

    fn next_event(&mut self) -> Event {
        self.advance_time();
        let thread = self.below(self.distribution.threads.into()) as u32;
        let common = Event { thread, time_ns: self.time_ns, ..Event::default() };
        let live = self.live.len() as u64;
        let reallocates =
            live > 0 && self.below(1000) < self.distribution.reallocations_permille.into();
        if reallocates {
            let object = self.live[self.live.len() - 1];
            let (size, stack) = self.request();
            let flags = if self.below(4) == 0 { Flags::MOVED } else { Flags::default() };
            return Event {
                op: Op::Realloc,
                object,
                flags,
                size,
                usable: usable(size),
                stack,
                ..common
            };
        }
        // Deaths become as likely as births at the target; the number never passes twice the
        // target.
        if live > 0 && self.below(2 * self.distribution.live_objects.max(1)) < live {
            let young = self.below(1000) < self.distribution.young_deaths_permille.into();
            let at = if young { live - 1 } else { self.below(live) } as usize;
            return Event { op: Op::Free, object: self.live.swap_remove(at), ..common };
        }
        let (size, stack) = self.request();
        self.live.push(self.born);
        self.born += 1;
        Event { object: self.born - 1, size, usable: usable(size), stack, ..common }
    }

    /// Mostly short and sometimes long gaps, as in real programs.
    fn advance_time(&mut self) {
        let bits = self.next_random();
        let gap = self.distribution.gap_ns;
        let long = if bits & 31 == 0 { gap * (bits >> 8 & 15) } else { 0 };
        self.time_ns += gap / 3 + (((bits >> 32) * gap) >> 32) + long;
    }

    /// A size and its requesting stack: each stack requests few sizes.
    fn request(&mut self) -> (u64, u32) {
        let chosen = self.below(self.weights[self.weights.len() - 1]);
        let at = self.weights.partition_point(|sum| *sum <= chosen);
        let spread =
            self.below(1 + u64::from(self.distribution.stacks) / self.weights.len() as u64);
        let stack =
            (at as u64 + spread * self.weights.len() as u64) % u64::from(self.distribution.stacks);
        (self.distribution.sizes[at].0, stack as u32 + 1)
    }
}

/// glibc's minimum: chunks of 16 n bytes with a header of 8.
fn usable(size: u64) -> u64 {
    (size + 8).next_multiple_of(16).max(32) - 8
}

impl EventSource for Generator {
    fn next_batch(&mut self, batch: &mut Vec<Event>) -> Result<(), TraceError> {
        batch.clear();
        let count = self.left.min(512);
        self.left -= count;
        batch.extend((0..count).map(|_| self.next_event()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::OrderChecker;

    #[test]
    fn a_generated_workload_is_legal_stays_its_size_and_repeats() {
        let distribution =
            Distribution { live_objects: 500, threads: 3, ..Distribution::default() };
        let events = |seed| {
            let mut generator = Generator::new(distribution.clone(), 50_000, seed);
            let mut checker = OrderChecker::new("generated", &generator.tables());
            let mut events = Vec::new();
            generator
                .for_each(|event| {
                    events.push(*event);
                    checker.check(event)
                })
                .unwrap();
            assert!((250..1000).contains(&checker.live()), "{} live", checker.live());
            events
        };
        let first = events(1);
        assert_eq!(first.len(), 50_000);
        assert!(first == events(1) && first != events(2));
    }
}
