//! The pool behind its locks, with every interleaving of two threads. A range claimed by a
//! reclaiming thread is never handed out, the books add up, and at the limit no request is refused
//! while the memory for it is being given back.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p heaplab-elastic --lib loom`

use super::anchor::Anchor;
use super::reclaim::By;
use super::shape::Shape;
use super::shards::Shards;
use super::{Claim, Memory};
use crate::Error;
use crate::sync::Brief;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::ops::Range;

/// Stands in for the kernel: one bit a granule that is committed, and no granule may be committed
/// or uncommitted twice. Of each shard one root's first granules are used; a shard beyond the first
/// has the upper half of the bits.
struct Committed {
    granules: AtomicU64,
    limit: u32,
}

fn bits(range: &Range<usize>) -> u64 {
    (range.start / GRANULE..range.end / GRANULE)
        .fold(0, |bits, granule| bits | 1 << (granule % 64 + granule / 512 * 32))
}

impl Memory for Committed {
    fn commit(&self, range: Range<usize>) -> Result<(), Error> {
        let before = self.granules.load(Ordering::Relaxed);
        if (before | bits(&range)).count_ones() > self.limit {
            let (asked_bytes, limit_bytes) = (range.len(), self.limit as usize * GRANULE);
            return Err(heaplab_address_space::Error::LimitReached {
                asked_bytes,
                committed_bytes: limit_bytes,
                limit_bytes,
            }
            .into());
        }
        let before = self.granules.fetch_or(bits(&range), Ordering::Relaxed);
        assert_eq!(before & bits(&range), 0, "committed twice: {range:?}");
        Ok(())
    }

    unsafe fn uncommit(&self, range: Range<usize>) -> Result<(), Error> {
        let before = self.granules.fetch_and(!bits(&range), Ordering::Relaxed);
        assert_eq!(before & bits(&range), bits(&range), "uncommitted twice: {range:?}");
        Ok(())
    }
}

impl Committed {
    fn up_to(limit: u32) -> Arc<Committed> {
        Arc::new(Committed { granules: AtomicU64::new(0), limit })
    }
}

const GRANULE: usize = 4096;

/// Pools of one root each and one shard, or of eight and two.
fn shards(count: usize) -> Arc<Shards> {
    let roots = if count == 1 { 1 } else { 8 * count };
    Arc::new(Shards::new(Shape::new(GRANULE, 64 * GRANULE, roots).unwrap(), count))
}

fn check(shards: &Shards, memory: &Committed) {
    let granules = memory.granules.load(Ordering::Relaxed).count_ones() as usize;
    assert_eq!(shards.check_deep(), Ok(granules * GRANULE));
}

#[test]
fn loom_one_allocates_while_the_other_reclaims() {
    loom::model(|| {
        let shared = shards(1);
        let memory = Committed::up_to(64);
        let first = shared.of(0).lock().lines(64, 64, 64, &*memory).unwrap();
        let second = shared.of(0).lock().lines(64, 64, 64, &*memory).unwrap();
        shared.of(0).lock().give_small(first);
        let other = {
            let (shared, memory) = (shared.clone(), memory.clone());
            loom::thread::spawn(move || shared.reclaim(By::Trim, 0, 0, &*memory).map(drop).unwrap())
        };
        let third = shared.of(0).lock().lines(10, 20, 10, &*memory).unwrap();
        assert_ne!(third.first / 64, second.first / 64, "a granule in use is nobody else's");
        shared.of(0).lock().give_small(second);
        other.join().unwrap();
        check(&shared, &memory);
        shared.of(0).lock().give_small(third);
        shared.reclaim(By::Trim, 0, 0, &*memory).unwrap();
        check(&shared, &memory);
        assert_eq!(memory.granules.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn loom_two_reclaim_at_once() {
    loom::model(|| {
        let shared = shards(1);
        let memory = Committed::up_to(64);
        let lines = shared.of(0).lock().lines(64, 64, 64, &*memory).unwrap();
        let large = {
            let mut pool = shared.of(0).lock();
            pool.give_small(lines);
            let claim = pool.claim();
            assert!(matches!(claim, Some(Claim::Granules(0, _))));
            pool.settle(claim.unwrap(), false);
            pool.lines(64, 64, 64, &*memory).unwrap()
        };
        let other = {
            let (shared, memory) = (shared.clone(), memory.clone());
            loom::thread::spawn(move || {
                shared.of(0).lock().give_small(large);
                shared.reclaim(By::Trim, 0, 0, &*memory).unwrap();
            })
        };
        shared.reclaim(By::Trim, 0, 0, &*memory).unwrap();
        other.join().unwrap();
        shared.reclaim(By::Trim, 0, 0, &*memory).unwrap();
        check(&shared, &memory);
        assert_eq!(memory.granules.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn loom_at_the_limit_one_waits_for_what_the_other_gives_back() {
    loom::model(|| {
        let shared = shards(1);
        let memory = Committed::up_to(1);
        let lines = shared.of(0).lock().lines(64, 64, 64, &*memory).unwrap();
        shared.of(0).lock().give_small(lines);
        let other = {
            let (shared, memory) = (shared.clone(), memory.clone());
            loom::thread::spawn(move || shared.reclaim(By::Trim, 0, 0, &*memory).map(drop).unwrap())
        };
        let again = shared
            .take_lines(0, (64, 64, 64), &*memory)
            .expect("the only granule is idle or on its way");
        other.join().unwrap();
        check(&shared, &memory);
        shared.of(0).lock().give_small(again);
        shared.reclaim(By::Trim, 0, 0, &*memory).unwrap();
        check(&shared, &memory);
    });
}

#[test]
fn loom_at_the_limit_what_another_shard_gives_back_is_waited_for() {
    loom::model(|| {
        let shared = shards(2);
        let memory = Committed::up_to(1);
        let lines = shared.take_lines(1, (64, 64, 64), &*memory).unwrap();
        assert!(lines.first > 0, "the other shard's");
        shared.of(lines.first).lock().give_small(lines);
        let other = {
            let (shared, memory) = (shared.clone(), memory.clone());
            loom::thread::spawn(move || shared.reclaim(By::Trim, 1, 0, &*memory).map(drop).unwrap())
        };
        let again = shared
            .take_lines(0, (64, 64, 64), &*memory)
            .expect("the only granule is idle or on its way");
        other.join().unwrap();
        check(&shared, &memory);
        shared.of(again.first).lock().give_small(again);
        shared.reclaim(By::Trim, 0, 0, &*memory).unwrap();
        check(&shared, &memory);
    });
}

/// An `Arc`'s count as a shard's [`Anchor`] and handles use it; any use after the end is found.
struct Alive {
    anchor: Brief<Anchor>,
    handles: AtomicUsize,
    strong: AtomicUsize,
    gone: AtomicBool,
}

impl Alive {
    /// With one handle.
    fn new() -> Arc<Alive> {
        let one = || AtomicUsize::new(1);
        Arc::new(Alive {
            anchor: Brief::new(Anchor::default()),
            handles: one(),
            strong: one(),
            gone: AtomicBool::new(false),
        })
    }

    fn look(&self) -> &Alive {
        assert!(!self.gone.load(Ordering::Relaxed), "the space is gone");
        self
    }

    fn handle(&self) {
        self.look().strong.fetch_add(1, Ordering::Relaxed);
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    fn release(&self) {
        if self.look().strong.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.gone.store(true, Ordering::Relaxed);
        }
    }

    fn drop_handle(&self) {
        if self.look().handles.fetch_sub(1, Ordering::AcqRel) == 1
            && self.look().anchor.lock().close()
        {
            self.release();
        }
        self.release();
    }

    fn begin(&self) {
        let anchored = self.look().anchor.lock().begin();
        if !anchored {
            self.look().strong.fetch_add(1, Ordering::Relaxed);
            let held = self.look().anchor.lock().hold();
            if !held {
                self.release();
            }
        }
        self.look();
    }

    fn end(&self) {
        let last = self.look().anchor.lock().end();
        if last {
            self.release();
        }
    }
}

#[test]
fn loom_the_last_handle_goes_while_the_last_arenas_of_two_threads_do() {
    loom::model(|| {
        let space = Alive::new();
        space.handle();
        let other = {
            let space = space.clone();
            loom::thread::spawn(move || {
                space.begin();
                space.drop_handle();
                space.end();
            })
        };
        space.begin();
        space.end();
        space.drop_handle();
        other.join().unwrap();
        assert!(space.gone.load(Ordering::Relaxed), "nobody is left, and the space is kept");
    });
}

#[test]
fn loom_an_arena_makes_a_handle_while_the_last_one_goes() {
    loom::model(|| {
        let space = Alive::new();
        space.begin();
        let other = {
            let space = space.clone();
            loom::thread::spawn(move || {
                // An arena's own handle, and an arena begun with it.
                space.handle();
                space.begin();
                space.end();
                space.drop_handle();
                space.end();
            })
        };
        space.drop_handle();
        other.join().unwrap();
        assert!(space.gone.load(Ordering::Relaxed), "nobody is left, and the space is kept");
    });
}
