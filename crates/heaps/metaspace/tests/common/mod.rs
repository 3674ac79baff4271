//! The recordings of traces/metaspace, and replaying them operation by operation.

#![allow(dead_code)]

use flate2::read::GzDecoder;
use heaplab_metaspace::elastic::{ArenaId, ElasticMetaspace};
use heaplab_metaspace::plan::ArenaPlan;
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// The folder of recordings.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../traces/metaspace")
}

/// A recording's text.
pub fn text(name: &str) -> String {
    let path = folder().join(name);
    let file =
        std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

/// One line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Birth { arena: usize, class: bool, micro: bool },
    Allocate { arena: usize, words: usize },
    Deallocate { arena: usize, words: usize, nth: Option<usize> },
    Death { arena: usize },
    Purge,
    Refused,
}

/// Parses a trace.
pub fn parse(text: &str) -> Vec<Event> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| parse_line(line).unwrap_or_else(|| panic!("no event: {line}"))).collect()
}

fn parse_line(line: &str) -> Option<Event> {
    let fields: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<usize>().ok();
    Some(match *fields.get(1)? {
        "b" => Event::Birth { arena: number(2)?, class: fields[3] == "c", micro: fields[3] == "m" },
        "a" | "f" => Event::Allocate { arena: number(2)?, words: number(3)? },
        "d" => Event::Deallocate { arena: number(2)?, words: number(3)?, nth: number(4) },
        "k" => Event::Death { arena: number(2)? },
        "p" => Event::Purge,
        "x" => Event::Refused,
        _ => return None,
    })
}

/// Writes events as a trace, for HotSpot's side.
pub fn write(events: &[Event]) -> String {
    let mut text = String::from("#metaspace-trace 1 dt_us op args\n");
    for event in events {
        text += &match event {
            Event::Birth { arena, class, micro } => format!(
                "0 b {arena} {} 0\n",
                if *class {
                    "c"
                } else if *micro {
                    "m"
                } else {
                    "n"
                }
            ),
            Event::Allocate { arena, words } => format!("0 a {arena} {words} -1\n"),
            Event::Deallocate { arena, words, nth } => {
                format!("0 d {arena} {words} {}\n", nth.map_or(-1, |nth| nth as i64))
            }
            Event::Death { arena } => format!("0 k {arena}\n"),
            Event::Purge => "0 p\n".into(),
            Event::Refused => "0 x 0 0\n".into(),
        };
    }
    text
}

/// A trace being replayed.
pub struct Replayed {
    pub heap: ElasticMetaspace,
    arenas: HashMap<usize, ArenaId>,
    /// The block of each allocation; `None`: refused, or its arena is left out.
    pub blocks: Vec<Option<NonNull<u64>>>,
}

impl Replayed {
    pub fn new(heap: ElasticMetaspace) -> Replayed {
        Replayed { heap, arenas: HashMap::new(), blocks: Vec::new() }
    }

    /// Runs one event. `plan` describes an arena; `None` leaves it out. Returns the event's block.
    pub fn step(
        &mut self,
        event: Event,
        plan: impl Fn(usize) -> Option<ArenaPlan>,
    ) -> Option<NonNull<u64>> {
        match event {
            Event::Birth { arena, .. } => {
                let id = self.heap.birth(plan(arena)?);
                self.arenas.insert(arena, id);
                None
            }
            Event::Allocate { arena, words } => {
                let id = self.arenas.get(&arena).copied();
                let block = id.and_then(|id| self.heap.allocate_words(id, words));
                self.blocks.push(block);
                block
            }
            Event::Deallocate { arena, words, nth } => {
                let block = self.blocks[nth?]?;
                let id = *self.arenas.get(&arena)?;
                // SAFETY: traces free what they allocated in that arena, once; nobody touches the
                // blocks.
                unsafe { self.heap.deallocate_words(id, block, words) };
                Some(block)
            }
            Event::Death { arena } => {
                let id = self.arenas.remove(&arena)?;
                // SAFETY: nobody touches the blocks.
                unsafe { self.heap.death(id) };
                None
            }
            Event::Purge => {
                self.heap.purge();
                None
            }
            Event::Refused => None,
        }
    }
}
