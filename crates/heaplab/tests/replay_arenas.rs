//! `heaplab replay` of a workload with arenas: on libraries that have them, on mallocs that free
//! block by block, and on a metaspace.

use heaplab_trace::bundle::{BundleWriter, Meta};
use heaplab_trace::tables::{Arena, Process, Tables, Thread};
use heaplab_trace::{Event, EventSink, Op};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const ARENAS: u32 = 400;
const BLOCKS: u64 = 100;
const BYTES: u64 = 200;
/// In one of so many arenas every other block dies before it.
const ALONE: u32 = 100;

/// Four hundred arenas of a hundred blocks of 200 bytes, of which nine in ten die; all others
/// outlive the recording.
fn bundle(folder: &Path, alone: bool) -> PathBuf {
    let path = folder.join(if alone { "alone.heaplab" } else { "whole.heaplab" });
    let mut writer = BundleWriter::create(&path).unwrap();
    let mut push = |event: Event| writer.push(&event).unwrap();
    let mut object = 0;
    for arena in 1..=ARENAS {
        push(Event { op: Op::ArenaBirth, arena, ..Event::default() });
        for nth in 0..BLOCKS {
            push(Event { object, arena, size: BYTES, align_log2: 3, ..Event::default() });
            if alone && arena % ALONE == 0 && nth % 2 == 0 {
                push(Event { op: Op::Free, object, arena, ..Event::default() });
            }
            object += 1;
        }
    }
    for arena in (1..=ARENAS).filter(|arena| arena % 10 != 0) {
        push(Event { op: Op::ArenaDeath, arena, ..Event::default() });
    }
    let mut tables = Tables {
        processes: vec![Process::default()],
        threads: vec![Thread::default()],
        ..Tables::default()
    };
    tables.stacks.push(Default::default());
    tables.arenas.push(Arena::default());
    for _ in 0..ARENAS {
        tables.arenas.push(Arena {
            kind: "non-class".into(),
            growth_policy: "standard".into(),
            ..Arena::default()
        });
    }
    writer
        .finish(
            &tables,
            Meta {
                program: "app".into(),
                allocator: "HotSpot metaspace".into(),
                ..Meta::default()
            },
        )
        .unwrap();
    path
}

fn replayed(bundle: &Path, arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .arg("replay")
        .arg(bundle)
        .args(arguments)
        .arg("--json")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn bytes(results: &Value, heap: &str, what: &str) -> u64 {
    let heaps = results["heaps"].as_array().unwrap();
    let found = heaps
        .iter()
        .find(|found| found["heap"] == heap)
        .unwrap_or_else(|| panic!("{heap} is not among {heaps:?}"));
    assert_eq!(found["failures"], serde_json::json!([]), "{heap}");
    found["space"][what]
        .as_u64()
        .unwrap_or_else(|| panic!("{heap} has no {what}: {}", found["space"]))
}

#[test]
fn arenas_on_libraries_mallocs_and_a_metaspace_keep_every_block() {
    let folder = tempfile::tempdir().unwrap();
    let requested = u64::from(ARENAS) * BLOCKS * BYTES;
    for (alone, heaps) in [(false, "elastic,bump"), (true, "elastic,glibc,metaspace:jdk17")] {
        let bundle = bundle(folder.path(), alone);
        let results = replayed(&bundle, &["--space", "--verify", "--on", heaps]);
        for heap in heaps.split(',') {
            let peak = bytes(&results, heap, "peak_resident_bytes");
            // bumpalo's chunks double, and HotSpot's granules are 64 KB.
            assert!(
                (requested..2 * requested).contains(&peak),
                "{heap}: {peak} resident for {requested}"
            );
        }
        let (peak, resident) = (
            bytes(&results, "elastic", "peak_committed_bytes"),
            bytes(&results, "elastic", "peak_resident_bytes"),
        );
        assert!(
            (requested..requested * 11 / 10).contains(&peak),
            "{peak} committed for {requested}"
        );
        // What the adapter keeps beside (the sizes of 200 blocks) and the driver are not a share of
        // the workload.
        assert!(resident < peak + (1 << 20), "{resident} resident of {peak} committed");
        let live = requested / 10;
        let trimmed = bytes(&results, "elastic", "end_committed_bytes");
        assert!(
            trimmed < live * 3 / 2 + (256 << 10),
            "{trimmed} committed for {live} live bytes: dead arenas are given back"
        );
    }
}

#[test]
fn a_pass_begins_where_the_one_before_began() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle(folder.path(), true);
    let results = replayed(&bundle, &["--time", "--reps", "1", "--on", "elastic"]);
    for heap in results["heaps"].as_array().unwrap() {
        assert_eq!(heap["failures"], serde_json::json!([]), "{heap}");
        assert!(heap["time"].is_object(), "{heap}");
    }
}

/// What one kind of arena is given it has, and no other.
#[test]
fn arenas_grow_as_their_kind_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle(folder.path(), false);
    let [all, kind, sizes, recorded] =
        ["large", "non-class:large", "non-class:64k+256k/micro", "recorded"]
            .map(|growth| format!("elastic:granule=64k,growth={growth}"));
    let results =
        replayed(&bundle, &["--space", "--on", &[&*all, &*kind, &*sizes, &*recorded].join(",")]);
    // Twenty thousand bytes in a first chunk of a granule take all of it, and share granules with
    // others' where chunks are small.
    let committed = |heap: &str| bytes(&results, heap, "peak_committed_bytes");
    assert_eq!(
        [&all, &kind, &sizes].map(|heap| committed(heap)),
        [u64::from(ARENAS) * (64 << 10); 3]
    );
    assert!(committed(&recorded) < committed(&all) / 2, "{}", committed(&recorded));
    let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .arg("replay")
        .arg(&bundle)
        .args(["--on", "elastic:growth=class:fast"])
        .output();
    let output = output.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), said.as_str()),
        (
            Some(2),
            "heaplab: --on: elastic:growth=class:fast: no arena of the workload is of kind class; they are non-class\n"
        )
    );
}

#[test]
fn arenas_on_threads_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle(folder.path(), false);
    let replay = ["replay", "--space", "--threads", "--on", "elastic"];
    let output =
        Command::new(env!("CARGO_BIN_EXE_heaplab")).args(replay).arg(&bundle).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let expected = format!("{}: its blocks live in {ARENAS} arenas", bundle.display());
    assert!(said.contains(&expected) && said.contains("leave out --threads"), "{said}");
}
