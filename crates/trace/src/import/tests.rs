//! Small traces in each format, legal and broken.

use super::*;
use crate::bundle::{Bundle, BundleWriter, Selection};
use crate::order::OrderChecker;
use crate::{Event, EventSource, FREED_BY_PROGRAM, Flags, NOTICED_AT_COLLECTION, Op, Origin};
use proptest::prelude::*;
use std::io::Write;
use std::path::Path;
use std::process::Command;

fn imported(text: &[u8], lenient: bool) -> Result<(Vec<Event>, Imported), TraceError> {
    let options = ImportOptions { name: "trace.txt".into(), lenient };
    let mut events = Vec::new();
    let imported = import(text, None, &options, &mut events)?;
    let mut checker = OrderChecker::new("imported", &imported.tables);
    events.iter().for_each(|event| checker.check(event).unwrap());
    Ok((events, imported))
}

fn message(text: &str) -> String {
    imported(text.as_bytes(), false).unwrap_err().to_string()
}

/// Operation, object, size, alignment, flags: the content of most formats.
fn brief(events: &[Event]) -> Vec<(Op, u64, u64, u8, Flags)> {
    events
        .iter()
        .map(|event| (event.op, event.object, event.size, event.align_log2, event.flags))
        .collect()
}

const GIT: &[u8] = include_bytes!("../../tests/data/git-pack-objects.txt.gz");

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut text).unwrap();
    text
}

#[test]
fn a_recording_as_text_goes_through_a_bundle_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("git.heaplab");
    let mut writer = BundleWriter::create(&path).unwrap();
    let done = import(GIT, None, &ImportOptions::default(), &mut writer).unwrap();
    writer.finish(&done.tables, done.meta).unwrap();

    let bundle = Bundle::open(&path).unwrap();
    bundle.verify().unwrap();
    assert_eq!((bundle.meta().events, bundle.meta().objects), (246_286, 115_928 + 6_741));
    let tids = bundle.tables().threads.iter().map(|thread| thread.tid).collect();
    let mut text = TextWriter::new(Vec::new(), "back.txt", tids, FREED_BY_PROGRAM).unwrap();
    bundle.events(Selection::default()).unwrap().for_each(|event| text.push(event)).unwrap();
    let (text, left_out) = text.finish().unwrap();
    assert_eq!(left_out, 0);
    assert!(text == unpacked(GIT));
}

const COLLECTED: &str = "# heap-replay-text 1\n# death-rule: noticed at a collection\na 24 - 1\nA 4096 - 1\np 2 1\ngc 1\nf 1 1\ngc-young 1\ntrim 1\nh 80 - 1\n";

#[test]
fn the_example_of_the_document_is_read() {
    let document = include_str!("../../../../docs/text-format.md");
    let example = document.split("```\n").nth(1).unwrap();
    let (events, _) = imported(example.as_bytes(), false).unwrap();
    assert_eq!(events.len(), 8);
    let of = |op| events.iter().find(|event| event.op == op).unwrap();
    assert_eq!((of(Op::Promote).object, of(Op::Realloc).object, of(Op::Free).object), (0, 2, 1));
}

#[test]
fn text_has_what_collected_heaps_need() {
    let (events, done) = imported(COLLECTED.as_bytes(), false).unwrap();
    assert_eq!(done.meta.death_rule, NOTICED_AT_COLLECTION);
    let ops: Vec<_> = events
        .iter()
        .map(|event| (event.op, event.object, event.has(Flags::DIRECT_TO_OLD), event.origin))
        .collect();
    let normal = Origin::Normal;
    let expected = [
        (Op::Alloc, 0, false, normal),
        (Op::Alloc, 1, true, normal),
        (Op::Promote, 0, false, normal),
        (Op::Collect, 0, false, normal),
        (Op::Free, 1, false, normal),
        (Op::CollectYoung, 0, false, normal),
        (Op::Trim, 0, false, normal),
        (Op::Alloc, 2, false, Origin::HiddenClass),
    ];
    assert_eq!(ops, expected);
    let mut back = TextWriter::new(Vec::new(), "back", vec![1], &done.meta.death_rule).unwrap();
    events.iter().for_each(|event| back.push(event).unwrap());
    let (text, left_out) = back.finish().unwrap();
    let without_heads = |text: &str| {
        text.lines().filter(|line| !line.starts_with("# heap")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        (without_heads(&String::from_utf8(text).unwrap()), left_out),
        (without_heads(COLLECTED), 0)
    );
    assert_eq!(imported(b"a 8 - 1\ngc\n", false).unwrap().0[1].op, Op::Collect);
    assert!(
        message("# heap-replay-text 1\n# death-rule: by magic\n")
            .contains("a death rule: freed by the program, or")
    );
    assert!(
        message("a 8 - 1\n# death-rule: by reachability\n").contains("before the first allocation")
    );
    assert!(message("a 8 - 1\ngc x\n").contains("a thread, a decimal number, or nothing"));
    assert!(message("a 8 - 1\np 2 1\n").contains("at most 1 allocations ago, 1 is the newest"));
    assert!(message("f 1 1\n").contains("nothing was allocated yet"));
    assert!(message("a 8 - 1\nf 1 1\np 1 1\n").contains("is promoted, but it is not allocated"));
}

proptest! {
    #[test]
    fn text_written_is_text_read(steps in prop::collection::vec((0u8..5, 0u64..1 << 40, 0u64..5, 0u64..3, any::<prop::sample::Index>()), 0..200)) {
        // Stacks and threads are numbered in their order of appearance in the written text, so only
        // those written once can come back.
        let mut written = String::from("# heap-replay-text 1: a size stack tid | c size stack tid (calloc) | m size stack tid (aligned) | r back size stack tid | f back tid ; back = allocations ago\n");
        let (mut live, mut numbers, mut stacks) = (Vec::new(), 0u64, 0u64);
        for (kind, size, stack, tid, which) in steps {
            let stack = stack.min(stacks);
            let chosen = (!live.is_empty()).then(|| which.index(live.len()));
            match (kind, chosen) {
                (0..=2, _) => written += &format!("{} {size} {stack} {tid}\n", ["a", "c", "m"][kind as usize]),
                (3, Some(at)) => written += &format!("r {} {size} {stack} {tid}\n", numbers + 1 - live.swap_remove(at)),
                (4, Some(at)) => {
                    written += &format!("f {} {tid}\n", numbers + 1 - live.swap_remove(at));
                    continue;
                }
                _ => continue,
            }
            stacks = stacks.max(stack + 1);
            numbers += 1;
            live.push(numbers);
        }
        let (events, done) = imported(written.as_bytes(), false).unwrap();
        let tids = done.tables.threads.iter().map(|thread| thread.tid).collect();
        let mut back = TextWriter::new(Vec::new(), "back", tids, FREED_BY_PROGRAM).unwrap();
        events.iter().for_each(|event| back.push(event).unwrap());
        prop_assert_eq!(String::from_utf8(back.finish().unwrap().0).unwrap(), written);
    }

    #[test]
    fn any_text_is_imported_or_refused(lines in prop::collection::vec("[0-9a-fA-F#vXxIstimcR+:(),=. -]{0,24}", 0..12), which in 0usize..4) {
        let format = [Format::Text, Format::Android, Format::Logalloc, Format::Heaptrack][which];
        let mut events = Vec::new();
        let options = ImportOptions { lenient: true, ..ImportOptions::default() };
        let _ = import(lines.join("\n").as_bytes(), Some(format), &options, &mut events);
    }
}

#[test]
fn the_readme_example_of_logalloc_raw_and_munged() {
    let raw = "18545 18545 malloc(32)=0x7f90495120e0\n18545 18545 calloc(1,148)=0x7f9049537480\n\
               18545 18545 realloc(0x7f90495120e0,64)=0x7f9049536680\n18545 18545 posix_memalign(256,240)=0x7f9049583300\n\
               18545 18545 jemalloc_stats()\n18545 18545 free(0x7f9049536680)\n";
    let munged = "1 1 malloc(32)=#1\n1 1 calloc(1,148)=#2\n1 1 realloc(#1,64)=#1\n1 1 posix_memalign(256,240)=#3\n\
                  1 1 jemalloc_stats()\n1 1 free(#1)\n";
    let none = Flags::default();
    let expected = |realloc| {
        vec![
            (Op::Alloc, 0, 32, 0, none),
            (Op::Alloc, 1, 148, 0, Flags::ZEROED),
            (Op::Realloc, 0, 64, 0, realloc),
            (Op::Alloc, 2, 240, 8, none),
            (Op::Mark, 0, 0, 0, none),
            (Op::Free, 0, 0, 0, none),
        ]
    };
    let (events, done) = imported(raw.as_bytes(), false).unwrap();
    assert_eq!((brief(&events), done.meta.moves_unknown), (expected(Flags::MOVED), false));
    let (events, done) = imported(munged.as_bytes(), false).unwrap();
    assert!(done.meta.moves_unknown, "a slot says nothing of where its object lies");
    assert_eq!(brief(&events), expected(none));
    assert_eq!(
        (done.tables.marks.len(), done.tables.processes[0].pid, done.tables.threads[0].tid),
        (1, 1, 1)
    );
}

#[test]
fn what_reallocates_nothing_leaves_no_move_unknown() {
    let header = "# heap-replay-text 1\n";
    let unknown = |lines: &str| {
        imported(format!("{header}{lines}").as_bytes(), false).unwrap().1.meta.moves_unknown
    };
    assert!(unknown("a 8 1 1\nr 1 16 1 1\n"));
    assert!(!unknown("a 8 1 1\nf 1 1\n"));
}

#[test]
fn processes_of_logalloc_do_not_share_pointers() {
    let text = "7 7 malloc(1)=0x10\n8 8 malloc(2)=0x10\n8 8 free(0x10)\n7 9 free(0x10)\n";
    let (events, done) = imported(text.as_bytes(), false).unwrap();
    let rows: Vec<_> =
        events.iter().map(|event| (event.object, event.process, event.thread)).collect();
    assert_eq!(rows, [(0, 0, 0), (1, 1, 1), (1, 1, 1), (0, 0, 2)]);
    assert_eq!(done.tables.threads[2].tid, 9);
}

#[test]
fn odd_calls_of_logalloc() {
    let text = "5 malloc(18446744073709551615)=0x0\n5 calloc(4294967296,4294967296)=(nil)\n5 realloc(0x0,8)=0x20\n\
                5 free(0x0)\n5 moz_arena_realloc(3,0x20,16)=0x30\n5 realloc(0x30,0)=0x0\n5 moz_create_arena()=0x1\n";
    let (events, done) = imported(text.as_bytes(), false).unwrap();
    let expected = [
        (Op::Alloc, 0, u64::MAX, 0, Flags::FAILED),
        (Op::Alloc, 0, u64::MAX, 0, Flags::FAILED.with(Flags::ZEROED)),
        (Op::Alloc, 0, 8, 0, Flags::default()),
        (Op::Realloc, 0, 16, 0, Flags::MOVED),
        (Op::Free, 0, 0, 0, Flags::default()),
    ];
    assert_eq!(brief(&events), expected);
    assert!(
        done.meta.losses.iter().any(|loss| loss.starts_with("1 call names an arena")),
        "{:?}",
        done.meta.losses
    );
}

#[test]
fn a_null_pointer_alone_is_no_call_of_logalloc() {
    for text in ["9 =(nil)\n", "9 9 =(nil)\n", "9 )=(nil)\n", "9 (=(nil)\n"] {
        let error = import(
            text.as_bytes(),
            Some(Format::Logalloc),
            &ImportOptions::default(),
            &mut Vec::<Event>::new(),
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains("a line of logalloc"), "{text:?}: {error}");
    }
}

#[test]
fn memory_replay_with_and_without_times() {
    let plain = "186: malloc 0xb6038060 20\n186: calloc 0xb609f080 32 4\n187: realloc 0xb609f180 0xb609f080 12\n\
                 186: memalign 0x85423660 16 104\n187: free 0xb609f180\n187: thread_done 0x0\n";
    let timed = "186: malloc 0xb6038060 20 1000 1010\n186: calloc 0xb609f080 32 4 1020 1030\n\
                 187: realloc 0xb609f180 0xb609f080 12 1040 1050\n186: memalign 0x85423660 16 104 1060 1070\n\
                 187: free 0xb609f180 1080 1090\n187: thread_done 0x0 1100\n";
    let expected = [
        (Op::Alloc, 0, 20, 0, Flags::default()),
        (Op::Alloc, 1, 128, 0, Flags::ZEROED),
        (Op::Realloc, 1, 12, 0, Flags::MOVED),
        (Op::Alloc, 2, 104, 4, Flags::default()),
        (Op::Free, 1, 0, 0, Flags::default()),
    ];
    let (events, done) = imported(plain.as_bytes(), false).unwrap();
    assert_eq!(brief(&events), expected);
    assert!(events.iter().all(|event| event.time_ns == 0), "no time is made up");
    assert_eq!(done.meta.losses, ["the trace has no time stamps"]);
    let (events, done) = imported(timed.as_bytes(), false).unwrap();
    assert_eq!(brief(&events), expected);
    assert_eq!(events.iter().map(|event| event.time_ns).collect::<Vec<_>>(), [10, 30, 50, 70, 80]);
    assert_eq!(events[4].thread, 1);
    assert_eq!(done.meta.losses, [""; 0]);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let messages = [
        message("a 5 0 1\nf 1 1\nf 1 1\n"),
        message("a 5 0 1\nf 2 1\n"),
        message("a 18446744073709551616 0 1\n"),
        message("1: malloc 0x10 5\n1: malloc 0x10 6\n"),
        message("1: malloc 0x10\n"),
        message("1: malloc 0x10 18446744073709551615\n"),
        message("1: malloc 0x10 5\n1: realloc 0x20 0x10 18446744073709551615\n"),
        message("1: calloc 0x10 18446744073709551615 2\n"),
        message("1: free 0x10 5\n"),
        message("1 1 malloc(5)\n"),
        message("1 1 memalign(24,5)=0x10\n"),
        message("1 1 mallocx(5)=0x10\n"),
        message("v 10400 9\n"),
        message("v 10400 3\nt 5 7\n"),
        message("v 10400 3\nx ff /bin/ls\n"),
        message("#!/bin/sh\n"),
        message("# heap-replay-text 2: a size\na 5 0 1\n"),
        message("# heap-replay-text 10\na 5 0 1\n"),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn lenient_drops_and_counts() {
    let (events, done) = imported(
        b"1: free 0x10\n1: malloc 0x20 5\n1: malloc 0x20 6\n1: realloc 0x30 0x40 7\n",
        true,
    )
    .unwrap();
    let expected = [(Op::Alloc, 0), (Op::Free, 0), (Op::Alloc, 1), (Op::Alloc, 2)];
    assert_eq!(events.iter().map(|event| (event.op, event.object)).collect::<Vec<_>>(), expected);
    insta::assert_snapshot!(done.meta.losses.join("\n"));
}

#[test]
fn a_last_line_that_was_cut_is_dropped_leniently_and_said() {
    let cut: [&[u8]; 4] = [
        b"a 64 0 1\na 4096 0 1\nf 1",
        b"1: malloc 0x10 64\n1: malloc 0x20 4096\n1: mall",
        b"1 1 malloc(64)=0x10\n1 1 malloc(4096)=0x20\n1 1 malloc(81",
        b"v 10400 3\na 40 0\n+ 0\na 1000 0\n+ 1\na 10",
    ];
    for trace in cut {
        let shown = String::from_utf8_lossy(trace);
        let (events, done) = imported(trace, true).unwrap();
        let sizes: Vec<u64> =
            events.iter().filter(|event| event.op == Op::Alloc).map(|event| event.size).collect();
        assert_eq!((sizes, done.meta.cut), (vec![64, 4096], None), "{shown}");
        let last = trace.iter().filter(|byte| **byte == b'\n').count() + 1;
        assert_eq!(
            done.meta.losses.last().unwrap(),
            &format!(
                "line {last}, the last one, has no line feed: it may be half a line, and was dropped"
            )
        );
        let mut whole =
            trace[..trace.iter().rposition(|byte| *byte == b'\n').unwrap() + 1].to_vec();
        whole.extend_from_slice(b" ");
        assert!(
            imported(&whole, true)
                .unwrap()
                .1
                .meta
                .losses
                .iter()
                .all(|loss| !loss.contains("last one")),
            "{shown}"
        );
    }
    let error = imported(cut[1], false).unwrap_err().to_string();
    assert!(error.contains("line 3") && error.contains("--lenient drops such a line"), "{error}");
}

#[test]
fn a_file_that_was_cut_is_told_with_place_and_way_out() {
    let lines: String =
        (0..200).map(|object| format!("a {object} {} 1\n", object * 7919 % 1000)).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(lines.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(lines.as_bytes(), 1).unwrap();
    for (file, unpack) in [(gzip, "zcat FILE"), (zstd, "zstdcat FILE")] {
        assert!(imported(&file, false).is_ok());
        let Err(TraceError::Io { path, source, .. }) = imported(&file[..file.len() - 30], false)
        else {
            panic!("{unpack}: it was read")
        };
        let (said, bytes) = (source.to_string(), format!("after {} bytes", file.len() - 30));
        assert!(
            said.contains(&bytes) && said.contains("was cut") && said.contains(unpack),
            "{}: {said}",
            path.display()
        );
    }
}

#[test]
fn a_bomb_is_refused() {
    let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    zstd.write_all(b"a 1 0 1\n").unwrap();
    (0..80).for_each(|_| zstd.write_all(&vec![b'\n'; 1 << 20]).unwrap());
    let error = imported(&zstd.finish().unwrap(), false).unwrap_err();
    assert!(format!("{error:?}").contains("2000-fold"), "{error:?}");
    let line = vec![b'1'; 3 << 20];
    assert!(matches!(
        imported(&line, false),
        Err(TraceError::Malformed { .. } | TraceError::Limit { .. })
    ));
}

/// The output of heaptrack's own tool for a file: allocations, peak bytes rounded, and leaks as
/// printed.
fn printed(path: &Path) -> Option<String> {
    let output = Command::new("heaptrack_print").arg(path).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn heaptrack_files_hold_what_heaptrack_print_says() {
    let programs = ["heaptrack", "heaptrack_print", "sqlite3"];
    if !programs.iter().all(|program| heaplab_oracle::has(program)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = |name: &str, raw: &[&str]| {
        let script = "CREATE TABLE t(x); INSERT INTO t SELECT value FROM generate_series(1, 3000); SELECT sum(x) FROM t ORDER BY 1;";
        let out = folder.path().join(name);
        let status = Command::new("heaptrack")
            .args(raw)
            .arg("-o")
            .arg(&out)
            .args(["sqlite3", ":memory:", script])
            .output()
            .unwrap();
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
        let entries = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        entries
            .into_iter()
            .find(|path| path.file_name().unwrap().to_string_lossy().starts_with(name))
            .unwrap()
    };
    let interpreted = record("interpreted", &[]);
    let text = printed(&interpreted).unwrap();
    let said: u64 = text
        .split("calls to allocation functions: ")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let (events, done) = imported(&std::fs::read(&interpreted).unwrap(), false).unwrap();
    assert_eq!(events.iter().filter(|event| event.op == Op::Alloc).count() as u64, said);
    let functions: Vec<_> =
        done.tables.frames.iter().filter_map(|frame| frame.function.as_deref()).collect();
    assert!(functions.contains(&"sqlite3_step"), "{functions:?}");

    let (events, done) =
        imported(&std::fs::read(record("raw", &["--raw"])).unwrap(), false).unwrap();
    // Another run of the same program: not equal to the last allocation, but the same program.
    let raw = events.iter().filter(|event| event.op == Op::Alloc).count() as u64;
    assert!(raw.abs_diff(said) < said / 50, "{raw} allocations raw, {said} interpreted");
    let sqlite =
        done.tables.modules.iter().position(|module| module.path.contains("libsqlite3")).unwrap()
            as u32;
    assert!(done.tables.frames.iter().any(|frame| frame.module == Some(sqlite)));
}
