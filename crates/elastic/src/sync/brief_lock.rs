//! A lock for brief visits that hardly ever meet: a shard's.
//!
//! Releasing the lock is a plain store. A futex lock needs a locked instruction, because the holder
//! must learn whether a thread sleeps. On x86-64 that waits until every earlier store has left the
//! core. Here those are the first words of blocks in fresh memory and the shard's books, many of
//! them cache misses: that wait was a third of the slow path's time (`perf annotate` of a replay of
//! churn, `cargo xtask bench elastic --only replay`).
//!
//! The price: nobody wakes a waiter up. It polls, soon at first and in the end every 50
//! microseconds, so that a holder that lost its processor gets it back, whatever the waiter's
//! priority. Shards make waiting rare.
//!
//! Loom tries the flag by itself; where it tries the pool, its own lock stands in, because every
//! look of a waiter would be a step to try.

#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody holds the lock.
#[cfg(any(not(loom), test))]
#[derive(Debug)]
struct Flag(AtomicBool);

#[cfg(any(not(loom), test))]
impl Flag {
    fn new() -> Flag {
        Flag(AtomicBool::new(false))
    }

    /// Waits until this thread has the lock.
    #[inline]
    fn take(&self) {
        if self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait();
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let mut looks = 0;
        while self.0.load(Ordering::Relaxed)
            || self
                .0
                .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            looks += 1;
            pause(looks);
        }
    }

    #[inline]
    fn release(&self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(all(loom, test))]
fn pause(_: usize) {
    loom::thread::yield_now();
}

#[cfg(loom)]
pub(crate) use stand_in::{Brief, BriefGuard};
#[cfg(not(loom))]
use this::pause;
#[cfg(not(loom))]
pub(crate) use this::{Brief, BriefGuard};

#[cfg(not(loom))]
mod this {
    use super::Flag;
    use std::cell::UnsafeCell;
    use std::ops::{Deref, DerefMut};
    use std::time::Duration;

    /// How often a waiter looks before it lets others run, and how often it has looked when it
    /// begins to rest.
    const LOOKS: usize = 64;
    const LOOKS_AND_YIELDS: usize = 80;
    /// Between two looks of one that rests.
    const REST: Duration = Duration::from_micros(50);

    pub(super) fn pause(looks: usize) {
        match looks {
            0..LOOKS => std::hint::spin_loop(),
            LOOKS..LOOKS_AND_YIELDS => std::thread::yield_now(),
            _ => std::thread::sleep(REST),
        }
    }

    /// The lock and the guarded value.
    #[derive(Debug)]
    pub(crate) struct Brief<T> {
        flag: Flag,
        value: UnsafeCell<T>,
    }

    // SAFETY: a thread with a reference to the value holds the lock, one thread at a time.
    unsafe impl<T: Send> Sync for Brief<T> {}

    /// The lock is held as long as this lives.
    #[derive(Debug)]
    pub(crate) struct BriefGuard<'a, T> {
        lock: &'a Brief<T>,
        /// A guard stays on its thread, and is shared with no other.
        _here: std::marker::PhantomData<*mut T>,
    }

    impl<T> Brief<T> {
        pub(crate) fn new(value: T) -> Brief<T> {
            Brief { flag: Flag::new(), value: UnsafeCell::new(value) }
        }

        /// Waits until nobody else holds the lock. A panicking holder releases it, and leaves
        /// nothing half done that a check would not see.
        #[inline]
        pub(crate) fn lock(&self) -> BriefGuard<'_, T> {
            self.flag.take();
            BriefGuard { lock: self, _here: std::marker::PhantomData }
        }
    }

    impl<T> Brief<T> {
        /// Takes the lock for the time of a fork.
        pub(crate) fn hold(&self) {
            self.flag.take();
        }

        /// Lets it go.
        ///
        /// # Safety
        /// This thread, or the thread of which it is a forked copy, called [`Brief::hold`].
        pub(crate) unsafe fn release(&self) {
            self.flag.release();
        }
    }

    impl<T> Deref for BriefGuard<'_, T> {
        type Target = T;

        #[inline]
        fn deref(&self) -> &T {
            // SAFETY: this thread holds the lock, and the guard is borrowed.
            unsafe { &*self.lock.value.get() }
        }
    }

    impl<T> DerefMut for BriefGuard<'_, T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: as above, and nobody else borrows the guard.
            unsafe { &mut *self.lock.value.get() }
        }
    }

    impl<T> Drop for BriefGuard<'_, T> {
        #[inline]
        fn drop(&mut self) {
            self.lock.flag.release();
        }
    }
}

#[cfg(loom)]
mod stand_in {
    pub(crate) use loom::sync::MutexGuard as BriefGuard;

    /// See the module.
    #[derive(Debug)]
    pub(crate) struct Brief<T>(loom::sync::Mutex<T>);

    impl<T> Brief<T> {
        pub(crate) fn new(value: T) -> Brief<T> {
            Brief(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> BriefGuard<'_, T> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }
}

#[cfg(all(test, loom))]
#[test]
fn loom_two_visits_do_not_overlap() {
    loom::model(|| {
        let shared = loom::sync::Arc::new((Flag::new(), loom::cell::UnsafeCell::new(0)));
        let visit = |(flag, value): &(Flag, loom::cell::UnsafeCell<i32>)| {
            flag.take();
            // SAFETY: loom fails where another visit overlaps or is not ordered before.
            value.with_mut(|value| unsafe { *value += 1 });
            flag.release();
        };
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || visit(&shared))
        };
        visit(&shared);
        other.join().unwrap();
        visit(&shared);
        // SAFETY: nobody else is left.
        shared.1.with(|value| assert_eq!(unsafe { *value }, 3));
    });
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn visits_do_not_overlap_and_all_of_them_count() {
        let (threads, visits) = if cfg!(miri) { (2, 20) } else { (8, 2_000) };
        let counts = Brief::new((0, 0));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..visits {
                        let mut held = counts.lock();
                        held.0 += 1;
                        // Here and there the holder loses its processor.
                        if held.0 % 512 == 0 {
                            std::thread::yield_now();
                        }
                        held.1 += 1;
                        assert_eq!(held.0, held.1);
                    }
                });
            }
        });
        assert_eq!(*counts.lock(), (threads * visits, threads * visits));
    }

    #[test]
    fn a_holder_that_panics_lets_it_go() {
        let lock = Brief::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut held = lock.lock();
            *held = 2;
            panic!("while it is held");
        }));
        assert!(panicked.is_err());
        assert_eq!(*lock.lock(), 2);
    }
}
