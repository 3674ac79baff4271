//! A space: reserved addresses, the pool that says who has which, and the reclaim policy.
//!
//! Arenas of a space may live on any threads. What they share is the pool behind one lock, taken when an arena begins,
//! ends, or needs another chunk; never for an allocation within a chunk. System calls that give memory back are made
//! outside of the lock.

use crate::background::Background;
use crate::options::INTERVAL_MIN;
use crate::pool::reclaim::{Reclaiming, Refused};
use crate::pool::shape::Shape;
use crate::pool::{Claim, Memory, Pool};
use crate::sync::{Mutex, lock};
use crate::{Arena, Error, Growth, Options, Reclaim};
use heaplab_address_space::{Options as ReservationOptions, Reservation};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A pool of chunks that arenas share. A clone is another handle of the same space; the space lives until its last
/// handle and its last arena are gone.
///
/// A process that forks while another thread is in a space must not use that space in the child, as with any lock.
#[derive(Clone, Debug)]
pub struct Space(pub(crate) Arc<Shared>);

/// What handles and arenas share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) reservation: Reservation,
    pub(crate) pool: Mutex<Pool>,
    pub(crate) options: Options,
    pub(crate) shape: Shape,
    pub(crate) arenas: AtomicUsize,
    pub(crate) reclaiming: Reclaiming,
    background: Option<Background>,
}

impl Memory for Reservation {
    fn commit(&self, range: Range<usize>) -> Result<(), Error> {
        Ok(Reservation::commit(self, range)?)
    }
}

impl Default for Space {
    /// # Panics
    /// Where the address space cannot be reserved.
    fn default() -> Space {
        Space::new(Options::default()).expect("the default reservation")
    }
}

impl Space {
    /// Reserves the addresses. Nothing is committed until an arena begins.
    pub fn new(mut options: Options) -> Result<Space, Error> {
        if let Reclaim::Background { interval, .. } = &mut options.reclaim {
            *interval = (*interval).max(INTERVAL_MIN);
        }
        let shape = options.shape()?;
        let reservation = Reservation::new(
            shape.reserved_bytes(),
            &ReservationOptions {
                align_bytes: shape.root_bytes(),
                limit: options.limit.clone(),
                no_huge_pages: !options.huge_pages,
                huge_pages: options.huge_pages,
                faults: options.faults.clone(),
                ..ReservationOptions::default()
            },
        )?;
        let background = match options.reclaim {
            Reclaim::Background { .. } => Some(Background::new()),
            _ => None,
        };
        let pool = Mutex::new(Pool::new(shape));
        let (arenas, reclaiming) = (AtomicUsize::new(0), Reclaiming::new());
        let space = Space(Arc::new(Shared { reservation, pool, options, shape, arenas, reclaiming, background }));
        if let (Some(background), Reclaim::Background { interval, keep_bytes }) = (&space.0.background, space.0.options.reclaim) {
            background.start(Arc::downgrade(&space.0), interval, keep_bytes).map_err(Error::Thread)?;
        }
        Ok(space)
    }

    /// Begins an arena that grows as `growth` says. It takes its first chunk here.
    pub fn arena(&self, growth: Growth) -> Result<Arena, Error> {
        Arena::new(self, growth)
    }

    /// What the space was made with.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// Committed bytes: in use, and idle.
    pub fn committed_bytes(&self) -> usize {
        self.0.reservation.committed_bytes()
    }

    /// Committed bytes that no arena uses.
    pub fn idle_bytes(&self) -> usize {
        lock(&self.0.pool).idle_bytes()
    }

    /// Arenas alive.
    pub fn arenas(&self) -> usize {
        self.0.arenas.load(Ordering::Relaxed)
    }

    /// Gives all idle memory back to the kernel. Returns how many bytes that were; an error where the kernel refused, with
    /// everything that it refused still idle.
    pub fn trim(&self) -> Result<usize, Error> {
        self.0.reclaim(0)
    }

    /// Whether the address belongs to the space, used or not.
    pub fn contains(&self, address: *const u8) -> bool {
        self.0.reservation.addresses().contains(&address.addr())
    }

    /// Checks every invariant of the pool against the reservation; says which one is broken. For tests: no arena may
    /// begin, end or grow meanwhile.
    #[doc(hidden)]
    pub fn check_deep(&self) -> Result<(), String> {
        let mut pool = lock(&self.0.pool);
        pool.check_deep()?;
        let (books, counted) = (pool.committed_bytes(), self.committed_bytes());
        if books != counted {
            return Err(format!("{books} bytes are committed in the books, {counted} in the reservation"));
        }
        Ok(())
    }
}

impl Shared {
    /// Gives idle memory back until `keep_bytes` are left.
    pub(crate) fn reclaim(&self, keep_bytes: usize) -> Result<usize, Error> {
        self.reclaiming.reclaim(&self.pool, keep_bytes, |claim, ranges| self.uncommit(claim, ranges))
    }

    /// Uncommits a claim's ranges. After a failure, the parts of the claim with whether each is uncommitted.
    fn uncommit(&self, claim: &Claim, ranges: &[Range<usize>]) -> Result<(), Refused> {
        for (nth, range) in ranges.iter().enumerate() {
            // SAFETY: the pool took the range out of circulation: it is committed, and no arena has any of it.
            if let Err(error) = unsafe { self.reservation.uncommit(range.clone()) } {
                return Err((error.into(), claim.split(&ranges[..nth], self.shape)));
            }
        }
        Ok(())
    }

    /// After an arena's death: what the policy wants.
    pub(crate) fn after_return(&self, idle_bytes: usize) {
        match self.options.reclaim {
            Reclaim::AtReturn { keep_bytes } if idle_bytes > keep_bytes => {
                // What the kernel refuses to take stays idle and is offered again at the next death.
                let _ = self.reclaim(keep_bytes / 2);
            }
            _ => {}
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(background) = &self.background {
            background.stop();
        }
    }
}
