//! `heaplab curve` on real commands: settings that fail, children that stay, Ctrl-C, a full disk,
//! and the runtimes themselves.

mod lab;
mod runtimes;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn heaplab(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    command
        .arg("curve")
        .args(arguments)
        .current_dir(folder)
        .env_remove("COLUMNS")
        .env_remove("OCAMLRUNPARAM")
        .env_remove("GODEBUG");
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    heaplab(folder, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Sentences are broken where the terminal ends.
fn joined(bytes: &[u8]) -> String {
    text(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{}{}", text(&output.stderr), text(&output.stdout));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether a process with this word in its command line runs.
fn runs(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok()))
        .any(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            // A process that has ended and waits to be buried has no command line.
            line.split(|byte| *byte == 0).any(|part| part == word.as_bytes())
        })
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The medians of each setting, in order.
fn medians(found: &Value, field: &str) -> Vec<f64> {
    let points = found["variants"][0]["points"].as_array().unwrap();
    points
        .iter()
        .filter(|point| !point["value"].is_null())
        .map(|point| point["medians"][field].as_f64().unwrap())
        .collect()
}

#[test]
fn settings_that_fail_are_points_of_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let script = "[ $N -gt 30 ] || { echo 'out of memory' >&2; exit 3; }";
    let output = run(
        folder.path(),
        &[
            "--vary",
            "N={10,20,40,80}",
            "--reps",
            "3",
            "--no-default",
            "--budget",
            "1GB",
            "--",
            "sh",
            "-c",
            script,
        ],
    );
    let said = joined(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(
        said.contains("No answer at N=10, N=20: it ended with status 3: out of memory."),
        "{said}"
    );
    assert!(said.contains("Under 1GB the fastest is N="), "{said}");
    assert!(text(&output.stdout).lines().all(|line| line.chars().count() <= 80), "{said}");
    let output = run(
        folder.path(),
        &[
            "--vary",
            "N={10,20}",
            "--reps",
            "1",
            "--no-default",
            "--timeout",
            "0.2",
            "--",
            "sleep",
            "61",
        ],
    );
    assert_eq!(output.status.code(), Some(1), "nothing ran");
    assert!(
        joined(&output.stdout).contains("it did not end within 0.2 s"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn the_least_heap_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(
        folder.path(),
        &["--min-heap", "--vary", "N=8..64x2", "--", "sh", "-c", "[ $N -ge 23 ] || exit 7"],
    );
    let said = joined(&output.stdout);
    assert!(
        said.contains("the least that runs is N=23; at N=22 it ended with status 7."),
        "{said}{}",
        text(&output.stderr)
    );
}

#[test]
fn a_program_that_is_not_there_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["--vary", "N=1..5x3", "--", "./nothing"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).starts_with("heaplab: ./nothing cannot be started: No such file"),
        "{}",
        text(&output.stderr)
    );
    let output = run(
        folder.path(),
        &["--vary", "N=1..5x3", "--prepare", "echo no >&2; exit 4", "--", "true"],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("--prepare: echo no >&2; exit 4: it ended with status 4: no"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn hooks_run_and_know_their_cell() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "--vary",
        "N={1,2}",
        "--compare",
        "AB=1,AB=2",
        "--reps",
        "1",
        "--no-default",
        "--results",
        "out",
        "--setup",
        "echo setup {compare} >> log",
        "--prepare",
        "echo prepare {compare} {N} >> log",
        "--conclude",
        "echo conclude >> log",
        "--cleanup",
        "echo cleanup {compare} >> log",
        "--",
        "sh",
        "-c",
        "echo run $AB $N >> log",
    ];
    json(folder.path(), &[&["--json"], &arguments[..]].concat());
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(
        (&lines[..2], &lines[14..]),
        (&["setup AB=1", "setup AB=2"][..], &["cleanup AB=1", "cleanup AB=2"][..]),
        "{log}"
    );
    for run in lines[2..14].chunks(3) {
        assert_eq!(run[0].replace("prepare AB=", "run "), run[1], "{log}");
        assert_eq!(run[2], "conclude");
    }
    json(folder.path(), &[&["--json"], &arguments[..]].concat());
    let again = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(again, log, "nothing is run where all results are there");
}

#[test]
fn children_that_stay_are_ended_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let script = "setsid sleep 98765.25 & exit 0";
    let output = run(
        folder.path(),
        &["--vary", "N={1,2}", "--reps", "1", "--no-default", "--", "sh", "-c", script],
    );
    let said = joined(&output.stdout);
    assert!(
        said.contains("left processes behind in 2 runs, which were ended: sleep (pid "),
        "{said}{}",
        text(&output.stderr)
    );
    assert!(!runs("98765.25"));
    // The memory of the whole tree counts: of a child as well.
    let script = "python3 -c 'x = bytearray(200 << 20)'; true";
    if Command::new("python3").arg("--version").output().is_ok() {
        let found = json(
            folder.path(),
            &[
                "--json",
                "--vary",
                "N={1,2}",
                "--reps",
                "1",
                "--no-default",
                "--",
                "sh",
                "-c",
                script,
            ],
        );
        let peak = found["variants"][0]["points"][0]["medians"]["peak_bytes"].as_f64().unwrap();
        assert!(peak > 200e6, "{peak}");
    }
}

#[test]
fn an_interrupted_experiment_shows_what_it_has_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let script = "test -e go || test $N = 1 || exec sleep 87654.5";
    let arguments = [
        "--vary",
        "N={1,2}",
        "--reps",
        "3",
        "--no-default",
        "--results",
        "out",
        "--",
        "sh",
        "-c",
        script,
    ];
    // The first block's order is the seed's: with this one N=1 comes first.
    let seed = (1..50).map(|seed: u32| seed.to_string()).find(|seed| {
        let mut child = heaplab(folder.path(), &[&["--seed", seed], &arguments[..]].concat())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("the command starts", || runs("87654.5"));
        // What Ctrl-C does, by another signal: a shell's background jobs ignore SIGINT, and so does
        // what they start.
        assert!(
            Command::new("kill")
                .args(["-TERM", &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        let output = child.wait().unwrap();
        let said =
            joined(&std::io::read_to_string(child.stdout.take().unwrap()).unwrap().into_bytes());
        wait_until("the command is ended", || !runs("87654.5"));
        assert_eq!(output.code(), Some(143), "{said}");
        let has_one =
            said.contains("It ended early (interrupted): this is what was measured until then.");
        if !has_one {
            let _ = std::fs::remove_dir_all(folder.path().join("out"));
        }
        has_one
    });
    let seed = seed.unwrap();
    let kept = std::fs::read_to_string(folder.path().join("out/block-00000.json")).unwrap();
    std::fs::write(folder.path().join("go"), "").unwrap();
    json(folder.path(), &[&["--json", "--seed", &seed], &arguments[..]].concat());
    let whole: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("out/block-00000.json")).unwrap())
            .unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(
        (&whole["cells"][0], whole["cells"].as_array().unwrap().len()),
        (&kept["cells"][0], 2),
        "what was measured is kept"
    );
    // With other settings the folder is refused.
    let output =
        run(folder.path(), &[&["--seed", &seed, "--timeout", "5"], &arguments[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("another experiment"), "{}", text(&output.stderr));
}

#[test]
fn a_command_ends_with_heaplab() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = heaplab(
        folder.path(),
        &["--vary", "N={1,2}", "--", "sh", "-c", "setsid sleep 76543.5; true"],
    )
    .spawn()
    .unwrap();
    wait_until("the command starts", || runs("76543.5"));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the command is ended", || !runs("76543.5"));
}

#[test]
fn a_full_disk_loses_no_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(
        folder.path(),
        &["--vary", "N={1,2}", "--reps", "2", "--csv", "/dev/full", "--", "true"],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("cannot write /dev/full: No space left"),
        "{}",
        text(&output.stderr)
    );
    assert!(
        text(&output.stdout).contains("N=1"),
        "the results are shown all the same: {}",
        text(&output.stdout)
    );
    let output = run(
        folder.path(),
        &["--vary", "N={1,2}", "--reps", "2", "--results", "/proc/nowhere", "--", "true"],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/proc/nowhere"), "{}", text(&output.stderr));
}

#[test]
fn files_of_every_kind_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "--vary",
        "N={1,2}",
        "--reps",
        "2",
        "--csv",
        "a.csv",
        "--html",
        "a.html",
        "--svg",
        "a.svg",
        "--parquet",
        "a.parquet",
        "--results",
        "out",
    ];
    let twice = [&arguments[..], &["--markdown", "a.csv", "--", "true"]].concat();
    let output = run(folder.path(), &twice);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let output = run(folder.path(), &[&arguments[..], &["--", "true"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = |name: &str| text(&std::fs::read(folder.path().join(name)).unwrap());
    assert_eq!(read("a.csv").lines().count(), 1 + 2 * 3);
    assert!(
        read("a.html").contains("<svg")
            && read("a.svg").starts_with("<svg")
            && read("a.parquet").starts_with("PAR1")
    );
    assert!(
        read("out/results.json").contains("\"verdict\"")
            && read("out/runs.parquet").starts_with("PAR1")
            && !read("a.html").contains("<script")
    );
}

/// Results on a file system that is full: what was measured until then is shown, and the files that
/// are there are whole.
#[test]
fn a_file_that_cannot_grow_ends_with_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_heaplab");
    // A limit on a file's size fails a write as a full file system does, where its signal is
    // ignored.
    let script = format!(
        "trap '' XFSZ; ulimit -f 8; exec {program} curve --vary N=1..40+1 --reps 2 --results out -- true"
    );
    let output =
        Command::new("bash").args(["-c", &script]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("block-00000.json: cannot write"), "{said}");
    assert!(joined(&output.stdout).contains("N=1 "), "{}", text(&output.stdout));
    let kept = std::fs::read(folder.path().join("out/block-00000.json")).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    assert!(kept["cells"].as_array().unwrap().len() > 2);
}

#[test]
fn a_variable_that_is_not_read_has_an_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(
        folder.path(),
        &["--vary", "NOT_READ=1..3+1", "--reps", "6", "--time", "cpu", "--", "sleep", "0.01"],
    );
    let said = joined(&output.stdout);
    assert!(said.contains("No effect of NOT_READ was shown"), "{said}");
    assert_eq!(output.status.code(), Some(2), "{said}");
}

#[test]
fn statuses_that_are_ignored_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let with = |option: &'static str| {
        let arguments = ["--vary", "N={1,3,4}", "--reps", "1", "--no-default", option, "--json"];
        let found = json(folder.path(), &[&arguments[..], &["--", "sh", "-c", "exit $N"]].concat());
        let points = found["variants"][0]["points"].as_array().unwrap().clone();
        points.iter().map(|point| point["runs"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(with("--ignore-failure=1,3"), [1, 1, 0]);
    assert_eq!(with("--ignore-failure"), [1, 1, 1]);
    let output = run(folder.path(), &["--vary", "N=1,2", "--ignore-failure=0", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("statuses from 1 to 255"), "{}", text(&output.stderr));
}

#[test]
fn output_goes_where_the_user_wants() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo said $N; echo complained >&2; readlink /proc/self/fd/1";
    let with = |options: &[&str]| {
        let arguments = ["--vary", "N={1,2}", "--reps", "2", "--no-default", "--json"];
        run(folder.path(), &[&arguments[..], options, &["--", "sh", "-c", script]].concat())
    };
    let output = with(&["--output", "of-{N}.txt"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let kept = text(&std::fs::read(folder.path().join("of-2.txt")).unwrap());
    assert!(kept.starts_with("said 2\n") && kept.lines().count() == 2, "the last run: {kept}");
    let output = with(&["--show-output"]);
    let shown = text(&output.stderr);
    assert_eq!((shown.matches("said 1").count(), shown.matches("complained").count()), (2, 4));
    assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok(), "results stand alone");
    let output = with(&["--output", "missing/of.txt"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--output: missing/of.txt"), "{}", text(&output.stderr));
    // Some programs look whether their output is /dev/null.
    let arguments = ["--vary", "N={1,2}", "--reps", "1", "--no-default", "--json"];
    let is_null = ["--", "sh", "-c", "test \"$(readlink /proc/$$/fd/1)\" = /dev/null"];
    let runs = |options: &[&str]| {
        let output = run(folder.path(), &[&arguments[..], options, &is_null].concat());
        output.status.code()
    };
    assert_eq!((runs(&[]), runs(&["--output", "pipe"])), (Some(0), Some(1)));
}

#[test]
fn variants_have_the_users_names() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--vary", "N={1,2}", "--reps", "1", "--compare", "AB=1,AB=2", "--no-default"];
    let names = ["-n", "before", "-n", "after", "--setup", "echo {compare} >> log"];
    let files = ["--markdown", "a.md", "--results", "out"];
    let command = ["--", "sh", "-c", "exit $((N - 1))"];
    let first = [&arguments[..], &names, &files, &command].concat();
    let output = run(folder.path(), &first);
    assert!(text(&output.stdout).contains("\nafter\n"), "{}", text(&output.stdout));
    let read = |name: &str| text(&std::fs::read(folder.path().join(name)).unwrap());
    assert_eq!(read("log"), "AB=1\nAB=2\n");
    let markdown = read("a.md");
    assert!(markdown.contains("| `after` | wall time | peak resident |"), "{markdown}");
    assert!(markdown.contains("| `N=2` |  |  | no answer: it ended with status 1 |"), "{markdown}");
    // A name is no part of what was measured.
    let again = [&arguments[..], &["-n", "old"], &files, &command].concat();
    let output = run(folder.path(), &again);
    assert!(text(&output.stdout).contains("\nold\n"), "{}", text(&output.stderr));
    let output = run(folder.path(), &[&["-n", "a", "-n", "a"], &arguments[..], &command].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("a is there twice"), "{}", text(&output.stderr));
}

/// A hook that complains at length, as compilers do, is no hook that fails.
#[test]
fn a_hook_may_say_much() {
    let folder = tempfile::tempdir().unwrap();
    let hook = "head -c 3000000 /dev/zero >&2";
    json(
        folder.path(),
        &["--json", "--vary", "N={1,2}", "--reps", "1", "--setup", hook, "--", "true"],
    );
}

/// A real file system of 1 MB: the command fills it, and its results go there.
#[test]
fn a_small_disk_that_fills_loses_no_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let may_mount = Command::new("unshare")
        .args(["-m", "mount", "-t", "tmpfs", "-o", "size=1m", "none"])
        .arg(folder.path())
        .output()
        .is_ok_and(|output| output.status.success());
    if !may_mount {
        eprintln!("skipped: this user may not mount a file system");
        return;
    }
    let program = env!("CARGO_BIN_EXE_heaplab");
    // The fifth run fills it: after that no block's file can grow.
    std::fs::write(
        folder.path().join("run.sh"),
        "echo >> count; [ $(wc -l < count) -gt 4 ] && bytes=3000000 || bytes=200000\n\
         exec head -c $bytes /dev/zero\n",
    )
    .unwrap();
    let script = format!(
        "cp run.sh /tmp/$$.sh; mount -t tmpfs -o size=1m none \"$PWD\" && cd \"$PWD\" && mv /tmp/$$.sh run.sh\n\
         {program} curve --vary N=1..3+1 --reps 2 --no-default --results out --output ./big -- sh run.sh\n\
         status=$?; cat out/block-00000.json >&2; ls -A out; exit $status"
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let (said, errors) = (joined(&output.stdout), text(&output.stderr));
    assert!(said.contains("N=1 ") && said.contains("N=3 "), "{said}{errors}");
    assert!(errors.contains("block-00001.json: cannot write: No space left"), "{errors}");
    let cause = "(os error 28)";
    assert!(
        errors.lines().all(|line| line.matches(cause).count() < 2),
        "a cause is said twice: {errors}"
    );
    let kept = errors.lines().find(|line| line.starts_with('{')).unwrap();
    let kept: Value = serde_json::from_str(&errors[errors.find(kept).unwrap()..]).unwrap();
    assert_eq!(kept["cells"].as_array().unwrap().len(), 3, "a whole block is kept");
    assert!(said.ends_with(" block-00000.json block-00001.json"), "nothing is left over: {said}");
    assert_eq!(output.status.code(), Some(1), "{errors}");
}

/// A program that is over before anybody looks at its memory is not said to have none.
#[test]
fn a_run_too_short_to_be_seen_has_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--json", "--vary", "N={1,2}", "--reps", "2", "--no-default", "--", "true"];
    let found = json(folder.path(), &arguments);
    assert!(medians(&found, "peak_bytes").iter().all(|bytes| *bytes > 1e5), "{found}");
}
