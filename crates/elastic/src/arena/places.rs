//! The place of everything in a space, one by one, for tools that draw or walk a heap. A report
//! gives the sums.
//!
//! As with reports ([`crate::report`]), the pool tells its own places from any thread, and each
//! arena tells its owner the places in its chunks. Both together cover every committed byte once.

use super::Arena;
use super::head::{Chunk, Head};
use crate::Space;
use crate::pool::places::Vacant;
use std::ops::Range;

/// The content of a [`Place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(any(test, feature = "serde"), derive(serde::Serialize, serde::Deserialize))]
pub enum PlaceKind {
    /// 64 granules that small chunks share; other places lie in it. Granules that nobody has used
    /// since they were given back are not committed.
    Region,
    /// A chunk of an arena, committed from its end downwards by this much. The places that follow
    /// it cover that part.
    Chunk {
        /// Committed bytes, which end where the chunk does.
        committed_bytes: usize,
    },
    /// Blocks of an arena, with what rounding and alignment put between them; blocks too small to
    /// be kept when they were given back, too.
    Blocks,
    /// The arena's own data: its head, its chunks' links, the table of its free blocks.
    Overhead,
    /// Still to be bumped through by an arena: in its current chunk, or in one kept by a reset.
    Free,
    /// A free block of an arena: given back, or left over in a retired chunk.
    FreeBlock,
    /// Lines of a shared granule that no chunk has.
    FreeLines,
    /// Committed granules that nobody uses.
    Idle,
    /// The committed part of a large chunk that nobody uses.
    FreeChunk,
}

/// A range of a space's addresses, and its content. [`PlaceKind::Region`] and [`PlaceKind::Chunk`]
/// contain other places. All others are committed from end to end and do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "serde"), derive(serde::Serialize, serde::Deserialize))]
pub struct Place {
    /// The content.
    pub kind: PlaceKind,
    /// Its addresses.
    pub addresses: Range<usize>,
}

impl Place {
    /// Committed bytes that this place has and no other: none of a region or chunk, else all.
    pub fn own_bytes(&self) -> usize {
        match self.kind {
            PlaceKind::Region | PlaceKind::Chunk { .. } => 0,
            _ => self.addresses.len(),
        }
    }
}

impl Space {
    /// The space's own places: regions, and committed memory outside of arenas' chunks. Together
    /// with those of all its arenas ([`Arena::places`]) they have [`Space::committed_bytes`] bytes,
    /// while no arena begins, grows or ends and nothing is given back.
    ///
    /// ```
    /// use heaplab_elastic::{Growth, Place, PlaceKind, Space};
    /// let space = Space::default();
    /// let arenas = [space.arena(Growth::SMALL)?, space.arena(Growth::LARGE)?];
    /// arenas[0].alloc_str("a block")?;
    /// let places: Vec<Place> = space.places().into_iter().chain(arenas.iter().flat_map(|arena| arena.places())).collect();
    /// assert_eq!(places.iter().map(Place::own_bytes).sum::<usize>(), space.committed_bytes());
    /// let blocks = places.iter().filter(|place| place.kind == PlaceKind::Blocks);
    /// assert_eq!(blocks.map(Place::own_bytes).sum::<usize>(), 8);
    /// # Ok::<(), heaplab_elastic::Error>(())
    /// ```
    pub fn places(&self) -> Vec<Place> {
        let base = self.0.reservation.base().addr().get();
        let place = |vacant| {
            let (kind, range): (_, Range<usize>) = match vacant {
                Vacant::Region(range) => (PlaceKind::Region, range),
                Vacant::Lines(range) => (PlaceKind::FreeLines, range),
                Vacant::Granules(range) => (PlaceKind::Idle, range),
                Vacant::Chunk(range) => (PlaceKind::FreeChunk, range),
            };
            Place { kind, addresses: base + range.start..base + range.end }
        };
        self.0.shards.vacant().into_iter().map(place).collect()
    }

    /// The addresses that the space reserved.
    pub fn addresses(&self) -> Range<usize> {
        self.0.reservation.addresses()
    }
}

impl Arena {
    /// The arena's chunks, each followed by the places in its committed part, by address. Takes
    /// time in proportion to its chunks and free blocks.
    pub fn places(&self) -> Vec<Place> {
        let head = self.head();
        let (chunks, mut known) = if head.debug() {
            let (chunks, free) = self.chunks_and_free_checked();
            (chunks, free.into_iter().map(|range| (range, PlaceKind::FreeBlock)).collect())
        } else {
            self.chunks_and_known()
        };
        known.sort_unstable_by_key(|(range, _)| range.start);
        let mut places = Vec::with_capacity(2 * (chunks.len() + known.len()));
        for chunk in &chunks {
            let shared = self.shared();
            let [from, committed, to] = [chunk.lines, chunk.committed_lines(), 0]
                .map(|lines| shared.line_address(chunk.top - lines).addr());
            places.push(Place {
                kind: PlaceKind::Chunk { committed_bytes: to - committed },
                addresses: from..to,
            });
            let first = known.partition_point(|(range, _)| range.start < committed);
            let mut at = committed;
            for (range, kind) in known[first..].iter().take_while(|(range, _)| range.start < to) {
                places.extend(
                    (at < range.start)
                        .then_some(Place { kind: PlaceKind::Blocks, addresses: at..range.start }),
                );
                places.push(Place { kind: *kind, addresses: range.clone() });
                at = range.end;
            }
            places
                .extend((at < to).then_some(Place { kind: PlaceKind::Blocks, addresses: at..to }));
        }
        places
    }

    /// Chunks, the newest first, then those kept by a reset; and all in them that is no block.
    fn chunks_and_known(&self) -> (Vec<Chunk>, Vec<(Range<usize>, PlaceKind)>) {
        let (head, shared) = (self.head(), self.shared());
        let (mut chunks, mut known) = (Vec::new(), Vec::new());
        let mut note = |from: usize, bytes: usize, kind| {
            if bytes > 0 {
                known.push((from..from + bytes, kind));
            }
        };
        for (list, first) in [head.current.get(), head.spare.get()].into_iter().enumerate() {
            let mut top = first;
            while top != 0 {
                let chunk = self.chunk(top);
                let (end, floor) =
                    (shared.line_address(top).addr(), self.true_floor(&chunk).addr());
                let links = end - chunk.link_bytes();
                let is_first = self.holds_head(&chunk);
                let own = if is_first { links - size_of::<Head>() } else { links };
                note(own, end - own, PlaceKind::Overhead);
                if list == 1 {
                    note(floor, own - floor, PlaceKind::Free);
                } else if top == first {
                    note(floor, head.cursor.get().addr() - floor, PlaceKind::Free);
                }
                top = chunk.other;
                chunks.push(chunk);
            }
        }
        if let Some(table) = head.free.table() {
            note(table.addr().get(), head.free.table_bytes(), PlaceKind::Overhead);
        }
        head.free.each(|(block, bytes)| note(block.addr().get(), bytes, PlaceKind::FreeBlock));
        (chunks, known)
    }
}
