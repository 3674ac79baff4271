//! `heaplab curve` on real commands: settings that fail, children that stay, Ctrl-C, a full disk,
//! and the runtimes themselves.

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

fn built(folder: &Path, name: &str, source: &str, compiler: &[&str]) -> PathBuf {
    std::fs::write(folder.join(name), source).unwrap();
    let output =
        Command::new(compiler[0]).args(&compiler[1..]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    folder.join("program")
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

fn assert_trades(found: &Value) {
    let (cycles, garbage, peaks) =
        (medians(found, "cycles"), medians(found, "garbage_bytes"), medians(found, "peak_bytes"));
    assert!(cycles.windows(2).all(|pair| pair[0] > pair[1]), "cycles fall: {cycles:?}");
    assert!(garbage.windows(2).all(|pair| pair[0] < pair[1]), "garbage a cycle rises: {garbage:?}");
    assert!(peaks.windows(2).all(|pair| pair[0] < pair[1]), "space rises: {peaks:?}");
    assert_eq!(found["runtime"]["answered"], true);
    assert_eq!(found["variants"][0]["effect"], true);
}

const GO: &str = "package main\n\nvar kept [20000][]byte\n\nfunc main() {\n\tfor i := 0; i < 600000; i++ {\n\t\tkept[i*7919%20000] = make([]byte, 512+i%2048)\n\t}\n}\n";

#[test]
fn a_go_program_trades_space_for_cycles() {
    if !heaplab_oracle::runs("go", &["version"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = built(folder.path(), "main.go", GO, &["go", "build", "-o", "program", "main.go"]);
    let program = program.to_str().unwrap();
    let found = json(
        folder.path(),
        &["--json", "--vary", "GOGC=25..400x4", "--reps", "3", "--time", "cpu", "--", program],
    );
    assert_trades(&found);
    // Go's default is 100, and the garbage of its collections says so.
    let like = found["variants"][0]["points"][4]["like"].as_str().unwrap();
    let like: f64 = like.strip_prefix("GOGC=").unwrap().parse().unwrap();
    assert!((75.0..135.0).contains(&like), "{like}");
}

#[test]
fn an_ocaml_programs_default_is_found_on_its_curve() {
    if !heaplab_oracle::runs("ocamlopt", &["-version"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = built(
        folder.path(),
        "main.ml",
        include_str!("data/strcache.ml"),
        &["ocamlopt", "main.ml", "-o", "program"],
    );
    let program = program.to_str().unwrap();
    let arguments = [
        "--json",
        "--vary",
        "OCAMLRUNPARAM=s=32k,o={40..320x4}",
        "--reps",
        "3",
        "--time",
        "cpu",
        "--",
        program,
        "20000",
        "100000",
    ];
    let found = json(folder.path(), &arguments);
    assert_trades(&found);
    let version = text(&Command::new("ocamlopt").arg("-version").output().unwrap().stdout);
    let default = if version.starts_with("4.") && version.trim() < "4.13" { 80.0 } else { 120.0 };
    let like: f64 = found["variants"][0]["points"][4]["like"]
        .as_str()
        .unwrap()
        .strip_prefix("o=")
        .unwrap()
        .parse()
        .unwrap();
    assert!(
        (default * 0.75..default * 1.3).contains(&like),
        "{like} where {version} has {default}"
    );
}

#[test]
fn a_jvm_and_node_tell_their_collections() {
    let folder = tempfile::tempdir().unwrap();
    if heaplab_oracle::has("javac") && heaplab_oracle::has("java") {
        let source = "class A { public static void main(String[] a) { byte[][] k = new byte[2000][];\n\
                      for (int i = 0; i < 300000; i++) k[i % 2000] = new byte[1000]; } }";
        std::fs::write(folder.path().join("A.java"), source).unwrap();
        assert!(
            Command::new("javac")
                .arg("A.java")
                .current_dir(folder.path())
                .status()
                .unwrap()
                .success()
        );
        let vary = "JAVA_TOOL_OPTIONS=-Xmx{4..64x3}m";
        let found = json(
            folder.path(),
            &[
                "--json",
                "--vary",
                vary,
                "--compare=-XX:+UseSerialGC,-XX:+UseParallelGC",
                "--reps",
                "1",
                "--",
                "java",
                "A",
            ],
        );
        let cycles = medians(&found, "cycles");
        assert!(
            found["runtime"]["answered"] == true && cycles[0] > cycles[2] && cycles[2] > 0.0,
            "{cycles:?}"
        );
    }
    if heaplab_oracle::has("node") {
        // Most of it dies young: of an array of survivors alone V8 learns to put them into the old
        // space.
        let source = "const kept = []; for (let i = 0; i < 3e6; i++) { globalThis.last = [i, `${i}`];\n\
                      if (i % 50 === 0) kept[i / 50 % 5000] = globalThis.last; }";
        std::fs::write(folder.path().join("a.js"), source).unwrap();
        let vary = "NODE_OPTIONS=--max-semi-space-size={1,4,16}";
        let found =
            json(folder.path(), &["--json", "--vary", vary, "--reps", "1", "--", "node", "a.js"]);
        let cycles = medians(&found, "cycles");
        assert!(
            found["runtime"]["answered"] == true && cycles[0] > cycles[1] && cycles[1] > cycles[2],
            "{cycles:?}"
        );
    }
}

/// A workload whose live bytes are four times the least that OCaml's heap begins with.
fn generated(folder: &Path) {
    let statement = "sizes=uniform:16-200,lifetimes=random,births=200000,slots=20000,collect=0";
    let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(["generate", statement, "-o", "g.heaplab"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn heaps_of_the_lab_trade_space_for_cycles() {
    let folder = tempfile::tempdir().unwrap();
    generated(folder.path());
    let on = "textbook:mark-sweep,ocaml:best-fit,s=4k,h=60k";
    let vary = [
        "--vary",
        "overhead=50..200x3",
        "--on",
        on,
        "--reps",
        "2",
        "--space",
        "committed",
        "--no-default",
    ];
    let found = json(
        folder.path(),
        &[&["g.heaplab", "--json", "--results", "out", "--csv", "a.csv"], &vary[..]].concat(),
    );
    assert_eq!(found["workload"]["objects"], 200_000);
    assert_eq!(found["settings"]["time"], "cpu");
    for variant in 0..2 {
        let points = found["variants"][variant]["points"].as_array().unwrap();
        let of = |field: &str| -> Vec<f64> {
            let settings = points.iter().filter(|point| !point["value"].is_null());
            settings.map(|point| point["medians"][field].as_f64().unwrap()).collect()
        };
        let (cycles, garbage, committed) =
            (of("cycles"), of("garbage_bytes"), of("committed_bytes"));
        assert!(cycles.windows(2).all(|pair| pair[0] > pair[1]), "cycles fall: {cycles:?}");
        assert!(garbage.windows(2).all(|pair| pair[0] < pair[1]), "garbage rises: {garbage:?}");
        assert!(committed.windows(2).all(|pair| pair[0] < pair[1]), "space rises: {committed:?}");
        assert!(of("peak_anonymous_bytes").iter().all(|bytes| *bytes > 2e6));
        assert_eq!(points.len(), 3);
    }
    // What was measured is not run again, and space is the same in every block.
    let rows = text(&std::fs::read(folder.path().join("a.csv")).unwrap());
    assert_eq!(rows.lines().count(), 1 + 2 * 6);
    let begin = Instant::now();
    let again =
        json(folder.path(), &[&["g.heaplab", "--json", "--results", "out"], &vary[..]].concat());
    assert_eq!(again["variants"], found["variants"], "within {:?}", begin.elapsed());
    let space = &found["variants"][0]["points"][0]["space_bytes"];
    assert_eq!((&space["low"], &space["high"]), (&space["value"], &space["value"]));
    let other = run(
        folder.path(),
        &[&["g.heaplab", "--touch", "all", "--results", "out"], &vary[..]].concat(),
    );
    assert!(text(&other.stderr).contains("another experiment"), "{}", text(&other.stderr));
}

#[test]
fn the_least_limit_of_a_heap_is_found() {
    let folder = tempfile::tempdir().unwrap();
    generated(folder.path());
    let output = run(
        folder.path(),
        &["g.heaplab", "--on", "textbook:mark-sweep", "--vary", "limit={2..16x2}m", "--min-heap"],
    );
    let said = joined(&output.stdout);
    let least = said
        .split_once("the least that runs is limit=")
        .and_then(|(_, rest)| rest.split_once('m')?.0.parse::<u32>().ok());
    assert!(least.is_some_and(|mib| (3..=12).contains(&mib)), "{said}{}", text(&output.stderr));
    assert!(said.contains("out of memory"), "{said}");
}

#[test]
fn a_signal_ends_a_replay_and_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    generated(folder.path());
    let child = heaplab(
        folder.path(),
        &["g.heaplab", "--on", "ocaml:next-fit", "--vary", "o=20..320x6", "--results", "out"],
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    wait_until("a block's file", || folder.path().join("out/block-00000.json").exists());
    let begin = Instant::now();
    let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 15), "{}", text(&output.stderr));
    assert!(begin.elapsed() < Duration::from_secs(30));
    assert!(joined(&output.stdout).contains("It ended early (interrupted)"));
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
