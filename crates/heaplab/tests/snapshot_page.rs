//! `heaplab snapshot open`: its page in a real browser, and a session.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const HEAPLAB: &str = env!("CARGO_BIN_EXE_heaplab");

/// A page that ends with the test.
struct Served(Child, String);

impl Served {
    fn of(files: &[&Path]) -> Served {
        let mut child = Command::new(HEAPLAB)
            .args(["snapshot", "open", "--serve", "--quiet"])
            .args(files)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "the address of the page: {url}");
        Served(child, url.trim().to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// A snapshot of a page in Chromium, and a part of it as an older one.
fn snapshots(folder: &Path) -> (PathBuf, PathBuf) {
    let newer = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../snapshot/tests/devtools/chromium-dom.heapsnapshot.gz");
    let older = folder.join("older.heapsnapshot");
    let mut trim = Command::new(HEAPLAB);
    trim.args(["snapshot", "trim", "--quiet"]).arg(&newer).arg("Window*").arg("-o").arg(&older);
    assert!(trim.status().unwrap().success());
    (older, newer)
}

#[test]
fn the_page_has_what_devtools_has() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let Some(mut node) = heaplab_oracle::browser_tests() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (older, newer) = snapshots(folder.path());
    let served = Served::of(&[&older, &newer]);
    let status = node
        .arg(tests.join("snapshot_page.mjs"))
        .env("HEAPLAB", HEAPLAB)
        .env("PAGE", &served.1)
        .env("OLDER", &older)
        .env("NEWER", &newer)
        .status();
    assert!(status.expect("node starts").success(), "the browser saw something else: see above");
}

#[test]
fn a_page_that_cannot_be_served_says_why() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let run = |words: &[&str]| {
        let output = Command::new(HEAPLAB).args(["snapshot", "open"]).args(words).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, words) = run(&["--serve", "--port", &port, "a.heapsnapshot"]);
    assert!(code == Some(1) && words.contains(&format!("cannot listen on port {port}")), "{words}");
    let (code, words) = run(&["--serve", "no-such.heapsnapshot"]);
    assert!(code == Some(1) && words.contains("no-such.heapsnapshot"), "{words}");
    let (code, words) = run(&["a.heapsnapshot", "b.heapsnapshot"]);
    assert!(code == Some(2) && words.contains("--serve"), "{words}");
}

#[test]
fn a_session_answers_lines_that_do_not_name_the_file() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../snapshot/tests/devtools/chromium-dom.heapsnapshot.gz");
    let mut session = Command::new(HEAPLAB)
        .args(["snapshot", "open", "--quiet"])
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = "summary --top 1\npath\nquery --help\nquery 'group type sort count top 2'\nwrong\n";
    session.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = session.wait_with_output().unwrap();
    let answers = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "a line failed: {errors}");
    assert!(answers.contains("Usage: query [OPTIONS] <QUERY>\n"), "{answers}");
    assert!(answers.contains("objects with") && answers.contains("type\n"), "{answers}");
    assert!(errors.contains("Usage: path <OBJECT|CLASS>"), "{errors}");
    assert!(errors.contains("unrecognized subcommand 'wrong'"), "{errors}");
    let names_no_file = |text: &str| !text.contains("The snapshot\n") && !text.contains("> <FILE>");
    assert!(names_no_file(&answers) && names_no_file(&errors), "{answers}{errors}");
}
