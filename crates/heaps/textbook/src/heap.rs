//! Parts shared by both heaps: growth, the order of visiting live objects, pacing.

use crate::facts::{GROWTH_BYTES, PACE_BYTES_MIN};
use crate::strategy::Options;
use heaplab_address_space::Reservation;
use heaplab_heap::{Collection, Footprint, SpaceState, World};
use std::time::Instant;

/// Commits `space` beyond its first `committed` bytes, up to `end` at least; `None`: that cannot be
/// done.
pub fn grow(space: &Reservation, committed: &mut usize, end: usize) -> Option<()> {
    if end > *committed {
        let to = end.checked_next_multiple_of(GROWTH_BYTES)?.min(space.reserved_bytes());
        if end > to || space.commit(*committed..to).is_err() {
            return None;
        }
        *committed = to;
    }
    Some(())
}

/// The footprint of a heap in this state.
pub fn footprint(state: SpaceState) -> Footprint {
    Footprint {
        used_bytes: Some(state.used_bytes),
        free_reusable_bytes: Some(state.available_bytes),
        committed_bytes: Some(state.committed_bytes),
        ..Footprint::default()
    }
}

/// The slots of all live objects: roots by slot, then the objects they reach, breadth first.
pub fn living<W: World>(world: &W) -> Vec<u32> {
    let mut seen = vec![false; world.slots() as usize];
    let mut order: Vec<u32> = (0..world.slots())
        .filter(|slot| world.object(*slot).is_some_and(|object| object.root))
        .collect();
    order.iter().for_each(|slot| seen[*slot as usize] = true);
    let mut next = 0;
    while let Some(slot) = order.get(next).copied() {
        next += 1;
        world.fields(slot, &mut |to| {
            if world.object(to).is_some() && !std::mem::replace(&mut seen[to as usize], true) {
                order.push(to);
            }
        });
    }
    order
}

/// Reports the unreachable objects to the world.
pub fn report_reclaimed<W: World>(world: &mut W, living: &[u32]) {
    let mut lives = vec![false; world.slots() as usize];
    living.iter().for_each(|slot| lives[*slot as usize] = true);
    for slot in (0..world.slots()).filter(|slot| !lives[*slot as usize]) {
        if world.object(slot).is_some() {
            world.reclaimed(slot);
        }
    }
}

/// The time of the next collection, and the past ones.
#[derive(Debug, Default)]
pub struct Pace {
    /// Bytes allocated since the last collection.
    pub since_bytes: u64,
    /// [`Options::overhead_percent`].
    pub overhead_percent: u64,
    /// Bytes live after the last collection.
    pub live_bytes: u64,
    /// Births so far.
    pub births: u64,
    /// Their requested bytes.
    pub born_bytes: u64,
    /// All collections so far.
    pub collections: Vec<Collection>,
    /// Whether pauses are measured.
    pub measures_pauses: bool,
    /// When the running collection began.
    began: Option<Instant>,
}

impl Pace {
    /// Before the first birth.
    pub fn new(options: Options) -> Pace {
        Pace { overhead_percent: options.overhead_percent, ..Pace::default() }
    }

    /// Whether the heap should collect before it allocates again.
    pub fn is_due(&self) -> bool {
        let allowed = u128::from(self.live_bytes) * u128::from(self.overhead_percent) / 100;
        u128::from(self.since_bytes) > allowed.max(PACE_BYTES_MIN.into())
    }

    /// Counts the birth of an object of `size` requested bytes that takes `bytes`.
    pub fn born(&mut self, size: usize, bytes: usize) {
        self.births += 1;
        self.born_bytes += size as u64;
        self.since_bytes += bytes as u64;
    }

    /// A collection that begins now.
    pub fn begin(
        &mut self,
        kind: &'static str,
        cause: &'static str,
        before: SpaceState,
    ) -> Collection {
        self.began = self.measures_pauses.then(Instant::now);
        let (births, born_bytes) = (self.births, self.born_bytes);
        Collection {
            kind: kind.into(),
            cause: cause.into(),
            births,
            born_bytes,
            before,
            ..Collection::default()
        }
    }

    /// Records a finished collection.
    pub fn end(&mut self, mut collection: Collection) {
        collection.pause_ns = self.began.map(|began| began.elapsed().as_nanos() as u64);
        self.live_bytes = collection.after.used_bytes;
        self.since_bytes = 0;
        self.collections.push(collection);
    }
}
