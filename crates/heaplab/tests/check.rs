//! `heaplab check` on the bundled recordings: gates that hold, that fail, and that cannot be asked.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn trace(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/what-if").join(name)
}

fn check(name: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .arg("check")
        .arg(trace(name))
        .args(arguments)
        .env("COLUMNS", "80")
        .output()
        .unwrap()
}

fn code(output: &Output) -> (i32, String) {
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn values_are_those_of_the_recording() {
    let asked = [
        "--json",
        "--assert",
        "peak < 1MB && peak > 900kB or peak = 0",
        "--assert",
        "allocations(\"r_interpret\") == 0 || reallocations('r_*') = 8000",
        "--assert",
        "leaked(\"no_such_thing\") == 0",
        "--assert",
        "findings(growth) = 1 and copied > 200MB",
    ];
    let output = check("gawk-before.heaplab", &asked);
    let (is, notes) = code(&output);
    assert_eq!(is, 0, "{notes}");
    assert!(notes.contains("no stack has a function called \"no_such_thing\""), "{notes}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let value = |assertion: usize, value: usize| &answer["assertions"][assertion]["values"][value];
    assert_eq!((&value(0, 0)["call"], &value(0, 0)["value"]), (&"peak".into(), &983_021.into()));
    assert_eq!(value(1, 1)["value"], 8_000);
    assert_eq!(answer["failed"], 0);
    assert_eq!(code(&check("gawk-before.heaplab", &[&asked[..], &["--strict"]].concat())).0, 1);
}

#[test]
fn a_gate_fails_names_who_has_most_and_writes_junit() {
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("heap.xml");
    let before = trace("gawk-before.heaplab");
    let output = check(
        "gawk-after.heaplab",
        &[
            "--baseline",
            before.to_str().unwrap(),
            "--junit",
            junit.to_str().unwrap(),
            "--assert",
            "peak < 1.1 * baseline",
            "--assert",
            "requested < baseline && reallocations < 0.01 * baseline",
        ],
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(code(&output).0, 1, "{text}");
    assert!(text.starts_with("FAILED  peak < 1.1 * baseline\n        peak is 1.16 MiB (1,213,288 bytes); most of it: r_interpret 512 KiB"), "{text}");
    assert!(text.contains("peak of the baseline is 960 KiB (983,021 bytes)"), "{text}");
    assert!(text.contains("holds   requested < baseline"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let xml = std::fs::read_to_string(junit).unwrap();
    assert!(xml.contains("tests=\"2\" failures=\"1\" errors=\"0\""), "{xml}");
    assert!(xml.contains("<testcase name=\"peak &lt; 1.1 * baseline\""), "{xml}");
}

#[test]
fn what_cannot_be_checked_is_no_pass() {
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("heap.xml");
    for (assertion, words) in [
        ("peak < 50Mb", "\"Mb\" is no unit"),
        ("paek < 50MB", "paek is not known; there are peak, "),
        ("peak < 1.1 * baseline", "--baseline other.heaplab"),
        ("live(loaded) < 1MB", "\"loaded\" is no mark; it has no marks"),
        ("peak / (peak - peak) > 1", "divided by zero"),
        ("peak", "expected a comparison"),
    ] {
        let arguments = ["--junit", junit.to_str().unwrap(), "--assert", assertion];
        let output = check("zstd-before.heaplab", &arguments);
        let (is, notes) = code(&output);
        assert_eq!(is, 2, "{assertion}: {notes}");
        assert!(notes.contains(words) && output.stdout.is_empty(), "{assertion}: {notes}");
        assert!(std::fs::read_to_string(&junit).unwrap().contains("errors=\"1\""));
    }
    let missing = check("nothing.heaplab", &["--assert", "peak < 1"]);
    assert_eq!(code(&missing).0, 2, "no gate passes for want of a file");
}
