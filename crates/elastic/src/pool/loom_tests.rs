//! The pool behind its lock, every interleaving of two threads tried: what is claimed by one that reclaims is never handed
//! to one that allocates, and the books add up.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p heaplab-elastic --lib loom`

use super::shape::Shape;
use super::{Claim, Memory, Pool};
use crate::Error;
use crate::sync::{Mutex, lock};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use std::ops::Range;

/// Stands in for the kernel: one bit a granule that is committed, and no granule may be committed or uncommitted twice.
struct Committed(AtomicU64);

fn bits(range: &Range<usize>) -> u64 {
    (range.start / GRANULE..range.end / GRANULE).fold(0, |bits, granule| bits | 1 << (granule % 64))
}

impl Memory for Committed {
    fn commit(&self, range: Range<usize>) -> Result<(), Error> {
        let before = self.0.fetch_or(bits(&range), Ordering::Relaxed);
        assert_eq!(before & bits(&range), 0, "committed twice: {range:?}");
        Ok(())
    }
}

impl Committed {
    fn uncommit(&self, range: &Range<usize>) {
        let before = self.0.fetch_and(!bits(range), Ordering::Relaxed);
        assert_eq!(before & bits(range), bits(range), "uncommitted twice: {range:?}");
    }
}

const GRANULE: usize = 4096;

/// What `Shared::reclaim` does.
fn reclaim(pool: &Mutex<Pool>, memory: &Committed) {
    let mut held = lock(pool);
    while let Some(claim) = held.claim() {
        let ranges = held.ranges(&claim);
        drop(held);
        ranges.iter().for_each(|range| memory.uncommit(range));
        held = lock(pool);
        held.settle(claim, true);
    }
}

fn check(pool: &Mutex<Pool>, memory: &Committed) {
    let mut pool = lock(pool);
    pool.check_deep().unwrap();
    assert_eq!(pool.committed_bytes(), memory.0.load(Ordering::Relaxed).count_ones() as usize * GRANULE);
}

#[test]
fn loom_one_allocates_while_the_other_reclaims() {
    loom::model(|| {
        let pool = Arc::new(Mutex::new(Pool::new(Shape::new(GRANULE, 64 * GRANULE, 1).unwrap())));
        let memory = Arc::new(Committed(AtomicU64::new(0)));
        let first = lock(&pool).take_lines(64, 64, 64, &*memory).unwrap();
        let second = lock(&pool).take_lines(64, 64, 64, &*memory).unwrap();
        lock(&pool).return_small(first);
        let other = {
            let (pool, memory) = (pool.clone(), memory.clone());
            loom::thread::spawn(move || reclaim(&pool, &memory))
        };
        let third = lock(&pool).take_lines(10, 20, 10, &*memory).unwrap();
        assert_ne!(third.first / 64, second.first / 64, "a granule in use is nobody else's");
        lock(&pool).return_small(second);
        other.join().unwrap();
        check(&pool, &memory);
        lock(&pool).return_small(third);
        reclaim(&pool, &memory);
        check(&pool, &memory);
        assert_eq!(memory.0.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn loom_two_reclaim_at_once() {
    loom::model(|| {
        let pool = Arc::new(Mutex::new(Pool::new(Shape::new(GRANULE, 64 * GRANULE, 1).unwrap())));
        let memory = Arc::new(Committed(AtomicU64::new(0)));
        let lines = lock(&pool).take_lines(64, 64, 64, &*memory).unwrap();
        let large = {
            let mut pool = lock(&pool);
            pool.return_small(lines);
            let claim = pool.claim();
            assert!(matches!(claim, Some(Claim::Granules(0, _))));
            pool.settle(claim.unwrap(), false);
            pool.take_lines(64, 64, 64, &*memory).unwrap()
        };
        let other = {
            let (pool, memory) = (pool.clone(), memory.clone());
            loom::thread::spawn(move || {
                lock(&pool).return_small(large);
                reclaim(&pool, &memory);
            })
        };
        reclaim(&pool, &memory);
        other.join().unwrap();
        reclaim(&pool, &memory);
        check(&pool, &memory);
        assert_eq!(memory.0.load(Ordering::Relaxed), 0);
    });
}
