//! The files that `heaplab sweep` reads: a plan, and a folder of results with one file replaced.
//! The first byte chooses the file. In results, `ID` stands for the experiment's name.

use heaplab_sweep::plan::Plan;
use heaplab_sweep::{Report, plot, table, text};
use std::collections::HashSet;
use std::path::PathBuf;

/// The folder's description as a real sweep wrote it: one workload `a` on two heaps.
const ABOUT: &str = include_str!("sweep.json");
/// Files of the folder: the description, a block of times, the space.
const FILES: [&str; 3] = ["sweep.json", "a/block-00000.json", "a/space.json"];

/// One input.
pub fn run(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match usize::from(*choice) % (FILES.len() + 1) {
        0 => plan(&text),
        file => results(FILES[file - 1], &text),
    }
}

/// A plan that is read has every promised property.
fn plan(text: &str) {
    let plan = match Plan::parse(text) {
        Ok(plan) => plan,
        Err(reason) => return assert!(!reason.is_empty()),
    };
    let heaps: HashSet<&String> = plan.heaps.iter().collect();
    assert!(heaps.len() == plan.heaps.len() && (1..=1_000).contains(&heaps.len()));
    assert!(!plan.bundles.is_empty() && plan.measures() != (false, false));
    let how = plan.how();
    assert!((1..=100_000).contains(&how.reps) && (0.0..=1.0).contains(&how.margin));
}

/// A folder with this content of one file, read as `heaplab sweep report` reads it.
fn results(file: &str, content: &str) {
    let id = ABOUT.split("\"experiment\": \"").nth(1).and_then(|rest| rest.split('"').next());
    let folder = tempfile::tempdir().expect("a folder");
    let write = |file: &str, content: &str| {
        std::fs::write(folder.path().join(file), content).expect("a writable folder");
    };
    std::fs::create_dir(folder.path().join("a")).expect("a writable folder");
    write(FILES[0], ABOUT);
    write(file, &content.replace("ID", id.expect("a description names its experiment")));
    let folders = [PathBuf::from(folder.path())];
    let Ok(report) = Report::read(&folders, |_| ()) else { return };
    text::report(&report, 80);
    table::csv(&report);
    plot::picture(&report);
    serde_json::to_string(&report).expect("a report is JSON");
    table::write_cells(&folders, &folder.path().join("cells.parquet")).expect("a table");
}
