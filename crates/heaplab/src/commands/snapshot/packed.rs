//! Packed snapshots on the command line, unpacked into memory up to a limit.
//!
//! heaplab maps a file that is not packed, and the system may drop its pages. Unpacked bytes stay
//! in memory. So the limit is half of the free memory; beyond it, the error names the command that
//! unpacks to disk.

use anyhow::{Result, anyhow};
use heaplab_snapshot::packed::{Packing, UnpackError};
use heaplab_snapshot_view::packed::not_unpacked;
use std::path::Path;

/// The limit if the system does not report its free memory.
const LIMIT_BYTES: u64 = 4 << 30;

/// All of a packed file, or, where the beginning is enough, the bytes before a damage. `progress`
/// gets the number of bytes so far.
pub fn unpack(
    packing: Packing,
    path: &Path,
    packed: &[u8],
    begun_is_enough: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    match packing.unpack_into(&mut unpacked, packed, limit_bytes(), progress) {
        Err(error @ UnpackError::Damaged { .. }) if begun_is_enough && !unpacked.is_empty() => {
            eprintln!("heaplab: {}: {error}", path.display());
            Ok(unpacked)
        }
        Err(error) => Err(anyhow!("{}: {}", path.display(), not_unpacked(packing, path, &error))),
        Ok(()) => Ok(unpacked),
    }
}

/// Half of the free memory.
fn limit_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = text.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    free.map_or(LIMIT_BYTES, |kilobytes| kilobytes * 1024 / 2)
}
