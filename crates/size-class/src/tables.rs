//! The tables.

use crate::strategy::{Segment, Spacing, Strategy};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// glibc malloc, 64 bits (malloc.c: `request2size`, `sysmalloc_mmap`). A chunk is a multiple of 16
/// bytes and at least 32. Eight of them are the size field; the block may use the next chunk's
/// field. From the mmap threshold on, each chunk is a mapping: pages, less two words. The threshold
/// is 128 KiB at first and rises to the size of a freed mapped chunk, up to 32 MiB. The table gives
/// the minimum, so the first rule holds up to there; a measured size wins.
pub static GLIBC: Strategy = Strategy {
    segments: &[
        Segment { largest_request: 24, spacing: Spacing::Listed(&[24]) },
        Segment {
            largest_request: 32 * MIB - 24,
            spacing: Spacing::Every { step: 16, before: 8, lost: 8 },
        },
        Segment {
            largest_request: u64::MAX,
            spacing: Spacing::Every { step: 4 * KIB, before: 24, lost: 16 },
        },
    ],
    header_bytes: 8,
    natural_align: 16,
    page_aligned_least: 0,
};

/// jemalloc 5.3.1 (sc.c, sz.h: `sz_s2u`): a quantum of 16, then four classes in each doubling;
/// beyond 32 KiB whole pages, because 5.3.1 switched the large classes off
/// (`disable_large_size_classes`).
pub static JEMALLOC_5_3_1: Strategy = Strategy {
    segments: &[
        Segment { largest_request: 8, spacing: Spacing::Listed(&[8]) },
        Segment { largest_request: 128, spacing: Spacing::Every { step: 16, before: 0, lost: 0 } },
        Segment { largest_request: 32 * KIB, spacing: Spacing::PerDoubling(4) },
        Segment {
            largest_request: u64::MAX,
            spacing: Spacing::Every { step: 4 * KIB, before: 0, lost: 0 },
        },
    ],
    header_bytes: 0,
    natural_align: 8,
    page_aligned_least: 16 * KIB,
};

/// jemalloc 5.3.0 (sc.c), the version of distributions: four classes in each doubling, small and
/// large alike.
pub static JEMALLOC_5_3_0: Strategy = Strategy {
    segments: &[
        Segment { largest_request: 8, spacing: Spacing::Listed(&[8]) },
        Segment { largest_request: 128, spacing: Spacing::Every { step: 16, before: 0, lost: 0 } },
        Segment { largest_request: u64::MAX, spacing: Spacing::PerDoubling(4) },
    ],
    header_bytes: 0,
    natural_align: 8,
    page_aligned_least: 16 * KIB,
};

/// mimalloc 3.3 (page-queue.c: `mi_bin`, os.c: `_mi_os_good_alloc_size`): two words apart to 64
/// bytes, then four classes in each doubling to 512 KiB; a larger block is a page of its own, in
/// growing steps.
pub static MIMALLOC_3_3: Strategy = Strategy {
    segments: &[
        Segment { largest_request: 8, spacing: Spacing::Listed(&[8]) },
        Segment { largest_request: 64, spacing: Spacing::Every { step: 16, before: 0, lost: 0 } },
        Segment { largest_request: 512 * KIB, spacing: Spacing::PerDoubling(4) },
        Segment {
            largest_request: 2 * MIB,
            spacing: Spacing::Every { step: 64 * KIB, before: 0, lost: 0 },
        },
        Segment {
            largest_request: 8 * MIB,
            spacing: Spacing::Every { step: 256 * KIB, before: 0, lost: 0 },
        },
        Segment {
            largest_request: 32 * MIB,
            spacing: Spacing::Every { step: MIB, before: 0, lost: 0 },
        },
        Segment {
            largest_request: u64::MAX,
            spacing: Spacing::Every { step: 4 * MIB, before: 0, lost: 0 },
        },
    ],
    header_bytes: 0,
    natural_align: 16,
    page_aligned_least: 0,
};

/// mimalloc 2.0 (page-queue.c: `mi_bin`), the version of Debian 12: as 3.3 to 128 KiB; then whole
/// slices of 64 KiB and, beyond 512 KiB, runs of 512 KiB. From 8 MiB on a block has its own
/// segment. `mi_good_size` gives less (whole system pages); the table follows `malloc_usable_size`.
pub static MIMALLOC_2_0: Strategy = Strategy {
    segments: &[
        Segment { largest_request: 8, spacing: Spacing::Listed(&[8]) },
        Segment { largest_request: 64, spacing: Spacing::Every { step: 16, before: 0, lost: 0 } },
        Segment { largest_request: 128 * KIB, spacing: Spacing::PerDoubling(4) },
        Segment {
            largest_request: 512 * KIB,
            spacing: Spacing::Every { step: 64 * KIB, before: 0, lost: 0 },
        },
        Segment {
            largest_request: 8 * MIB,
            spacing: Spacing::Every { step: 512 * KIB, before: 0, lost: 0 },
        },
        Segment {
            largest_request: 32 * MIB,
            spacing: Spacing::Every { step: MIB, before: 0, lost: 0 },
        },
        Segment {
            largest_request: u64::MAX,
            spacing: Spacing::Every { step: 4 * MIB, before: 0, lost: 0 },
        },
    ],
    header_bytes: 0,
    natural_align: 16,
    page_aligned_least: 0,
};

/// The jemalloc of Firefox, from the table in "Clownshoes available in sizes 2^10+1 and up!"
/// (2011): tiny 2, 4, 8; quantum-spaced to 512; sub-page 1 and 2 kB; large in steps of 4 kB to 1020
/// kB; huge in whole MB. The document's counts agree with the table everywhere. It names no
/// alignment rule; sizes are rounded up to the alignment here.
pub static FIREFOX_2011: Strategy = Strategy {
    segments: &[
        Segment { largest_request: 8, spacing: Spacing::Listed(&[2, 4, 8]) },
        Segment { largest_request: 512, spacing: Spacing::Every { step: 16, before: 0, lost: 0 } },
        Segment { largest_request: 2 * KIB, spacing: Spacing::Listed(&[KIB, 2 * KIB]) },
        Segment {
            largest_request: 1020 * KIB,
            spacing: Spacing::Every { step: 4 * KIB, before: 0, lost: 0 },
        },
        Segment {
            largest_request: u64::MAX,
            spacing: Spacing::Every { step: MIB, before: 0, lost: 0 },
        },
    ],
    header_bytes: 0,
    natural_align: 2,
    page_aligned_least: 0,
};

/// Mac OS X 10.8, 64 bits (Apple's Libc-825.40.1, gen/magazine_malloc.c: `szone_good_size`): "tiny"
/// blocks in steps of 16 bytes to 63 steps, "small" blocks in steps of 512 bytes to 127 KiB
/// (machines with 1 GiB of memory or more), then whole pages of 4 KiB. The document's waste of 11 %
/// on the Mac follows from the steps of 512 bytes. The table was never compared with a running Mac;
/// it names no alignment rule, so sizes are rounded up to the alignment.
pub static MACOS_10_8: Strategy = Strategy {
    segments: &[
        Segment { largest_request: 16, spacing: Spacing::Listed(&[16]) },
        Segment { largest_request: 1008, spacing: Spacing::Every { step: 16, before: 0, lost: 0 } },
        Segment {
            largest_request: 127 * KIB,
            spacing: Spacing::Every { step: 512, before: 0, lost: 0 },
        },
        Segment {
            largest_request: u64::MAX,
            spacing: Spacing::Every { step: 4 * KIB, before: 0, lost: 0 },
        },
    ],
    header_bytes: 0,
    natural_align: 16,
    page_aligned_least: 0,
};
