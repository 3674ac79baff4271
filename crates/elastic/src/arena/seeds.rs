//! Data shared by arenas of a shard with the same growth: the growth, the learned sizes, and one
//! head for all arenas that have nothing yet.
//!
//! That head has a cursor of zero and a floor that no cursor reaches. So the first allocation takes
//! the slow path without a test of its own, and the arena gets a chunk with a head of its own
//! ([`Arena::allocate_first`](super::Arena)). An arena that is born and not used costs its handle,
//! and a count in its shard. Nobody writes to a shared head.

use super::head::Head;
use crate::Growth;
use crate::pool::shape::Shape;
use crate::space::Shared;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// See the module.
#[repr(C)]
pub struct Seed {
    /// Of arenas that have allocated nothing.
    head: Head,
    pub shared: *const Shared,
    pub growth: Growth,
    /// The number of the shard that counts the arenas.
    pub shard: usize,
    /// The learned [`First`] chunk, packed. Two threads that learn at once may lose one of the
    /// lessons.
    first: AtomicU64,
    /// Arenas that outgrew their first chunk since the last one began: more than a few are filled
    /// in turns.
    outgrown: AtomicU32,
}

/// How large a first chunk is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    pub bytes: usize,
    /// The size in lines, and the smallest acceptable hole; both 0 for a chunk larger than a
    /// granule.
    pub lines: u32,
    pub hole: u32,
}

impl First {
    /// A hole of nearly the wanted size will do, so that an arena starts where it can go on.
    fn of(bytes: usize, shape: Shape) -> First {
        let lines = |bytes: usize| shape.lines_for(bytes) as u32;
        match bytes <= shape.granule_bytes() {
            true => First { bytes, lines: lines(bytes), hole: lines(bytes / 12 * 11) },
            false => First { bytes, lines: 0, hole: 0 },
        }
    }

    fn packed(self) -> u64 {
        (self.bytes as u64) << 32 | u64::from(self.lines) << 16 | u64::from(self.hole)
    }

    fn unpacked(packed: u64) -> First {
        let [bytes, lines, hole] = [packed >> 32, packed >> 16 & 0xffff, packed & 0xffff];
        First { bytes: bytes as usize, lines: lines as u32, hole: hole as u32 }
    }
}

/// When an arena outgrows its first chunk, first chunks grow by this share of themselves; with each
/// arena that begins, they shrink by [`SMALLER_SHARE`]. For arenas of many sizes, the ratio of the
/// two is the share of arenas that outgrow theirs. An arena cannot give the surplus of its first
/// chunk back, but mostly grows in place if the chunk is too small.
const LARGER_SHARE: usize = 24;
const SMALLER_SHARE: usize = 36;
/// What first chunks have at least. Births alone, of arenas that are filled later, say little.
const FIRST_BYTES_MIN: usize = 256;

/// This many arenas outgrow their first chunk between two births if arenas are filled in turns. If
/// they are filled one after another, it is one at most; with a few threads of one shard, a few.
const IN_TURNS_FROM: u32 = 16;

impl Seed {
    fn new(growth: Growth, shared: *const Shared, shard: usize) -> NonNull<Seed> {
        // SAFETY: an arena of the space is being born.
        let shape = unsafe { (*shared).shape };
        let first = AtomicU64::new(First::of(growth.chunk_bytes(0), shape).packed());
        let head = Head::seed();
        let outgrown = AtomicU32::new(0);
        let seed = Box::leak(Box::new(Seed { head, shared, growth, shard, first, outgrown }));
        let seed = NonNull::from(seed);
        // SAFETY: nobody else has it yet.
        unsafe { (*seed.as_ptr()).head.seed = seed.as_ptr() };
        seed
    }

    /// Of the arena that asks: it begins.
    #[inline]
    pub fn first(&self) -> First {
        let first = First::unpacked(self.first.load(Ordering::Relaxed));
        if self.growth.learns() {
            let less = first.bytes - first.bytes / SMALLER_SHARE - 1;
            self.learn(less.max(FIRST_BYTES_MIN));
            self.outgrown.store(0, Ordering::Relaxed);
        }
        first
    }

    /// Notes that an arena that learns outgrew its first chunk. First chunks have at most a
    /// granule: larger ones would be committed as they are used.
    #[inline(never)]
    pub fn outgrown(&self, granule_bytes: usize) {
        let bytes = First::unpacked(self.first.load(Ordering::Relaxed)).bytes;
        self.learn((bytes + bytes / LARGER_SHARE + 1).min(granule_bytes));
        let outgrown = self.outgrown.load(Ordering::Relaxed);
        self.outgrown.store(outgrown.saturating_add(1), Ordering::Relaxed);
    }

    /// Least size of the n-th chunk of an arena with `owned_bytes`, if arenas are filled in turns.
    /// Then no chunk can be lengthened in place, and small chunks of many arenas would share each
    /// page, so hardly a page would be free when most arenas are dead. 0 if arenas are filled one
    /// after another, and for the second and third chunk: an arena that stays tiny would take as
    /// much again for a block of a few dozen bytes.
    pub fn in_turns_bytes(&self, nth: usize, owned_bytes: usize, granule_bytes: usize) -> usize {
        match self.outgrown.load(Ordering::Relaxed) {
            ..IN_TURNS_FROM => 0,
            _ if nth < 3 => 0,
            _ if nth <= 4 => owned_bytes.min(granule_bytes),
            _ => (owned_bytes / 2).min(granule_bytes),
        }
    }

    fn learn(&self, bytes: usize) {
        // SAFETY: an arena of the space asks, so the space lives.
        let shape = unsafe { (*self.shared).shape };
        self.first.store(First::of(bytes, shape).packed(), Ordering::Relaxed);
    }
}

/// Of one shard, by growth. Their number is that of different growths that arenas were born with.
#[derive(Debug, Default)]
pub struct Seeds(Vec<(Growth, NonNull<Seed>)>);

// SAFETY: the seeds belong to the shard, behind its lock; arenas change only atomics in them.
unsafe impl Send for Seeds {}

impl Seeds {
    /// That of arenas that grow like this, in the shard of this number.
    #[inline]
    pub fn of(&mut self, growth: Growth, shared: *const Shared, shard: usize) -> NonNull<Seed> {
        match self.0.first() {
            Some((first, seed)) if *first == growth => *seed,
            _ => self.other(growth, shared, shard),
        }
    }

    #[inline(never)]
    fn other(&mut self, growth: Growth, shared: *const Shared, shard: usize) -> NonNull<Seed> {
        match self.0.binary_search_by_key(&growth, |seed| seed.0) {
            Ok(at) => self.0[at].1,
            Err(at) => {
                let seed = Seed::new(growth, shared, shard);
                self.0.insert(at, (growth, seed));
                seed
            }
        }
    }

    /// Bytes of all of them.
    pub fn table_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(Growth, NonNull<Seed>)>() + self.0.len() * size_of::<Seed>()
    }
}

impl Drop for Seeds {
    fn drop(&mut self) {
        for (_, seed) in self.0.drain(..) {
            // SAFETY: `of` leaked the box, and the space goes: there is no arena left.
            drop(unsafe { Box::from_raw(seed.as_ptr()) });
        }
    }
}
