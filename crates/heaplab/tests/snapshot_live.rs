//! `heaplab snapshot take` and `watch` as a user types them: against a server that speaks as an
//! inspector does, whatever the machine has, and against a real Node.

#[allow(dead_code, reason = "the tests of the capture crate use all of it")]
#[path = "../../capture/tests/all/server.rs"]
mod server;

use serde_json::{Value, json};
use server::{Client, serve};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What heaplab's own memory may be, whatever the size of the snapshot.
const OWN_MEMORY_KIB_MAX: u64 = 100 << 10;
const CHUNK_BYTES: usize = 100_000;
/// More than heaplab may take, so that keeping it all would be seen.
const CHUNKS: usize = 1500;

fn heaplab(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    command.arg("snapshot").args(words);
    command
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Answers commands until that method is asked for; gives its number.
fn until(client: &mut Client, method: &str, usage: &mut dyn FnMut() -> u64) -> Option<u64> {
    loop {
        let command: Value = serde_json::from_str(&client.command()?).unwrap();
        let id = command["id"].as_u64().unwrap();
        if command["method"] == method {
            return Some(id);
        }
        let expression = command["params"]["expression"].as_str().unwrap_or_default();
        let value = if expression.contains("jsHeapSizeLimit") { 100 << 20 } else { usage() };
        client.say(
            &json!({"id": id, "result": {"result": {"type": "number", "value": value}}})
                .to_string(),
        );
    }
}

fn progress(client: &mut Client, done: u64) {
    client.say(&json!({"method": "HeapProfiler.reportHeapSnapshotProgress", "params": {"done": done, "total": 100_000}}).to_string());
}

fn answer(client: &mut Client, id: u64) {
    client.say(&json!({"id": id, "result": {}}).to_string());
}

/// The most memory that a process that lives has had.
fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn taking_a_big_snapshot_takes_little_memory() {
    let (tell_pid, pid) = std::sync::mpsc::channel();
    let (url, served) = serve(move |client| {
        let id = until(client, "HeapProfiler.takeHeapSnapshot", &mut || 0).unwrap();
        client.chunk("{\"snapshot\":");
        let chunk = " ".repeat(CHUNK_BYTES);
        (0..CHUNKS).for_each(|_| client.chunk(&chunk));
        client.chunk("0}");
        // What is still on its way to the client by now is what the sockets hold.
        let peak = peak_kib(pid.recv().unwrap());
        answer(client, id);
        peak
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("big.heapsnapshot");
    let child = heaplab(&["take", "--json", "--node", &url, "-o"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    tell_pid.send(child.id()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["bytes"].as_u64(), Some(std::fs::metadata(&path).unwrap().len()));
    assert!(
        told["bytes"].as_u64().unwrap() / 1024 > OWN_MEMORY_KIB_MAX,
        "the test sends more than may be kept"
    );
    let peak = served.join().unwrap();
    assert!(peak < OWN_MEMORY_KIB_MAX, "{peak} KiB");
}

/// Waits until the terminal has shown that text.
fn wait_for(terminal: &Mutex<Vec<u8>>, text: &str) {
    for _ in 0..60_000 {
        if String::from_utf8_lossy(&terminal.lock().unwrap()).contains(text) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!(
        "the terminal never showed {text:?}: {:?}",
        String::from_utf8_lossy(&terminal.lock().unwrap())
    );
}

#[test]
fn a_terminal_is_told_how_far_it_is() {
    if !heaplab_oracle::has("script") {
        return;
    }
    let shown = Arc::new(Mutex::new(Vec::new()));
    let terminal = shown.clone();
    let (url, served) = serve(move |client| {
        let id = until(client, "HeapProfiler.takeHeapSnapshot", &mut || 0).unwrap();
        // The target goes on when the terminal has shown how far it is, so that it is not too fast
        // for a busy machine.
        for step in 1..=4 {
            progress(client, step * 25_000);
            wait_for(
                &terminal,
                &format!(
                    "the target walks its heap: {} objects",
                    ["25,000", "50,000", "75,000", "100,000"][step as usize - 1]
                ),
            );
            wait_for(&terminal, &format!("{} %", 25 * step));
        }
        for piece in ["{\"snapshot\":", "0", "}"] {
            client.chunk(piece);
        }
        wait_for(&terminal, "receiving: ");
        answer(client, id);
    });
    let folder = tempfile::tempdir().unwrap();
    let command = format!(
        "stty cols 80; {} snapshot take --node {url} -o a.heapsnapshot",
        env!("CARGO_BIN_EXE_heaplab")
    );
    let mut script = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = script.stdout.take().unwrap();
    let mut piece = [0; 4096];
    while let length @ 1.. = out.read(&mut piece).unwrap() {
        shown.lock().unwrap().extend_from_slice(&piece[..length]);
    }
    let status = script.wait().unwrap();
    served.join().unwrap();
    let text = String::from_utf8_lossy(&shown.lock().unwrap()).into_owned();
    assert!(status.success(), "{text}");
    for expected in
        ["the target walks its heap: 50,000 objects", "50 %", "receiving: ", "a.heapsnapshot: "]
    {
        assert!(text.contains(expected), "{expected:?} is not in {text:?}");
    }
    // A line that is longer than the terminal would be left behind by the next one.
    for line in text.split(['\r', '\n']).filter(|line| line.contains("walks")) {
        let escapes = line.split('\x1b').skip(1).map(|escape| {
            1 + escape.find(|each: char| each.is_ascii_alphabetic()).unwrap_or(0) + 1
        });
        assert!(line.chars().count() - escapes.sum::<usize>() <= 80, "{line:?}");
    }
}

/// A program whose heap nears its limit, falls, and nears it again; each snapshot is
/// `{"snapshot":N}`. The last one is cut where that is asked.
fn leaking(snapshots: u64, cut_last: bool) -> (String, std::thread::JoinHandle<()>) {
    serve(move |client| {
        let mut used: u64 = 60 << 20;
        for number in 1..=snapshots {
            // It grows by 2 MiB between two looks.
            let mut grow = || {
                used += 2 << 20;
                used
            };
            let Some(id) = until(client, "HeapProfiler.takeHeapSnapshot", &mut grow) else {
                return;
            };
            assert!(used >= 80 << 20 || snapshots == 1, "taken at {used}");
            client.chunk(&format!("{{\"snapshot\":{number}"));
            if cut_last && number == snapshots {
                return;
            }
            client.chunk("}");
            answer(client, id);
        }
        assert!(
            until(client, "HeapProfiler.takeHeapSnapshot", &mut || 99 << 20).is_none(),
            "one more than was asked for"
        );
    })
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_watch_takes_so_many_and_no_more() {
    let (url, served) = leaking(3, false);
    let folder = tempfile::tempdir().unwrap();
    let words = [
        "watch",
        "--node",
        &url,
        "--near-heap-limit",
        "3",
        "--poll",
        "10ms",
        "--json",
        "-o",
        "leak.heapsnapshot",
    ];
    let output = heaplab(&words).current_dir(folder.path()).output().unwrap();
    served.join().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(
        names(folder.path()),
        ["leak.1.heapsnapshot", "leak.2.heapsnapshot", "leak.3.heapsnapshot"]
    );
    assert_eq!(
        std::fs::read_to_string(folder.path().join("leak.3.heapsnapshot")).unwrap(),
        "{\"snapshot\":3}"
    );
    let told: Vec<Value> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    assert_eq!(
        told.iter().filter_map(|line| line["file"].as_str()).collect::<Vec<_>>(),
        names(folder.path())
    );
}

#[test]
fn a_target_that_dies_ends_a_watch_and_what_it_sent_is_kept() {
    let watch = |snapshots| {
        let (url, served) = leaking(snapshots, true);
        let folder = tempfile::tempdir().unwrap();
        let words = [
            "watch",
            "--node",
            &url,
            "--near-heap-limit",
            "3",
            "--poll",
            "10ms",
            "-o",
            "leak.heapsnapshot",
        ];
        let output = heaplab(&words).current_dir(folder.path()).output().unwrap();
        served.join().unwrap();
        (output, names(folder.path()))
    };
    let (output, files) = watch(2);
    assert!(
        output.status.code() == Some(1) && said(&output).contains("1 of 3 snapshots were taken"),
        "{}",
        said(&output)
    );
    assert_eq!(files, ["leak.1.heapsnapshot", "leak.2.heapsnapshot.part"]);
    let (output, files) = watch(1);
    assert!(
        !output.status.success() && said(&output).contains("no snapshot was taken"),
        "{}",
        said(&output)
    );
    assert_eq!(files, ["leak.1.heapsnapshot.part"]);
}

/// A Node that is killed with the test.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Node with a limit of 30 MiB that leaks as fast as it is said.
fn leaking_node(objects_at_once: u32) -> Node {
    let program = format!(
        "globalThis.held = []; console.log('ready'); setInterval(() => {{ \
         for (let i = 0; i < {objects_at_once}; ++i) held.push({{number: held.length, text: 'text ' + held.length}}) }}, 20)"
    );
    let mut child = Command::new("node")
        .args(["--max-old-space-size=30", "--inspect=127.0.0.1:0", "-e", &program])
        // Where it may write snapshots of its own.
        .current_dir(std::env::temp_dir())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Node(child)
}

#[test]
fn a_real_leak_is_watched_to_its_end() {
    if !heaplab_oracle::has("node") {
        return;
    }
    let node = leaking_node(500);
    let folder = tempfile::tempdir().unwrap();
    let pid = node.0.id().to_string();
    let words = [
        "watch",
        "--node",
        &pid,
        "--near-heap-limit",
        "3",
        "--near",
        "50",
        "--poll",
        "10ms",
        "-o",
        "leak.heapsnapshot",
    ];
    let output = heaplab(&words).current_dir(folder.path()).output().unwrap();
    let taken: Vec<String> =
        names(folder.path()).into_iter().filter(|name| name.ends_with(".heapsnapshot")).collect();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(
        taken,
        ["leak.1.heapsnapshot", "leak.2.heapsnapshot", "leak.3.heapsnapshot"],
        "{}",
        said(&output)
    );
    drop(node);
    // Each has more of what leaks than the one before.
    let leaked = |name: &String| {
        String::from_utf8(std::fs::read(folder.path().join(name)).unwrap())
            .unwrap()
            .matches("\"text ")
            .count()
    };
    let counts: Vec<usize> = taken.iter().map(leaked).collect();
    assert!(counts[0] > 1000 && counts.is_sorted_by(|one, next| one < next), "{counts:?}");
}

/// The Node of the study, which obeys an inspector only in its event loop.
fn node_24() -> Option<std::path::PathBuf> {
    let node = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../studies/heap-snapshots/node_modules/node24/bin/node");
    heaplab_oracle::has(node.to_str().unwrap()).then_some(node)
}

#[test]
fn a_program_that_never_comes_to_its_event_loop_is_taken_and_goes_on() {
    let Some(node) = node_24() else { return };
    let program = "globalThis.held = Array.from({length: 1000}, (_, number) => ({number}));\n\
        console.log('ready'); const end = Date.now() + 600000; let rounds = 0;\n\
        while (Date.now() < end) { if (++rounds % 1e6 === 0) console.log('round') }";
    let mut child = Command::new(node)
        .args(["--inspect-port=0", "-e", program])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said_by_node = BufReader::new(child.stdout.take().unwrap());
    line_is(&mut said_by_node, "ready\n");
    let node = Node(child);
    let folder = tempfile::tempdir().unwrap();
    let pid = node.0.id().to_string();
    let words = ["take", "--node", &pid, "--timeout", "120", "-o", "a.heapsnapshot"];
    let output = heaplab(&words).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(!said(&output).contains("open still"), "{}", said(&output));
    let valid = heaplab(&["validate", "a.heapsnapshot"]).current_dir(folder.path()).output();
    assert!(valid.unwrap().status.success());
    // What it says from now on: it was not left standing.
    (0..20).for_each(|_| line_is(&mut said_by_node, "round\n"));
}

#[test]
fn a_leak_that_never_comes_to_its_event_loop_is_watched() {
    let Some(node) = node_24() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = "globalThis.held = []; console.log('ready');\n\
        setTimeout(() => { for (;;) held.push({text: new Array(100).fill(held.length)}) }, 3000)";
    let mut child = Command::new(node)
        .args(["--max-old-space-size=60", "--inspect=127.0.0.1:0", "-e", program])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    line_is(&mut BufReader::new(child.stdout.take().unwrap()), "ready\n");
    let node = Node(child);
    let pid = node.0.id().to_string();
    let words = ["watch", "--node", &pid, "--near-heap-limit", "1", "-o", "leak.heapsnapshot"];
    let output = heaplab(&words).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let valid = heaplab(&["validate", "leak.1.heapsnapshot"]).current_dir(folder.path()).output();
    assert!(valid.unwrap().status.success());
}

#[test]
fn a_watch_that_is_interrupted_leaves_a_part_and_no_name() {
    if !heaplab_oracle::has("node") {
        return;
    }
    let node = leaking_node(500);
    let folder = tempfile::tempdir().unwrap();
    let pid = node.0.id().to_string();
    let words = [
        "watch",
        "--node",
        &pid,
        "--every",
        "10ms",
        "--at-most",
        "1000",
        "-q",
        "-o",
        "leak.heapsnapshot",
    ];
    let mut watch = heaplab(&words)
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let part = loop {
        let found = names(folder.path()).into_iter().find(|name| name.ends_with(".part"));
        match found.filter(|name| {
            std::fs::metadata(folder.path().join(name)).is_ok_and(|part| part.len() > 0)
        }) {
            Some(name) => break name,
            None => assert!(started.elapsed() < Duration::from_secs(300), "nothing came"),
        }
    };
    // Not by SIGINT, which whatever runs these tests in the background may have told its children
    // to ignore.
    let interrupted =
        Command::new("kill").args(["-TERM", &watch.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    assert!(!watch.wait().unwrap().success());
    let whole = part.trim_end_matches(".part");
    let files = names(folder.path());
    // It may have become whole between the look and the signal; what has its name is whole, and the
    // last part is a part.
    for name in files.iter().filter(|name| name.ends_with(".heapsnapshot")) {
        let output = heaplab(&["validate", name]).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{name}: {}", said(&output));
    }
    assert!(files.iter().any(|name| name == whole || *name == part), "{files:?}");
    drop(node);
}

/// A Node that makes a hundred sessions more whenever it is told to (SIGUSR2), lets as many buffers
/// go, and says so.
fn growing_node() -> (Node, BufReader<std::process::ChildStdout>) {
    let program = "class Session { constructor(number) { this.user = {number} } }\n\
        globalThis.held = []; globalThis.short = Array.from({length: 3000}, (_, i) => new Float64Array(4));\n\
        process.on('SIGUSR2', () => { for (let i = 0; i < 100; ++i) held.push(new Session(i)); short.splice(0, 100); console.log('grown') });\n\
        console.log('ready'); setInterval(() => {}, 1000)";
    let mut child = Command::new("node")
        .args(["--inspect-port=0", "-e", program])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    line_is(&mut said, "ready\n");
    (Node(child), said)
}

fn line_is(from: &mut impl BufRead, expected: &str) {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    assert_eq!(line, expected);
}

fn grow(node: &Node, said: &mut impl BufRead) {
    assert!(
        Command::new("kill").args(["-USR2", &node.0.id().to_string()]).status().unwrap().success()
    );
    line_is(said, "grown\n");
}

#[test]
fn two_snapshots_of_one_command_can_be_compared_and_those_of_two_are_said_not_to() {
    if !heaplab_oracle::has("node") {
        return;
    }
    let (node, mut said_by_node) = growing_node();
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| heaplab(words).current_dir(folder.path()).output().unwrap();
    let pid = node.0.id().to_string();
    let mut take =
        heaplab(&["take", "--node", &pid, "-o", "before.heapsnapshot", "-o", "after.heapsnapshot"])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    let mut prompt = BufReader::new(take.stderr.take().unwrap());
    line_is(&mut prompt, "heaplab: use the program, then press Enter for after.heapsnapshot\n");
    grow(&node, &mut said_by_node);
    std::io::Write::write_all(take.stdin.as_mut().unwrap(), b"\n").unwrap();
    assert!(take.wait().unwrap().success());
    let diff = run(&["diff", "before.heapsnapshot", "after.heapsnapshot", "--json"]);
    let answer: Value = serde_json::from_slice(&diff.stdout).unwrap();
    assert_eq!((&answer["one_session"], said(&diff).contains("WARNING")), (&true.into(), false));
    let sessions = answer["classes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|class| class["name"] == "Session")
        .unwrap();
    assert_eq!((&sessions["added"], &sessions["removed"]), (&100.into(), &0.into()));

    // Each command has a session of its own, and the target's inspector is closed after it.
    grow(&node, &mut said_by_node);
    let alone = run(&["take", "--node", &pid, "-o", "alone.heapsnapshot"]);
    assert!(alone.status.success(), "{}", said(&alone));
    for words in [
        ["diff", "before.heapsnapshot", "alone.heapsnapshot"],
        ["summary", "alone.heapsnapshot", "--since=before.heapsnapshot"],
    ] {
        let warned = run(&words);
        let text = String::from_utf8_lossy(&warned.stderr).replace("\n  ", " ");
        assert!(
            text.contains("WARNING: these are not snapshots of one session"),
            "{words:?}: {}",
            said(&warned)
        );
        assert!(
            text.contains("the newer file's ids begin anew")
                && text.contains("take -o before.heapsnapshot"),
            "{text}"
        );
    }
    let answer: Value = serde_json::from_slice(
        &run(&["diff", "before.heapsnapshot", "alone.heapsnapshot", "--json"]).stdout,
    )
    .unwrap();
    assert_eq!(answer["one_session"], false);
}

#[test]
fn where_nobody_presses_enter_the_first_snapshot_stays_and_the_reason_is_said() {
    let (url, served) = leaking(1, false);
    let folder = tempfile::tempdir().unwrap();
    let words = ["take", "--node", &url, "-o", "a.heapsnapshot", "-o", "b.heapsnapshot"];
    let ended = heaplab(&words).current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
    assert!(
        !ended.status.success() && said(&ended).replace("\n  ", " ").contains("use --every TIME"),
        "{}",
        said(&ended)
    );
    assert_eq!(names(folder.path()), ["a.heapsnapshot"]);
    let twice = heaplab(&["take", "--node", &url, "-o", "c", "-o", "c"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(said(&twice).contains("c is named twice"), "{}", said(&twice));
    drop(served);
}
