//! Arenas that were born and have allocated nothing: they cost their handle, and are arenas in
//! every other way.

use super::{is_empty, layout, small, space};
use crate::pool::shards::{Shards, set_home};
use crate::{Arena, ArenaStatistics, CommitLimit, Debug, Error, Growth, Options, Reclaim, Space};
use allocator_api2::alloc::Allocator;
use std::sync::Arc;

const GROWTHS: [Growth; 7] = [
    Growth::MICRO,
    Growth::SMALL,
    Growth::STANDARD,
    Growth::FAST,
    Growth::LARGE,
    Growth::new(&[1 << 20]),
    Growth::LEARNED,
];

#[test]
fn an_arena_that_allocates_nothing_has_nothing_whatever_its_growth() {
    let space = space();
    let count = if cfg!(miri) { 20 } else { 10_000 };
    let before = space.report().unwrap();
    let arenas: Vec<Arena> =
        (0..count).map(|nth| space.arena(GROWTHS[nth % GROWTHS.len()]).unwrap()).collect();
    let report = space.report_with(&arenas).unwrap();
    assert_eq!((report.arenas, report.committed_bytes, report.counts.chunks_taken), (count, 0, 0));
    assert_eq!(report.asked, ArenaStatistics::default());
    let each =
        size_of::<Arena>() as f64 + (report.table_bytes - before.table_bytes) as f64 / count as f64;
    assert!(each <= 64.0, "{each} bytes an arena");
    assert!(arenas.iter().all(|arena| arena.places().is_empty() && arena.check().is_ok()));
    drop(arenas);
    is_empty(&space);
}

#[test]
fn what_has_no_bytes_takes_none_and_what_has_begins_the_arena() {
    for growth in GROWTHS {
        let space = space();
        let mut arena = space.arena(growth).unwrap();
        arena.reset();
        let nothing = arena.allocate(layout(0, 256)).unwrap();
        assert!(nothing.addr().get().is_multiple_of(256) && space.committed_bytes() == 0);
        // SAFETY: a block of no bytes may be given back, and grows from none.
        let some = unsafe {
            arena.deallocate(nothing, layout(0, 256));
            (&&arena).grow(nothing, layout(0, 256), layout(24, 8)).unwrap()
        };
        assert!(space.contains(some.cast::<u8>().as_ptr()) && arena.statistics().used_bytes == 24);
        drop(arena);
        is_empty(&space);
    }
}

#[test]
fn the_first_block_lies_in_the_first_chunk_whatever_its_size() {
    let granule = small().granule_bytes;
    for bytes in [8, 1000, granule - 64, granule, 3 * granule, 100_000] {
        let space = space();
        let arena = space.arena(Growth::MICRO).unwrap();
        let block = arena.allocate(layout(bytes, 8)).unwrap();
        // SAFETY: the block has this size.
        unsafe { block.write_bytes(1, bytes) };
        assert_eq!(arena.statistics().chunks, 1, "{bytes} bytes");
        drop(arena);
        is_empty(&space);
    }
    let space = space();
    for align_log2 in 0..=if cfg!(miri) { 13 } else { 19 } {
        let arena = space.arena(Growth::SMALL).unwrap();
        assert!(
            arena
                .allocate(layout(24, 1 << align_log2))
                .unwrap()
                .addr()
                .get()
                .is_multiple_of(1 << align_log2)
        );
    }
    is_empty(&space);
}

#[test]
fn a_first_block_that_is_refused_leaves_the_arena_empty() {
    let granule = small().granule_bytes;
    let limit = Arc::new(CommitLimit::new(2 * granule));
    let space =
        Space::new(Options { limit: Some(limit.clone()), reclaim: Reclaim::AtTrim, ..small() })
            .unwrap();
    let arena = space.arena(Growth::SMALL).unwrap();
    for (bytes, align) in [(4 * granule, 8), (1 << 20, 8)] {
        let refused = arena.allocate(layout(bytes, align));
        assert!(matches!(refused, Err(Error::LimitReached { .. })), "{refused:?}");
        assert_eq!(
            (arena.statistics(), space.committed_bytes() - space.idle_bytes()),
            (ArenaStatistics::default(), 0)
        );
    }
    limit.set_limit_bytes(usize::MAX);
    arena.allocate(layout(1 << 20, 8)).unwrap();
    drop(arena);
    is_empty(&space);
}

#[test]
fn an_arena_may_begin_on_another_thread_and_outlive_its_space() {
    let roots = if cfg!(miri) { 4 } else { 64 };
    let options = Options { reserve_bytes: roots * small().root_bytes, ..small() };
    let space = Space::with_shards(options, |shape| Shards::new(shape, 3)).unwrap();
    let alive = Arc::downgrade(&space.0);
    set_home(0);
    let arenas: Vec<Arena> =
        (0..12).map(|nth| space.arena(GROWTHS[nth % GROWTHS.len()]).unwrap()).collect();
    drop(space);
    std::thread::scope(|scope| {
        for (nth, arena) in arenas.into_iter().enumerate() {
            scope.spawn(move || {
                set_home(nth);
                // Some never allocate.
                if nth % 3 > 0 {
                    assert_eq!(*arena.alloc(nth).unwrap(), nth);
                }
                assert_eq!(arena.space().options().root_bytes, small().root_bytes);
            });
        }
    });
    assert!(alive.upgrade().is_none(), "a space without handles and arenas is gone");
}

#[test]
fn debugging_aids_know_arenas_that_have_nothing() {
    for debug in [
        Debug { canaries: true, poison: true, ..Debug::default() },
        Debug { guard_pages: cfg!(not(miri)), canaries: true, ..Debug::default() },
    ] {
        let space = Space::new(Options { debug, reclaim: Reclaim::AtTrim, ..small() }).unwrap();
        let mut arenas: Vec<Arena> = (0..7).map(|nth| space.arena(GROWTHS[nth]).unwrap()).collect();
        assert_eq!((space.committed_bytes(), space.arenas()), (0, 7));
        arenas.iter_mut().for_each(Arena::reset);
        arenas[0].alloc(1u64).unwrap();
        arenas[0].reset();
        arenas[0].alloc(1u64).unwrap();
        drop(arenas);
        is_empty(&space);
    }
}
