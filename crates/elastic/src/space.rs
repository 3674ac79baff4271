//! A space: reserved addresses, the pool that assigns them, and the reclaim policy.
//!
//! Arenas of a space may live on any threads. They share the pool, in shards with a lock each. A
//! lock is taken when an arena begins, ends, or needs another chunk, never for an allocation within
//! a chunk. System calls that give memory back run outside of the locks.
//!
//! Arenas keep their space alive, but not with a count of the `Arc` each: all threads would write
//! to that one word. A shard counts its own arenas, and has one count of the `Arc` for them
//! ([`crate::pool::anchor`]).

use crate::background::Background;
use crate::fork;
use crate::options::INTERVAL_MIN;
use crate::pool::Memory;
use crate::pool::reclaim::By;
use crate::pool::shape::Shape;
use crate::pool::shards::{Shards, home};
use crate::{Arena, Error, Growth, Options, Reclaim};
use heaplab_address_space::{Reservation, ReservationOptions};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A pool of chunks that arenas share. A clone is another handle of the same space; the space lives
/// until its last handle and its last arena are gone.
///
/// A process may fork at any time: [fork(2)](https://man7.org/linux/man-pages/man2/fork.2.html)
/// waits until no other thread is in a space. The child may use every space, and the arenas of the
/// thread that forked. Arenas of other threads stay as they were: nobody ends them there, and their
/// spaces keep their memory. Exceptions: a signal handler that interrupted a call of this crate
/// must not fork, nor code that bypasses the C library's handlers (`_Fork`, clone(2)).
#[derive(Debug)]
pub struct Space(pub(crate) Arc<Shared>);

/// What handles and arenas share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) reservation: Reservation,
    pub(crate) shards: Shards,
    pub(crate) options: Options,
    pub(crate) shape: Shape,
    pub(crate) background: Option<Background>,
    /// Of type [`Space`]. When there is none left, shards drop their counts with their last arenas.
    handles: AtomicUsize,
}

impl Memory for Reservation {
    fn commit(&self, range: Range<usize>) -> Result<(), Error> {
        Ok(Reservation::commit(self, range)?)
    }

    unsafe fn uncommit(&self, range: Range<usize>) -> Result<(), Error> {
        // SAFETY: the caller promises that nobody has any part of the range.
        Ok(unsafe { Reservation::uncommit(self, range) }?)
    }
}

impl Default for Space {
    /// # Panics
    /// Where not even a root of 16 MB of addresses can be reserved.
    fn default() -> Space {
        Space::new(Options::default()).expect("the default reservation")
    }
}

impl Space {
    /// Reserves the addresses. Nothing is committed until an arena allocates.
    pub fn new(options: Options) -> Result<Space, Error> {
        Space::with_shards(options, Shards::for_this_machine)
    }

    /// The same with shards as a test wants them.
    pub(crate) fn with_shards(
        mut options: Options,
        shards: impl FnOnce(Shape) -> Shards,
    ) -> Result<Space, Error> {
        if let Reclaim::Background { interval, .. } = &mut options.reclaim {
            *interval = (*interval).max(INTERVAL_MIN);
        }
        let (reservation, shape) = reserve(&options)?;
        let shared = Arc::new_cyclic(|space| {
            let background = match options.reclaim {
                Reclaim::Background { interval, keep_bytes } => {
                    Some(Background::new(space.clone(), interval, keep_bytes))
                }
                _ => None,
            };
            Shared {
                reservation,
                shards: shards(shape),
                options,
                shape,
                background,
                handles: AtomicUsize::new(0),
            }
        });
        let space = Space::handle(shared);
        fork::note(Arc::as_ptr(&space.0)).map_err(Error::Fork)?;
        if let Some(background) = &space.0.background {
            background.start().map_err(Error::Thread)?;
        }
        Ok(space)
    }

    /// One more handle.
    pub(crate) fn handle(shared: Arc<Shared>) -> Space {
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Space(shared)
    }

    /// Begins an arena that grows by `growth`. It takes no memory until its first allocation. That
    /// allocation can fail; beginning cannot fail today.
    pub fn arena(&self, growth: Growth) -> Result<Arena, Error> {
        Arena::new(self, growth)
    }

    /// The space's options.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// Committed bytes: in use, and idle. The difference of two counters: while other threads
    /// commit and give back it may for a moment be more than ever was committed, and more than the
    /// limit, which itself is never exceeded.
    pub fn committed_bytes(&self) -> usize {
        self.0.reservation.committed_bytes()
    }

    /// Committed bytes that no arena uses.
    pub fn idle_bytes(&self) -> usize {
        self.0.shards.idle_bytes()
    }

    /// Arenas alive.
    pub fn arenas(&self) -> usize {
        self.0.shards.arenas()
    }

    /// Gives all idle memory back to the kernel, and returns how many bytes that were. If the
    /// kernel refuses, returns an error, and the refused memory stays idle.
    pub fn trim(&self) -> Result<usize, Error> {
        self.0.reclaim(By::Trim, 0)
    }

    /// Whether the address belongs to the space, used or not.
    pub fn contains(&self, address: *const u8) -> bool {
        self.0.reservation.addresses().contains(&address.addr())
    }

    /// Checks every invariant of the pool against the reservation; the error names the broken one.
    /// For tests: no arena may begin, end or grow meanwhile.
    #[doc(hidden)]
    pub fn check_deep(&self) -> Result<(), String> {
        let (books, counted) = (self.0.shards.check_deep()?, self.committed_bytes());
        if books != counted {
            return Err(format!(
                "{books} bytes are committed in the books, {counted} in the reservation"
            ));
        }
        Ok(())
    }
}

/// The requested addresses; for the default, as many as the system grants
/// ([`Options::RESERVE_BYTES`]).
fn reserve(options: &Options) -> Result<(Reservation, Shape), Error> {
    let wanted = options.shape()?;
    let with = ReservationOptions {
        align_bytes: wanted.root_bytes(),
        limit: options.limit.clone(),
        no_huge_pages: !options.huge_pages,
        huge_pages: options.huge_pages,
        faults: options.faults.clone(),
        ..ReservationOptions::default()
    };
    let of = |shape: Shape| Reservation::new(shape.reserved_bytes(), &with);
    let (mut shape, mut outcome) = (wanted, of(wanted));
    while outcome.is_err() && options.reserve_bytes == Options::RESERVE_BYTES && shape.roots > 1 {
        shape = shape.with_roots(shape.roots / 2);
        outcome = of(shape);
    }
    let mut reservation = outcome?;
    if shape.roots < wanted.roots && shape.roots > 1 {
        shape = shape.with_roots(shape.roots / 2);
        // The larger one goes first: both together may be too much.
        drop(reservation);
        reservation = of(shape)?;
    }
    Ok((reservation, shape))
}

impl Shared {
    /// Gives idle memory back until `keep_bytes` are left.
    pub(crate) fn reclaim(&self, by: By, keep_bytes: usize) -> Result<usize, Error> {
        self.shards.reclaim(by, home(), keep_bytes, &self.reservation)
    }

    /// Whether [`Shared::after_return`] may have work. Asked during a visit to a shard that has not
    /// published its idle bytes yet.
    #[inline]
    pub(crate) fn may_reclaim(&self, shard_idle_bytes: usize) -> bool {
        match self.options.reclaim {
            Reclaim::AtReturn { keep_bytes } => {
                self.shards.maybe_more_idle_than(keep_bytes, shard_idle_bytes)
            }
            Reclaim::Background { .. } => {
                self.background.as_ref().is_some_and(Background::is_orphaned)
            }
            Reclaim::AtTrim => false,
        }
    }

    /// Acts on the policy after an arena's death, given the idle bytes of the shard it returned to.
    pub(crate) fn after_return(&self, shard_idle_bytes: usize) {
        match self.options.reclaim {
            Reclaim::AtReturn { keep_bytes }
                if self.shards.more_idle_than(keep_bytes, shard_idle_bytes) =>
            {
                // Memory that the kernel does not take stays idle until the next death.
                let _ = self.reclaim(By::Return, keep_bytes / 2);
            }
            Reclaim::Background { keep_bytes, .. } => {
                let adopted =
                    self.background.as_ref().map_or(Ok(()), |background| background.adopt());
                if adopted.is_err() && self.shards.more_idle_than(keep_bytes, shard_idle_bytes) {
                    // No thread can be had: the caller does the thread's work.
                    let _ = self.reclaim(By::Return, keep_bytes);
                }
            }
            _ => {}
        }
    }
}

impl Clone for Space {
    fn clone(&self) -> Space {
        Space::handle(self.0.clone())
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        for shard in self.0.shards.all() {
            if shard.lock().anchor.close() {
                // SAFETY: the count that the shard held is this thread's now; this handle has
                // another one until the end.
                unsafe { Arc::decrement_strong_count(Arc::as_ptr(&self.0)) };
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        fork::forget(self);
        if let Some(background) = &self.background {
            background.stop();
        }
    }
}
