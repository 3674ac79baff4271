//! `heaplab curve --results`: what was measured stays, whatever ends an experiment and however many
//! machines run it.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Notes each run, and waits in the third until there is a file `go`.
const NOTED: &str = "echo $N >> runs; test -e go || test $(wc -l < runs) != 3 || exec sleep 600";

fn heaplab(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    command
        .args(["curve", "--vary", "N={1,2}", "--no-default", "--json"])
        .args(arguments)
        .args(["--", "sh", "-c", NOTED])
        .current_dir(folder)
        .stdout(Stdio::piped());
    command
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs of the command so far.
fn runs(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("runs")).map_or(0, |text| text.lines().count())
}

fn cells(folder: &Path, block: &str) -> Vec<Value> {
    let file = std::fs::read(folder.join("out").join(block)).unwrap();
    let block: Value = serde_json::from_slice(&file).unwrap();
    block["cells"].as_array().unwrap().clone()
}

#[test]
fn a_killed_experiment_goes_on_behind_its_last_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let arguments = ["--reps", "3", "--results", "out"];
    let mut child = heaplab(folder, &arguments).spawn().unwrap();
    let begun = Instant::now();
    while runs(folder) < 3 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the third run does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = cells(folder, "block-00000.json");
    assert_eq!(kept.len(), 2);
    std::fs::write(folder.join("go"), "").unwrap();
    let found = json(&heaplab(folder, &arguments).output().unwrap());
    assert_eq!(found["blocks"], 3);
    assert_eq!(cells(folder, "block-00000.json"), kept);
    assert_eq!(runs(folder), 3 + 4, "the killed run once more, and the three behind it");
    // Nothing is left to run.
    json(&heaplab(folder, &arguments).output().unwrap());
    assert_eq!(runs(folder), 7);
}

#[test]
fn shards_in_one_folder_are_one_experiment() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("go"), "").unwrap();
    std::fs::create_dir(folder.join("all")).unwrap();
    for shard in ["0/2", "1/2"] {
        let own = format!("shard-{}", &shard[..1]);
        let arguments = ["--reps", "4", "--results", &own, "--shard", shard];
        let found = json(&heaplab(folder, &arguments).output().unwrap());
        assert_eq!(found["blocks"], 2);
        for entry in std::fs::read_dir(folder.join(&own)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().to_string_lossy().starts_with("block-") {
                std::fs::copy(entry.path(), folder.join("all").join(entry.file_name())).unwrap();
            }
        }
    }
    assert_eq!(runs(folder), 8);
    let arguments = ["--reps", "4", "--results", "all"];
    let found = json(&heaplab(folder, &arguments).output().unwrap());
    assert_eq!(found["blocks"], 4);
    let points = found["variants"][0]["points"].as_array().unwrap();
    assert!(points.iter().all(|point| point["runs"] == 4), "{points:?}");
    assert_eq!(runs(folder), 8, "nothing was run again");
}

#[test]
fn a_file_that_cannot_be_written_is_found_before_the_first_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (option, file) in [("--csv", "no/runs.csv"), ("--svg", ".")] {
        let output = heaplab(folder, &["--reps", "1", option, file])
            .env("N", "7")
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("{file} cannot be written")), "{said}");
        assert_eq!(runs(folder), 0);
    }
    std::fs::write(folder.join("go"), "").unwrap();
    let output =
        heaplab(folder, &["--reps", "1"]).env("N", "7").stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("note: N=7 of the environment is not used"), "{said}");
}

/// Of each run in a CSV file the peaks of resident and of anonymous bytes.
fn memory_of(folder: &Path, command: &str) -> Vec<(u64, u64)> {
    let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(["curve", "--vary", "N={1,2}", "--no-default", "--reps", "4", "--csv", "runs.csv"])
        .args(["--", "sh", "-c", command])
        .current_dir(folder)
        .output()
        .unwrap();
    let text = std::fs::read_to_string(folder.join("runs.csv"))
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let column = |name: &str| names.iter().position(|of| *of == name).unwrap();
    let [peak, anonymous] = ["peak_bytes", "peak_anonymous_bytes"].map(column);
    let number = |row: &[&str], at: usize| row[at].parse().unwrap();
    lines.map(|row| (number(&row, peak), number(&row, anonymous))).collect()
}

/// The process that measures is larger than this command.
#[test]
fn a_small_command_is_not_taken_for_the_process_that_measures_it() {
    let folder = tempfile::tempdir().unwrap();
    let runs = memory_of(folder.path(), "sleep 0.1; sleep 0.1");
    assert_eq!(runs.len(), 8);
    assert!(runs.iter().all(|(peak, _)| *peak < 8 << 20), "{runs:?}");
}

/// `tail` holds the line for less time than there is between two searches of all processes.
#[test]
fn a_short_process_behind_a_shell_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let command = "{ head -c 30000000 /dev/zero; sleep 0.05; } | tail -n 1 | wc -c; true";
    let runs = memory_of(folder.path(), command);
    assert_eq!(runs.len(), 8);
    assert!(runs.iter().all(|(_, anonymous)| *anonymous > 20_000_000), "{runs:?}");
}
