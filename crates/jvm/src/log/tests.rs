//! Real logs of JDK 17 and 25, and small ones broken in every way a log breaks.

mod missing_lines;
mod several_jvms;

use super::Importer;
use super::message::{Message, parse};
use crate::ChunkOp;
use crate::{Format, import};
use heaplab_trace::import::{ImportOptions, Imported};
use heaplab_trace::order::OrderChecker;
use heaplab_trace::tables::NamedMoment;
use heaplab_trace::{Event, Flags, Op, TraceError};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;

const JDK17: &[u8] = include_bytes!("../../tests/data/jvm-log/jdk-17.0.15.log.gz");
const JDK25: &[u8] = include_bytes!("../../tests/data/jvm-log/jdk-25.0.2.log.gz");

fn imported(text: &[u8], lenient: bool) -> Result<(Vec<Event>, Imported), TraceError> {
    let options = ImportOptions { name: "jvm.log".into(), lenient };
    let mut events = Vec::new();
    let imported = import(text, None, &options, &mut events)?;
    let mut checker = OrderChecker::new("imported", &imported.tables);
    events.iter().for_each(|event| checker.check(event).unwrap());
    Ok((events, imported))
}

fn unpacked(bytes: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

/// Number of lines of `text` that contain `part`.
fn lines(text: &str, part: &str) -> usize {
    text.lines().filter(|line| line.contains(part)).count()
}

fn events_of(events: &[Event], op: Op) -> usize {
    events.iter().filter(|event| event.op == op && !event.has(Flags::FAILED)).count()
}

fn chunks_of(imported: &Imported, op: ChunkOp) -> usize {
    imported.tables.chunks.iter().filter(|chunk| ChunkOp::of(chunk) == Some(op)).count()
}

#[test]
fn what_a_jvm_logged_is_what_comes_out() {
    for (packed, free) in [(JDK17, "deallocating 0x"), (JDK25, "added to fbl")] {
        let text = unpacked(packed);
        let (events, done) = imported(packed, false).unwrap();
        assert_eq!(events_of(&events, Op::Alloc), lines(&text, "Metaspace::allocate: type "));
        assert_eq!(events_of(&events, Op::ArenaBirth), lines(&text, "born."));
        assert_eq!(
            events_of(&events, Op::ArenaDeath),
            lines(&text, ": dies.") - loader_deaths(&text)
        );
        // JDK 25 also reports leftovers as added to the free blocks.
        assert_eq!(
            events_of(&events, Op::Free),
            lines(&text, free) - lines(&text, ", wastage block (@")
        );
        assert_eq!(chunks_of(&done, ChunkOp::Take), lines(&text, "handing out chunk"));
        assert_eq!(chunks_of(&done, ChunkOp::Return), lines(&text, "returning chunk"));
        assert_eq!(chunks_of(&done, ChunkOp::Enlarge), lines(&text, "Enlarged chunk"));
        assert_eq!(
            chunks_of(&done, ChunkOp::Leftover),
            lines(&text, "salvaging chunk") + lines(&text, "taken from fbl, wastage block")
        );
        let words: u64 = text
            .lines()
            .filter_map(|line| {
                line.split_once("requested ")?.1.strip_suffix(" words.")?.parse::<u64>().ok()
            })
            .sum();
        assert_eq!(events.iter().map(|event| event.size).sum::<u64>(), words * 8);
        assert!(done.meta.losses.is_empty() && done.meta.cut.is_none(), "{:?}", done.meta);
        assert!(
            events
                .iter()
                .filter(|event| event.op == Op::Alloc)
                .all(|event| event.stack != 0 && event.address != 0)
        );
    }
}

fn loader_deaths(text: &str) -> usize {
    text.lines().filter(|line| line.contains("CLMS @") && line.contains("dies.")).count()
}

#[test]
fn who_allocated_what() {
    for (name, packed) in [("jdk17", JDK17), ("jdk25", JDK25)] {
        let (events, done) = imported(packed, false).unwrap();
        let tables = &done.tables;
        let mut kinds: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for arena in &tables.arenas[1..] {
            *kinds.entry((&arena.growth_policy, &arena.kind)).or_default() += 1;
        }
        let mut stacks: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for event in events.iter().filter(|event| event.op == Op::Alloc) {
            let labels: Vec<String> =
                tables.frames_of(event.stack).map(|frame| tables.frame_label(frame)).collect();
            let entry =
                stacks.entry(labels.into_iter().rev().collect::<Vec<_>>().join(" > ")).or_default();
            *entry = (entry.0 + 1, entry.1 + event.size);
        }
        let mut text = format!(
            "{}, {} threads, committed at the end {}\n",
            done.meta.allocator,
            tables.threads.len(),
            tables.samples.last().unwrap().committed_bytes
        );
        kinds.iter().for_each(|((policy, kind), count)| {
            writeln!(text, "{count} arenas: {policy}, {kind}").unwrap()
        });
        stacks.iter().for_each(|(stack, (count, bytes))| {
            writeln!(text, "{stack}: {count} blocks, {bytes} bytes").unwrap()
        });
        insta::assert_snapshot!(name, text);
        for arena in &tables.arenas[1..] {
            let partner =
                &tables.arenas[arena.partner.expect("every loader has two arenas") as usize];
            assert_eq!(
                (&partner.loader, &partner.growth_policy),
                (&arena.loader, &arena.growth_policy)
            );
            assert_ne!(partner.kind, arena.kind);
        }
    }
}

#[test]
fn committed_bytes_are_what_commits_and_uncommits_add_up_to() {
    for packed in [JDK17, JDK25] {
        let (_, done) = imported(packed, false).unwrap();
        let mut granules = std::collections::BTreeSet::new();
        for chunk in &done.tables.chunks {
            for granule in chunk.address / 65536..(chunk.address + chunk.bytes) / 65536 {
                match ChunkOp::of(chunk).unwrap() {
                    ChunkOp::Commit => granules.insert(granule),
                    ChunkOp::Uncommit => granules.remove(&granule),
                    _ => break,
                };
            }
        }
        assert_eq!(
            done.tables.samples.last().unwrap().committed_bytes,
            granules.len() as u64 * 65536
        );
    }
}

/// Short lines, of one thread unless the text says otherwise.
fn log(messages: &[&str]) -> String {
    let line = |(index, message): (usize, &&str)| match message.strip_prefix('#') {
        Some(message) => format!("[{}ns][7] {message}\n", index * 100),
        None => format!("[{}ns][5] {message}\n", index * 100),
    };
    messages.iter().enumerate().map(line).collect()
}

#[test]
fn threads_that_interleave_are_told_apart() {
    let text = log(&[
        "Arena @0x0a0 (non-class sm): : born.",
        "Arena @0x0b0 (non-class sm): : born.",
        "Arena @0x0a0 (non-class sm): requested 10 words.",
        "#Arena @0x0b0 (non-class sm): requested 20 words.",
        "#ChkMgr @0x1 (non-class-space): requested chunk: pref_level: lv14, max_level: lv14, min committed size: 20.",
        "Arena @0x0a0 (non-class sm): returning 0x1000.",
        "#ChkMgr @0x1 (non-class-space): handing out chunk @0x2, u, base 0x2000, level lv14.",
        "#Arena @0x0b0 (non-class sm): returning 0x2000.",
        "#Metaspace::allocate: type 10 return 0x2000.",
        "Metaspace::allocate: type 7 return 0x1000.",
    ]);
    let (events, done) = imported(text.as_bytes(), false).unwrap();
    let blocks: Vec<_> = events[2..]
        .iter()
        .map(|event| (event.arena, event.size, event.address, event.thread, event.time_ns))
        .collect();
    assert_eq!(blocks, [(2, 160, 0x2000, 1, 800), (1, 80, 0x1000, 0, 900)]);
    assert_eq!(
        done.tables.frame_label(done.tables.stacks[events[2].stack as usize].frame),
        "ConstantPool"
    );
    assert_eq!(done.tables.arenas[2].growth_policy, "hidden");
    let take = done.tables.chunks[0];
    assert_eq!(
        (ChunkOp::of(&take).unwrap(), take.arena, take.address, take.bytes, take.row),
        (ChunkOp::Take, 2, 0x2000, 1024, 2)
    );
}

#[test]
fn what_the_vm_thread_gets_after_a_collection_is_the_asking_threads() {
    let text = log(&[
        "Arena @0x0a0 (class arena): born.",
        "Arena @0x0a0 (class arena): requested 10 words.",
        "Arena @0x0a0 (class arena): allocation failed, returned null.",
        "#Arena @0x0a0 (class arena): requested 10 words.",
        "#Arena @0x0a0 (class arena): returning block (@0x1000 word size 10) taken from arena, no wastage",
        "Metaspace::allocate: type 0 return 0x1000.",
    ]);
    let (events, done) = imported(text.as_bytes(), false).unwrap();
    assert!(
        events[1].has(Flags::FAILED)
            && events[2].address == 0x1000
            && events[2].thread == 0
            && events.len() == 3
    );
    assert_eq!(done.meta.losses, [""; 0]);
}

/// The receiver of a block is found by address, not by asking every waiting thread.
#[test]
fn a_block_given_to_another_thread_is_found_among_many() {
    let mut text = String::from("[1ns][1] Arena @0x0a0 (non-class sm): : born.\n");
    for tid in 0..20_000u64 {
        writeln!(text, "[2ns][{tid}] Arena @0x0a0 (non-class sm): requested 2 words.").unwrap();
        writeln!(
            text,
            "[2ns][{tid}] Arena @0x0a0 (non-class sm): returning {:#x}.",
            0x10000 + tid * 16
        )
        .unwrap();
    }
    for tid in (0..20_000u64).rev() {
        writeln!(
            text,
            "[3ns][99999] Metaspace::allocate: type 7 return {:#x}.",
            0x10000 + tid * 16
        )
        .unwrap();
    }
    let (events, done) = imported(text.as_bytes(), false).unwrap();
    assert_eq!(
        (events.len(), events[1].address, events[20_000].address),
        (20_001, 0x10000 + 19_999 * 16, 0x10000)
    );
    assert_eq!(done.meta.losses, [""; 0]);
}

#[test]
fn what_a_log_cannot_say_ends_the_import_there() {
    let start = [
        "Arena @0x0a0 (class sm): : born.",
        "Arena @0x0a0 (class sm): requested 10 words.",
        "Arena @0x0a0 (class sm): returning 0x1000.",
        "Metaspace::allocate: type 0 return 0x1000.",
    ];
    let cases: [&[&str]; 6] = [
        &[
            "Arena @0x0a0 (class sm): : dies.",
            "Arena @0x0a0 (class sm): deallocating 0x1000, word size: 10.",
        ],
        &["Arena @0x0a0 (class sm): deallocating 0x1008, word size: 10."],
        &["Arena @0x0a0 (class sm): : born."],
        &["Arena @0x0c0 (class sm): : dies."],
        &[
            "Arena @0x0a0 (class sm): requested 10 words.",
            "Metaspace::allocate: type 0 return 0x1000.",
        ],
        &["Arena @0x0a0 (class sm): requested 99999999 words."],
    ];
    let mut said = String::new();
    for case in cases {
        let text = log(&[&start[..], case].concat());
        let (events, done) = imported(text.as_bytes(), false).unwrap();
        assert!(events.len() >= 2, "what was read before stays");
        writeln!(said, "{}", done.meta.cut.unwrap()).unwrap();
        let (_, done) = imported(text.as_bytes(), true).unwrap();
        writeln!(said, "  leniently: {:?} {:?}", done.meta.losses, done.meta.cut).unwrap();
    }
    for text in
        ["[0.001s][info][gc] Using G1\n", "[1ns][2] Arena @0x0a0 (class sm): lives happily.\n"]
    {
        writeln!(said, "{}", imported(text.as_bytes(), false).unwrap_err()).unwrap();
    }
    insta::assert_snapshot!("refused", said);
}

#[test]
fn other_decorations_are_read_too() {
    let text = "[0.025s][trace][metaspace     ] Arena @0x0a0 (class sm): : born.\n\
                [2026-01-01T10:00:00.000+0000][1.5s][77][info ][metaspace] Arena @0x0a0 (class sm): requested 3 words.\n";
    let (decorations, message) = parse(text.lines().next().unwrap().as_bytes());
    assert_eq!((decorations.time_ns, decorations.tid), (Some(25_000_000), None));
    assert!(matches!(message, Message::Arena { arena: 0xa0, class: true, .. }));
    let (decorations, _) = parse(text.lines().nth(1).unwrap().as_bytes());
    assert_eq!((decorations.time_ns, decorations.tid), (Some(1_500_000_000), Some(77)));
    let one = text.lines().next().unwrap().to_string() + "\n";
    let (_, done) = imported(one.as_bytes(), false).unwrap();
    assert!(done.meta.losses[0].contains("decoration tid"), "{:?}", done.meta.losses);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_lines_of_a_log_in_any_order_are_imported_or_refused(
        packed in prop::sample::select(vec![JDK17, JDK25]),
        from in 0usize..8000,
        picks in prop::collection::vec((0usize..400, 0u8..20), 0..300),
        lenient: bool,
    ) {
        let text = unpacked(packed);
        let lines: Vec<&str> = text.lines().skip(from).take(400).collect();
        let mut mixed = String::new();
        for (index, (pick, rare)) in picks.iter().enumerate() {
            let line = if *rare == 0 { lines[*pick] } else { lines[index] };
            mixed += if *rare == 1 { &line[..line.len() / 2] } else { line };
            mixed.push('\n');
        }
        let _ = imported(mixed.as_bytes(), lenient);
    }

    #[test]
    fn any_text_is_no_panic(lines in prop::collection::vec("(Arena @0x[0-9a-f]{0,17} \\((class sm|non-class arena)\\): )?(: born|dies|requested|returning block \\(@0x1 word size 2\\)|taken|deallocating|salvaging chunk @)?[ -~]{0,30}", 0..10)) {
        let mut events = Vec::new();
        let _ = import(lines.join("\n").as_bytes(), Some(Format::Log), &ImportOptions { lenient: true, ..ImportOptions::default() }, &mut events);
    }
}

#[test]
fn the_calendar_is_a_time() {
    let text = "[2024-02-29T23:59:59.500+0000][7] Arena @0xa0 (non-class sm): : born.\n\
                [2024-03-01T00:00:01.000+0000][7] Arena @0xa0 (non-class sm): requested 10 words.\n\
                [2024-03-01T00:00:01.000+0000][7] Arena @0xa0 (non-class sm): returning 0x4000000.\n\
                [2024-03-01T00:00:01.250+0000][7] Metaspace::allocate: type 1 return 0x4000000.\n";
    let (events, done) = imported(text.as_bytes(), false).unwrap();
    assert_eq!(events.iter().map(|event| event.time_ns).collect::<Vec<_>>(), [0, 1_750_000_000]);
    assert!(
        !done.meta.losses.iter().any(|loss| loss.contains("time stamps")),
        "{:?}",
        done.meta.losses
    );
    let told = |text: &str| parse(format!("[{text}][7] ").as_bytes()).0.calendar_ns;
    assert_eq!(told("1970-01-02T00:00:00.001+0000"), Some(86_400_001_000_000));
    assert_eq!(told("2023-02-29T00:00:00.000+0000"), None, "no such day");
    assert_eq!(told("1969-12-31T23:59:59.000+0000"), None);
}

/// At level debug a JVM logs chunks but no blocks.
#[test]
fn a_log_at_level_debug_says_which_level_is_missing() {
    let text = log(&[
        "Arena @0xa0 (non-class sm): : born.",
        "Arena @0xa0 (non-class sm): allocated new chunk @0x3, u, base 0x4000000, level lv12 for requested word size 5.",
    ]);
    let (events, done) = imported(text.as_bytes(), false).unwrap();
    assert_eq!(events_of(&events, Op::Alloc), 0);
    let losses = done.meta.losses;
    assert!(
        losses.iter().any(|loss| loss.contains("level trace (-Xlog:metaspace*=trace")
            && loss.contains("are unknown")),
        "{losses:?}"
    );
}

#[test]
fn the_log_of_a_jdk_before_16_is_called_one() {
    let old = [
        "SpaceManager(): 0x00007f57b401c4d0",
        "SpaceManager::added chunk: ",
        "Metachunk: bottom 0x00007f5790e00000 top 0x00007f5790e00040 end 0x00007f5791200000 size 524288 (humongous)",
    ];
    let said = imported(log(&old).as_bytes(), false).unwrap_err().to_string();
    assert!(said.contains("JDK before 16"), "{said}");
    // Beside an understood JVM it is named and refused.
    let text = format!("[5ns][8][1] {}\n[6ns][7][1] Arena @0xa0 (non-class sm): : born.\n", old[0]);
    let (_, done) = imported(text.as_bytes(), false).unwrap();
    let refused: Vec<bool> =
        done.tables.processes.iter().map(|process| process.refused.is_some()).collect();
    assert_eq!(refused, [true, false]);
    assert!(
        done.meta.losses.iter().any(|loss| loss.contains("the JVM 8: it is older than JDK 16")),
        "{:?}",
        done.meta.losses
    );
}
