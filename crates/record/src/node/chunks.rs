//! A heap's stream in chunks that end with a collection: the births before it, and the objects it
//! found dead.

use super::places::{Places, Rows};
use super::stream::{Head, Record, Stream};
use heaplab_trace::order::OBJECT_BYTES_MAX;
use heaplab_trace::tables::Tables;
use std::path::Path;

/// A birth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    /// V8's sample number.
    pub number: u64,
    /// Bytes in the heap.
    pub bytes: u64,
    /// Row of `stacks`.
    pub stack: u32,
}

/// The births up to a collection, and the collection's deaths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// In order.
    pub births: Vec<Birth>,
    /// Time of the collection's start; `None`: the stream ended without one.
    pub collection_ns: Option<u64>,
    /// Sample numbers of the objects that it found dead.
    pub deaths: Vec<u64>,
}

/// One heap being read.
#[derive(Debug)]
pub struct Heap {
    stream: Stream,
    rows: Rows,
    /// The heap's identity; `None` if the stream lacks a head.
    pub head: Option<Head>,
    /// The number of the last sample.
    number: u64,
    /// The first record of the next chunk.
    waiting: Option<Record>,
    /// Time of the collection that ended the chunk before.
    pub before_ns: u64,
    /// Objects that died before a profile showed them.
    pub unseen: u64,
    /// Why nothing was recorded.
    pub refused: Option<String>,
    /// When the recording of this heap ended, and the reason unless it is the program's end.
    pub end: Option<(u64, String)>,
    /// The stream's damage; nothing comes after it.
    pub damage: Option<String>,
}

impl Heap {
    /// Opens a stream and reads its head.
    pub fn open(path: &Path) -> std::io::Result<Heap> {
        let (stream, rows) = (Stream::open(path)?, Rows::default());
        let mut heap = Heap {
            stream,
            rows,
            head: None,
            number: 0,
            waiting: None,
            before_ns: 0,
            unseen: 0,
            refused: None,
            end: None,
            damage: None,
        };
        match heap.record() {
            Some(Record::Head(head)) => {
                heap.before_ns = head.time_ns;
                heap.head = Some(head);
                match heap.record() {
                    Some(Record::Refused(why)) => heap.refused = Some(why),
                    other => heap.waiting = other,
                }
            }
            Some(_) => heap.damage = Some(format!("{} does not begin with a head", path.display())),
            None => {}
        }
        Ok(heap)
    }

    fn record(&mut self) -> Option<Record> {
        if self.waiting.is_some() {
            return self.waiting.take();
        }
        if self.damage.is_some() {
            return None;
        }
        self.stream.next().unwrap_or_else(|damage| {
            self.damage = Some(damage);
            None
        })
    }

    /// The next chunk; `None` at the end.
    pub fn next(&mut self, places: &mut Places, tables: &mut Tables) -> Option<Chunk> {
        let mut chunk = Chunk::default();
        let mut dead = 0u64;
        loop {
            let Some(record) = self.record() else {
                return (chunk != Chunk::default()).then_some(chunk);
            };
            let is_over = chunk.collection_ns.is_some();
            match record {
                Record::Node(node) => places.define(node, &mut self.rows, tables),
                Record::Death(more) if is_over => match dead.checked_add(more) {
                    Some(number) => {
                        dead = number;
                        chunk.deaths.push(number);
                    }
                    None => return self.spoilt("a death's number is too large", chunk),
                },
                Record::Death(_) => {
                    return self.spoilt("a death comes before any collection", chunk);
                }
                Record::Head(_) | Record::Refused(_) => {
                    return self.spoilt("it has a head in its middle", chunk);
                }
                record if is_over => {
                    self.waiting = Some(record);
                    return Some(chunk);
                }
                Record::Birth { bytes, .. } if bytes > OBJECT_BYTES_MAX => {
                    return self.spoilt("an object is larger than any can be", chunk);
                }
                Record::Birth { bytes, node } => {
                    self.number = self.number.saturating_add(1);
                    chunk.births.push(Birth {
                        number: self.number,
                        bytes,
                        stack: self.rows.get(&node).copied().unwrap_or(0),
                    });
                }
                Record::Own(count) => self.number = self.number.saturating_add(count),
                Record::Unseen(count) => {
                    self.number = self.number.saturating_add(count);
                    self.unseen = self.unseen.saturating_add(count);
                }
                Record::Collection { time_ns, .. } => chunk.collection_ns = Some(time_ns),
                Record::End { time_ns, why } => self.end = Some((time_ns, why)),
            }
        }
    }

    /// Marks the rest of the stream as damaged.
    pub fn spoilt(&mut self, what: &str, chunk: Chunk) -> Option<Chunk> {
        self.damage = Some(format!("{}: {what}", self.stream.path().display()));
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::super::stream::tests::block;
    use super::*;

    /// Format 1, at 5 ns, process 7 of 6, thread 7, and four texts.
    const HEAD: &[u8] = b"H\x01\x05\x07\x06\x07\x0220\x0211\x01/\x01n";

    fn read(records: &[u8]) -> (Vec<Chunk>, Heap) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node-7-7-0");
        std::fs::write(&path, block(&[HEAD, records].concat())).unwrap();
        let mut heap = Heap::open(&path).unwrap();
        let (mut places, mut tables) = (Places::default(), Tables::default());
        let chunks = std::iter::from_fn(|| heap.next(&mut places, &mut tables)).collect();
        (chunks, heap)
    }

    #[test]
    fn a_chunk_ends_behind_the_deaths_of_its_collection() {
        let (chunks, heap) = read(
            b"B\x18\x01U\x02B\x20\x01O\x03C\x09\x04D\x01D\x03O\x01B\x08\x01C\x0a\x04E\x0b\x00",
        );
        let birth = |number, bytes| Birth { number, bytes, stack: 0 };
        let expected = [
            Chunk {
                births: vec![birth(1, 24), birth(4, 32)],
                collection_ns: Some(9),
                deaths: vec![1, 4],
            },
            Chunk { births: vec![birth(9, 8)], collection_ns: Some(10), deaths: Vec::new() },
        ];
        assert_eq!(
            (&chunks[..], heap.unseen, heap.end, heap.damage),
            (&expected[..], 2, Some((11, String::new())), None)
        );
    }

    #[test]
    fn what_cannot_be_is_damage() {
        for (records, said) in [
            (&b"D\x01"[..], "before any collection"),
            (b"B\xff\xff\xff\xff\xff\xff\xff\x7f\x01", "larger than any"),
            (b"B\x08\x01?", "no record"),
            (HEAD, "a head in its middle"),
        ] {
            let (_, heap) = read(records);
            assert!(
                heap.damage.as_ref().is_some_and(|damage| damage.contains(said)),
                "{:?}",
                heap.damage
            );
        }
        assert_eq!(read(b"B\x08\x01").0.len(), 1, "what is before a cut stays");
    }
}
