//! The consumer's half of a ring, in its own file or (the first one) in the process file, and the
//! parsing of its words (`heaplab_preload::layout`).
//!
//! The words between tail and head are copied out before they are checked: a broken target may
//! write there at any time, and only a private copy can be checked once and then believed. The copy
//! also undoes the wrap.

use crate::discover;
use crate::spool::record::{ALIGNED, Encoder, FAILED, FAMILY_SHIFT, Kind, Record, ZEROED};
use heaplab_preload::layout::{self, Block, ProcessHeader, RingHeader};
use memmap2::{Advice, MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Largest data area believed.
pub const DATA_BYTES_MAX: u64 = 1 << 30;
/// Words copied at a time when a whole ring is read.
pub const TAKE_WORDS: usize = 16 * 1024;
const COUNTER_MASK: u64 = (1 << layout::COUNTER_BITS) - 1;

/// One of a thread's two rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A thread's events.
    Main,
    /// Events in the middle of writing another.
    Nested,
}

/// A ring in a mapped file.
#[derive(Debug)]
pub struct Ring {
    map: Arc<MmapRaw>,
    /// Offset of its header.
    at: usize,
    areas: [Area; 2],
}

/// A mapped process file: the fields of its header that change while the process runs, and its
/// first ring.
#[derive(Debug)]
pub struct ProcessFile(Arc<MmapRaw>);

/// One ring's data area in the file.
#[derive(Clone, Copy, Debug)]
struct Area {
    offset: usize,
    words: u64,
}

/// Maps the whole file; `None` if it has no length yet (it gets all in one step), or no magic
/// number at `magic_at` yet. The magic comes last: its page has memory then. Reading a page without
/// memory through the mapping would request it, and on a full disk (tmpfs has no room for the zeros
/// either) end heaplab with a SIGBUS; a read call gives zeros.
fn map(file: &File, least_bytes: usize, magic_at: usize) -> io::Result<Option<Arc<MmapRaw>>> {
    let bytes = file.metadata()?.len();
    if (1..least_bytes as u64).contains(&bytes) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it has {bytes} bytes, and its header is {least_bytes} long"),
        ));
    }
    let mut magic = [0; 8];
    if bytes == 0 || file.read_exact_at(&mut magic, magic_at as u64).is_err() || magic == [0; 8] {
        return Ok(None);
    }
    let map = MmapOptions::new().len(bytes as usize).map_raw(file)?;
    // Pages that the target has not reached are not wanted; without the advice they only cost time.
    let _ = map.advise(Advice::Random);
    Ok(Some(Arc::new(map)))
}

/// Checks a ring's header against the file's length; returns the data areas of both rings, as
/// (offset, words), behind `begin`.
fn areas_of(header: &[u8], begin: usize, file_bytes: u64) -> Result<[Area; 2], String> {
    let u64_at = |at: usize| {
        header.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    if u64_at(offset_of!(RingHeader, magic)) != layout::RING_MAGIC {
        return Err(String::from("its ring does not begin with the right magic number"));
    }
    let version = u64_at(offset_of!(RingHeader, version)) as u32;
    if version != layout::VERSION {
        return Err(format!(
            "its layout has version {version}; this heaplab reads version {}",
            layout::VERSION
        ));
    }
    let area = |offset: u64, bytes: u64| {
        let sound = bytes.is_power_of_two()
            && (64..=DATA_BYTES_MAX).contains(&bytes)
            && offset >= begin as u64
            && offset.is_multiple_of(8)
            && offset.checked_add(bytes).is_some_and(|end| end <= file_bytes);
        if sound {
            Ok(Area { offset: offset as usize, words: bytes / 8 })
        } else {
            Err(format!(
                "its data are said to lie at {offset}, {bytes} bytes long, in a file of {file_bytes} bytes"
            ))
        }
    };
    Ok([
        area(
            u64_at(offset_of!(RingHeader, data_offset)),
            u64_at(offset_of!(RingHeader, data_bytes)),
        )?,
        area(
            u64_at(offset_of!(RingHeader, nested_offset)),
            u64_at(offset_of!(RingHeader, nested_bytes)),
        )?,
    ])
}

impl ProcessFile {
    /// Maps the file; `None` until its header is there.
    pub fn open(path: &Path) -> io::Result<Option<ProcessFile>> {
        let file = discover::open_file(path, true)?;
        Ok(map(&file, size_of::<ProcessHeader>(), offset_of!(ProcessHeader, magic))?
            .map(ProcessFile))
    }

    /// A copy of its header.
    pub fn header(&self) -> [u8; size_of::<ProcessHeader>()] {
        let mut header = [0; size_of::<ProcessHeader>()];
        // SAFETY: the mapping is at least as long as the header (`open`), and `header` is private
        // memory of that length.
        unsafe {
            std::ptr::copy_nonoverlapping(self.0.as_ptr(), header.as_mut_ptr(), header.len())
        };
        header
    }

    fn atomic(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= size_of::<ProcessHeader>());
        // SAFETY: the mapping is page-aligned and at least a header long (`open`), so an aligned
        // offset within the header is a valid u32 while `self` lives; both sides access the
        // changing fields atomically only.
        unsafe { AtomicU32::from_ptr(self.0.as_mut_ptr().add(offset).cast()) }
    }

    fn word(&self, offset: usize) -> u32 {
        self.atomic(offset).load(Ordering::Acquire)
    }

    /// Whether it has announced its end, by exit() or _exit().
    pub fn exited(&self) -> bool {
        self.word(offset_of!(ProcessHeader, exited)) != 0
    }

    /// Tells the image that nobody reads it any more: it then does not wait for room.
    pub fn leave(&self) {
        self.atomic(offset_of!(ProcessHeader, left)).store(1, Ordering::Release);
    }

    /// The image's count of its rings.
    pub fn ring_count(&self) -> u32 {
        self.word(offset_of!(ProcessHeader, ring_count))
    }

    /// Why it stopped recording (`layout::CUT_...`), if it did.
    pub fn cut(&self) -> Option<u32> {
        let is_cut = self.word(offset_of!(ProcessHeader, state)) == layout::PROCESS_CUT;
        is_cut.then(|| self.word(offset_of!(ProcessHeader, cut_reason)))
    }

    /// Its first ring; as [`Ring::open`].
    pub fn first_ring(&self) -> io::Result<Option<Ring>> {
        Ring::of(self.0.clone(), offset_of!(ProcessHeader, first_ring))
    }
}

impl Ring {
    /// Maps the file with a ring's header at `at` (`discover::ring_place`); the error names the
    /// fault. `None`: no magic yet.
    pub fn open(path: &Path, at: usize) -> io::Result<Option<Ring>> {
        let file = discover::open_file(path, true)?;
        map(&file, at + size_of::<RingHeader>(), at + offset_of!(RingHeader, magic))?
            .map_or(Ok(None), |map| Ring::of(map, at))
    }

    /// `map` must be at least as long as the header at `at`.
    fn of(map: Arc<MmapRaw>, at: usize) -> io::Result<Option<Ring>> {
        let bytes = map.len() as u64;
        let mut ring = Ring { map, at, areas: [Area { offset: 0, words: 1 }; 2] };
        if ring.atomic(offset_of!(RingHeader, magic)).load(Ordering::Acquire) == 0 {
            return Ok(None);
        }
        let mut header = [0; size_of::<RingHeader>()];
        // SAFETY: `atomic` has checked that the mapping holds the header, and `header` is private
        // memory of that length.
        unsafe {
            std::ptr::copy_nonoverlapping(
                ring.map.as_ptr().add(at),
                header.as_mut_ptr(),
                header.len(),
            )
        };
        ring.areas = areas_of(&header, at + header.len(), bytes)
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        Ok(Some(ring))
    }

    fn atomic(&self, offset: usize) -> &AtomicU64 {
        let at = self.at + offset;
        assert!(
            at.is_multiple_of(8)
                && offset + 8 <= size_of::<RingHeader>()
                && self.at + size_of::<RingHeader>() <= self.map.len()
        );
        // SAFETY: the mapping is page-aligned and holds the header (checked above), so an aligned
        // offset within the header is a valid u64 while `self` lives; both sides access it
        // atomically only.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(at).cast()) }
    }

    /// Offset and bytes of a part's data in the file.
    pub fn data(&self, part: Part) -> (u64, u64) {
        let area = self.area(part);
        (area.offset as u64, area.words * 8)
    }

    fn head(&self, part: Part) -> &AtomicU64 {
        self.atomic(match part {
            Part::Main => offset_of!(RingHeader, head),
            Part::Nested => offset_of!(RingHeader, nested_head),
        })
    }

    fn tail(&self, part: Part) -> &AtomicU64 {
        self.atomic(match part {
            Part::Main => offset_of!(RingHeader, tail),
            Part::Nested => offset_of!(RingHeader, nested_tail),
        })
    }

    fn area(&self, part: Part) -> Area {
        self.areas[part as usize]
    }

    /// Waiting words, and words of room. More waiting than room: the ring is damaged.
    pub fn fill(&self, part: Part) -> (u64, u64) {
        let waiting = self
            .head(part)
            .load(Ordering::Acquire)
            .wrapping_sub(self.tail(part).load(Ordering::Relaxed));
        (waiting, self.area(part).words)
    }

    /// Position of the next word to read.
    pub fn position(&self, part: Part) -> u64 {
        self.tail(part).load(Ordering::Relaxed)
    }

    /// Copies up to `limit` words from `position` on into `words`; returns how many more there are.
    /// `None`: the producer's figures, or the position in its memory, are impossible.
    pub fn copy(
        &self,
        part: Part,
        position: u64,
        limit: usize,
        words: &mut Vec<u64>,
    ) -> Option<u64> {
        words.clear();
        let area = self.area(part);
        let waiting = self.head(part).load(Ordering::Acquire).wrapping_sub(position);
        if waiting > area.words || position > POSITION_MAX {
            return None;
        }
        let count = waiting.min(limit as u64);
        words.reserve(count as usize);
        let begin = position & (area.words - 1);
        let before_wrap = count.min(area.words - begin);
        for (from, length) in [(begin, before_wrap), (0, count - before_wrap)] {
            // SAFETY: `open` checked that `area.words` words from the 8-aligned `area.offset` lie
            // inside the mapping, and from + length <= area.words. `words` has room for `count` =
            // both lengths. The producer does not write between tail and head; if it does, the
            // copied words are wrong and are checked like all others.
            unsafe {
                let source = self.map.as_ptr().add(area.offset).cast::<u64>().add(from as usize);
                std::ptr::copy_nonoverlapping(
                    source,
                    words.as_mut_ptr().add(words.len()),
                    length as usize,
                );
                words.set_len(words.len() + length as usize);
            }
        }
        Some(waiting - count)
    }

    /// Prefetches the `count` words from `position` on during other work: another processor wrote
    /// them last, and each of their cache lines takes as long to arrive as several records take to
    /// encode.
    pub fn prefetch(&self, part: Part, position: u64, count: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let area = self.area(part);
            for line in 0..count.min(area.words).div_ceil(8) {
                let word = position.wrapping_add(line * 8) & (area.words - 1);
                // SAFETY: `open` checked that `area.words` words from `area.offset` lie inside the
                // mapping, and `word` is one of them; a prefetch has no effect visible to the
                // program.
                unsafe {
                    _mm_prefetch::<_MM_HINT_T0>(
                        self.map.as_ptr().add(area.offset + word as usize * 8).cast(),
                    )
                };
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (part, position, count);
    }

    /// Gives the words before `position` back to the producer.
    pub fn release(&self, part: Part, position: u64) {
        self.tail(part).store(position, Ordering::Release);
    }
}

/// A position that no ring reaches. The position lies where the program can write, and lengths are
/// added to it.
const POSITION_MAX: u64 = 1 << 62;

/// Largest block that an allocator can give: addresses of 48 bits less the allocator's overhead.
const BLOCK_BYTES_MAX: u64 = (1 << 48) - (1 << 32);

/// The result of parsing some words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// All whole records were taken; the rest, if any, is the start of one.
    Whole,
    /// The encoder is full.
    Full,
    /// The next words are no record.
    Damaged,
}

/// A record's effect on blocks; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Address of a freed block.
    pub gone: u64,
    /// Address of a new block.
    pub born: u64,
    /// Bytes requested.
    pub size: u64,
}

/// Encodes the records at the beginning of `words`, calls `each` for every event, and returns their
/// words.
pub fn encode(
    words: &[u64],
    encoder: &mut Encoder,
    mut each: impl FnMut(Change),
) -> (usize, Parsed) {
    let mut rest = words;
    let parsed = loop {
        let [first, then @ ..] = rest else { break Parsed::Whole };
        if !encoder.has_room() {
            break Parsed::Full;
        }
        let (kind, stamp) = layout::stamp(*first);
        // The three frequent kinds, without an intermediate record if possible.
        match (kind, then) {
            (layout::FREE, [block, after @ ..]) => {
                let block = Block::from_word(*block);
                encoder.free(Kind::Free, block.family << FAMILY_SHIFT, stamp, block.address);
                each(Change { gone: block.address, ..Change::default() });
                rest = after;
            }
            (layout::ALLOC, [block, size, extra, after @ ..]) => {
                if *size > BLOCK_BYTES_MAX {
                    break Parsed::Damaged;
                }
                let record = birth(Kind::Alloc, false, stamp, [*block, *size, *extra]);
                encoder.alloc(&record);
                each(Change { gone: 0, born: record.address, size: *size });
                rest = after;
            }
            (layout::NODE, [ip, numbers, after @ ..]) => {
                let (node, parent) = layout::node_and_parent(*numbers);
                if !(1..layout::NODES_MAX).contains(&node) {
                    break Parsed::Damaged;
                }
                encoder.node(stamp, *ip, node, parent.into());
                rest = after;
            }
            (layout::PAD, after) => rest = after,
            _ => match encode_other(rest, kind, stamp, encoder, &mut each) {
                Ok(0) => break Parsed::Whole,
                Ok(length) => rest = &rest[length..],
                Err(()) => break Parsed::Damaged,
            },
        }
    };
    (words.len() - rest.len(), parsed)
}

/// Encodes a rarer record; returns its words, 0 if it is incomplete, or an error if it is no
/// record.
fn encode_other(
    words: &[u64],
    kind: u8,
    stamp: u64,
    encoder: &mut Encoder,
    each: &mut impl FnMut(Change),
) -> Result<usize, ()> {
    let Some(&second) = words.get(1) else { return Ok(0) };
    let length = layout::record_words(kind, second).ok_or(())? as usize;
    let Some(words) = words.get(..length) else { return Ok(0) };
    if kind == layout::REALLOC && words[2] > BLOCK_BYTES_MAX {
        return Err(());
    }
    if kind == layout::MARK {
        let name: Vec<u8> =
            words[2..].iter().flat_map(|word| word.to_le_bytes()).take(second as usize).collect();
        encoder.push_mark(&Record { stamp, ..Record::default() }, &name);
        return Ok(length);
    }
    let record = record_of(kind, stamp, words);
    encoder.push(&record);
    match kind {
        layout::THREAD_BEGIN
        | layout::THREAD_END
        | layout::MAP
        | layout::UNMAP
        | layout::REPORT => {}
        layout::REALLOC => {
            each(Change { gone: record.old_address, born: record.address, size: record.size })
        }
        _ => each(Change::default()),
    }
    Ok(length)
}

#[inline]
fn record_of(kind: u8, stamp: u64, words: &[u64]) -> Record {
    let second = words[1];
    match kind {
        layout::ALLOC_FAILED => birth(Kind::Alloc, true, stamp, [second, words[2], words[3]]),
        layout::REALLOC | layout::REALLOC_FAILED => {
            let record = birth(
                Kind::Realloc,
                kind == layout::REALLOC_FAILED,
                stamp,
                [second, words[2], words[3]],
            );
            Record {
                old_address: Block::from_word(words[4]).address,
                after: (words[5] & COUNTER_MASK).max(stamp),
                ..record
            }
        }
        layout::THREAD_BEGIN | layout::THREAD_END => {
            let kind =
                if kind == layout::THREAD_BEGIN { Kind::ThreadBegin } else { Kind::ThreadEnd };
            Record {
                kind,
                stamp,
                address: second,
                size: words[2],
                usable: words[3],
                ..Record::default()
            }
        }
        layout::MAP => Record {
            kind: Kind::Map,
            flags: (second >> layout::MAP_OWNER_SHIFT) as u8,
            stamp,
            address: address_of(second),
            size: words[2],
            stack: words[3] as u32,
            ..Record::default()
        },
        layout::UNMAP => Record {
            kind: Kind::Unmap,
            stamp,
            address: address_of(second),
            size: words[2],
            ..Record::default()
        },
        layout::REPORT => Record {
            kind: Kind::Report,
            flags: (words[2] >> 32) as u8,
            stamp,
            address: address_of(second),
            stack: words[2] as u32,
            ..Record::default()
        },
        _ => Record {
            kind: Kind::UsableSizeRead,
            stamp,
            address: Block::from_word(second).address,
            ..Record::default()
        },
    }
}

fn address_of(word: u64) -> u64 {
    word & ((1 << layout::ADDRESS_BITS) - 1)
}

/// A birth, from the words behind the stamp.
#[inline(always)]
fn birth(kind: Kind, failed: bool, stamp: u64, [block, size, extra]: [u64; 3]) -> Record {
    let block = Block::from_word(block);
    let (stack, slack) = layout::node_and_slack(extra);
    let mut flags = block.family << FAMILY_SHIFT;
    flags |= if block.zeroed { ZEROED } else { 0 };
    flags |= if failed { FAILED } else { 0 };
    flags |= if block.align_log2 != 0 && kind == Kind::Alloc { ALIGNED } else { 0 };
    Record {
        kind,
        flags,
        align_log2: if kind == Kind::Alloc { block.align_log2 } else { 0 },
        stamp,
        address: block.address,
        size,
        usable: slack.map_or(0, |slack| size.saturating_add(u64::from(slack))),
        stack,
        ..Record::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::record::{Decoder, RECORD_BYTES_MAX};
    use proptest::prelude::*;

    #[test]
    fn words_become_records() {
        let word = |kind: u8, stamp: u64| stamp << 4 | u64::from(kind);
        let words = [
            word(layout::THREAD_BEGIN, 5),
            77,
            u64::from_le_bytes(*b"main\0\0\0\0"),
            0,
            word(layout::ALLOC, 10),
            0x7000 | 6 << layout::ALIGN_SHIFT | 1 << layout::FAMILY_SHIFT,
            100,
            4 << 32 | 9,
            word(layout::REALLOC, 20),
            0x8000,
            200,
            u64::from(layout::SLACK_UNKNOWN) << 32 | 8,
            0x7000,
            26,
            word(layout::MARK, 30),
            6,
            u64::from_le_bytes(*b"loaded\0\0"),
            word(layout::FREE, 40),
        ];
        let mut encoder = Encoder::new(4096);
        encoder.begin(0);
        let (used, parsed) = encode(&words, &mut encoder, |_| {});
        assert_eq!((used, parsed), (17, Parsed::Whole), "the free is not whole yet");
        let mut padded = encoder.payload().to_vec();
        let length = padded.len();
        padded.resize(length + RECORD_BYTES_MAX, 0);
        let mut decoder = Decoder::new(0);
        let mut next = || decoder.next(&padded, length).unwrap();
        assert_eq!(next().map(|r| (r.kind, r.address)), Some((Kind::ThreadBegin, 77)));
        let alloc = next().unwrap();
        assert_eq!(
            (alloc.address, alloc.size, alloc.usable, alloc.align_log2, alloc.stack),
            (0x7000, 100, 104, 6, 9)
        );
        let realloc = next().unwrap();
        assert_eq!(
            (realloc.old_address, realloc.address, realloc.size, realloc.usable),
            (0x7000, 0x8000, 200, 0)
        );
        assert_eq!((realloc.stamp, realloc.after), (20, 26));
        let mark = next().unwrap();
        assert_eq!(&padded[mark.address as usize..][..mark.size as usize], b"loaded");
    }

    #[test]
    fn a_block_larger_than_memory_is_no_record() {
        let words = |kind: u8| [10 << 4 | u64::from(kind), 0x7000, u64::MAX / 2, 0];
        let parsed = |kind: u8| encode(&words(kind), &mut Encoder::new(4096), |_| {});
        assert_eq!(parsed(layout::ALLOC), (0, Parsed::Damaged));
        assert_eq!(parsed(layout::ALLOC_FAILED), (4, Parsed::Whole), "anything may be asked for");
    }

    proptest! {
        #[test]
        fn any_words_are_parsed_without_panic(words in prop::collection::vec(prop_oneof![0_u64..16, any::<u64>()], 0..300)) {
            let mut encoder = Encoder::new(4096);
            encoder.begin(0);
            let (used, _) = encode(&words, &mut encoder, |_| {});
            prop_assert!(used <= words.len());
        }

        #[test]
        fn any_header_is_judged_without_panic(mut header in prop::collection::vec(any::<u8>(), size_of::<RingHeader>()), bytes in any::<u64>()) {
            header[..8].copy_from_slice(&layout::RING_MAGIC.to_le_bytes());
            header[8..12].copy_from_slice(&layout::VERSION.to_le_bytes());
            if let Ok(areas) = areas_of(&header, size_of::<RingHeader>(), bytes) {
                prop_assert!(areas.iter().all(|area| area.offset as u64 + area.words * 8 <= bytes));
            }
        }
    }
}
