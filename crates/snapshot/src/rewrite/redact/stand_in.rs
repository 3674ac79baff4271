//! Replacements of strings: the same number of UTF-16 units, equal for equal strings, and different
//! from every string of the file.
//!
//! Letters are drawn from a keyed hash: BLAKE3 with a key of 256 bits. Without the key, nobody can
//! compute a replacement or check a guess. Short strings have few replacements. For one or two
//! characters they are drawn from 20,902 Chinese characters. A replacement that another string has,
//! or that is itself a string of the file, is drawn again. That depends on the file, so under one
//! key a few short strings have other replacements in other files.

use super::Key;
use crate::names::{StringsFull, StringsStorage};
use blake3::{Hasher, OutputReader};
use std::collections::HashMap;

/// Below so many units letters are too few to tell strings apart.
const LETTERS_LEAST_UNITS: usize = 5;
/// How often is drawn before equal stand-ins are accepted: only a file with most characters as
/// strings of their own gets there.
const DRAWS_MAX: u64 = 4096;
const IDEOGRAPHS: std::ops::Range<u32> = 0x4E00..0x9FA6;

/// Stand-ins given so far.
pub(super) struct StandIns<'a> {
    key: Key,
    originals: &'a StringsStorage,
    /// The original text of each replacement.
    taken: HashMap<Vec<u8>, u64>,
}

impl<'a> StandIns<'a> {
    pub(super) fn new(key: Key, originals: &'a StringsStorage) -> StandIns<'a> {
        StandIns { key, originals, taken: HashMap::new() }
    }

    /// What stands for that part of a string. The empty string stands for itself.
    pub(super) fn of(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), StringsFull> {
        let units = units(text);
        if units == 0 {
            return Ok(());
        }
        let from = out.len();
        let owner = word(&mut self.stream(OWNER, text));
        for draw in 0.. {
            out.truncate(from);
            self.draw(text, units, draw, out);
            let drawn = &out[from..];
            let free = self.originals.find(drawn).is_none()
                && self.taken.get(drawn).is_none_or(|other| *other == owner);
            if free || draw == DRAWS_MAX {
                self.taken.entry(drawn.to_vec()).or_insert(owner);
                break;
            }
        }
        Ok(())
    }

    fn draw(&self, text: &[u8], units: usize, draw: u64, out: &mut Vec<u8>) {
        let mut stream = self.stream(draw, text);
        let mut drawn = 0;
        for unit in 0..units {
            let per_word = if units < LETTERS_LEAST_UNITS { 4 } else { 12 };
            if unit % per_word == 0 {
                drawn = word(&mut stream);
            }
            if units < LETTERS_LEAST_UNITS {
                let width = u64::from(IDEOGRAPHS.end - IDEOGRAPHS.start);
                let point =
                    char::from_u32(IDEOGRAPHS.start + (drawn % width) as u32).unwrap_or('\u{4E00}');
                out.extend_from_slice(point.encode_utf8(&mut [0; 4]).as_bytes());
                drawn /= width;
            } else {
                out.push(b'a' + (drawn % 26) as u8);
                drawn /= 26;
            }
        }
    }

    /// Numbers without end, of a draw and a text.
    fn stream(&self, draw: u64, text: &[u8]) -> OutputReader {
        let mut hasher = Hasher::new_keyed(&self.key.0);
        hasher.update(&draw.to_le_bytes()).update(text);
        hasher.finalize_xof()
    }
}

/// No draw has this number: what comes of it tells texts apart among the stand-ins, 2^64 to one.
const OWNER: u64 = u64::MAX;

fn word(stream: &mut OutputReader) -> u64 {
    let mut bytes = [0; 8];
    stream.fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// UTF-16 units of UTF-8.
fn units(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
        + text.iter().filter(|byte| **byte >= 0xF0).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Hash;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn lengths_and_equality_stay_and_originals_do_not(texts in prop::collection::vec("[a-zé😀]{0,12}|[a-z]", 0..300), key: [u8; 32]) {
            let mut originals = StringsStorage::new(Hash::Mixed);
            for text in &texts {
                originals.intern(text).unwrap();
            }
            let mut stand_ins = StandIns::new(Key(key), &originals);
            let (mut seen, mut given) = (HashMap::new(), HashSet::new());
            for text in &texts {
                let mut out = Vec::new();
                stand_ins.of(text.as_bytes(), &mut out).unwrap();
                let stand_in = String::from_utf8(out).unwrap();
                prop_assert_eq!(stand_in.encode_utf16().count(), text.encode_utf16().count());
                prop_assert!(text.is_empty() || originals.find(stand_in.as_bytes()).is_none());
                if seen.insert(text, stand_in.clone()).is_none_or(|before| before != stand_in) {
                    prop_assert!(given.insert(stand_in), "another string has it");
                }
            }
        }
    }

    #[test]
    fn another_key_gives_other_stand_ins() {
        let originals = StringsStorage::new(Hash::Mixed);
        let of = |key: &str| {
            let mut out = Vec::new();
            StandIns::new(Key::of_text(key.as_bytes()), &originals)
                .of(b"alice@example.com", &mut out)
                .unwrap();
            out
        };
        assert_eq!(of("a key"), of("a key"));
        assert_ne!(of("a key"), of("a kex"));
        assert_ne!(of("ab"), of("ba"));
        assert_eq!(of("").len(), 17);
    }
}
