//! Commit limits, faults at every commit, refused uncommits.

use super::{begun, is_empty, layout, reset, small};
use crate::{Arena, Call, CommitLimit, Error, Faults, Growth, Options, Reclaim, Space};
use heaplab_buddy::marks;
use std::sync::Arc;

fn limited(bytes: usize) -> (Space, Arc<CommitLimit>) {
    let limit = Arc::new(CommitLimit::new(bytes));
    (
        Space::new(Options { limit: Some(limit.clone()), reclaim: Reclaim::AtTrim, ..small() })
            .unwrap(),
        limit,
    )
}

#[test]
fn a_limit_below_a_granule_refuses_the_first_arena_with_both_numbers() {
    let granule = Options::default().granule_bytes;
    let (space, limit) = limited(granule - 1);
    let refused = begun(&space, Growth::SMALL).expect_err("there is no room for a page");
    assert!(matches!(refused, Error::LimitReached { .. }), "{refused:?}");
    let said = refused.to_string();
    for part in [granule.to_string(), (granule - 1).to_string(), "raise its commit limit".into()] {
        assert!(said.contains(&part), "{said}");
    }
    assert_eq!((space.arenas(), space.committed_bytes()), (0, 0));
    limit.set_limit_bytes(granule);
    drop(begun(&space, Growth::SMALL).expect("the limit is a page now"));
    is_empty(&space);
}

#[test]
fn at_the_limit_arenas_are_refused_and_go_on_when_others_die() {
    let granule = Options::default().granule_bytes;
    let (space, _) = limited(10 * granule);
    let mut arenas = Vec::new();
    while let Ok(arena) = begun(&space, Growth::new(&[granule])) {
        arenas.push(arena);
    }
    assert_eq!(arenas.len(), 10);
    let refused = arenas[0].allocate(layout(granule - 8, 8));
    assert!(matches!(refused, Err(Error::LimitReached { .. })), "{refused:?}");
    arenas.pop();
    arenas[0].allocate(layout(granule - 80, 8)).expect("the dead arena's page serves this one");
    drop(arenas);
    is_empty(&space);
}

#[test]
fn what_would_be_committed_beyond_a_request_is_not_held_against_the_limit() {
    let granule = Options::default().granule_bytes;
    if granule > 4096 {
        // A granule is as much as is committed at least.
        return;
    }
    let (space, limit) = limited(2 * granule);
    let growth = Growth::new(&[16 * granule]);
    let arena = marks::expect(
        "a chunk committed as far as the request needs: the limit allows no more",
        || reset(&space, growth),
    );
    arena.allocate(layout(granule, 8)).expect("there is a granule left");
    assert_eq!(space.committed_bytes(), 2 * granule);
    assert!(matches!(arena.allocate(layout(granule, 8)), Err(Error::LimitReached { .. })));
    limit.set_limit_bytes(usize::MAX);
    arena.allocate(layout(granule, 8)).unwrap();
    assert_eq!(
        space.committed_bytes(),
        6 * granule,
        "kept until a trim, it is committed by four granules"
    );
    drop(arena);
    is_empty(&space);
}

#[test]
fn idle_memory_of_another_size_is_given_back_before_the_limit_refuses() {
    let granule = Options::default().granule_bytes;
    let (space, _) = limited(8 * granule);
    let large = space.arena(Growth::new(&[16 * granule])).unwrap();
    large.allocate(layout(6 * granule, 8)).unwrap();
    drop(large);
    assert!(space.idle_bytes() >= 6 * granule);
    let small: Vec<Arena> =
        marks::expect("at the commit limit or out of addresses: idle memory is given back", || {
            (0..8).map(|_| reset(&space, Growth::new(&[granule]))).collect()
        });
    assert_eq!((small.len(), space.idle_bytes()), (8, 0));
}

#[test]
fn idle_memory_of_another_size_is_given_back_before_the_address_space_is_exhausted() {
    let (root, granule) = (small().root_bytes, small().granule_bytes);
    for bytes in [root / 2, root - granule] {
        let space =
            Space::new(Options { reserve_bytes: 2 * root, reclaim: Reclaim::AtTrim, ..small() })
                .unwrap();
        // Its region is a quarter of a root.
        let arena = reset(&space, Growth::MICRO);
        drop((0..14).map(|_| reset(&space, Growth::new(&[root / 8]))).collect::<Vec<_>>());
        marks::expect("at the commit limit or out of addresses: idle memory is given back", || {
            arena.allocate(layout(bytes, 8)).expect("nobody has any of the other root")
        });
        drop(arena);
        is_empty(&space);
    }
}

#[test]
#[cfg(debug_assertions)]
#[cfg_attr(miri, ignore = "six roots do not fit into the space that Miri gives")]
fn a_run_of_roots_kept_by_a_reset_makes_way_only_where_the_block_does_not_fit_beside_it() {
    let root = small().root_bytes;
    let went = "spare runs of roots went back for a block that did not fit beside them";
    for (limit_roots, makes_way, served) in [(6, 0, true), (4, 1, true), (2, 1, false)] {
        let (space, limit) = limited(usize::MAX);
        let mut arena = reset(&space, Growth::MICRO);
        arena.allocate(layout(2 * root, 8)).unwrap();
        arena.reset();
        let before = arena.statistics();
        limit.set_limit_bytes(limit_roots * root);
        let passed = marks::passed(went);
        let outcome = arena.allocate(layout(7 * root / 2, 8));
        assert_eq!(
            (marks::passed(went) - passed, outcome.is_ok()),
            (makes_way, served),
            "at {limit_roots} roots: {outcome:?}"
        );
        if !served {
            let after = arena.statistics();
            assert_eq!((after.used_bytes, after.chunks), (before.used_bytes, before.chunks - 1));
        }
        drop(arena);
        is_empty(&space);
    }
}

#[test]
fn a_smaller_hole_serves_where_no_new_granule_can_be_had() {
    let granule = Options::default().granule_bytes;
    let (space, _) = limited(granule);
    let one = reset(&space, Growth::new(&[granule * 3 / 4]));
    let two = marks::expect("no new granule: a chunk in a smaller hole", || {
        reset(&space, Growth::new(&[granule]))
    });
    assert!(two.statistics().owned_bytes < granule / 2);
    drop((one, two));
    is_empty(&space);
}

/// The work of the arenas in the test below; returns the number of refused requests.
fn workload(space: &Space) -> usize {
    let mut refused = 0;
    let mut arenas = Vec::new();
    for (nth, growth) in [Growth::MICRO, Growth::STANDARD, Growth::LARGE]
        .into_iter()
        .cycle()
        .take(if cfg!(miri) { 6 } else { 9 })
        .enumerate()
    {
        match space.arena(growth) {
            Ok(arena) => arenas.push(arena),
            Err(_) => refused += 1,
        }
        for arena in &arenas {
            for size in [24, 700, 5000, 40_000].into_iter().take(2 + nth % 3) {
                let before = arena.statistics();
                match arena.allocate(layout(size, 8)) {
                    // SAFETY: the block has this size.
                    Ok(block) => unsafe { block.write_bytes(1, size) },
                    Err(_) => {
                        assert_eq!(
                            arena.statistics(),
                            before,
                            "a refused request changed the arena"
                        );
                        refused += 1;
                    }
                }
            }
        }
        if nth % 3 == 2 {
            arenas.remove(0);
            let _ = space.trim();
        }
    }
    refused
}

#[test]
fn a_fault_at_any_commit_refuses_one_request_and_loses_nothing() {
    let run = |fail: Option<(Call, u64)>| {
        let faults = Arc::new(Faults::new());
        let space = Space::new(Options {
            faults: Some(faults.clone()),
            reclaim: Reclaim::AtTrim,
            ..small()
        })
        .unwrap();
        if let Some((call, nth)) = fail {
            faults.fail(call, nth, 1);
        }
        let refused = workload(&space);
        space.check_deep().unwrap();
        let calls = (faults.calls(Call::Commit), faults.calls(Call::Uncommit));
        faults.clear();
        is_empty(&space);
        (refused, calls.0, calls.1)
    };
    let (none, commits, uncommits) = run(None);
    assert!(none == 0 && commits > 10 && uncommits > 1, "{commits} {uncommits}");
    // Miri, which takes seconds a run, looks at a few.
    let every = |calls: u64| (0..calls).step_by(if cfg!(miri) { calls as usize / 2 } else { 1 });
    for nth in every(commits) {
        // A wide commit that fails is tried again narrowly, so at most one request is refused.
        assert!(run(Some((Call::Commit, nth))).0 <= 1, "commit {nth}");
    }
    for nth in every(uncommits) {
        let refused = marks::expect("the kernel refused to take memory back", || {
            run(Some((Call::Uncommit, nth))).0
        });
        assert_eq!(refused, 0, "uncommit {nth}");
    }
}

#[test]
fn the_defaults_are_as_they_are_documented() {
    let options = Options::default();
    assert_eq!(
        (options.reserve_bytes, options.reclaim),
        (64 << 30, Reclaim::AtReturn { keep_bytes: 256 << 10 })
    );
    assert!(options.root_bytes == 16 << 20 || options.granule_bytes > 65536);
    assert!(options.limit.is_none() && !options.huge_pages && !options.debug.any());
}

#[test]
fn options_that_no_space_can_have_are_refused() {
    let granule_bytes = Options::default().granule_bytes;
    for options in [
        Options { granule_bytes: granule_bytes / 2, ..Options::default() },
        Options { granule_bytes: granule_bytes * 3, ..Options::default() },
        Options { root_bytes: granule_bytes * 32, ..Options::default() },
        Options { root_bytes: 3 << 20, ..Options::default() },
        Options { reserve_bytes: 0, ..Options::default() },
        Options { reserve_bytes: usize::MAX, ..Options::default() },
        Options { reserve_bytes: 1 << 50, ..Options::default() },
        Options { reserve_bytes: (granule_bytes / 64) << 31, ..Options::default() },
    ] {
        assert!(matches!(Space::new(options.clone()), Err(Error::Options { .. })), "{options:?}");
    }
    let message = |options: Options| Space::new(options).unwrap_err().to_string();
    let terabyte = Options {
        reserve_bytes: 1,
        root_bytes: 1 << 40,
        granule_bytes: 4096,
        ..Options::default()
    };
    let large_page = granule_bytes > 4096;
    if !large_page {
        assert_eq!(
            message(terabyte.clone()),
            "root_bytes: 1099511627776; expected at most 68719476736 with a granule of 4096 bytes; a larger granule allows more"
        );
        assert_eq!(
            message(Options { reserve_bytes: 128 << 30, ..Options::default() }),
            "reserve_bytes: 137438953472; expected 1 to 137422176256 with a granule of 4096 bytes and roots of 16777216; a larger granule allows more"
        );
    }
    // The messages are true.
    assert!(
        terabyte.shape().is_err()
            && Options { root_bytes: 68719476736, ..terabyte.clone() }.shape().is_ok()
                != large_page
    );
    assert!(Options { granule_bytes: 65536, ..terabyte }.shape().is_ok());
    assert!(Options { reserve_bytes: 137422176256, ..Options::default() }.shape().is_ok());
    let faults = Arc::new(Faults::new());
    faults.fail(Call::Reserve, 0, 1);
    assert!(matches!(
        Space::new(Options { faults: Some(faults), ..small() }),
        Err(Error::System(_))
    ));
}

#[test]
fn a_larger_granule_works_the_same() {
    for times in [4, 16] {
        let granule_bytes = Options::default().granule_bytes * times;
        let space = Space::new(Options {
            granule_bytes,
            root_bytes: granule_bytes * 64,
            reserve_bytes: granule_bytes * 1024,
            ..small()
        })
        .unwrap();
        assert_eq!(workload(&space), 0);
        is_empty(&space);
    }
}

#[test]
fn the_last_addresses_are_found_in_smaller_chunks_than_an_arena_would_like() {
    let root = small().root_bytes;
    let space = Space::new(Options { reserve_bytes: root, ..small() }).unwrap();
    let (arena, block) =
        (space.arena(Growth::new(&[root / 16, root / 4, root])).unwrap(), layout(root / 1024, 8));
    let blocks =
        marks::expect("a chunk as large as the request: there are no addresses for more", || {
            std::iter::from_fn(|| arena.allocate(block).ok()).count()
        });
    assert!(blocks > 900, "{blocks} of less than 1024 blocks");
    drop(arena);
    is_empty(&space);
}
