//! The study's graphs: committed and used bytes of old space over a workload's life, under three
//! strategies and V8's three ways of compacting.

use crate::recordings::Workload;
use crate::runs;
use anyhow::Result;
use heaplab_heap::Collection;
use heaplab_study::graph::{self, Graph, Series};
use heaplab_v8::spec::Compact;
use std::path::{Path, PathBuf};

const PICTURES: [(&str, &str, Compact); 4] = [
    ("tabs-never.svg", "4 tabs", Compact::Never),
    ("tabs-regular.svg", "4 tabs", Compact::Regular),
    ("tabs-always.svg", "4 tabs", Compact::Always),
    ("splay-regular.svg", "splay", Compact::Regular),
];
const STRATEGIES: [&str; 3] = ["legacy", "fast-alloc", "many"];

/// Draws them into `folder` and returns the files.
pub fn draw(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut graphs = Vec::new();
    for (file, program, compact) in PICTURES {
        let workloads = runs::workloads()?;
        if let Some(workload) = workloads.iter().find(|one| one.name == program) {
            graphs.push((file, committed(workload, compact)?));
        }
    }
    graph::write(folder, graphs)
}

fn committed(workload: &'static Workload, compact: Compact) -> Result<Graph> {
    let mut series = Vec::new();
    let mut marks = Vec::new();
    for name in STRATEGIES {
        let outcome = runs::outcome(workload, name, compact)?;
        let collections = &outcome.collections;
        if series.is_empty() {
            series.push(line("used", collections, |state| state.used_bytes));
            let full = collections.iter().filter(|one| one.kind != "scavenge");
            marks.extend(full.map(|one| (thousands(one), String::new())));
        }
        series.push(line(name, collections, |state| state.committed_bytes));
    }
    let way = match compact {
        Compact::Never => "without compaction",
        Compact::Regular => "regular compaction",
        Compact::Always => "every page emptied",
    };
    let title = format!("Old space of {}, {way}; dashed: full collections", workload.name);
    Ok(Graph { title, x: "thousands of objects born", y: "MB", series, marks })
}

fn thousands(collection: &Collection) -> f64 {
    collection.births as f64 / 1e3
}

fn line(
    name: &str,
    collections: &[Collection],
    of: fn(&heaplab_heap::SpaceState) -> u64,
) -> Series {
    let megabytes = |state| of(state) as f64 / f64::from(1 << 20);
    let points = collections.iter().flat_map(|one| {
        let x = thousands(one);
        [(x, megabytes(&one.before)), (x, megabytes(&one.after))]
    });
    Series { name: name.into(), points: points.collect() }
}
