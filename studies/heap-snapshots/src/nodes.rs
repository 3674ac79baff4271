//! The real Nodes: 16 and 18 lack both fixes, 20 has the hash's, 24 has both. And DevTools' answers
//! against heaplab's.

use anyhow::{Context, Result, bail};
use heaplab_snapshot::Snapshot;
use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::strings::to_text;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The study's folder, which holds its installed packages.
pub fn folder() -> Option<PathBuf> {
    let folder = heaplab_study::in_tree("studies/heap-snapshots");
    folder.join("node_modules").is_dir().then_some(folder)
}

/// The Node of this version; `None`: not installed.
pub fn node(folder: &Path, version: u32) -> Option<PathBuf> {
    let node = folder.join(format!("node_modules/node{version}/bin/node"));
    fs::canonicalize(node).ok()
}

#[derive(Deserialize)]
struct Timed {
    cpu_s: f64,
    bytes: u64,
}

/// CPU seconds of a snapshot of a program, and the file's size.
fn timed(version: u32, program: &str, scale: u32) -> Result<Option<Timed>> {
    let Some(folder) = folder() else { return Ok(None) };
    let Some(node) = node(&folder, version) else { return Ok(None) };
    let output = Command::new(node)
        .current_dir(&folder)
        .args(["programs/time.cjs", program, "--scale", &scale.to_string()])
        .output()
        .context("starting Node")?;
    anyhow::ensure!(
        output.status.success(),
        "Node {version} failed on {program}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text
        .lines()
        .rev()
        .find(|line| line.starts_with('{'))
        .context("programs/time.cjs printed no figures")?;
    serde_json::from_str(line).map(Some).context("reading what programs/time.cjs printed")
}

/// The share that the hash's fix saved, from Node 18 to 20.
pub fn hash_share() -> Result<Option<String>> {
    let mut parts = Vec::new();
    for (program, scale) in [("numeric-keys", 5), ("eslint", 1)] {
        let (Some(before), Some(after)) = (timed(18, program, scale)?, timed(20, program, scale)?)
        else {
            return Ok(None);
        };
        parts.push(format!(
            "{program} {:.1} -> {:.1} s (-{:.0} %)",
            before.cpu_s,
            after.cpu_s,
            saved(&before, &after)
        ));
    }
    Ok(Some(format!("Node 18 -> 20: {}", parts.join(", "))))
}

/// The share that both fixes saved, from Node 18 to 24.
pub fn generation() -> Result<Option<String>> {
    let mut parts = Vec::new();
    for (what, program, scale) in [("development", "eslint", 1), ("minified", "closures", 32)] {
        let (Some(before), Some(after)) = (timed(18, program, scale)?, timed(24, program, scale)?)
        else {
            return Ok(None);
        };
        parts.push(format!(
            "{what} {:.1} -> {:.2} s (-{:.0} %)",
            before.cpu_s,
            after.cpu_s,
            saved(&before, &after)
        ));
    }
    Ok(Some(format!("Node 18 -> 24: {}", parts.join(", "))))
}

/// The worst cases of both fixes, from Node 16 to 24.
pub fn total() -> Result<Option<String>> {
    let mut parts = Vec::new();
    for (program, scale) in [("numeric-keys", 10), ("closures", 32)] {
        let (Some(before), Some(after)) = (timed(16, program, scale)?, timed(24, program, scale)?)
        else {
            return Ok(None);
        };
        let times = before.cpu_s / after.cpu_s;
        parts.push(format!(
            "{program} ({} MB) {:.1} -> {:.2} s, {times:.0}x",
            after.bytes / 1_000_000,
            before.cpu_s,
            after.cpu_s
        ));
    }
    Ok(Some(format!("Node 16 -> 24: {}", parts.join("; "))))
}

fn saved(before: &Timed, after: &Timed) -> f64 {
    (1.0 - after.cpu_s / before.cpu_s) * 100.0
}

/// Generation and serialization by V8's own clock, which Node 24 has.
pub fn dominates() -> Result<Option<String>> {
    let Some(folder) = folder() else { return Ok(None) };
    let Some(node) = node(&folder, 24) else { return Ok(None) };
    let mut parts = Vec::new();
    for (program, scale) in [("closures", "32"), ("json-cache", "10")] {
        let command = Command::new(&node)
            .current_dir(&folder)
            .args(["--profile-heap-snapshot", "programs/time.cjs", program, "--scale", scale])
            .output()
            .context("starting Node 24")?;
        let text = String::from_utf8_lossy(&command.stdout).into_owned()
            + &String::from_utf8_lossy(&command.stderr);
        let (Some(generation), Some(serialization)) = (
            milliseconds(&text, "[Heap snapshot took "),
            milliseconds(&text, "[Serialization of heap snapshot took "),
        ) else {
            bail!("Node 24 says nothing of its phases: {text}");
        };
        parts.push(format!(
            "{program}: generation {:.0} % of both",
            generation * 100.0 / (generation + serialization)
        ));
    }
    Ok(Some(format!("Node 24, {}", parts.join("; "))))
}

fn milliseconds(text: &str, before: &str) -> Option<f64> {
    text.split_once(before)?.1.split_whitespace().next()?.parse().ok()
}

#[derive(Deserialize)]
struct Answers {
    classes: Vec<Class>,
    keys: Vec<String>,
}

#[derive(Deserialize)]
struct Class {
    key: String,
    count: u64,
    #[serde(rename = "self")]
    shallow: u64,
    retained: u64,
    distance: i32,
}

/// Compares heaplab's answers with DevTools' for every program on every installed Node, class by
/// class and object by object. In the folder of `HEAPLAB_SNAPSHOTS` existing files are kept and
/// missing ones are made; without that variable everything is made in a folder that is removed
/// again.
pub fn devtools() -> Result<Option<String>> {
    let Some(study) = folder() else { return Ok(None) };
    let Some(node) = node(&study, 24) else { return Ok(None) };
    let made = tempfile::tempdir()?;
    let folder = match std::env::var_os("HEAPLAB_SNAPSHOTS") {
        Some(named) => fs::canonicalize(&named)
            .with_context(|| format!("HEAPLAB_SNAPSHOTS names {}", Path::new(&named).display()))?,
        None => made.path().to_path_buf(),
    };
    let status = Command::new(node)
        .current_dir(&study)
        .arg("judge/folder.mjs")
        .arg(&folder)
        .stdout(std::process::Stdio::null())
        .status()?;
    anyhow::ensure!(status.success(), "judge/folder.mjs failed");
    let (mut files, mut classes, mut objects, mut different) = (0, 0, 0, 0);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths.iter().filter(|path| {
        path.with_extension("answers").is_dir()
            && path.extension().is_some_and(|ending| ending == "heapsnapshot")
    }) {
        let compared = compare(path).with_context(|| path.display().to_string())?;
        files += 1;
        classes += compared.0;
        objects += compared.1;
        different += compared.2;
    }
    anyhow::ensure!(files > 0, "no snapshot was made");
    let number = |number: usize| heaplab_text::words::count(number as u64);
    Ok(Some(format!(
        "{} files, {} classes, {} objects: {} differences",
        number(files),
        number(classes),
        number(objects),
        number(different)
    )))
}

/// Number of compared classes and objects, and of different ones.
fn compare(path: &Path) -> Result<(usize, usize, usize)> {
    let answers = path.with_extension("answers");
    let theirs: Answers = serde_json::from_slice(&fs::read(answers.join("answers.json"))?)?;
    let rows = fs::read_to_string(answers.join("objects.tsv"))?;
    let bytes = fs::read(path)?;
    let snapshot = Snapshot::read(&bytes)?;
    let analysis = Analysis::of(&snapshot, &Options::default());
    let key =
        |class: &heaplab_snapshot::analysis::Class| to_text(Cow::Owned(class.key())).into_owned();
    let figures = analysis.shown_classes().map(|(_, class)| {
        (key(class), (class.count, class.self_size, class.retained_size, class.distance))
    });
    let mut ours: BTreeMap<String, (u64, u64, u64, i32)> = figures.collect();
    let mut different = 0;
    for class in &theirs.classes {
        let same = ours.remove(&class.key)
            == Some((class.count, class.shallow, class.retained, class.distance));
        different += usize::from(!same);
    }
    different += ours.len();
    let keys: Vec<String> = analysis.classes().iter().map(key).collect();
    let graph = &snapshot.graph;
    let mut objects = 0;
    for (node, row) in graph.nodes().zip(rows.lines()) {
        let fields: Vec<&str> = row.split('\t').collect();
        let theirs_key = fields
            .get(5)
            .and_then(|number| theirs.keys.get(number.parse::<usize>().ok()?))
            .context("a row of objects.tsv is short")?;
        let numbers = format!(
            "{}\t{}\t{}\t{}\t{}",
            graph.id(node),
            analysis.self_size(node),
            analysis.retained_size(node),
            analysis.distance(node),
            graph.id(analysis.dominator(node))
        );
        let same = row.starts_with(&numbers)
            && row.as_bytes().get(numbers.len()) == Some(&b'\t')
            && *theirs_key == keys[analysis.class_of(node) as usize];
        different += usize::from(!same);
        objects += 1;
    }
    different += graph.node_count().abs_diff(rows.lines().count());
    Ok((theirs.classes.len(), objects, different))
}
