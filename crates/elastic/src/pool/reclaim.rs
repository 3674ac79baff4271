//! Giving idle memory back, and a request that finds no room while another thread does so.
//!
//! No system call is made under a pool's lock, so memory that is being given back is for a while neither idle nor free. A
//! request at the commit limit must not be refused for that: it waits until the reclaims under way have ended. Only
//! such a request asks; whoever finds room takes its home shard's lock and nothing else.

use super::Memory;
use super::shards::{Asked, Held, Shard, Shards, home};
use crate::error::Error;
use crate::sync::{RwLock, read, write};
use heaplab_buddy::marks::mark;
use std::ops::Range;

/// How often a request that finds no room has idle memory given back: others may be faster to take it.
const ROUNDS: usize = 3;

/// Held for reading by whoever reclaims.
#[derive(Debug)]
pub struct Reclaiming(RwLock<()>);

impl Reclaiming {
    /// Nobody reclaims.
    pub fn new() -> Reclaiming {
        Reclaiming(RwLock::new(()))
    }
}

impl Shards {
    /// Gives idle memory back, that of the home shard first, until `keep_bytes` are left in all. Returns how many bytes went.
    pub fn reclaim(&self, home: usize, keep_bytes: usize, memory: &impl Memory) -> Result<usize, Error> {
        let _under_way = read(&self.reclaiming.0);
        let mut returned = 0;
        for shard in self.from(home) {
            returned += self.reclaim_of(shard, keep_bytes, memory)?;
        }
        Ok(returned)
    }

    fn reclaim_of(&self, shard: &Shard, keep_bytes: usize, memory: &impl Memory) -> Result<usize, Error> {
        let mut returned = 0;
        let mut held = shard.lock();
        while held.idle_bytes() + self.idle_bytes_beside(shard) > keep_bytes
            && let Some(claim) = held.claim()
        {
            let ranges = held.ranges(&claim);
            drop(held);
            // SAFETY: the pool took the ranges out of circulation: they are committed, and no arena has any of them.
            let outcome = unsafe { shard.uncommit(&ranges, memory) };
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

    /// Runs `step` on the shards asked; where it meets the commit limit, or the end of the addresses, while memory of any shard lies
    /// idle or is on its way, has it given back, waits for others who do so, and tries again: idle chunks keep their
    /// addresses and do not merge.
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
            Err(Error::LimitReached { .. } | Error::AddressSpace { .. }) => self.make_room(asked, step, memory),
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
                mark("at the commit limit or out of addresses: what another thread gives back is waited for");
            }
            if idle + claimed == 0 {
                break;
            }
            mark("at the commit limit or out of addresses: idle memory is given back");
            self.reclaim(home(), 0, memory)?;
            // Everyone who reclaims now has ended when this is had.
            drop(write(&self.reclaiming.0));
        }
        // Also where nothing was idle: what was on its way when a shard refused may have arrived before the books were looked at.
        self.ask(asked, &mut step)
    }
}
