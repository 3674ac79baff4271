//! Makes the machine the same for every measurement.
//!
//! A virtual machine that reports its free memory to its host gets it back piece by piece at its
//! first touch, at some ten times the price of clearing it. Chance decides which measurement pays,
//! and larger ones pay more often. So before each measurement as much memory as the largest needs
//! is touched here and given back. The measured process then takes pages that the machine already
//! has, and still pays for mapping and clearing each. Linux begins to report returned memory two
//! seconds later and continues piece by piece, with the memory that would be taken next. So the
//! memory is returned just before the measured process begins, and is more than necessary.

use anyhow::{Context, Result};
use std::path::Path;

/// Memory of reading a file and of its summary with two threads, as a multiple of the file: 1.47
/// for a JSON-heavy one, and more for headers and stacks.
const MEMORY_A_BYTE: f64 = 1.6;

/// Memory that Linux may report during a measurement.
const REPORTED_BYTES: usize = 1 << 30;

/// Memory to prepare for these files, bytes.
pub fn needed_bytes(files: &[&Path]) -> Result<usize> {
    let mut largest = 0;
    for file in files {
        largest =
            largest.max(std::fs::metadata(file).with_context(|| file.display().to_string())?.len());
    }
    Ok((largest as f64 * MEMORY_A_BYTE) as usize + REPORTED_BYTES)
}

/// Held memory; dropping this gives it back.
pub struct Prepared {
    _memory: memmap2::MmapMut,
}

/// Touches so much memory.
pub fn touch(bytes: usize) -> Result<Prepared> {
    let mut memory =
        memmap2::MmapMut::map_anon(bytes.max(1)).context("memory to prepare the machine with")?;
    // A kernel without huge pages refuses, and small ones will do.
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
