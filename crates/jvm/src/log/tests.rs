//! Real logs of JDK 17 and 25, and small ones broken in every way a log breaks.

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

#[test]
fn a_log_that_breaks_off_keeps_what_was_read() {
    let text = unpacked(JDK17);
    let (whole, _) = imported(text.as_bytes(), false).unwrap();
    let half = &text.as_bytes()[..text.len() / 2];
    let (events, done) = imported(half, false).unwrap();
    let number = half.iter().filter(|byte| **byte == b'\n').count() + 1;
    assert_eq!(
        done.meta.cut.unwrap(),
        format!("jvm.log: line {number} breaks off: the log was cut")
    );
    assert!(events.len() > whole.len() / 3);
    // A block without its last line is known by its address, without its type.
    let same = events.iter().zip(&whole).take_while(|(one, other)| one == other).count();
    assert!(events.len() - same <= 2, "{} of {}", same, events.len());
    // Compressed, it ends within a compressed block.
    let (events, done) = imported(&JDK17[..JDK17.len() / 2], false).unwrap();
    assert!(
        events.len() > whole.len() / 4 && done.meta.cut.is_some(),
        "{} {:?}",
        events.len(),
        done.meta.cut
    );
}

#[test]
fn a_rotated_log_lacks_births() {
    let text = unpacked(JDK17);
    let rest = &text[text.find("[").unwrap()
        + text[text.len() / 3..].find('\n').unwrap()
        + text.len() / 3
        + 1..];
    let error = imported(rest.as_bytes(), false).unwrap_err().to_string();
    assert!(
        error.starts_with("jvm.log: event 0: line ")
            && error.contains("never born")
            && error.contains("filecount=0"),
        "{error}"
    );
    let (events, done) = imported(rest.as_bytes(), true).unwrap();
    assert!(events.len() > 3000);
    assert!(
        done.meta.losses.iter().any(|loss| loss.contains("taken as born there; the first: line ")),
        "{:?}",
        done.meta.losses
    );
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

/// Two JVMs with equal addresses and threads, a mark between them, and heaplab's notes of the
/// recording.
#[test]
fn jvms_of_one_log_are_told_apart() {
    let text = "[100ns][71][5] heaplab: process {\"executable\":\"/opt/java\",\"arguments\":[\"java\",\"A\"],\"parent\":1}\n\
        [110ns][71][5] Arena @0x0a0 (non-class sm): : born.\n\
        [120ns][72][5] Arena @0x0a0 (non-class sm): : born.\n\
        [125ns][72][0] heaplab: process {\"parent\":71}\n\
        [130ns][71][5] Arena @0x0a0 (non-class sm): requested 10 words.\n\
        [140ns][72][5] Arena @0x0a0 (non-class sm): requested 20 words.\n\
        [150ns][71][5] ChkMgr @0x1 (non-class-space): handing out chunk @0x2, u, base 0x2000, level lv14.\n\
        [150ns][72][5] VsListNode @0x1 base 0x4000000 : committing range 0x4000000..0x4010000(8192 words)\n\
        [150ns][72][5] VsListNode @0x1 base 0x4000000 : ... committed 8192 additional words.\n\
        [160ns][71][5] Arena @0x0a0 (non-class sm): returning 0x1000.\n\
        [160ns][72][5] Arena @0x0a0 (non-class sm): returning 0x1000.\n\
        [210ns][72][0] heaplab: memory 4096 1024\n\
        [220ns][72][5] Metaspace::allocate: type 10 return 0x1000.\n\
        [230ns][71][5] Metaspace::allocate: type 7 return 0x1000.\n\
        [240ns][71][5] heaplab: process {damaged\n\
        [250ns][72][5] Arena @0x0a0 (non-class sm): : dies.\n";
    let moment = |name: &str, time_ns, pid| NamedMoment { name: name.into(), time_ns, pid };
    let moments = vec![moment("loaded", 105, Some(72)), moment("over", 900, None)];
    let mut importer = Importer::new(&ImportOptions::default()).recorded(100, moments);
    let mut events: Vec<Event> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        importer.line(index as u64 + 1, line.as_bytes(), true, &mut events).unwrap();
    }
    let done = importer.finish(&mut events).unwrap();
    let mut checker = OrderChecker::new("two", &done.tables);
    events.iter().for_each(|event| checker.check(event).unwrap());
    let of = |op| {
        events
            .iter()
            .filter(|event| event.op == op)
            .map(|event| (event.process, event.time_ns, event.arena, event.size))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(Op::Alloc), [(1, 120, 2, 160), (0, 130, 1, 80)]);
    assert_eq!(of(Op::ArenaDeath), [(1, 150, 2, 0)]);
    assert_eq!(of(Op::Mark), [(1, 105, 0, 0), (0, 900, 0, 0)].map(|(_, time, ..)| (1, time, 0, 0)));
    let tables = &done.tables;
    assert_eq!(
        tables.marks.iter().map(|mark| (mark.name.as_str(), mark.process)).collect::<Vec<_>>(),
        [("loaded", Some(1)), ("over", None)]
    );
    let processes: Vec<_> = tables
        .processes
        .iter()
        .map(|process| (process.pid, process.executable.as_str(), process.parent, process.began_ns))
        .collect();
    assert_eq!(processes, [(71, "/opt/java", None, 0), (72, "", Some(0), 20)]);
    assert_eq!(
        tables
            .chunks
            .iter()
            .map(|chunk| (ChunkOp::of(chunk).unwrap(), chunk.process))
            .collect::<Vec<_>>(),
        [(ChunkOp::Take, 0), (ChunkOp::Commit, 1)]
    );
    let samples: Vec<_> = tables
        .samples
        .iter()
        .map(|sample| (sample.process, sample.resident_bytes, sample.committed_bytes))
        .collect();
    assert_eq!(samples, [(1, 4096, 65536)]);
    assert_eq!(
        tables.threads.iter().map(|thread| (thread.process, thread.tid)).collect::<Vec<_>>(),
        [(0, 5), (1, 5)]
    );
    assert_eq!((done.meta.duration_ns, done.meta.losses.len()), (901, 0));
}

#[test]
fn a_second_jvm_whose_lines_name_no_pid_is_not_taken_for_the_first() {
    let one = [
        "Initialized with strategy: balanced reclaim.",
        " - commit_granule_bytes: 65536.",
        "Arena @0x0a0 (class sm): : born.",
    ];
    let block = [
        "Arena @0x0a0 (class sm): requested 10 words.",
        "Metaspace::allocate: type 0 return 0x1000.",
    ];
    // JDK 21 and later have no policy.
    for (second, place) in
        [(&one[..], "line 6: another JVM begins"), (&one[1..], "line 6: another JVM begins")]
    {
        let text = log(&[&one[..], &block, second].concat());
        let (events, done) = imported(text.as_bytes(), false).unwrap();
        assert_eq!(
            (events.len(), events_of(&events, Op::Alloc)),
            (2, 1),
            "what was read before stays"
        );
        let said = done.meta.cut.unwrap();
        assert!(said.contains(place) && said.contains("decoration pid"), "{said}");
        let losses = imported(text.as_bytes(), true).unwrap().1.meta.losses;
        assert!(
            losses.iter().any(|loss| loss.starts_with("1 JVMs begin with lines that count")),
            "{losses:?}"
        );
    }
    let interleaved = log(&[one[0], one[0], one[1], one[1], one[2]]);
    assert!(
        imported(interleaved.as_bytes(), false)
            .unwrap_err()
            .to_string()
            .contains("line 4: another JVM begins")
    );
}

/// The kernel gives an ended JVM's pid to another: nothing of the first belongs to the second.
#[test]
fn a_pid_that_is_used_again_is_another_jvm() {
    let text = "[100ns][71][5] heaplab: process {\"executable\":\"/opt/one\"}\n\
        [110ns][71][5] Arena @0x0a0 (non-class sm): : born.\n\
        [120ns][71][5] Arena @0x0a0 (non-class sm): requested 10 words.\n\
        [130ns][71][5] Arena @0x0a0 (non-class sm): returning 0x1000.\n\
        [150ns][71][0] heaplab: ended\n\
        [160ns][71][5] heaplab: process {\"executable\":\"/opt/other\"}\n\
        [170ns][71][5] Arena @0x0a0 (non-class sm): : born.\n\
        [180ns][71][5] Arena @0x0a0 (non-class sm): requested 20 words.\n\
        [190ns][71][5] Arena @0x0a0 (non-class sm): returning 0x1000.\n\
        [200ns][71][5] Metaspace::allocate: type 7 return 0x1000.\n\
        [210ns][71][0] heaplab: ended\n";
    let mut importer = Importer::new(&ImportOptions::default()).recorded(100, Vec::new());
    let mut events: Vec<Event> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        importer.line(index as u64 + 1, line.as_bytes(), true, &mut events).unwrap();
    }
    let done = importer.finish(&mut events).unwrap();
    let mut checker = OrderChecker::new("again", &done.tables);
    events.iter().for_each(|event| checker.check(event).unwrap());
    let processes = done.tables.processes.iter();
    let processes: Vec<_> = processes
        .map(|process| {
            (process.pid, process.executable.as_str(), process.began_ns, process.ended_ns)
        })
        .collect();
    assert_eq!(processes, [(71, "/opt/one", 0, Some(50)), (71, "/opt/other", 60, Some(110))]);
    let blocks = events.iter().filter(|event| event.op == Op::Alloc);
    let blocks: Vec<_> =
        blocks.map(|event| (event.process, event.time_ns, event.arena, event.size)).collect();
    assert!(
        blocks.len() == 2
            && blocks[0] == (0, 50, 1, 80)
            && (blocks[1].0, blocks[1].2, blocks[1].3) == (1, 2, 160),
        "{blocks:?}"
    );
    assert_eq!(
        (events.iter().filter(|event| event.op == Op::ArenaBirth).count(), done.meta.losses.len()),
        (2, 0)
    );
}

/// An ended JVM's committed bytes are not added to the next one's.
#[test]
fn committed_bytes_are_those_of_jvms_that_live() {
    let mut importer = Importer::new(&ImportOptions::default());
    let mut events: Vec<Event> = Vec::new();
    let mut counts = |pid: u32, messages: &[&str]| {
        for message in messages {
            importer
                .line(1, format!("[1ns][{pid}][5] {message}").as_bytes(), true, &mut events)
                .unwrap();
        }
        let counts = importer.counts();
        (counts.committed_bytes >> 16, counts.committed_peak_bytes >> 16)
    };
    let commit = [
        "VsListNode @0x1 base 0x4000000 : committing range 0x4000000..0x4010000(8192 words)",
        "VsListNode @0x1 base 0x4000000 : ... committed 8192 additional words.",
    ];
    assert_eq!((counts(71, &commit), counts(72, &commit)), ((1, 1), (2, 2)));
    assert_eq!(counts(71, &["heaplab: ended"]), (1, 2));
    assert_eq!(counts(71, &["heaplab: ended"]), (1, 2));
    assert_eq!((counts(73, &commit), counts(74, &commit)), ((2, 2), (3, 3)));
    assert_eq!(
        (counts(72, &["heaplab: ended"]), counts(74, &["heaplab: ended"])),
        ((2, 3), (1, 3))
    );
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

#[test]
fn a_missing_line_is_not_a_missing_beginning() {
    let death = "Arena @0xa0 (non-class sm): dies.";
    for (start, expected) in [
        (&[" - commit_granule_bytes: 65536."][..], "the line that says so is missing"),
        (&[], "the beginning of the log is missing"),
    ] {
        let mut lines = start.to_vec();
        lines.extend(["Arena @0xb0 (non-class sm): : born.", death]);
        let (_, done) = imported(log(&lines).as_bytes(), false).unwrap();
        let cut = done.meta.cut.unwrap();
        assert!(cut.contains(expected), "{cut}");
    }
}

#[test]
fn the_reclaim_policy_is_known_by_jvm() {
    use crate::Reclaim;
    let granule = " - commit_granule_bytes: 65536.";
    for (lines, expected) in [
        (vec!["Initialized with strategy: balanced reclaim.", granule], Reclaim::Balanced),
        (vec!["Initialized with strategy: aggressive reclaim.", granule], Reclaim::Aggressive),
        (vec![granule], Reclaim::Removed),
    ] {
        let born = "Arena @0xb0 (non-class sm): : born.";
        let (_, done) = imported(log(&[&lines[..], &[born]].concat()).as_bytes(), false).unwrap();
        let row = done
            .tables
            .chunks
            .iter()
            .find(|chunk| ChunkOp::of(chunk) == Some(ChunkOp::Granule))
            .unwrap();
        assert_eq!(Reclaim::from_code(row.address), expected);
    }
}

/// Lines cut out of the middle of a real log, and bytes that are no text: the rest stays, and the
/// reported gap is a lower bound, never more.
#[test]
fn holes_in_a_log_are_noticed() {
    for (name, packed) in [("17", JDK17), ("25", JDK25)] {
        let text = unpacked(packed);
        let lines: Vec<&str> = text.lines().collect();
        let lines = &lines[..lines.len() / 2];
        let whole = imported((lines.join("\n") + "\n").as_bytes(), true).unwrap();
        assert!(!whole.1.meta.gaps && whole.1.meta.losses.is_empty(), "{:?}", whole.1.meta.losses);
        let blocks = |events: &[Event]| events_of(events, Op::Alloc) as u64;
        let (mut holes, mut noticed) = (0, 0);
        for length in [5, 20, 50] {
            for at in (lines.len() / 3..lines.len() - 2000).step_by(lines.len() / 9) {
                let rest = [&lines[..at], &lines[at + length..]].concat().join("\n") + "\n";
                let (events, done) = imported(rest.as_bytes(), true).unwrap();
                let lost = blocks(&whole.0) - blocks(&events);
                if lost == 0 {
                    continue;
                }
                holes += 1;
                noticed += u32::from(done.meta.gaps || !done.meta.losses.is_empty());
                let said = done.meta.losses.join(" ");
                assert!(!said.contains("beginning of the log"), "{name}: {said}");
                if let Some(part) = said.split_once("at the least ") {
                    let least = part
                        .1
                        .split_once(" block")
                        .map_or(0, |(count, _)| count.parse::<u64>().unwrap_or(0));
                    assert!(least <= lost, "{name}, {length} lines at {at}: {lost} lost, {said}");
                }
            }
        }
        assert!(holes >= 10 && noticed * 10 >= holes * 8, "{name}: {noticed} of {holes}");
    }
}

#[test]
fn where_lines_are_missing_is_said() {
    let of = |arena: &str, what: &str| format!("Arena @{arena} (non-class sm): {what}");
    let request = |base: &str, used: u64| {
        let after = format!(
            "after allocation: 1 chunk(s), current:@0x3, u, base {base}, level lv12 (512), used: {used}, committed: 512, committed-free: 9"
        );
        [of("0xa0", "requested 10 words."), of("0xa0", &after), of("0xa0", "returning 0x4000000.")]
    };
    let chunk =
        "allocated new chunk @0x3, u, base 0x4000000, level lv12 for requested word size 10.";
    let mut lines = vec![of("0xa0", ": born."), of("0xa0", chunk)];
    for (address, used) in [("0x4000000", 10), ("0x40000a0", 30), ("0x40000f0", 40)] {
        lines.extend(
            request("0x4000000", used)
                .map(|line| line.replace("returning 0x4000000", &format!("returning {address}"))),
        );
    }
    lines.push(of("0xa0", "returned 2 chunks, total capacity 1024 words."));
    lines.push("a line of\0\0 no text".into());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (events, done) = imported(log(&lines).as_bytes(), false).unwrap();
    assert_eq!((events_of(&events, Op::Alloc), done.meta.cut, done.meta.gaps), (3, None, true));
    let said = &done.meta.losses[0];
    assert!(said.contains("noticed 3 times, the first time at line 8; at the least 1 block, 10 words, 1 chunk, 1 damaged line"), "{said}");
}

/// Holes that only one later line reveals: noticed if certain, and not where JVMs write such lines.
#[test]
fn holes_that_one_line_gives_away_are_noticed() {
    let of = |what: &str| format!("Arena @0xa0 (non-class sm): {what}");
    let told = |block: &str| format!("Metaspace::allocate: type 7 return {block}.");
    let chunk = |what: &str| {
        format!("ChkMgr @0x1 (non-class-space): {what} chunk @0x3, u, base 0x4000000, level lv12.")
    };
    let (born, asked, free) =
        (of(": born."), of("requested 10 words."), of("taken from fbl (now: 0, 0)."));
    let (given, began) =
        (of("returning 0x4000100."), String::from(" - commit_granule_bytes: 65536."));
    let once = vec![born.clone(), asked.clone(), free.clone(), told("0x4000000")];
    let other = |line: &str| format!("#{line}");
    let vm = vec![other(&asked), other(&free), other(&asked), other(&given)];
    let cases: [(&str, Vec<String>, Option<&str>); 8] = [
        (
            "nothing is missing",
            [once.clone(), vec![asked.clone(), given.clone(), told("0x4000100")]].concat(),
            None,
        ),
        (
            "where a free block lies",
            [once.clone(), vec![asked.clone(), free.clone(), asked.clone()]].concat(),
            Some("line 7; at the least 1 block"),
        ),
        ("what the VM thread asks for", [once.clone(), vm].concat(), None),
        (
            "who asked for a free block",
            [once.clone(), vec![free.clone()]].concat(),
            Some("line 5; at the least 1 block"),
        ),
        (
            "who was told",
            [once.clone(), vec![asked.clone(), given.clone(), asked.clone()]].concat(),
            Some("noticed at line 7"),
        ),
        (
            "what came back",
            [once.clone(), vec![chunk("handing out"), chunk("handing out")]].concat(),
            Some("noticed at line 6"),
        ),
        (
            "what was handed out",
            [vec![began], once.clone(), vec![chunk(": returning")]].concat(),
            Some("noticed at line 6"),
        ),
        ("the beginning, which is known", [once, vec![chunk(": returning")]].concat(), None),
    ];
    for (name, lines, expected) in cases {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (_, done) = imported(log(&lines).as_bytes(), true).unwrap();
        let said = done
            .meta
            .losses
            .iter()
            .find(|loss| loss.contains("missing between"))
            .cloned()
            .unwrap_or_default();
        assert_eq!(done.meta.gaps, expected.is_some(), "{name}: {said}");
        assert!(said.contains(expected.unwrap_or("")), "{name}: {said}");
    }
}
