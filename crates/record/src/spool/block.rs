//! A block of the spool: a 64-byte header, then the payload (docs/spool-format.md, "Blocks").
//!
//! Pure functions over bytes, because `recover` reads the remains of a crash: they believe nothing
//! before its checksum, and bound lengths before use.

/// Bytes of a block's header.
pub const HEADER_BYTES: usize = 64;
/// Most bytes of a payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
const MAGIC: [u8; 4] = *b"HLsB";

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum BlockKind {
    /// One JSON object: see [`super::note::Note`].
    Note = 2,
    /// Records of one ring, in order.
    Records = 4,
}

/// A ring: the process image's number in the spool and the ring's number in that image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct RingId {
    /// The operating system's number of the process.
    pub pid: u32,
    /// Counts the images (fork, exec) of that process.
    pub seq: u32,
    /// Counts the rings of that image.
    pub ring: u32,
    /// The ring's nested part, for events inside of events.
    pub nested: bool,
}

/// A block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The payload's kind.
    pub kind: BlockKind,
    /// Bytes of payload.
    pub payload_bytes: u32,
    /// Records in it.
    pub records: u32,
    /// The records' ring; zero for notes.
    pub ring: RingId,
    /// Words of the ring before this block.
    pub begin_position: u64,
    /// Words of the ring up to the end of this block.
    pub end_position: u64,
    /// Base of the first record's stamp difference.
    pub base_stamp: u64,
}

/// Why bytes are not a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockDamage {
    /// The file ends within it.
    #[error("it ends within a block")]
    Torn,
    /// No block header where a block should begin.
    #[error("no block begins there")]
    Header,
    /// Records of spool version 2 or 3.
    #[error("an older heaplab wrote it: finish it with that version")]
    Version,
    /// The checksum differs.
    #[error("a block's checksum does not match its content")]
    Checksum,
    /// A record that no encoder writes.
    #[error("a record in a block cannot be read")]
    Record,
}

impl Header {
    /// The header's bytes, with the checksum of header and payload.
    pub fn to_bytes(&self, payload: &[u8]) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&(self.kind as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.records.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.ring.pid.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.ring.seq.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.ring.ring.to_le_bytes());
        bytes[28] = u8::from(self.ring.nested);
        bytes[32..40].copy_from_slice(&self.begin_position.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.end_position.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.base_stamp.to_le_bytes());
        let checksum = checksum(&bytes, payload);
        bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Parses a header; [`verify`] checks its checksum together with the payload.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Result<Header, BlockDamage> {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let kind = match u16::from_le_bytes([bytes[4], bytes[5]]) {
            // Records have a process, and notes have none: a note with a flipped bit is no older
            // version.
            1 | 3 if bytes[0..4] == MAGIC && u32_at(16) != 0 => return Err(BlockDamage::Version),
            2 => BlockKind::Note,
            4 => BlockKind::Records,
            _ => return Err(BlockDamage::Header),
        };
        let header = Header {
            kind,
            payload_bytes: u32_at(8),
            records: u32_at(12),
            ring: RingId {
                pid: u32_at(16),
                seq: u32_at(20),
                ring: u32_at(24),
                nested: bytes[28] == 1,
            },
            begin_position: u64_at(32),
            end_position: u64_at(40),
            base_stamp: u64_at(48),
        };
        let fits = header.payload_bytes as usize <= PAYLOAD_BYTES_MAX
            && header.records <= header.payload_bytes.max(1);
        if bytes[0..4] != MAGIC || !fits || header.end_position < header.begin_position {
            return Err(BlockDamage::Header);
        }
        Ok(header)
    }
}

fn checksum(header: &[u8; HEADER_BYTES], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..60]);
    hasher.update(payload);
    hasher.finalize()
}

/// Whether header and payload match their checksum.
pub fn verify(header: &[u8; HEADER_BYTES], payload: &[u8]) -> Result<(), BlockDamage> {
    let stated = u32::from_le_bytes([header[60], header[61], header[62], header[63]]);
    if !heaplab_trace::checksums::are_compared() || checksum(header, payload) == stated {
        Ok(())
    } else {
        Err(BlockDamage::Checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example(payload: &[u8]) -> Header {
        Header {
            kind: BlockKind::Records,
            payload_bytes: payload.len() as u32,
            records: 2,
            ring: RingId { pid: 7, seq: 1, ring: 3, nested: true },
            begin_position: 10,
            end_position: 18,
            base_stamp: 1 << 40,
        }
    }

    #[test]
    fn a_header_survives_and_every_flipped_bit_is_seen() {
        let payload = [1, 2, 3, 4, 5];
        let header = example(&payload);
        let bytes = header.to_bytes(&payload);
        assert_eq!(Header::from_bytes(&bytes), Ok(header));
        assert_eq!(verify(&bytes, &payload), Ok(()));
        for bit in 0..(HEADER_BYTES + payload.len()) * 8 {
            let (mut bytes, mut payload) = (bytes, payload);
            match bit / 8 {
                at if at < HEADER_BYTES => bytes[at] ^= 1 << (bit % 8),
                at => payload[at - HEADER_BYTES] ^= 1 << (bit % 8),
            }
            assert!(verify(&bytes, &payload).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn records_of_an_older_version_are_told_from_damage() {
        for older in [1, 3] {
            let mut bytes = example(&[]).to_bytes(&[]);
            bytes[4] = older;
            assert_eq!(Header::from_bytes(&bytes), Err(BlockDamage::Version));
            bytes[16..20].fill(0);
            assert_eq!(Header::from_bytes(&bytes), Err(BlockDamage::Header), "a note");
            bytes[16] = 7;
            bytes[0] = 0;
            assert_eq!(Header::from_bytes(&bytes), Err(BlockDamage::Header));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_without_panic(bytes in prop::array::uniform32(any::<u8>())) {
            let mut header = [0; HEADER_BYTES];
            header[..32].copy_from_slice(&bytes);
            header[..4].copy_from_slice(&MAGIC);
            if let Ok(header) = Header::from_bytes(&header) {
                prop_assert!(header.payload_bytes as usize <= PAYLOAD_BYTES_MAX);
            }
        }
    }
}
