//! Rules of lifetimes: each decides which objects die after each birth. Slots hold ids.

use crate::random::Random;
use crate::spec::{Lifetimes, Spec};
use heaplab_trace::ObjectId;
use std::collections::VecDeque;

/// No object.
const NONE: ObjectId = ObjectId::MAX;
/// Keys of a cache for each of its slots.
const KEYS_A_SLOT: u64 = 10;
/// Number of young objects of a generational workload for each old one.
const OLD_A_YOUNG: u64 = 8;

/// The live objects under a rule.
#[derive(Debug)]
pub(crate) enum Living {
    Phase(Vec<ObjectId>),
    Random(Vec<ObjectId>),
    Queue(VecDeque<ObjectId>, u64),
    Cache(Box<Cache>),
    Generational { young: Vec<ObjectId>, old: Vec<ObjectId>, filled: usize },
    Fragmentation { large: Vec<ObjectId>, small: Vec<ObjectId> },
}

impl Living {
    pub(crate) fn new(spec: &Spec) -> Living {
        let slots = |count: u64| vec![NONE; count as usize];
        match spec.lifetimes {
            Lifetimes::Phase => Living::Phase(Vec::new()),
            Lifetimes::Random => Living::Random(slots(spec.slots)),
            Lifetimes::Queue => Living::Queue(VecDeque::new(), spec.slots),
            Lifetimes::Cache => Living::Cache(Box::new(Cache::new(spec.slots as usize))),
            Lifetimes::Generational => Living::Generational {
                young: slots((spec.slots / OLD_A_YOUNG).max(1)),
                old: slots(spec.slots),
                filled: 0,
            },
            Lifetimes::Fragmentation => {
                Living::Fragmentation { large: Vec::new(), small: Vec::new() }
            }
        }
    }

    /// Handles the birth of `object`: adds the objects that die by it to `dead`. Returns, for
    /// generational only, whether an object that left youth died (`None`: none left youth).
    pub(crate) fn born(
        &mut self,
        object: ObjectId,
        die: u64,
        random: &mut Random,
        dead: &mut Vec<ObjectId>,
    ) -> Option<bool> {
        let put = |slots: &mut Vec<ObjectId>, object: ObjectId, random: &mut Random| {
            let slot = random.below(slots.len() as u64) as usize;
            std::mem::replace(&mut slots[slot], object)
        };
        let before = match self {
            Living::Phase(objects) => {
                objects.push(object);
                NONE
            }
            Living::Random(slots) => put(slots, object, random),
            Living::Queue(queue, slots) => {
                queue.push_back(object);
                if queue.len() as u64 > *slots { queue.pop_front().unwrap_or(NONE) } else { NONE }
            }
            Living::Cache(cache) => cache.put(object, random),
            Living::Generational { young, old, filled } => {
                let grown = put(young, object, random);
                if grown == NONE {
                    return None;
                }
                let dies = random.chance(die);
                let gone = if dies {
                    grown
                } else if *filled < old.len() {
                    *filled += 1;
                    std::mem::replace(&mut old[*filled - 1], grown)
                } else {
                    put(old, grown, random)
                };
                dead.extend((gone != NONE).then_some(gone));
                return Some(dies);
            }
            Living::Fragmentation { large, small } => {
                // The arrays alternate. The last third of the births is neither kind; no phase ends
                // after them.
                let of = if large.len() <= small.len() { large } else { small };
                of.push(object);
                NONE
            }
        };
        dead.extend((before != NONE).then_some(before));
        None
    }

    /// Handles the end of a phase: adds the objects that die by it to `dead`, in the order of
    /// birth.
    pub(crate) fn phase_ended(&mut self, die: u64, random: &mut Random, dead: &mut Vec<ObjectId>) {
        match self {
            Living::Phase(objects) => objects.retain(|object| {
                let dies = random.chance(die);
                dead.extend(dies.then_some(*object));
                !dies
            }),
            Living::Fragmentation { large, .. } => dead.append(large),
            _ => {}
        }
    }
}

/// A cache that evicts the least recently used object.
#[derive(Debug)]
pub(crate) struct Cache {
    /// By key: the slot that holds it, or none.
    slot_of: Vec<u32>,
    /// By slot: object, key, and neighbours in order of use; slot 0 holds both ends of that list.
    slots: Vec<Slot>,
    most: usize,
    /// Running sums of the keys' weights.
    sums: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    object: ObjectId,
    key: u32,
    newer: u32,
    older: u32,
}

impl Cache {
    fn new(most: usize) -> Cache {
        let keys = (most as u64 * KEYS_A_SLOT).min(1 << 28);
        let sums = (1..=keys).scan(0_u64, |sum, rank| {
            *sum += (1 << 32) / rank;
            Some(*sum)
        });
        Cache {
            slot_of: vec![0; keys as usize],
            slots: vec![Slot::default()],
            most,
            sums: sums.collect(),
        }
    }

    /// Asks for keys until one is missing, and stores `object` under it. Returns the evicted
    /// object.
    fn put(&mut self, object: ObjectId, random: &mut Random) -> ObjectId {
        loop {
            let chosen = random.below(self.sums[self.sums.len() - 1]);
            let key = self.sums.partition_point(|sum| *sum <= chosen);
            match self.slot_of[key] {
                0 => return self.insert(object, key as u32),
                slot => {
                    self.unlink(slot);
                    self.link_newest(slot);
                }
            }
        }
    }

    fn insert(&mut self, object: ObjectId, key: u32) -> ObjectId {
        let (slot, before) = if self.slots.len() <= self.most {
            self.slots.push(Slot::default());
            (self.slots.len() as u32 - 1, NONE)
        } else {
            let oldest = self.slots[0].newer;
            let evicted = self.slots[oldest as usize];
            self.slot_of[evicted.key as usize] = 0;
            self.unlink(oldest);
            (oldest, evicted.object)
        };
        self.slots[slot as usize] = Slot { object, key, ..Slot::default() };
        self.slot_of[key as usize] = slot;
        self.link_newest(slot);
        before
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        self.slots[older as usize].newer = newer;
        self.slots[newer as usize].older = older;
    }

    fn link_newest(&mut self, slot: u32) {
        let newest = self.slots[0].older;
        self.slots[slot as usize].older = newest;
        self.slots[slot as usize].newer = 0;
        self.slots[newest as usize].newer = slot;
        self.slots[0].older = slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a searched list: exactly the least recently used object goes.
        #[test]
        fn the_cache_evicts_what_was_used_least_recently(most in 1usize..20, births in 1u64..300, seed: u64) {
            let mut cache = Cache::new(most);
            let mut random = Random::new(seed);
            let mut model_random = Random::new(seed);
            let mut model: Vec<(usize, ObjectId)> = Vec::new();
            for object in 0..births {
                let evicted = cache.put(object, &mut random);
                let expected = loop {
                    let chosen = model_random.below(*cache.sums.last().unwrap());
                    let key = cache.sums.partition_point(|sum| *sum <= chosen);
                    if let Some(at) = model.iter().position(|(known, _)| *known == key) {
                        let used = model.remove(at);
                        model.push(used);
                        continue;
                    }
                    model.push((key, object));
                    break if model.len() > most { model.remove(0).1 } else { NONE };
                };
                prop_assert_eq!(evicted, expected);
            }
        }
    }
}
