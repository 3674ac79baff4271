//! `heaplab check` on the bundled recordings: gates that hold, that fail, and that cannot be asked.

use heaplab_trace::bundle::{Bundle, BundleWriter, Meta};
use heaplab_trace::tables::{Arena, Process, Tables, Thread};
use heaplab_trace::{Event, EventSink};
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
    // Long lines are broken where the terminal ends.
    let notes = String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap(), notes.split_whitespace().collect::<Vec<_>>().join(" "))
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
        // The string of all lines, which realloc makes longer, and that of the letter l, which each
        // line copies into a new block.
        "findings(growth) = 2 and copied > 200MB",
    ];
    let output = check("gawk-before.heaplab", &asked);
    let (is, notes) = code(&output);
    assert_eq!(is, 0, "{notes}");
    assert!(notes.contains("no stack has a function called \"no_such_thing\""), "{notes}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let value = |assertion: usize, value: usize| &answer["assertions"][assertion]["values"][value];
    assert_eq!((&value(0, 0)["call"], &value(0, 0)["value"]), (&"peak".into(), &983_428.into()));
    assert_eq!(value(1, 1)["value"], 8_000);
    assert_eq!(answer["failed"], 0);
    assert_eq!(code(&check("gawk-before.heaplab", &[&asked[..], &["--strict"]].concat())).0, 1);
    // Nobody looks for findings here; the rest is the same.
    let output = check("gawk-before.heaplab", &["--json", "--assert", "copied > 200MB"]);
    let alone: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(alone["assertions"][0]["values"][0], *value(3, 1));
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
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "FAILED peak < 1.1 * baseline peak is 1.16 MiB (1,213,695 bytes); most of it: concat_exp 574 KiB, r_interpret 512 KiB",
        "peak of the baseline is 960 KiB (983,428 bytes) holds requested < baseline",
    ] {
        assert!(words.contains(part), "{text}");
    }
    let stack = "\n            r_interpret interpret.h:842 < main main.c:552\n";
    assert!(text.contains(stack), "{text}");
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
        assert!(notes.contains(words), "{assertion}: {notes}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("holds"), "{assertion}");
        assert!(std::fs::read_to_string(&junit).unwrap().contains("errors=\"1\""));
    }
    // One that cannot be checked keeps no other from its answer.
    let both = ["--assert", "peak < 1GB", "--assert", "live(loaded) < 1", "--json"];
    let output =
        check("zstd-before.heaplab", &[&both[..], &["--junit", junit.to_str().unwrap()]].concat());
    assert_eq!(code(&output).0, 2);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["assertions"][0]["holds"], &json["failed"]), (&true.into(), &0.into()));
    assert!(json["assertions"][1]["error"].as_str().unwrap().contains("\"loaded\" is no mark"));
    let cases = std::fs::read_to_string(&junit).unwrap();
    assert!(cases.contains("errors=\"1\"") && cases.contains("system-out"), "{cases}");
    let missing = check("nothing.heaplab", &["--assert", "peak < 1"]);
    assert_eq!(code(&missing).0, 2, "no gate passes for want of a file");
}

#[test]
fn a_junit_file_replaces_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("app.c");
    std::fs::write(&source, "int main(void) { return 0; }").unwrap();
    let name = source.to_str().unwrap();
    for assertion in ["peak > 0", "peak <"] {
        let (is, notes) =
            code(&check("zstd-before.heaplab", &["--junit", name, "--assert", assertion]));
        assert_eq!(is, 1, "{notes}");
        assert!(notes.contains("app.c: exists already and is no JUnit file"), "{notes}");
    }
    assert!(std::fs::read_to_string(&source).unwrap().starts_with("int main"));
}

#[test]
fn assertions_may_begin_with_a_minus() {
    assert_eq!(code(&check("zstd-before.heaplab", &["--assert", "-1 < peak"])).0, 0);
    let (is, notes) = code(&check("zstd-before.heaplab", &["--assert", "--json"]));
    assert_eq!(is, 2);
    assert!(notes.contains("expected a comparison"), "{notes}");
}

/// What was not recorded is no pass where one is strict.
#[test]
fn a_recording_that_lacks_something_is_doubted() {
    let folder = tempfile::tempdir().unwrap();
    let lost = Meta { losses: vec!["st is static, not recorded".into()], ..Meta::default() };
    let cut = Meta { cut: Some("heaplab ended".into()), ..Meta::default() };
    for (meta, words) in [(lost, "st is static"), (cut, "was cut: heaplab ended")] {
        let path = folder.path().join("a.heaplab");
        let _ = std::fs::remove_dir_all(&path);
        let mut writer = BundleWriter::create(&path).unwrap();
        writer.push(&Event { size: 100, ..Event::default() }).unwrap();
        let arenas = vec![Arena { kind: "malloc".into(), ..Arena::default() }];
        let tables = Tables {
            processes: vec![Process::default()],
            threads: vec![Thread::default()],
            arenas,
            ..Tables::default()
        };
        writer.finish(&tables, meta).unwrap();
        for (strict, is) in [(&[][..], 0), (&["--strict"][..], 1)] {
            let asked = [&["--json", "--assert", "peak < 1kB"][..], strict].concat();
            let output = check(path.to_str().unwrap(), &asked);
            let (found, notes) = code(&output);
            assert!(found == is && notes.contains(words), "{found}: {notes}");
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(
                (&answer["failed"], answer["doubts"].as_array().unwrap().len()),
                (&0.into(), 1)
            );
        }
    }
}

/// Of nothing every upper bound holds: that is noted, and no pass where one is strict.
#[test]
fn an_empty_recording_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let heaplab = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
        command.args(arguments).current_dir(folder.path()).output().unwrap()
    };
    let record = heaplab(&["record", "-o", "true.heaplab", "--", "/bin/true"]);
    assert!(record.status.success(), "{}", code(&record).1);
    let asked = ["check", "true.heaplab", "--assert", "peak < 1MB"];
    let (is, notes) = code(&heaplab(&asked));
    assert_eq!(is, 0, "{notes}");
    assert!(notes.contains("true.heaplab: no allocation was recorded"), "{notes}");
    let strict = [&asked[..], &["--strict", "--junit", "heap.xml"]].concat();
    assert_eq!(code(&heaplab(&strict)).0, 1);
    let xml = std::fs::read_to_string(folder.path().join("heap.xml")).unwrap();
    assert!(xml.contains("failures=\"1\""), "{xml}");
}

/// The step of the workflow takes no input for an option or for shell, and what it prints of a
/// recording is no command to the runner.
#[test]
fn the_action_takes_inputs_for_nothing_but_inputs() {
    let binary = Path::new(env!("CARGO_BIN_EXE_heaplab")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let gate = |recording: &Path, assertions: &str| {
        Command::new("bash")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../action/gate.sh"))
            .env("PATH", &path)
            .env("GATE_RECORDING", recording)
            .env("GATE_ASSERT", assertions)
            .env_remove("GITHUB_STEP_SUMMARY")
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let recording = trace("zstd-before.heaplab");
    for (assertions, is) in [
        ("-1 < peak\r\n\nend >= 0\r\n", 0),
        ("peak < 1", 1),
        ("--json", 2),
        ("$(touch x) `touch x`; touch x", 2),
        ("", 2),
    ] {
        let output = gate(&recording, assertions);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(is), "{assertions}: {text}");
        let token = text.lines().next().unwrap().strip_prefix("::stop-commands::").unwrap();
        assert!(token.len() == 32 && text.contains(&format!("\n::{token}::\n")), "{text}");
    }
    // A plain command is recorded without a shell.
    let listed = folder.path().join("ls.heaplab");
    let run = |command: &str, strict: &str| {
        Command::new("bash")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../action/gate.sh"))
            .envs([("PATH", path.as_str()), ("GATE_COMMAND", command)])
            .envs([("GATE_ASSERT", "peak > 0"), ("GATE_STRICT", strict)])
            .env("GATE_RECORDING", &listed)
            .output()
            .unwrap()
    };
    for (command, program) in [("ls /", "ls"), ("cd / && exec ls", "bash")] {
        let output = run(command, "True");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{text}");
        let processes = Bundle::open(&listed).unwrap().tables().processes.clone();
        assert_eq!(processes[0].program_name(), program, "{command}");
    }
    for (command, strict, is) in [("false", "false", 1), ("ls", "yes", 2)] {
        let output = run(command, strict);
        assert_eq!(output.status.code(), Some(is), "{command}");
        let said = [output.stdout, output.stderr].concat();
        assert!(String::from_utf8_lossy(&said).contains("::error::"), "{command}");
    }
    std::fs::remove_dir_all(&listed).unwrap();
    let option = gate(Path::new("--help"), "peak > 0");
    assert_eq!(option.status.code(), Some(2), "{}", String::from_utf8_lossy(&option.stdout));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// The same file comes of a check of a snapshot.
#[test]
fn snapshots_are_checked_in_the_same_language_with_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("heap.xml");
    let snapshot = folder.path().join("a.heapsnapshot");
    let export = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(["export", "--format", "heapsnapshot", "-o"])
        .arg(&snapshot)
        .arg(trace("zstd-before.heaplab"))
        .output()
        .unwrap();
    assert!(export.status.success(), "{}", String::from_utf8_lossy(&export.stderr));
    for (assertion, is) in [
        ("total() < 1e9 && !(nodes() = 0)", 0),
        ("total() > 1e9 || nodes() == 0", 1),
        ("total() <", 2),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
            .args(["snapshot", "check", "--assert", assertion, "--junit"])
            .args([&junit, &snapshot])
            .output()
            .unwrap();
        assert_eq!(code(&output).0, is, "{assertion}: {}", code(&output).1);
        let counts = [[0, 0], [1, 0], [0, 1]][is as usize];
        let counts = format!("failures=\"{}\" errors=\"{}\"", counts[0], counts[1]);
        assert!(std::fs::read_to_string(&junit).unwrap().contains(&counts), "{assertion}");
    }
}

#[test]
fn a_baseline_of_another_program_is_noted() {
    let against = |baseline: &str| {
        let baseline = trace(baseline);
        let baseline = baseline.to_str().unwrap();
        let assertion = ["--assert", "peak < 9000 * baseline"];
        code(&check("gawk-after.heaplab", &[&["--baseline", baseline], &assertion[..]].concat()))
    };
    let (is, notes) = against("zstd-before.heaplab");
    assert!(is == 0 && notes.contains("the baseline is of another program"), "{is} {notes}");
    assert_eq!(against("gawk-before.heaplab"), (0, String::new()));
}
