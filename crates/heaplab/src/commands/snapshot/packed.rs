//! Snapshots that were packed for the archive (`.gz`, `.zst`): unpacked into memory, by what they begin with and whatever they are called.
//!
//! A file that is not packed is mapped, and its pages are the system's to drop; what is unpacked stays. So there is a limit, half of the memory that is free,
//! and beyond it (a small file may unpack to anything) the user is told the command that unpacks to disk.

use anyhow::{Result, bail, ensure};
use flate2::read::MultiGzDecoder;
use heaplab_findings::words::bytes;
use std::io::Read;
use std::path::Path;

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Gzip,
    Zstandard,
}

/// Unpacked at once.
const PIECE_BYTES: u64 = 8 << 20;
/// What may be unpacked where the system does not say what is free.
const LIMIT_BYTES: u64 = 4 << 30;

impl Packing {
    /// By the first bytes. No snapshot begins like that.
    pub fn of(bytes: &[u8]) -> Option<Packing> {
        match bytes {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstandard),
            _ => None,
        }
    }

    /// The program that unpacks it.
    fn program(self) -> &'static str {
        match self {
            Packing::Gzip => "gunzip -k",
            Packing::Zstandard => "unzstd",
        }
    }

    /// All of it. `progress` hears how much there is so far.
    pub fn unpack(self, path: &Path, packed: &[u8], progress: &mut dyn FnMut(u64)) -> Result<Vec<u8>> {
        self.within(path, packed, limit_bytes(), progress)
    }

    fn within(self, path: &Path, packed: &[u8], limit_bytes: u64, progress: &mut dyn FnMut(u64)) -> Result<Vec<u8>> {
        let (path, program) = (path.display(), self.program());
        let mut unpacking: Box<dyn Read> = match self {
            Packing::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Packing::Zstandard => Box::new(zstd::Decoder::with_buffer(packed)?),
        };
        let mut all = Vec::new();
        loop {
            let read = unpacking.by_ref().take(PIECE_BYTES).read_to_end(&mut all);
            let there = all.len() as u64;
            match read {
                Ok(0) => return Ok(all),
                Ok(_) => progress(there),
                Err(error) => {
                    bail!("{path}: cannot be unpacked behind {}: {error}; `{program} {path}` may keep what there is", bytes(there))
                }
            }
            let is_first = there <= PIECE_BYTES;
            ensure!(
                !is_first || begins_as_snapshot(&all),
                "{path}: unpacks to something that does not begin as a heap snapshot does, with {{"
            );
            ensure!(
                there <= limit_bytes,
                "{path}: unpacks to more than {}, half of the memory that is free; unpack it to disk with `{program} {path}` and name the file \
                 that this makes",
                bytes(limit_bytes)
            );
        }
    }
}

/// Whether the first character, if there is one, is that of a snapshot. Looked at before all is unpacked: a small file can unpack to anything.
fn begins_as_snapshot(unpacked: &[u8]) -> bool {
    unpacked.iter().find(|byte| !byte.is_ascii_whitespace()).is_none_or(|byte| *byte == b'{')
}

/// Half of the memory that is free.
fn limit_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    free.map_or(LIMIT_BYTES, |kilobytes| kilobytes * 1024 / 2)
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

    fn unpack(packed: &[u8], limit_bytes: u64) -> Result<Vec<u8>, String> {
        let packing = Packing::of(packed).unwrap();
        packing.within(Path::new("a"), packed, limit_bytes, &mut |_| ()).map_err(|error| error.to_string())
    }

    #[test]
    fn both_kinds_are_unpacked_whole() {
        let text = b"{\"snapshot\":".repeat(2_000_000);
        assert_eq!(unpack(&gzip(&text), u64::MAX).unwrap(), text);
        assert_eq!(unpack(&zstd::encode_all(&text[..], 1).unwrap(), u64::MAX).unwrap(), text);
        // As `cat a.gz b.gz` makes one.
        let two = [gzip(b"{\"snap"), gzip(b"shot\":")].concat();
        assert_eq!(unpack(&two, u64::MAX).unwrap(), b"{\"snapshot\":");
        assert_eq!(Packing::of(b"{\"snapshot\":"), None);
        assert_eq!(Packing::of(b""), None);
    }

    #[test]
    fn what_is_too_large_or_cut_says_what_to_do() {
        let large = gzip(&vec![b' '; 64 << 20]);
        assert!(large.len() < 1 << 20, "a small file");
        let refused = unpack(&large, 1 << 20).unwrap_err();
        assert!(refused.contains("more than 1.00 MiB") && refused.contains("`gunzip -k a`"), "{refused}");
        let zeros = unpack(&zstd::encode_all(&vec![0; 64 << 20][..], 1).unwrap(), u64::MAX).unwrap_err();
        assert!(zeros.contains("does not begin as a heap snapshot"), "{zeros}");
        for packed in [gzip(&[7; 100_000]), zstd::encode_all(&[7; 100_000][..], 1).unwrap()] {
            let cut = unpack(&packed[..packed.len() - 6], u64::MAX).unwrap_err();
            assert!(cut.contains("cannot be unpacked behind"), "{cut}");
        }
    }
}
