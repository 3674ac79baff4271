//! The thread behind `Reclaim::Background`: it wakes up every interval and gives idle memory back.
//!
//! A forked child lacks the thread and starts its own when the first arena dies in it.
//!
//! The thread is the C library's, not std's. std keeps a list of each thread's stack (for its
//! message about overflows), and a thread takes the list's lock when it begins and ends. In a child
//! forked at that moment nobody releases the lock, and a thread of std would wait for it before its
//! first line. So no thread of a space holds or awaits this lock.

use crate::pool::reclaim::By;
use crate::space::Shared;
use crate::sync::{Kept, lock_std};
use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Whether the thread is to stop.
#[derive(Debug, Default)]
struct Signal {
    stopped: Mutex<bool>,
    changed: Condvar,
}

/// A space's handle of its thread. The thread holds only a weak reference to the space and ends
/// with it.
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
        start_thread(Work {
            space: self.space.clone(),
            interval: self.interval,
            keep_bytes: self.keep_bytes,
            signal: self.signal.clone(),
        })
    }

    /// Whether nobody gives idle memory back, because only the parent has the thread.
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

    /// Tells the thread to end. The thread itself may call this, so nobody waits for its end.
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

/// The thread's work and everything it holds.
struct Work {
    space: Weak<Shared>,
    interval: Duration,
    keep_bytes: usize,
    signal: Arc<Signal>,
}

impl Work {
    fn run(&self) {
        let mut stopped = lock_std(&self.signal.stopped);
        while !*stopped {
            stopped = self
                .signal
                .changed
                .wait_timeout(stopped, self.interval)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            drop(stopped);
            let Some(space) = self.space.upgrade() else { return };
            // Memory that the kernel does not take stays idle until the next interval.
            let _ = space.reclaim(By::Background, self.keep_bytes);
            drop(space);
            stopped = lock_std(&self.signal.stopped);
        }
    }
}

/// Stack of the thread, bytes: a reclaim goes a few calls deep.
const STACK_BYTES: usize = 256 << 10;

fn start_thread(work: Work) -> io::Result<()> {
    let refused = |code: i32| match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    };
    let mut attributes = MaybeUninit::uninit();
    let mut thread = MaybeUninit::uninit();
    let work = Box::into_raw(Box::new(work));
    // SAFETY: the attributes are initialised before use and destroyed once. Only the new thread
    // owns the work, unless no thread started; then the work is taken back.
    unsafe {
        let attributes = attributes.as_mut_ptr();
        let begun = refused(libc::pthread_attr_init(attributes)).and_then(|()| {
            let started = refused(libc::pthread_attr_setstacksize(attributes, STACK_BYTES))
                .and_then(|()| {
                    let (thread, work) = (thread.as_mut_ptr(), work.cast());
                    refused(libc::pthread_create(thread, attributes, begin, work))
                });
            libc::pthread_attr_destroy(attributes);
            started
        });
        match begun {
            Ok(()) => refused(libc::pthread_detach(thread.assume_init())),
            Err(error) => {
                drop(Box::from_raw(work));
                Err(error)
            }
        }
    }
}

extern "C" fn begin(work: *mut c_void) -> *mut c_void {
    // SAFETY: `start_thread` gives its work to this thread alone.
    let work = unsafe { Box::from_raw(work.cast::<Work>()) };
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: it names the calling thread, by a text that ends with a zero.
    unsafe {
        libc::pthread_setname_np(libc::pthread_self(), c"elastic-reclaim".as_ptr());
    }
    // A panic ends this thread, as it would end a thread of std, and not the program.
    let _ = std::panic::catch_unwind(AssertUnwindSafe(|| work.run()));
    std::ptr::null_mut()
}
