//! The thread behind `Reclaim::Background`: it wakes up every interval and gives idle memory back.

use crate::pool::reclaim::By;
use crate::space::Shared;
use std::io;
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
pub(crate) struct Background(Arc<Signal>);

impl Background {
    pub(crate) fn new() -> Background {
        Background(Arc::default())
    }

    pub(crate) fn start(&self, space: Weak<Shared>, interval: Duration, keep_bytes: usize) -> io::Result<()> {
        let signal = self.0.clone();
        let run = move || {
            let mut stopped = signal.stopped.lock().unwrap_or_else(PoisonError::into_inner);
            while !*stopped {
                stopped = signal.changed.wait_timeout(stopped, interval).unwrap_or_else(PoisonError::into_inner).0;
                drop(stopped);
                let Some(space) = space.upgrade() else { return };
                // What the kernel refuses stays idle until the next time.
                let _ = space.reclaim(By::Background, keep_bytes);
                drop(space);
                stopped = signal.stopped.lock().unwrap_or_else(PoisonError::into_inner);
            }
        };
        std::thread::Builder::new().name("elastic-reclaim".into()).spawn(run).map(drop)
    }

    /// Tells the thread to end. It may be the one that calls, so nobody waits for it.
    pub(crate) fn stop(&self) {
        *self.0.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}
