//! Claims that the table of size classes answers: the block that a request gets, without running
//! anything.

use heaplab_size_class::Allocator;
use heaplab_text::words::count;

const FIREFOX: Allocator = Allocator::Firefox2011;

/// The document's table, computed from our classes.
pub fn classes() -> String {
    const MIB: u64 = 1 << 20;
    let classes: Vec<u64> =
        FIREFOX.classes().map(|class| class.usable).take_while(|size| *size <= 3 * MIB).collect();
    let between = |low: u64, high: u64| {
        classes.iter().copied().filter(move |size| (low..=high).contains(size)).collect::<Vec<_>>()
    };
    let steps = |sizes: Vec<u64>| {
        format!(
            "{}, {} .. {} ({} classes)",
            sizes[0],
            sizes[1],
            sizes[sizes.len() - 1],
            sizes.len()
        )
    };
    format!(
        "tiny {:?}; quantum {}; sub-page {:?}; large {}; huge {}",
        between(1, 8),
        steps(between(16, 512)),
        between(513, 2_048),
        steps(between(4_096, MIB - 1)),
        steps(between(MIB, 3 * MIB)),
    )
}

/// The document's extreme case.
pub fn clownshoe_1025() -> String {
    count(FIREFOX.usable(1_025, 1))
}

/// A power of two of characters plus two bytes for the terminator.
pub fn string_concat() -> String {
    count(FIREFOX.usable((1 << 20) + 2, 1))
}

/// 24 chunks of 32 KB, each a word over.
pub fn necko_slop() -> String {
    const CHUNKS: u64 = 24;
    const CHUNK_BYTES: u64 = 32 * 1024;
    let wasted_bytes = CHUNKS * (FIREFOX.usable(CHUNK_BYTES + 8, 1) - CHUNK_BYTES);
    format!("{} KB", wasted_bytes / 1024)
}

/// An arena of a power of two plus its header: the share of the block that nobody requested, over
/// the document's arena sizes. The Mac's table is from published sources, not measured.
pub fn arena_with_header() -> String {
    const HEADER_BYTES: u64 = 32;
    let share = |allocator: Allocator, arena: u64| {
        let block = allocator.usable(arena + HEADER_BYTES, 1);
        100.0 * (block - arena) as f64 / block as f64
    };
    format!(
        "{:.0} % of 1,024 and {:.0} % of 4,096-byte arenas; {:.0} %",
        share(FIREFOX, 1_024),
        share(FIREFOX, 4_096),
        share(Allocator::Macos, 4_096)
    )
}
