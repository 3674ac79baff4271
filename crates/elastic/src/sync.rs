//! The locks of the shared part: the shards' own, std's lock for reading and writing, or loom's where every interleaving is tried.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p heaplab-elastic --lib loom`; Miri runs everything else that makes
//! no system call: `MIRIFLAGS="-Zmiri-strict-provenance -Zmiri-disable-isolation" cargo +nightly miri test -p heaplab-elastic --lib`.

mod brief;

pub(crate) use brief::{Brief, BriefGuard};
#[cfg(loom)]
pub(crate) use loom::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Takes the lock for reading; a holder that panicked left nothing half done that a check would not see.
pub(crate) fn read<T>(shared: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    shared.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Takes the lock for writing.
pub(crate) fn write<T>(shared: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    shared.write().unwrap_or_else(|poisoned| poisoned.into_inner())
}
