//! Whether wrong checksums are errors.
//!
//! They are, except in a process that runs fuzz targets. A fuzzer would not get past a checksum,
//! and the code behind must hold without one.

use std::sync::atomic::{AtomicBool, Ordering};

static ARE_COMPARED: AtomicBool = AtomicBool::new(true);

/// Accepts wrong checksums from now on, in the whole process: for fuzz targets.
#[doc(hidden)]
pub fn accept_wrong() {
    ARE_COMPARED.store(false, Ordering::Relaxed);
}

/// Whether readers compare checksums.
pub fn are_compared() -> bool {
    ARE_COMPARED.load(Ordering::Relaxed)
}
