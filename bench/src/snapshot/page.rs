//! `--page`: the time of each answer of `heaplab snapshot open`, on its page (`--serve`) and at its
//! prompt, once the file is open.
//!
//! One thread computes an answer, so its CPU time is its time on an idle machine. This time is
//! measured; the HTTP around it is not.

use super::measurement::{Watch, peak_mb, thread_cpu_s};
use crate::bounds::Bounds;
use anyhow::{Context, Result, anyhow};
use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::query::answer::Answer;
use heaplab_snapshot::query::plan::Plan;
use heaplab_snapshot::shortest_paths::ShortestPaths;
use heaplab_snapshot::{ReadOptions, Snapshot};
use heaplab_snapshot_view::page::{Opened, Page};
use std::path::Path;

/// Bound on the time of an answer.
const BOUND_MS: f64 = 100.0;
/// Memory of the open page relative to its summary's: the same, except for an answer on its way.
const MEMORY_BOUND: f64 = 1.05;

/// Asks each question of the page `reps` times.
pub fn run(file: &Path, reps: usize) -> Result<()> {
    let source = std::fs::File::open(file)?;
    // SAFETY: nothing writes into the file while the benchmark runs.
    let bytes = unsafe { memmap2::Mmap::map(&source)? };
    let _watch = Watch::start();
    let two = ReadOptions { threads: 2, ..ReadOptions::default() };
    let snapshot = Snapshot::read_with(&bytes, &two)?;
    let analysis = Analysis::of(&snapshot, &Options { threads: 2, ..Options::default() });
    let summary_mb = peak_mb();
    let opened = Opened { name: "file".into(), analysis: &analysis, session: None };
    let page = Page::new(vec![opened]);
    let begin = thread_cpu_s();
    page.prepare();
    let prepared_ms = (thread_cpu_s() - begin) * 1e3;
    println!(
        "{} objects; what answers need beside a summary takes {prepared_ms:.0} ms once; peak {summary_mb:.0} MB for a summary, {:.0} MB then",
        snapshot.graph.node_count(),
        peak_mb()
    );
    let mut bounds = Bounds::default();
    let mut filters = Vec::new();
    let mut rows_mb = peak_mb();
    for (what, question, values) in questions(&analysis) {
        let values: Vec<(String, String)> = values
            .split('&')
            .filter_map(|value| value.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut times = Vec::new();
        for _ in 0..reps {
            let begin = thread_cpu_s();
            page.answer(question, &values).with_context(|| what.to_owned())?;
            times.push((thread_cpu_s() - begin) * 1e3);
        }
        if values.iter().any(|(name, _)| name == "filter") {
            filters.push((what, times.remove(0), peak_mb()));
        } else {
            rows_mb = peak_mb();
        }
        if !times.is_empty() {
            bounds.median_at_most(what, times, "ms", BOUND_MS);
        }
    }
    for (what, first_ms, peak_mb) in filters {
        println!(
            "{what}, the first time: {first_ms:.0} ms, peak {peak_mb:.0} MB (kept for the next)"
        );
    }
    bounds.at_most(
        "peak memory without filters, of the summary's",
        rows_mb / summary_mb,
        "times",
        MEMORY_BOUND,
    );
    drop(page);
    prompt(&analysis, reps, &mut bounds)?;
    bounds.finish()
}

/// Asks each question of the prompt `reps` times.
fn prompt(analysis: &Analysis, reps: usize, bounds: &mut Bounds) -> Result<()> {
    let begin = thread_cpu_s();
    analysis.prepare_questions();
    println!(
        "the prompt needs {:.0} ms more, while the first question is typed",
        (thread_cpu_s() - begin) * 1e3
    );
    for query in QUERIES {
        let plan = Plan::read(query).map_err(|misread| anyhow!("{misread}"))?;
        bounds.median_at_most(
            query,
            measured(reps, || Answer::of(analysis, &plan, |_| true)),
            "ms",
            BOUND_MS,
        );
    }
    let most = (0..).zip(analysis.classes()).max_by_key(|(_, class)| class.retained_size);
    let class: u32 = most.map_or(0, |(number, _)| number);
    let ways = || {
        let nodes: Vec<Node> = analysis
            .snapshot()
            .graph
            .nodes()
            .filter(|node| analysis.class_of(*node) == class)
            .collect();
        ShortestPaths::new(analysis, analysis.backward(), 40).groups(&nodes).len()
    };
    bounds.median_at_most(
        "path, to the class that retains most",
        measured(reps, ways),
        "ms",
        BOUND_MS,
    );
    Ok(())
}

/// CPU time of each answer, in ms.
fn measured<T>(reps: usize, answer: impl Fn() -> T) -> Vec<f64> {
    let one = |_| {
        let begin = thread_cpu_s();
        std::hint::black_box(answer());
        (thread_cpu_s() - begin) * 1e3
    };
    (0..reps).map(one).collect()
}

/// Questions of the prompt about all objects.
const QUERIES: [&str; 12] = [
    "top 20",
    "where shallow > 1000 top 20",
    "where class ~ \"*Map*\" and shallow > 100 top 20",
    "where name = \"session\" top 20",
    "where name ~ \"*session*\" top 20",
    "where retained / shallow > 10 top 20",
    "group class top 20",
    "group type, class top 20",
    "group name top 20",
    "group distance top 20",
    "sort retained top 20",
    "sort name top 20",
];

/// Names, questions and values: the most expensive ones in this file.
fn questions(analysis: &Analysis) -> Vec<(&'static str, &'static str, String)> {
    let graph = &analysis.snapshot().graph;
    let most = |count: &dyn Fn(Node) -> usize| {
        graph.nodes().max_by_key(|node| count(*node)).unwrap_or(graph.root())
    };
    let holder = most(&|node| graph.edges(node).len());
    let held = most(&|node| analysis.backward().of_node(node).len());
    let dominating = (0..).zip(analysis.classes()).max_by_key(|(_, class)| class.count);
    let class: u32 = dominating.map_or(0, |(number, _)| number);
    let members = |sort: &str| format!("class={class}&sort={sort}");
    vec![
        ("classes", "classes", String::new()),
        ("classes by a text", "classes", "text=map".into()),
        ("the largest class, by retained size", "members", members("retained")),
        ("the largest class, by name", "members", members("name")),
        ("the largest class, its 100,000th object", "members", members("retained&from=100000")),
        ("the object with most references", "references", format!("node={holder}")),
        ("the object with most referrers", "retainers", format!("node={held}")),
        ("one object", "object", format!("node={held}")),
        ("the map from the root", "treemap", String::new()),
        ("the map of the object with most references", "treemap", format!("node={holder}")),
        ("a search that finds many", "search", "text=e".into()),
        ("a search by a word", "search", "text=session".into()),
        ("a search that finds nothing", "search", "text=no such object".into()),
        ("a search by id", "search", "text=@4711".into()),
        ("duplicated strings", "classes", "filter=duplicates".into()),
        ("retained by detached nodes", "classes", "filter=detached".into()),
    ]
}
