//! Makes the machine the same for every measurement.
//!
//! A virtual machine whose free memory is reported to its host gets it back piece by piece at its
//! first touch, at some ten times the price of clearing it. Which measurement pays is chance, and
//! the larger ones pay more often. So before each one as much memory as the largest needs is
//! touched here and given back: the measured process then takes pages that the machine has, and
//! still pays for mapping and clearing each. Linux begins to report what was given back two seconds
//! later and goes on piece by piece, with what would be taken next; so it is given back when the
//! measured process is about to begin, and is more than is needed.

use anyhow::{Context, Result};
use std::path::Path;

/// Memory that reading a file and its summary take with two threads, times the file: 1.47 for a
/// JSON-heavy one, and more for headers and stacks.
const MEMORY_A_BYTE: f64 = 1.6;

/// What may be reported while a process is measured.
const REPORTED_BYTES: usize = 1 << 30;

/// How much memory to prepare for measuring these files, bytes.
pub fn needed_bytes(files: &[&Path]) -> Result<usize> {
    let mut largest = 0;
    for file in files {
        largest =
            largest.max(std::fs::metadata(file).with_context(|| file.display().to_string())?.len());
    }
    Ok((largest as f64 * MEMORY_A_BYTE) as usize + REPORTED_BYTES)
}

/// Memory that is held; it is given back when this is dropped.
pub struct Prepared {
    _memory: memmap2::MmapMut,
}

/// Touches so much memory.
pub fn touch(bytes: usize) -> Result<Prepared> {
    let mut memory =
        memmap2::MmapMut::map_anon(bytes.max(1)).context("memory to prepare the machine with")?;
    // A kernel without huge pages refuses, and small ones do as well.
    #[cfg(target_os = "linux")]
    memory.advise(memmap2::Advice::HugePage).ok();
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    Ok(Prepared { _memory: memory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_as_the_largest_needs() {
        let folder = tempfile::tempdir().unwrap();
        let (small, large) = (folder.path().join("small"), folder.path().join("large"));
        std::fs::write(&small, [0; 10]).unwrap();
        std::fs::write(&large, [0; 1000]).unwrap();
        assert_eq!(needed_bytes(&[&small, &large]).unwrap(), 1600 + REPORTED_BYTES);
        assert!(needed_bytes(&[&folder.path().join("none")]).is_err());
        touch(1 << 20).unwrap();
        touch(0).unwrap();
    }
}
