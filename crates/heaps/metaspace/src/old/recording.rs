//! A real JVM 11's decisions about its metaspace, compared with this heap's.
//!
//! A recording is text, an event a line after a header line that begins with `#old-metaspace 1`.
//! Chunks are given as node (numbered in the order of mapping), kilobytes from the node's base, and
//! words.
//!
//! - `n SPACE OFFSET WORDS`: a node is mapped, OFFSET bytes above a multiple of 64 KB. SPACE is n
//!   or c (class).
//! - `b ARENA SPACE KIND NODE KB WORDS`: an arena is born and gets its first chunk. KIND is b
//!   (boot), s (standard), m (micro).
//! - `a ARENA WORDS`: a request that the current chunk served. `g ARENA WORDS NODE KB WORDS`: one
//!   that needed a new chunk. `f ARENA WORDS NODE WORD`: one that a free block served, WORD words
//!   from the node's base.
//! - `d ARENA REQUEST`: the block of that request, counted from 0 in the file, is given back.
//! - `k ARENA`: the arena dies. `p NODE...`: a purge, and the nodes that it unmapped.
//! - `s STEP CYCLE LOADERS USED COMMITTED CLASS_USED CLASS_COMMITTED`: the JVM's own figures, in
//!   bytes, both spaces together and class space alone.
//!
//! The example `jdk11_log` turns a log of JDK 11 into a recording. The log tells the arena of each
//! chunk, but prints only requests that needed a new chunk. The requests in between are known as a
//! sum, and are written as one.

use super::facts::BLOCK_WORDS_MIN;
use super::metaspace::{ArenaId, ChunkPlace, Metaspace11, Options11};
use super::strategy::Space;
use crate::plan::LoaderKind;
use std::collections::{HashMap, HashSet};
use std::ptr::NonNull;

/// Numbers of arenas, requests and nodes stay below this.
const NUMBER_MAX: usize = 1 << 24;
/// Words of a node stay below this: twice the largest class space.
const NODE_WORDS_MAX: usize = 1 << 30;
/// The header of every recording.
pub const HEADER: &str = "#old-metaspace 1";

/// A chunk's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node's number, in the order of mapping within its space.
    pub node: usize,
    /// Kilobytes from its base.
    pub kilobyte: usize,
    /// Its size.
    pub words: usize,
}

/// The JVM's own figures at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Said {
    /// "loaded", "dropped", ...
    pub step: String,
    /// Cycle of the program.
    pub cycle: u64,
    /// Live loaders.
    pub loaders: u64,
    /// Used bytes of both spaces.
    pub used_bytes: u64,
    /// Committed bytes of both spaces.
    pub committed_bytes: u64,
    /// Used bytes of class space.
    pub class_used_bytes: u64,
    /// Committed bytes of class space.
    pub class_committed_bytes: u64,
}

/// The memory that served a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The arena's current chunk. Such an event may stand for several requests.
    Chunk,
    /// A new chunk.
    NewChunk(Place),
    /// One of the arena's free blocks: the node's number, and the words from its base.
    FreeBlock {
        /// The node's number.
        node: usize,
        /// Words from its base.
        word: usize,
    },
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A node is mapped.
    Node {
        /// Its space.
        space: Space,
        /// Distance of its base above a multiple of 64 KB.
        offset_bytes: usize,
        /// Its size.
        words: usize,
    },
    /// An arena begins.
    Birth {
        /// Its number.
        arena: usize,
        /// Its space.
        space: Space,
        /// Its loader's kind.
        loader: LoaderKind,
        /// Its first chunk.
        chunk: Place,
    },
    /// A request.
    Allocate {
        /// The arena.
        arena: usize,
        /// Its size.
        words: usize,
        /// The memory that served it.
        source: Source,
    },
    /// A block dies before its arena.
    Deallocate {
        /// The block's arena.
        arena: usize,
        /// The request that made the block.
        request: usize,
    },
    /// An arena ends.
    Death {
        /// Its number.
        arena: usize,
    },
    /// Empty nodes are unmapped.
    Purge {
        /// Their numbers.
        nodes: Vec<usize>,
    },
    /// The JVM's own figures.
    Said(Said),
}

impl Event {
    fn given_back(&self) -> Option<usize> {
        match self {
            Event::Deallocate { request, .. } => Some(*request),
            _ => None,
        }
    }
}

/// A malformed line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the recording: expected {expected}, found {found:?}")]
pub struct RecordingError {
    /// Counted from 1.
    pub line: usize,
    /// The expected text.
    pub expected: &'static str,
    /// The text found.
    pub found: String,
}

/// Reads a recording.
pub fn parse(text: &str) -> Result<Vec<Event>, RecordingError> {
    let wrong = |line: usize, expected, found: &str| RecordingError {
        line: line + 1,
        expected,
        found: found.chars().take(80).collect(),
    };
    let mut lines = text.lines().enumerate();
    match lines.next() {
        Some((_, first)) if first.starts_with(HEADER) => {}
        first => {
            return Err(wrong(
                0,
                "a header that begins with #old-metaspace 1",
                first.map_or("", |(_, line)| line),
            ));
        }
    }
    lines
        .map(|(number, line)| {
            event(line).ok_or_else(|| wrong(number, "an event of a recording", line))
        })
        .collect()
}

fn event(line: &str) -> Option<Event> {
    let mut words = line.split_ascii_whitespace();
    let op = words.next()?;
    let rest: Vec<&str> = words.collect();
    let number =
        |at: usize| rest.get(at)?.parse::<usize>().ok().filter(|number| *number < NUMBER_MAX);
    let space = |at: usize| match *rest.get(at)? {
        "n" => Some(Space::NonClass),
        "c" => Some(Space::Class),
        _ => None,
    };
    let place = |at: usize| {
        Some(Place { node: number(at)?, kilobyte: number(at + 1)?, words: number(at + 2)? })
    };
    Some(match (op, rest.len()) {
        ("n", 3) => Event::Node {
            space: space(0)?,
            offset_bytes: number(1)?,
            words: rest[2].parse().ok().filter(|words| *words < NODE_WORDS_MAX)?,
        },
        ("b", 6) => {
            let loader = match rest[2] {
                "b" => LoaderKind::Boot,
                "s" => LoaderKind::Standard,
                "m" => LoaderKind::Reflection,
                _ => return None,
            };
            Event::Birth { arena: number(0)?, space: space(1)?, loader, chunk: place(3)? }
        }
        ("a", 2) => Event::Allocate { arena: number(0)?, words: number(1)?, source: Source::Chunk },
        ("g", 5) => Event::Allocate {
            arena: number(0)?,
            words: number(1)?,
            source: Source::NewChunk(place(2)?),
        },
        ("f", 4) => {
            let source = Source::FreeBlock { node: number(2)?, word: rest[3].parse().ok()? };
            Event::Allocate { arena: number(0)?, words: number(1)?, source }
        }
        ("d", 2) => Event::Deallocate { arena: number(0)?, request: number(1)? },
        ("k", 1) => Event::Death { arena: number(0)? },
        ("p", _) => Event::Purge { nodes: (0..rest.len()).map(number).collect::<Option<_>>()? },
        ("s", 7) => {
            let value = |at: usize| rest[at].parse::<u64>().ok();
            Event::Said(Said {
                step: rest[0].into(),
                cycle: value(1)?,
                loaders: value(2)?,
                used_bytes: value(3)?,
                committed_bytes: value(4)?,
                class_used_bytes: value(5)?,
                class_committed_bytes: value(6)?,
            })
        }
        _ => return None,
    })
}

/// Writes a recording's event, as [`parse`] reads it.
impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letter = |space: &Space| if *space == Space::Class { 'c' } else { 'n' };
        match self {
            Event::Node { space, offset_bytes, words } => {
                write!(f, "n {} {offset_bytes} {words}", letter(space))
            }
            Event::Birth { arena, space, loader, chunk } => {
                let kind = match loader {
                    LoaderKind::Boot => 'b',
                    LoaderKind::Standard => 's',
                    LoaderKind::Hidden | LoaderKind::Reflection => 'm',
                };
                write!(
                    f,
                    "b {arena} {} {kind} {} {} {}",
                    letter(space),
                    chunk.node,
                    chunk.kilobyte,
                    chunk.words
                )
            }
            Event::Allocate { arena, words, source: Source::Chunk } => {
                write!(f, "a {arena} {words}")
            }
            Event::Allocate { arena, words, source: Source::FreeBlock { node, word } } => {
                write!(f, "f {arena} {words} {node} {word}")
            }
            Event::Allocate { arena, words, source: Source::NewChunk(chunk) } => {
                write!(f, "g {arena} {words} {} {} {}", chunk.node, chunk.kilobyte, chunk.words)
            }
            Event::Deallocate { arena, request } => write!(f, "d {arena} {request}"),
            Event::Death { arena } => write!(f, "k {arena}"),
            Event::Purge { nodes } => {
                f.write_str("p")?;
                nodes.iter().try_for_each(|node| write!(f, " {node}"))
            }
            Event::Said(said) => write!(
                f,
                "s {} {} {} {} {} {} {}",
                said.step,
                said.cycle,
                said.loaders,
                said.used_bytes,
                said.committed_bytes,
                said.class_used_bytes,
                said.class_committed_bytes
            ),
        }
    }
}

/// One moment, in the JVM and here.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ComparedMoment {
    /// The JVM's figures.
    pub said: Said,
    /// This metaspace's figures.
    pub ours: super::Statistics,
}

/// The result of comparing a replay.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Comparison {
    /// Chunks that the JVM handed out.
    pub chunks: u64,
    /// Chunks at the same place here.
    pub chunks_equal: u64,
    /// The first difference: its line's number, counted from 1, and both places.
    pub first_difference: Option<String>,
    /// Requests that the JVM served from free blocks.
    pub blocks: u64,
    /// Requests that the same free block serves here.
    pub blocks_equal: u64,
    /// Nodes that the JVM unmapped.
    pub unmapped: u64,
    /// Nodes unmapped here, at the same purges.
    pub unmapped_here: u64,
    /// Every moment with figures of the JVM.
    pub moments: Vec<ComparedMoment>,
}

/// An event that cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line} of the recording, {event:?}: no such arena or block lives, the arena's number is another's, or the request is refused"
)]
pub struct ReplayError {
    /// Counted from 1.
    pub line: usize,
    /// As written there.
    pub event: String,
}

/// Replays a recording.
pub fn replay(events: &[Event]) -> Result<(Metaspace11, Comparison), ReplayError> {
    let offsets = |event: &Event| match event {
        Event::Node { space: Space::NonClass, offset_bytes, .. } => Some(*offset_bytes),
        _ => None,
    };
    let class_words = events.iter().find_map(|event| match event {
        Event::Node { space: Space::Class, words, .. } => Some(*words),
        _ => None,
    });
    let options = Options11 {
        node_offsets_bytes: events.iter().filter_map(offsets).collect(),
        class_space_bytes: class_words.map_or(1 << 30, |words| (words * super::facts::WORD) as u64),
        ..Options11::default()
    };
    let mut replay = Replay {
        metaspace: Metaspace11::new(options),
        arenas: HashMap::new(),
        blocks: HashMap::new(),
        given_back: events.iter().filter_map(Event::given_back).collect(),
        requests: 0,
        comparison: Comparison::default(),
    };
    for (index, event) in events.iter().enumerate() {
        let line = index + 2;
        replay.step(line, event).ok_or_else(|| ReplayError { line, event: event.to_string() })?;
    }
    Ok((replay.metaspace, replay.comparison))
}

struct Replay {
    metaspace: Metaspace11,
    /// Live arenas by number, each with the line of its birth: a dead arena's number may be reused,
    /// its blocks may not.
    arenas: HashMap<usize, (ArenaId, usize)>,
    /// Requests with blocks given back before their arenas die.
    given_back: HashSet<usize>,
    /// Their blocks, with the line of their arena's birth.
    blocks: HashMap<usize, (usize, NonNull<u8>, usize)>,
    requests: usize,
    comparison: Comparison,
}

impl Replay {
    fn step(&mut self, line: usize, event: &Event) -> Option<()> {
        match event {
            Event::Node { .. } => {}
            Event::Birth { arena, space, loader, chunk } => {
                if self.arenas.contains_key(arena) {
                    return None;
                }
                let id = self.metaspace.birth(*space, *loader);
                self.arenas.insert(*arena, (id, line));
                self.compare(line, id, *chunk);
            }
            Event::Allocate { arena, words, source } => {
                let (id, born) = *self.arenas.get(arena)?;
                // The sum of several requests must not look for a free block that none of them
                // would have taken.
                let block = match source {
                    Source::Chunk => self.metaspace.bump(id, *words)?,
                    Source::NewChunk(_) | Source::FreeBlock { .. } => {
                        self.metaspace.allocate(id, *words)?
                    }
                };
                // A bumped block smaller than a free block is part of a sum; given back, it would
                // count as a larger one.
                let whole = !matches!(source, Source::Chunk) || *words >= BLOCK_WORDS_MIN;
                if whole && self.given_back.contains(&self.requests) {
                    self.blocks.insert(self.requests, (born, block, *words));
                }
                self.requests += 1;
                match *source {
                    Source::Chunk => {}
                    Source::NewChunk(chunk) => self.compare(line, id, chunk),
                    Source::FreeBlock { node, word } => {
                        self.compare_block(line, id, block, (node, word))
                    }
                }
            }
            Event::Deallocate { arena, request } => {
                let (id, born) = *self.arenas.get(arena)?;
                let (_, block, words) =
                    self.blocks.remove(request).filter(|(owner, _, _)| *owner == born)?;
                // SAFETY: the block was allocated from this arena since its birth, with these words
                // (a bumped one with at least a free block's), and leaves the table.
                unsafe { self.metaspace.deallocate(id, block, words) };
            }
            Event::Death { arena } => {
                self.metaspace.death(self.arenas.remove(arena)?.0);
            }
            Event::Purge { nodes } => {
                self.comparison.unmapped += nodes.len() as u64;
                self.comparison.unmapped_here += self.metaspace.purge() as u64;
            }
            Event::Said(said) => {
                self.comparison
                    .moments
                    .push(ComparedMoment { said: said.clone(), ours: self.metaspace.statistics() });
            }
        }
        Some(())
    }

    fn compare(&mut self, line: usize, id: ArenaId, expected: Place) {
        self.comparison.chunks += 1;
        let found =
            self.metaspace.newest_chunk(id).map(|ChunkPlace { node, offset_bytes, words }| Place {
                node,
                kilobyte: offset_bytes / 1024,
                words,
            });
        if found == Some(expected) {
            self.comparison.chunks_equal += 1;
        } else {
            self.differ(line, &format!("{expected:?}"), &format!("{found:?}"));
        }
    }

    fn compare_block(
        &mut self,
        line: usize,
        id: ArenaId,
        block: NonNull<u8>,
        expected: (usize, usize),
    ) {
        self.comparison.blocks += 1;
        let found = self.metaspace.place_of(id, block);
        if found == Some(expected) {
            self.comparison.blocks_equal += 1;
        } else {
            self.differ(
                line,
                &format!("free block at node and word {expected:?}"),
                &format!("{found:?}"),
            );
        }
    }

    fn differ(&mut self, line: usize, expected: &str, found: &str) {
        self.comparison
            .first_difference
            .get_or_insert_with(|| format!("line {line}: {expected} in the JVM, {found} here"));
    }
}
