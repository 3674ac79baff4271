//! The line ends of a script, which turn a position into a line and a column.
//!
//! The document's second finding: V8 computed this table anew for each function of a script,
//! because a snapshot may not change the heap that it walks, and the table lived in the heap. V8
//! now computes the table before the walk, in the heap; the document would "ideally" keep it
//! outside. Here it is outside: computed once before the walk, freed after.
//! [`Positions::PerFunction`] restores the old behaviour for measurements.
//!
//! Lines end as in JavaScript: LF, CR, CR LF, U+2028, U+2029. Positions and columns count bytes of
//! the source as given (UTF-8 or Latin-1).

use std::collections::HashMap;

/// When line ends are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Positions {
    /// Once a script, before the walk.
    #[default]
    OncePerScript,
    /// Once a function, as V8 did before 11.5.130: quadratic in scripts with many functions.
    PerFunction,
}

/// The line ends of one script.
#[derive(Clone, Debug, Default)]
pub struct LineEnds {
    /// Where each line but the last ends, behind its terminator.
    starts: Vec<u64>,
}

impl LineEnds {
    /// Finds them.
    pub fn of(source: &[u8]) -> LineEnds {
        let mut starts = Vec::new();
        let mut at = 0;
        while at < source.len() {
            let length = match source[at] {
                b'\r' if source.get(at + 1) == Some(&b'\n') => 2,
                b'\n' | b'\r' => 1,
                0xE2 if matches!(source.get(at + 1..at + 3), Some([0x80, 0xA8 | 0xA9])) => 3,
                _ => {
                    at += 1;
                    continue;
                }
            };
            at += length;
            starts.push(at as u64);
        }
        LineEnds { starts }
    }

    /// Line and column of a position, from 0.
    pub fn line_and_column(&self, offset: u64) -> (u64, u64) {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = if line == 0 { 0 } else { self.starts[line - 1] };
        (line as u64, offset - start)
    }
}

/// The line ends of all scripts, computed at the time that the mode sets.
#[derive(Debug)]
pub(super) struct Scripts {
    mode: Positions,
    known: HashMap<u64, LineEnds>,
    /// Bytes of source that were looked at.
    pub(super) scanned_bytes: u64,
}

impl Scripts {
    pub(super) fn new(mode: Positions) -> Scripts {
        Scripts { mode, known: HashMap::new(), scanned_bytes: 0 }
    }

    /// Before the walk: a script of the heap.
    pub(super) fn prepare(&mut self, script: u64, source: &[u8]) {
        if self.mode == Positions::OncePerScript {
            self.scanned_bytes += source.len() as u64;
            self.known.insert(script, LineEnds::of(source));
        }
    }

    /// During the walk: a position in a script whose source is at hand.
    pub(super) fn resolve<'a>(
        &mut self,
        script: u64,
        offset: u64,
        source: impl FnOnce() -> Option<&'a [u8]>,
    ) -> Option<(u64, u64)> {
        if let Some(ends) = self.known.get(&script) {
            return Some(ends.line_and_column(offset));
        }
        let source = source()?;
        self.scanned_bytes += source.len() as u64;
        let ends = LineEnds::of(source);
        let place = ends.line_and_column(offset);
        if self.mode == Positions::OncePerScript {
            self.known.insert(script, ends);
        }
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_end_as_in_javascript() {
        let source = "a\nbc\r\nd\re\u{2028}f\u{2029}é€g".as_bytes();
        let ends = LineEnds::of(source);
        let place = |text: &str| {
            ends.line_and_column(
                source.windows(text.len()).position(|part| part == text.as_bytes()).unwrap() as u64,
            )
        };
        assert_eq!(
            [place("a"), place("c"), place("d"), place("e"), place("f"), place("g")],
            [(0, 0), (1, 1), (2, 0), (3, 0), (4, 0), (5, 5)]
        );
    }

    proptest! {
        #[test]
        fn as_counted_by_hand(source in "[ab\r\n]{0,40}") {
            let ends = LineEnds::of(source.as_bytes());
            let (mut line, mut column) = (0, 0);
            for (at, byte) in source.bytes().enumerate() {
                prop_assert_eq!(ends.line_and_column(at as u64), (line, column));
                column += 1;
                if byte == b'\n' || (byte == b'\r' && source.as_bytes().get(at + 1) != Some(&b'\n')) {
                    (line, column) = (line + 1, 0);
                }
            }
        }
    }
}
