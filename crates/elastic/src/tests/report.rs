//! Reports, exactly: every sum against the test's own count, the text, and the data.

use super::{is_empty, layout, reset, small};
use crate::pool::shards::Shards;
use crate::{
    Arena, ArenaStatistics, CommitLimit, Counts, Growth, Level, Options, Reclaim, Report, Space,
    SystemCalls, UncommitTimes,
};
#[cfg(not(miri))]
use heaplab_buddy::marks;
use std::ptr::NonNull;
use std::sync::Arc;

/// One shard, so the place of everything is known. All memory may be kept, and is committed granule
/// by granule.
fn single(options: Options) -> Space {
    Space::with_shards(
        Options { reclaim: Reclaim::AtReturn { keep_bytes: usize::MAX }, ..options },
        |shape| Shards::new(shape, 1),
    )
    .unwrap()
}

/// Free chunks that a report names, by how many granules they have.
fn free(report: &Report) -> Vec<(usize, usize, usize)> {
    let granule = report.granule_bytes;
    let levels = report.free_chunks.iter().filter(|level| level.chunks > 0);
    levels
        .map(|level| (level.chunk_bytes / granule, level.chunks, level.committed_bytes / granule))
        .collect()
}

/// Shared, free of the shared, large, idle, committed.
fn sums(report: &Report) -> [usize; 5] {
    [
        report.shared_bytes,
        report.shared_free_bytes,
        report.large_bytes,
        report.idle_bytes,
        report.committed_bytes,
    ]
}

#[test]
fn every_sum_of_a_report_is_what_was_done() {
    let Options { granule_bytes: granule, root_bytes, reserve_bytes, .. } = small();
    if root_bytes / granule != 256 {
        return;
    }
    let line = granule / 64;
    let space =
        single(Options { limit: Some(Arc::new(CommitLimit::new(99 * granule))), ..small() });
    let empty = space.report().unwrap();
    assert_eq!(
        (empty.reserved_bytes, empty.limit_bytes, empty.granule_bytes, empty.line_bytes),
        (reserve_bytes, 99 * granule, granule, line)
    );
    assert_eq!(
        (empty.committed_bytes, empty.arenas, empty.commits, free(&empty)),
        (0, 0, 0, vec![])
    );
    assert!(empty.mappings <= 4 && empty.resident_bytes == 0, "{empty:?}");

    let one = reset(&space, Growth::new(&[8 * line]));
    let two = reset(&space, Growth::new(&[24 * line]));
    let large = reset(&space, Growth::new(&[4 * granule]));
    let report = space.report().unwrap();
    assert_eq!(
        sums(&report),
        [granule, 32 * line, granule, 0, 2 * granule],
        "32 of 64 lines, and the large chunk's last granule"
    );
    assert_eq!(
        (report.arenas, report.commits, report.uncommits, report.uncommitted_bytes),
        (3, 2, 0, 0)
    );
    // A root of 256: 64 for the region, 4 for the large chunk.
    assert_eq!(free(&report), [(128, 1, 0), (32, 1, 0), (16, 1, 0), (8, 1, 0), (4, 1, 0)]);
    let counts =
        Counts { chunks_taken: 3, cold_granules: 1, regions_begun: 1, ..Counts::default() };
    assert_eq!(report.counts, counts);
    assert!(report.table_bytes > empty.table_bytes && report.table_bytes < 1 << 20, "{report:?}");
    if cfg!(not(miri)) {
        assert_eq!(report.resident_bytes, 2 * granule, "the arenas' heads and links");
    }

    two.allocate(layout(30 * line, 8)).unwrap();
    large.allocate(layout(3 * granule, 8)).unwrap();
    let report = space.report().unwrap();
    assert_eq!(
        sums(&report),
        [granule, 8 * line, 4 * granule, 0, 5 * granule],
        "lengthened by as much as its growth says: {report}"
    );
    assert_eq!(report.counts, Counts { chunks_enlarged: 1, ..counts });

    drop((two, large));
    let report = space.report().unwrap();
    assert_eq!(sums(&report), [granule, 56 * line, 0, 4 * granule, 5 * granule]);
    assert_eq!(
        free(&report),
        [(128, 1, 0), (32, 1, 0), (16, 1, 0), (8, 1, 0), (4, 2, 4)],
        "one of them committed"
    );
    drop(one);
    let report = space.report().unwrap();
    assert_eq!((sums(&report), report.arenas), ([0, 0, 0, 5 * granule, 5 * granule], 0));
    let again = reset(&space, Growth::new(&[8 * line]));
    assert_eq!(space.report().unwrap().counts.warm_granules, 1);
    drop(again);
    assert_eq!(space.trim().unwrap(), 5 * granule);
    let report = space.report().unwrap();
    assert_eq!(
        (sums(&report), report.uncommits, report.uncommitted_bytes),
        ([0; 5], 2, 5 * granule as u64)
    );
    assert_eq!(free(&report), [(256, 1, 0)], "the root is whole again");
    let done = Counts {
        chunks_taken: 4,
        chunks_returned: 4,
        chunks_enlarged: 1,
        warm_granules: 1,
        regions_ended: 1,
        ..counts
    };
    assert_eq!(report.counts, done);
    is_empty(&space);
}

#[test]
fn an_arenas_statistics_are_what_was_done() {
    let space = single(small());
    let line = small().granule_bytes / 64;
    let arena = reset(&space, Growth::new(&[8 * line]));
    let owned_bytes = arena.statistics().owned_bytes;
    let fresh = ArenaStatistics {
        chunks: 1,
        owned_bytes,
        committed_bytes: owned_bytes,
        overhead_bytes: 56,
        free_bytes: owned_bytes - 56,
        ..ArenaStatistics::default()
    };
    assert_eq!((owned_bytes, arena.statistics()), (8 * line, fresh));
    let (one, two) =
        (arena.allocate(layout(45, 8)).unwrap(), arena.allocate(layout(80, 8)).unwrap());
    assert_eq!(
        arena.statistics(),
        ArenaStatistics { used_bytes: 128, free_bytes: fresh.free_bytes - 128, ..fresh }
    );
    // SAFETY: each lives and is given back once.
    unsafe { arena.deallocate(one, layout(45, 8)) };
    let reused = ArenaStatistics {
        used_bytes: 80,
        free_bytes: fresh.free_bytes - 128,
        deallocated_bytes: 48,
        deallocated_blocks: 1,
        ..fresh
    };
    assert_eq!(arena.statistics(), reused);
    // SAFETY: as above.
    unsafe { arena.deallocate(two, layout(80, 8)) };
    assert_eq!(
        arena.statistics(),
        ArenaStatistics { used_bytes: 0, free_bytes: fresh.free_bytes - 48, ..reused }
    );
}

#[test]
fn a_space_contains_its_own_addresses_and_no_others() {
    let (space, other) = (single(small()), single(small()));
    let byte = 0u8;
    let arena = space.arena(Growth::SMALL).unwrap();
    let block = arena.alloc(1u8).map(|byte| std::ptr::from_ref(byte)).unwrap();
    assert!(space.contains(block) && !other.contains(block) && !space.contains(&raw const byte));
    let base = space.0.reservation.base().as_ptr().cast_const();
    let end = base.wrapping_add(space.report().unwrap().reserved_bytes);
    assert!(
        space.contains(base)
            && space.contains(end.wrapping_sub(1))
            && !space.contains(end)
            && !space.contains(base.wrapping_sub(1))
    );
}

/// The sums of many arenas against a shadow that asks each of them.
#[test]
fn a_report_is_the_sum_of_its_arenas() {
    let space = single(small());
    let (granule, line) = (small().granule_bytes, small().granule_bytes / 64);
    let growths = [Growth::MICRO, Growth::SMALL, Growth::STANDARD, Growth::LARGE];
    let mut arenas: Vec<Arena> = Vec::new();
    for nth in 0..if cfg!(miri) { 20 } else { 300 } {
        let arena = space.arena(growths[nth % 4]).unwrap();
        for block in 0..nth % 23 {
            arena.allocate(layout(8 + (nth * 37 + block * 211) % 700, 8)).unwrap();
        }
        arenas.push(arena);
        if nth % 5 == 4 {
            arenas.swap_remove(nth * 7 % arenas.len());
        }
        let all: Vec<ArenaStatistics> = arenas.iter().map(Arena::statistics).collect();
        for has in &all {
            assert_eq!(
                has.committed_bytes,
                has.used_bytes + has.free_bytes + has.deallocated_bytes + has.overhead_bytes,
                "{has:?}"
            );
            assert!(
                has.owned_bytes >= has.committed_bytes
                    && (has.overhead_bytes >= 56 || has.owned_bytes == 0),
                "{has:?}"
            );
        }
        let report = space.report_with(&arenas).unwrap();
        let sum: ArenaStatistics = all.iter().copied().sum();
        assert_eq!(
            (report.asked_arenas, report.asked, report.not_asked_bytes()),
            (arenas.len(), sum, 0),
            "{report}"
        );
        assert_eq!(report.waste_bytes(), report.committed_bytes - sum.used_bytes, "{report}");
        let some = space.report_with(arenas.iter().skip(1)).unwrap();
        assert_eq!(
            some.not_asked_bytes(),
            all.first().map_or(0, |first| first.committed_bytes),
            "{some}"
        );
        let committed: usize = all.iter().map(|has| has.committed_bytes).sum();
        assert_eq!(
            report.shared_bytes - report.shared_free_bytes + report.large_bytes,
            committed,
            "{report}"
        );
        assert_eq!(
            report.committed_bytes,
            report.shared_bytes + report.large_bytes + report.idle_bytes,
            "{report}"
        );
        assert_eq!(
            (report.committed_bytes, report.idle_bytes, report.arenas),
            (space.committed_bytes(), space.idle_bytes(), arenas.len())
        );
        assert!(
            report.shared_bytes.is_multiple_of(granule)
                && report.shared_free_bytes.is_multiple_of(line)
        );
        let chunks: usize = all.iter().map(|has| has.chunks).sum();
        assert_eq!(report.counts.chunks_taken - report.counts.chunks_returned, chunks as u64);
    }
    drop(arenas);
    is_empty(&space);
}

fn written() -> Report {
    Report {
        reserved_bytes: 32 << 30,
        wanted_bytes: 64 << 30,
        committed_bytes: 5 << 20,
        limit_bytes: 1 << 30,
        resident_bytes: 4 << 20,
        mappings: 2,
        arenas: 7,
        asked_arenas: 6,
        asked: ArenaStatistics {
            chunks: 9,
            owned_bytes: 4 << 20,
            committed_bytes: 3 << 20,
            used_bytes: 2 << 20,
            free_bytes: 1 << 19,
            deallocated_bytes: 1 << 18,
            deallocated_blocks: 5,
            overhead_bytes: 1 << 18,
        },
        granule_bytes: 4096,
        line_bytes: 64,
        shared_bytes: 3 << 20,
        shared_free_bytes: 1 << 20,
        large_bytes: (2 << 20) - 1536,
        idle_bytes: 1536,
        free_chunks: vec![
            Level { chunk_bytes: 16 << 20, chunks: 3, committed_bytes: 0 },
            Level { chunk_bytes: 8 << 20, chunks: 0, committed_bytes: 0 },
            Level { chunk_bytes: 8192, chunks: 1, committed_bytes: 4096 },
        ],
        table_bytes: 10_000,
        commits: 11,
        uncommits: 12,
        uncommitted_bytes: 13 << 10,
        system_calls: SystemCalls {
            mmap: 1,
            munmap: 2,
            mprotect: 3,
            madvise_dontneed: 9,
            madvise_populate: 6,
            madvise_huge: 1,
        },
        uncommit_times: UncommitTimes {
            at_return_ns: 2_000_000_000,
            at_trim_ns: 3_500_000,
            background_ns: 4_250,
            for_room_ns: 5,
            longest_ns: 1_500_000,
        },
        counts: Counts {
            chunks_taken: 1,
            chunks_returned: 2,
            chunks_enlarged: 3,
            warm_granules: 4,
            cold_granules: 5,
            regions_begun: 6,
            regions_ended: 8,
        },
    }
}

#[test]
fn the_text_of_a_report() {
    let expected = "\
Usage: 7 arenas
                          reserved:     32.00 GB, 64.00 GB wanted: the system refused
                         committed:      5.00 MB, limit 1.00 GB
                          resident:      4.00 MB, 2 mappings

Committed (percentages refer to committed):
                      small chunks:      2.00 MB (40%)
   free lines between small chunks:      1.00 MB (20%)
                      large chunks:      2.00 MB (40%)
    idle, to be given back by trim:      1.50 KB (<1%)

In chunks of arenas: 6 of 7 arenas asked
                   used, in blocks:      2.00 MB (40%)
  free, still to be bumped through:    512.00 KB (10%)
           given back or left over:    256.00 KB ( 5%)
           heads, links and tables:    256.00 KB ( 5%)
               1.00 MB uncommitted:            9 chunks, 5 free blocks
     in arenas that were not asked:   1022.50 KB (20%)
  waste: all but blocks, with idle:      2.00 MB (40%)

Free chunks:
                          16.00 MB:            3 chunks, 0 bytes committed
                           8.00 KB:            1 chunks, 4.00 KB committed

Settings: granule 4.00 KB, line 64 bytes
Books: about 9.77 KB
Chunks: 1 taken, 2 returned, 3 enlarged in place
Granules: 4 reused, 5 committed; regions: 6 begun, 8 ended
Ranges: 11 committed, 12 given back, of 13.00 KB in all
System calls: 1 mmap, 2 munmap, 3 mprotect, 16 madvise: 9 to give back, 6 to have pages
Uncommitting: 2.00 s, of it at return 2.00 s, at trim 3.50 ms, in the background 4.25 us, for room 5 ns; at most 1.50 ms at a time
";
    assert_eq!(written().to_string(), expected);
    let little = Report { idle_bytes: (5 << 20) / 200, ..written() };
    assert!(
        little.to_string().contains("given back by trim:     25.60 KB (<1%)\n"),
        "half a percent: {little}"
    );
    let nothing = Report {
        committed_bytes: 0,
        shared_bytes: 0,
        shared_free_bytes: 0,
        large_bytes: 0,
        idle_bytes: 0,
        limit_bytes: usize::MAX,
        asked_arenas: 0,
        asked: ArenaStatistics::default(),
        ..written()
    };
    let text = nothing.to_string();
    assert!(
        text.contains("committed:      0 bytes, limit unlimited\n")
            && text.contains("small chunks:      0 bytes ( 0%)\n"),
        "{text}"
    );
    let asked_none = "In chunks of arenas: 0 of 7 arenas asked\n  waste: all but blocks, with idle:      0 bytes ( 0%)\n\nFree chunks";
    assert!(text.contains(asked_none), "{text}");
}

#[test]
#[cfg(any(test, feature = "serde"))]
fn reports_and_statistics_are_data() {
    let report = written();
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["reserved_bytes"], 32u64 << 30);
    assert_eq!(
        json["free_chunks"][2],
        serde_json::json!({ "chunk_bytes": 8192, "chunks": 1, "committed_bytes": 4096 })
    );
    assert_eq!(json["counts"]["regions_ended"], 8);
    assert_eq!(json.as_object().unwrap().len(), 23, "every field: {json}");
    assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
    let space = single(small());
    let has = reset(&space, Growth::SMALL).statistics();
    let json = serde_json::to_string(&has).unwrap();
    assert_eq!(serde_json::from_str::<ArenaStatistics>(&json).unwrap(), has);
    assert!(json.starts_with("{\"chunks\":1,\"owned_bytes\":"), "{json}");
}

/// The flags (proc(5), VmFlags) of the mapping that the address lies in.
#[cfg(not(miri))]
fn flags_at(address: usize) -> String {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    for line in smaps.lines() {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let parsed = range.and_then(|(start, end)| {
            Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
        });
        match parsed {
            Some((start, end)) => inside = (start..end).contains(&address),
            None if inside && line.starts_with("VmFlags:") => return format!("{line} "),
            None => {}
        }
    }
    String::new()
}

#[test]
#[cfg(not(miri))]
fn huge_pages_are_asked_for_only_where_they_are_wanted() {
    if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        eprintln!("skipped: this kernel has no transparent huge pages");
        return;
    }
    for (huge_pages, flag) in [(true, " hg "), (false, " nh ")] {
        let space = single(Options { huge_pages, ..small() });
        let arena = space.arena(Growth::SMALL).unwrap();
        let flags = flags_at(arena.alloc(1u8).map(|byte| std::ptr::from_ref(byte).addr()).unwrap());
        assert!(flags.is_empty() || flags.contains(flag), "huge pages {huge_pages}: {flags}");
    }
}

#[test]
#[cfg(not(miri))]
fn of_a_full_shard_and_the_limit_the_limit_is_told() {
    let (root, granule) = (small().root_bytes, small().granule_bytes);
    for home in [0, 1] {
        let limit = Arc::new(CommitLimit::none());
        let options = Options {
            reserve_bytes: 16 * root,
            limit: Some(limit.clone()),
            reclaim: Reclaim::AtTrim,
            ..small()
        };
        let space = Space::with_shards(options, |shape| Shards::new(shape, 2)).unwrap();
        crate::pool::shards::set_home(1);
        // Its two roots: one with the region of its head, one whole.
        let arena = space.arena(Growth::MICRO).unwrap();
        arena.allocate(layout(root - granule, 8)).unwrap();
        limit.set_limit_bytes(space.committed_bytes() + granule);
        crate::pool::shards::set_home(home);
        let refused =
            marks::expect("a shard has no room", || arena.allocate(layout(root - granule, 8)));
        assert!(
            matches!(refused, Err(crate::Error::LimitReached { .. })),
            "home {home}: {refused:?}"
        );
    }
    crate::pool::shards::set_home(0);
}

/// The expected use of chunks, computed from nothing but the requests.
#[derive(Default)]
struct Plain {
    used_bytes: usize,
    live: Vec<(NonNull<u8>, usize)>,
}

/// Requests of whole pairs of words in arenas of one chunk, so no rest is too small to keep: the
/// used bytes are the sum of requests.
#[test]
fn used_free_and_left_over_are_what_a_plain_model_says() {
    let space = single(small());
    let elsewhere = single(small());
    let other = elsewhere.arena(Growth::STANDARD).unwrap();
    other.allocate(layout(160, 8)).unwrap();
    let granule = small().granule_bytes;
    let mut arenas: Vec<(Arena, Plain)> = Vec::new();
    let mut seed = 1usize;
    for step in 0..if cfg!(miri) { 60 } else { 3000 } {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (dice, pick, bytes) = (seed >> 33 & 15, seed >> 37, (seed >> 45) % 20 * 16 + 16);
        let count = arenas.len();
        if count == 0 || dice == 0 && count < 12 {
            arenas.push((reset(&space, Growth::new(&[granule])), Plain::default()));
            continue;
        }
        let at = pick % count;
        let (arena, plain) = &mut arenas[at];
        match dice {
            1 => drop(arenas.swap_remove(at)),
            2 => {
                arena.reset();
                *plain = Plain::default();
            }
            3..=7 if !plain.live.is_empty() => {
                let (block, bytes) = plain.live.swap_remove(pick / 64 % plain.live.len());
                // SAFETY: it lives and has left the model.
                unsafe { arena.deallocate(block, layout(bytes, 8)) };
                plain.used_bytes -= bytes;
            }
            _ if plain.used_bytes + bytes <= granule / 2
                && arena.statistics().free_bytes >= bytes =>
            {
                plain.live.push((arena.allocate(layout(bytes, 8)).unwrap(), bytes));
                plain.used_bytes += bytes;
            }
            _ => {}
        }
        let report =
            space.report_with(arenas.iter().map(|(arena, _)| arena).chain([&other])).unwrap();
        let used: usize = arenas.iter().map(|(_, plain)| plain.used_bytes).sum();
        assert_eq!(
            (report.asked_arenas, report.asked.used_bytes),
            (arenas.len(), used),
            "step {step}: {report}"
        );
        assert_eq!(report.asked.chunks, arenas.len(), "one chunk each");
        let free = report.asked.free_bytes + report.asked.deallocated_bytes;
        let tables = report.asked.overhead_bytes - arenas.len() * 56;
        assert_eq!(free + tables, arenas.len() * (granule - 56) - used, "step {step}: {report}");
        assert_eq!(report.waste_bytes(), report.committed_bytes - used, "step {step}: {report}");
    }
}

#[test]
fn the_time_of_giving_back_is_that_of_whoever_waited() {
    let granule = small().granule_bytes;
    let times = |space: &Space| space.report().unwrap().uncommit_times;
    let noted = |times: UncommitTimes| {
        [
            times.at_return_ns,
            times.at_trim_ns,
            times.background_ns,
            times.for_room_ns,
            times.longest_ns,
        ]
        .map(|ns| ns > 0)
    };
    let space = single(small());
    let fill = |space: &Space| {
        reset(space, Growth::new(&[8 * granule]))
            .allocate(layout(7 * granule, 8))
            .map(drop)
            .unwrap()
    };
    fill(&space);
    assert_eq!(times(&space), UncommitTimes::default(), "nothing was given back yet");
    space.trim().unwrap();
    let trimmed = times(&space);
    assert_eq!(noted(trimmed), [false, true, false, false, true], "{trimmed:?}");
    assert!(trimmed.longest_ns <= trimmed.at_trim_ns && trimmed.sum_ns() == trimmed.at_trim_ns);
    assert_eq!(space.trim().unwrap(), 0);
    assert_eq!(times(&space), trimmed, "where nothing is idle no time is taken");

    let returning =
        Space::new(Options { reclaim: Reclaim::AtReturn { keep_bytes: 0 }, ..small() }).unwrap();
    fill(&returning);
    assert_eq!(noted(times(&returning)), [true, false, false, false, true]);

    let limit = Some(Arc::new(CommitLimit::new(12 * granule)));
    let limited = Space::new(Options { reclaim: Reclaim::AtTrim, limit, ..small() }).unwrap();
    fill(&limited);
    let arena = reset(&limited, Growth::new(&[granule]));
    arena.allocate(layout(9 * granule, 8)).expect("what lies idle makes room");
    assert_eq!(noted(times(&limited)), [false, false, false, true, true]);

    let background =
        Reclaim::Background { interval: std::time::Duration::from_millis(1), keep_bytes: 0 };
    let own = Space::new(Options { reclaim: background, ..small() }).unwrap();
    fill(&own);
    while own.committed_bytes() > 0 || times(&own).background_ns == 0 {
        std::thread::yield_now();
    }
    assert_eq!(noted(times(&own)), [false, false, true, false, true]);
}
