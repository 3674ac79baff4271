//! Gives idle memory back, and lets a request without room wait for another thread that does so.
//!
//! No system call runs under a pool's lock, so memory on its way back is for a while neither idle
//! nor free. A request at the commit limit must not be refused for that, so it waits until the
//! running reclaims have ended. Only such a request asks. A request that finds room takes its home
//! shard's lock and nothing else.

use super::Memory;
use super::shards::{Asked, Held, Shard, Shards, home};
use crate::error::Error;
#[cfg(not(loom))]
use crate::sync::Kept;
use crate::sync::{Condvar, Mutex, lock, wait};
use heaplab_buddy::marks::mark;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// How often a request that finds no room has idle memory given back: others may be faster to take
/// it.
const ROUNDS: usize = 3;

/// The running reclaims, numbered in the order in which they began. A waiter waits only for those
/// that have begun, so a thread that reclaims again and again blocks nobody. With a lock for
/// reading and writing, a request would wait for a moment without any reclaim, perhaps as long as
/// such a thread has the only processor.
#[derive(Debug)]
pub struct Reclaiming {
    under_way: Mutex<UnderWay>,
    ended: Condvar,
    /// The lock, from before a fork until after it.
    #[cfg(not(loom))]
    kept: Kept<UnderWay>,
}

#[derive(Debug, Default)]
struct UnderWay {
    next: u64,
    /// One entry for each reclaiming thread.
    numbers: Vec<u64>,
    /// A thread is about to fork and waits for all reclaims to end: none may begin.
    closed: bool,
}

/// A running reclaim; dropping it ends it.
struct Reclaim<'a> {
    reclaiming: &'a Reclaiming,
    number: u64,
}

impl Reclaiming {
    /// Nobody reclaims.
    pub fn new() -> Reclaiming {
        Reclaiming {
            under_way: Mutex::new(UnderWay::default()),
            ended: Condvar::new(),
            #[cfg(not(loom))]
            kept: Kept::new(),
        }
    }

    /// Before a fork: returns when none is under way, and none begins until
    /// [`Reclaiming::release`]. A child would wait for ever for one that ends in its parent.
    ///
    /// # Safety
    /// As for [`Kept::keep`]; this thread is in no reclaim.
    #[cfg(not(loom))]
    pub unsafe fn hold(&self) {
        let mut under_way = lock(&self.under_way);
        under_way.closed = true;
        while !under_way.numbers.is_empty() {
            under_way = wait(&self.ended, under_way);
        }
        under_way.closed = false;
        // SAFETY: the caller's promise; the mutex lies beside what keeps its guard.
        unsafe { self.kept.keep(under_way) };
    }

    /// After it.
    ///
    /// # Safety
    /// As for [`Kept::take`].
    #[cfg(not(loom))]
    pub unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        drop(unsafe { self.kept.take() });
        self.ended.notify_all();
    }

    fn begin(&self) -> Reclaim<'_> {
        let mut under_way = lock(&self.under_way);
        while under_way.closed {
            under_way = wait(&self.ended, under_way);
        }
        let number = under_way.next;
        under_way.next += 1;
        under_way.numbers.push(number);
        Reclaim { reclaiming: self, number }
    }

    /// Returns when all have ended that have begun now.
    fn wait(&self) {
        let mut under_way = lock(&self.under_way);
        let next = under_way.next;
        while under_way.numbers.iter().any(|number| *number < next) {
            under_way = wait(&self.ended, under_way);
        }
    }
}

impl Drop for Reclaim<'_> {
    fn drop(&mut self) {
        lock(&self.reclaiming.under_way).numbers.retain(|number| *number != self.number);
        self.reclaiming.ended.notify_all();
    }
}

/// The reason for a reclaim, which tells who waits for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// An arena died, or a large block was given back.
    Return,
    /// The program called for a trim.
    Trim,
    /// The space's own thread.
    Background,
    /// A request met the commit limit or found no addresses.
    Room,
}

/// Time spent in the kernel's calls that took memory back, since the beginning, by reason. Two
/// readings of the clock enclose the calls for one claim (a large chunk, or the free pages of a
/// region), with no lock held; at least one system call lies between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "serde"), derive(serde::Serialize, serde::Deserialize))]
pub struct UncommitTimes {
    /// Of threads that let an arena or a large block go
    /// ([`Reclaim::AtReturn`](crate::Reclaim::AtReturn)).
    pub at_return_ns: u64,
    /// For calls of [`Space::trim`](crate::Space::trim).
    pub at_trim_ns: u64,
    /// Of the space's own thread ([`Reclaim::Background`](crate::Reclaim::Background)).
    pub background_ns: u64,
    /// Of threads that asked for memory at the commit limit or out of addresses.
    pub for_room_ns: u64,
    /// The longest of all at a time, for one claim.
    pub longest_ns: u64,
}

impl UncommitTimes {
    /// The sum.
    pub fn sum_ns(&self) -> u64 {
        self.at_return_ns + self.at_trim_ns + self.background_ns + self.for_room_ns
    }
}

/// The same while it is counted, by [`By`].
#[derive(Debug, Default)]
pub struct Clock {
    spent_ns: [AtomicU64; 4],
    longest_ns: AtomicU64,
}

impl Clock {
    fn note(&self, by: By, since: Instant) {
        let ns = since.elapsed().as_nanos() as u64;
        self.spent_ns[by as usize].fetch_add(ns, Ordering::Relaxed);
        self.longest_ns.fetch_max(ns, Ordering::Relaxed);
    }

    fn read(&self) -> UncommitTimes {
        let of = |by: By| self.spent_ns[by as usize].load(Ordering::Relaxed);
        UncommitTimes {
            at_return_ns: of(By::Return),
            at_trim_ns: of(By::Trim),
            background_ns: of(By::Background),
            for_room_ns: of(By::Room),
            longest_ns: self.longest_ns.load(Ordering::Relaxed),
        }
    }
}

impl Shards {
    /// The time that the kernel took, by reason.
    pub fn uncommit_times(&self) -> UncommitTimes {
        self.clock.read()
    }

    /// Gives idle memory back, that of the home shard first, until `keep_bytes` are left in all.
    /// Returns how many bytes went.
    pub fn reclaim(
        &self,
        by: By,
        home: usize,
        keep_bytes: usize,
        memory: &impl Memory,
    ) -> Result<usize, Error> {
        let _under_way = self.reclaiming.begin();
        let mut returned = 0;
        for shard in self.from(home) {
            returned += self.reclaim_of(by, shard, keep_bytes, memory)?;
        }
        Ok(returned)
    }

    fn reclaim_of(
        &self,
        by: By,
        shard: &Shard,
        keep_bytes: usize,
        memory: &impl Memory,
    ) -> Result<usize, Error> {
        let mut returned = 0;
        let mut held = shard.lock();
        while held.idle_bytes() + self.idle_bytes_beside(shard) > keep_bytes
            && let Some(claim) = held.claim()
        {
            let ranges = held.ranges(&claim);
            drop(held);
            mark("idle memory is being given back");
            let since = Instant::now();
            // SAFETY: the pool took the ranges out of circulation: they are committed, and no arena
            // has any part of them.
            let outcome = unsafe { shard.uncommit(&ranges, memory) };
            self.clock.note(by, since);
            held = shard.lock();
            match outcome {
                Ok(()) => held.settle(claim, true),
                Err((error, done)) => {
                    for (claim, uncommitted) in claim.split(&ranges[..done], self.shape) {
                        held.settle(claim, uncommitted);
                    }
                    return Err(error);
                }
            }
            returned += ranges.iter().map(Range::len).sum::<usize>();
        }
        Ok(returned)
    }

    /// Runs `step` on the asked shards in turn. If it meets the commit limit or the end of the
    /// addresses while memory of any shard is idle or on its way back, this gives idle memory back,
    /// waits for others who do so, and tries again. Idle chunks keep their addresses and do not
    /// merge.
    #[inline]
    pub fn with_room<T>(
        &self,
        asked: Asked,
        mut step: impl FnMut(&mut Held<'_>) -> Result<T, Error>,
        memory: &impl Memory,
    ) -> Result<T, Error> {
        // Not in the match itself, which would hold the lock until its end.
        let outcome = step(&mut self.first(asked).lock());
        match outcome {
            Err(Error::LimitReached { .. } | Error::AddressSpace { .. }) => {
                self.make_room(asked, step, memory)
            }
            outcome => outcome,
        }
    }

    #[cold]
    #[inline(never)]
    fn make_room<T>(
        &self,
        asked: Asked,
        mut step: impl FnMut(&mut Held<'_>) -> Result<T, Error>,
        memory: &impl Memory,
    ) -> Result<T, Error> {
        for _ in 0..ROUNDS {
            match self.ask(asked, &mut step) {
                Err(Error::LimitReached { .. } | Error::AddressSpace { .. }) => {}
                outcome => return outcome,
            }
            let (idle, claimed) = self.idle_and_claimed_bytes();
            if claimed > 0 {
                mark(
                    "at the commit limit or out of addresses: what another thread gives back is waited for",
                );
            }
            if idle + claimed == 0 {
                break;
            }
            mark("at the commit limit or out of addresses: idle memory is given back");
            self.reclaim(By::Room, home(), 0, memory)?;
            self.reclaiming.wait();
        }
        // Also if nothing was idle: memory on its way when a shard refused may have arrived before
        // this looked at the books.
        self.ask(asked, &mut step)
    }
}
