//! The orders of events that a program can produce, checked event by event.
//!
//! Births are dense. An object that is freed, reallocated, promoted or asked about is live. Rows
//! about a forked copy ([`Flags::INHERITED`]) are exempt, because the copy's owner still has the
//! object. Arenas are born once and die once, with their objects. Rows of tables exist, and no
//! process can hold more than [`OBJECT_BYTES_MAX`].
//!
//! Memory: a bit an object, in pages that are freed when all of their objects are dead. So memory
//! follows the live objects (and their spread over birth order), not the length of the recording.

use crate::tables::Tables;
use crate::{Event, Flags, Op, TraceError};
use hashbrown::HashMap;
use std::path::PathBuf;

/// Largest object, in requested or usable bytes: processors have no more address space for a
/// process.
pub const OBJECT_BYTES_MAX: u64 = 1 << 48;

/// A set of object ids; takes memory only for the neighbourhoods of its members.
#[derive(Debug, Default)]
pub struct LiveSet {
    pages: HashMap<u64, Box<Page>, xxhash_rust::xxh3::Xxh3DefaultBuilder>,
    members: u64,
}

const PAGE_IDS: u64 = 4096;

#[derive(Debug)]
struct Page {
    bits: [u64; (PAGE_IDS / 64) as usize],
    members: u32,
}

impl LiveSet {
    /// Number of members.
    pub fn len(&self) -> u64 {
        self.members
    }

    /// Whether the set has no member.
    pub fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// Adds `id`; false if it was there.
    pub fn insert(&mut self, id: u64) -> bool {
        let page = self
            .pages
            .entry(id / PAGE_IDS)
            .or_insert_with(|| Box::new(Page { bits: [0; 64], members: 0 }));
        let (word, bit) = ((id % PAGE_IDS / 64) as usize, 1u64 << (id % 64));
        if page.bits[word] & bit != 0 {
            return false;
        }
        page.bits[word] |= bit;
        page.members += 1;
        self.members += 1;
        true
    }

    /// Whether `id` is a member.
    pub fn contains(&self, id: u64) -> bool {
        self.pages
            .get(&(id / PAGE_IDS))
            .is_some_and(|page| page.bits[(id % PAGE_IDS / 64) as usize] >> (id % 64) & 1 == 1)
    }

    /// Removes `id`; false if it was not there.
    pub fn remove(&mut self, id: u64) -> bool {
        let Some(page) = self.pages.get_mut(&(id / PAGE_IDS)) else { return false };
        let (word, bit) = ((id % PAGE_IDS / 64) as usize, 1u64 << (id % 64));
        if page.bits[word] & bit == 0 {
            return false;
        }
        page.bits[word] &= !bit;
        page.members -= 1;
        self.members -= 1;
        if page.members == 0 {
            self.pages.remove(&(id / PAGE_IDS));
        }
        true
    }
}

/// Checks events one after the other.
#[derive(Debug)]
pub struct OrderChecker {
    path: PathBuf,
    live: LiveSet,
    arenas: HashMap<u32, Vec<u64>>,
    arena_of: HashMap<u64, u32>,
    dead_arenas: LiveSet,
    counts: TableRows,
    row: u64,
    objects: u64,
}

#[derive(Debug)]
struct TableRows {
    processes: usize,
    threads: usize,
    stacks: usize,
    arenas: usize,
    marks: usize,
}

impl OrderChecker {
    /// For events of `path` (named in errors) that refer to `tables`.
    pub fn new(path: impl Into<PathBuf>, tables: &Tables) -> OrderChecker {
        let counts = TableRows {
            processes: tables.processes.len(),
            threads: tables.threads.len(),
            stacks: tables.stacks.len(),
            arenas: tables.arenas.len(),
            marks: tables.marks.len(),
        };
        OrderChecker {
            path: path.into(),
            live: LiveSet::default(),
            arenas: HashMap::new(),
            arena_of: HashMap::new(),
            dead_arenas: LiveSet::default(),
            counts,
            row: 0,
            objects: 0,
        }
    }

    /// Objects born so far.
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// Objects live now.
    pub fn live(&self) -> u64 {
        self.live.len()
    }

    /// Checks the next event.
    pub fn check(&mut self, event: &Event) -> Result<(), TraceError> {
        let outcome =
            self.rows_exist(event).and_then(|()| has_room(event)).and_then(|()| self.apply(event));
        let row = self.row;
        self.row += 1;
        outcome.map_err(|what| TraceError::Order { path: self.path.clone(), row, what })
    }

    fn rows_exist(&self, event: &Event) -> Result<(), String> {
        let within = |table: &str, row: u64, rows: usize, zero: bool| {
            if row < rows as u64 || (zero && row == 0) {
                return Ok(());
            }
            Err(format!("{} {row} is named, but the table of them has {rows} rows", table))
        };
        within("process", event.process.into(), self.counts.processes, false)?;
        within("thread", event.thread.into(), self.counts.threads, false)?;
        within("stack", event.stack.into(), self.counts.stacks, true)?;
        within("arena", event.arena.into(), self.counts.arenas, true)?;
        if event.op == Op::Mark {
            within("mark", event.object, self.counts.marks, false)
        } else {
            Ok(())
        }
    }

    fn apply(&mut self, event: &Event) -> Result<(), String> {
        match event.op {
            Op::Alloc if event.has(Flags::FAILED) => Ok(()),
            Op::Alloc => self.birth(event),
            Op::Free if event.has(Flags::INHERITED) => self.was_born(event.object),
            Op::Free => {
                if !self.live.remove(event.object) {
                    return Err(self.not_live("freed", event.object));
                }
                self.leave_arena(event.object);
                Ok(())
            }
            Op::Realloc if event.has(Flags::INHERITED) => self.was_born(event.object),
            Op::Realloc => self.is_live("reallocated", event.object),
            Op::Report if event.has(Flags::FAILED) => Ok(()),
            Op::UsableSizeRead | Op::Promote | Op::Reference | Op::Report
                if event.has(Flags::INHERITED) =>
            {
                self.was_born(event.object)
            }
            Op::UsableSizeRead => self.is_live("asked for its usable size", event.object),
            Op::Report => self.is_live("reported", event.object),
            Op::Promote => self.is_live("promoted", event.object),
            Op::Reference => {
                self.is_live("made to refer", event.object)?;
                if event.target == u64::MAX {
                    Ok(())
                } else {
                    self.is_live("referred to", event.target)
                }
            }
            Op::ArenaBirth => self.arena_birth(event.arena),
            Op::ArenaDeath => self.arena_death(event.arena),
            Op::CollectBegin
            | Op::CollectEnd
            | Op::Mark
            | Op::Collect
            | Op::CollectYoung
            | Op::Trim => Ok(()),
        }
    }

    fn birth(&mut self, event: &Event) -> Result<(), String> {
        if event.object != self.objects {
            return Err(format!("object {} is born where {} is next", event.object, self.objects));
        }
        self.objects += 1;
        self.live.insert(event.object);
        if event.arena != 0 {
            if self.dead_arenas.contains(event.arena.into()) {
                return Err(format!(
                    "object {} is born in arena {}, which is dead",
                    event.object, event.arena
                ));
            }
            self.arenas.entry(event.arena).or_default().push(event.object);
            self.arena_of.insert(event.object, event.arena);
        }
        Ok(())
    }

    fn leave_arena(&mut self, object: u64) {
        // The object stays in its arena's list, which is dropped with the arena.
        if !self.arena_of.is_empty() {
            self.arena_of.remove(&object);
        }
    }

    fn arena_birth(&mut self, arena: u32) -> Result<(), String> {
        if arena == 0 || self.arenas.contains_key(&arena) || self.dead_arenas.contains(arena.into())
        {
            return Err(format!("arena {arena} is born, but it has been there before"));
        }
        self.arenas.insert(arena, Vec::new());
        Ok(())
    }

    fn arena_death(&mut self, arena: u32) -> Result<(), String> {
        let Some(objects) = self.arenas.remove(&arena) else {
            return Err(format!("arena {arena} dies, but it is not alive"));
        };
        self.dead_arenas.insert(arena.into());
        for object in objects {
            if self.arena_of.remove(&object).is_some() {
                self.live.remove(object);
            }
        }
        Ok(())
    }

    fn is_live(&self, done: &str, object: u64) -> Result<(), String> {
        if self.live.contains(object) { Ok(()) } else { Err(self.not_live(done, object)) }
    }

    fn was_born(&self, object: u64) -> Result<(), String> {
        if object < self.objects {
            Ok(())
        } else {
            Err(self.not_live("named as a forked copy", object))
        }
    }

    fn not_live(&self, done: &str, object: u64) -> String {
        let why = if object < self.objects { "it is dead" } else { "it was never born" };
        format!("object {object} is {done}, but {why}")
    }
}

fn has_room(event: &Event) -> Result<(), String> {
    let bytes = event.size.max(event.usable);
    let is_given = matches!(event.op, Op::Alloc | Op::Realloc) && !event.has(Flags::FAILED);
    if is_given && bytes > OBJECT_BYTES_MAX {
        return Err(format!(
            "an object of {bytes} bytes; no process can hold more than {OBJECT_BYTES_MAX}"
        ));
    }
    Ok(())
}
