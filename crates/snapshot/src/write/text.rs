//! Numbers and strings as JSON, through a buffer that is written out when full.
//!
//! A snapshot is numbers: five for each node, three for each edge. They are written two digits at a
//! time into the buffer itself. Strings become ASCII, as in V8: characters that JSON does not take
//! as they are become escapes, and all above 127 become `\uXXXX`.

use std::io::{self, Write};

const BUFFER_BYTES: usize = 64 << 10;
/// The longest number, and what may stand around it.
const NUMBER_BYTES_MAX: usize = 24;
const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// "00" to "99".
static PAIRS: [u8; 200] = pairs();

const fn pairs() -> [u8; 200] {
    let mut pairs = [0; 200];
    let mut n = 0;
    while n < 100 {
        pairs[2 * n] = b'0' + (n / 10) as u8;
        pairs[2 * n + 1] = b'0' + (n % 10) as u8;
        n += 1;
    }
    pairs
}

/// A buffer before a sink.
pub(super) struct Output<W> {
    sink: W,
    buffer: Vec<u8>,
    filled: usize,
    passed_bytes: u64,
}

impl<W: Write> Output<W> {
    pub(super) fn new(sink: W) -> Output<W> {
        Output { sink, buffer: vec![0; BUFFER_BYTES], filled: 0, passed_bytes: 0 }
    }

    /// Bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.passed_bytes + self.filled as u64
    }

    /// Writes the buffer out.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.sink.write_all(&self.buffer[..self.filled])?;
        self.passed_bytes += self.filled as u64;
        self.filled = 0;
        Ok(())
    }

    /// Returns the sink, with everything written.
    pub(super) fn into_sink(mut self) -> io::Result<W> {
        self.flush()?;
        self.sink.flush()?;
        Ok(self.sink)
    }

    pub(super) fn text(&mut self, text: &[u8]) -> io::Result<()> {
        for piece in text.chunks(BUFFER_BYTES) {
            self.reserve(piece.len())?;
            self.buffer[self.filled..self.filled + piece.len()].copy_from_slice(piece);
            self.filled += piece.len();
        }
        Ok(())
    }

    /// One byte (less than a buffer).
    pub(super) fn byte(&mut self, byte: u8) -> io::Result<()> {
        self.reserve(1)?;
        self.buffer[self.filled] = byte;
        self.filled += 1;
        Ok(())
    }

    /// The numbers with commas between them.
    #[inline]
    pub(super) fn numbers(&mut self, numbers: &[u64]) -> io::Result<()> {
        debug_assert!(numbers.len() * NUMBER_BYTES_MAX <= BUFFER_BYTES);
        self.reserve(numbers.len() * NUMBER_BYTES_MAX)?;
        let mut at = self.filled;
        for (index, number) in numbers.iter().enumerate() {
            if index > 0 {
                self.buffer[at] = b',';
                at += 1;
            }
            at += decimal(*number, &mut self.buffer[at..]);
        }
        self.filled = at;
        Ok(())
    }

    /// A number that may be below zero.
    pub(super) fn signed(&mut self, number: i64) -> io::Result<()> {
        if number < 0 {
            self.byte(b'-')?;
        }
        self.numbers(&[number.unsigned_abs()])
    }

    #[inline]
    fn reserve(&mut self, bytes: usize) -> io::Result<()> {
        if self.filled + bytes > BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// A string in quotes. `text` is UTF-8 in which surrogates may stand alone (WTF-8); other bytes
    /// become U+FFFD.
    pub(super) fn string(&mut self, text: &[u8]) -> io::Result<()> {
        self.byte(b'"')?;
        let mut rest = text;
        while let Some(first) = rest.first() {
            let plain = rest.iter().position(|byte| !is_plain(*byte)).unwrap_or(rest.len());
            if plain > 0 {
                self.text(&rest[..plain])?;
                rest = &rest[plain..];
                continue;
            }
            match first {
                b'"' | b'\\' => self.text(&[b'\\', *first])?,
                8 => self.text(b"\\b")?,
                9 => self.text(b"\\t")?,
                10 => self.text(b"\\n")?,
                12 => self.text(b"\\f")?,
                13 => self.text(b"\\r")?,
                byte if *byte < 128 => self.unit(u16::from(*byte))?,
                _ => {
                    let (point, bytes) = code_point(rest);
                    self.point(point)?;
                    rest = &rest[bytes..];
                    continue;
                }
            }
            rest = &rest[1..];
        }
        self.byte(b'"')
    }

    fn point(&mut self, point: u32) -> io::Result<()> {
        if let Ok(unit) = u16::try_from(point) {
            return self.unit(unit);
        }
        let above = point - 0x1_0000;
        self.unit(0xD800 | (above >> 10) as u16)?;
        self.unit(0xDC00 | (above & 0x3FF) as u16)
    }

    fn unit(&mut self, unit: u16) -> io::Result<()> {
        let digit = |shift: u32| HEX[usize::from(unit >> shift & 15)];
        self.text(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)])
    }
}

fn is_plain(byte: u8) -> bool {
    (32..128).contains(&byte) && byte != b'"' && byte != b'\\'
}

/// The first code point of `bytes` (not empty, not ASCII) and its length. Surrogates are code
/// points here.
fn code_point(bytes: &[u8]) -> (u32, usize) {
    let (length, least, mut point) = match bytes[0] {
        first @ 0xC2..=0xDF => (2, 0x80, u32::from(first & 0x1F)),
        first @ 0xE0..=0xEF => (3, 0x800, u32::from(first & 0x0F)),
        first @ 0xF0..=0xF4 => (4, 0x1_0000, u32::from(first & 0x07)),
        _ => return (0xFFFD, 1),
    };
    for index in 1..length {
        match bytes.get(index) {
            Some(next @ 0x80..=0xBF) => point = point << 6 | u32::from(next & 0x3F),
            _ => return (0xFFFD, index),
        }
    }
    if (least..=0x10_FFFF).contains(&point) { (point, length) } else { (0xFFFD, length) }
}

/// Writes `number` to the start of `out` and returns its length.
#[inline]
fn decimal(mut number: u64, out: &mut [u8]) -> usize {
    if number < 10 {
        out[0] = b'0' + number as u8;
        return 1;
    }
    let length = digits(number);
    let out = &mut out[..length];
    let mut end = length;
    while number >= 100 {
        let pair = (number % 100) as usize * 2;
        number /= 100;
        end -= 2;
        out[end..end + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if number >= 10 {
        let pair = number as usize * 2;
        out[..2].copy_from_slice(&PAIRS[pair..pair + 2]);
    } else {
        out[0] = b'0' + number as u8;
    }
    length
}

/// How many decimal digits it has.
#[inline]
fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(write: impl FnOnce(&mut Output<Vec<u8>>) -> io::Result<()>) -> String {
        let mut output = Output::new(Vec::new());
        write(&mut output).unwrap();
        String::from_utf8(output.into_sink().unwrap()).unwrap()
    }

    #[test]
    fn numbers_at_every_length() {
        let mut numbers = vec![0, u64::MAX];
        for power in 0..20 {
            let ten = 10u64.pow(power);
            numbers.extend([ten - 1, ten, ten + 1, ten.saturating_mul(5)]);
        }
        let expected: Vec<String> = numbers.iter().map(u64::to_string).collect();
        assert_eq!(written(|output| output.numbers(&numbers)), expected.join(","));
    }

    #[test]
    fn strings_are_ascii_as_v8_writes_them() {
        assert_eq!(
            written(|output| output.string("a\"\\\u{8}\t\n\u{c}\r\u{1}\u{7f}".as_bytes())),
            "\"a\\\"\\\\\\b\\t\\n\\f\\r\\u0001\u{7f}\""
        );
        assert_eq!(
            written(|output| output.string("é€😀".as_bytes())),
            r#""\u00E9\u20AC\uD83D\uDE00""#
        );
        // A lone surrogate stays; bytes that are not UTF-8 are replaced.
        assert_eq!(
            written(|output| output.string(b"\xED\xA0\x80x\xFF\xE2\x82")),
            r#""\uD800x\uFFFD\uFFFD""#
        );
    }

    #[test]
    fn more_than_a_buffer_passes() {
        let long = "0123456789".repeat(20_000);
        assert_eq!(written(|output| output.string(long.as_bytes())), format!("\"{long}\""));
    }

    proptest! {
        #[test]
        fn any_string_comes_back_from_another_parser(text in any::<String>(), numbers in prop::collection::vec(any::<u64>(), 0..9)) {
            let json = written(|output| output.string(text.as_bytes()));
            prop_assert!(json.is_ascii());
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
            let json = written(|output| output.numbers(&numbers));
            prop_assert_eq!(serde_json::from_str::<Vec<u64>>(&format!("[{json}]")).unwrap(), numbers);
        }
    }
}
