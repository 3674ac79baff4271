//! Old space by size classes on small pages. V8's document names this design first for a comparison
//! ("Comparison with size-class segregation").
//!
//! A span is a run of small pages for objects of one class, cut into cells of the class's size. An
//! allocation takes the next free cell of its class's span; an empty span goes back and serves any
//! class. There are no lists, nothing is split, and nothing moves.
//!
//! Source: Go's runtime (mcentral.go, mheap.go, and `sizeclasses.go` of 1.26 for the table). The
//! other table has small pages of 4 KiB, like SpiderMonkey's arenas. Deviations from Go:
//! - There is one processor.
//! - An empty span found by a full collection goes back at once, to the system too.
//! - A span comes from the lowest long enough free run of small pages, within 256 KiB.
//! - An object above the largest class has a span of its own, up to V8's limit for large objects.

use crate::facts::{PAGE_BYTES, REGULAR_MAX_BYTES, WORD_BYTES};
use crate::object::{self, Kind};
use crate::page::{Owner, Pages};
use std::collections::BTreeMap;

/// Small pages and classes, as plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segregation {
    /// Bytes of a small page, 4 KiB at least.
    pub block_bytes: usize,
    /// For each class, rising: bytes of a cell, and small pages of a span.
    pub classes: Vec<(usize, usize)>,
}

/// Go 1.26's classes: bytes of a cell, and pages of 8 KiB in a span.
#[rustfmt::skip]
const GO: [(usize, usize); 65] = [
    (24, 1), (32, 1), (48, 1), (64, 1), (80, 1), (96, 1), (112, 1), (128, 1), (144, 1), (160, 1),
    (176, 1), (192, 1), (208, 1), (224, 1), (240, 1), (256, 1), (288, 1), (320, 1), (352, 1),
    (384, 1), (416, 1), (448, 1), (480, 1), (512, 1), (576, 1), (640, 1), (704, 1), (768, 1),
    (896, 1), (1024, 1), (1152, 1), (1280, 1), (1408, 2), (1536, 1), (1792, 2), (2048, 1),
    (2304, 2), (2688, 1), (3072, 3), (3200, 2), (3456, 3), (4096, 1), (4864, 3), (5376, 2),
    (6144, 3), (6528, 4), (6784, 5), (6912, 6), (8192, 1), (9472, 7), (9728, 6), (10240, 5),
    (10880, 4), (12288, 3), (13568, 5), (14336, 7), (16384, 2), (18432, 9), (19072, 7),
    (20480, 5), (21760, 8), (24576, 3), (27264, 10), (28672, 7), (32768, 4),
];

impl Segregation {
    /// Go's classes and spans.
    pub fn go() -> Segregation {
        Segregation { block_bytes: 8 << 10, classes: GO.into() }
    }

    /// Go's classes up to 4 KiB on pages of 4 KiB. A span has the fewest pages that leave at most
    /// an eighth over.
    pub fn small() -> Segregation {
        let block_bytes = 4 << 10;
        let blocks = |cell: usize| {
            let fits = |blocks: &usize| blocks * block_bytes % cell <= blocks * block_bytes / 8;
            (1..16).find(fits).unwrap_or(16)
        };
        let cells = GO.iter().map(|(cell, _)| *cell).filter(|cell| *cell <= block_bytes);
        Segregation { block_bytes, classes: cells.map(|cell| (cell, blocks(cell))).collect() }
    }

    /// Class, cell bytes and small pages for an object of `bytes` bytes; the class is `None` for an
    /// object above all classes.
    fn class(&self, bytes: usize) -> (Option<usize>, usize, usize) {
        let class = self.classes.partition_point(|(cell, _)| *cell < bytes);
        match self.classes.get(class) {
            Some((cell, blocks)) => (Some(class), *cell, *blocks),
            None => {
                let blocks = bytes.div_ceil(self.block_bytes);
                (None, blocks * self.block_bytes, blocks)
            }
        }
    }
}

/// A run of small pages of one class.
#[derive(Debug)]
struct Span {
    start: usize,
    bytes: usize,
    class: Option<usize>,
    cell_bytes: usize,
    cells: usize,
    /// A bit a cell, set if free; meaningless before the span is swept.
    free: Vec<u64>,
    /// Bytes of its objects; meaningless before the span is swept.
    used_bytes: usize,
    unswept: bool,
}

impl Span {
    fn cell(&self, at: usize) -> usize {
        self.start + at * self.cell_bytes
    }

    fn is_free(&self, at: usize) -> bool {
        self.free[at / 64] >> (at % 64) & 1 == 1
    }

    fn free_cells(&self) -> usize {
        self.free.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Takes the first free cell.
    fn take(&mut self) -> Option<usize> {
        let (word, bits) = self.free.iter().enumerate().find(|(_, word)| **word != 0)?;
        let at = word * 64 + bits.trailing_zeros() as usize;
        self.free[word] &= self.free[word] - 1;
        Some(self.cell(at))
    }
}

/// Bytes of the object in a cell. An array that was born old includes the elements behind it.
///
/// # Safety
/// The cell holds an object.
unsafe fn object_bytes(cell: usize, cell_bytes: usize) -> usize {
    // SAFETY: a taken cell begins with an object, and an array holds its elements' address.
    unsafe {
        let header = object::header(cell);
        let behind = cell + header.bytes;
        if header.kind == Kind::Array && behind < cell + cell_bytes && object::link(cell) == behind
        {
            header.bytes + object::header(behind).bytes
        } else {
            header.bytes
        }
    }
}

/// Counted work of spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Spans that a class turned to.
    pub turned: u64,
    /// Spans swept.
    pub swept: u64,
    /// Spans made.
    pub made: u64,
}

/// Old space of spans.
#[derive(Debug)]
pub struct Segregated {
    design: Segregation,
    /// By address.
    spans: BTreeMap<usize, Span>,
    /// By class: the serving span, spans with free cells, spans that wait to be swept.
    serving: Vec<Option<usize>>,
    partial: Vec<Vec<usize>>,
    unswept: Vec<Vec<usize>>,
    /// Pages of 256 KiB, with a bit for each free small page.
    chunks: BTreeMap<u32, u64>,
    used_bytes: usize,
    committed_bytes: usize,
    /// Work so far.
    pub work: Counts,
}

impl Segregated {
    /// Without a span.
    pub fn new(design: Segregation) -> Segregated {
        let classes = design.classes.len();
        Segregated {
            design,
            spans: BTreeMap::new(),
            serving: vec![None; classes],
            partial: vec![Vec::new(); classes],
            unswept: vec![Vec::new(); classes],
            chunks: BTreeMap::new(),
            used_bytes: 0,
            committed_bytes: 0,
            work: Counts::default(),
        }
    }

    /// Bytes of objects, dead objects that no collection has found included.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Bytes of all spans.
    pub fn committed_bytes(&self) -> usize {
        self.committed_bytes
    }

    /// For swept spans: bytes of free cells, and the waste, which is the rest of each taken cell
    /// and of each span.
    pub fn free_and_waste_bytes(&self) -> (usize, usize) {
        let swept = self.spans.values().filter(|span| !span.unswept);
        swept.fold((0, 0), |(free, waste), span| {
            let cells = span.free_cells() * span.cell_bytes;
            (free + cells, waste + span.bytes - cells - span.used_bytes)
        })
    }

    /// A cell for an object. `room` says whether that many more bytes may be committed. `None`:
    /// there is no room.
    pub fn allocate(
        &mut self,
        pages: &mut Pages,
        bytes: usize,
        room: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        debug_assert!(bytes <= REGULAR_MAX_BYTES);
        let (class, cell_bytes, blocks) = self.design.class(bytes);
        loop {
            let serving = match class {
                Some(class) => self.serving(pages, class),
                None => None,
            };
            let start = match serving {
                Some(start) => start,
                None if room(blocks * self.design.block_bytes) => {
                    self.make(pages, class, cell_bytes, blocks)?
                }
                None => return None,
            };
            let span = self.spans.get_mut(&start)?;
            if let Some(cell) = span.take() {
                span.used_bytes += bytes;
                self.used_bytes += bytes;
                return Some(cell);
            }
            if let Some(class) = class {
                self.serving[class] = None;
            }
        }
    }

    /// The span that serves a class: the serving one, else one with free cells, else one swept now.
    fn serving(&mut self, pages: &mut Pages, class: usize) -> Option<usize> {
        if self.serving[class].is_none() {
            let next = self.partial[class].pop();
            let next = next.or_else(|| {
                let start = self.unswept[class].pop()?;
                self.sweep(pages, start);
                Some(start)
            });
            self.work.turned += u64::from(next.is_some());
            self.serving[class] = next;
        }
        self.serving[class]
    }

    fn make(
        &mut self,
        pages: &mut Pages,
        class: Option<usize>,
        cell_bytes: usize,
        blocks: usize,
    ) -> Option<usize> {
        let (page, first) = match self.run(blocks) {
            Some(found) => found,
            None => {
                let page = pages.take(Owner::Cells, 0)?;
                let all = u64::MAX >> (64 - PAGE_BYTES / self.design.block_bytes);
                self.chunks.insert(page, all);
                (page, 0)
            }
        };
        let run = (u64::MAX >> (64 - blocks)) << first;
        *self.chunks.get_mut(&page)? &= !run;
        let bytes = blocks * self.design.block_bytes;
        let start = pages.start(page) + first * self.design.block_bytes;
        let cells = bytes / cell_bytes;
        let mut free = vec![u64::MAX; cells.div_ceil(64)];
        if let Some(last) = free.last_mut()
            && !cells.is_multiple_of(64)
        {
            *last >>= 64 - cells % 64;
        }
        let span =
            Span { start, bytes, class, cell_bytes, cells, free, used_bytes: 0, unswept: false };
        self.spans.insert(start, span);
        self.committed_bytes += bytes;
        self.work.made += 1;
        if let Some(class) = class {
            self.serving[class] = Some(start);
        }
        Some(start)
    }

    /// The lowest free run of `blocks` small pages.
    fn run(&self, blocks: usize) -> Option<(u32, usize)> {
        self.chunks.iter().find_map(|(page, free)| {
            // Keeps a bit if all of the next `blocks - 1` bits are set too.
            let runs = (1..blocks).fold(*free, |runs, by| runs & (free >> by));
            (runs != 0).then(|| (*page, runs.trailing_zeros() as usize))
        })
    }

    /// After marking: releases empty spans and queues all others for sweeping.
    pub fn start_sweeping(&mut self, pages: &mut Pages) {
        self.serving.fill(None);
        self.partial.iter_mut().chain(&mut self.unswept).for_each(Vec::clear);
        self.used_bytes = 0;
        for page in self.chunks.keys() {
            self.used_bytes += std::mem::take(&mut pages[*page].live_bytes) as usize;
        }
        let starts: Vec<usize> = self.spans.keys().rev().copied().collect();
        for start in starts {
            let Some(span) = self.spans.get_mut(&start) else { continue };
            let page = pages.number(start);
            let offset = start - pages.start(page);
            let lives =
                pages[page].next_mark(offset).is_some_and(|mark| mark < offset + span.bytes);
            if lives {
                span.unswept = true;
                if let Some(class) = span.class {
                    self.unswept[class].push(start);
                } else {
                    self.sweep(pages, start);
                }
            } else {
                self.give_back(pages, start);
            }
        }
    }

    fn give_back(&mut self, pages: &mut Pages, start: usize) {
        let Some(span) = self.spans.remove(&start) else { return };
        self.committed_bytes -= span.bytes;
        let page = pages.number(start);
        let first = (start - pages.start(page)) / self.design.block_bytes;
        let blocks = span.bytes / self.design.block_bytes;
        let Some(free) = self.chunks.get_mut(&page) else { return };
        *free |= (u64::MAX >> (64 - blocks)) << first;
        if free.count_ones() as usize == PAGE_BYTES / self.design.block_bytes {
            self.chunks.remove(&page);
            pages.release(page);
        } else {
            pages.renew(start..start + span.bytes);
        }
    }

    /// Finds the cells whose objects are not marked.
    fn sweep(&mut self, pages: &mut Pages, start: usize) {
        let Some(span) = self.spans.get_mut(&start) else { return };
        let page = pages.number(start);
        let first = start - pages.start(page);
        (span.unswept, span.used_bytes) = (false, 0);
        for at in 0..span.cells {
            let offset = first + at * span.cell_bytes;
            let mask = 1 << (at % 64);
            if pages[page].is_marked(offset) {
                span.free[at / 64] &= !mask;
                // SAFETY: marked cells are taken.
                span.used_bytes += unsafe { object_bytes(span.cell(at), span.cell_bytes) };
            } else {
                span.free[at / 64] |= mask;
            }
        }
        // An old-born array's elements, also marked, lie within its cell.
        pages[page].clear_marks_within(first..first + span.bytes);
        self.work.swept += 1;
    }

    /// Sweeps all waiting spans: a collection begins with this.
    pub fn complete_sweeping(&mut self, pages: &mut Pages) {
        for class in 0..self.unswept.len() {
            for start in std::mem::take(&mut self.unswept[class]) {
                self.sweep(pages, start);
                self.partial[class].push(start);
            }
        }
    }

    /// Each span by address: its place, bytes of its cells, and its cells' starts with whether each
    /// holds an object. In an unswept span only marked cells count as objects.
    pub fn walk<'a>(
        &'a self,
        pages: &'a Pages,
    ) -> impl Iterator<Item = (std::ops::Range<usize>, usize, Vec<(usize, bool)>)> + 'a {
        self.spans.values().map(|span| {
            let page = pages.number(span.start);
            let cell = |at: usize| {
                let offset = span.cell(at) - pages.start(page);
                let live =
                    if span.unswept { pages[page].is_marked(offset) } else { !span.is_free(at) };
                (span.cell(at), live)
            };
            (
                span.start..span.start + span.bytes,
                span.cell_bytes,
                (0..span.cells).map(cell).collect(),
            )
        })
    }

    /// A broken invariant: place, expected, found.
    pub fn check(&self, pages: &Pages) -> Result<(), (String, String, String)> {
        let (mut used, mut committed) = (0, 0);
        for (addresses, cell_bytes, cells) in self.walk(pages) {
            let place = || format!("span at {:#x}", addresses.start);
            committed += addresses.len();
            let mut here = 0;
            for (cell, _) in cells.iter().filter(|(_, live)| *live) {
                // SAFETY: it is taken.
                let bytes = unsafe { object_bytes(*cell, cell_bytes) };
                if bytes > cell_bytes || bytes < 2 * WORD_BYTES {
                    let expected = format!("an object of up to {cell_bytes} bytes");
                    return Err((place(), expected, format!("{bytes} at {cell:#x}")));
                }
                here += bytes;
            }
            let span = &self.spans[&addresses.start];
            if !span.unswept && here != span.used_bytes {
                return Err((place(), span.used_bytes.to_string(), here.to_string()));
            }
            used += here;
            let first = (addresses.start - pages.start(pages.number(addresses.start)))
                / self.design.block_bytes;
            let run = (u64::MAX >> (64 - span.bytes / self.design.block_bytes)) << first;
            if self.chunks.get(&pages.number(addresses.start)).is_none_or(|free| free & run != 0) {
                return Err((place(), "small pages that are taken".into(), "free ones".into()));
            }
        }
        let taken = self
            .chunks
            .values()
            .map(|free| PAGE_BYTES / self.design.block_bytes - free.count_ones() as usize);
        let blocks = taken.sum::<usize>() * self.design.block_bytes;
        for (place, expected, found) in [
            ("spans: bytes of objects", self.used_bytes, used),
            ("spans: committed bytes", self.committed_bytes, committed),
            ("spans: small pages taken", committed, blocks),
        ] {
            if expected != found {
                return Err((place.into(), expected.to_string(), found.to_string()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_serve() {
        for design in [Segregation::go(), Segregation::small()] {
            assert!(design.classes.is_sorted_by(|a, b| a.0 < b.0));
            for &(cell, blocks) in &design.classes {
                let bytes = blocks * design.block_bytes;
                assert!(cell <= bytes && bytes <= PAGE_BYTES, "{cell}");
                assert!(bytes % cell <= bytes / 8, "{cell} in {blocks} leaves {}", bytes % cell);
            }
            let (class, cell, _) = design.class(25);
            assert_eq!((class, cell), (Some(1), 32));
            let (class, cell, blocks) = design.class(REGULAR_MAX_BYTES);
            assert_eq!((class, cell), (None, REGULAR_MAX_BYTES));
            assert_eq!(blocks * design.block_bytes, REGULAR_MAX_BYTES);
        }
    }
}
