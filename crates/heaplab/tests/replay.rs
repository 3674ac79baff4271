//! `heaplab replay` from the command line to the verdict: real cells in real processes.

use heaplab_trace::bundle::{BundleWriter, Meta};
use heaplab_trace::tables::{Process, Tables, Thread};
use heaplab_trace::{Event, EventSink, Op};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Four thousand blocks of 1000 bytes, all live, then freed; usable sizes are read twice.
fn bundle(folder: &Path) -> PathBuf {
    let meta =
        Meta { program: "app --x".into(), allocator: "glibc 2.36".into(), ..Meta::default() };
    bundle_of(folder, meta)
}

/// The same, recorded as `meta` says.
fn bundle_of(folder: &Path, meta: Meta) -> PathBuf {
    let path = folder.join("app.heaplab");
    let mut writer = BundleWriter::create(&path).unwrap();
    for object in 0..4_000 {
        writer.push(&Event { object, size: 1000, ..Event::default() }).unwrap();
    }
    for object in [1, 2] {
        writer.push(&Event { op: Op::UsableSizeRead, object, ..Event::default() }).unwrap();
    }
    for object in 0..4_000 {
        writer.push(&Event { op: Op::Free, object, ..Event::default() }).unwrap();
    }
    let mut tables = Tables {
        processes: vec![Process::default()],
        threads: vec![Thread::default()],
        ..Tables::default()
    };
    tables.stacks.push(Default::default());
    tables.arenas.push(Default::default());
    writer.finish(&tables, meta).unwrap();
    path
}

fn heaplab(arguments: &[&str], bundle: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .arg("replay")
        .arg(bundle)
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn space_of_real_heaps() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle(folder.path());
    let output = heaplab(&["--space", "--verify", "--on", "glibc,jemalloc", "--json"], &bundle);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let peak =
        |heap: usize| results["heaps"][heap]["space"]["peak_resident_bytes"].as_u64().unwrap();
    for heap in [0, 1] {
        // glibc has some pages left from the cell's own beginning, which the program uses and which
        // do not count. Their number differs between runs: a busy machine gave 3,899,392 bytes.
        assert!(
            (3_890_000..8_000_000).contains(&peak(heap)),
            "{}: {}",
            results["heaps"][heap]["heap"],
            peak(heap)
        );
    }
    let caution = results["cautions"][0].as_str().unwrap();
    assert!(caution.contains("2 times") && caution.contains("glibc 2.36"), "{caution}");
    assert!(bundle.join("replay-all.program").exists());
    // What was measured is kept: another heap's cells are run, these are not.
    let names = std::fs::read_dir(bundle.join("replay-cells"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let kept = names.filter(|name| !name.to_string_lossy().starts_with("replays-")).count();
    // Each heap once more with huge pages, where the system has any.
    let beside = if results["machine"]["huge_pages"] == "never" { 0 } else { 3 };
    assert_eq!(kept, 1 + 1 + 3 + beside, "null, glibc, and three of jemalloc");
}

/// Asked to compare as the system is set, a replay still has no huge page where the recorded
/// program had switched them off.
#[test]
fn a_program_that_switched_huge_pages_off_is_replayed_without_them() {
    for without_huge_pages in [vec![0], Vec::new()] {
        let folder = tempfile::tempdir().unwrap();
        let is_off = !without_huge_pages.is_empty();
        let bundle = bundle_of(folder.path(), Meta { without_huge_pages, ..Meta::default() });
        let asked = ["--space", "--on", "glibc,mimalloc", "--huge-pages", "system", "--json"];
        let output = heaplab(&asked, &bundle);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let results: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            results["settings"]["program_without_huge_pages"].as_bool().unwrap_or(false),
            is_off,
            "{}",
            results["settings"]
        );
        let said = results.to_string();
        assert_eq!(said.contains("The program switched huge pages off"), is_off, "{said}");
        for heap in results["heaps"].as_array().unwrap().iter().filter(|_| is_off) {
            let space = &heap["space"];
            assert_eq!(space["peak_huge_page_bytes"].as_u64().unwrap_or(0), 0, "{space}");
            assert!(space["other_huge_pages"].is_null(), "{space}");
        }
    }
}

/// Three threads pass blocks on: each frees what the one before it allocated, and at one moment
/// 6,000 blocks of 1,000 bytes are live.
fn passed_on(folder: &Path) -> PathBuf {
    let path = folder.join("passed.heaplab");
    let mut writer = BundleWriter::create(&path).unwrap();
    let born =
        |object: u64| Event { object, size: 1000, thread: (object % 3) as u32, ..Event::default() };
    let freed = |object: u64| Event {
        op: Op::Free,
        object,
        thread: ((object + 1) % 3) as u32,
        ..Event::default()
    };
    (0..6_000).for_each(|object| writer.push(&born(object)).unwrap());
    (0..6_000).for_each(|object| writer.push(&freed(object)).unwrap());
    let mut tables = Tables {
        processes: vec![Process::default()],
        threads: vec![Thread::default(); 3],
        ..Tables::default()
    };
    tables.stacks.push(Default::default());
    tables.arenas.push(Default::default());
    writer.finish(&tables, Meta { program: "relay".into(), ..Meta::default() }).unwrap();
    path
}

#[test]
fn space_with_threads() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = passed_on(folder.path());
    let output = heaplab(
        &[
            "--threads",
            "--space",
            "--verify",
            "--on",
            "glibc,jemalloc,mimalloc:allow_thp=false",
            "--json",
        ],
        &bundle,
    );
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&results["settings"]["threads"], &results["workload"]["threads"]),
        (&true.into(), &3.into())
    );
    for heap in results["heaps"].as_array().unwrap() {
        let (name, space) = (&heap["heap"], &heap["space"]);
        assert_eq!(
            (space["cells"].as_u64(), heap["failures"].as_array().map(Vec::len)),
            (Some(3), Some(0)),
            "{name}"
        );
        let peak = space["peak_resident_bytes"].as_u64().unwrap();
        let range = [0, 1].map(|end| space["peak_resident_range_bytes"][end].as_u64().unwrap());
        assert!(
            (5_900_000..18_000_000).contains(&peak) && range[0] <= peak && peak <= range[1],
            "{name}: {peak} in {range:?}"
        );
        let requested = space["curve"]
            .as_array()
            .unwrap()
            .iter()
            .map(|moment| moment["requested_bytes"].as_u64().unwrap())
            .max();
        assert_eq!(requested, Some(6_000_000), "{name}");
    }
    // The same for a person: from the kept cells.
    let text = String::from_utf8(
        heaplab(
            &["--threads", "--space", "--on", "glibc,jemalloc,mimalloc:allow_thp=false"],
            &bundle,
        )
        .stdout,
    )
    .unwrap();
    let heading = text.split_whitespace().take(20).collect::<Vec<_>>().join(" ");
    assert!(
        heading.starts_with("relay: 12,000 events, 6,000 objects")
            && heading.contains("; 3 threads;"),
        "{text}"
    );
    assert!(
        text.contains("Space: ") && text.contains("jemalloc") && !text.contains("Time: "),
        "{text}"
    );
}

#[test]
fn a_library_that_cannot_serve_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle(folder.path());
    let missing = folder.path().join("missing.so").display().to_string();
    std::fs::write(folder.path().join("text.so"), "no library").unwrap();
    let text = folder.path().join("text.so").display().to_string();
    for (library, reason) in [
        (missing.as_str(), "No such file"),
        (&text, "file too short"),
        ("libm.so.6", "has no malloc of its own"),
    ] {
        let output = heaplab(&["--space", "--on", &format!("glibc,lib:{library}")], &bundle);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
        assert!(
            said.contains(library) && said.contains(reason) && said.lines().count() == 1,
            "{said}"
        );
        assert!(!bundle.join("replay-cells").exists(), "nothing has run");
    }
}

#[test]
fn time_in_blocks_that_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle(folder.path());
    let results = folder.path().join("out");
    let output = heaplab(
        &["--time", "--on", "glibc", "--reps", "1", "--results", results.to_str().unwrap()],
        &bundle,
    );
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.starts_with("app: 8,000 events, 4,000 objects"), "{text}");
    for file in ["block-00000.json", "results.json", "cells.parquet"] {
        assert!(results.join(file).exists(), "{file}");
    }
}

#[test]
fn what_is_no_heap_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle(folder.path());
    let output = heaplab(&["--on", "glibc,tcmalloc"], &bundle);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no heap \"tcmalloc\""));
    for margin in ["nan", "inf", "101"] {
        assert_eq!(
            heaplab(&["--space", "--margin", margin], &bundle).status.code(),
            Some(2),
            "{margin}"
        );
    }
    let missing = heaplab(&[], &folder.path().join("none.heaplab"));
    let reason = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(reason.matches("No such file").count(), 1, "{reason}");
    assert_eq!(missing.status.code(), Some(1));
}

/// `lib:` with a real allocator, the one of the system that most programs preload.
#[test]
fn a_library_that_is_a_heap() {
    let library = ["x86_64", "aarch64"]
        .map(|machine| format!("/usr/lib/{machine}-linux-gnu/libjemalloc.so.2"));
    let Some(library) = library.iter().find(|path| Path::new(path).exists()) else {
        heaplab_oracle::skip("libjemalloc.so.2 is not installed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle(folder.path());
    let library = format!("lib:{library}");
    let output = heaplab(
        &["--space", "--verify", "--on", &format!("jemalloc,{library}"), "--json"],
        &bundle,
    );
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results["heaps"][1]["heap"], library);
    assert_eq!(results["heaps"][1]["failures"], serde_json::json!([]));
    let peak =
        |heap: usize| results["heaps"][heap]["space"]["peak_resident_bytes"].as_u64().unwrap();
    // 4,000 blocks of 1,024 usable bytes, and what jemalloc keeps about them.
    assert!((4_096_000..6_000_000).contains(&peak(1)), "{} against {} built in", peak(1), peak(0));
    let text = heaplab(&["--space", "--on", &format!("jemalloc,{library}")], &bundle).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains("1 cells") && !text.contains("1 blocks"), "{text}");
}

/// Lines `h` of the text format go to map space in `v8:`; other heaps make ordinary blocks of them.
#[test]
fn hidden_classes_have_a_space_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from("# heap-replay-text 1\n");
    for _ in 0..2_000 {
        text += "a 100 - 1\nh 80 - 1\nh 80 - 1\nf 1 1\n";
    }
    text += "gc 1\n";
    let (from, bundle) = (folder.path().join("maps.txt"), folder.path().join("maps.heaplab"));
    std::fs::write(&from, text).unwrap();
    let imported = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(["import".as_ref(), from.as_os_str(), "-o".as_ref(), bundle.as_os_str()])
        .output()
        .unwrap();
    assert_eq!(imported.status.code(), Some(0), "{}", String::from_utf8_lossy(&imported.stderr));
    let heaps = "v8:many,v8:version=8.4,shape=recorded,glibc,textbook:mark-sweep";
    let output = heaplab(&["--space", "--verify", "--on", heaps, "--json"], &bundle);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (heap, map_bytes) in [(0, 80), (1, 72)] {
        let collections = results["heaps"][heap]["collections"].as_array().unwrap();
        let spaces = collections.last().unwrap()["spaces"].as_array().unwrap();
        let map = spaces.iter().find(|space| space["name"] == "map").unwrap();
        assert_eq!(map["before"]["used_bytes"], 4_000 * map_bytes);
        assert_eq!(map["after"]["used_bytes"], 2_000 * map_bytes);
        assert_eq!(map["after"]["committed_bytes"], 2 * (256 << 10));
    }
}

#[test]
fn a_folder_whose_name_is_not_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9.heaplab"));
    std::fs::rename(bundle(folder.path()), &odd).unwrap();
    let output = heaplab(&["--space", "--on", "glibc"], &odd);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Threads that come and go one after the other, each with a block of its own.
fn threads(folder: &Path, threads: u32) -> PathBuf {
    let path = folder.join("threads.heaplab");
    let mut writer = BundleWriter::create(&path).unwrap();
    for thread in 0..threads {
        let event = Event {
            thread,
            object: thread.into(),
            size: 64,
            time_ns: thread.into(),
            ..Event::default()
        };
        writer.push(&event).unwrap();
        writer.push(&Event { op: Op::Free, size: 0, ..event }).unwrap();
    }
    let table = (0..threads).map(|_| Thread::default()).collect();
    let mut tables =
        Tables { processes: vec![Process::default()], threads: table, ..Tables::default() };
    tables.stacks.push(Default::default());
    tables.arenas.push(Default::default());
    writer
        .finish(
            &tables,
            Meta { program: "spawner".into(), duration_ns: threads.into(), ..Meta::default() },
        )
        .unwrap();
    path
}

#[test]
fn a_million_threads_are_reported_and_not_started() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = threads(folder.path(), 1_000_000);
    let report =
        Command::new(env!("CARGO_BIN_EXE_heaplab")).arg("report").arg(&bundle).output().unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains("1,000,000 threads"), "{report}");
    let refused = heaplab(&["--threads", "--space"], &bundle);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0), "{said}");
    assert!(
        said.contains("1,000,000 threads")
            && said.contains("262,144")
            && said.contains("without --threads"),
        "{said}"
    );
    assert!(!bundle.join("replay-cells").exists(), "no cell was begun");
}
