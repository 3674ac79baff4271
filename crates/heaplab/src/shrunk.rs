//! What is said when a file that heaplab has mapped becomes shorter, or its disk has no room for a page of it: the kernel answers the next
//! read with SIGBUS, of which a shell says "Bus error" and nothing more.
//!
//! Only for commands that map what others may change: cells of `replay` are told by their signal what befell them.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What is read, and what is said of it.
const MESSAGES: [&str; 2] = [
    "heaplab: a file of the spool became shorter while it was read, or its disk full:\n\
     recording ends here, and the program runs on. `heaplab recover SPOOL` finishes\n\
     what was recorded\n",
    "heaplab: the snapshot became shorter while it was read, or cannot be read:\n\
     let who writes it finish, and read it again\n",
];

/// Whose files are mapped.
#[derive(Clone, Copy, Debug)]
pub enum Mapped {
    /// A recording's that goes on.
    Spool,
    /// A heap snapshot.
    Snapshot,
}

static CHOSEN: AtomicUsize = AtomicUsize::new(0);

/// From here on a mapped file that becomes shorter ends heaplab with a sentence on it and exit code 1.
pub fn is_an_error(mapped: Mapped) {
    CHOSEN.store(mapped as usize, Ordering::Relaxed);
    let handler: extern "C" fn(libc::c_int) = say;
    // SAFETY: a sigaction of zeros is a valid one without flags and with an empty mask; `say` has the type that a handler without SA_SIGINFO
    // must have, and calls only what may be called from one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn say(_: libc::c_int) {
    let message = MESSAGES[CHOSEN.load(Ordering::Relaxed)];
    // SAFETY: write(2) and _exit(2) may be called from a signal handler, and the message is as long as it says.
    unsafe {
        libc::write(2, message.as_ptr().cast(), message.len());
        libc::_exit(1);
    }
}
