//! What a benchmark is told while a snapshot is read and analysed: the name of each phase when it
//! ends, on the thread that ran it, so that time and CPU time can be told apart by phase and
//! thread. The library looks at no clock itself.

/// Called with a phase's name at its end.
pub type OnPhase = fn(&'static str);

/// A phase has ended.
#[inline]
pub(crate) fn ended(on_phase: Option<OnPhase>, name: &'static str) {
    if let Some(on_phase) = on_phase {
        on_phase(name);
    }
}
