//! `heaplab record --node` on real Nodes: births and deaths that the program itself knows, and
//! programs that end in every way.
//!
//! The Node on the PATH is used, and with `HEAPLAB_NODES` (paths, with colons between) those that
//! it names.

mod ends;
mod truth;

use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::{Event, EventSource};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The Nodes to record; none, with a word why, where none is installed.
fn nodes() -> Vec<PathBuf> {
    let mut nodes: Vec<PathBuf> = std::env::var_os("HEAPLAB_NODES")
        .map(|paths| std::env::split_paths(&paths).collect())
        .unwrap_or_default();
    nodes.push("node".into());
    let version = |node: &PathBuf| {
        Command::new(node).arg("--version").output().ok().map(|output| said(&output.stdout))
    };
    let fits = |text: String| {
        text.trim_start_matches('v')
            .split('.')
            .next()?
            .parse()
            .ok()
            .filter(|major: &u32| (18..=24).contains(major))
    };
    nodes.retain(|node| version(node).and_then(fits).is_some());
    if nodes.is_empty() {
        heaplab_oracle::skip("no node of 18 to 24 is installed");
    }
    nodes
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Records a command into `x.heaplab` in `folder`.
fn record(folder: &Path, options: &[&str], command: &[&str]) -> Output {
    let mut heaplab = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    heaplab.args(["record", "--node", "-o", "x.heaplab"]).args(options).arg("--").args(command);
    heaplab.current_dir(folder).env_remove("NODE_OPTIONS").output().unwrap()
}

fn bundle(folder: &Path) -> (Bundle, Vec<Event>) {
    let bundle = Bundle::open(&folder.join("x.heaplab")).unwrap();
    bundle.verify().unwrap();
    let mut events = Vec::new();
    let mut source = bundle.events(Selection::default()).unwrap();
    source
        .for_each(|event| {
            events.push(*event);
            Ok(())
        })
        .unwrap();
    (bundle, events)
}

/// Nothing is left of a recording but what is named.
fn left(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
