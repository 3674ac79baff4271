//! The real Node: the one of the path.

use crate::fake::PATIENT;
use heaplab_capture::take::{self, Progress, Request, part_of};
use heaplab_capture::{CaptureError, Connection, Endpoint, watch};
use heaplab_oracle::has;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A Node that prints a line when it is ready, and ends with the test.
struct Target(Child);

impl Target {
    fn start(options: &[&str], program: &str) -> Target {
        Target::start_as("node".as_ref(), options, program)
    }

    fn start_as(node: &std::path::Path, options: &[&str], program: &str) -> Target {
        let script = format!("{program}; console.log('ready'); setInterval(() => {{}}, 1000)");
        let mut child = Command::new(node)
            .args(options)
            .args(["-e", &script])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Target(child)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_node_that_was_not_asked_to_listen_is_named_by_its_pid() {
    if !has("node") {
        return;
    }
    let target = Target::start(
        &["--inspect-port=0"],
        "globalThis.held = Array.from({length: 20000}, (_, i) => ({i, text: 'text ' + i}))",
    );
    let options = PATIENT;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.heapsnapshot");
    // Twice: the inspector that was opened for the first is closed, and opens again.
    for _ in 0..2 {
        let endpoint = Endpoint::of_process(target.0.id(), &options).unwrap();
        let mut connection = Connection::open(&endpoint, &options).unwrap();
        let (mut walked, mut received) = (false, 0);
        let taken =
            take::take(
                &mut connection,
                &path,
                Request::default(),
                &mut |progress| match progress {
                    Progress::Walking { done, total } => {
                        walked = walked || (done > 0 && total >= done)
                    }
                    Progress::Receiving { bytes } => received = bytes,
                },
            )
            .unwrap();
        assert!(walked, "V8 told how far it was");
        assert_eq!((taken.bytes, received), (std::fs::metadata(&path).unwrap().len(), taken.bytes));
        let text = std::fs::read_to_string(&path).unwrap();
        let snapshot: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(snapshot["strings"].as_array().unwrap().iter().any(|text| text == "text 19999"));
        assert_eq!(endpoint.opened, Some(target.0.id()));
        assert_eq!(listeners(target.0.id()), 1, "it listens while it is needed");
        connection.end(&options).unwrap();
        assert_eq!(listeners(target.0.id()), 0, "an open inspector lets anybody in");
    }
}

/// As an Electron program or one in a container goes by another name, and an update deletes the
/// executable of what runs.
#[test]
fn node_is_known_under_another_name_and_when_its_file_is_gone() {
    if !has("node") {
        return;
    }
    let real = Command::new("node").args(["-p", "process.execPath"]).output().unwrap().stdout;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("my app");
    std::fs::copy(std::str::from_utf8(&real).unwrap().trim_end(), &copy).unwrap();
    let target = Target::start_as(&copy, &["--inspect-port=0"], "globalThis.held = 1");
    std::fs::remove_file(&copy).unwrap();
    let mut connection =
        Connection::open(&Endpoint::of_process(target.0.id(), &PATIENT).unwrap(), &PATIENT)
            .unwrap();
    assert_eq!(connection.number("40 + 2").unwrap(), 42.0);
    connection.end(&PATIENT).unwrap();
}

#[test]
fn a_node_that_does_not_listen_for_the_signal_says_how_to_start_it() {
    if !has("node") {
        return;
    }
    // As with --disable-sigusr1 of later Nodes: nothing handles the signal.
    let target = Target::start(
        &["--inspect-port=0"],
        "const on = () => {}; process.on('SIGUSR1', on); process.off('SIGUSR1', on)",
    );
    let error = Endpoint::of_process(target.0.id(), &PATIENT).unwrap_err().to_string();
    assert!(
        error.contains("is Node, but listens on no inspector")
            && error.contains("start it with --inspect"),
        "{error}"
    );
}

#[test]
fn a_shell_that_started_node_names_it() {
    if !has("node") {
        return;
    }
    let script = "trap 'exit 9' USR1; node --inspect-port=0 -e 'console.log(process.pid); setInterval(() => {}, 1000)' & wait";
    let mut shell =
        Command::new("bash").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let node = line.trim_end();
    let error = Endpoint::of_process(shell.id(), &PATIENT).unwrap_err().to_string();
    assert!(
        error.contains("is bash (")
            && error.contains(&format!("--node {node} (node --inspect-port=0 -e")),
        "{error}"
    );
    assert_eq!(shell.try_wait().unwrap(), None, "the shell got no signal");
    let _ = Command::new("kill").args(["-9", node]).status();
    let _ = Target(shell);
}

/// How many objects of a snapshot have that name.
pub fn named(path: &std::path::Path, name: &str) -> usize {
    let snapshot: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let strings = snapshot["strings"].as_array().unwrap();
    let Some(number) = strings.iter().position(|text| text == name) else { return 0 };
    let fields = snapshot["snapshot"]["meta"]["node_fields"].as_array().unwrap().len();
    let types = snapshot["snapshot"]["meta"]["node_types"][0].as_array().unwrap();
    let object = types.iter().position(|kind| kind == "object").unwrap();
    let numbers: Vec<u64> = snapshot["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_u64().unwrap())
        .collect();
    numbers.chunks(fields).filter(|row| row[0] == object as u64 && row[1] == number as u64).count()
}

#[test]
fn the_heap_of_a_worker_is_taken_from_the_worker() {
    if !has("node") {
        return;
    }
    // The second one starts a third.
    let program = "const {Worker} = require('worker_threads');\
        const text = (count, then) => `class OfWorker {}; globalThis.kept = Array.from({length: ${count}}, () => new OfWorker());\
            const {Worker, parentPort} = require('worker_threads'); const up = () => parentPort.postMessage('up'); ${then}; setInterval(() => {}, 1000)`;\
        const job = (count, then) => new Worker(text(count, then), {eval: true});\
        const nested = `new Worker(${JSON.stringify(text(50, 'up()'))}, {eval: true}).on('message', up)`;\
        job(30, 'up()').on('message', () => job(40, nested).on('message', () => console.log('workers')))";
    let script = format!("{program}; setInterval(() => {{}}, 1000)");
    let mut child = Command::new("node")
        .args(["--inspect-port=0", "-e", &script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let target = Target(child);
    assert_eq!(line, "workers\n");
    let options = PATIENT;
    let folder = tempfile::tempdir().unwrap();
    let mut connection =
        Connection::open(&Endpoint::of_process(target.0.id(), &options).unwrap(), &options)
            .unwrap();
    let workers = connection.workers().unwrap();
    assert_eq!(
        workers.iter().map(|worker| worker.number).collect::<Vec<_>>(),
        [1, 2, 3],
        "{workers:?}"
    );
    assert_eq!(connection.workers().unwrap(), workers, "asked again");
    let mut objects = Vec::new();
    for worker in std::iter::once(None).chain(workers.iter().map(Some)) {
        connection.turn_to(worker);
        let path = folder.path().join("a.heapsnapshot");
        let mut walked = false;
        take::take(&mut connection, &path, Request::default(), &mut |progress| {
            walked |= matches!(progress, Progress::Walking { .. })
        })
        .unwrap();
        assert!(walked, "its progress is heard");
        objects.push(named(&path, "OfWorker"));
    }
    assert_eq!(objects, [0, 30, 40, 50]);
    // An ended worker is an error for its caller; the main thread stays reachable.
    connection.turn_to(Some(&workers[0]));
    connection.number("process.exit(0)").unwrap_err();
    connection.turn_to(None);
    assert_eq!(connection.number("40 + 2").unwrap(), 42.0);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(600);
    while connection.workers().unwrap() != workers[1..] {
        assert!(std::time::Instant::now() < until, "its end is not heard of");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    connection.end(&options).unwrap();
}

/// Sockets on which the process listens.
fn listeners(pid: u32) -> usize {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let held: Vec<String> = links
        .filter_map(|link| {
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<&str>>());
    rows.filter(|cells| cells[3] == "0A" && held.iter().any(|inode| inode == cells[9])).count()
}

#[test]
fn a_connection_that_fails_closes_what_it_opened_and_leaves_what_was_open() {
    if !has("node") {
        return;
    }
    let options = PATIENT;
    let mut target = Target::start(&["--inspect-port=0"], "globalThis.held = 1");
    let endpoint = Endpoint::of_process(target.0.id(), &options).unwrap();
    drop(Connection::open(&endpoint, &options).unwrap());
    let began = std::time::Instant::now();
    loop {
        assert_eq!(target.0.try_wait().unwrap(), None, "the process lives on");
        if listeners(target.0.id()) == 0 {
            break;
        }
        assert!(began.elapsed().as_secs() < 600, "it is open still");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let target = Target::start(&["--inspect=127.0.0.1:0"], "globalThis.held = 1");
    let endpoint = Endpoint::of_process(target.0.id(), &options).unwrap();
    assert_eq!(endpoint.opened, None);
    Connection::open(&endpoint, &options).unwrap().end(&options).unwrap();
    let again = Endpoint::of_process(target.0.id(), &options).unwrap();
    assert_eq!(
        (again.opened, again.address),
        (None, endpoint.address),
        "somebody else's, who may need it"
    );
}

#[test]
fn a_port_that_another_has_is_said_at_once_with_its_owner() {
    if !has("node") {
        return;
    }
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let target =
        Target::start(&[&format!("--inspect-port=127.0.0.1:{port}")], "globalThis.held = 1");
    let error = Endpoint::of_process(target.0.id(), &PATIENT).unwrap_err().to_string();
    let owner =
        format!("port {port}, where that would listen, is taken by process {}", std::process::id());
    assert!(error.contains(&owner) && error.contains("--inspect-port=0"), "{error}");
    drop(other);
    assert!(
        Endpoint::of_process(target.0.id(), &PATIENT).is_ok(),
        "the process was left as it was"
    );
}

#[test]
fn the_heap_and_its_limit_are_told() {
    if !has("node") {
        return;
    }
    let target = Target::start(
        &["--max-old-space-size=100", "--inspect=127.0.0.1:0"],
        "globalThis.held = 'x'.repeat(1e6)",
    );
    let options = PATIENT;
    let mut connection =
        Connection::open(&Endpoint::of_process(target.0.id(), &options).unwrap(), &options)
            .unwrap();
    let limit = watch::limit_bytes(&mut connection).unwrap();
    assert_eq!(limit, 100 << 20, "what old objects may take, not what heap_size_limit says");
    let used = watch::used_bytes(&mut connection).unwrap();
    assert!((1 << 20..50 << 20).contains(&used), "{used}");
    let error = connection.number("nothing.at.all").unwrap_err().to_string();
    assert!(error.contains("ReferenceError"), "{error}");
}

#[test]
fn a_target_that_dies_leaves_what_it_had_sent() {
    if !has("node") {
        return;
    }
    let mut target = Target::start(
        &["--inspect=127.0.0.1:0"],
        "globalThis.held = Array.from({length: 200000}, (_, i) => ({i, text: 'text ' + i}))",
    );
    let options = PATIENT;
    let mut connection =
        Connection::open(&Endpoint::of_process(target.0.id(), &options).unwrap(), &options)
            .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.heapsnapshot");
    let error = take::take(&mut connection, &path, Request::default(), &mut |progress| {
        if matches!(progress, Progress::Receiving { bytes } if bytes > 1 << 20) {
            let _ = target.0.kill();
        }
    })
    .unwrap_err();
    let CaptureError::Cut { part, bytes, .. } = &error else { panic!("{error}") };
    assert_eq!((part, *bytes > 1 << 20), (&part_of(&path), true));
    assert_eq!(std::fs::metadata(part).unwrap().len(), *bytes);
    assert!(std::fs::read_to_string(part).unwrap().starts_with("{\"snapshot\":"));
    assert!(!path.exists());
}
