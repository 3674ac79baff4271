//! The strings of a snapshot: slices of the file, decoded when somebody asks.
//!
//! A string of JavaScript is a list of 16-bit units, which need not be Unicode: lone surrogates
//! occur (a cut emoji). So decoded strings are WTF-8: UTF-8 in which a lone surrogate has the three
//! bytes that UTF-8 would give it. DevTools takes two strings for equal exactly if their WTF-8
//! bytes are equal. Shown text has U+FFFD in place of lone surrogates. Bytes of the file that are
//! not UTF-8 decode as U+FFFD, as in a browser's decoder.

use crate::analysis::find_ignoring_case;
use crate::columns::Column;
use std::borrow::Cow;

/// The number of a string: in the file's list, or behind it in a list of names that an analysis
/// made.
pub type StringId = u32;

/// The strings of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings<'a> {
    bytes: &'a [u8],
    /// Where each begins, behind its quote; last, the end of the list.
    starts: Column<'a, u64>,
}

impl<'a> Strings<'a> {
    /// The strings that begin at `starts` in a list that ends (behind its bracket) at `end`.
    pub(crate) fn new(bytes: &'a [u8], mut starts: Vec<u64>, end: usize) -> Self {
        starts.push(end as u64);
        Strings { bytes, starts: starts.into() }
    }

    /// The same with the end behind the last.
    pub(crate) fn of_starts(bytes: &'a [u8], starts: Column<'a, u64>) -> Self {
        Strings { bytes, starts }
    }

    /// Where each begins, and the end of the list.
    pub(crate) fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text between the quotes, escapes as in the file. A number beyond the list gives an empty
    /// string.
    pub fn raw(&self, id: StringId) -> &'a [u8] {
        let id = id as usize;
        if id >= self.len() {
            return &[];
        }
        let from = self.starts[id] as usize;
        // The next string begins behind its own quote; the quote that closes this one is the last
        // before that.
        let last = id + 1 == self.len();
        let next = self.starts[id + 1] as usize - usize::from(!last);
        let region = &self.bytes[from..next];
        region.iter().rposition(|byte| *byte == b'"').map_or(region, |quote| &region[..quote])
    }

    /// The strings whose undecoded text contains `needle`. `needle` must have no character that
    /// JSON may escape.
    pub(crate) fn containing(&self, needle: &[u8]) -> Vec<StringId> {
        let (Some(from), Some(to)) = (self.starts.first(), self.starts.last()) else {
            return Vec::new();
        };
        let (from, region) = (*from as usize, &self.bytes[(*from).min(*to) as usize..*to as usize]);
        let mut found: Vec<StringId> = memchr::memmem::find_iter(region, needle)
            .map(|at| {
                (self.starts.partition_point(|start| *start as usize <= from + at) - 1) as StringId
            })
            .collect();
        found.dedup();
        found
    }

    /// Calls `each` with every string that contains `text`, in any case of its letters. `text` is
    /// ASCII in lower case; `rarest` is the index of the letter to search for.
    ///
    /// The undecoded list is looked through as one text. Only strings with an escape are decoded.
    pub(crate) fn each_containing(
        &self,
        text: &[u8],
        rarest: usize,
        mut each: impl FnMut(StringId),
    ) {
        let (Some(from), Some(to)) = (self.starts.first(), self.starts.last()) else { return };
        let region = &self.bytes[..*to as usize];
        // The string at a place that is no smaller than the one asked for before.
        let id_at = |id: StringId, at: usize| {
            let (mut low, mut step) = (id as usize, 1);
            while self.starts.get(low + step).is_some_and(|start| *start as usize <= at) {
                low += step;
                step *= 2;
            }
            let rest = &self.starts[low..self.starts.len().min(low + step)];
            (low + rest.partition_point(|start| *start as usize <= at) - 1) as StringId
        };
        let ends = |id: StringId| self.starts[id as usize] as usize + self.raw(id).len();
        // From each match, and each escape, to the next string.
        let (mut at, mut id) = (*from as usize, 0);
        while let Some(found) = find_ignoring_case(&region[at..], text, rarest) {
            let begin = at + found;
            id = id_at(id, begin);
            let has_escape = || memchr::memchr(b'\\', self.raw(id)).is_some();
            if begin + text.len() > ends(id) || has_escape() {
                at = begin + 1;
                continue;
            }
            each(id);
            at = self.starts[id as usize + 1] as usize;
        }
        (at, id) = (*from as usize, 0);
        while let Some(found) = memchr::memchr(b'\\', &region[at..]) {
            id = id_at(id, at + found);
            if find_ignoring_case(&self.bytes(id), text, rarest).is_some() {
                each(id);
            }
            at = self.starts[id as usize + 1] as usize;
        }
    }

    /// Where the string begins in the file, behind its quote.
    pub fn offset(&self, id: StringId) -> u64 {
        self.starts.get(id as usize).copied().unwrap_or(0)
    }

    /// The string in WTF-8: what to compare.
    pub fn bytes(&self, id: StringId) -> Cow<'a, [u8]> {
        decode(self.raw(id))
    }

    /// The string as text: what to show.
    pub fn text(&self, id: StringId) -> Cow<'a, str> {
        to_text(self.bytes(id))
    }
}

/// WTF-8 as text, with U+FFFD for each lone surrogate.
pub fn to_text(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => lossy(bytes),
        Cow::Owned(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Cow::Owned(text),
            Err(error) => Cow::Owned(lossy(error.as_bytes()).into_owned()),
        },
    }
}

/// One U+FFFD for the three bytes of a lone surrogate; the standard library gives one for each
/// byte.
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut clean = bytes.to_vec();
    let mut at = 0;
    while at + 2 < clean.len() {
        if clean[at] == 0xed && clean[at + 1] >= 0xa0 {
            clean[at..at + 3].copy_from_slice("\u{fffd}".as_bytes());
            at += 2;
        }
        at += 1;
    }
    Cow::Owned(String::from_utf8_lossy(&clean).into_owned())
}

/// Takes the escapes of JSON away; the result is WTF-8.
pub fn decode(raw: &[u8]) -> Cow<'_, [u8]> {
    if raw.is_ascii() && memchr::memchr(b'\\', raw).is_none() {
        return Cow::Borrowed(raw);
    }
    let unicode = std::str::from_utf8(raw).is_ok();
    if unicode && memchr::memchr(b'\\', raw).is_none() {
        return Cow::Borrowed(raw);
    }
    let source: Cow<[u8]> = if unicode {
        Cow::Borrowed(raw)
    } else {
        Cow::Owned(String::from_utf8_lossy(raw).into_owned().into_bytes())
    };
    Cow::Owned(unescape(&source))
}

fn unescape(source: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(source.len());
    let mut at = 0;
    while at < source.len() {
        let Some(step) = memchr::memchr(b'\\', &source[at..]) else {
            out.extend_from_slice(&source[at..]);
            break;
        };
        out.extend_from_slice(&source[at..at + step]);
        at += step + 2;
        match source.get(at - 1) {
            Some(b'u') => {
                push_unit(&mut out, unit(source, at));
                at += 4;
            }
            Some(escaped) => out.push(match escaped {
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                other => *other,
            }),
            None => {}
        }
    }
    out
}

/// The four hexadecimal digits at `at`; the reader has checked them.
fn unit(source: &[u8], at: usize) -> u16 {
    let hex = source.get(at..at + 4).unwrap_or_default();
    hex.iter()
        .fold(0, |value, digit| value << 4 | (*digit as char).to_digit(16).unwrap_or(0) as u16)
}

/// Appends a 16-bit unit to WTF-8: a low surrogate behind a high one makes a character of both.
pub(crate) fn push_unit(out: &mut Vec<u8>, unit: u16) {
    if (0xdc00..0xe000).contains(&unit)
        && let [.., 0xed, second @ 0xa0..=0xaf, third] = out[..]
    {
        let high = (u32::from(second & 0x0f) << 6 | u32::from(third & 0x3f)) << 10;
        let character = 0x10000 + high + u32::from(unit - 0xdc00);
        out.truncate(out.len() - 3);
        out.extend(
            char::from_u32(character).unwrap_or('\u{fffd}').encode_utf8(&mut [0; 4]).as_bytes(),
        );
        return;
    }
    match char::from_u32(u32::from(unit)) {
        Some(character) => out.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
        None => out.extend([0xed, 0x80 | (unit >> 6) as u8 & 0x3f, 0x80 | unit as u8 & 0x3f]),
    }
}

/// The length that JavaScript gives a WTF-8 string: in 16-bit units.
pub fn units(bytes: &[u8]) -> usize {
    bytes.iter().map(|byte| usize::from(byte & 0xc0 != 0x80) + usize::from(*byte >= 0xf0)).sum()
}

/// The order that JavaScript gives WTF-8 strings: by 16-bit units. It differs from that of bytes
/// where a character of two units meets one of the last 8192 single units.
pub fn compare_units(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    let place = a.iter().zip(b).position(|(a, b)| a != b);
    let Some(place) = place else { return a.len().cmp(&b.len()) };
    // The first byte of the first differing characters: the bytes before, within that character,
    // are equal.
    let (a, b) = (a[place], b[place]);
    let lead = |byte: u8| if byte >= 0xf0 { 0xed } else { byte };
    lead(a).cmp(&lead(b)).then(a.cmp(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_and_surrogates() {
        assert_eq!(&*decode(br"a\n\u0041\\\/\"), b"a\nA\\/");
        assert_eq!(&*decode(br"\ud83d\ude00"), "\u{1f600}".as_bytes());
        assert_eq!(&*decode(br"\ud83dx"), b"\xed\xa0\xbdx");
        assert_eq!(to_text(decode(br"\ud83dx\ude00")), "\u{fffd}x\u{fffd}");
        assert_eq!(to_text(decode(b"a\xffb")), "a\u{fffd}b");
        // An escaped lone surrogate differs from the replacement character.
        assert_ne!(decode(br"\ud83d"), decode(br"\ufffd"));
        assert_eq!(units("é\u{1f600}".as_bytes()), 3);
    }

    proptest! {
        #[test]
        fn what_units_make_is_what_the_standard_library_makes(units in prop::collection::vec(any::<u16>(), 0..20)) {
            let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let decoded = decode(escaped.as_bytes());
            prop_assert_eq!(super::units(&decoded), units.len());
            prop_assert_eq!(to_text(decoded).into_owned(), String::from_utf16_lossy(&units));
        }

        #[test]
        fn strings_are_ordered_by_their_units(a in prop::collection::vec(any::<u16>(), 0..4), b in prop::collection::vec(any::<u16>(), 0..4)) {
            let wtf8 = |units: &[u16]| {
                let mut out = Vec::new();
                units.iter().for_each(|unit| push_unit(&mut out, *unit));
                out
            };
            prop_assert_eq!(compare_units(&wtf8(&a), &wtf8(&b)), a.cmp(&b));
        }

        #[test]
        fn any_bytes_decode(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            to_text(decode(&bytes));
        }
    }
}
