//! Forks. A child has one thread, and every lock that another thread of its parent held stays held
//! for good. So the forking thread first takes all locks of all spaces, after the last running
//! reclaim has ended. The child finds sound books and free locks.
//!
//! The handlers are those of pthread_atfork(3). A child made by other means (`_Fork`, a bare
//! clone(2)) must not use a space. A signal handler must not fork if it interrupted a call of this
//! crate: its own thread holds the lock for which the fork would wait.
//!
//! Nothing here asks for memory between the handlers, because the program's allocator may have
//! taken its locks by then.

use crate::space::Shared;
use crate::sync::{Kept, lock_std};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A space that is alive: its owner takes it off the list before it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listed(*const Shared);

// SAFETY: the pointer is followed only while the list is locked, and `Shared` is `Sync`.
unsafe impl Send for Listed {}

static SPACES: Mutex<Vec<Listed>> = Mutex::new(Vec::new());
/// The list's lock, from before a fork until after it.
static KEPT: Kept<Vec<Listed>> = Kept::new();
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Forks heed this space from now on, until [`forget`].
pub(crate) fn note(space: *const Shared) -> io::Result<()> {
    if cfg!(not(miri)) && !REGISTERED.swap(true, Ordering::AcqRel) {
        // SAFETY: the handlers live as long as this code; the C library forgets them when it
        // unloads the code.
        let refused = unsafe {
            libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child))
        };
        if refused != 0 {
            REGISTERED.store(false, Ordering::Release);
            return Err(io::Error::from_raw_os_error(refused));
        }
    }
    lock_std(&SPACES).push(Listed(space));
    Ok(())
}

/// The space goes.
pub(crate) fn forget(space: *const Shared) {
    let mut spaces = lock_std(&SPACES);
    if let Some(nth) = spaces.iter().position(|listed| *listed == Listed(space)) {
        spaces.swap_remove(nth);
    }
}

fn each(spaces: &[Listed], mut act: impl FnMut(&Shared)) {
    for listed in spaces {
        // SAFETY: a space is listed until it goes, for which it needs the list's lock.
        act(unsafe { &*listed.0 });
    }
}

extern "C" fn before() {
    let spaces = lock_std(&SPACES);
    // In this order: a reclaim that is waited for needs the shards' locks. SAFETY: this thread has
    // the list's lock until `after`, so that no other one is between the handlers.
    unsafe {
        each(&spaces, |space| space.shards.reclaiming.hold());
        each(&spaces, |space| space.background.iter().for_each(|background| background.hold()));
        each(&spaces, |space| space.shards.hold());
        KEPT.keep(spaces);
    }
}

fn after(in_child: bool) {
    // SAFETY: this thread, or the thread of which it is a copy, ran `before`, which took everything
    // that is released here.
    unsafe {
        let Some(spaces) = KEPT.take() else { return };
        each(&spaces, |space| {
            space.shards.release();
            space.background.iter().for_each(|background| background.release(in_child));
            space.shards.reclaiming.release();
        });
    }
}

extern "C" fn after_in_parent() {
    after(false);
}

extern "C" fn after_in_child() {
    after(true);
}
