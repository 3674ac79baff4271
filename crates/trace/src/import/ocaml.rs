//! The stream of heaplab's recorder for OCaml (`ocaml/` in the source tree): every block of the
//! OCaml heap, by `Gc.Memprof` at rate 1.
//!
//! After the first line, all is numbers of seven bits a byte, the lowest first, the eighth set
//! where more follow (docs/recording-ocaml.md). Objects are named by how many births ago they were
//! born, so that a number rarely takes more than two bytes.

use super::managed::{Bytes, Managed};
use super::{ImportOptions, Imported};
use crate::{EventSink, NO_STACK, Origin, TraceError};
use std::io::BufRead;

/// The first line, but for the version.
pub const HEADER: &str = "HEAPLAB-OCAML-";
/// Numbers of the header: bytes of a word, `s`, `o`, `a`, `i`, `O`, and the words between two
/// forced collections, which version 1 has not.
const PARAMETERS: usize = 7;
/// Longest version text.
const VERSION_BYTES_MAX: u64 = 64;
const WORD_BYTES: u64 = 8;
/// Largest object of the minor heap, words.
const YOUNG_WORDS_MAX: u64 = 256;
/// The minor heap without `s`, words.
const DEFAULT_MINOR_WORDS: u64 = 256 << 10;
/// Largest object, words.
const WORDS_MAX: u64 = 1 << 40;

const BIRTH: u64 = 0;
const BIRTH_OLD: u64 = 1;
const PROMOTION: u64 = 2;
const DEATH_YOUNG: u64 = 3;
const DEATH_OLD: u64 = 4;
const END: u64 = 5;
const TIME: u64 = 6;
const BIRTHS_ELSEWHERE: u64 = 7;
/// Numbers behind the end: minor and major collections, and words of the minor heap, which version
/// 1 has not.
const COUNTS: usize = 3;

/// Imports. A stream that was cut is a recording up to there.
pub fn import<R: BufRead, S: EventSink>(
    input: R,
    options: &ImportOptions,
    sink: &mut S,
) -> Result<Imported, TraceError> {
    let mut bytes = Bytes::new(input, options);
    let mut line = [0; HEADER.len() + 2];
    let whole = bytes.fill(&mut line)? && line[..HEADER.len()] == *HEADER.as_bytes();
    let version = line[HEADER.len()];
    if !whole || !matches!(version, b'1' | b'2') || line[HEADER.len() + 1] != b'\n' {
        return Err(bytes.malformed("HEAPLAB-OCAML-1 or HEAPLAB-OCAML-2", "another first line"));
    }
    let is_first = version == b'1';
    let mut heap = Managed::new(options, sink);
    let minor_heap_words = header(&mut bytes, is_first, &mut heap)?;
    let mut births = Births::default();
    loop {
        let Some(kind) = number(&mut bytes)? else {
            heap.out.meta.cut = Some(format!(
                "after {} objects: the program was killed, or ended without running at_exit",
                heap.born_objects()
            ));
            return Ok(heap.out);
        };
        let Some(value) = number(&mut bytes)? else {
            heap.out.meta.cut = Some("in the middle of an event".into());
            return Ok(heap.out);
        };
        let (kind, source) = (kind & 7, kind >> 3);
        let born = heap.born_objects();
        let named = || {
            born.checked_sub(value).filter(|_| value > 0).ok_or_else(|| {
                let unborn = format!("{value} births ago, of {born}");
                bytes.malformed("an object that was born", unborn)
            })
        };
        match kind {
            BIRTH | BIRTH_OLD => {
                let origin = u8::try_from(source).ok().and_then(Origin::from_number);
                let origin = origin.filter(|origin| *origin != Origin::HiddenClass);
                let origin =
                    origin.ok_or_else(|| bytes.malformed("source 0 to 2", source.to_string()))?;
                if value > WORDS_MAX {
                    return Err(bytes.malformed("an object's words", value.to_string()));
                }
                let is_old = kind == BIRTH_OLD;
                births.add(value, origin, is_old);
                heap.birth(born, value * WORD_BYTES, origin, is_old, NO_STACK)?;
            }
            PROMOTION => heap.promotion(named()?)?,
            DEATH_YOUNG | DEATH_OLD => heap.death(named()?)?,
            TIME => heap.set_time(value.saturating_mul(1000)),
            END if value == born => {
                if !is_first {
                    let mut counts = [0; COUNTS];
                    for count in &mut counts {
                        *count = number(&mut bytes)?.unwrap_or(0);
                    }
                    heap.out.meta.losses.extend(births.beside(minor_heap_words, counts));
                }
                heap.out.meta.losses.extend(in_old_at_once(births.read_back));
                heap.out.meta.losses.extend(outside_heap(births.outside));
                return Ok(heap.out);
            }
            END => {
                return Err(bytes.malformed(&format!("{born} births"), format!("{value} births")));
            }
            // Three bits: no other kind is left.
            BIRTHS_ELSEWHERE.. => heap.out.meta.losses.push(format!(
                "about {value} blocks of domains besides the one that began the recording are not \
                 in it: the recorder writes one domain's blocks"
            )),
        }
    }
}

/// Births, by the heap they took.
#[derive(Default)]
struct Births {
    /// Words of the minor heap that objects took, with their headers.
    minor_words: u64,
    /// Blocks that the minor heap could have held and that Marshal read into the major heap.
    read_back: u64,
    /// Memory outside of the heap.
    outside: u64,
}

impl Births {
    fn add(&mut self, words: u64, origin: Origin, is_old: bool) {
        if origin == Origin::Custom {
            self.outside += 1;
        } else if !is_old {
            self.minor_words = self.minor_words.saturating_add(words + 1);
        }
        if origin == Origin::Marshalled && is_old && words <= YOUNG_WORDS_MAX {
            self.read_back += 1;
        }
    }

    /// The effect of the recorder's own objects, by the numbers behind the end.
    fn beside(&self, minor_heap_words: u64, counts: [u64; COUNTS]) -> Option<String> {
        let [minor_collections, _, all] = counts;
        let own_size = words_of_its_own(minor_heap_words, minor_collections, all);
        perturbation(minor_heap_words, own_size, self.minor_words, all)
    }
}

/// The words of the minor heap of a program that made it larger after its start (`Gc.set`): fewer
/// collections than its first size would need.
fn words_of_its_own(at_start: u64, collections: u64, all: u64) -> Option<u64> {
    let each = all.checked_div(collections)?;
    (collections >= 3 && each > at_start + at_start / 4).then_some(each)
}

/// The effect of the recorder's own objects (its callbacks make one a block) on the program: its
/// minor heap of `heap_words` took `all` words, of which `words` were the program's. A minor heap
/// that is as much larger makes up for them. `own`: the program sets another one itself.
fn perturbation(heap_words: u64, own_size: Option<u64>, words: u64, all: u64) -> Option<String> {
    let own = all.checked_sub(words).filter(|own| words > 0 && *own > words / 100)?;
    let factor = all as f64 / words as f64;
    let undone = heap_words as f64 / factor / DEFAULT_MINOR_WORDS as f64;
    let cure = if let Some(size) = own_size {
        format!(
            "its minor heap filled {factor:.2} times as often. The program sets it itself (to some {}k words, Gc.set) over OCAMLRUNPARAM: with {factor:.2} times as much there it fills as often as without the recorder. Other parameters, too, may not be those of the start",
            size / 1024
        )
    } else if (0.97..1.03).contains(&undone) {
        format!(
            "its minor heap of {}k words makes up for that: it filled as often as the usual 256k",
            heap_words / 1024
        )
    } else {
        format!(
            "its minor heap filled {factor:.2} times as often; recorded with a minor heap {factor:.2} times as large (OCAMLRUNPARAM=s={:.0}k for the usual 256k words) it fills as often as without the recorder",
            DEFAULT_MINOR_WORDS as f64 * factor / 1024.0
        )
    };
    Some(format!(
        "the recorder took {own} words of the minor heap beside the program's {words}: {cure}"
    ))
}

/// Blocks that a young generation could have held and that were born in the old one.
fn in_old_at_once(count: u64) -> Option<String> {
    (count > 0).then(|| {
        format!(
            "{count} blocks up to {YOUNG_WORDS_MAX} words came into the major heap at once (Marshal reads them back so): a replay bears them in the minor heap, so that it promotes them and collects there more often than the program"
        )
    })
}

/// Births that are memory outside of the heap.
pub(super) fn outside_heap(count: u64) -> Option<String> {
    (count > 0).then(|| {
        format!("{count} objects are memory outside of the OCaml heap (Bigarray and other custom blocks): they stand among the others in a report. Replays leave them out, and with them the collections that the runtime makes for their sake")
    })
}

/// Returns the words of the minor heap. The meta data gets the recorded runtime's parameters.
fn header<R: BufRead, S: EventSink>(
    bytes: &mut Bytes<'_, R>,
    is_first: bool,
    heap: &mut Managed<'_, S>,
) -> Result<u64, TraceError> {
    let cut = |bytes: &Bytes<'_, R>| bytes.malformed("the runtime's parameters", "the end");
    let mut parameters = [0; PARAMETERS];
    let count = PARAMETERS - usize::from(is_first);
    for parameter in &mut parameters[..count] {
        *parameter = number(bytes)?.ok_or_else(|| cut(bytes))?;
    }
    let [word_bytes, minor_words, overhead, policy, increment, max_overhead, apart] = parameters;
    if word_bytes != WORD_BYTES {
        return Err(bytes.malformed("words of 8 bytes", format!("{word_bytes}")));
    }
    let length = number(bytes)?.filter(|length| *length <= VERSION_BYTES_MAX);
    let mut version = String::new();
    for _ in 0..length.ok_or_else(|| bytes.malformed("a version", "a longer text"))? {
        let byte = number(bytes)?.ok_or_else(|| cut(bytes))?;
        version.push(char::from(u8::try_from(byte).unwrap_or(b'?')));
    }
    heap.out.meta.allocator = format!(
        "OCaml {version} (s={minor_words},o={overhead},a={policy},i={increment},O={max_overhead})"
    );
    heap.out.meta.granularity_bytes = apart.saturating_mul(word_bytes);
    if is_first {
        heap.out.meta.losses.push("the recorder told no times".into());
    }
    Ok(minor_words)
}

/// The next number; nothing where the stream ends in or before it.
fn number<R: BufRead>(bytes: &mut Bytes<'_, R>) -> Result<Option<u64>, TraceError> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let Some(byte) = bytes.next()? else { return Ok(None) };
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(Some(number));
        }
    }
    Err(bytes.malformed("a number of at most nine bytes", "a longer one"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Flags, Op};

    const START: &[u8] = b"HEAPLAB-OCAML-1\n\x08\x80\x02\x50\x02\x0f\x74\x044.13";

    /// Version 2: 131,072 words between two forced collections.
    const SECOND: &[u8] = b"HEAPLAB-OCAML-2\n\x08\x80\x02\x50\x02\x0f\x74\x80\x80\x08\x044.13";

    fn imported(events: &[u8]) -> Result<(Vec<Event>, Imported), TraceError> {
        imported_from(START, events)
    }

    fn imported_from(start: &[u8], events: &[u8]) -> Result<(Vec<Event>, Imported), TraceError> {
        let mut sink = Vec::new();
        let input = [start, events].concat();
        let done = import(&input[..], &ImportOptions::default(), &mut sink)?;
        Ok((sink, done))
    }

    #[test]
    fn births_promotions_and_deaths_are_rows() {
        // Three births, the second in the major heap and marshalled; a minor collection.
        let (events, done) =
            imported(&[0, 3, 9, 0xac, 2, 0, 1, 2, 3, 3, 1, 0, 2, 4, 4, 5, 4, 7, 7]).unwrap();
        let ops: Vec<_> = events.iter().map(|event| (event.op, event.object)).collect();
        assert_eq!(
            ops,
            [
                (Op::Alloc, 0),
                (Op::Alloc, 1),
                (Op::Alloc, 2),
                (Op::Promote, 0),
                (Op::Free, 2),
                (Op::Alloc, 3),
                (Op::Free, 0)
            ]
        );
        assert_eq!((events[0].size, events[1].size, events[4].collection), (24, 300 * 8, 1));
        assert_eq!((events[1].flags, events[1].origin), (Flags::DIRECT_TO_OLD, Origin::Marshalled));
        assert_eq!(events[6].collection, 2);
        assert_eq!(done.meta.allocator, "OCaml 4.13 (s=256,o=80,a=2,i=15,O=116)");
        assert_eq!(done.meta.cut, None);
    }

    #[test]
    fn version_2_tells_times_granularity_and_what_the_recorder_took() {
        // A birth, 5 ms later another one; 20 words of the minor heap, 8 of them the program's.
        let (events, done) =
            imported_from(SECOND, &[6, 0, 0, 3, 6, 0x88, 39, 0, 3, 5, 2, 0, 0, 20]).unwrap();
        assert_eq!((events[0].time_ns, events[1].time_ns), (0, 5_000_000));
        assert_eq!(done.meta.granularity_bytes, 1 << 20);
        let [loss] = &done.meta.losses[..] else { panic!("{:?}", done.meta.losses) };
        assert!(loss.contains("took 12 words") && loss.contains("program's 8:"), "{loss}");
        assert!(loss.contains("2.50 times as often") && loss.contains("s=640k"), "{loss}");
        assert_eq!(imported(&[5, 0, 0, 0]).unwrap().1.meta.losses, ["the recorder told no times"]);
        assert!(imported_from(b"HEAPLAB-OCAML-3\n", &[]).is_err());
    }

    #[test]
    fn advice_about_the_minor_heap_is_followed_once() {
        let followed = perturbation(640 << 10, None, 8, 20).unwrap();
        assert!(followed.contains("of 640k words makes up for that"), "{followed}");
        assert_eq!(perturbation(256 << 10, None, 1000, 1001), None);
    }

    #[test]
    fn a_minor_heap_that_the_program_sets_is_told() {
        let own = words_of_its_own(256 << 10, 10, 10 << 20);
        assert_eq!(own, Some(1 << 20));
        let said = perturbation(256 << 10, own, 4, 10).unwrap();
        assert!(said.contains("1024k words, Gc.set") && !said.contains("s="), "{said}");
        // More collections than the size explains may be forced, or be for memory outside.
        assert_eq!(words_of_its_own(256 << 10, 90, 10 << 20), None);
        assert_eq!(words_of_its_own(256 << 10, 0, 10 << 20), None);
    }

    #[test]
    fn memory_outside_of_the_heap_and_what_marshal_reads_back_are_told() {
        // 100 words in the major heap by Marshal, 125,000 outside of the heap.
        let (events, done) = imported(&[9, 100, 16, 0xc8, 0xd0, 7, 5, 2]).unwrap();
        assert_eq!(
            events.iter().map(|event| event.origin).collect::<Vec<_>>(),
            [Origin::Marshalled, Origin::Custom]
        );
        let losses = done.meta.losses.join("\n");
        assert!(
            losses.contains("1 blocks up to 256 words")
                && losses.contains("1 objects are memory outside"),
            "{losses}"
        );
    }

    #[test]
    fn blocks_of_other_domains_are_a_loss() {
        let (_, done) = imported_from(SECOND, &[0, 3, 7, 12, 5, 1, 0, 0, 4]).unwrap();
        let [loss] = &done.meta.losses[..] else { panic!("{:?}", done.meta.losses) };
        assert!(loss.starts_with("about 12 blocks of domains besides the one"), "{loss}");
    }

    #[test]
    fn a_cut_stream_is_what_came_before() {
        let (events, done) = imported(&[0, 3, 0]).unwrap();
        assert_eq!(
            (events.len(), done.meta.cut.as_deref()),
            (1, Some("in the middle of an event"))
        );
        assert!(imported(&[0, 3]).unwrap().1.meta.cut.unwrap().starts_with("after 1 objects"));
    }

    #[test]
    fn what_no_recorder_writes_is_refused() {
        for (events, part) in [
            (&[2, 1][..], "1 births ago, of 0"),
            (&[0, 1, 3, 1, 3, 1], "it does not live"),
            (&[0, 1, 5, 2], "expected 1 births, found 2"),
            (&[0xff; 12], "at most nine bytes"),
            (&[0x18 | 0x80, 0, 1], "source 0 to 2"),
        ] {
            let error = imported(events).unwrap_err().to_string();
            assert!(error.contains(part), "{events:?}: {error}");
        }
    }
}
