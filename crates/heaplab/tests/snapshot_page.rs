//! `heaplab snapshot open --serve` in a real browser.

use std::io::{BufRead, BufReader};
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
    if !heaplab_oracle::has_browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (older, newer) = snapshots(folder.path());
    let served = Served::of(&[&older, &newer]);
    let status = Command::new("node")
        .args(["--test", "--test-reporter=spec"])
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
