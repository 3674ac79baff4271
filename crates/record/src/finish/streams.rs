//! The records of one ring from first to last: spooled blocks, then the records still in the ring.
//!
//! A stream holds one block at a time, and nothing before its turn: memory grows with the processes
//! alive at one moment, not with all of ten thousand short ones.

use super::node_table::NodeTable;
use crate::discover;
use crate::ring::{self, Part, Ring, TAKE_WORDS};
use crate::spool::block::RingId;
use crate::spool::reader::{BlockPlace, SpoolFile};
use crate::spool::record::{Decoder, Encoder, Kind, RECORD_BYTES_MAX, Record, TakeShort};
use std::path::{Path, PathBuf};

/// The stream's position.
#[derive(Debug)]
enum Stage {
    /// Blocks of the spool, from this one on.
    Spooled(usize),
    /// The ring itself, from this position on.
    InRing { ring: Ring, position: u64 },
    /// The end.
    Over,
}

/// The records of one ring, in order.
#[derive(Debug)]
pub struct Stream {
    /// Its ring.
    pub id: RingId,
    /// The next record, after a call of [`Stream::advance`].
    pub current: Record,
    /// A lower bound of the next record's time; never falls.
    pub key: u64,
    /// Why the stream ended early.
    pub damage: Option<String>,
    blocks: Vec<BlockPlace>,
    stage: Stage,
    /// The ring may hold more records.
    waits: bool,
    padded: Vec<u8>,
    length: usize,
    decoder: Decoder,
    /// Row of `stacks` by the ring's node number.
    nodes: NodeTable,
}

/// A stream's position in its block.
#[derive(Debug)]
pub struct Cursor {
    /// As [`Stream::current`].
    pub record: Record,
    /// As [`Stream::key`].
    pub key: u64,
    decoder: Decoder,
    padded: Vec<u8>,
    length: usize,
}

impl Cursor {
    /// Runs [`Decoder::run_short`] over the records behind the current one, which stays.
    /// [`Cursor::advance`] then leads to the first record not taken.
    #[inline(always)]
    pub fn run_short<T: TakeShort>(&mut self, each: &mut T) -> Result<(), T::Error> {
        self.decoder.run_short(&self.padded, self.length, each)
    }

    /// Goes to the block's next record; returns whether one is readable.
    pub fn advance(&mut self) -> bool {
        let Ok(Some(record)) = self.decoder.next(&self.padded, self.length) else { return false };
        self.record = record;
        // See `Stream::advance`.
        if record.kind != Kind::Node {
            self.key = self.key.max(record.stamp);
        }
        true
    }
}

impl Stream {
    /// The ring's `blocks`, and perhaps records in the ring itself (`waits`); nothing of it
    /// precedes `begin`.
    pub fn new(id: RingId, blocks: Vec<BlockPlace>, begin: u64, waits: bool) -> Stream {
        let key = blocks.first().map_or(begin, |block| block.base_stamp);
        Stream {
            id,
            current: Record::default(),
            key,
            damage: None,
            blocks,
            stage: Stage::Spooled(0),
            waits,
            padded: Vec::new(),
            length: 0,
            decoder: Decoder::default(),
            nodes: NodeTable::default(),
        }
    }

    /// A stream of only the current record, with its stack.
    pub fn of_current(&self) -> Stream {
        let mut nodes = NodeTable::default();
        if let Some(row) = self.nodes.row_of(self.current.stack) {
            nodes.define(self.current.stack, row);
        }
        let (id, current, key, decoder) = (self.id, self.current, self.key, self.decoder);
        let (blocks, padded) = (Vec::new(), Vec::new());
        Stream {
            id,
            current,
            key,
            damage: None,
            blocks,
            stage: Stage::Over,
            waits: false,
            padded,
            length: 0,
            decoder,
            nodes,
        }
    }

    /// Goes to the next record; returns whether one exists.
    pub fn advance(&mut self, files: &Files) -> bool {
        loop {
            match self.decoder.next(&self.padded, self.length) {
                Ok(Some(record)) => {
                    self.current = record;
                    // The order within a ring is certain, while stamps of a thread that moved
                    // between processors may go back. A node is not an event: it may be defined any
                    // time before the event that needs it.
                    if self.current.kind != Kind::Node {
                        self.key = self.key.max(self.current.stamp);
                    }
                    return true;
                }
                Ok(None) => {}
                Err(damage) => self.damage = Some(damage.to_string()),
            }
            if !self.refill(files) {
                (self.padded, self.blocks, self.stage, self.length) =
                    (Vec::new(), Vec::new(), Stage::Over, 0);
                self.nodes.clear();
                return false;
            }
        }
    }

    /// The state for reading many records at once; [`Stream::put_back`] takes it back.
    #[inline]
    pub fn take_out(&mut self) -> Cursor {
        Cursor {
            record: self.current,
            key: self.key,
            decoder: self.decoder,
            padded: std::mem::take(&mut self.padded),
            length: self.length,
        }
    }

    /// Continues the stream at `cursor`.
    #[inline]
    pub fn put_back(&mut self, cursor: Cursor) {
        (self.current, self.key, self.decoder, self.padded) =
            (cursor.record, cursor.key, cursor.decoder, cursor.padded);
    }

    /// The row of `stacks` that is the ring's `node` now; `None` if undefined.
    #[inline]
    pub fn stack_of(&self, node: u32) -> Option<u32> {
        if node == 0 {
            return Some(0);
        }
        self.nodes.row_of(node)
    }

    /// Makes `row` of `stacks` the ring's `node` from here on.
    #[inline]
    pub fn define(&mut self, node: u32, row: u32) {
        self.nodes.define(node, row);
    }

    /// The current mark's name.
    pub fn mark_name(&self) -> String {
        let Record { kind: Kind::Mark, address, size, .. } = self.current else {
            return String::new();
        };
        let (begin, length) = (address as usize, size as usize);
        self.padded
            .get(begin..begin.saturating_add(length))
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .unwrap_or_default()
    }

    /// Loads the next block; returns whether one exists.
    #[cold]
    fn refill(&mut self, files: &Files) -> bool {
        if self.damage.is_some() {
            return false;
        }
        match self.stage {
            Stage::Over => false,
            Stage::Spooled(next) => match self.blocks.get(next).copied() {
                Some(place) => self.load_block(next, place, files),
                None => self.waits && self.turn_to_ring(files) && self.load_from_ring(),
            },
            Stage::InRing { .. } => self.load_from_ring(),
        }
    }

    /// Loads the block `number` of the spool; returns whether it can be read.
    fn load_block(&mut self, number: usize, place: BlockPlace, files: &Files) -> bool {
        let before = number.checked_sub(1).and_then(|before| self.blocks.get(before));
        if place.begin_position != before.map_or(0, |before| before.end_position) {
            self.nodes.clear(); // missing blocks may have redefined some
        }
        self.stage = Stage::Spooled(number + 1);
        match files.spool.payload(place, &mut self.padded) {
            Ok(length) => (self.length, self.decoder) = (length, Decoder::new(place.base_stamp)),
            Err(error) => {
                self.damage = Some(format!("a block of the spool cannot be read: {error}"))
            }
        }
        self.damage.is_none()
    }

    /// Opens the ring itself, behind the last block; returns whether there is one.
    fn turn_to_ring(&mut self, files: &Files) -> bool {
        let given = self.blocks.last().map_or(0, |block| block.end_position);
        let (path, at) =
            discover::ring_place(&files.folder, (self.id.pid, self.id.seq), self.id.ring);
        match Ring::open(&path, at) {
            Ok(Some(ring)) => {
                // A drainer that died between writing a block and releasing its words left the
                // words in both.
                let position = given.max(ring.position(self.part()));
                if position != given {
                    self.nodes.clear();
                }
                self.stage = Stage::InRing { ring, position };
                true
            }
            Ok(None) => false,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => {
                self.damage = Some(format!("its file cannot be read: {error}"));
                false
            }
        }
    }

    /// Makes a block of words in the ring; returns whether there were any.
    fn load_from_ring(&mut self) -> bool {
        let part = self.part();
        let Stage::InRing { ring, position } = &mut self.stage else { return false };
        let mut words = Vec::new();
        if ring.copy(part, *position, TAKE_WORDS, &mut words).is_none() {
            self.damage = Some(String::from("the program overwrote it"));
            return false;
        }
        let Some(first) = words.first() else { return false };
        let base = heaplab_preload::layout::stamp(*first).1;
        let mut encoder = Encoder::new(TAKE_WORDS * 10 + RECORD_BYTES_MAX);
        encoder.begin(base);
        let (used, parsed) = ring::encode(&words, &mut encoder, |_| {});
        *position += used as u64;
        if parsed == ring::Parsed::Damaged && used == 0 {
            self.damage = Some(String::from("the program overwrote it"));
        }
        self.padded.clear();
        self.padded.extend_from_slice(encoder.payload());
        self.length = self.padded.len();
        self.padded.resize(self.length + RECORD_BYTES_MAX, 0);
        self.decoder = Decoder::new(base);
        used > 0
    }

    fn part(&self) -> Part {
        if self.id.nested { Part::Nested } else { Part::Main }
    }
}

/// The files that streams read.
#[derive(Debug)]
pub struct Files {
    /// `events.spool`.
    pub spool: SpoolFile,
    /// The spool folder.
    pub folder: PathBuf,
}

impl Files {
    /// Opens the files of the spool `folder`.
    pub fn open(folder: &Path) -> std::io::Result<Files> {
        Ok(Files {
            spool: SpoolFile::open(&folder.join(crate::spool::EVENTS_FILE))?,
            folder: folder.to_owned(),
        })
    }
}
