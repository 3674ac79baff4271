//! Memory pressure: asks the program to drop data that it can make again.

use crate::entry::{self, Entry, List};
use std::sync::{Arc, Mutex};

static CALLBACKS: List<Vec<String>> = Mutex::new(Vec::new());

/// A registered callback; dropping it unregisters.
#[must_use = "dropping the handle unregisters the callback"]
pub struct PressureHandle(Option<Arc<Entry<Vec<String>>>>);

impl std::fmt::Debug for PressureHandle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PressureHandle")
    }
}

impl PressureHandle {
    /// Keeps the callback until the program ends.
    pub fn forever(mut self) {
        self.0 = None;
    }
}

impl Drop for PressureHandle {
    fn drop(&mut self) {
        if let Some(entry) = self.0.take() {
            entry::remove(&CALLBACKS, &entry);
        }
    }
}

/// Adds a callback that drops caches. It runs on the thread that calls [`relieve`]: the server's,
/// for `heaplab pressure PID`.
pub fn on_pressure(mut callback: impl FnMut() + Send + 'static) -> PressureHandle {
    let entry = entry::add(&CALLBACKS, Box::new(move |_: &mut Vec<String>| callback()));
    PressureHandle(Some(entry))
}

/// Runs all callbacks; returns their number, and a sentence on each that panicked. Afterwards asks
/// glibc to return free memory to the system.
pub fn relieve() -> (usize, Vec<String>) {
    let mut errors = Vec::new();
    let callbacks = entry::locked(&CALLBACKS).len();
    entry::run_all(&CALLBACKS, &mut errors, |errors, panic| {
        errors.push(format!("a pressure callback panicked: {panic}"));
    });
    crate::system::trim();
    (callbacks, errors)
}
