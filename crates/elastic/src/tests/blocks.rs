//! Blocks within one arena: alignment, enlarging, leftovers, reuse, resets, large ones.

use super::{is_empty, layout, reset, small, space};
use crate::operations::are_all;
use crate::{Arena, Error, Growth, Options, Reclaim, Space};
use allocator_api2::alloc::Allocator;
use heaplab_buddy::marks::{self, passed};
use std::alloc::Layout;
use std::ptr::NonNull;

fn fill(block: NonNull<u8>, bytes: usize, byte: u8) {
    // SAFETY: tests fill live blocks of this size.
    unsafe { block.write_bytes(byte, bytes) };
}

fn holds(block: NonNull<u8>, bytes: usize, byte: u8) {
    // Miri takes a microsecond a byte.
    let bytes = if cfg!(miri) { bytes.min(64) } else { bytes };
    // SAFETY: tests look at live blocks of this size, which were filled.
    let found = unsafe { std::slice::from_raw_parts(block.as_ptr(), bytes) };
    assert!(are_all(found, byte));
}

fn many(arena: &Arena, count: usize, layout: Layout) {
    for _ in 0..count {
        arena.allocate(layout).unwrap();
    }
}

#[test]
fn the_neighbouring_lines_are_taken_while_they_are_free_and_refused_when_they_are_not() {
    let space = space();
    let one = reset(&space, Growth::new(&[256]));
    marks::expect("a chunk is lengthened in place", || {
        many(&one, 20, layout(64, 8));
    });
    assert_eq!(one.statistics().chunks, 1, "nobody else is there");
    let two = reset(&space, Growth::new(&[256]));
    two.allocate(layout(64, 8)).unwrap();
    for _ in 0..12 {
        one.allocate(layout(64, 8)).unwrap();
    }
    assert_eq!(
        (one.statistics().chunks, two.statistics().chunks),
        (2, 1),
        "the second arena lies below the first one"
    );
    drop((one, two));
    is_empty(&space);
}

#[test]
fn a_large_chunk_says_where_the_two_beyond_the_next_one_end() {
    let space = space();
    let granule = small().granule_bytes;
    let arena = reset(&space, Growth::new(&[granule / 4, 2 * granule]));
    // Another arena's lines below keep the first chunk from being lengthened.
    let _below = reset(&space, Growth::new(&[granule / 4]));
    many(&arena, 7, layout(granule, 8));
    let (mut tops, mut top) = (Vec::new(), arena.head().current.get());
    while top != 0 {
        tops.push(top);
        top = arena.chunk(top).other;
    }
    assert!(tops.len() >= 5, "{tops:?}");
    for (nth, top) in tops.iter().enumerate() {
        let chunk = arena.chunk(*top);
        // A small chunk's link has no room for that, and a chunk behind one knows what that one is
        // linked to.
        let beyond = |distance: usize| tops.get(nth + distance).copied().unwrap_or(0);
        let expected = if chunk.large.is_some() { [beyond(2), beyond(3)] } else { [0, 0] };
        assert_eq!(chunk.older, expected, "chunk {nth} of {tops:?}");
    }
}

#[test]
fn alignments_up_to_a_root_and_blocks_of_no_bytes() {
    let space = space();
    let arena = space.arena(Growth::STANDARD).unwrap();
    for align_log2 in 0..=if cfg!(miri) { 13 } else { 19 } {
        for size in [0, 1, 24, 5000] {
            let block = arena.allocate(layout(size, 1 << align_log2)).unwrap();
            assert!(block.addr().get().is_multiple_of(1 << align_log2));
            fill(block, size, 1);
            // SAFETY: a block of no bytes may be given back any number of times.
            unsafe {
                if size == 0 {
                    arena.deallocate(block, layout(0, 1))
                }
            };
        }
    }
}

#[test]
fn sizes_that_cannot_be_are_refused_and_change_nothing() {
    let space = space();
    let arena = space.arena(Growth::STANDARD).unwrap();
    arena.allocate(layout(100, 8)).unwrap();
    let before = arena.statistics();
    let most = isize::MAX as usize;
    for (size, align) in [
        (most, 1),
        (most - 7, 8),
        (1 << 62, 1 << 62),
        (8, 1 << 62),
        (0, 1 << 62),
        (space.options().reserve_bytes, 8),
    ] {
        let refused = arena.allocate(layout(size, align));
        assert!(
            matches!(refused, Err(Error::Layout { .. }) | Err(Error::AddressSpace { .. })),
            "{size} {align}: {refused:?}"
        );
    }
    assert_eq!(arena.statistics(), before);
}

#[test]
fn a_block_larger_than_a_root_gets_neighbouring_roots() {
    let root = small().root_bytes;
    let space =
        Space::new(Options { reserve_bytes: 4 * root, reclaim: Reclaim::AtTrim, ..small() })
            .unwrap();
    let arena = space.arena(Growth::STANDARD).unwrap();
    let bytes = root + root / 2;
    let block = marks::expect("a block larger than a root chunk", || {
        arena.allocate(layout(bytes, 8)).unwrap()
    });
    fill(block, bytes, 3);
    let exhausted = marks::expect("address space exhausted", || {
        let roots: Vec<_> =
            std::iter::from_fn(|| arena.allocate(layout(root / 2, 8)).ok()).collect();
        assert!(roots.len() < 8);
        arena.allocate(layout(root / 2, 8))
    });
    assert!(matches!(exhausted, Err(Error::AddressSpace { .. })), "{exhausted:?}");
    drop(arena);
    is_empty(&space);
    let arena = space.arena(Growth::STANDARD).unwrap();
    arena.allocate(layout(bytes, 8)).expect("the roots are whole again");
}

#[test]
fn a_large_block_does_not_retire_a_small_chunk() {
    let space = space();
    let granule = space.options().granule_bytes;
    let arena = space.arena(Growth::new(&[granule])).unwrap();
    arena.allocate(layout(64, 8)).unwrap();
    marks::expect("a new chunk has less room than the current one", || {
        arena.allocate(layout(2 * granule - 24, 8)).unwrap()
    });
    let chunks = arena.statistics().chunks;
    arena.allocate(layout(64, 8)).unwrap();
    assert_eq!(arena.statistics().chunks, chunks, "the small chunk goes on");
}

#[test]
fn a_large_block_that_is_given_back_goes_back_to_the_system_while_its_arena_lives() {
    let granule = small().granule_bytes;
    let sizes = [512 << 10, 600_000, small().root_bytes, 2 * small().root_bytes + 8];
    for reclaim in [Reclaim::AtTrim, Reclaim::AtReturn { keep_bytes: 0 }] {
        let space = Space::new(Options { reclaim, ..small() }).unwrap();
        let arena = space.arena(Growth::STANDARD).unwrap();
        let kept = arena.allocate(layout(100, 8)).unwrap();
        fill(kept, 100, 1);
        let before = (arena.statistics(), space.committed_bytes());
        for bytes in if cfg!(miri) { &sizes[..1] } else { &sizes[..] } {
            let blocks = [8, 64, 1 << 15]
                .map(|align| (arena.allocate(layout(*bytes, align)).unwrap(), align));
            for (block, _) in &blocks {
                fill(*block, *bytes, 2);
            }
            assert_eq!(arena.statistics().chunks, before.0.chunks + 3);
            for nth in [1, 0, 2] {
                let (block, align) = blocks[nth];
                // SAFETY: each is live and given back once.
                marks::expect("a large block goes back with its chunk", || unsafe {
                    arena.deallocate(block, layout(*bytes, align))
                });
            }
            assert_eq!(arena.statistics(), before.0);
            if reclaim == Reclaim::AtTrim {
                assert!(space.idle_bytes() >= 3 * bytes && space.trim().unwrap() >= 3 * bytes);
            }
            assert_eq!(space.committed_bytes(), before.1);
            if cfg!(not(miri)) {
                assert!(space.report().unwrap().resident_bytes <= before.1 + granule);
            }
        }
        space.check_deep().unwrap();
        drop(arena);
        is_empty(&space);
    }
}

#[test]
fn phases_of_other_sizes_use_the_same_memory() {
    let (phase_bytes, rounds) = (if cfg!(miri) { 4 << 10 } else { 256 << 10 }, 3);
    let space = space();
    let arena = space.arena(Growth::STANDARD).unwrap();
    let phase = |bytes: usize, order: usize| {
        let layout = layout(bytes, 8);
        let mut blocks: Vec<_> =
            (0..phase_bytes / bytes).map(|_| arena.allocate(layout).unwrap()).collect();
        match order % 3 {
            0 => {}
            1 => blocks.reverse(),
            // Every other one first.
            _ => {
                let (even, odd): (Vec<_>, Vec<_>) =
                    blocks.into_iter().enumerate().partition(|(nth, _)| nth % 2 == 0);
                blocks = even.into_iter().chain(odd).map(|(_, block)| block).collect();
            }
        }
        // SAFETY: each lives and is given back once.
        blocks.into_iter().for_each(|block| unsafe { arena.deallocate(block, layout) });
    };
    marks::expect("free neighbours become one", || {
        for round in 0..rounds {
            for (nth, bytes) in [24, 40, 64, 104, 160, 256, 400, 704, 1000].iter().enumerate() {
                phase(*bytes, nth + round);
            }
        }
    });
    let statistics = arena.statistics();
    assert!(statistics.committed_bytes <= phase_bytes * 5 / 4 + (16 << 10), "{statistics:?}");
    drop(arena);
    is_empty(&space);
}

#[test]
fn random_sizes_given_back_at_random_take_little_more_than_what_lives() {
    let space = space();
    let arena = space.arena(Growth::STANDARD).unwrap();
    let (steps, alive) = if cfg!(miri) { (400, 40) } else { (200_000, 1000) };
    let (mut blocks, mut random, mut live_bytes, mut peak_bytes) = (Vec::new(), 1u64, 0, 0);
    let mut below = |end: usize| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize % end
    };
    for _ in 0..steps {
        if blocks.len() < alive {
            let bytes = 16 + 8 * below(60);
            blocks.push((arena.allocate(layout(bytes, 8)).unwrap(), bytes));
            live_bytes += bytes;
            peak_bytes = peak_bytes.max(live_bytes);
        } else {
            let (block, bytes) = blocks.swap_remove(below(alive));
            live_bytes -= bytes;
            // SAFETY: it lives and is given back once.
            unsafe { arena.deallocate(block, layout(bytes, 8)) };
        }
    }
    let statistics = arena.statistics();
    assert!(
        statistics.committed_bytes <= peak_bytes * 3 / 2 + (16 << 10),
        "{peak_bytes} at the peak: {statistics:?}"
    );
    drop(arena);
    is_empty(&space);
}

#[test]
fn large_blocks_go_back_in_any_order_with_others_between() {
    let count = if cfg!(miri) { 3 } else { 20 };
    let (space, bytes) = (space(), 512 << 10);
    let arena = space.arena(Growth::STANDARD).unwrap();
    let other = space.arena(Growth::STANDARD).unwrap();
    // Whether they come in order or not, the list has chunks of all kinds between them.
    for stride in if cfg!(miri) { vec![2] } else { vec![1, count - 1, 7] } {
        let before = space.committed_bytes() - space.idle_bytes();
        let mut beside = Vec::new();
        let blocks: Vec<_> = (0..count)
            .map(|nth| {
                let block = arena.allocate(layout(bytes + nth, 8 << (nth % 3))).unwrap();
                fill(block, bytes + nth, nth as u8);
                let small = arena.allocate(layout(3000, 8)).unwrap();
                fill(small, 3000, nth as u8);
                beside.push(small);
                other.allocate(layout(5000, 8)).unwrap();
                block
            })
            .collect();
        let mut nth = 0;
        for _ in 0..count {
            holds(blocks[nth], bytes + nth, nth as u8);
            marks::expect("a large block goes back with its chunk", || {
                // SAFETY: each is live and given back once, because the stride and the count have
                // no divisor in common.
                unsafe { arena.deallocate(blocks[nth], layout(bytes + nth, 8 << (nth % 3))) };
            });
            space.check_deep().unwrap();
            nth = (nth + stride) % count;
        }
        for (nth, small) in beside.into_iter().enumerate() {
            holds(small, 3000, nth as u8);
        }
        let after = space.committed_bytes() - space.idle_bytes();
        assert!(after - before < bytes, "no large block's chunk is left: {before}, {after}");
    }
    drop((arena, other));
    is_empty(&space);
}

#[test]
fn a_large_block_that_shrank_or_lies_in_a_chunk_kept_by_a_reset_stays_with_its_arena() {
    let space = space();
    let mut arena = space.arena(Growth::STANDARD).unwrap();
    let bytes = 512 << 10;
    let block = arena.allocate(layout(3 * bytes / 2, 8)).unwrap();
    fill(block, 3 * bytes / 2, 5);
    let chunks = arena.statistics().chunks;
    marks::expect("a large block that has its chunk alone shrinks", || {
        // SAFETY: it lives with this layout.
        let same =
            unsafe { (&&arena).shrink(block, layout(3 * bytes / 2, 8), layout(bytes, 8)).unwrap() };
        assert_eq!(same.cast(), block);
    });
    let cut = arena.allocate(layout(bytes / 2, 8)).unwrap();
    assert_eq!(cut.addr().get(), block.addr().get() + bytes, "what was cut off serves again");
    // SAFETY: it lives with this layout.
    unsafe { arena.deallocate(block, layout(bytes, 8)) };
    fill(cut, bytes / 2, 6);
    assert_eq!(arena.statistics().chunks, chunks);
    assert_eq!(arena.allocate(layout(bytes, 8)).unwrap(), block);
    arena.reset();
    let again = arena.allocate(layout(bytes, 8)).unwrap();
    let beside = arena.allocate(layout(5000, 8)).unwrap();
    fill(beside, 5000, 7);
    // SAFETY: as above.
    unsafe { arena.deallocate(again, layout(bytes, 8)) };
    fill(beside, 5000, 8);
    drop(arena);
    is_empty(&space);
}

#[test]
fn a_large_blocks_chunk_serves_many_after_a_reset_and_leaves_no_trace_when_it_went_back() {
    let (space, granule) = (space(), small().granule_bytes);
    let mut arena = space.arena(Growth::STANDARD).unwrap();
    arena.allocate(layout(512 << 10, 8)).unwrap();
    arena.reset();
    let owned = arena.statistics().owned_bytes;
    many(&arena, (256 << 10) / (granule + 8), layout(granule + 8, 8));
    assert_eq!(
        arena.statistics().owned_bytes,
        owned,
        "the chunk that was one block's serves others"
    );
    let [plain, after] = [0, 50].map(|large| {
        let arena = space.arena(Growth::STANDARD).unwrap();
        for _ in 0..if cfg!(miri) { large.min(1) } else { large } {
            let block = arena.allocate(layout(512 << 10, 8)).unwrap();
            // SAFETY: it lives.
            unsafe { arena.deallocate(block, layout(512 << 10, 8)) };
        }
        for nth in 0..500 {
            arena.allocate(layout(8 + nth % 90, 8)).unwrap();
        }
        arena
    });
    let most = plain.statistics().owned_bytes + 2 * granule;
    assert!(
        after.statistics().owned_bytes <= most,
        "it grows as if it had never had them: {after:?}, {plain:?}"
    );
}

#[test]
fn leftovers_of_retired_chunks_are_used() {
    let space = space();
    let arena = reset(&space, Growth::new(&[1024]));
    let neighbour = reset(&space, Growth::new(&[1024]));
    arena.allocate(layout(512, 8)).unwrap();
    arena.allocate(layout(900, 8)).unwrap();
    let free = arena.statistics();
    assert_eq!(free.deallocated_blocks, 1, "the smaller rest of both chunks: {free:?}");
    marks::expect("a leftover of a retired chunk is used", || {
        many(&arena, 20, layout(80, 8));
    });
    drop((arena, neighbour));
    is_empty(&space);
}

#[test]
fn blocks_given_back_are_used_before_anything_else_and_then_the_fast_path_opens_again() {
    let space = space();
    let arena = space.arena(Growth::LARGE).unwrap();
    let blocks: Vec<_> = (0..20).map(|_| arena.allocate(layout(96, 8)).unwrap()).collect();
    // SAFETY: each is live and given back once.
    marks::expect("a block was given back: the fast path closes", || unsafe {
        arena.deallocate(blocks[3], layout(96, 8))
    });
    let reused = marks::expect("no free block is left: the fast path opens again", || {
        arena.allocate(layout(96, 8)).unwrap()
    });
    assert_eq!(reused, blocks[3]);
    marks::expect("a list of free blocks becomes bins", || {
        for block in blocks.iter().skip(4).take(12) {
            // SAFETY: as above.
            unsafe { arena.deallocate(*block, layout(96, 8)) };
        }
    });
    let again: Vec<_> = (0..12).map(|_| arena.allocate(layout(96, 8)).unwrap()).collect();
    let inside = again.iter().filter(|block| blocks.contains(block)).count();
    assert!(inside >= 6, "{inside} of 12 are used again; the bins took some");
    // SAFETY: as above.
    marks::expect("a block too small to be kept was given back", || unsafe {
        let small = arena.allocate(layout(8, 8)).unwrap();
        arena.allocate(layout(8, 8)).unwrap();
        arena.deallocate(small, layout(8, 8));
    });
}

#[test]
fn free_blocks_that_wait_for_bins_are_not_lost() {
    let space = space();
    let arena = space.arena(Growth::new(&[space.options().granule_bytes])).unwrap();
    let large = arena.allocate(layout(600, 8)).unwrap();
    let mut blocks = Vec::new();
    while arena.statistics().free_bytes >= 100 {
        blocks.push(arena.allocate(layout(24, 8)).unwrap());
    }
    for block in blocks.iter().step_by(2).take(20) {
        // SAFETY: it lives.
        unsafe { arena.deallocate(*block, layout(24, 8)) };
    }
    assert_eq!(arena.statistics().deallocated_blocks, 20, "the window has no room for bins");
    // SAFETY: as above.
    marks::expect("a list of free blocks becomes bins", || unsafe {
        arena.deallocate(large, layout(600, 8))
    });
    assert_eq!(
        arena.statistics().deallocated_blocks,
        21,
        "all of them, and what the bins left of the large block"
    );
}

#[test]
fn the_last_block_goes_back_to_the_window() {
    let space = space();
    let arena = space.arena(Growth::STANDARD).unwrap();
    let one = arena.allocate(layout(40, 8)).unwrap();
    let closed = passed("a block was given back: the fast path closes");
    // SAFETY: it lives.
    unsafe { arena.deallocate(one, layout(40, 8)) };
    assert_eq!(arena.allocate(layout(40, 8)).unwrap(), one);
    assert_eq!(passed("a block was given back: the fast path closes"), closed);
}

#[test]
fn a_reset_keeps_the_chunks_and_uses_them_in_the_same_order() {
    let space = space();
    let mut arena = reset(&space, Growth::new(&[512, 2048, 16384]));
    let neighbour = reset(&space, Growth::MICRO);
    let mut rounds = Vec::new();
    for _ in 0..3 {
        rounds.push(
            (0..300)
                .map(|nth| arena.allocate(layout(8 + nth % 90, 8)).unwrap().addr())
                .collect::<Vec<_>>(),
        );
        let owned = arena.statistics().owned_bytes;
        arena.reset();
        let after = arena.statistics();
        assert_eq!((after.owned_bytes, after.used_bytes, after.deallocated_blocks), (owned, 0, 0));
    }
    assert_eq!(rounds[1], rounds[2]);
    marks::expect("a chunk kept by a reset is used", || {
        many(&arena, 300, layout(64, 8));
    });
    drop((arena, neighbour));
    is_empty(&space);
}

#[test]
fn collections_live_in_an_arena() {
    let space = space();
    let arena = space.arena(Growth::SMALL).unwrap();
    let mut numbers = allocator_api2::vec::Vec::new_in(&arena);
    let mut others = allocator_api2::vec::Vec::new_in(&arena);
    for number in 0..3000u32 {
        numbers.push(number);
        if number % 3 == 0 {
            others.push(u64::from(number));
        }
    }
    numbers.truncate(10);
    numbers.shrink_to_fit();
    assert!(numbers.iter().copied().eq(0..10) && others.iter().copied().eq((0..3000).step_by(3)));
    let boxed = allocator_api2::boxed::Box::new_in([7u8; 100], &arena);
    drop(numbers);
    assert_eq!(boxed[99], 7);
    let zeroed = (&&arena).allocate_zeroed(layout(300, 8)).unwrap();
    // SAFETY: the block is live and was zeroed.
    assert!(unsafe { zeroed.as_ref() }.iter().all(|byte| *byte == 0));
    // SAFETY: it grows once, from its layout.
    let grown =
        unsafe { (&&arena).grow_zeroed(zeroed.cast(), layout(300, 8), layout(900, 8)).unwrap() };
    // SAFETY: as above.
    assert!(unsafe { grown.as_ref() }.iter().all(|byte| *byte == 0));
}

#[test]
fn memory_goes_back_page_by_page_and_splits_no_mapping() {
    let space =
        Space::new(Options { reclaim: Reclaim::AtReturn { keep_bytes: 0 }, ..small() }).unwrap();
    let granule = space.options().granule_bytes;
    let mut arenas: Vec<_> =
        (0..200).map(|_| Some(reset(&space, Growth::new(&[granule])))).collect();
    assert_eq!(space.committed_bytes(), 200 * granule);
    for arena in arenas.iter_mut().step_by(2) {
        *arena = None;
    }
    assert_eq!(space.committed_bytes(), 100 * granule, "every other page is gone");
    if cfg!(not(miri)) {
        let report = space.report().unwrap();
        assert!(report.mappings <= 4, "{report}");
        assert!(report.resident_bytes <= 100 * granule, "{report}");
    }
    marks::expect("a region went back to the buddy tree", || drop(arenas));
    is_empty(&space);
}

#[test]
fn an_arena_dies_on_another_thread_and_after_its_space() {
    let space = space();
    let arena = space.arena(Growth::STANDARD).unwrap();
    arena.alloc_str("sent").unwrap();
    let handle = arena.space();
    drop(space);
    std::thread::spawn(move || drop(arena)).join().unwrap();
    is_empty(&handle);
}

#[test]
#[cfg(not(miri))]
fn an_arena_that_is_reset_for_ever_larger_blocks_does_not_keep_them_all() {
    let (granule, root) = (small().granule_bytes, small().root_bytes);
    let space = Space::new(small()).unwrap();
    let mut arena = space.arena(Growth::STANDARD).unwrap();
    let rounds = 3 * root / granule;
    let grow = |arena: &mut Arena| {
        for round in 1..=rounds {
            arena.reset();
            let block = arena.allocate(layout(round * granule, 8)).unwrap();
            // SAFETY: the block is this long.
            unsafe { block.write_bytes(0x5a, round * granule) };
            let largest = (round * granule).max(granule);
            let statistics = arena.statistics();
            let committed = space.committed_bytes();
            assert!(
                statistics.committed_bytes <= 4 * largest + 16 * granule,
                "round {round}: {statistics:?}"
            );
            assert!(
                committed <= statistics.committed_bytes + granule + (256 << 10),
                "round {round}: {committed} and {statistics:?}"
            );
        }
    };
    marks::expect("a chunk kept by a reset is committed further", || {
        marks::expect("a spare run of roots goes back", || grow(&mut arena));
    });
    assert!(arena.statistics().owned_bytes <= 8 * root, "{:?}", arena.statistics());
    space.check_deep().unwrap();
    drop(arena);
    is_empty(&space);
}

#[test]
fn a_spare_chunk_behind_one_that_is_too_small_is_used() {
    let granule = small().granule_bytes;
    let space = space();
    let mut arena = reset(&space, Growth::new(&[512, 256]));
    // Other arenas' chunks keep the first one from being lengthened.
    let others: Vec<_> = (0..4).map(|_| reset(&space, Growth::new(&[512]))).collect();
    for bytes in [granule, 3 * granule] {
        arena.allocate(layout(bytes, 8)).unwrap();
    }
    let before = arena.statistics().owned_bytes;
    for _ in 0..3 {
        arena.reset();
        for bytes in [3 * granule, granule] {
            arena.allocate(layout(bytes, 8)).unwrap();
        }
        assert_eq!(arena.statistics().owned_bytes, before);
    }
    drop((arena, others));
    is_empty(&space);
}

/// Gives blocks of these sizes back, asks for the same sizes in this order, and expects exactly
/// these blocks.
fn all_come_back(given: &[usize], asked: impl Iterator<Item = usize>, misses: &[(usize, usize)]) {
    let space = space();
    let arena = space.arena(Growth::new(&[64 << 10])).unwrap();
    let mut blocks: Vec<(NonNull<u8>, usize)> = Vec::new();
    for bytes in given {
        blocks.push((arena.allocate(layout(*bytes, 8)).unwrap(), *bytes));
        // Between them, so that the next one is not the last block when it goes.
        arena.allocate(layout(8, 8)).unwrap();
    }
    for (block, bytes) in &blocks {
        // SAFETY: each lives and is given back once.
        unsafe { arena.deallocate(*block, layout(*bytes, 8)) };
    }
    for (bytes, align) in misses {
        let elsewhere = arena.allocate(layout(*bytes, *align)).unwrap();
        assert!(
            !blocks.iter().any(|(block, _)| *block == elsewhere),
            "{bytes} bytes at {align} are nowhere free"
        );
    }
    for bytes in asked {
        let again = arena.allocate(layout(bytes, 8)).unwrap();
        assert!(
            blocks.contains(&(again, bytes)),
            "a block of {bytes} bytes was given back, and another one is handed out"
        );
    }
    assert_eq!(arena.statistics().deallocated_blocks, 0);
    drop(arena);
    is_empty(&space);
}

#[test]
fn what_is_known_of_the_largest_free_block_hides_none() {
    let few = [32, 64, 2048, 16, 512];
    all_come_back(&few, few.into_iter().rev(), &[]);
    // Too large, and too much aligned: both searches fail, and say how large the largest is.
    all_come_back(
        &few,
        [2048, 512, 64, 32, 16].into_iter(),
        &[(4096, 8), (2048, 1 << 15), (2056, 8)],
    );
    let many: Vec<usize> = (1..40).map(|nth| nth * 24).collect();
    all_come_back(&many, many.iter().rev().copied(), &[(4096, 8)]);
}
