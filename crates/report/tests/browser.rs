//! The page in a real browser: writes the sample's pages and their expected content, and has
//! `tests/browser/` look at them in headless Chromium. `HEAPLAB_SCREENSHOTS=FOLDER` keeps pictures.

#[path = "sample/lives.rs"]
mod lives;
mod sample;

use heaplab_report::{Report, Shown, analyse_for_page, page};
use heaplab_trace::EventSource;
use heaplab_trace::bundle::{Bundle, Selection};
use std::{fs, path::Path};

#[test]
fn the_page_shows_what_it_should_in_chromium() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    let Some(mut node) = heaplab_oracle::browser_tests() else { return };
    let folder = tempfile::tempdir().expect("a folder for pages");
    let samples = [
        ("full", sample::full()),
        ("bare", sample::bare()),
        ("empty", sample::empty()),
        ("child", sample::child()),
        ("collected", sample::collected()),
        ("collected_twice", sample::collected_twice()),
        ("large", sample::large(20_000)),
    ];
    let write = |name: &str, page: &page::model::Page, ranges: serde_json::Value| {
        let file = |end: &str| folder.path().join(format!("{name}{end}"));
        fs::write(file(".html"), page::html(page)).expect("a page");
        fs::write(file(".json"), serde_json::to_string(page).expect("the model")).expect("a model");
        fs::write(file("-ranges.json"), ranges.to_string()).expect("what the events say");
    };
    for (name, sample) in samples {
        let page = sample.page();
        let ranges = lives::expected(&page, &sample.tables, &sample.events);
        write(name, &page, ranges);
    }
    let (page, ranges) = recorded();
    write("sqlite", &page, ranges);
    let status = node
        .args(["names", "tree", "page"].map(|name| tests.join(format!("{name}.test.mjs"))))
        .env("HEAPLAB_PAGES", folder.path())
        .status();
    assert!(status.expect("node starts").success(), "the browser saw something else: see above");
}

/// The page of a real recording, and what its events say of three ranges.
fn recorded() -> (page::model::Page, serde_json::Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite.heaplab");
    let bundle = Bundle::open(&path).expect("the recording of this tree");
    let all = Selection::default();
    let analysis =
        analyse_for_page(&bundle, all, None, Vec::new(), &mut |_| {}).expect("its events");
    let page = page::page(&Report::new(&bundle, &analysis, &Shown::Nothing));
    let (mut events, mut batch) = (Vec::new(), Vec::new());
    let mut source = bundle.events(all).expect("its events");
    loop {
        source.next_batch(&mut batch).expect("its events");
        if batch.is_empty() {
            break;
        }
        events.extend_from_slice(&batch);
    }
    let ranges = lives::expected(&page, bundle.tables(), &events);
    (page, ranges)
}
