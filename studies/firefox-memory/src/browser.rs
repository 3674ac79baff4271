//! Claims about the browser itself, measured in a Firefox of today: the share that no reporter
//! names, and what giving back empty chunks of the garbage-collected heap saves.
//!
//! Deviations from the document: 150 copies of a made page, not 150 sites of the network; a Firefox
//! of many processes, whose resident memory is that of the main process and what the others have
//! for themselves, as about:memory adds it up.

use crate::firefox::{self, Firefox};
use anyhow::{Context, Result, ensure};
use heaplab_about::{Report, Saved};
use heaplab_reporter::Kind;
use serde_json::json;
use std::path::Path;
use std::process::Command;

const TABS: u32 = 150;
/// Runs of each of the two browsers that [`empty_chunks`] compares.
const RUNS: usize = 3;

/// A page that keeps objects and text, and has made about six times as much garbage.
const PAGE: &str = r#"<!doctype html><title>loading</title><body><script>
window.kept = [];
for (let i = 0; i < 12000; i++) kept.push({ i, name: "item " + i, at: [i, i + 1, i + 2] });
for (let round = 0; round < 6; round++) {
  const garbage = [];
  for (let i = 0; i < 12000; i++) garbage.push({ i, name: "garbage " + i });
}
for (let i = 0; i < 500; i++) {
  const line = document.createElement("p");
  line.textContent = "line " + i;
  document.body.append(line);
}
document.title = "done";
</script>"#;
/// Keeps the pages' process alive when their tabs are closed.
const BLANK: &str = "<!doctype html><title>done</title>";
const OPEN: &str = r#"
const [urls, done] = arguments;
(async () => {
  window.opened = [];
  for (const url of urls) {
    const tab = gBrowser.addTrustedTab(url);
    window.opened.push(tab);
    for (let i = 0; i < 600 && tab.label !== "done"; i++) {
      await new Promise(resolve => setTimeout(resolve, 50));
    }
  }
  done(window.opened.filter(tab => tab.label === "done").length);
})();
"#;
/// Closes all tabs but the first of [`OPEN`], the blank one.
const CLOSE: &str = r#"
const [done] = arguments;
for (const tab of window.opened.splice(1)) gBrowser.removeTab(tab, { animate: false });
setTimeout(() => done(true), 3000);
"#;
const COLLECT: &str = r#"
const [done] = arguments;
(async () => {
  for (let i = 0; i < 3; i++) {
    Services.obs.notifyObservers(null, "child-gc-request");
    Cu.forceGC();
    Services.obs.notifyObservers(null, "child-cc-request");
    window.windowUtils.cycleCollect();
    await new Promise(resolve => setTimeout(resolve, 2000));
  }
  done(true);
})();
"#;

/// The trees that about:memory had in 2011, and the names inside windows that were of them.
const TREES_OF_2011: [&str; 4] = ["js-", "layout", "images", "storage"];

/// The share of `explicit` that no reporter names.
pub fn dark_matter() -> Result<Option<String>> {
    let Some(program) = firefox::find() else { return Ok(None) };
    let folder = pages()?;
    let mut firefox = Firefox::start(&program, None)?;
    firefox.run(COLLECT, json!([]))?;
    let started = firefox.reports()?;
    open(&mut firefox, folder.path())?;
    let browsing = firefox.reports()?;
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    Ok(Some(format!(
        "Firefox {}: {} of explicit after its start, {} with {TABS} tabs; after the start without \
         its drawing {}, and {} if only the trees of 2011 reported (js, layout, images, storage)",
        firefox.version,
        percent(unclassified(&started, |_| true, |_| true)),
        percent(unclassified(&browsing, |_| true, |_| true)),
        percent(unclassified(&started, is_no_drawing, |_| true)),
        percent(unclassified(&started, is_no_drawing, is_of_2011)),
    )))
}

/// What is not classified of all explicit bytes, if only the reports of `counts` existed, and the
/// bytes of others than `is_there` did not.
fn unclassified(
    saved: &Saved,
    is_there: impl Fn(&str) -> bool,
    counts: impl Fn(&str) -> bool,
) -> f64 {
    let explicit = |report: &&Report| report.path.starts_with("explicit/");
    let sum = |of: &dyn Fn(&Report) -> bool| -> i64 {
        saved.reports.iter().filter(|report| of(report)).map(|report| report.amount).sum()
    };
    let heap = |report: &Report| explicit(&report) && report.kind == Kind::Heap;
    let absent = sum(&|report| heap(report) && !is_there(&report.path));
    let total = sum(&|report| report.path == "heap-allocated") - absent;
    let named = sum(&|report| heap(report) && is_there(&report.path) && counts(&report.path));
    let mapped =
        sum(&|report| explicit(&report) && report.kind == Kind::NonHeap && is_there(&report.path));
    (total - named) as f64 / (total + mapped) as f64
}

/// A Firefox without a window draws in memory of its own; that of 2011 let the window system draw.
fn is_no_drawing(path: &str) -> bool {
    !path.starts_with("explicit/gfx/")
}

fn is_of_2011(path: &str) -> bool {
    path.split('/').any(|name| TREES_OF_2011.iter().any(|tree| name.starts_with(tree)))
}

/// What giving back empty chunks saves of the resident memory.
pub fn empty_chunks() -> Result<Option<String>> {
    let Some(program) = firefox::find() else { return Ok(None) };
    let folder = pages()?;
    let keep = folder.path().join("keep_chunks.so");
    compile(&keep)?;
    let (mut open, mut closed, mut version) = (Vec::new(), Vec::new(), String::new());
    for _ in 0..RUNS {
        let (kept, _) = resident(&program, Some(&keep), folder.path())?;
        let (given_back, of) = resident(&program, None, folder.path())?;
        open.push(given_back[0] / kept[0] - 1.0);
        closed.push(given_back[1] / kept[1] - 1.0);
        version = of;
    }
    Ok(Some(format!(
        "resident with {TABS} tabs open {}; closed {} ({RUNS} runs, Firefox {version})",
        range(&mut open),
        range(&mut closed),
    )))
}

/// Bytes with the tabs open and closed, each after collections, and the browser's version.
fn resident(program: &Path, preload: Option<&Path>, pages: &Path) -> Result<([f64; 2], String)> {
    let mut firefox = Firefox::start(program, preload)?;
    open(&mut firefox, pages)?;
    firefox.run(COLLECT, json!([]))?;
    let open = all_resident(&firefox.reports()?);
    firefox.run(CLOSE, json!([]))?;
    firefox.run(COLLECT, json!([]))?;
    let closed = all_resident(&firefox.reports()?);
    ensure!(
        preload.is_none() || firefox.log()?.contains("keep_chunks: kept"),
        "keep_chunks.c has kept no chunks: this Firefox unmaps them in another way"
    );
    Ok(([open as f64, closed as f64], firefox.version.clone()))
}

/// As about:memory adds it up: shared pages count for the main process alone.
fn all_resident(saved: &Saved) -> i64 {
    let counts = |report: &&Report| {
        let of_main = report.process.starts_with("Main Process");
        report.path == if of_main { "resident" } else { "resident-unique" }
    };
    saved.reports.iter().filter(counts).map(|report| report.amount).sum()
}

/// A folder with the pages.
fn pages() -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("page.html"), PAGE)?;
    std::fs::write(folder.path().join("blank.html"), BLANK)?;
    Ok(folder)
}

fn open(firefox: &mut Firefox, folder: &Path) -> Result<()> {
    let url = |page: &str| format!("file://{}", folder.join(page).display());
    let mut urls = vec![url("blank.html")];
    urls.extend((0..TABS).map(|_| url("page.html")));
    let done = firefox.run(OPEN, json!([urls]))?;
    ensure!(done == json!(TABS + 1), "{done} of {} pages loaded", TABS + 1);
    Ok(())
}

fn compile(object: &Path) -> Result<()> {
    let source = heaplab_study::in_tree("studies/firefox-memory/src/keep_chunks.c");
    let mut command = Command::new("cc");
    command.args(["-O2", "-shared", "-fPIC", "-o"]).arg(object).arg(source).arg("-ldl");
    let output = command.output().context("cc, the C compiler, does not start")?;
    ensure!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The median, with the least and the most.
fn range(changes: &mut [f64]) -> String {
    changes.sort_by(f64::total_cmp);
    let percent = |change: f64| format!("{:+.1} %", 100.0 * change);
    let (least, most) = (changes[0], changes[changes.len() - 1]);
    format!("{} ({} to {})", percent(changes[changes.len() / 2]), percent(least), percent(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(reports: &[(&str, &str, u8, i64)]) -> Saved {
        let reports: Vec<_> = reports
            .iter()
            .map(|(process, path, kind, amount)| {
                json!({ "process": process, "path": path, "kind": kind, "units": 0,
                        "amount": amount, "description": "" })
            })
            .collect();
        let file =
            json!({ "version": 1, "hasMozMallocUsableSize": true, "reports": reports }).to_string();
        Saved::read(file.as_bytes()).unwrap()
    }

    #[test]
    fn shares_leave_out_drawing_and_reporters_of_later_years() {
        let now = saved(&[
            ("Main Process (pid 1)", "heap-allocated", 2, 1000),
            ("Main Process (pid 1)", "explicit/gfx/canvas", 1, 200),
            ("Main Process (pid 1)", "explicit/storage/sqlite", 1, 300),
            ("Main Process (pid 1)", "explicit/window-objects/top(a)/js-zone(0x1)/shapes", 1, 200),
            ("Main Process (pid 1)", "explicit/window-objects/top(a)/dom", 1, 200),
            ("Main Process (pid 1)", "explicit/js-non-window/gc-heap", 0, 200),
        ]);
        assert_eq!(unclassified(&now, |_| true, |_| true), 100.0 / 1200.0);
        assert_eq!(unclassified(&now, is_no_drawing, |_| true), 100.0 / 1000.0);
        assert_eq!(unclassified(&now, is_no_drawing, is_of_2011), 300.0 / 1000.0);
    }

    #[test]
    fn shared_pages_count_once() {
        let now = saved(&[
            ("Main Process (pid 1)", "resident", 2, 100),
            ("Main Process (pid 1)", "resident-unique", 2, 60),
            ("file (pid 2)", "resident", 2, 90),
            ("file (pid 2)", "resident-unique", 2, 30),
        ]);
        assert_eq!(all_resident(&now), 130);
    }

    #[test]
    fn a_range_has_the_median() {
        assert_eq!(range(&mut [-0.3, -0.1, -0.25]), "-25.0 % (-30.0 % to -10.0 %)");
    }
}
