//! What heaplab does when a signal arrives: [`bus`] when a mapped file became shorter while it was
//! read, [`interrupts`] when somebody ends the work.

pub mod bus;
pub mod interrupts;
