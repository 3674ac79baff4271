//! Constants of V8's heap on 64-bit machines without pointer compression, and what differs between
//! its versions.
//!
//! Sources: V8's `src/heap` (spaces.h, spaces.cc, sweeper.cc, scavenger.cc, mark-compact.cc,
//! local-allocator.h, heap.cc) at 7.8.279, 7.9.317, 8.1.307 and 8.4.371, and figures of the Node
//! binaries that have these versions inside.

/// One word.
pub const WORD_BYTES: usize = 8;
/// `Page::kPageSize`: pages of all spaces, and their alignment (`kPageSizeBits` 18).
pub const PAGE_BYTES: usize = 1 << 18;
/// log2 of [`PAGE_BYTES`].
pub const PAGE_BITS: u32 = 18;
/// `kMaxRegularHeapObjectSize`: larger objects have a page of their own.
pub const REGULAR_MAX_BYTES: usize = 1 << 17;
/// `JSArray::kInitialMaxFastElementArray`: from so many elements on the runtime makes an array, in
/// two allocations.
pub const FOLDED_MAX_WORDS: usize = (REGULAR_MAX_BYTES - 16 - 32 - 16) / WORD_BYTES;
/// `JSArray::kSize`.
pub const ARRAY_BYTES: usize = 32;
/// `AllocationMemento::kSize`: behind an array in new space, and not copied with it.
pub const MEMENTO_BYTES: usize = 16;
/// `FixedArray::kHeaderSize`.
pub const ELEMENTS_HEADER_BYTES: usize = 16;
/// `LocalAllocator::kLabSize`: what the collector takes from new space at once.
pub const BUFFER_BYTES: usize = 32 << 10;
/// `LocalAllocator::kMaxLabObjectSize`: larger objects bypass the buffer.
pub const BUFFERED_MAX_BYTES: usize = 8 << 10;
/// `PagedSpace::kCompactionMemoryWanted`: a compaction space stops adopting swept pages past so
/// many free bytes.
pub const ADOPTED_ENOUGH_BYTES: usize = 500 << 10;
/// Entries of a segment of the scavenger's worklists (`kCopiedListSegmentSize`,
/// `kRegularObjectPromotionListSegmentSize`).
pub const SEGMENT_ENTRIES: usize = 256;
/// Above so many entries of the promotion list's own segment the scavenger turns to that list
/// first.
pub const EAGER_PROMOTIONS: usize = SEGMENT_ENTRIES / 2;
/// `FLAG_page_promotion_threshold`: a new-space page with more live bytes in a hundred moves as a
/// whole in a full collection.
pub const PAGE_PROMOTION_PERCENT: usize = 70;
/// Semi-space under `--predictable-gc-schedule`.
pub const SEMI_SPACE_BYTES: usize = 4 << 20;
/// The system's page, to which large objects' pages are rounded (`GetCommitPageSize`).
pub const SYSTEM_PAGE_BYTES: usize = 4096;
/// `kMaxEvacuatedBytes` of regular compaction.
pub const EVACUATION_QUOTA_BYTES: usize = 4 << 20;
/// `kTargetFragmentationPercent` of regular compaction before its speed is known.
pub const EVACUATION_FREE_PERCENT: usize = 70;

/// What differs between versions of V8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// As the parameter `version` names it.
    pub name: &'static str,
    /// The Node release that has it and against which it was held.
    pub node: &'static str,
    /// Bytes of a page that objects can have; the rest is its header, at the page's start.
    pub area_bytes: usize,
    /// A refill that finds nothing sweeps pages until one gave enough: at most so many of them. 7.8
    /// and 7.9 mean one too, but never count (`pages_freed` in `Sweeper::ParallelSweepSpace`).
    pub sweep_pages_max: usize,
    /// A page's remembered set, once there, stays until the page goes. Later versions give it back
    /// when a full collection left it empty.
    pub remembered_sets_stay: bool,
    /// Pages that Node's own objects fill before a workload begins: live bytes, whether it has a
    /// remembered set, and how many there are. They serve no allocation, but they are sorted and
    /// swept among the others. As the driver of the family `node` leaves them.
    pub base: &'static [(u32, bool, usize)],
    /// The same under a strategy that keeps no block under 2 KB, so that holes remain.
    pub base_with_holes: &'static [(u32, bool, usize)],
    /// A full collection promotes every young object (`FLAG_always_promote_young_mc`).
    pub promotes_all_young: bool,
}

impl Version {
    /// Where a page's objects begin.
    pub const fn header_bytes(&self) -> usize {
        PAGE_BYTES - self.area_bytes
    }
}

const BASE_7_8: &[(u32, bool, usize)] = &[
    (143_064, true, 1),
    (261_832, false, 1),
    (261_848, false, 1),
    (261_856, false, 1),
    (261_864, false, 6),
];
const BASE_7_9: &[(u32, bool, usize)] = &[
    (143_056, true, 1),
    (261_832, false, 1),
    (261_840, false, 4),
    (261_848, false, 3),
    (261_856, false, 1),
];
const BASE_8_1: &[(u32, bool, usize)] =
    &[(143_048, false, 1), (261_840, false, 5), (261_848, false, 2), (261_856, false, 2)];
const BASE_8_4: &[(u32, bool, usize)] =
    &[(159_392, false, 1), (261_840, false, 4), (261_848, false, 2), (261_856, false, 3)];

const HOLES_7_8: &[(u32, bool, usize)] = &[
    (142_776, true, 1),
    (261_520, false, 1),
    (261_736, false, 1),
    (261_784, false, 1),
    (261_840, false, 1),
    (261_856, false, 1),
    (261_864, false, 4),
];
const HOLES_7_9: &[(u32, bool, usize)] = &[
    (142_808, true, 1),
    (261_688, false, 1),
    (261_752, false, 1),
    (261_808, false, 1),
    (261_840, false, 4),
    (261_848, false, 1),
    (261_856, false, 1),
];
const HOLES_8_1: &[(u32, bool, usize)] = &[
    (142_816, false, 1),
    (260_704, false, 1),
    (261_728, false, 1),
    (261_808, false, 2),
    (261_832, false, 1),
    (261_840, false, 3),
    (261_856, false, 1),
];
const HOLES_8_4: &[(u32, bool, usize)] = &[
    (158_080, false, 1),
    (260_480, false, 1),
    (261_640, false, 1),
    (261_720, false, 1),
    (261_752, false, 1),
    (261_816, false, 1),
    (261_840, false, 4),
];

/// All versions, oldest first.
pub const VERSIONS: [Version; 4] = [
    Version {
        name: "7.8",
        node: "12.22.1",
        area_bytes: 261_864,
        sweep_pages_max: usize::MAX,
        remembered_sets_stay: true,
        base: BASE_7_8,
        base_with_holes: HOLES_7_8,
        promotes_all_young: false,
    },
    Version {
        name: "7.9",
        node: "13.14.0",
        area_bytes: 261_856,
        sweep_pages_max: usize::MAX,
        remembered_sets_stay: true,
        base: BASE_7_9,
        base_with_holes: HOLES_7_9,
        promotes_all_young: false,
    },
    Version {
        name: "8.1",
        node: "14.0.0",
        area_bytes: 261_856,
        sweep_pages_max: 1,
        remembered_sets_stay: false,
        base: BASE_8_1,
        base_with_holes: HOLES_8_1,
        promotes_all_young: false,
    },
    Version {
        name: "8.4",
        node: "14.21.3",
        area_bytes: 261_856,
        sweep_pages_max: 1,
        remembered_sets_stay: false,
        base: BASE_8_4,
        base_with_holes: HOLES_8_4,
        promotes_all_young: true,
    },
];
