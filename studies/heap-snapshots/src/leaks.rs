//! The seeded leaks of `leaks/`: whether heaplab finds each and lists it first, and memlab's
//! answers on the same three files.

use super::nodes::{folder, node};
use anyhow::{Context, Result, ensure};
use heaplab_snapshot::Snapshot;
use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::leaks::{Born, Leaks};
use heaplab_snapshot::session::SnapshotIds;
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::process::Command;

const OF_NODE: [&str; 8] =
    ["closures", "listeners", "timers", "caches", "maps", "promises", "modules", "weakrefs"];

/// The names on the way to the leak, in order, and its class; an empty name matches any.
#[derive(Deserialize)]
struct Way {
    names: Vec<String>,
    class: String,
}

/// Number of leaks found, and number of leaks listed first.
#[derive(Default)]
struct Score {
    found: usize,
    first: usize,
}

impl Score {
    fn add(&mut self, place: Option<usize>) {
        self.found += usize::from(place.is_some());
        self.first += usize::from(place == Some(0));
    }

    fn text(&self, of: usize) -> String {
        format!("{} found, {} of them first, of {of}", self.found, self.first)
    }
}

/// All ten leaks with three tools: heaplab, memlab by default, and memlab told to suspect
/// everything that retains a kilobyte. `None`: not all of them can run here.
pub fn seeded() -> Result<Option<String>> {
    let Some(study) = folder() else { return Ok(None) };
    let (Some(node), Some(python)) = (node(&study, 24), std::env::var_os("HEAPLAB_PYTHON")) else {
        return Ok(None);
    };
    let (mut ours, mut memlab, mut told) = (Score::default(), Score::default(), Score::default());
    let (mut asked, mut leaks) = (0, 0);
    let programs =
        OF_NODE.iter().map(|name| (node.as_os_str(), vec!["leaks/node.cjs", name])).chain([
            (node.as_os_str(), vec!["leaks/page.mjs"]),
            (python.as_os_str(), vec!["leaks/cycles.py"]),
        ]);
    for (program, words) in programs {
        let files = tempfile::tempdir()?;
        let output = Command::new(program)
            .current_dir(&study)
            .args(&words)
            .arg(files.path())
            .output()
            .with_context(|| format!("starting {words:?}"))?;
        ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        let way: Way = serde_json::from_slice(&output.stdout)?;
        leaks += 1;
        ours.add(ours_place(files.path(), &way)?);
        let plain = memlabs_place(&study, &node, files.path(), &[], &way)?;
        let any = memlabs_place(&study, &node, files.path(), &["--any"], &way)?;
        if let (Some(plain), Some(any)) = (plain, any) {
            asked += 1;
            memlab.add(plain);
            told.add(any);
        }
    }
    let peer = if asked == leaks {
        format!("{}; with a filter {}", memlab.text(leaks), told.text(leaks))
    } else {
        "not installed".into()
    };
    Ok(Some(format!("heaplab: {}; memlab: {peer}", ours.text(leaks))))
}

/// The leak's place in heaplab's answer.
fn ours_place(files: &Path, way: &Way) -> Result<Option<usize>> {
    let read = |moment: &str| fs::read(files.join(moment).with_extension("heapsnapshot"));
    let (base, target, last) = (read("base")?, read("target")?, read("final")?);
    let snapshot = Snapshot::read(&last)?;
    let born = Born::between(
        &SnapshotIds::of(&Snapshot::read(&base)?),
        &SnapshotIds::of(&Snapshot::read(&target)?),
        &SnapshotIds::of(&snapshot),
    )?;
    let analysis = Analysis::of(&snapshot, &Options::default());
    let leaks = Leaks::of(&analysis, &born, |_| true);
    Ok(leaks.groups.iter().position(|group| {
        let class = analysis.classes()[analysis.class_of(group.entry) as usize].text();
        let steps = leaks.way(group.entry);
        let names: Vec<String> =
            steps.iter().map(|edge| analysis.edge_name(*edge).into_owned()).collect();
        (way.class.is_empty() || class == way.class) && in_order(&names, &way.names)
    }))
}

fn in_order(names: &[String], wanted: &[String]) -> bool {
    let mut names = names.iter();
    wanted.iter().all(|wanted| names.any(|name| name == wanted))
}

/// The leak's place in memlab's answer; the outer `None`: memlab is not installed.
fn memlabs_place(
    study: &Path,
    node: &Path,
    files: &Path,
    more: &[&str],
    way: &Way,
) -> Result<Option<Option<usize>>> {
    let output = Command::new(node)
        .current_dir(study)
        .arg("leaks/memlab.cjs")
        .arg(files)
        .args(more)
        .output()
        .context("starting memlab")?;
    if !output.status.success() {
        return Ok(None);
    }
    let clusters: Vec<Vec<String>> = serde_json::from_slice(&output.stdout)?;
    Ok(Some(clusters.iter().position(|steps| {
        // `3:   --handlers (property)--->  [Array](object) @104147 $retained-size:504424 ...`
        let named = |step: &String| Some(step.split_once("--")?.1.split_once(" (")?.0.to_owned());
        let names: Vec<String> = steps.iter().filter_map(named).collect();
        // A leaked object that is no table of the engine's: a cluster that ends at such a table
        // does not show the leak.
        let shows =
            |step: &&String| step.contains("$memLabTag:leaked") && !step.contains("](array)");
        in_order(&names, &way.names) && steps.iter().any(|step| shows(&step))
    })))
}
