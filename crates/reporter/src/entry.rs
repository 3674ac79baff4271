//! A registered callback. It may run on another thread, and may be removed at any time.
//!
//! Reporters and pressure callbacks are entries. A removed callback is guaranteed not to run any
//! more: a C program frees the callback's data next.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

thread_local! {
    /// Whether this thread runs callbacks now.
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// One callback that takes a `&mut A`.
pub(crate) struct Entry<A: ?Sized> {
    callback: Mutex<Option<Callback<A>>>,
    is_gone: AtomicBool,
    /// The process whose thread is inside the callback; 0: none.
    inside: AtomicU32,
}

pub(crate) type Callback<A> = Box<dyn FnMut(&mut A) + Send>;
/// All callbacks of one kind.
pub(crate) type List<A> = Mutex<Vec<Arc<Entry<A>>>>;

/// Locks. A panic under the lock leaves a list of pointers valid, so poisoning is ignored.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a callback.
pub(crate) fn add<A: ?Sized>(list: &List<A>, callback: Callback<A>) -> Arc<Entry<A>> {
    let entry = Arc::new(Entry {
        callback: Mutex::new(Some(callback)),
        is_gone: AtomicBool::new(false),
        inside: AtomicU32::new(0),
    });
    locked(list).push(Arc::clone(&entry));
    entry
}

/// Removes a callback, and waits until it has returned. Does not wait in two cases: within a
/// callback, which would wait for itself; and in a forked child of a process that was inside, where
/// no thread returns.
pub(crate) fn remove<A: ?Sized>(list: &List<A>, entry: &Arc<Entry<A>>) {
    locked(list).retain(|kept| !Arc::ptr_eq(kept, entry));
    entry.is_gone.store(true, Ordering::Release);
    let is_of_parent = || {
        let inside = entry.inside.load(Ordering::Acquire);
        inside != 0 && inside != std::process::id()
    };
    match entry.callback.try_lock() {
        Ok(mut callback) => drop(callback.take()),
        Err(TryLockError::WouldBlock) if RUNS.get() || is_of_parent() => {}
        Err(_) => drop(locked(&entry.callback).take()),
    }
}

/// Runs all callbacks of the list, none of them under the list's lock: they may add and remove.
/// `failed` gets each callback's panic message.
pub(crate) fn run_all<A: ?Sized>(
    list: &List<A>,
    with: &mut A,
    mut failed: impl FnMut(&mut A, String),
) {
    let entries: Vec<Arc<Entry<A>>> = locked(list).clone();
    let outer = RUNS.replace(true);
    for entry in entries {
        let Ok(mut callback) = entry.callback.try_lock().or_else(|error| match error {
            TryLockError::Poisoned(poisoned) => Ok(poisoned.into_inner()),
            // Another thread collects: waits for it, unless this thread runs inside of a
            // collection.
            TryLockError::WouldBlock if outer => Err(()),
            TryLockError::WouldBlock => Ok(locked(&entry.callback)),
        }) else {
            continue;
        };
        let Some(run) = callback.as_mut().filter(|_| !entry.is_gone.load(Ordering::Acquire)) else {
            continue;
        };
        entry.inside.store(std::process::id(), Ordering::Release);
        // A callback's own state after a panic is its own affair.
        let result = catch_unwind(AssertUnwindSafe(|| run(with)));
        entry.inside.store(0, Ordering::Release);
        if entry.is_gone.load(Ordering::Acquire) {
            drop(callback.take());
        }
        drop(callback);
        if let Err(panic) = result {
            failed(with, said(panic.as_ref()));
        }
    }
    RUNS.set(outer);
}

/// A panic's message.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
