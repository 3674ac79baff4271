//! An index beside a snapshot: everything that a summary shows, so that a file that was opened once
//! is summed up at once the next time.
//!
//! What is kept is small (a row a class), not the graph: questions about objects read the file
//! again, which takes as long as reading it ever did.
//!
//! Format, version 4, little-endian: the magic `HLSNAPIX`, version (u32), the version of the rules
//! that made the answers (u32, since format 2), the key of the file (its length u64, and since
//! format 3 the hash of its content u128: a copy has the same key, and a file that was changed has
//! not, whatever its times say), then the summary (counts u64, strings as length u64 and bytes;
//! since format 4 the names of scripts at the end), then the xxh3 of all before. An index is
//! refused, and then to be written anew, if any of it differs: another version, another file, a
//! damaged or cut index. Lengths are bounded by the index's own.

use crate::analysis::{Analysis, Class, RULES_VERSION, Statistics};
use crate::graph::Graph;
use crate::scripts::Scripts;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

const MAGIC: &[u8; 8] = b"HLSNAPIX";
const VERSION: u32 = 4;

/// Why an index is not to be used. Its file is to be written anew.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// It is no index, was cut, or was damaged.
    #[error("the index is damaged at byte {offset}: expected {expected}; it is to be written anew")]
    Damaged {
        /// Where.
        offset: usize,
        /// What should stand there.
        expected: &'static str,
    },
    /// It was written by another version of heaplab.
    #[error("the index has version {found}, expected {VERSION}; it is to be written anew")]
    Version {
        /// Its version.
        found: u32,
    },
    /// The rules of analysis have changed since: its answers may not be those of today.
    #[error(
        "the index was made by version {found} of the rules of analysis, expected {RULES_VERSION}; it is to be written anew"
    )]
    Rules {
        /// Their version.
        found: u32,
    },
    /// It belongs to another file, or to this one before it changed.
    #[error(
        "the index belongs to another file, or to this one before it changed; it is to be written anew"
    )]
    Stale,
}

/// What identifies a file: its bytes, all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its length.
    pub file_bytes: u64,
    /// Its hash (xxh3, 128 bits), which takes as long as reading memory does.
    pub content_hash: u128,
}

impl Key {
    /// The key of a file with these bytes.
    pub fn of(bytes: &[u8]) -> Key {
        Key { file_bytes: bytes.len() as u64, content_hash: xxh3_128(bytes) }
    }
}

/// What a summary shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Nodes in the file.
    pub node_count: u64,
    /// Edges in the file.
    pub edge_count: u64,
    /// Sums by kind.
    pub statistics: Statistics,
    /// The classes that DevTools shows.
    pub classes: Vec<Class>,
    /// Names of the scripts that the places of the classes are in.
    pub scripts: Scripts,
}

impl Summary {
    /// The summary of an analysed snapshot.
    pub fn of(analysis: &Analysis) -> Summary {
        let graph: &Graph = &analysis.snapshot().graph;
        Summary {
            node_count: graph.node_count() as u64,
            edge_count: graph.edge_count() as u64,
            statistics: analysis.statistics(),
            classes: analysis.shown_classes().map(|(_, class)| class.clone()).collect(),
            scripts: analysis.scripts().clone(),
        }
    }

    /// The index's bytes for a file with that key.
    pub fn to_index(&self, key: &Key) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(RULES_VERSION.to_le_bytes());
        out.extend(key_bytes(key));
        let counts = [self.node_count, self.edge_count]
            .into_iter()
            .chain(sums(&self.statistics))
            .chain([self.classes.len() as u64]);
        counts.for_each(|count| out.extend(count.to_le_bytes()));
        for class in &self.classes {
            let (script, line, column) = class.place.unwrap_or_default();
            let distance = i64::from(class.distance) as u64;
            let numbers = [
                class.count,
                class.self_size,
                class.retained_size,
                distance,
                u64::from(class.place.is_some()),
            ];
            let place = [script, line, column].map(u64::from);
            numbers
                .into_iter()
                .chain(place)
                .chain([class.name.len() as u64])
                .for_each(|number| out.extend(number.to_le_bytes()));
            out.extend(&class.name);
        }
        out.extend((self.scripts.names().len() as u64).to_le_bytes());
        for (script, name) in self.scripts.names() {
            out.extend([u64::from(script), name.len() as u64].map(u64::to_le_bytes).as_flattened());
            out.extend(name.as_bytes());
        }
        let checksum = xxh3_64(&out);
        out.extend(checksum.to_le_bytes());
        out
    }

    /// Reads an index of a file with that key.
    pub fn from_index(index: &[u8], key: &Key) -> Result<Summary, IndexError> {
        let damaged = |offset, expected| IndexError::Damaged { offset, expected };
        let mut read = Reader { bytes: index, at: 0 };
        if read.take(MAGIC.len()) != Some(MAGIC) {
            return Err(damaged(0, "the magic HLSNAPIX"));
        }
        let version = read.short();
        if version != VERSION {
            return Err(IndexError::Version { found: version });
        }
        let rules = read.short();
        if rules != RULES_VERSION {
            return Err(IndexError::Rules { found: rules });
        }
        let body = index
            .len()
            .checked_sub(8)
            .filter(|end| *end >= read.at)
            .ok_or(damaged(index.len(), "a checksum"))?;
        if index[body..] != xxh3_64(&index[..body]).to_le_bytes() {
            return Err(damaged(body, "the checksum of what stands before"));
        }
        read.bytes = &index[..body];
        if read.take(24) != Some(&key_bytes(key)[..]) {
            return Err(IndexError::Stale);
        }
        let summary = read.summary().ok_or(damaged(read.at, "as many classes as it says"))?;
        if read.at == body { Ok(summary) } else { Err(damaged(read.at, "the end")) }
    }
}

fn key_bytes(key: &Key) -> Vec<u8> {
    [&key.file_bytes.to_le_bytes()[..], &key.content_hash.to_le_bytes()].concat()
}

fn sums(sums: &Statistics) -> [u64; 7] {
    let Statistics {
        total_bytes,
        native_bytes,
        typed_array_bytes,
        code_bytes,
        string_bytes,
        js_array_bytes,
        system_bytes,
    } = *sums;
    [
        total_bytes,
        native_bytes,
        typed_array_bytes,
        code_bytes,
        string_bytes,
        js_array_bytes,
        system_bytes,
    ]
}

/// A place in an index.
struct Reader<'i> {
    bytes: &'i [u8],
    at: usize,
}

impl<'i> Reader<'i> {
    fn take(&mut self, count: usize) -> Option<&'i [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    /// 0 if the index ends before.
    fn short(&mut self) -> u32 {
        self.take(4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn summary(&mut self) -> Option<Summary> {
        let (node_count, edge_count) = (self.number()?, self.number()?);
        let mut sums = [0; 7];
        for sum in &mut sums {
            *sum = self.number()?;
        }
        let [
            total_bytes,
            native_bytes,
            typed_array_bytes,
            code_bytes,
            string_bytes,
            js_array_bytes,
            system_bytes,
        ] = sums;
        let statistics = Statistics {
            total_bytes,
            native_bytes,
            typed_array_bytes,
            code_bytes,
            string_bytes,
            js_array_bytes,
            system_bytes,
        };
        let mut classes = Vec::new();
        for _ in 0..self.number()? {
            classes.push(self.class()?);
        }
        let mut scripts = Vec::new();
        for _ in 0..self.number()? {
            let script = u32::try_from(self.number()?).ok()?;
            scripts.push((script, String::from_utf8(self.string()?.to_vec()).ok()?));
        }
        let scripts = Scripts::from_names(scripts);
        Some(Summary { node_count, edge_count, statistics, classes, scripts })
    }

    fn string(&mut self) -> Option<&'i [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    fn class(&mut self) -> Option<Class> {
        let (count, self_size, retained_size) = (self.number()?, self.number()?, self.number()?);
        let distance = i32::try_from(self.number()? as i64).ok()?;
        let has_place = self.number()? != 0;
        let mut place = || self.number().and_then(|number| u32::try_from(number).ok());
        let place = (place()?, place()?, place()?);
        let name = self.string()?.to_vec();
        Some(Class {
            name,
            place: has_place.then_some(place),
            count,
            self_size,
            retained_size,
            distance,
            shadowed: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        let class = |name: &[u8], place| Class {
            name: name.to_vec(),
            place,
            count: 2,
            self_size: 3,
            retained_size: 4,
            distance: -5,
            shadowed: false,
        };
        Summary {
            node_count: 5,
            edge_count: 6,
            classes: vec![class(b"A", None), class(b"\xed\xa0\x80", Some((1, 2, 3)))],
            scripts: Scripts::from_names([(1, "app.js".into())]),
            ..Summary::default()
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let key = Key::of(b"a file");
        assert_eq!(Summary::from_index(&summary().to_index(&key), &key), Ok(summary()));
    }

    #[test]
    fn an_index_of_another_state_is_stale() {
        let file = vec![7u8; 100_000];
        let key = Key::of(&file);
        let index = summary().to_index(&key);
        assert_eq!(Summary::from_index(&index, &Key::of(&file[1..])), Err(IndexError::Stale));
        for at in [0, 4096, 50_000, 60_001, 99_999] {
            let mut other = file.clone();
            other[at] = 8;
            assert_eq!(Summary::from_index(&index, &Key::of(&other)), Err(IndexError::Stale));
        }
    }

    #[test]
    fn a_damaged_index_is_refused_wherever_it_is_damaged() {
        let key = Key::of(b"a file");
        let good = summary().to_index(&key);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(Summary::from_index(&bad, &key).is_err(), "byte {at}");
            assert!(Summary::from_index(&good[..at], &key).is_err(), "cut at {at}");
        }
        let mut newer = good;
        newer[8] = 5;
        assert_eq!(Summary::from_index(&newer, &key), Err(IndexError::Version { found: 5 }));
    }

    #[test]
    fn an_index_made_by_other_rules_is_refused_however_whole_it_is() {
        let key = Key::of(b"a file");
        let good = summary().to_index(&key);
        for found in [0, RULES_VERSION - 1, RULES_VERSION + 1] {
            let mut other = good[..good.len() - 8].to_vec();
            other[12..16].copy_from_slice(&found.to_le_bytes());
            let checksum = xxh3_64(&other);
            other.extend(checksum.to_le_bytes());
            assert_eq!(Summary::from_index(&other, &key), Err(IndexError::Rules { found }));
        }
    }
}
