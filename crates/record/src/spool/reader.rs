//! Reads `events.spool`: first an index of its blocks, then the blocks of one ring at a time, in
//! order.

use super::block::{self, BlockDamage, BlockKind, HEADER_BYTES, Header, RingId};
use super::note::Note;
use super::record::RECORD_BYTES_MAX;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// One block of a ring, by its place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// Offset of its header.
    offset: u64,
    payload_bytes: u32,
    /// Records in it.
    pub records: u32,
    /// Words of the ring before this block.
    pub begin_position: u64,
    /// Words of the ring up to the end of this block.
    pub end_position: u64,
    /// Base of the first record's stamp difference.
    pub base_stamp: u64,
}

/// The index of a spool file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Index {
    /// The blocks of each ring, in order.
    pub rings: BTreeMap<RingId, Vec<BlockPlace>>,
    /// The notes, in order.
    pub notes: Vec<Note>,
    /// Bytes in whole blocks.
    pub sound_bytes: u64,
    /// Where and why reading ended before the end of the file.
    pub damage: Option<BlockDamage>,
}

impl Index {
    /// Reads all blocks, checks their checksums, and notes their places. A torn or damaged block
    /// ends the reading and is reported in `damage`; it is not an error.
    pub fn read(mut file: impl Read) -> io::Result<Index> {
        let mut index = Index::default();
        let mut head = [0; HEADER_BYTES];
        let mut payload = Vec::new();
        loop {
            match read_whole(&mut file, &mut head)? {
                0 => return Ok(index),
                HEADER_BYTES => {}
                _ => return Ok(index.ended(BlockDamage::Torn)),
            }
            let header = match Header::from_bytes(&head) {
                Ok(header) => header,
                Err(damage) => return Ok(index.ended(damage)),
            };
            payload.resize(header.payload_bytes as usize, 0);
            if read_whole(&mut file, &mut payload)? != payload.len() {
                return Ok(index.ended(BlockDamage::Torn));
            }
            if let Err(damage) = block::verify(&head, &payload) {
                return Ok(index.ended(damage));
            }
            if header.kind == BlockKind::Note {
                // A note of a later version must not lose the rest.
                index.notes.extend(serde_json::from_slice::<Note>(&payload));
            }
            index.add(&header);
        }
    }

    fn ended(mut self, damage: BlockDamage) -> Index {
        // Behind records of this version an older block is damage.
        let is_mixed = damage == BlockDamage::Version && !self.rings.is_empty();
        self.damage = Some(if is_mixed { BlockDamage::Header } else { damage });
        self
    }

    /// Adds a block with this header behind the whole ones.
    pub(super) fn add(&mut self, header: &Header) {
        if header.kind == BlockKind::Records {
            self.rings.entry(header.ring).or_default().push(BlockPlace {
                offset: self.sound_bytes,
                payload_bytes: header.payload_bytes,
                records: header.records,
                begin_position: header.begin_position,
                end_position: header.end_position,
                base_stamp: header.base_stamp,
            });
        }
        self.sound_bytes += HEADER_BYTES as u64 + u64::from(header.payload_bytes);
    }
}

fn read_whole(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// The spool file, for reading the blocks of an [`Index`].
#[derive(Debug)]
pub struct SpoolFile(File);

impl SpoolFile {
    /// Opens the file.
    pub fn open(path: &Path) -> io::Result<SpoolFile> {
        File::open(path).map(SpoolFile)
    }

    /// Reads its index.
    pub fn index(&self) -> io::Result<Index> {
        Index::read(io::BufReader::with_capacity(1 << 18, &self.0))
    }

    /// Reads a payload, followed by the slack that decoding needs; returns the payload's length.
    /// Checks the checksum, whoever made the index.
    pub fn payload(&self, place: BlockPlace, padded: &mut Vec<u8>) -> io::Result<usize> {
        let (mut head, length) = ([0; HEADER_BYTES], place.payload_bytes as usize);
        padded.resize(length + RECORD_BYTES_MAX, 0);
        self.0.read_exact_at(&mut head, place.offset)?;
        self.0.read_exact_at(&mut padded[..length], place.offset + HEADER_BYTES as u64)?;
        block::verify(&head, &padded[..length])
            .map_err(|damage| io::Error::new(io::ErrorKind::InvalidData, damage))?;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Encoder, Kind, Record};
    use super::super::writer::SpoolWriter;
    use super::*;
    use proptest::prelude::*;

    fn example() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.spool");
        write_example(&path);
        std::fs::read(path).unwrap()
    }

    /// Writes an example; returns the writer's index.
    fn write_example(path: &Path) -> Index {
        let mut writer = SpoolWriter::create(path).unwrap();
        let mut encoder = Encoder::new(4096);
        for ring in [0, 1, 0] {
            encoder.begin(100);
            encoder.push(&Record {
                kind: Kind::Free,
                stamp: 100,
                address: 16,
                ..Record::default()
            });
            writer
                .records(&encoder, RingId { pid: 1, ring, ..RingId::default() }, 0, 2, 100)
                .unwrap();
            writer.note(&Note::Loss { text: format!("ring {ring}") }).unwrap();
        }
        writer.into_index()
    }

    #[test]
    fn the_writer_knows_what_reading_finds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.spool");
        let known = write_example(&path);
        assert_eq!(known, SpoolFile::open(&path).unwrap().index().unwrap());
    }

    #[test]
    fn what_changed_since_the_index_was_made_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.spool");
        let known = write_example(&path);
        let place = known.rings.values().next().unwrap()[0];
        let mut padded = Vec::new();
        let length = SpoolFile::open(&path).unwrap().payload(place, &mut padded).unwrap();
        assert_eq!(length, place.payload_bytes as usize);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[place.offset as usize + HEADER_BYTES] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let error = SpoolFile::open(&path).unwrap().payload(place, &mut padded).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_torn_end_costs_the_torn_block_only() {
        let whole = example();
        let all = Index::read(&whole[..]).unwrap();
        assert_eq!((all.rings.len(), all.notes.len(), all.damage), (2, 3, None));
        for length in 0..whole.len() {
            let cut = Index::read(&whole[..length]).unwrap();
            assert!(cut.sound_bytes <= length as u64);
            assert_eq!(cut.damage.is_some(), cut.sound_bytes != length as u64);
        }
    }

    #[test]
    fn damage_is_no_older_version_and_costs_what_is_behind_it_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.spool");
        let known = write_example(&path);
        let places: Vec<BlockPlace> = known.rings.into_values().flatten().collect();
        let mut bytes = std::fs::read(&path).unwrap();
        for place in places {
            let kind = place.offset as usize + 4;
            for older in [1, 3] {
                let before = std::mem::replace(&mut bytes[kind], older);
                let found = Index::read(&bytes[..]).unwrap();
                let expected =
                    if place.offset == 0 { BlockDamage::Version } else { BlockDamage::Header };
                assert_eq!((found.sound_bytes, found.damage), (place.offset, Some(expected)));
                bytes[kind] = before;
            }
        }
    }

    #[test]
    fn a_full_disk_leaves_whole_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.spool");
        let mut writer = SpoolWriter::create(&path).unwrap();
        writer.note(&Note::Loss { text: String::from("first") }).unwrap();
        for room in [10, HEADER_BYTES as u64 + 5] {
            writer.limit(writer.bytes() + room);
            assert!(writer.note(&Note::Loss { text: String::from("second") }).is_err());
            let index = SpoolFile::open(&path).unwrap().index().unwrap();
            assert_eq!((index.notes.len(), index.damage), (1, None));
        }
        writer.limit(u64::MAX);
        writer
            .note(&Note::Loss {
                text: String::from("what fits again follows the last whole block"),
            })
            .unwrap();
        let index = SpoolFile::open(&path).unwrap().index().unwrap();
        assert_eq!((index.notes.len(), index.damage), (2, None));
        assert_eq!(index, writer.into_index());
    }

    proptest! {
        #[test]
        fn damage_anywhere_is_seen_and_read_without_panic(at in 0_usize..600, byte in any::<u8>()) {
            let mut bytes = example();
            let at = at % bytes.len();
            prop_assume!(bytes[at] != byte);
            bytes[at] = byte;
            let index = Index::read(&bytes[..]).unwrap();
            prop_assert!(index.damage.is_some());
            prop_assert!(index.sound_bytes <= at as u64);
        }
    }
}
