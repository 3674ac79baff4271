//! A lock that one thread holds across a fork: taken by a handler before, let go by another one
//! after, in parent and child.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::MutexGuard;

/// Where a lock's guard stays from before a fork until after it ([`crate::fork`]).
pub(crate) struct Kept<T: 'static>(UnsafeCell<Option<MutexGuard<'static, T>>>);

// SAFETY: only one thread touches the guard at a time, by the contracts of `keep` and `take`.
unsafe impl<T: Send> Sync for Kept<T> {}
// SAFETY: it is sent with its mutex, while it holds no guard.
unsafe impl<T: Send> Send for Kept<T> {}

impl<T> Kept<T> {
    pub(crate) const fn new() -> Kept<T> {
        Kept(UnsafeCell::new(None))
    }

    /// Keeps the guard.
    ///
    /// # Safety
    /// Nobody else touches this, and the mutex stays in place, until this thread, or its copy in a
    /// forked child, takes the guard.
    pub(crate) unsafe fn keep(&self, guard: MutexGuard<'_, T>) {
        // SAFETY: the mutex outlives the guard, as the caller promises; only the lifetime changes.
        let guard =
            unsafe { std::mem::transmute::<MutexGuard<'_, T>, MutexGuard<'static, T>>(guard) };
        // SAFETY: the caller's promise.
        unsafe { *self.0.get() = Some(guard) };
    }

    /// The guard that was kept, to be dropped.
    ///
    /// # Safety
    /// The thread that called [`Kept::keep`] calls this, or its copy in a forked child.
    pub(crate) unsafe fn take(&self) -> Option<MutexGuard<'static, T>> {
        // SAFETY: the caller's promise.
        unsafe { (*self.0.get()).take() }
    }
}

impl<T> fmt::Debug for Kept<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Kept")
    }
}
