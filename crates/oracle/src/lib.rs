//! Programs that tests compare with, where the machine has them.
//!
//! Without its oracle a test prints one line and passes. With `HEAPLAB_REQUIRE_ORACLES=1`, as in
//! CI, the test fails.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Says that a test lacks its oracle; `missing` is the end of the line.
///
/// # Panics
/// The environment requires all oracles.
#[track_caller]
pub fn skip(missing: impl Display) {
    assert!(
        std::env::var("HEAPLAB_REQUIRE_ORACLES").as_deref() != Ok("1"),
        "an oracle is required: {missing}"
    );
    eprintln!("skipped: {missing}");
}

/// Whether `program` runs with `arguments`; [`skip`]s the test if not.
#[track_caller]
pub fn runs(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let runs = status.is_ok_and(|status| status.success());
    if !runs {
        skip(format_args!("{program} is not installed"));
    }
    runs
}

/// Whether `program` tells its version; [`skip`]s the test if not.
#[track_caller]
pub fn has(program: &str) -> bool {
    runs(program, &["--version"])
}

/// A Python with these modules: the one that HEAPLAB_PYTHON names, or python3.
#[track_caller]
pub fn python(modules: &str) -> Option<PathBuf> {
    let python = std::env::var_os("HEAPLAB_PYTHON").map_or("python3".into(), PathBuf::from);
    let probe = Command::new(&python)
        .args(["-c", &format!("import {modules}")])
        .current_dir(std::env::temp_dir())
        .output();
    if probe.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    skip(format_args!("{} lacks one of {modules} (set HEAPLAB_PYTHON)", python.display()));
    None
}

/// A Chromium: the one that HEAPLAB_CHROMIUM names, or Debian's. The headless shell comes first: it
/// has the same engine, and opens no window for a page.
#[track_caller]
pub fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("HEAPLAB_CHROMIUM").map(PathBuf::from);
    let [shell, whole] = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].map(Path::new);
    let chromium = named.unwrap_or_else(|| if shell.exists() { shell } else { whole }.to_owned());
    has(&chromium.to_string_lossy()).then_some(chromium)
}

/// Node, about to run tests that look at pages in [`chromium`]: the scripts are its arguments.
/// `npm ci` in `crates/report/tests/browser` installs what they drive it with.
#[track_caller]
pub fn browser_tests() -> Option<Command> {
    if !repository().join("crates/report/tests/browser/node_modules/playwright-core").exists() {
        skip("playwright-core is not installed (npm ci in crates/report/tests/browser)");
        return None;
    }
    let chromium = chromium().filter(|_| has("node"))?;
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter=spec"]).env("HEAPLAB_CHROMIUM", chromium);
    Some(node)
}

/// The study's folder with DevTools, and a Node for them.
#[track_caller]
pub fn devtools() -> Option<(PathBuf, PathBuf)> {
    let study = repository().join("studies/heap-snapshots");
    let node = study.join("node_modules/node24/bin/node");
    if node.exists() && study.join("node_modules/chrome-devtools-frontend").exists() {
        return Some((study, node));
    }
    skip("DevTools is not installed (npm ci --omit=dev in studies/heap-snapshots)");
    None
}

/// This repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
