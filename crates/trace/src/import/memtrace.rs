//! memtrace's files (janestreet/memtrace, versions 1 to 3): packets of the Common Trace Format with
//! events of the OCaml heap.
//!
//! memtrace samples, by default one word in a million. A file of rate 1 (`MEMTRACE_RATE=1`) has
//! every block. A file of another rate is a profile: an object stands for the inverse of the rate
//! in words for each of its samples, which is right on average. The bundle says so
//! (`sampled_every_words`), so it is reported and not replayed.

mod stacks;

use super::managed::{Bytes, Managed};
use super::{ImportOptions, Imported};
use crate::{EventSink, Origin, TraceError};
use hashbrown::HashMap;
use stacks::{Known, Locations, Places, Stacks};
use std::io::BufRead;

/// What each packet begins with.
pub const MAGIC: [u8; 4] = 0xc1fc_1fc1_u32.to_le_bytes();
/// Bytes of a packet, its header among them; memtrace writes at most 32 KiB.
const PACKET_BYTES_MAX: usize = 1 << 20;
/// Bits of an event's first word that are its time, µs.
const TIME_BITS: u32 = 25;
const WORD_BYTES: u64 = 8;
/// Largest object, words.
const WORDS_MAX: u64 = 1 << 40;
/// Rarest sampling that is believed: one word in so many.
const EVERY_WORDS_MAX: f64 = 1e15;
/// Domains whose stacks are kept apart; each has tables of 160 KB.
const DOMAINS_MAX: usize = 1024;

const INFO: u32 = 0;
const LOCATION: u32 = 1;
const ALLOC: u32 = 2;
const PROMOTE: u32 = 3;
const COLLECT: u32 = 4;

/// A packet: the facts of its header, and its events.
struct Packet {
    begin_us: u64,
    first_object: u64,
    end_object: u64,
    domain: u16,
    /// An entry of the table of codes, the entry that follows it, and its code.
    verifier: (u16, u16, u64),
    content: Vec<u8>,
    /// Where the content begins in the file.
    at: u64,
}

/// Imports. A file that was cut is a recording up to its last whole packet.
pub fn import<R: BufRead, S: EventSink>(
    input: R,
    options: &ImportOptions,
    sink: &mut S,
) -> Result<Imported, TraceError> {
    let mut bytes = Bytes::new(input, options);
    let mut heap = Managed::new(options, sink);
    let Some(first) = packet(&mut bytes)? else {
        return Err(bytes.malformed("memtrace's first packet", "a file that was cut"));
    };
    let every_words = info(&first, options, &mut heap)?;
    let mut file = Contents { start_us: first.begin_us, every_words, ..Contents::default() };
    while bytes.is_more()? {
        let Some(packet) = packet(&mut bytes)? else {
            heap.out.meta.cut = Some(format!("in a packet that ends behind byte {}", bytes.at));
            break;
        };
        file.events(&packet, options, &mut heap)?;
    }
    heap.out.meta.stack_depth = file.deepest as u32;
    heap.out.meta.sampled_every_words = if every_words > 1 { every_words } else { 0 };
    if every_words > 1 {
        heap.out.meta.losses.push(format!(
            "a profile: one word in {every_words} was sampled; each object here stands for {} bytes a sample, and numbers of objects are those of samples",
            every_words * WORD_BYTES
        ));
    }
    heap.out.meta.losses.extend(super::ocaml::outside_heap(file.outside));
    Ok(heap.out)
}

/// The next packet; `None` if the file ends within it.
fn packet<R: BufRead>(bytes: &mut Bytes<'_, R>) -> Result<Option<Packet>, TraceError> {
    let mut start = [0; 4 + 4 + 8 + 8 + 4 + 2 + 8];
    if !bytes.fill(&mut start)? {
        return Ok(None);
    }
    if start[..4] != MAGIC {
        return Err(bytes.malformed("a packet of memtrace", "another first word"));
    }
    let size = u32_at(&start, 4) as usize / 8;
    let version = u16::from_le_bytes([start[28], start[29]]);
    if !(1..=3).contains(&version) {
        return Err(bytes.malformed("memtrace's version 1 to 3", version.to_string()));
    }
    // The domain from version 3 on, what checks the cache of stacks, and two numbers of objects.
    let domain_bytes = if version >= 3 { 2 } else { 0 };
    let mut rest = vec![0; domain_bytes + 12 + 16];
    let header = start.len() + rest.len();
    if !(header..=PACKET_BYTES_MAX).contains(&size) {
        return Err(bytes.malformed("a packet of at most 1 MiB", format!("{size} bytes")));
    }
    let mut content = vec![0; size - header];
    let whole = bytes.fill(&mut rest)?;
    let at = bytes.at;
    if !whole || !bytes.fill(&mut content)? {
        return Ok(None);
    }
    let objects = domain_bytes + 12;
    let short = |at: usize| u16::from_le_bytes([rest[at], rest[at + 1]]);
    Ok(Some(Packet {
        begin_us: u64_at(&start, 8),
        first_object: u64_at(&rest, objects),
        end_object: u64_at(&rest, objects + 8),
        domain: if version >= 3 { short(0) } else { 0 },
        verifier: (short(domain_bytes), short(domain_bytes + 2), u64_at(&rest, domain_bytes + 4)),
        content,
        at,
    }))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Numbers within a packet.
struct Cursor<'p> {
    packet: &'p Packet,
    options: &'p ImportOptions,
    at: usize,
}

impl<'p> Cursor<'p> {
    fn new(packet: &'p Packet, options: &'p ImportOptions) -> Cursor<'p> {
        Cursor { packet, options, at: 0 }
    }

    fn malformed(&self, expected: &str, found: impl Into<String>) -> TraceError {
        TraceError::Malformed {
            path: self.options.name.clone(),
            place: format!("byte {}", self.packet.at + self.at as u64),
            expected: expected.into(),
            found: found.into(),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'p [u8], TraceError> {
        let taken = self.packet.content.get(self.at..self.at + count);
        let taken = taken.ok_or_else(|| self.malformed("more of an event", "the packet's end"))?;
        self.at += count;
        Ok(taken)
    }

    fn number(&mut self, count: usize) -> Result<u64, TraceError> {
        let bytes = self.take(count)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A number of one byte up to 252; else of 2, 4 or 8 bytes that follow.
    fn variable(&mut self) -> Result<u64, TraceError> {
        match self.number(1)? {
            253 => self.number(2),
            254 => self.number(4),
            255 => self.number(8),
            small => Ok(small),
        }
    }

    /// A text that ends with a zero.
    fn text(&mut self) -> Result<String, TraceError> {
        let rest = &self.packet.content[self.at..];
        let Some(length) = rest.iter().position(|byte| *byte == 0) else {
            return Err(self.malformed("a text", "the packet's end"));
        };
        let text = self.take(length + 1)?;
        Ok(String::from_utf8_lossy(&text[..length]).into_owned())
    }
}

/// The first packet: about the program. Returns in how many words one is sampled.
fn info<S: EventSink>(
    packet: &Packet,
    options: &ImportOptions,
    heap: &mut Managed<'_, S>,
) -> Result<u64, TraceError> {
    let mut cursor = Cursor::new(packet, options);
    if (cursor.number(4)? >> TIME_BITS) as u32 != INFO {
        return Err(cursor.malformed("memtrace's facts of the program", "another event"));
    }
    let rate = f64::from_bits(cursor.number(8)?);
    let every_words = (1.0 / rate).ceil();
    if !(1.0..=EVERY_WORDS_MAX).contains(&every_words) {
        return Err(cursor.malformed("a sampling rate above 0, at most 1", format!("{rate:e}")));
    }
    let word_bits = cursor.number(1)?;
    if word_bits != WORD_BYTES * 8 {
        return Err(cursor.malformed("words of 64 bits", word_bits.to_string()));
    }
    let executable = cursor.text()?;
    let (_host, parameters, pid) = (cursor.text()?, cursor.text()?, cursor.number(8)?);
    heap.out.meta.program.clone_from(&executable);
    heap.out.meta.allocator = format!("OCaml ({parameters})");
    if let Some(process) = heap.out.tables.processes.first_mut() {
        (process.pid, process.executable) = (u32::try_from(pid).unwrap_or(0), executable);
    }
    Ok(every_words as u64)
}

/// The results of the packets so far.
#[derive(Default)]
struct Contents {
    start_us: u64,
    every_words: u64,
    /// Of each domain.
    codes: HashMap<u16, (Stacks, Locations)>,
    known: Known,
    /// Calls of the deepest stack.
    deepest: usize,
    /// Allocations outside of the heap.
    outside: u64,
}

impl Contents {
    /// The events of a packet.
    fn events<S: EventSink>(
        &mut self,
        packet: &Packet,
        options: &ImportOptions,
        heap: &mut Managed<'_, S>,
    ) -> Result<(), TraceError> {
        let mut cursor = Cursor::new(packet, options);
        if self.codes.len() == DOMAINS_MAX && !self.codes.contains_key(&packet.domain) {
            return Err(cursor.malformed("at most 1,024 domains", "more"));
        }
        let (stacks, locations) =
            self.codes.entry(packet.domain).or_insert_with(|| (Stacks::new(), Locations::new()));
        if !stacks.agrees(packet) {
            return Err(cursor.malformed("the table of codes as it is", "another entry"));
        }
        let mut object = packet.first_object;
        while cursor.at < packet.content.len() {
            let word = cursor.number(4)? as u32;
            // The lowest bits of the time, not before the packet's.
            let mask = (1_u64 << TIME_BITS) - 1;
            let ahead = u64::from(word).wrapping_sub(packet.begin_us) & mask;
            let time_us = (packet.begin_us + ahead).saturating_sub(self.start_us);
            heap.set_time(time_us.saturating_mul(1000));
            let tables = &mut heap.out.tables;
            let mut places = Places { known: &mut self.known, tables };
            match word >> TIME_BITS {
                LOCATION => locations.read(&mut cursor, &mut places)?,
                code @ (ALLOC | 101..=116) => {
                    let birth = birth(code, &mut cursor)?;
                    let stack =
                        stacks.read(&mut cursor, birth.entries, birth.common, &mut places)?;
                    self.deepest = self.deepest.max(stacks.depth());
                    self.outside += u64::from(birth.source == EXTERNAL);
                    let words = match self.every_words {
                        1 => birth.words,
                        every => birth.samples.saturating_mul(every),
                    };
                    // An object outside the heap dies like the others, so it must have been born.
                    let origin =
                        if birth.source == EXTERNAL { Origin::Custom } else { Origin::Normal };
                    let size = words.saturating_mul(WORD_BYTES);
                    heap.birth(object, size, origin, birth.source == MAJOR, stack)?;
                    object += 1;
                }
                code @ (PROMOTE | COLLECT) => {
                    let back = cursor.variable()?;
                    let named = object.checked_sub(1).and_then(|last| last.checked_sub(back));
                    let named = named
                        .ok_or_else(|| cursor.malformed("an object", format!("{back} back")))?;
                    if code == PROMOTE { heap.promotion(named)? } else { heap.death(named)? }
                }
                code => {
                    return Err(cursor.malformed("an event of memtrace", format!("code {code}")));
                }
            }
        }
        if object != packet.end_object {
            return Err(cursor.malformed(
                &format!("objects up to {}", packet.end_object),
                format!("up to {object}"),
            ));
        }
        Ok(())
    }
}

/// The beginning of an allocation's event; its stack follows.
struct Birth {
    words: u64,
    samples: u64,
    source: u64,
    common: u64,
    entries: u64,
}

/// Sources: 0 is the minor heap.
const MAJOR: u64 = 1;
const EXTERNAL: u64 = 2;

fn birth(code: u32, cursor: &mut Cursor<'_>) -> Result<Birth, TraceError> {
    let is_short = code != ALLOC;
    let (words, samples, source) = if is_short {
        (u64::from(code - 100), 1, 0)
    } else {
        (cursor.variable()?, cursor.variable()?, cursor.number(1)?)
    };
    if words > WORDS_MAX || source > EXTERNAL {
        return Err(cursor.malformed("an object", format!("{words} words of source {source}")));
    }
    let common = cursor.variable()?;
    let entries = cursor.number(if is_short { 1 } else { 2 })?;
    Ok(Birth { words, samples, source, common, entries })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{Format, detect, import};
    use crate::{Event, Flags, Op};

    const WHOLE: &[u8] = include_bytes!("../../tests/data/memtrace.ctf.gz");
    /// Different stacks, and a hash of all in the order of births, as this reader found them when
    /// memtrace's own checks of its table, one a packet, agreed.
    const STACKS: (usize, u64) = (14, 17_713_803_198_726_682_882);
    const PROFILE: &[u8] = include_bytes!("../../tests/data/memtrace-profile.ctf");

    fn imported(bytes: &[u8]) -> Result<(Vec<Event>, Imported), TraceError> {
        let mut sink = Vec::new();
        let done = import(bytes, None, &ImportOptions::default(), &mut sink)?;
        Ok((sink, done))
    }

    fn unpacked() -> Vec<u8> {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(WHOLE), &mut bytes).unwrap();
        bytes
    }

    /// The counts are those of memtrace's own reader (tests/data/README.md).
    #[test]
    fn a_file_of_rate_1_has_what_memtrace_reads() {
        let (events, done) = imported(WHOLE).unwrap();
        let count = |op| events.iter().filter(|event| event.op == op).count();
        assert_eq!((count(Op::Alloc), count(Op::Promote), count(Op::Free)), (3902, 2297, 2254));
        assert_eq!(events.iter().map(|event| event.size).sum::<u64>(), 96_610 * 8);
        let old = events.iter().filter(|event| event.flags.contains(Flags::DIRECT_TO_OLD));
        assert_eq!(old.count(), 81);
        assert!(events.is_sorted_by_key(|event| event.time_ns));
        assert!(events.last().unwrap().time_ns > 0);
        assert_eq!((done.meta.cut, done.meta.losses.len()), (None, 0));
        assert!(done.meta.allocator.contains("s=4096"), "{}", done.meta.allocator);
    }

    #[test]
    fn stacks_lead_to_the_lines_that_allocate() {
        let (events, done) = imported(WHOLE).unwrap();
        let tables = &done.tables;
        let stack = |mut node: u32| {
            let mut calls = Vec::new();
            while node != 0 {
                let mut frame = Some(tables.stacks[node as usize].frame);
                while let Some(at) = frame {
                    let found = &tables.frames[at as usize];
                    calls.push(format!(
                        "{}@{}:{}",
                        found.function.as_deref().unwrap_or("?"),
                        found.file.as_deref().unwrap_or("?"),
                        found.line
                    ));
                    frame = found.inlined_into;
                }
                node = tables.stacks[node as usize].parent;
            }
            calls.reverse();
            calls.join(" ")
        };
        let births: Vec<_> = events.iter().filter(|event| event.op == Op::Alloc).collect();
        assert!(births.iter().all(|birth| birth.stack != 0));
        let mut texts: Vec<String> = births.iter().map(|birth| stack(birth.stack)).collect();
        let hash = texts.iter().fold(0_u64, |hash, text| {
            text.bytes().fold(hash, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
        });
        texts.sort();
        texts.dedup();
        let last =
            "Stdlib__Random.State.make@random.ml:62 Stdlib__Random.State.new_state@random.ml:34";
        assert!(texts.iter().any(|text| text.ends_with(last)), "{texts:#?}");
        assert_eq!((texts.len(), hash), STACKS, "{texts:#?}");
    }

    #[test]
    fn a_profile_is_a_recording_that_is_not_replayed() {
        assert_eq!(detect(PROFILE), Some(Format::Memtrace));
        let (_, done) = imported(PROFILE).unwrap();
        assert_eq!(done.meta.sampled_every_words, 1_000_000);
        assert!(done.meta.losses[0].contains("8000000 bytes a sample"), "{:?}", done.meta.losses);
    }

    #[test]
    fn a_cut_file_is_what_came_before() {
        let bytes = unpacked();
        let (events, done) = imported(&bytes[..bytes.len() - 1]).unwrap();
        assert!(!events.is_empty() && events.len() < 3902 + 2297 + 2254);
        assert!(done.meta.cut.unwrap().starts_with("in a packet"));
        assert!(imported(&bytes[..20]).unwrap_err().to_string().contains("was cut"));
    }

    #[test]
    fn wherever_a_file_is_cut_it_is_an_error_or_what_came_before() {
        let (whole, done) = imported(PROFILE).unwrap();
        assert!(!whole.is_empty() && done.meta.cut.is_none());
        // Bytes at which it may be cut unseen: a packet ends there.
        let (mut borders, mut began) = (0, false);
        for at in MAGIC.len()..PROFILE.len() {
            match imported(&PROFILE[..at]) {
                Err(error) => {
                    assert!(!began && error.to_string().contains("was cut"), "{at}: {error}");
                }
                Ok((events, done)) => {
                    began = true;
                    assert!(events.len() < whole.len(), "{at}");
                    assert_eq!(events, whole[..events.len()], "{at}");
                    borders += usize::from(done.meta.cut.is_none());
                }
            }
        }
        assert_eq!(borders, 2, "behind each packet but the last");
    }

    #[test]
    fn damage_is_an_error_or_a_shorter_recording_and_never_a_panic() {
        let bytes = unpacked();
        for at in (0..bytes.len()).step_by(37) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            let _ = imported(&damaged);
        }
    }
}
