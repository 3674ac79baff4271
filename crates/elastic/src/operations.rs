//! Lists of operations that a space must survive, against a shadow model: blocks are aligned, do
//! not overlap, keep their contents, sums add up, refused requests change nothing, and when
//! everything is dropped nothing stays committed.
//!
//! Property tests shrink such lists; the fuzz target `elastic` reads them from bytes.

use crate::pool::shards::{Shards, set_home};
use crate::{
    Arena, ArenaStatistics, Call, CommitLimit, Debug, Faults, Growth, Options, Place, PlaceKind,
    Reclaim, Space,
};
use allocator_api2::alloc::Allocator;
use std::alloc::Layout;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// One step. Numbers wrap around what there is, so that every list is a legal program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new arena of one of the [`GROWTHS`].
    Begin(u8),
    /// A block in an arena.
    Allocate(u8, usize, u8),
    /// The n-th live block of an arena is given back.
    Deallocate(u8, usize),
    /// The n-th live block of an arena gets a new size and alignment, through `Allocator`.
    Resize(u8, usize, usize, u8),
    /// An arena is reset.
    Reset(u8),
    /// An arena is dropped.
    End(u8),
    /// Idle memory goes back.
    Trim,
    /// The n-th commit from now on fails.
    FailCommit(u8),
    /// The n-th uncommit from now on fails.
    FailUncommit(u8),
    /// Commit limit in KB; 0: no limit.
    Limit(u16),
}

/// Policies that lists choose from.
pub const GROWTHS: [Growth; 7] = [
    Growth::MICRO,
    Growth::SMALL,
    Growth::STANDARD,
    Growth::LARGE,
    Growth::new(&[9000, 128]),
    Growth::FAST,
    Growth::LEARNED,
];

/// Shards of the space; fewer if it has not enough roots for them.
const SHARDS: usize = 3;

/// The space that a list runs on.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// When memory goes back.
    pub reclaim: Reclaim,
    /// Aids against memory errors.
    pub debug: Debug,
    /// Roots of 256 granules each: with few roots, addresses run out.
    pub roots: usize,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting { reclaim: Reclaim::default(), debug: Debug::default(), roots: 64 }
    }
}

struct Live {
    block: NonNull<u8>,
    layout: Layout,
    mark: u8,
}

struct Model {
    space: Space,
    faults: Arc<Faults>,
    limit: Arc<CommitLimit>,
    arenas: Vec<(Arena, Vec<Live>)>,
    marks: u8,
}

/// Whether all bytes are `byte`: the first one is, and each other one equals its predecessor. That
/// is one comparison of memory, fast in an unoptimised build too.
pub(crate) fn are_all(bytes: &[u8], byte: u8) -> bool {
    bytes.split_first().is_none_or(|(first, rest)| *first == byte && *rest == bytes[..rest.len()])
}

impl Live {
    fn holds(&self) -> bool {
        let (bytes, mark) = (self.layout.size(), self.mark);
        // SAFETY: the model keeps only live blocks, and all of their bytes were written.
        are_all(unsafe { std::slice::from_raw_parts(self.block.as_ptr(), bytes) }, mark)
    }

    fn fill(&self) {
        // SAFETY: the block is live and this size.
        unsafe { self.block.write_bytes(self.mark, self.layout.size()) };
    }
}

/// Runs the list on a small space. Returns how many blocks were allocated and how many refused.
///
/// # Panics
/// Where a promise is broken.
pub fn run(operations: &[Operation], setting: Setting) -> (usize, usize) {
    let (faults, limit) = (Arc::new(Faults::new()), Arc::new(CommitLimit::none()));
    let Setting { reclaim, debug, roots } = setting;
    let root_bytes = Options::default().granule_bytes * if cfg!(miri) { 64 } else { 256 };
    let options = Options {
        reserve_bytes: root_bytes * roots.clamp(1, if cfg!(miri) { 8 } else { 64 }),
        root_bytes,
        reclaim,
        debug,
        limit: Some(limit.clone()),
        faults: Some(faults.clone()),
        ..Options::default()
    };
    let space =
        Space::with_shards(options, |shape| Shards::new(shape, SHARDS)).expect("a small space");
    let mut model = Model { space, faults, limit, arenas: Vec::new(), marks: 0 };
    let (mut allocated, mut refused) = (0, 0);
    for (nth, operation) in operations.iter().enumerate() {
        // As if a few threads took turns, so that an arena has chunks of several shards.
        set_home(nth / 4);
        match model.step(*operation) {
            Some(true) => allocated += 1,
            Some(false) => refused += 1,
            None => {}
        }
        // Miri looks at accesses; the books are checked at the end.
        if cfg!(not(miri)) {
            model
                .space
                .check_deep()
                .unwrap_or_else(|broken| panic!("after {operation:?}: {broken}"));
            // Looks at every block and place.
            if nth % 4 == 3 || nth + 1 == operations.len() {
                model.check_places();
            }
        }
    }
    for (arena, live) in &model.arenas {
        assert!(live.iter().all(Live::holds), "a block changed");
        let statistics = arena.statistics();
        let requested: usize = live.iter().map(|live| live.layout.size()).sum();
        assert!(
            statistics.used_bytes >= requested,
            "{statistics:?} hold {requested} requested bytes"
        );
    }
    model.faults.clear();
    model.arenas.clear();
    model.space.trim().expect("no fault is left");
    model.space.check_deep().expect("sound when empty");
    assert_eq!(
        (model.space.committed_bytes(), model.limit.committed_bytes(), model.space.arenas()),
        (0, 0, 0)
    );
    (allocated, refused)
}

impl Model {
    fn arena(&mut self, number: u8) -> Option<&mut (Arena, Vec<Live>)> {
        let count = self.arenas.len();
        (count > 0).then(|| &mut self.arenas[usize::from(number) % count])
    }

    /// Every committed byte is in one place, every block lies where blocks are, and an arena's
    /// places say what its statistics do.
    fn check_places(&self) {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut apart = |places: &[Place]| {
            ranges.extend(
                places
                    .iter()
                    .filter(|place| place.own_bytes() > 0)
                    .map(|place| place.addresses.clone()),
            );
        };
        let own = self.space.places();
        apart(&own);
        let sum = |places: &[Place], kind| -> usize {
            places
                .iter()
                .filter(|place| place.kind == kind)
                .map(|place| place.addresses.len())
                .sum()
        };
        assert_eq!(
            sum(&own, PlaceKind::Idle) + sum(&own, PlaceKind::FreeChunk),
            self.space.idle_bytes()
        );
        for (arena, live) in &self.arenas {
            let (places, statistics) = (arena.places(), arena.statistics());
            apart(&places);
            let found =
                [PlaceKind::Blocks, PlaceKind::Free, PlaceKind::FreeBlock, PlaceKind::Overhead]
                    .map(|kind| sum(&places, kind));
            let ArenaStatistics {
                used_bytes, free_bytes, deallocated_bytes, overhead_bytes, ..
            } = statistics;
            assert_eq!(
                found,
                [used_bytes, free_bytes, deallocated_bytes, overhead_bytes],
                "{places:?}"
            );
            assert_eq!(
                places.iter().filter(|place| matches!(place.kind, PlaceKind::Chunk { .. })).count(),
                statistics.chunks
            );
            for live in live.iter().filter(|live| live.layout.size() > 0) {
                let (from, to) =
                    (live.block.addr().get(), live.block.addr().get() + live.layout.size());
                let holds = |place: &Place| {
                    place.kind == PlaceKind::Blocks
                        && place.addresses.start <= from
                        && to <= place.addresses.end
                };
                assert!(
                    places.iter().any(holds),
                    "the block from {from:#x} to {to:#x} lies in none of {places:?}"
                );
            }
        }
        ranges.sort_unstable_by_key(|range| range.start);
        assert!(
            ranges.is_sorted_by(|before, after| before.end <= after.start),
            "places overlap: {ranges:x?}"
        );
        assert_eq!(
            ranges.iter().map(ExactSizeIterator::len).sum::<usize>(),
            self.space.committed_bytes()
        );
    }

    fn next_mark(&mut self) -> u8 {
        self.marks = self.marks.wrapping_mul(5).wrapping_add(113);
        self.marks
    }

    fn step(&mut self, operation: Operation) -> Option<bool> {
        match operation {
            Operation::Begin(growth) if self.arenas.len() < 40 => {
                let arena = self.space.arena(GROWTHS[usize::from(growth) % GROWTHS.len()]);
                self.arenas.extend(arena.map(|arena| (arena, Vec::new())));
            }
            Operation::Allocate(number, size, align) => return self.allocate(number, size, align),
            Operation::Deallocate(number, nth) => {
                let (arena, live) = self.arena(number)?;
                let live = (!live.is_empty()).then(|| live.swap_remove(nth % live.len()))?;
                assert!(live.holds(), "a block changed");
                // SAFETY: it was live and has left the model.
                unsafe { arena.deallocate(live.block, live.layout) };
            }
            Operation::Resize(number, nth, size, align) => self.resize(number, nth, size, align)?,
            Operation::Reset(number) => {
                let (arena, live) = self.arena(number)?;
                assert!(live.drain(..).all(|live| live.holds()), "a block changed");
                arena.reset();
                assert_eq!(arena.statistics().used_bytes, 0, "a reset arena has no blocks");
            }
            Operation::End(number) if !self.arenas.is_empty() => {
                let (_arena, live) =
                    self.arenas.swap_remove(usize::from(number) % self.arenas.len());
                assert!(live.iter().all(Live::holds), "a block changed");
            }
            Operation::Trim => {
                let idle = self.space.idle_bytes();
                assert!(
                    self.space.trim().is_ok_and(|bytes| bytes == idle)
                        || self.space.idle_bytes() > 0
                );
            }
            Operation::FailCommit(nth) => self.faults.fail(Call::Commit, nth.into(), 1),
            Operation::FailUncommit(nth) => self.faults.fail(Call::Uncommit, nth.into(), 1),
            Operation::Limit(kib) => self.limit.set_limit_bytes(if kib == 0 {
                usize::MAX
            } else {
                usize::from(kib) << 10
            }),
            Operation::Begin(_) | Operation::End(_) => {}
        }
        None
    }

    fn allocate(&mut self, number: u8, size: usize, align: u8) -> Option<bool> {
        let mark = self.next_mark();
        let layout = Layout::from_size_align(size, 1 << (align % 14)).ok()?;
        let (arena, live) = self.arena(number)?;
        let before = arena.statistics();
        match arena.allocate(layout) {
            Ok(block) => {
                assert!(
                    block.addr().get().is_multiple_of(layout.align()),
                    "{layout:?} at {block:p}"
                );
                let live_block = Live { block, layout, mark };
                live_block.fill();
                live.push(live_block);
                Some(true)
            }
            Err(_) => {
                assert_unchanged(before, arena.statistics(), arena.space().options().root_bytes);
                Some(false)
            }
        }
    }

    fn resize(&mut self, number: u8, nth: usize, size: usize, align: u8) -> Option<()> {
        let (arena, live) = self.arena(number)?;
        if live.is_empty() {
            return None;
        }
        let nth = nth % live.len();
        let (old, block) = (live[nth].layout, live[nth].block);
        let new = Layout::from_size_align(size, 1 << (align % 14)).ok()?;
        let (arena, before) = (&*arena, arena.statistics());
        // SAFETY: the block is live with this layout; the model gets the new address.
        let moved = unsafe {
            if size >= old.size() {
                (&arena).grow(block, old, new)
            } else {
                (&arena).shrink(block, old, new)
            }
        };
        if let Ok(moved) = moved {
            assert!(
                moved.cast::<u8>().addr().get().is_multiple_of(new.align()),
                "{new:?} at {moved:p}"
            );
            let kept = Layout::from_size_align(size.min(old.size()), 1).ok()?;
            let mark = live[nth].mark;
            assert!(
                Live { block: moved.cast(), layout: kept, mark }.holds(),
                "a moved block lost its contents"
            );
            live[nth] = Live { block: moved.cast(), layout: new, mark };
            live[nth].fill();
        } else {
            assert!(live[nth].holds(), "a block that could not be resized changed");
            assert_unchanged(before, arena.statistics(), arena.space().options().root_bytes);
        }
        Some(())
    }
}

/// After a refused request an arena is as before, but for free neighbours, which may have become
/// one, or the window's; and for empty chunks of several roots, which may have gone back to the
/// space.
fn assert_unchanged(before: ArenaStatistics, after: ArenaStatistics, root_bytes: usize) {
    assert!(after.deallocated_blocks <= before.deallocated_blocks, "{before:?}, {after:?}");
    let windowed = before.deallocated_bytes.saturating_sub(after.deallocated_bytes);
    let after = ArenaStatistics {
        free_bytes: after.free_bytes - windowed,
        deallocated_bytes: after.deallocated_bytes + windowed,
        deallocated_blocks: before.deallocated_blocks,
        ..after
    };
    let gone = before.chunks - after.chunks;
    if gone == 0 {
        assert_eq!(after, before, "a refused request changed the arena");
        return;
    }
    assert!(
        before.owned_bytes - after.owned_bytes > gone * root_bytes,
        "a chunk of a root was given up: {before:?}, {after:?}"
    );
    let links = before.overhead_bytes - after.overhead_bytes;
    let committed = before.committed_bytes - after.committed_bytes;
    assert_eq!(
        before.free_bytes - after.free_bytes + links,
        committed,
        "what was given up was not empty: {before:?}, {after:?}"
    );
    let blocks =
        |all: ArenaStatistics| (all.used_bytes, all.deallocated_bytes, all.deallocated_blocks);
    assert_eq!(blocks(after), blocks(before), "a refused request changed the arena's blocks");
}
