//! Firefox's table against every number of the document "Clownshoes available in sizes 2^10+1 and
//! up!", and the tables against the sizes measured on SQLite (`counts_sqlite.csv` of the recording
//! data: request, then usable on each allocator). The Mac's table against Apple's published source.

use heaplab_size_class::Allocator;
use proptest::prelude::*;

#[test]
fn every_example_of_the_document() {
    let table = [
        (1_025, 2_048),
        (680, 1_024),
        (1_048_578, 2_097_152),
        (1_032, 2_048),
        (1_056, 2_048),
        (2_087, 4_096),
        (4_135, 8_192),
        // The counts table of Firefox with Gmail.
        (24, 32),
        (72, 80),
        (40, 48),
        (18, 32),
        (15, 16),
        (4_095, 4_096),
        (56, 64),
        (104, 112),
        (136, 144),
        // The Necko cache: an extra word on 32 KB and on 16 KB.
        (32 * 1024 + 8, 36 * 1024),
        (16 * 1024 + 8, 20 * 1024),
    ];
    for (request, usable) in table {
        assert_eq!(Allocator::Firefox2011.usable(request, 1), usable, "request {request}");
    }
}

#[test]
fn the_classes_of_the_document_as_printed() {
    let classes: Vec<u64> = Allocator::Firefox2011
        .classes()
        .map(|class| class.usable)
        .take_while(|size| *size <= 5 << 20)
        .collect();
    let quantum = (1..=32).map(|index| index * 16);
    let large = (1..=255).map(|index| index * 4096);
    let huge = (1..=5).map(|index| index << 20);
    let printed: Vec<u64> =
        [2, 4, 8].into_iter().chain(quantum).chain([1024, 2048]).chain(large).chain(huge).collect();
    assert_eq!(classes, printed);
}

#[test]
fn powers_of_two_cost_nothing() {
    // The document: "pick a size that's a power-of-two, because that always gives you zero slop".
    // This is true of its table and of jemalloc; mimalloc's large blocks and glibc's headers need a
    // table.
    for allocator in [Allocator::Jemalloc, Allocator::Jemalloc530, Allocator::Firefox2011] {
        for log2 in 3..40 {
            assert_eq!(allocator.usable(1 << log2, 1), 1 << log2, "{}", allocator.name());
        }
    }
}

#[test]
fn sqlite_as_it_was_measured() {
    // request, glibc's model, jemalloc 5.3, mimalloc 2.0.9, Firefox 2011
    let rows = [
        (16, 24, 16, 16, 16),
        (24, 24, 32, 32, 32),
        (136, 136, 160, 160, 144),
        (2_432, 2_440, 2_560, 2_560, 4_096),
        (624, 632, 640, 640, 1_024),
        (4_104, 4_104, 5_120, 5_120, 8_192),
        (1_032, 1_032, 1_280, 1_280, 2_048),
        (300, 312, 320, 320, 304),
        (1_072, 1_080, 1_280, 1_280, 2_048),
    ];
    for (request, glibc, jemalloc, mimalloc, firefox) in rows {
        assert_eq!(Allocator::Glibc.usable(request, 1), glibc);
        assert_eq!(Allocator::Jemalloc530.usable(request, 1), jemalloc);
        assert_eq!(Allocator::Mimalloc2.usable(request, 1), mimalloc);
        assert_eq!(Allocator::Firefox2011.usable(request, 1), firefox);
    }
    assert_eq!(Allocator::Jemalloc530.usable(1_048_584, 1), 1_310_720);
}

/// `szone_good_size` of Apple's Libc-825.40.1 (Mac OS X 10.8.5), gen/magazine_malloc.c, on 64 bits
/// with 1 GiB of memory or more: its constants (NUM_TINY_SLOTS 64, TINY_QUANTUM 16, SMALL_QUANTUM
/// 512, LARGE_THRESHOLD_LARGEMEM 127 KiB) and its three cases.
fn published_good_size(size: u64) -> u64 {
    let rounded = |quantum: u64| size.max(1).next_multiple_of(quantum);
    match size {
        ..=1_008 => rounded(16),
        1_009..=130_048 => rounded(512),
        _ => rounded(4_096),
    }
}

#[test]
fn the_macs_rounding_as_apple_published_it() {
    for size in (0..300_000).chain([(1 << 20) + 2, (1 << 30) + 1]) {
        assert_eq!(Allocator::Macos.usable(size, 1), published_good_size(size), "request {size}");
    }
    // The document: an arena of 4,096 bytes and its header wastes half on jemalloc, 11 % on a Mac.
    let waste = |allocator: Allocator| {
        let block = allocator.usable(4_096 + 32, 1);
        (100 * (block - 4_096) + block / 2) / block
    };
    assert_eq!((waste(Allocator::Macos), waste(Allocator::Firefox2011)), (11, 50));
    assert_eq!(Allocator::from_name("macos"), Some(Allocator::Macos));
    assert!(!Allocator::ALL.contains(&Allocator::Macos), "a report compares it only if asked");
}

/// Any table.
fn any_allocator() -> impl Strategy<Value = Allocator> {
    proptest::sample::select([&Allocator::ALL[..], &Allocator::NAMED].concat())
}

proptest! {
    #[test]
    fn a_class_holds_its_requests_and_no_others(size in prop_oneof![0..1u64 << 26, any::<u64>()], allocator in any_allocator()) {
        let class = allocator.class(size);
        prop_assert!(class.usable >= size.min(class.largest_request));
        prop_assert!(class.largest_request >= size);
        prop_assert_eq!(allocator.class(class.largest_request).usable, class.usable);
        if let Some(below) = class.below {
            prop_assert!(below < size);
            prop_assert!(allocator.usable(below, 1) < class.usable || class.usable == u64::MAX);
            prop_assert_eq!(allocator.usable(below + 1, 1), class.usable);
        }
    }

    #[test]
    fn alignment_never_gives_less(size in 0..1u64 << 26, align_log2 in 0..20u32, allocator in any_allocator()) {
        prop_assert!(allocator.usable(size, 1 << align_log2) >= allocator.usable(size, 1).min(size));
    }
}
