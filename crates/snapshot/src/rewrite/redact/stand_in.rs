//! What stands for a string: as many UTF-16 units, the same for the same string, and no string of the file.
//!
//! Letters drawn from a keyed hash. Short strings have few stand-ins: for one or two characters they are drawn from 20,902 Chinese
//! characters, and a stand-in that another string has, or that is itself a string of the file, is drawn again.

use super::sip;
use crate::names::{StringId, StringsFull, StringsStorage};
use std::collections::HashMap;

/// Below so many units letters are too few to tell strings apart.
const LETTERS_LEAST_UNITS: usize = 5;
/// How often is drawn before equal stand-ins are accepted: only a file with most characters as strings of their own gets there.
const DRAWS_MAX: u64 = 4096;
const IDEOGRAPHS: std::ops::Range<u32> = 0x4E00..0x9FA6;

/// Stand-ins given so far.
pub(super) struct StandIns<'a> {
    key: [u64; 2],
    originals: &'a StringsStorage,
    taken: HashMap<Vec<u8>, StringId>,
}

impl<'a> StandIns<'a> {
    pub(super) fn new(key: [u64; 2], originals: &'a StringsStorage) -> StandIns<'a> {
        StandIns { key, originals, taken: HashMap::new() }
    }

    /// What stands for that part of a string. The empty string stands for itself.
    pub(super) fn of(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), StringsFull> {
        let units = units(text);
        if units == 0 {
            return Ok(());
        }
        let from = out.len();
        let owner = text_id(self.key, text);
        for draw in 0.. {
            out.truncate(from);
            self.draw(text, units, draw, out);
            let drawn = &out[from..];
            let free = self.originals.find(drawn).is_none() && self.taken.get(drawn).is_none_or(|other| *other == owner);
            if free || draw == DRAWS_MAX {
                self.taken.entry(drawn.to_vec()).or_insert(owner);
                break;
            }
        }
        Ok(())
    }

    fn draw(&self, text: &[u8], units: usize, draw: u64, out: &mut Vec<u8>) {
        let seed = sip::hash(self.key, text);
        let stream = |block: u64| {
            let mut words = [0; 24];
            words[..8].copy_from_slice(&seed.to_le_bytes());
            words[8..16].copy_from_slice(&draw.to_le_bytes());
            words[16..].copy_from_slice(&block.to_le_bytes());
            sip::hash([self.key[1], self.key[0]], &words)
        };
        let mut word = 0;
        for unit in 0..units {
            let per_word = if units < LETTERS_LEAST_UNITS { 4 } else { 12 };
            if unit % per_word == 0 {
                word = stream((unit / per_word) as u64);
            }
            if units < LETTERS_LEAST_UNITS {
                let width = u64::from(IDEOGRAPHS.end - IDEOGRAPHS.start);
                let point = char::from_u32(IDEOGRAPHS.start + (word % width) as u32).unwrap_or('\u{4E00}');
                out.extend_from_slice(point.encode_utf8(&mut [0; 4]).as_bytes());
                word /= width;
            } else {
                out.push(b'a' + (word % 26) as u8);
                word /= 26;
            }
        }
    }
}

/// Tells texts apart among the stand-ins, 2^32 to one; a clash makes two texts share a stand-in only if they drew the same.
fn text_id(key: [u64; 2], text: &[u8]) -> StringId {
    StringId(sip::hash([!key[0], key[1]], text) as u32)
}

/// UTF-16 units of UTF-8.
fn units(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xC0 != 0x80).count() + text.iter().filter(|byte| **byte >= 0xF0).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Hash;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn lengths_and_equality_stay_and_originals_do_not(texts in prop::collection::vec("[a-zé😀]{0,12}|[a-z]", 0..300), key: [u64; 2]) {
            let mut originals = StringsStorage::new(Hash::Mixed);
            for text in &texts {
                originals.intern(text).unwrap();
            }
            let mut stand_ins = StandIns::new(key, &originals);
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
        let of = |key| {
            let mut out = Vec::new();
            StandIns::new(key, &originals).of(b"alice@example.com", &mut out).unwrap();
            out
        };
        assert_eq!(of([1, 2]), of([1, 2]));
        assert_ne!(of([1, 2]), of([1, 3]));
        assert_eq!(of([1, 2]).len(), 17);
    }
}
