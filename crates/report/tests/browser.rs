//! The page in a real browser: writes the sample's pages and what they must show, and lets
//! `tests/browser/` look at them in headless Chromium. `HEAPLAB_SCREENSHOTS=FOLDER` keeps pictures.

mod sample;

use std::{fs, path::Path, process::Command};

#[test]
fn the_page_shows_what_it_should_in_chromium() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    if let Some(missing) = missing(&tests) {
        assert!(std::env::var_os("HEAPLAB_REQUIRE_ORACLES").is_none(), "{missing}");
        eprintln!("skipped: {missing}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for pages");
    let samples = [
        ("full", sample::full()),
        ("bare", sample::bare()),
        ("empty", sample::empty()),
        ("child", sample::child()),
        ("collected", sample::collected()),
        ("large", sample::large(20_000)),
    ];
    for (name, sample) in samples {
        let page = sample.page();
        fs::write(folder.path().join(format!("{name}.html")), heaplab_report::page::html(&page))
            .expect("a page");
        fs::write(
            folder.path().join(format!("{name}.json")),
            serde_json::to_string(&page).expect("the model"),
        )
        .expect("a model");
    }
    let status = Command::new("node")
        .args(["--test", "--test-reporter=spec"])
        .arg(tests.join("page.test.mjs"))
        .env("HEAPLAB_PAGES", folder.path())
        .status();
    assert!(status.expect("node starts").success(), "the browser saw something else: see above");
}

/// What the test needs and is not there.
fn missing(tests: &Path) -> Option<String> {
    let runs = |program: &str| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    if !runs("node") {
        return Some("node is not installed".into());
    }
    if !Path::new(&chromium()).exists() {
        return Some("chromium is not installed (HEAPLAB_CHROMIUM names another)".into());
    }
    if !tests.join("node_modules/playwright-core").exists() {
        return Some(
            "playwright-core is not installed: run `npm ci` in crates/report/tests/browser".into(),
        );
    }
    None
}

fn chromium() -> String {
    std::env::var("HEAPLAB_CHROMIUM").unwrap_or_else(|_| "/usr/bin/chromium".into())
}
