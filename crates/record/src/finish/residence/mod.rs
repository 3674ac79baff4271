//! Divides the resident memory of a process at one moment: each byte into one part.
//!
//! Files need no division (see [`crate::mappings`]). An anonymous mapping is cut where its owner
//! changes, because the kernel joins neighbours. In each piece the live blocks of malloc come
//! first, with their resident pages. The rest of the piece belongs to the owner that the evidence
//! names, in this order: the runtime that names its purpose, the program that mapped it (the
//! recorder saw the call), the recorder, a thread whose stack pointer is in the mapping, the
//! allocator (it has live blocks there, or had some at an earlier moment; `[heap]`; the shape of
//! glibc's heaps), a module's zeroed data. Otherwise the owner is unknown.
//!
//! The parts of a mapping add up to its `Rss`: they are differences of one function of the address,
//! the resident bytes below it (`Residency::below`), which ends at `Rss`.

pub mod claims;

use super::live_heap::LiveHeap;
use crate::mappings::{Account, AnonymousRow, Category, FilePart, Region, facts, jvm};
use claims::{Claims, Owner};
use heaplab_trace::tables::ResidentKind;
use std::collections::{BTreeMap, BTreeSet};

/// Most moments of a process that are divided: those with the most resident bytes, one in each
/// stretch of time.
pub const MOMENTS_MAX: usize = 100;

/// Resident memory at one moment, from the spool's notes.
#[derive(Clone, Debug)]
pub struct ResidenceMoment {
    /// The counter of the reading.
    pub counter: u64,
    /// The image.
    pub key: (u32, u32),
    /// Pages of files.
    pub files: Vec<FilePart>,
    /// Anonymous mappings by address.
    pub anonymous: Vec<AnonymousRow>,
    /// The runtime's own account.
    pub account: Account,
}

impl ResidenceMoment {
    fn bytes(&self) -> u64 {
        let files = self.files.iter().map(|file| file.bytes);
        files.chain(self.anonymous.iter().map(|row| row.bytes)).fold(0, u64::saturating_add)
    }
}

/// Of the moments of one image the largest of each stretch of time, [`MOMENTS_MAX`] in all.
pub fn thin(moments: Vec<ResidenceMoment>) -> Vec<ResidenceMoment> {
    let group = moments.len().div_ceil(MOMENTS_MAX).max(1);
    let mut kept: Vec<ResidenceMoment> = Vec::new();
    for (place, moment) in moments.into_iter().enumerate() {
        match kept.last_mut() {
            Some(last) if place % group != 0 => {
                if moment.bytes() > last.bytes() {
                    *last = moment;
                }
            }
            _ => kept.push(moment),
        }
    }
    kept
}

/// A part's kind, name and stack.
type Key = (ResidentKind, String, u32);

/// A part's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Resident bytes.
    pub bytes: u64,
    /// Of these, bytes in huge pages.
    pub huge_bytes: u64,
    /// Number of mappings or pieces.
    pub mappings: u32,
    /// Bytes that the runtime says it reserved for all parts of this name; 0: it says nothing.
    pub reserved_bytes: u64,
    /// Of these, bytes that the runtime says it committed.
    pub committed_bytes: u64,
}

/// The parts of one moment.
#[derive(Debug, Default)]
pub struct Parts {
    /// By kind, name and stack (a node of the recorder's tree).
    pub by_key: BTreeMap<Key, Figures>,
}

impl Parts {
    fn add(&mut self, kind: ResidentKind, name: &str, stack: u32, bytes: u64, huge_bytes: u64) {
        if bytes > 0 {
            let part = self.by_key.entry((kind, name.to_owned(), stack)).or_default();
            part.bytes = part.bytes.saturating_add(bytes);
            part.huge_bytes = part.huge_bytes.saturating_add(huge_bytes);
            part.mappings = part.mappings.saturating_add(1);
        }
    }

    /// Adds the runtime's own figures, each once.
    fn add_figures(&mut self, categories: &[Category]) {
        let mut of_names: BTreeMap<&str, &Category> =
            categories.iter().map(|category| (category.name.as_str(), category)).collect();
        for ((_, name, _), figures) in &mut self.by_key {
            if let Some(category) = of_names.remove(name.as_str()) {
                figures.reserved_bytes = category.reserved_bytes;
                figures.committed_bytes = category.committed_bytes;
            }
        }
    }
}

/// A process's state between two moments.
#[derive(Clone, Debug, Default)]
pub struct Residence {
    /// The owners of mappings.
    pub claims: Claims,
    /// Where mappings of the allocator began.
    heaps: BTreeSet<u64>,
}

/// A stretch of an anonymous mapping with one owner.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u64,
    end: u64,
    row: usize,
    owner: Option<Owner>,
    /// Place of the region.
    region: Option<usize>,
    live: u64,
    has_blocks: bool,
}

impl Residence {
    /// The parts of one moment, with the blocks that are live then.
    pub fn divide(&mut self, moment: &ResidenceMoment, heap: &LiveHeap) -> Parts {
        let mut parts = Parts::default();
        for file in &moment.files {
            parts.add(file.kind, &file.name, 0, file.bytes, file.huge_bytes);
            if let Some(part) = parts.by_key.get_mut(&(file.kind, file.name.clone(), 0)) {
                part.mappings = file.mappings;
            }
        }
        let rows = sound(&moment.anonymous);
        for row in &moment.anonymous {
            if row.start == row.end {
                parts.add(ResidentKind::Unknown, &row.name, 0, row.bytes, row.huge_bytes);
            }
        }
        let residencies: Vec<Residency<'_>> = rows.iter().map(|row| Residency::of(row)).collect();
        let mut pieces: Vec<Piece> = Vec::new();
        let mut regions: Claims<usize> = Claims::default();
        for (place, region) in moment.account.regions.iter().enumerate() {
            regions.claim(region.start, region.end, place);
        }
        for (row, of_row) in rows.iter().enumerate() {
            for (start, end, owner) in self.claims.pieces(of_row.start, of_row.end) {
                let cut = regions.pieces(start, end).into_iter();
                pieces.extend(cut.map(|(start, end, region)| Piece {
                    start,
                    end,
                    row,
                    owner,
                    region,
                    live: 0,
                    has_blocks: false,
                }));
            }
        }
        find_blocks(&mut pieces, &residencies, heap);
        let mut rest = pieces.as_slice();
        while let Some(first) = rest.first() {
            let until = rest.iter().position(|piece| piece.row != first.row);
            let (of_row, after) = rest.split_at(until.unwrap_or(rest.len()));
            self.name(&mut parts, &residencies[first.row], of_row, &moment.account.regions);
            rest = after;
        }
        parts.add_figures(&moment.account.categories);
        parts
    }

    /// Adds the parts of one mapping.
    fn name(
        &mut self,
        parts: &mut Parts,
        residency: &Residency<'_>,
        pieces: &[Piece],
        regions: &[Region],
    ) {
        let row = residency.row;
        let is_unclaimed = |piece: &&Piece| piece.owner.is_none() && piece.region.is_none();
        let unclaimed = || pieces.iter().filter(is_unclaimed);
        let rest = self.unclaimed_kind(row, unclaimed().any(|piece| piece.has_blocks));
        let mut huge_before = 0;
        let mut below = 0_u64;
        for piece in pieces {
            let resident = residency.below(piece.end) - residency.below(piece.start);
            below += resident;
            // Huge pages are counted for the mapping; they are spread as its bytes are.
            let huge_until = scaled(row.huge_bytes, below, row.bytes);
            let huge = huge_until - huge_before;
            huge_before = huge_until;
            let live = piece.live.min(resident);
            let live_huge = scaled(huge, live, resident);
            let (others, others_huge) = (resident - live, huge - live_huge);
            parts.add(ResidentKind::Blocks, "", 0, live, live_huge);
            let region = piece.region.and_then(|place| regions.get(place));
            let (kind, name, stack) = match (piece.owner, region) {
                // The runtime has given the range back since it named it.
                (Some(Owner::Allocator), _) => (ResidentKind::Allocator, "", 0),
                (owner, Some(region)) => {
                    let is_stack = region.name == jvm::THREAD_STACK;
                    let kind = if is_stack { ResidentKind::Stack } else { ResidentKind::Mapped };
                    let stack = if let Some(Owner::Program(stack)) = owner { stack } else { 0 };
                    (kind, region.name.as_str(), stack)
                }
                // A stack that the program mapped for a thread stays a stack.
                (Some(Owner::Program(stack)), None) if row.has(facts::STACK) => {
                    (ResidentKind::Stack, "threads", stack)
                }
                (Some(Owner::Program(stack)), None) => (ResidentKind::Mapped, name_of(row), stack),
                (None, None) => (rest.0, rest.1, 0),
            };
            parts.add(kind, name, stack, others, others_huge);
        }
    }

    /// Kind and name of a mapping whose caller the recorder did not see.
    fn unclaimed_kind<'a>(
        &mut self,
        row: &'a AnonymousRow,
        has_blocks: bool,
    ) -> (ResidentKind, &'a str) {
        let name = name_of(row);
        if row.has(facts::RECORDERS) {
            return (ResidentKind::Recorder, "");
        }
        if row.name == "[stack]" {
            return (ResidentKind::Stack, "main");
        }
        if (row.has(facts::STACK) && !has_blocks) || name.contains("glibc: pthread stack") {
            return (ResidentKind::Stack, "threads");
        }
        let is_heap = has_blocks
            || row.name == "[heap]"
            || row.has(facts::GLIBC_HEAP)
            || name.contains("glibc: malloc")
            || (self.heaps.contains(&row.start) && !row.has(facts::ZEROED_DATA));
        if is_heap {
            self.heaps.insert(row.start);
            return (ResidentKind::Allocator, "");
        }
        if row.has(facts::ZEROED_DATA) {
            return (ResidentKind::Data, name);
        }
        if name.is_empty() { (ResidentKind::Unknown, "") } else { (ResidentKind::Mapped, name) }
    }
}

/// The meaning of a mapping's name: NAME of `[anon:NAME]`, or a file.
fn name_of(row: &AnonymousRow) -> &str {
    row.name.strip_prefix("[anon:").map_or_else(
        || if row.name.starts_with('[') { "" } else { row.name.as_str() },
        |name| name.strip_suffix(']').unwrap_or(name),
    )
}

/// `whole` times `part` by `of`; 0 of 0 is 0.
fn scaled(whole: u64, part: u64, of: u64) -> u64 {
    (u128::from(whole) * u128::from(part) / u128::from(of.max(1))) as u64
}

/// The rows with a place that a kernel can have written: in order, apart, and no more resident than
/// they are long.
fn sound(rows: &[AnonymousRow]) -> Vec<&AnonymousRow> {
    let mut end = 0;
    let mut kept = Vec::new();
    for row in rows {
        if row.start < row.end && row.start >= end && row.bytes <= row.end - row.start {
            end = row.end;
            kept.push(row);
        }
    }
    kept
}

/// Adds the resident bytes of every live block to its piece.
fn find_blocks(pieces: &mut [Piece], residencies: &[Residency<'_>], heap: &LiveHeap) {
    heap.each(|address, bytes| {
        let end = address.saturating_add(bytes.max(1));
        let mut place = pieces.partition_point(|piece| piece.end <= address);
        while let Some(piece) = pieces.get_mut(place).filter(|piece| piece.start < end) {
            let residency = &residencies[piece.row];
            let (from, to) = (address.max(piece.start), end.min(piece.end));
            let live = residency.below(to).saturating_sub(residency.below(from));
            piece.live = piece.live.saturating_add(live);
            piece.has_blocks = true;
            place += 1;
        }
    });
}

/// The resident bytes of a mapping as a function of the address.
#[derive(Debug)]
struct Residency<'a> {
    row: &'a AnonymousRow,
    /// Resident stretches: start and end, and the bytes of the stretches before.
    stretches: Vec<(u64, u64, u64)>,
    /// Bytes of all stretches.
    known_bytes: u64,
}

impl<'a> Residency<'a> {
    fn of(row: &'a AnonymousRow) -> Residency<'a> {
        let page_bytes = rustix::param::page_size() as u64;
        let (mut at, mut known_bytes) = (row.start, 0);
        let mut stretches = Vec::new();
        for (place, pages) in row.stretches.iter().enumerate() {
            let end = at.saturating_add(u64::from(*pages) * page_bytes).min(row.end);
            if place % 2 == 1 && end > at {
                stretches.push((at, end, known_bytes));
                known_bytes += end - at;
            }
            at = end;
        }
        if stretches.is_empty() {
            (stretches, known_bytes) = (vec![(row.start, row.end, 0)], row.end - row.start);
        }
        Residency { row, stretches, known_bytes }
    }

    /// Resident bytes of the mapping below `address`: 0 at its start, all at its end. Without exact
    /// pages the bytes are spread evenly.
    fn below(&self, address: u64) -> u64 {
        let place = self.stretches.partition_point(|(start, ..)| *start < address);
        let Some((start, end, before)) =
            place.checked_sub(1).and_then(|place| self.stretches.get(place))
        else {
            return 0;
        };
        let known = before + (address.min(*end) - start);
        if self.known_bytes == self.row.bytes {
            known
        } else {
            scaled(self.row.bytes, known, self.known_bytes)
        }
    }
}

#[cfg(test)]
mod tests;
