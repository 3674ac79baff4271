//! The thread behind `Reclaim::Background`: it wakes up every interval and gives idle memory back.
//!
//! A forked child has no such thread. It starts one of its own when the first arena dies in it.

use crate::pool::reclaim::By;
use crate::space::Shared;
use crate::sync::{Kept, lock_std};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Whether the thread is to stop.
#[derive(Debug, Default)]
struct Signal {
    stopped: Mutex<bool>,
    changed: Condvar,
}

/// A space's handle of its thread. The thread holds the space weakly and ends with it.
#[derive(Debug)]
pub(crate) struct Background {
    space: Weak<Shared>,
    interval: Duration,
    keep_bytes: usize,
    signal: Arc<Signal>,
    /// The signal's lock, from before a fork until after it.
    kept: Kept<bool>,
    /// This process is a child of the one that has the thread.
    orphaned: AtomicBool,
}

impl Background {
    pub(crate) fn new(space: Weak<Shared>, interval: Duration, keep_bytes: usize) -> Background {
        Background {
            space,
            interval,
            keep_bytes,
            signal: Arc::default(),
            kept: Kept::new(),
            orphaned: AtomicBool::new(false),
        }
    }

    pub(crate) fn start(&self) -> io::Result<()> {
        let (signal, space, interval, keep_bytes) =
            (self.signal.clone(), self.space.clone(), self.interval, self.keep_bytes);
        let run = move || {
            let mut stopped = lock_std(&signal.stopped);
            while !*stopped {
                stopped = signal
                    .changed
                    .wait_timeout(stopped, interval)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                drop(stopped);
                let Some(space) = space.upgrade() else { return };
                // What the kernel refuses stays idle until the next time.
                let _ = space.reclaim(By::Background, keep_bytes);
                drop(space);
                stopped = lock_std(&signal.stopped);
            }
        };
        std::thread::Builder::new().name("elastic-reclaim".into()).spawn(run).map(drop)
    }

    /// Whether nobody gives idle memory back, because the thread is the parent's.
    #[inline]
    pub(crate) fn is_orphaned(&self) -> bool {
        self.orphaned.load(Ordering::Relaxed)
    }

    /// Starts a thread in a forked child that has none. Fails where there can be none; then the
    /// next call tries again.
    pub(crate) fn adopt(&self) -> io::Result<()> {
        if self.orphaned.swap(false, Ordering::Relaxed)
            && let Err(error) = self.start()
        {
            self.orphaned.store(true, Ordering::Relaxed);
            return Err(error);
        }
        Ok(())
    }

    /// Tells the thread to end. It may be the one that calls, so nobody waits for it.
    pub(crate) fn stop(&self) {
        *lock_std(&self.signal.stopped) = true;
        self.signal.changed.notify_all();
    }

    /// Before a fork: the thread gets no further than to its next wait.
    ///
    /// # Safety
    /// As for [`Kept::keep`].
    pub(crate) unsafe fn hold(&self) {
        // SAFETY: the caller's promise; the signal lives as long as this.
        unsafe { self.kept.keep(lock_std(&self.signal.stopped)) };
    }

    /// After it.
    ///
    /// # Safety
    /// As for [`Kept::take`].
    pub(crate) unsafe fn release(&self, in_child: bool) {
        // SAFETY: the caller's promise.
        drop(unsafe { self.kept.take() });
        if in_child {
            self.orphaned.store(true, Ordering::Relaxed);
        }
    }
}
