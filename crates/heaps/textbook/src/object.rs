//! Parts shared by both heaps: an object's header, the order of visiting live objects, pacing.

use heaplab_heap::{Collection, SpaceState, World};

/// Objects begin on multiples of this.
pub const ALIGN_BYTES: usize = 16;
/// Bytes of [`Header`].
pub const HEADER_BYTES: usize = size_of::<Header>();
/// Least bytes allocated between two collections.
const PACE_BYTES_MIN: u64 = 1 << 20;

/// The size limit of a heap, and when it collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Addresses reserved: the most that the heap can commit.
    pub limit_bytes: usize,
    /// Bytes that may be allocated between two collections, percent of those that survived the
    /// first.
    pub overhead_percent: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { limit_bytes: 16 << 30, overhead_percent: 100 }
    }
}

/// The header before each object and at the start of each free block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// Header and body, a multiple of [`ALIGN_BYTES`].
    pub bytes: u64,
    /// The kind of block, and whether the running collection has reached it.
    pub state: State,
}

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum State {
    /// A free block.
    Free = 0,
    /// An object outside of any collection, or not reached yet.
    White = 1,
    /// An object that the running collection has reached.
    Marked = 2,
}

/// Bytes of an object with a body of `size` bytes; `None`: exceeds an address space.
pub fn object_bytes(size: usize) -> Option<usize> {
    size.checked_add(HEADER_BYTES)?.checked_next_multiple_of(ALIGN_BYTES)
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
    pub fn begin(&self, kind: &'static str, cause: &'static str, before: SpaceState) -> Collection {
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
    pub fn end(&mut self, collection: Collection) {
        self.live_bytes = collection.after.used_bytes;
        self.since_bytes = 0;
        self.collections.push(collection);
    }
}
