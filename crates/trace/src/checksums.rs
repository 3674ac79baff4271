//! Whether wrong checksums are errors.
//!
//! A fuzzer would not get past a checksum, and the code behind must hold without one. So a process
//! of a fuzzer may accept wrong checksums; only the feature `fuzzing` has the function for that.

#[cfg(feature = "fuzzing")]
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(feature = "fuzzing")]
static ARE_COMPARED: AtomicBool = AtomicBool::new(true);

/// Accepts wrong checksums from now on, in the whole process.
#[cfg(feature = "fuzzing")]
pub fn accept_wrong() {
    ARE_COMPARED.store(false, Ordering::Relaxed);
}

/// Whether readers compare checksums.
pub fn are_compared() -> bool {
    #[cfg(feature = "fuzzing")]
    return ARE_COMPARED.load(Ordering::Relaxed);
    #[cfg(not(feature = "fuzzing"))]
    true
}
