//! `heaplab sweep` on real heaps: shards, a kill in the middle, and what a machine reads.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const TRACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");

fn heaplab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(["sweep"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn passed(output: Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A plan of two recordings, in a folder that has them.
fn plan(heaps: &str, lines: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["sqlite", "python"] {
        let to = folder.path().join(format!("{name}.heaplab"));
        fs::create_dir(&to).unwrap();
        for entry in fs::read_dir(format!("{TRACES}/{name}.heaplab")).unwrap() {
            let entry = entry.unwrap();
            if entry.path().is_file() {
                fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
    let text =
        format!("bundles = ['sqlite.heaplab', 'python.heaplab']\nheaps = [{heaps}]\n{lines}\n");
    fs::write(folder.path().join("plan.toml"), text).unwrap();
    folder
}

fn space_files(folder: &Path) -> Vec<Vec<u8>> {
    ["sqlite", "python"]
        .iter()
        .map(|name| fs::read(folder.join(name).join("space.json")).unwrap())
        .collect()
}

#[test]
fn shards_and_one_run_write_the_same_files() {
    let folder = plan("'glibc', 'elastic:growth={small,learned}'", "only = 'space'");
    passed(heaplab(folder.path(), &["plan.toml", "-o", "whole", "-q"]));
    // What is kept beside the recordings is not what makes them equal.
    for name in ["sqlite", "python"] {
        let kept = folder.path().join(format!("{name}.heaplab/replay-cells"));
        fs::remove_dir_all(kept).unwrap();
    }
    // Neither is where they lie: a cell's own heap does not know.
    let far = folder.path().join("a-folder-whose-name-is-longer-than-that-of-its-parent".repeat(3));
    fs::create_dir(&far).unwrap();
    for name in ["sqlite.heaplab", "python.heaplab", "plan.toml"] {
        fs::rename(folder.path().join(name), far.join(name)).unwrap();
    }
    for part in ["0/2", "1/2"] {
        passed(heaplab(&far, &["plan.toml", "-o", "../parts", "-q", "--shard", part]));
    }
    assert_eq!(
        space_files(&folder.path().join("whole")),
        space_files(&folder.path().join("parts"))
    );
    let report = passed(heaplab(folder.path(), &["report", "parts"]));
    assert!(report.contains("2 workloads on 3 heaps"), "{report}");
    assert!(!report.contains("not there yet"), "{report}");
    let csv = passed(heaplab(folder.path(), &["report", "parts", "--csv", "-"]));
    assert_eq!(csv.lines().count(), 1 + 2 * 3, "{csv}");
    assert!(csv.lines().nth(2).unwrap().starts_with("sqlite,elastic:growth=small,space,"));
}

#[test]
fn a_killed_sweep_goes_on() {
    let folder = plan("'glibc'", "only = 'time'\nrepetitions = 3");
    let jobs = passed(heaplab(folder.path(), &["plan.toml", "--list"]));
    let jobs: Vec<Value> = jobs.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(jobs.len(), 6);
    assert_eq!(jobs[1]["job"], "python/block-00000");
    assert_eq!(jobs[1]["timed"], true);
    let first = jobs[0]["job"].as_str().unwrap();
    passed(heaplab(folder.path(), &["plan.toml", "-o", "out", "-q", "--job", first]));
    let left = passed(heaplab(folder.path(), &["plan.toml", "-o", "out", "--list"]));
    assert_eq!(left.lines().count(), 5, "{left}");
    let mut child = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(["sweep", "plan.toml", "-o", "out", "-q"])
        .current_dir(folder.path())
        .spawn()
        .unwrap();
    let second: PathBuf = folder.path().join("out/python/block-00000.json");
    while !second.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = fs::read(&second).unwrap();
    passed(heaplab(folder.path(), &["plan.toml", "-o", "out", "-q", "--node", "other"]));
    assert_eq!(fs::read(&second).unwrap(), kept, "a block that is there is not run again");
    let report: Value =
        serde_json::from_str(&passed(heaplab(folder.path(), &["report", "out", "--json"])))
            .unwrap();
    let blocks: Vec<u64> = report["workloads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["blocks"].as_u64().unwrap())
        .collect();
    assert_eq!(blocks, [3, 3]);
    assert_eq!(report["nodes"].as_array().unwrap().len(), 2);
    let left = fs::read_dir(folder.path().join("out/sqlite")).unwrap().count();
    assert_eq!(left, 3, "no file of the killed one is left");
}

#[test]
fn what_is_asked_wrongly_is_told_before_any_cell() {
    let folder = plan("'glibc'", "repetitons = 3");
    let wrong = heaplab(folder.path(), &["plan.toml", "-o", "out"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("unknown field `repetitons`"), "{wrong:?}");
    let folder = plan("'glibc'", "only = 'space'");
    let wrong = heaplab(folder.path(), &["plan.toml", "-o", "out", "--job", "sqlite/block-1"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("no such job; --list prints all"), "{wrong:?}");
    // Compiling takes minutes: without a terminal there are lines.
    assert!(text(&wrong.stderr).starts_with("heaplab: sqlite: compiling its program"), "{wrong:?}");
    let quiet =
        heaplab(folder.path(), &["plan.toml", "-o", "out", "-q", "--job", "sqlite/block-1"]);
    assert!(!text(&quiet.stderr).contains("compiling"), "{quiet:?}");
    assert!(!folder.path().join("out").exists());
    let wrong = heaplab(folder.path(), &["report", "."]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("no results of heaplab sweep"), "{wrong:?}");
}
