//! Constants of V8's heap on 64-bit machines without pointer compression, and the differences
//! between its versions.
//!
//! Sources: V8's `src/heap` (spaces.h, spaces.cc, sweeper.cc, scavenger.cc, mark-compact.cc,
//! local-allocator.h, heap.cc) at 7.8.279, 7.9.317, 8.1.307 and 8.4.371, and figures of the Node
//! binaries that contain these versions.

/// One word.
pub const WORD_BYTES: usize = 8;
/// `Page::kPageSize`: pages of all spaces, and their alignment (`kPageSizeBits` 18).
pub const PAGE_BYTES: usize = 1 << 18;
/// log2 of [`PAGE_BYTES`].
pub const PAGE_BITS: u32 = 18;
/// `kMaxRegularHeapObjectSize`: larger objects have a page of their own.
pub const REGULAR_MAX_BYTES: usize = 1 << 17;
/// `JSArray::kInitialMaxFastElementArray`: an array of this many elements or more is made by the
/// runtime, in two allocations.
pub const FOLDED_MAX_WORDS: usize = (REGULAR_MAX_BYTES - 16 - 32 - 16) / WORD_BYTES;
/// `JSArray::kSize`.
pub const ARRAY_BYTES: usize = 32;
/// `AllocationMemento::kSize`: lies behind an array in new space; a copy leaves it out.
pub const MEMENTO_BYTES: usize = 16;
/// `{}`: a `JSObject` with room for four properties.
pub const EMPTY_OBJECT_BYTES: usize = 56;
/// `FixedArray::kHeaderSize`.
pub const ELEMENTS_HEADER_BYTES: usize = 16;
/// `LocalAllocator::kLabSize`: bytes that the collector takes from new space at once.
pub const BUFFER_BYTES: usize = 32 << 10;
/// `LocalAllocator::kMaxLabObjectSize`: larger objects bypass the buffer.
pub const BUFFERED_MAX_BYTES: usize = 8 << 10;
/// `PagedSpace::kCompactionMemoryWanted`: a compaction space with more free bytes than this adopts
/// no further swept pages.
pub const ADOPTED_ENOUGH_BYTES: usize = 500 << 10;
/// Entries of a segment of the scavenger's worklists (`kCopiedListSegmentSize`,
/// `kRegularObjectPromotionListSegmentSize`).
pub const SEGMENT_ENTRIES: usize = 256;
/// From this many entries on in the promotion list's own segment, the scavenger takes that list
/// first.
pub const EAGER_PROMOTIONS: usize = SEGMENT_ENTRIES / 2;
/// `FLAG_page_promotion_threshold`: in a full collection a new-space page with a higher percentage
/// of live bytes moves as a whole.
pub const PAGE_PROMOTION_PERCENT: usize = 70;
/// Semi-space under `--predictable-gc-schedule`.
pub const SEMI_SPACE_BYTES: usize = 4 << 20;
/// The system's page; large objects' pages are rounded up to it (`GetCommitPageSize`).
pub const SYSTEM_PAGE_BYTES: usize = 4096;
/// `kMaxEvacuatedBytes` of regular compaction.
pub const EVACUATION_QUOTA_BYTES: usize = 4 << 20;
/// `kTargetFragmentationPercent` of regular compaction before its speed is known.
pub const EVACUATION_FREE_PERCENT: usize = 70;

/// The differences between versions of V8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its name in the parameter `version`.
    pub name: &'static str,
    /// The Node release that contains it; comparisons ran against this release.
    pub node: &'static str,
    /// Bytes of a page for objects; the header, at the page's start, takes the rest.
    pub area_bytes: usize,
    /// A refill that finds nothing sweeps pages until one gave enough, but at most this many. 7.8
    /// and 7.9 intend a limit of one, but never count (`pages_freed` in
    /// `Sweeper::ParallelSweepSpace`).
    pub sweep_pages_max: usize,
    /// A page keeps its remembered set until the page goes. Later versions free a set that a
    /// collection left empty, and put it aside while the page waits to be swept.
    pub remembered_sets_stay: bool,
    /// Pages that Node's own objects fill before a workload begins: live bytes, whether the page
    /// has a remembered set, and the number of such pages. They serve no allocation, but sorting
    /// and sweeping include them. The figures are those that the driver of the family `node`
    /// leaves.
    pub base: &'static [(u32, bool, usize)],
    /// The same under a strategy that keeps no block under 2 KB: holes remain.
    pub base_with_holes: &'static [(u32, bool, usize)],
    /// `Map::kSize`.
    pub map_bytes: usize,
    /// Pages that Node's own maps fill before a workload begins, as in `base`: live bytes and
    /// number. The first one comes from Node's snapshot and is cut short.
    pub base_maps: [(u32, usize); 2],
    /// A full collection promotes every young object (`FLAG_always_promote_young_mc`).
    pub promotes_all_young: bool,
}

impl Version {
    /// Bytes before a page's objects.
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
        map_bytes: 80,
        base_maps: [(3_760, 1), (261_840, 3)],
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
        map_bytes: 80,
        base_maps: [(3_760, 1), (261_840, 3)],
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
        map_bytes: 72,
        base_maps: [(3_744, 1), (261_792, 3)],
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
        map_bytes: 72,
        base_maps: [(3_744, 1), (261_792, 3)],
        promotes_all_young: true,
    },
];
