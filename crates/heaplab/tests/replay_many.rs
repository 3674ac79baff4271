//! `heaplab replay` of several recordings: one table, and Ctrl-C that loses no finished cell.

use heaplab_trace::bundle::{BundleWriter, Meta};
use heaplab_trace::tables::{Process, Tables, Thread};
use heaplab_trace::{Event, EventSink, Op};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

const HEAPS: &str = "v8:legacy,every=500,v8:many,every=500,textbook:mark-sweep,glibc";

/// Blocks of `size` bytes, each dead when the next hundred are born.
fn bundle(folder: &Path, name: &str, size: u64) -> PathBuf {
    let path = folder.join(name);
    let mut writer = BundleWriter::create(&path).unwrap();
    for object in 0..3_000 {
        writer.push(&Event { object, size, ..Event::default() }).unwrap();
        if object >= 100 {
            let dead = object - 100;
            writer.push(&Event { op: Op::Free, object: dead, ..Event::default() }).unwrap();
        }
    }
    let mut tables = Tables {
        processes: vec![Process::default()],
        threads: vec![Thread::default()],
        ..Tables::default()
    };
    tables.stacks.push(Default::default());
    tables.arenas.push(Default::default());
    let meta = Meta { program: "app".into(), allocator: "glibc 2.36".into(), ..Meta::default() };
    writer.finish(&tables, meta).unwrap();
    path
}

fn replay(bundles: &[PathBuf], more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    command.arg("replay").args(bundles).args(["--space", "--on", HEAPS]).args(more);
    command
}

/// The kept space cells of a bundle, and when each was written.
fn cells(bundle: &Path) -> Vec<(PathBuf, SystemTime)> {
    let Ok(entries) = fs::read_dir(bundle.join("replay-cells")) else { return Vec::new() };
    let of = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let is_cell = entry.file_name().to_string_lossy().starts_with("space-");
        Some((entry.path(), entry.metadata().ok()?.modified().ok()?)).filter(|_| is_cell)
    };
    entries.filter_map(of).collect()
}

#[test]
fn an_interrupted_grid_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let bundles: Vec<PathBuf> = [("small.heaplab", 64), ("medium.heaplab", 900)]
        .map(|(name, size)| bundle(folder.path(), name, size))
        .into();
    let child =
        replay(&bundles, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while cells(&bundles[0]).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(100), "no cell was kept");
        std::thread::sleep(Duration::from_millis(2));
    }
    // As Ctrl-C; a shell without job control lets what it starts in the background ignore SIGINT.
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(143), "{errors}");
    assert!(
        errors.contains("interrupted") && errors.contains("same command continues"),
        "{errors}"
    );
    assert!(output.stdout.is_empty(), "half of a grid is no table");
    let before = cells(&bundles[0]);
    assert!(cells(&bundles[1]).is_empty(), "the second recording was not begun");

    let results = folder.path().join("results");
    let output = replay(&bundles, &["--results", &results.display().to_string()]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("2 workloads on 4 heaps"), "{text}");
    for word in ["small", "medium", "v8:many", "textbook:mark-sweep", "Least space in the mean"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let after = cells(&bundles[0]);
    assert!(!before.is_empty() && before.len() < after.len());
    assert!(before.iter().all(|cell| after.contains(cell)), "a kept cell was run again");
    for name in ["small", "medium"] {
        for file in ["results.json", "cells.parquet", "collections.parquet"] {
            assert!(results.join(name).join(file).exists(), "{name}/{file}");
        }
    }

    let output = replay(&bundles, &["--json"]).output().unwrap();
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |at: usize| all[at]["heaps"].as_array().unwrap().len();
    assert_eq!((of(0), of(1)), (4, 4));
    assert_eq!(cells(&bundles[0]), after, "nothing is run twice");
}

#[test]
fn two_recordings_of_one_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&two).unwrap();
    let bundles = [bundle(&one, "app.heaplab", 64), bundle(&two, "app.heaplab", 64)];
    let output = replay(&bundles, &[]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("app names two recordings"), "{errors}");
}

#[test]
fn a_strategy_of_ones_own_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let own = bundle(folder.path(), "app.heaplab", 900);
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../heaps/v8/tests/fixtures/strategy.toml");
    let heaps = format!("v8:file={},every=500", file.display());
    let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .arg("replay")
        .arg(&own)
        .args(["--space", "--verify", "--json", "--on", &heaps])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let heap = &all["heaps"][0];
    assert_eq!(heap["failures"], Value::Array(Vec::new()));
    let forced = heap["collections"].as_array().unwrap().iter().filter(|c| c["cause"] == "forced");
    assert_eq!(forced.count(), 6);
}
