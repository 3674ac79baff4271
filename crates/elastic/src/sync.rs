//! The locks of the shared part: the shards' own, and std's, or loom's where every interleaving is
//! tried.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p heaplab-elastic --lib loom`; Miri runs everything
//! else that makes no system call: `MIRIFLAGS="-Zmiri-strict-provenance -Zmiri-disable-isolation"
//! cargo +nightly miri test -p heaplab-elastic --lib`.

mod brief_lock;
mod fork_lock;

use std::sync::PoisonError;

pub(crate) use brief_lock::{Brief, BriefGuard};
pub(crate) use fork_lock::Kept;
#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

/// Takes the lock; a holder that panicked left nothing half done that a check would not see.
pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The same of std's own lock, where loom does not look.
pub(crate) fn lock_std<T>(shared: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a change, and releases the lock meanwhile.
pub(crate) fn wait<'a, T>(changed: &Condvar, held: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(held).unwrap_or_else(|poisoned| poisoned.into_inner())
}
