//! The real Chromium, over its debugging port.

use crate::fake::PATIENT;
use crate::node::named;
use heaplab_capture::take::{self, Request};
use heaplab_capture::{Connection, Endpoint, watch};
use heaplab_oracle::has;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PAGE: &str = "data:text/html,<title>Shop</title><script>window.kept = document.createElement('article');\
    const start = (job, name) => new Worker(URL.createObjectURL(new Blob([job])), {name});\
    const job = (count, then) => `class OfWorker {}; self.kept = Array.from({length: ${count}}, () => new OfWorker()); ${then}`;\
    const inner = job(60, 'postMessage(1)');\
    window.worker = start(job(50, `const start = ${start}; self.inner = start(${JSON.stringify(inner)}, 'index'); inner.onmessage = () => postMessage(1)`), 'mail');\
    worker.onmessage = () => { window.up = 1 }</script>";

struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a browser and gives the port that it chose.
fn browser(profile: &Path) -> (Browser, String) {
    let child = Command::new("chromium")
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-port=0",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(PAGE)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let browser = Browser(child);
    let until = Instant::now() + Duration::from_secs(600);
    while Instant::now() < until {
        // Two lines: the port and the browser's own target.
        if let Ok(text) = std::fs::read_to_string(profile.join("DevToolsActivePort"))
            && let Some((port, _)) = text.split_once('\n')
        {
            return (browser, format!("127.0.0.1:{port}"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("chromium told no port within 600 s");
}

#[test]
fn a_page_is_found_by_its_title() {
    if !has("chromium") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_browser, address) = browser(&folder.path().join("profile"));
    let options = PATIENT;
    let until = Instant::now() + Duration::from_secs(600);
    let endpoint = loop {
        match Endpoint::at(&address, Some("shop"), &options) {
            Ok(endpoint) => break endpoint,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let mut connection = Connection::open(&endpoint, &options).unwrap();
    assert!(watch::limit_bytes(&mut connection).unwrap() > 100 << 20);
    // The page's title is set before its script runs. The script makes the element, and only then
    // the worker announces itself.
    let until = Instant::now() + Duration::from_secs(600);
    while connection.number("window.up || 0").unwrap() == 0.0 {
        assert!(Instant::now() < until, "the page's worker does not begin");
        std::thread::sleep(Duration::from_millis(100));
    }
    let path = folder.path().join("page.heapsnapshot");
    take::take(&mut connection, &path, Request { numbers: true }, &mut |_| {}).unwrap();
    let snapshot: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let strings = snapshot["strings"].as_array().unwrap();
    assert!(
        strings.iter().any(|text| text.as_str().is_some_and(|text| text.contains("<article"))),
        "the detached element is in it"
    );
    // Its worker's heap is another, and that of the worker's own worker a third.
    let workers = connection.workers().unwrap();
    assert_eq!(
        workers.iter().map(|worker| worker.title.as_str()).collect::<Vec<_>>(),
        ["mail", "index"]
    );
    let mut objects = Vec::new();
    for worker in [None, workers.first(), workers.last()] {
        connection.turn_to(worker);
        take::take(&mut connection, &path, Request::default(), &mut |_| {}).unwrap();
        objects.push(named(&path, "OfWorker"));
    }
    assert_eq!(objects, [0, 50, 60]);
    assert_eq!(connection.workers().unwrap(), workers, "asked again");
}
