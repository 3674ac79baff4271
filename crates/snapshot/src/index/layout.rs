//! The bytes of an index: a head, sections, a hash.
//!
//! The head: the magic `HLSNAPIX`, the version of the format (u32), the version of the rules of
//! analysis (u32), of the snapshot the length (u64) and the hash (u128), the options that change
//! answers (u32: 1 two objects may have the same id, 2 sizes of 4 GiB and more as they are), how
//! many sections there are (u32), and the length of each in bytes (u64). Behind the last section
//! stands the hash of everything before (u128).

use super::{IndexError, Key, RULES_VERSION, VERSION};
use crate::columns::Column;
use std::borrow::Cow;
use std::io::{self, Write};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};
use zerocopy::{FromBytes, Immutable};

const MAGIC: &[u8; 8] = b"HLSNAPIX";
pub const SECTIONS: usize = 28;
/// Sections begin at multiples of so many bytes, which is what the widest numbers need.
const ALIGNMENT: usize = 8;
const KEY_BYTES: usize = 28;
const HEAD_BYTES: usize = MAGIC.len() + 4 + 4 + KEY_BYTES + 4 + 8 * SECTIONS;
const HASH_BYTES: usize = 16;
/// Hashed at once: the hash of bytes is the hash of the hashes of their pieces.
const PIECE_BYTES: usize = 16 << 20;

/// The hash of bytes (xxh3, 128 bits, of pieces and then of their hashes).
pub fn hash(bytes: &[u8], threads: usize) -> u128 {
    let pieces: Vec<&[u8]> = bytes.chunks(PIECE_BYTES).collect();
    let hashes = |pieces: &[&[u8]]| -> Vec<u8> {
        pieces.iter().flat_map(|piece| xxh3_128(piece).to_ne_bytes()).collect()
    };
    let (first, second) = pieces.split_at(if threads > 1 { pieces.len() / 2 } else { 0 });
    let all = std::thread::scope(|scope| {
        let beside = (!first.is_empty()).then(|| scope.spawn(|| hashes(first)));
        let second = hashes(second);
        let first = beside.map_or_else(Vec::new, |beside| {
            beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        [first, second].concat()
    });
    xxh3_128(&all)
}

fn key_bytes(key: &Key) -> [u8; KEY_BYTES] {
    let options = u32::from(key.allow_duplicate_ids) | u32::from(key.exact_sizes) << 1;
    let mut bytes = [0; KEY_BYTES];
    bytes[..8].copy_from_slice(&key.file_bytes.to_ne_bytes());
    bytes[8..24].copy_from_slice(&key.content_hash.to_ne_bytes());
    bytes[24..].copy_from_slice(&options.to_ne_bytes());
    bytes
}

/// Sections that have not been taken yet.
pub struct Sections<'a> {
    left: std::vec::IntoIter<&'a [u8]>,
}

/// Looks at the head and at the hash.
pub fn open<'a>(index: &'a [u8], key: &Key, threads: usize) -> Result<Sections<'a>, IndexError> {
    let damaged = |expected| IndexError::Damaged { expected };
    let mut head = index;
    let mut number = |expected| {
        let (number, rest) = u32::read_from_prefix(head).map_err(|_| damaged(expected))?;
        head = rest;
        Ok(number)
    };
    let magic = [number("a magic")?, number("a magic")?].map(u32::to_ne_bytes);
    if magic.as_flattened() != MAGIC {
        return Err(damaged("the magic HLSNAPIX"));
    }
    let version = number("a version")?;
    if version != VERSION {
        return Err(IndexError::Version { found: version });
    }
    let rules = number("the version of the rules")?;
    if rules != RULES_VERSION {
        return Err(IndexError::Rules { found: rules });
    }
    let cut = damaged("a head, sections and a hash");
    let body = index.len().checked_sub(HASH_BYTES).filter(|body| *body >= HEAD_BYTES).ok_or(cut)?;
    if head[..KEY_BYTES] != key_bytes(key) {
        return Err(IndexError::Stale);
    }
    if index[body..] != hash(&index[..body], threads).to_ne_bytes() {
        return Err(damaged("the hash of what stands before"));
    }
    if !(index.as_ptr() as usize).is_multiple_of(ALIGNMENT) {
        return Err(damaged("an index that begins at a multiple of 8"));
    }
    let head = &index[MAGIC.len() + 8 + KEY_BYTES..HEAD_BYTES];
    sections(head, &index[..body]).ok_or(damaged("the sections that its head lists"))
}

fn sections<'a>(mut head: &[u8], index: &'a [u8]) -> Option<Sections<'a>> {
    let (count, rest) = u32::read_from_prefix(head).ok()?;
    head = rest;
    let mut left = Vec::with_capacity(SECTIONS);
    let mut at = HEAD_BYTES;
    for _ in 0..SECTIONS {
        let (length, rest) = u64::read_from_prefix(head).ok()?;
        head = rest;
        at = at.checked_next_multiple_of(ALIGNMENT)?;
        let end = at.checked_add(usize::try_from(length).ok()?)?;
        left.push(index.get(at..end)?);
        at = end;
    }
    (count as usize == SECTIONS && at == index.len()).then(|| Sections { left: left.into_iter() })
}

impl<'a> Sections<'a> {
    /// The bytes of the next one.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        self.left.next()
    }

    /// The next one as numbers, where they lie.
    pub fn column<T: FromBytes + Immutable + Clone>(&mut self) -> Option<Column<'a, T>> {
        Some(Cow::Borrowed(<[T]>::ref_from_bytes(self.bytes()?).ok()?))
    }

    /// The next one as rows, each made by `row`.
    pub fn rows<R: FromBytes + Immutable + Copy, T>(
        &mut self,
        row: impl Fn(R) -> Option<T>,
    ) -> Option<Vec<T>> {
        <[R]>::ref_from_bytes(self.bytes()?).ok()?.iter().map(|one| row(*one)).collect()
    }
}

/// Writes an index, and hashes what it writes.
pub struct Writer<'w> {
    out: &'w mut dyn Write,
    hashes: Vec<u8>,
    piece: Xxh3,
    /// Bytes in the piece.
    in_piece: usize,
    written: usize,
}

impl<'w> Writer<'w> {
    pub fn new(out: &'w mut dyn Write) -> Self {
        Writer { out, hashes: Vec::new(), piece: Xxh3::new(), in_piece: 0, written: 0 }
    }

    pub fn write(mut self, key: &Key, sections: &[&[u8]; SECTIONS]) -> io::Result<()> {
        self.put(MAGIC)?;
        self.put(&VERSION.to_ne_bytes())?;
        self.put(&RULES_VERSION.to_ne_bytes())?;
        self.put(&key_bytes(key))?;
        self.put(&(SECTIONS as u32).to_ne_bytes())?;
        for section in sections {
            self.put(&(section.len() as u64).to_ne_bytes())?;
        }
        for section in sections {
            let padding = self.written.next_multiple_of(ALIGNMENT) - self.written;
            self.put(&[0; ALIGNMENT][..padding])?;
            self.put(section)?;
        }
        self.end_piece();
        self.out.write_all(&xxh3_128(&self.hashes).to_ne_bytes())
    }

    fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len();
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - self.in_piece));
            self.piece.update(now);
            self.out.write_all(now)?;
            self.in_piece += now.len();
            if self.in_piece == PIECE_BYTES {
                self.end_piece();
            }
            bytes = later;
        }
        Ok(())
    }

    fn end_piece(&mut self) {
        if self.in_piece > 0 {
            self.hashes.extend(self.piece.digest128().to_ne_bytes());
            self.piece.reset();
            self.in_piece = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_the_same_by_any_number_of_threads_and_as_it_is_written() {
        for length in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, 2 * PIECE_BYTES + 1] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            assert_eq!(hash(&bytes, 1), hash(&bytes, 2), "{length}");
            let mut out = Vec::new();
            let mut writer = Writer::new(&mut out);
            bytes.chunks(1 << 20).for_each(|part| writer.put(part).unwrap());
            writer.end_piece();
            assert_eq!(xxh3_128(&writer.hashes), hash(&bytes, 1), "{length}");
            assert_eq!(out, bytes);
        }
    }
}
