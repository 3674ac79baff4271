//! The records of one ring from its first to its last: spooled blocks, then what still waits in the
//! ring.
//!
//! A stream holds one block at a time and nothing before its turn comes, so that ten thousand short
//! processes cost no more than those that lived at the same moment.

use super::node_table::NodeTable;
use crate::discover;
use crate::ring::{self, Part, Ring, TAKE_WORDS};
use crate::spool::block::RingId;
use crate::spool::reader::{BlockPlace, SpoolFile};
use crate::spool::record::{Decoder, Encoder, Kind, RECORD_BYTES_MAX, Record, TakeShort};
use std::path::{Path, PathBuf};

/// Where a stream is.
#[derive(Debug)]
enum Stage {
    /// Blocks of the spool, from this one on.
    Spooled(usize),
    /// The ring itself, from this position on.
    InRing { ring: Ring, position: u64 },
    /// Nothing more.
    Over,
}

/// The records of one ring, in order.
#[derive(Debug)]
pub struct Stream {
    /// Whose they are.
    pub id: RingId,
    /// The record that is next, once [`Stream::advance`] was called.
    pub current: Record,
    /// A lower bound of the next record's place in time; never falls.
    pub key: u64,
    /// Why the stream ended early.
    pub damage: Option<String>,
    blocks: Vec<BlockPlace>,
    stage: Stage,
    /// More may wait in the ring.
    waits: bool,
    padded: Vec<u8>,
    length: usize,
    decoder: Decoder,
    /// Row of `stacks` by the ring's number for it.
    nodes: NodeTable,
}

/// Where a stream is in its block.
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
    /// As [`Decoder::run_short`] for the records behind this one. This one stays as it is;
    /// [`Cursor::advance`] leads to what was not taken.
    #[inline(always)]
    pub fn run_short<T: TakeShort>(&mut self, each: &mut T) -> Result<(), T::Error> {
        self.decoder.run_short(&self.padded, self.length, each)
    }

    /// Goes on to the block's next record; whether there is one that can be read.
    pub fn advance(&mut self) -> bool {
        let Ok(Some(record)) = self.decoder.next(&self.padded, self.length) else { return false };
        self.record = record;
        // As in `Stream::advance`.
        if record.kind != Kind::Node {
            self.key = self.key.max(record.stamp);
        }
        true
    }
}

impl Stream {
    /// The ring's blocks in `blocks`, and what may wait in it (`waits`); nothing of it lies before
    /// `begin`.
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

    /// A stream of the current record alone, which knows its stack.
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

    /// Goes on to the next record; whether there is one.
    pub fn advance(&mut self, files: &Files) -> bool {
        loop {
            match self.decoder.next(&self.padded, self.length) {
                Ok(Some(record)) => {
                    self.current = record;
                    // The order within a ring is certain; stamps of a thread that moved between
                    // processors might not be. A node is not an event: it may be defined at any
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

    /// What reading on needs, for who reads many records at once; [`Stream::put_back`] takes it
    /// back.
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

    /// The stream is where `cursor` is.
    #[inline]
    pub fn put_back(&mut self, cursor: Cursor) {
        (self.current, self.key, self.decoder, self.padded) =
            (cursor.record, cursor.key, cursor.decoder, cursor.padded);
    }

    /// The row of `stacks` that the ring calls `node` now; `None` where that was never said.
    #[inline]
    pub fn stack_of(&self, node: u32) -> Option<u32> {
        if node == 0 {
            return Some(0);
        }
        self.nodes.row_of(node)
    }

    /// From here on the ring calls the row of `stacks` so.
    #[inline]
    pub fn define(&mut self, node: u32, row: u32) {
        self.nodes.define(node, row);
    }

    /// The name of the mark that is current.
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

    /// Loads the next block; whether there was one.
    #[cold]
    fn refill(&mut self, files: &Files) -> bool {
        if self.damage.is_some() {
            return false;
        }
        match &mut self.stage {
            Stage::Over => false,
            Stage::Spooled(next) => {
                if let Some(place) = self.blocks.get(*next) {
                    let expected = next
                        .checked_sub(1)
                        .and_then(|before| self.blocks.get(before))
                        .map_or(0, |before| before.end_position);
                    if place.begin_position != expected {
                        self.nodes.clear(); // what is missing may have defined some anew
                    }
                    *next += 1;
                    match files.spool.payload(*place, &mut self.padded) {
                        Ok(length) => {
                            (self.length, self.decoder) = (length, Decoder::new(place.base_stamp))
                        }
                        Err(error) => {
                            self.damage =
                                Some(format!("a block of the spool cannot be read: {error}"))
                        }
                    }
                    return self.damage.is_none();
                }
                if !self.waits {
                    return false;
                }
                let given = self.blocks.last().map_or(0, |block| block.end_position);
                let (path, at) =
                    discover::ring_place(&files.folder, (self.id.pid, self.id.seq), self.id.ring);
                match Ring::open(&path, at) {
                    Ok(Some(ring)) => {
                        let part = if self.id.nested { Part::Nested } else { Part::Main };
                        // A drainer that died between writing a block and releasing its words left
                        // both.
                        let position = given.max(ring.position(part));
                        if position != given {
                            self.nodes.clear();
                        }
                        self.stage = Stage::InRing { ring, position };
                        self.refill(files)
                    }
                    Ok(None) => false,
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
                    Err(error) => {
                        self.damage = Some(format!("its file cannot be read: {error}"));
                        false
                    }
                }
            }
            Stage::InRing { ring, position } => {
                let part = if self.id.nested { Part::Nested } else { Part::Main };
                let mut words = Vec::new();
                if ring.copy(part, *position, TAKE_WORDS, &mut words).is_none() {
                    self.damage = Some(String::from("the program overwrote it"));
                    return false;
                }
                let Some(first) = words.first() else { return false };
                let base = heaplab_recorder::layout::stamp(*first).1;
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
        }
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
    /// Of the spool `folder`.
    pub fn open(folder: &Path) -> std::io::Result<Files> {
        Ok(Files {
            spool: SpoolFile::open(&folder.join(crate::spool::EVENTS_FILE))?,
            folder: folder.to_owned(),
        })
    }
}
