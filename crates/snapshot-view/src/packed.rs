//! Explains why a packed snapshot was not unpacked, and the remedy.

use heaplab_snapshot::packed::{Packing, UnpackError};
use heaplab_text::words::bytes;
use std::path::Path;

/// The zstd library's words for a frame whose window is too large. The `zstd` program unpacks such
/// a frame with an option.
const WINDOW_TOO_LARGE: &str = "too much memory";

/// The error and the remedy.
pub fn not_unpacked(packing: Packing, path: &Path, error: &UnpackError) -> String {
    let path = path.display();
    match error {
        UnpackError::Damaged { source, .. } if source.to_string().contains(WINDOW_TOO_LARGE) => {
            format!("cannot be unpacked: {source}; `unzstd --long=31 {path}` unpacks it to disk")
        }
        UnpackError::Damaged { unpacked_bytes: 0, source } => {
            format!("cannot be unpacked: {source}")
        }
        UnpackError::Damaged { unpacked_bytes, source } => {
            format!(
                "cannot be unpacked behind {}: {source}; `heaplab snapshot repair {path}` makes a file of that",
                bytes(*unpacked_bytes)
            )
        }
        UnpackError::NoSnapshot => error.to_string(),
        UnpackError::TooLarge { limit_bytes } => {
            let program = if packing == Packing::Gzip { "gunzip -k" } else { "unzstd" };
            format!(
                "unpacks to more than {}, half of the memory that is free; unpack it to disk with `{program} {path}` and name the file that this makes",
                bytes(*limit_bytes)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_is_not_unpacked() {
        // A frame of a window of 2 GiB (RFC 8878, 3.1.1.1.2), with one empty block that is its
        // last.
        let wide = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00];
        // A frame of 13 bytes that ends behind its first block.
        let begun =
            [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, 13, 12 << 3, 0, 0], &b"{\"snapshot\":"[..]].concat();
        for (packed, expected) in [
            (
                &wide[..],
                "cannot be unpacked: Frame requires too much memory for decoding; `unzstd --long=31 a` unpacks",
            ),
            (&wide[..6], "cannot be unpacked: "),
            (&[0x1f, 0x8b, 8, 0][..], "cannot be unpacked: "),
            (&begun[..], "behind 12 bytes: incomplete frame; `heaplab snapshot repair a` makes"),
        ] {
            let packing = Packing::of(packed).unwrap();
            let error = packing.unpack(packed, 1 << 20, &mut |_| ()).unwrap_err();
            let error = not_unpacked(packing, Path::new("a"), &error);
            assert!(error.contains(expected), "{error}");
        }
        let large = not_unpacked(
            Packing::Gzip,
            Path::new("a"),
            &UnpackError::TooLarge { limit_bytes: 1 << 20 },
        );
        assert!(
            large.starts_with("unpacks to more than 1.00 MiB, half of")
                && large.contains("`gunzip -k a`"),
            "{large}"
        );
        assert!(
            not_unpacked(Packing::Zstandard, Path::new("a"), &UnpackError::NoSnapshot)
                .ends_with("with {")
        );
    }
}
