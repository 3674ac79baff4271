//! memtrace's files (janestreet/memtrace, versions 1 to 3): packets of the Common Trace Format with
//! events of the OCaml heap.
//!
//! memtrace samples, by default one word in a million: such a file is a profile, and a
//! replay of it would be one of a millionth of the heap. So only files of rate 1
//! (`MEMTRACE_RATE=1`) are imported. Locations are passed over.

use super::managed::{Bytes, Managed};
use super::{Imported, Options};
use crate::{EventSink, Origin, TraceError};
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

const INFO: u32 = 0;
const LOCATION: u32 = 1;
const ALLOC: u32 = 2;
const PROMOTE: u32 = 3;
const COLLECT: u32 = 4;

/// What a packet says of itself.
struct Packet {
    begin_us: u64,
    first_object: u64,
    end_object: u64,
    version: u16,
    content: Vec<u8>,
    /// Where the content begins in the file.
    at: u64,
}

/// Imports. A file that was cut is a recording up to its last whole packet.
pub fn import<R: BufRead, S: EventSink>(
    input: R,
    options: &Options,
    sink: &mut S,
) -> Result<Imported, TraceError> {
    let mut bytes = Bytes::new(input, options);
    let mut heap = Managed::new(options, sink);
    let Some(first) = packet(&mut bytes)? else {
        return Err(bytes.malformed("memtrace's first packet", "a file that was cut"));
    };
    info(&first, options, &mut heap)?;
    let mut outside = 0_u64;
    while bytes.is_more()? {
        let Some(packet) = packet(&mut bytes)? else {
            heap.out.meta.cut = Some(format!("in a packet that ends behind byte {}", bytes.at));
            break;
        };
        outside += events(&packet, first.begin_us, options, &mut heap)?;
    }
    if outside > 0 {
        heap.out.meta.losses.push(format!(
            "{outside} objects are memory outside of the OCaml heap, and stand among the others"
        ));
    }
    Ok(heap.out)
}

/// The next packet; nothing where the file ends in it.
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
    Ok(Some(Packet {
        begin_us: u64_at(&start, 8),
        first_object: u64_at(&rest, objects),
        end_object: u64_at(&rest, objects + 8),
        version,
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
    options: &'p Options,
    at: usize,
}

impl<'p> Cursor<'p> {
    fn new(packet: &'p Packet, options: &'p Options) -> Cursor<'p> {
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

    /// A stack: entries of 2 bytes, whose lowest bits say what follows.
    fn pass_stack(&mut self, entries: u64) -> Result<(), TraceError> {
        for _ in 0..entries {
            match self.number(2)? & 3 {
                2 => self.take(1)?,
                3 => self.take(8)?,
                _ => &[],
            };
        }
        Ok(())
    }
}

/// The first packet: about the program. Refuses profiles.
fn info<S: EventSink>(
    packet: &Packet,
    options: &Options,
    heap: &mut Managed<'_, S>,
) -> Result<(), TraceError> {
    let mut cursor = Cursor::new(packet, options);
    if (cursor.number(4)? >> TIME_BITS) as u32 != INFO {
        return Err(cursor.malformed("memtrace's facts of the program", "another event"));
    }
    let rate = f64::from_bits(cursor.number(8)?);
    if rate != 1.0 {
        return Err(cursor.malformed(
            "every block (MEMTRACE_RATE=1), without which a replay is of another heap",
            format!("a profile that samples {rate:e} of the words"),
        ));
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
    debug_assert!(packet.version >= 1);
    Ok(())
}

/// The events of a packet; returns how many allocations were outside of the heap.
fn events<S: EventSink>(
    packet: &Packet,
    start_us: u64,
    options: &Options,
    heap: &mut Managed<'_, S>,
) -> Result<u64, TraceError> {
    let mut cursor = Cursor::new(packet, options);
    let (mut object, mut outside) = (packet.first_object, 0);
    while cursor.at < packet.content.len() {
        let word = cursor.number(4)? as u32;
        // The lowest bits of the time, not before the packet's.
        let mask = (1_u64 << TIME_BITS) - 1;
        let ahead = u64::from(word).wrapping_sub(packet.begin_us) & mask;
        let time_us = (packet.begin_us + ahead).saturating_sub(start_us);
        heap.set_time(time_us.saturating_mul(1000));
        match word >> TIME_BITS {
            // A packet with a location has nothing else.
            LOCATION => return Ok(outside),
            code @ (ALLOC | 101..=116) => {
                outside += u64::from(!birth(code, object, &mut cursor, heap)?);
                object += 1;
            }
            code @ (PROMOTE | COLLECT) => {
                let back = cursor.variable()?;
                let named = object.checked_sub(1).and_then(|last| last.checked_sub(back));
                let named =
                    named.ok_or_else(|| cursor.malformed("an object", format!("{back} back")))?;
                if code == PROMOTE { heap.promotion(named)? } else { heap.death(named)? }
            }
            code => return Err(cursor.malformed("an event of memtrace", format!("code {code}"))),
        }
    }
    if object != packet.end_object {
        return Err(cursor.malformed(
            &format!("objects up to {}", packet.end_object),
            format!("up to {object}"),
        ));
    }
    Ok(outside)
}

/// True where the object is in the OCaml heap.
fn birth<S: EventSink>(
    code: u32,
    object: u64,
    cursor: &mut Cursor<'_>,
    heap: &mut Managed<'_, S>,
) -> Result<bool, TraceError> {
    let is_short = code != ALLOC;
    let (words, source) = if is_short {
        (u64::from(code - 100), 0)
    } else {
        let words = cursor.variable()?;
        cursor.variable()?;
        (words, cursor.number(1)?)
    };
    cursor.variable()?;
    let entries = cursor.number(if is_short { 1 } else { 2 })?;
    cursor.pass_stack(entries)?;
    if words > WORDS_MAX || source > 2 {
        return Err(cursor.malformed("an object", format!("{words} words of source {source}")));
    }
    let size = words * WORD_BYTES;
    // What is outside dies as the others do, and so it has to have been born.
    let origin = if source == 2 { Origin::Custom } else { Origin::Normal };
    heap.birth(object, size, origin, source == 1)?;
    Ok(source != 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{Format, detect, import};
    use crate::{Event, Flags, Op};

    const WHOLE: &[u8] = include_bytes!("../../tests/data/memtrace.ctf.gz");
    const PROFILE: &[u8] = include_bytes!("../../tests/data/memtrace-profile.ctf");

    fn imported(bytes: &[u8]) -> Result<(Vec<Event>, Imported), TraceError> {
        let mut sink = Vec::new();
        let done = import(bytes, None, &Options::default(), &mut sink)?;
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
    fn a_profile_is_refused_with_the_reason() {
        assert_eq!(detect(PROFILE), Some(Format::Memtrace));
        let error = imported(PROFILE).unwrap_err().to_string();
        assert!(
            error.contains("MEMTRACE_RATE=1") && error.contains("1e-6 of the words"),
            "{error}"
        );
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
    fn damage_is_an_error_or_a_shorter_recording_and_never_a_panic() {
        let bytes = unpacked();
        for at in (0..bytes.len()).step_by(37) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            let _ = imported(&damaged);
        }
    }
}
