//! The lock around the pool: std's, or loom's where every interleaving is tried.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p heaplab-elastic --lib loom`; Miri runs everything else that makes
//! no system call: `MIRIFLAGS="-Zmiri-strict-provenance -Zmiri-disable-isolation" cargo +nightly miri test -p heaplab-elastic --lib`.

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Locks; a holder that panicked left nothing half done that a check would not see.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
