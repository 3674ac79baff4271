//! Tells a benchmark the name of each phase of reading and analysing when the phase ends, on the
//! thread that ran it. The benchmark can then split time and CPU time by phase and thread. The
//! library reads no clock.

/// Called with a phase's name at its end.
pub type OnPhase = fn(&'static str);

/// A phase has ended.
#[inline]
pub(crate) fn ended(on_phase: Option<OnPhase>, name: &'static str) {
    if let Some(on_phase) = on_phase {
        on_phase(name);
    }
}
