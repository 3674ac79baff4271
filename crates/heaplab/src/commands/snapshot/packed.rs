//! Packed snapshots on the command line: how much may come of one, and what to do where that is not
//! enough.
//!
//! A file that is not packed is mapped, and its pages are the system's to drop; what is unpacked
//! stays. So there is a limit, half of the memory that is free, and beyond it the user is told the
//! command that unpacks to disk.

use anyhow::{Result, anyhow};
use heaplab_snapshot::packed::{Packing, UnpackError};
use heaplab_snapshot_view::packed::not_unpacked;
use std::path::Path;

/// What may be unpacked where the system does not say what is free.
const LIMIT_BYTES: u64 = 4 << 30;

/// All of a packed file, or where its beginning is enough what comes before a damage. `progress`
/// hears how much there is so far.
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

/// Half of the memory that is free.
fn limit_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = text.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    free.map_or(LIMIT_BYTES, |kilobytes| kilobytes * 1024 / 2)
}
