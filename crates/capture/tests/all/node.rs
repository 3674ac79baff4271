//! The real Node: the one of the path.

use heaplab_capture::take::{self, Progress, Request, part_of};
use heaplab_capture::{CaptureError, Connection, Endpoint, Options, watch};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// Node's inspector has one default port: one target at a time.
static PORT: Mutex<()> = Mutex::new(());

/// Whether `program` runs. Says so where it does not; fails where `HEAPLAB_REQUIRE_ORACLES=1`.
pub fn have(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert!(std::env::var("HEAPLAB_REQUIRE_ORACLES").as_deref() != Ok("1"), "{program} is required and not installed");
        std::eprintln!("skipped: {program} is not installed");
    }
    found
}

/// A Node that prints a line when it is ready, and ends with the test.
struct Target(Child);

impl Target {
    fn start(options: &[&str], program: &str) -> Target {
        let script = format!("{program}; console.log('ready'); setInterval(() => {{}}, 1000)");
        let mut child =
            Command::new("node").args(options).args(["-e", &script]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
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
    if !have("node") {
        return;
    }
    let _port = PORT.lock();
    let target = Target::start(&[], "globalThis.held = Array.from({length: 20000}, (_, i) => ({i, text: 'text ' + i}))");
    let options = Options::default();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.heapsnapshot");
    // Twice: the second time it listens already.
    for _ in 0..2 {
        let endpoint = Endpoint::of_process(target.0.id(), &options).unwrap();
        let mut connection = Connection::open(&endpoint, &options).unwrap();
        let (mut walked, mut received) = (false, 0);
        let taken = take::take(&mut connection, &path, Request::default(), &mut |progress| match progress {
            Progress::Walking { done, total } => walked = walked || (done > 0 && total >= done),
            Progress::Receiving { bytes } => received = bytes,
        })
        .unwrap();
        assert!(walked, "V8 told how far it was");
        assert_eq!((taken.bytes, received), (std::fs::metadata(&path).unwrap().len(), taken.bytes));
        let text = std::fs::read_to_string(&path).unwrap();
        let snapshot: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(snapshot["strings"].as_array().unwrap().iter().any(|text| text == "text 19999"));
    }
}

#[test]
fn the_heap_and_its_limit_are_told() {
    if !have("node") {
        return;
    }
    let _port = PORT.lock();
    let target = Target::start(&["--max-old-space-size=100", "--inspect=127.0.0.1:0"], "globalThis.held = 'x'.repeat(1e6)");
    let options = Options::default();
    let mut connection = Connection::open(&Endpoint::of_process(target.0.id(), &options).unwrap(), &options).unwrap();
    let limit = watch::limit_bytes(&mut connection).unwrap();
    assert_eq!(limit, 100 << 20, "what old objects may take, not what heap_size_limit says");
    let used = watch::used_bytes(&mut connection).unwrap();
    assert!((1 << 20..50 << 20).contains(&used), "{used}");
    let error = connection.number("nothing.at.all").unwrap_err().to_string();
    assert!(error.contains("ReferenceError"), "{error}");
}

#[test]
fn a_target_that_dies_leaves_what_it_had_sent() {
    if !have("node") {
        return;
    }
    let _port = PORT.lock();
    let mut target =
        Target::start(&["--inspect=127.0.0.1:0"], "globalThis.held = Array.from({length: 200000}, (_, i) => ({i, text: 'text ' + i}))");
    let options = Options::default();
    let mut connection = Connection::open(&Endpoint::of_process(target.0.id(), &options).unwrap(), &options).unwrap();
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
