//! Packed snapshots on the command line: how much may come of one, and what to do where that is not
//! enough.
//!
//! A file that is not packed is mapped, and its pages are the system's to drop; what is unpacked
//! stays. So there is a limit, half of the memory that is free, and beyond it the user is told the
//! command that unpacks to disk.

use anyhow::{Result, anyhow};
use heaplab_snapshot::packed::{Packing, UnpackError};
use heaplab_text::words::bytes;
use std::path::Path;

/// What may be unpacked where the system does not say what is free.
const LIMIT_BYTES: u64 = 4 << 30;
/// How the library says that a frame's window is larger than it takes; the program takes it when it
/// is told to.
const WINDOW_TOO_LARGE: &str = "too much memory";

/// All of a packed file. `progress` hears how much there is so far.
pub fn unpack(
    packing: Packing,
    path: &Path,
    packed: &[u8],
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<u8>> {
    packing
        .unpack(packed, limit_bytes(), progress)
        .map_err(|error| anyhow!("{}: {}", path.display(), said(packing, path, &error)))
}

/// What is wrong, and what to do.
fn said(packing: Packing, path: &Path, error: &UnpackError) -> String {
    let program = match (packing, error) {
        (Packing::Gzip, _) => "gunzip -k",
        (Packing::Zstandard, UnpackError::Damaged { source, .. })
            if source.to_string().contains(WINDOW_TOO_LARGE) =>
        {
            "unzstd --long=31"
        }
        (Packing::Zstandard, _) => "unzstd",
    };
    let path = path.display();
    match error {
        UnpackError::Damaged { unpacked_bytes, source } => {
            format!(
                "cannot be unpacked behind {}: {source}; `{program} {path}` may keep what there is",
                bytes(*unpacked_bytes)
            )
        }
        UnpackError::NoSnapshot => error.to_string(),
        UnpackError::TooLarge { limit_bytes } => format!(
            "unpacks to more than {}, half of the memory that is free; unpack it to disk with `{program} {path}` and name the file that this makes",
            bytes(*limit_bytes)
        ),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_is_said() {
        // A frame of a window of 2 GiB (RFC 8878, 3.1.1.1.2), with one empty block that is its
        // last.
        let wide = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00];
        for (packed, expected) in [
            (
                &wide[..],
                "a: cannot be unpacked behind 0 bytes: Frame requires too much memory for decoding; `unzstd --long=31 a` may keep",
            ),
            (&wide[..6], "a: cannot be unpacked behind 0 bytes: "),
            (&[0x1f, 0x8b, 8, 0][..], "; `gunzip -k a` may keep what there is"),
        ] {
            let error = unpack(Packing::of(packed).unwrap(), Path::new("a"), packed, &mut |_| ())
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
        let large =
            said(Packing::Gzip, Path::new("a"), &UnpackError::TooLarge { limit_bytes: 1 << 20 });
        assert!(
            large.starts_with("unpacks to more than 1.00 MiB, half of")
                && large.contains("`gunzip -k a`"),
            "{large}"
        );
        assert!(
            said(Packing::Zstandard, Path::new("a"), &UnpackError::NoSnapshot).ends_with("with {")
        );
    }
}
