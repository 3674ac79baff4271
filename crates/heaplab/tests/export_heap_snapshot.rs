//! `heaplab export --format heapsnapshot` on a real recording: `heaplab snapshot` reads it,
//! DevTools itself answers the same, and both find the bytes that `heaplab report` says were live.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn heaplab(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(arguments)
        .current_dir(root().join("traces"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_slice(&heaplab(arguments).stdout).unwrap()
}

fn export(at: &str, to: &Path) {
    let output = heaplab(&[
        "export",
        "sqlite.heaplab",
        "--format",
        "heapsnapshot",
        "--at",
        at,
        "-o",
        to.to_str().unwrap(),
    ]);
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn its_two_phases_are_told_where_that_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.heapsnapshot");
    let told = heaplab(&[
        "export",
        "sqlite.heaplab",
        "--format",
        "heapsnapshot",
        "--profile",
        "-o",
        path.to_str().unwrap(),
    ]);
    assert!(told.stdout.is_empty(), "{told:?}");
    let (told, file) = (String::from_utf8(told.stderr).unwrap(), std::fs::read(&path).unwrap());
    let line = |begins: &str| {
        told.lines()
            .find(|line| line.trim_start().starts_with(begins))
            .unwrap_or_else(|| panic!("{begins}: {told}"))
    };
    // Its counts are the file's; its times are of this machine.
    let snapshot: Value = serde_json::from_slice(&file).unwrap();
    let (nodes, edges) = (
        snapshot["snapshot"]["node_count"].as_u64().unwrap(),
        snapshot["snapshot"]["edge_count"].as_u64().unwrap(),
    );
    let strings = snapshot["strings"].as_array().unwrap().len();
    assert!(line("walk").ends_with(&format!("{nodes} objects, {edges} references")), "{told}");
    assert!(line("serialization").ends_with(&format!(" {} bytes", file.len())), "{told}");
    assert!(line("the rest").contains(&format!(" {strings} strings,")), "{told}");
    assert!(
        line("generation").contains(" ms") && line("memory").contains("identity map"),
        "{told}"
    );
    // Other formats have no phases.
    for format in ["pprof", "metaspace-trace"] {
        let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
            .args([
                "export",
                "sqlite.heaplab",
                "--format",
                format,
                "--profile",
                "-o",
                path.to_str().unwrap(),
            ])
            .current_dir(root().join("traces"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("--profile is for heap snapshots"),
            "{output:?}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), file);
    }
}

/// Moments of the recording, one of them in its middle.
fn moments() -> [String; 3] {
    let report = json(&["report", "sqlite.heaplab", "--json"]);
    let end = report["profile"]["end"]["time_ns"].as_u64().unwrap();
    ["peak".into(), "end".into(), format!("{}ns", end / 2)]
}

/// Objects and bytes that the report says were live.
fn live(at: &str) -> (u64, u64) {
    let report = json(&["report", "sqlite.heaplab", "--at", at, "--json"]);
    let live = &report["moments"]["moment"]["live"];
    (live["objects"].as_u64().unwrap(), live["bytes"].as_u64().unwrap())
}

#[test]
fn its_bytes_are_those_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    for at in moments() {
        let path = folder.path().join(format!("{at}.heapsnapshot"));
        export(&at, &path);
        let file = path.to_str().unwrap();
        let valid = String::from_utf8(heaplab(&["snapshot", "validate", file]).stdout).unwrap();
        assert!(valid.contains("good"), "{valid}");
        let summary = json(&["snapshot", "summary", file, "--json"]);
        let (objects, bytes) = live(&at);
        assert!(objects > 10, "{objects}");
        let sum = |field: &str| {
            summary["classes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|class| class[field].as_u64().unwrap())
                .sum::<u64>()
        };
        // No class lies beneath another: what they retain is what they are.
        assert_eq!(
            (sum("count"), sum("shallow_bytes"), sum("retained_bytes")),
            (objects, bytes, bytes),
            "{at}"
        );
        assert_eq!(summary["total_bytes"].as_u64(), Some(bytes), "{at}");
    }
}

/// Objects that lived at the peak and not at the end, and the other way, by their ids.
#[test]
fn two_moments_are_compared_block_by_block() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["peak", "end"].map(|at| folder.path().join(at));
    ["peak", "end"].iter().zip(&paths).for_each(|(at, path)| export(at, path));
    let diff = json(&[
        "snapshot",
        "diff",
        paths[0].to_str().unwrap(),
        paths[1].to_str().unwrap(),
        "--json",
    ]);
    let sum = |field: &str| {
        diff["classes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|class| class[field].as_u64().unwrap())
            .sum::<u64>()
    };
    let (peak, end) = (live("peak"), live("end"));
    assert_eq!(peak.1 + sum("added_bytes") - sum("removed_bytes"), end.1, "{diff}");
    assert_eq!(peak.0 + sum("added") - sum("removed"), end.0);
    assert!(sum("removed") > 0 && sum("removed") < peak.0, "some live on");
}

/// What DevTools answers about a file.
fn asked(study: &Path, file: &Path, answers: &Path) -> Value {
    let words = ["answers", file.to_str().unwrap(), "-o", answers.to_str().unwrap()];
    let output = Command::new(study.join("node_modules/node24/bin/node"))
        .arg("judge/ask.mjs")
        .args(words)
        .current_dir(study)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&std::fs::read(answers.join("answers.json")).unwrap()).unwrap()
}

/// The classes of both, which must be the same: count, own bytes, retained bytes, distance.
fn same_classes(ours: &Value, theirs: &Value) -> BTreeMap<String, [i64; 4]> {
    let rows = |classes: &Value, names: [&str; 4]| {
        let row = |class: &Value| {
            (
                class["key"].as_str().unwrap().to_owned(),
                names.map(|name| class[name].as_i64().unwrap()),
            )
        };
        classes.as_array().unwrap().iter().map(row).collect::<BTreeMap<String, [i64; 4]>>()
    };
    let theirs = rows(&theirs["classes"], ["count", "self", "retained", "distance"]);
    assert_eq!(
        rows(&ours["classes"], ["count", "shallow_bytes", "retained_bytes", "distance"]),
        theirs
    );
    theirs
}

#[test]
fn devtools_finds_the_same() {
    let Some((study, _)) = heaplab_oracle::devtools() else { return };
    let folder = tempfile::tempdir().unwrap();
    for at in ["peak", "end"] {
        let path = folder.path().join(format!("{at}.heapsnapshot"));
        export(at, &path);
        let answers = folder.path().join(at);
        let theirs = asked(&study, &path, &answers);
        let (objects, bytes) = live(at);
        assert_eq!(
            (theirs["total_bytes"].as_u64(), theirs["statistics"]["native"]["total"].as_u64()),
            (Some(bytes), Some(bytes))
        );
        assert_eq!(
            theirs["reports"],
            Value::Array(Vec::new()),
            "DevTools says nothing on its console"
        );
        let ours = json(&["snapshot", "summary", path.to_str().unwrap(), "--json"]);
        assert_eq!(ours["nodes"], theirs["nodes"]);
        let theirs_by_class = same_classes(&ours, &theirs);
        assert_eq!(theirs_by_class.values().map(|class| class[0] as u64).sum::<u64>(), objects);
        // Of each node, the retained size: the first is the root, which retains all; frames weigh
        // nothing and retain what is beneath them.
        let objects = std::fs::read_to_string(answers.join("objects.tsv")).unwrap();
        let nodes: Vec<[u64; 3]> = objects
            .lines()
            .map(|line| {
                let mut fields = line.split('\t').map(|field| field.parse::<i64>().unwrap() as u64);
                std::array::from_fn(|_| fields.next().unwrap())
            })
            .collect();
        assert_eq!(nodes[0], [1, 0, bytes]);
        let frames = nodes.iter().filter(|[id, _, _]| id % 2 == 0);
        assert!(
            frames.clone().count() > 20
                && frames.clone().all(|[_, size, retained]| *size == 0 && *retained > 0)
        );
        let blocks = nodes.iter().filter(|[id, _, _]| id % 2 == 1 && *id > 1);
        assert!(blocks.clone().all(|[_, size, retained]| size == retained));
    }
}

/// A log of a real JVM, imported.
fn metaspace(folder: &Path, log: &str) -> PathBuf {
    let log = root().join("crates/jvm/tests/data/jvm-log").join(log);
    let bundle = folder.join(log.with_extension("heaplab").file_name().unwrap());
    heaplab(&["import", log.to_str().unwrap(), "-o", bundle.to_str().unwrap()]);
    bundle
}

/// What is retained is what is committed: of the whole, and of what is used in chunks, free and
/// wasted. DevTools, where it is installed, finds the same.
#[test]
fn a_metaspace_retains_what_it_has_committed() {
    let folder = tempfile::tempdir().unwrap();
    for log in ["jdk-17.0.15.log.gz", "jdk-25.0.2.log.gz"] {
        let bundle = metaspace(folder.path(), log);
        let bundle = bundle.to_str().unwrap();
        for at in ["peak", "end"] {
            let path = folder.path().join(at);
            let file = path.to_str().unwrap();
            let output =
                heaplab(&["export", bundle, "--format", "heapsnapshot", "--at", at, "-o", file]);
            assert!(output.stderr.is_empty(), "{output:?}");
            assert!(
                String::from_utf8(heaplab(&["snapshot", "validate", file]).stdout)
                    .unwrap()
                    .contains("good")
            );
            let report = json(&["report", bundle, "--at", at, "--json"]);
            let statistics = &report["metaspace"]["statistics"];
            let spaces = [&statistics["non_class"], &statistics["class"]];
            let sum = |list: &str, field: &str| {
                let of = |space: &&Value| match &space[list] {
                    Value::Array(levels) => {
                        levels.iter().map(|level| level[field].as_u64().unwrap()).sum::<u64>()
                    }
                    one => one[field].as_u64().unwrap(),
                };
                spaces.iter().map(of).sum::<u64>()
            };
            let committed: u64 =
                spaces.iter().map(|space| space["committed_bytes"].as_u64().unwrap()).sum();
            let summary = json(&["snapshot", "summary", file, "--json"]);
            assert_eq!(summary["total_bytes"].as_u64(), Some(committed), "{log} {at}");
            let classes = summary["classes"].as_array().unwrap();
            let bytes = |name: &str| {
                let named = classes.iter().filter(|class| class["name"] == name);
                named.map(|class| class["shallow_bytes"].as_u64().unwrap()).sum::<u64>()
            };
            assert_eq!(bytes("(free)"), sum("in_use_total", "free_bytes"));
            assert_eq!(bytes("(waste)"), sum("in_use_total", "waste_bytes"));
            assert_eq!(bytes("(free blocks)"), sum("free_blocks", "bytes"));
            assert_eq!(bytes("(free chunks)"), sum("free", "in_granules_bytes"));
            let requested: u64 = statistics["kinds"]
                .as_array()
                .unwrap()
                .iter()
                .map(|kind| kind["requested_bytes"].as_u64().unwrap())
                .sum();
            let own =
                ["(free)", "(waste)", "(free blocks)", "(free chunks)", "(rounding)", "(others)"]
                    .map(bytes)
                    .iter()
                    .sum::<u64>();
            assert_eq!(committed - own, requested);
            assert!(bytes("(others)") <= 1024 && requested > 100_000);
            if let Some((study, _)) = heaplab_oracle::devtools() {
                let theirs = asked(&study, &path, &folder.path().join(format!("{at}.answers")));
                assert_eq!(theirs["total_bytes"].as_u64(), Some(committed));
                same_classes(&summary, &theirs);
            }
        }
    }
}

/// A heap that ran the workload: DevTools, where it is installed, finds what `heaplab snapshot`
/// does, and the live blocks of two moments are compared by what they are, though the heap was made
/// twice.
#[test]
fn a_heap_that_ran_the_workload_is_walked() {
    let folder = tempfile::tempdir().unwrap();
    let jvm = metaspace(folder.path(), "jdk-17.0.15.log.gz");
    let jvm = jvm.to_str().unwrap();
    for (bundle, heap) in [
        ("sqlite.heaplab", "elastic"),
        (jvm, "elastic"),
        (jvm, "metaspace:jdk17"),
        (jvm, "metaspace:jdk11"),
    ] {
        let paths = ["peak", "end"].map(|at| folder.path().join(at));
        let mut summaries = Vec::new();
        for (at, path) in ["peak", "end"].iter().zip(&paths) {
            let file = path.to_str().unwrap();
            let output = heaplab(&[
                "export",
                bundle,
                "--format",
                "heapsnapshot",
                "--on",
                heap,
                "--at",
                at,
                "-o",
                file,
            ]);
            assert!(output.stderr.is_empty(), "{output:?}");
            assert!(
                String::from_utf8(heaplab(&["snapshot", "validate", file]).stdout)
                    .unwrap()
                    .contains("good")
            );
            let summary = json(&["snapshot", "summary", file, "--json"]);
            if let Some((study, _)) = heaplab_oracle::devtools() {
                let theirs = asked(&study, path, &folder.path().join("answers"));
                assert_eq!(
                    (&theirs["total_bytes"], &theirs["nodes"]),
                    (&summary["total_bytes"], &summary["nodes"]),
                    "{heap} {at}"
                );
                assert_eq!(
                    theirs["reports"],
                    Value::Array(Vec::new()),
                    "DevTools says nothing on its console"
                );
                same_classes(&summary, &theirs);
            }
            summaries.push(summary);
        }
        // Classes of blocks are called by functions or kinds of metadata, those of the heap in
        // brackets: but what has no stack.
        let is_block = |name: &str| !name.starts_with('(') || name.starts_with("(no stack");
        let blocks = |summary: &Value| {
            let classes = summary["classes"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|class| is_block(class["name"].as_str().unwrap()));
            classes.map(|class| class["shallow_bytes"].as_u64().unwrap()).sum::<u64>()
        };
        let report = json(&["report", bundle, "--json"]);
        for (summary, at) in summaries.iter().zip(["peak", "end"]) {
            assert_eq!(
                Some(blocks(summary)),
                report["profile"][at]["live"]["bytes"].as_u64(),
                "{bundle} {heap} {at}"
            );
            assert!(
                summary["total_bytes"].as_u64() > Some(blocks(summary)),
                "a heap has more than its blocks"
            );
        }
        let diff = json(&[
            "snapshot",
            "diff",
            paths[0].to_str().unwrap(),
            paths[1].to_str().unwrap(),
            "--json",
        ]);
        let changes = diff["classes"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|class| is_block(class["name"].as_str().unwrap()));
        let sum =
            |field: &str| changes.clone().map(|class| class[field].as_u64().unwrap()).sum::<u64>();
        assert_eq!(
            blocks(&summaries[0]) + sum("added_bytes") - sum("removed_bytes"),
            blocks(&summaries[1]),
            "{bundle} {heap}"
        );
        assert!(sum("removed_bytes") < blocks(&summaries[0]), "some live on");
    }
}
