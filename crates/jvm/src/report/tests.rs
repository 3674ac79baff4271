//! Real logs (crates/jvm/tests/data/jvm-log), added up in two ways.

use super::*;
use crate::import;
use crate::{Reclaim, granules};
use heaplab_trace::import::{ImportOptions, Imported};
use heaplab_trace::source::Slice;

fn recorded(bytes: &[u8]) -> (Vec<Event>, Imported) {
    let mut events = Vec::new();
    let imported = import(bytes, None, &ImportOptions::default(), &mut events).unwrap();
    (events, imported)
}

const LOGS: [(&str, &[u8]); 2] = [
    ("jdk17", include_bytes!("../../tests/data/jvm-log/jdk-17.0.15.log.gz")),
    ("jdk25", include_bytes!("../../tests/data/jvm-log/jdk-25.0.2.log.gz")),
];

#[test]
fn the_report_of_a_small_program() {
    for (name, log) in LOGS {
        let (events, imported) = recorded(log);
        let report = report(&imported.tables, &mut Slice(&events), 0, At::End).unwrap();
        insta::assert_snapshot!(name, report.statistics);
    }
}

/// Committed = used + free + waste of chunks in use + free chunks in committed granules, at every
/// tenth row.
#[test]
fn every_committed_byte_is_somebodys() {
    for (_, log) in LOGS {
        let (events, imported) = recorded(log);
        let step = events.len() / 40;
        for row in (0..events.len()).step_by(step) {
            let report =
                report(&imported.tables, &mut Slice(&events), 0, At::Row(row as u64)).unwrap();
            let statistics = &report.statistics;
            let in_use = statistics.in_use();
            assert_eq!(
                in_use.committed_bytes,
                in_use.used_bytes + in_use.free_bytes + in_use.waste_bytes
            );
            // JDK 17 with CDS keeps the first 1 KB of class space as a chunk without an owner.
            let accounted = in_use.committed_bytes + statistics.free_chunks_bytes();
            let missing = statistics.committed_bytes() - accounted;
            assert!(missing <= 1024, "row {row}: {missing} of {}", statistics.committed_bytes());
            assert!(
                statistics.pinned.idle_bytes + statistics.pinned.free_bytes
                    <= statistics.free_chunks_bytes()
            );
        }
    }
}

#[test]
fn moments_are_what_they_say() {
    let (events, imported) = recorded(LOGS[0].1);
    let at = |at| report(&imported.tables, &mut Slice(&events), 0, at).unwrap();
    let (end, peak) = (at(At::End), at(At::Peak));
    assert_eq!(end.row, events.len() as u64);
    assert_eq!(peak.statistics.committed_bytes(), end.peak.committed_bytes);
    let highest = end.timeline.iter().map(|point| point.committed_bytes).max().unwrap();
    assert!(highest <= end.peak.committed_bytes && highest * 10 >= end.peak.committed_bytes * 9);
    let time_ns = events[events.len() / 2].time_ns;
    let middle = at(At::Time(time_ns));
    assert!(middle.time_ns <= time_ns && middle.row > events.len() as u64 / 3);
    assert!(middle.statistics.counters.allocations < end.statistics.counters.allocations);
    assert_eq!(end.timeline.last().unwrap().used_bytes, end.statistics.in_use().used_bytes);
}

/// A log may claim the impossible: chunks and blocks that reach beyond the end of the address
/// space.
#[test]
fn chunks_that_no_address_space_holds_are_no_panic() {
    let messages = [
        "Arena @0xa0 (non-class sm): : born.",
        "VsListNode @0x1 base 0x4000000 : born (word_size 18446744073709551615).",
        "VsList @0x1 (non-class-space): added new node.",
        "VsListNode @0x1 base 0x4000000 : born (word_size 18446744073709551615).",
        "VsList @0x1 (non-class-space): added new node.",
        "VsListNode @0x1 base 0xffffffffff000000 : new root chunk @0x3, f, base 0xfffffffffffff000, level lv00.",
        "ChkMgr @0x2 (non-class-space): allocated new root chunk.",
        "Arena @0xa0 (non-class sm): requested 100 words.",
        "ChkMgr @0x2 (non-class-space): handing out chunk @0x3, u, base 0xfffffffffffff000, level lv14.",
        "Arena @0xa0 (non-class sm): returning 0xfffffffffffff000.",
        "Enlarged chunk @0x3, u, base 0xfffffffffffff000, level lv13.",
        "Arena @0xa0 (non-class sm): salvaging chunk @0x3, u, base 0xfffffffffffffff0, level lv14, used: 0, committed-free: 18446744073709551615.",
        "Arena @0xa0 (non-class sm): salvaging chunk @0x3, u, base 0x8000000, level lv14, used: 0, committed-free: 18446744073709551615.",
        "Arena @0xa0 (non-class sm): requested 10 words.",
        "Arena @0xa0 (non-class sm): returning 0xfffffffffffffff0.",
        "Metaspace::allocate: type 1 return 0xfffffffffffffff0.",
    ];
    let log: String = messages.iter().map(|message| format!("[1ns][1] {message}\n")).collect();
    let (events, imported) = recorded(log.as_bytes());
    let report = report(&imported.tables, &mut Slice(&events), 0, At::End).unwrap();
    assert_eq!(
        (report.statistics.counters.allocations, report.statistics.committed_bytes()),
        (2, 0)
    );
}

/// A crafted log that names the smallest granule and commits as much as it can with every line:
/// memory and time do not grow with its claims.
#[test]
fn a_log_that_claims_to_commit_everything_costs_no_more_than_its_lines() {
    let mut log = String::from(
        "[1ns][1] - commit_granule_bytes: 4096.\n[1ns][1] Arena @0xa0 (non-class sm): : born.\n",
    );
    for root in 1..20_000u64 {
        let (from, to) = (root << 25, (root << 25) + (16 << 20));
        log += &format!(
            "[2ns][1] VsListNode @0x1 base {from:#x} : committing range {from:#x}..{to:#x}(2097152 words)\n"
        );
        log += &format!(
            "[2ns][1] VsListNode @0x1 base {from:#x} : ... committed 2097152 additional words.\n"
        );
    }
    let (events, imported) = recorded(log.as_bytes());
    assert_eq!(imported.tables.chunks.len(), 20_000);
    let report = report(&imported.tables, &mut Slice(&events), 0, At::End).unwrap();
    let limit_bytes = granules::GRANULES_LIMIT * 4096;
    assert_eq!(
        (report.statistics.granule_bytes, report.statistics.committed_bytes()),
        (4096, limit_bytes)
    );
}

#[test]
fn the_policy_is_of_the_recorded_version() {
    for (log, expected) in [(LOGS[0].1, Reclaim::Balanced), (LOGS[1].1, Reclaim::Removed)] {
        let (events, imported) = recorded(log);
        let report = report(&imported.tables, &mut Slice(&events), 0, At::End).unwrap();
        assert_eq!(report.statistics.reclaim, expected);
    }
}

/// The counters are HotSpot's: each operation counts as often as the log names it, even for a JVM
/// whose `MaxMetaspaceSize` refuses chunks that were already split off.
#[test]
fn operations_are_counted_as_the_log_has_them() {
    let refused: (_, &[u8]) =
        ("refused", include_bytes!("../../tests/data/jvm-log/jdk-17-refused.log.gz"));
    for (name, packed) in LOGS.into_iter().chain([refused]) {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed), &mut text)
            .unwrap();
        let lines = |part: &str| text.lines().filter(|line| line.contains(part)).count() as u64;
        let (events, imported) = recorded(packed);
        let counters =
            report(&imported.tables, &mut Slice(&events), 0, At::End).unwrap().statistics.counters;
        let splits = text
            .lines()
            .filter(|line| {
                line.contains("): splitting chunk ") || line.contains("): : splitting chunk ")
            })
            .count() as u64;
        assert_eq!(counters.splits, splits, "{name}: splits");
        assert_eq!(counters.uncommits, lines("... uncommitted "), "{name}: uncommits");
        assert_eq!(counters.chunks_taken, lines("handing out chunk"), "{name}");
        assert_eq!(counters.chunks_returned, lines("returning chunk"), "{name}");
        assert_eq!(counters.merges, lines("): merged into chunk "), "{name}: merges");
        assert_eq!(lines("failed to commit") > 0, name == "refused");
        assert_eq!(counters.commits, lines("... committed "), "{name}");
        assert!(
            lines("... already fully uncommitted") == 0
                || counters.uncommits < lines("uncommitting range")
        );
    }
}

/// Without compressed class pointers (and, in JDK 24 and later, for interfaces) classes lie in
/// non-class space.
#[test]
fn classes_are_counted_where_they_lie() {
    let loader = |class_arena: &str, class_home: &str| {
        let of = |arena: &str, what: &str| {
            format!(
                "[1ns][1] Arena @{arena} ({}class sm): {what}\n",
                if arena == "0xa0" { "non-" } else { "" }
            )
        };
        let mut log = of("0xa0", ": born.");
        if class_arena != "0x0" {
            log += &of(class_arena, ": born.");
        }
        log += &format!(
            "[1ns][1] CLMS @0x1 : born (nonclass arena: 0xa0, class arena: {class_arena}.\n"
        );
        for (home, kind, address) in [("0xa0", 10, "0x4000000"), (class_home, 0, "0x4000800")] {
            log += &of(home, "requested 100 words.");
            log += &of(home, &format!("returning {address}."));
            log += &format!("[1ns][1] Metaspace::allocate: type {kind} return {address}.\n");
        }
        log += "[1ns][1] ChkMgr @0x2 (non-class-space): handing out chunk @0x3, u, base 0x4000000, level lv12.\n";
        let (events, imported) = recorded(log.as_bytes());
        let statistics =
            report(&imported.tables, &mut Slice(&events), 0, At::End).unwrap().statistics;
        let classes: u64 =
            statistics.kinds.iter().filter(|kind| !kind.class).map(|kind| kind.of_one_class).sum();
        classes
    };
    assert_eq!((loader("0xb0", "0xb0"), loader("0xb0", "0xa0"), loader("0x0", "0xa0")), (1, 1, 1));
}
