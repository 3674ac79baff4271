//! Unpacks archived snapshots (`.gz`, `.zst`) into memory. The first bytes decide, not the name.
//!
//! A small file may unpack to any size. So the caller sets a limit, and unpacking stops there. A
//! file that does not begin like a snapshot is refused after its first piece.

use flate2::read::MultiGzDecoder;
use std::io::{self, Read};

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// RFC 1952, one member or several.
    Gzip,
    /// RFC 8878, one frame or several, with windows of up to 128 MiB.
    Zstandard,
}

/// Why it was not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The file is damaged, or needs more memory than its [`Packing`] may.
    #[error("cannot be unpacked behind {unpacked_bytes} bytes: {source}")]
    Damaged {
        /// What there was before.
        unpacked_bytes: u64,
        /// The library's message.
        source: io::Error,
    },
    /// The packed file is not a snapshot.
    #[error("unpacks to something that does not begin as a heap snapshot does, with {{")]
    NoSnapshot,
    /// The file unpacks to more than the caller allows.
    #[error("unpacks to more than {limit_bytes} bytes")]
    TooLarge {
        /// The caller's limit.
        limit_bytes: u64,
    },
}

/// Unpacked at once.
const PIECE_BYTES: u64 = 8 << 20;

impl Packing {
    /// By the first bytes. No snapshot begins like that.
    pub fn of(bytes: &[u8]) -> Option<Packing> {
        match bytes {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstandard),
            _ => None,
        }
    }

    /// The whole snapshot, if it has at most `limit_bytes`. `progress` gets the bytes so far.
    ///
    /// # Errors
    /// The file is damaged, no snapshot, or larger.
    pub fn unpack(
        self,
        packed: &[u8],
        limit_bytes: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Vec<u8>, UnpackError> {
        let mut all = Vec::new();
        self.unpack_into(&mut all, packed, limit_bytes, progress).map(|()| all)
    }

    /// The same into `all`, which keeps what comes before a damage.
    ///
    /// # Errors
    /// As [`Packing::unpack`].
    pub fn unpack_into(
        self,
        all: &mut Vec<u8>,
        packed: &[u8],
        limit_bytes: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), UnpackError> {
        let damaged = |all: &Vec<u8>, source| UnpackError::Damaged {
            unpacked_bytes: all.len() as u64,
            source,
        };
        let mut unpacking: Box<dyn Read> = match self {
            Packing::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Packing::Zstandard => {
                Box::new(zstd::Decoder::with_buffer(packed).map_err(|error| damaged(all, error))?)
            }
        };
        loop {
            let there = all.len() as u64;
            // Ask for one byte more than allowed: if it comes, the file is too large.
            let piece = PIECE_BYTES.min((limit_bytes - there).saturating_add(1));
            let read = unpacking
                .by_ref()
                .take(piece)
                .read_to_end(all)
                .map_err(|error| damaged(all, error))?;
            if read == 0 {
                return Ok(());
            }
            if there == 0 && !begins_as_snapshot(all) {
                return Err(UnpackError::NoSnapshot);
            }
            if all.len() as u64 > limit_bytes {
                return Err(UnpackError::TooLarge { limit_bytes });
            }
            progress(all.len() as u64);
        }
    }
}

/// Whether the first character, if there is one, is that of a snapshot.
fn begins_as_snapshot(unpacked: &[u8]) -> bool {
    unpacked.iter().find(|byte| !byte.is_ascii_whitespace()).is_none_or(|byte| *byte == b'{')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packing = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packing.write_all(bytes).unwrap();
        packing.finish().unwrap()
    }

    fn zstandard(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 1).unwrap()
    }

    fn unpack(packed: &[u8], limit_bytes: u64) -> Result<Vec<u8>, String> {
        Packing::of(packed)
            .unwrap()
            .unpack(packed, limit_bytes, &mut |_| ())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn both_kinds_are_unpacked_whole() {
        let text = b"{\"snapshot\":".repeat(2_000_000);
        for pack in [gzip, zstandard] {
            assert_eq!(unpack(&pack(&text), u64::MAX).unwrap(), text);
            assert_eq!(unpack(&pack(&text), text.len() as u64).unwrap(), text);
            assert_eq!(unpack(&pack(b""), 0).unwrap(), b"");
            // As `cat a.gz b.gz` makes one.
            assert_eq!(
                unpack(&[pack(b"{\"snap"), pack(b"shot\":")].concat(), u64::MAX).unwrap(),
                b"{\"snapshot\":"
            );
        }
        assert_eq!(Packing::of(b"{\"snapshot\":"), None);
        assert_eq!(Packing::of(b""), None);
    }

    #[test]
    fn what_is_too_large_cut_or_something_else_is_refused() {
        for pack in [gzip, zstandard] {
            let large = pack(&vec![b' '; 64 << 20]);
            assert!(large.len() < 1 << 20, "a small file");
            assert_eq!(unpack(&large, 1 << 20).unwrap_err(), "unpacks to more than 1048576 bytes");
            assert_eq!(unpack(&pack(b"{}"), 1).unwrap_err(), "unpacks to more than 1 bytes");
            assert!(
                unpack(&pack(&vec![0; 64 << 20]), u64::MAX)
                    .unwrap_err()
                    .contains("does not begin as a heap snapshot")
            );
            let packed = pack(&[b'{'; 100_000]);
            let cut = unpack(&packed[..packed.len() - 6], u64::MAX).unwrap_err();
            assert!(cut.contains("cannot be unpacked behind"), "{cut}");
            let (packing, mut begun) = (Packing::of(&packed).unwrap(), Vec::new());
            let text = (0..500_000).map(|number| format!("{{{number}")).collect::<String>();
            let half = pack(text.as_bytes());
            packing
                .unpack_into(&mut begun, &half[..half.len() / 2], u64::MAX, &mut |_| ())
                .unwrap_err();
            assert!(begun.len() > text.len() / 4 && text.as_bytes().starts_with(&begun));
            let mut heard = Vec::new();
            Packing::of(&packed)
                .unwrap()
                .unpack(&packed, u64::MAX, &mut |there| heard.push(there))
                .unwrap();
            assert_eq!(heard, [100_000]);
        }
    }
}
