//! The pool behind its lock, every interleaving of two threads tried: what is claimed by one that reclaims is never handed
//! to one that allocates, the books add up, and at the limit nobody is refused what is on its way.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p heaplab-elastic --lib loom`

use super::reclaim::{Reclaiming, Refused};
use super::shape::Shape;
use super::{Claim, Memory, Pool};
use crate::Error;
use crate::sync::{Mutex, lock};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use std::ops::Range;

/// Stands in for the kernel: one bit a granule that is committed, and no granule may be committed or uncommitted twice.
struct Committed {
    granules: AtomicU64,
    limit: u32,
}

fn bits(range: &Range<usize>) -> u64 {
    (range.start / GRANULE..range.end / GRANULE).fold(0, |bits, granule| bits | 1 << (granule % 64))
}

impl Memory for Committed {
    fn commit(&self, range: Range<usize>) -> Result<(), Error> {
        let before = self.granules.load(Ordering::Relaxed);
        if (before | bits(&range)).count_ones() > self.limit {
            let (asked_bytes, limit_bytes) = (range.len(), self.limit as usize * GRANULE);
            return Err(heaplab_address_space::Error::LimitReached { asked_bytes, committed_bytes: limit_bytes, limit_bytes }.into());
        }
        let before = self.granules.fetch_or(bits(&range), Ordering::Relaxed);
        assert_eq!(before & bits(&range), 0, "committed twice: {range:?}");
        Ok(())
    }
}

impl Committed {
    fn up_to(limit: u32) -> Arc<Committed> {
        Arc::new(Committed { granules: AtomicU64::new(0), limit })
    }

    fn uncommit(&self, range: &Range<usize>) {
        let before = self.granules.fetch_and(!bits(range), Ordering::Relaxed);
        assert_eq!(before & bits(range), bits(range), "uncommitted twice: {range:?}");
    }
}

const GRANULE: usize = 4096;

/// What threads share.
type Shared = (Mutex<Pool>, Reclaiming);

fn shared() -> Arc<Shared> {
    Arc::new((Mutex::new(Pool::new(Shape::new(GRANULE, 64 * GRANULE, 1).unwrap())), Reclaiming::new()))
}

fn reclaim((pool, reclaiming): &Shared, memory: &Committed) -> Result<(), Error> {
    let uncommit = |_: &Claim, ranges: &[Range<usize>]| -> Result<(), Refused> {
        ranges.iter().for_each(|range| memory.uncommit(range));
        Ok(())
    };
    reclaiming.reclaim(pool, 0, uncommit).map(drop)
}

fn check((pool, _): &Shared, memory: &Committed) {
    let mut pool = lock(pool);
    pool.check_deep().unwrap();
    assert_eq!(pool.committed_bytes(), memory.granules.load(Ordering::Relaxed).count_ones() as usize * GRANULE);
}

#[test]
fn loom_one_allocates_while_the_other_reclaims() {
    loom::model(|| {
        let shared = shared();
        let memory = Committed::up_to(64);
        let first = lock(&shared.0).take_lines(64, 64, 64, &*memory).unwrap();
        let second = lock(&shared.0).take_lines(64, 64, 64, &*memory).unwrap();
        lock(&shared.0).return_small(first);
        let other = {
            let (shared, memory) = (shared.clone(), memory.clone());
            loom::thread::spawn(move || reclaim(&shared, &memory).unwrap())
        };
        let third = lock(&shared.0).take_lines(10, 20, 10, &*memory).unwrap();
        assert_ne!(third.first / 64, second.first / 64, "a granule in use is nobody else's");
        lock(&shared.0).return_small(second);
        other.join().unwrap();
        check(&shared, &memory);
        lock(&shared.0).return_small(third);
        reclaim(&shared, &memory).unwrap();
        check(&shared, &memory);
        assert_eq!(memory.granules.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn loom_two_reclaim_at_once() {
    loom::model(|| {
        let shared = shared();
        let memory = Committed::up_to(64);
        let lines = lock(&shared.0).take_lines(64, 64, 64, &*memory).unwrap();
        let large = {
            let mut pool = lock(&shared.0);
            pool.return_small(lines);
            let claim = pool.claim();
            assert!(matches!(claim, Some(Claim::Granules(0, _))));
            pool.settle(claim.unwrap(), false);
            pool.take_lines(64, 64, 64, &*memory).unwrap()
        };
        let other = {
            let (shared, memory) = (shared.clone(), memory.clone());
            loom::thread::spawn(move || {
                lock(&shared.0).return_small(large);
                reclaim(&shared, &memory).unwrap();
            })
        };
        reclaim(&shared, &memory).unwrap();
        other.join().unwrap();
        reclaim(&shared, &memory).unwrap();
        check(&shared, &memory);
        assert_eq!(memory.granules.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn loom_at_the_limit_one_waits_for_what_the_other_gives_back() {
    loom::model(|| {
        let shared = shared();
        let memory = Committed::up_to(1);
        let lines = lock(&shared.0).take_lines(64, 64, 64, &*memory).unwrap();
        lock(&shared.0).return_small(lines);
        let other = {
            let (shared, memory) = (shared.clone(), memory.clone());
            loom::thread::spawn(move || reclaim(&shared, &memory).unwrap())
        };
        let step = |pool: &mut Pool| pool.take_lines(64, 64, 64, &*memory);
        let again = shared.1.with_room(&shared.0, step, || reclaim(&shared, &memory)).expect("the only granule is idle or on its way");
        other.join().unwrap();
        check(&shared, &memory);
        lock(&shared.0).return_small(again);
        reclaim(&shared, &memory).unwrap();
        check(&shared, &memory);
    });
}
