//! Giving idle memory back, and a request that finds no room while another thread does so.
//!
//! No system call is made under the pool's lock, so memory that is being given back is for a while neither idle nor free. A
//! request at the commit limit must not be refused for that: it waits until the reclaims under way have ended. Only
//! such a request asks; whoever finds room takes the pool's lock and nothing else.

use super::{Claim, Pool};
use crate::error::Error;
use crate::sync::{Mutex, RwLock, lock, read, write};
use heaplab_buddy::marks::mark;
use std::ops::Range;

/// How often a request that finds no room has idle memory given back: others may be faster to take it.
const ROUNDS: usize = 3;

/// The parts of a claim that could not be given back as a whole, with whether each is uncommitted, and why.
pub type Refused = (Error, Vec<(Claim, bool)>);

/// Held for reading by whoever reclaims.
#[derive(Debug)]
pub struct Reclaiming(RwLock<()>);

impl Reclaiming {
    /// Nobody reclaims.
    pub fn new() -> Reclaiming {
        Reclaiming(RwLock::new(()))
    }

    /// Gives idle memory back through `uncommit` until `keep_bytes` are left. Returns how many bytes went.
    pub fn reclaim(
        &self,
        pool: &Mutex<Pool>,
        keep_bytes: usize,
        uncommit: impl Fn(&Claim, &[Range<usize>]) -> Result<(), Refused>,
    ) -> Result<usize, Error> {
        let mut returned = 0;
        let _under_way = read(&self.0);
        let mut held = lock(pool);
        while held.idle_bytes() > keep_bytes
            && let Some(claim) = held.claim()
        {
            let ranges = held.ranges(&claim);
            drop(held);
            let outcome = uncommit(&claim, &ranges);
            held = lock(pool);
            match outcome {
                Ok(()) => held.settle(claim, true),
                Err((error, parts)) => {
                    for (claim, uncommitted) in parts {
                        held.settle(claim, uncommitted);
                    }
                    return Err(error);
                }
            }
            returned += ranges.iter().map(Range::len).sum::<usize>();
        }
        Ok(returned)
    }

    /// Runs `step` under the pool's lock; where it meets the commit limit, or the end of the address space, while memory lies idle or
    /// is on its way, has it given back (`reclaim_all`), waits for others who do so, and tries again: idle chunks keep their
    /// addresses and do not merge.
    pub fn with_room<T>(
        &self,
        pool: &Mutex<Pool>,
        mut step: impl FnMut(&mut Pool) -> Result<T, Error>,
        reclaim_all: impl Fn() -> Result<(), Error>,
    ) -> Result<T, Error> {
        for _ in 0..ROUNDS {
            let mut held = lock(pool);
            match step(&mut held) {
                Err(Error::LimitReached { .. } | Error::AddressSpace { .. }) if held.idle_bytes() + held.claimed_bytes() > 0 => {
                    if held.claimed_bytes() > 0 {
                        mark("at the commit limit or out of addresses: what another thread gives back is waited for");
                    }
                    drop(held);
                    mark("at the commit limit or out of addresses: idle memory is given back");
                    reclaim_all()?;
                    // Everyone who reclaims now has ended when this is had.
                    drop(write(&self.0));
                }
                outcome => return outcome,
            }
        }
        step(&mut lock(pool))
    }
}
