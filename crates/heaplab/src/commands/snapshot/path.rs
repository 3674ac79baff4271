//! `heaplab snapshot path`: the shortest way from a root to an object; for a class, the ways of all its objects, equal ones together.
//!
//! A shortest way is not the only one: another may keep the object when this one is cut. But each step goes to the retainer that is nearest to
//! a root, which is what DevTools opens first and what names the culprit most often.

use super::file::{self, Reading};
use super::pattern::Subject;
use super::rows::{edge_json, heading, label, label_within, node_json, step};
use super::summary::name;
use super::table::{cut, number, one_line};
use crate::terminal;
use anyhow::Result;
use heaplab_findings::words::{bytes, plural};
use heaplab_snapshot::analysis::Analysis;
use heaplab_snapshot::{Edge, EdgeType, Node, Retainers};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `heaplab snapshot path`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # from a root to @4711
  heaplab snapshot path a.heapsnapshot @4711
  # the ways to all sessions, equal ones together
  heaplab snapshot path a.heapsnapshot Session
  heaplab snapshot path a.heapsnapshot 'Detached *' --top 3
  heaplab snapshot path a.heapsnapshot Session --json | jq '.paths[0]'")]
pub struct Args {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// An object such as @4711, or a class; * stands for any text
    #[arg(value_name = "OBJECT|CLASS")]
    subject: Subject,
    /// Different ways to show; 0: all
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

/// A way from a root: the edges, the one from the root's side first.
type Way = Vec<Edge>;

/// Objects with the same way.
struct Group {
    example: Node,
    way: Way,
    count: u64,
    retained_bytes: u64,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    file::analysed(&args.file, &args.reading, |analysis| {
        let nodes = args.subject.nodes(analysis)?;
        let retainers = Retainers::of(&analysis.snapshot().graph);
        let groups = groups(analysis, &retainers, &nodes);
        let shown = if args.top == 0 { groups.len() } else { args.top.min(groups.len()) };
        if args.json {
            let paths: Vec<Value> = groups[..shown].iter().map(|group| group_json(analysis, group)).collect();
            let answer = json!({
                "format": "heaplab-snapshot-path",
                "version": 1,
                "objects": nodes.len(),
                "different_paths": groups.len(),
                "paths": paths,
            });
            println!("{}", serde_json::to_string(&answer)?)
        } else {
            print!("{}", text(analysis, &nodes, &groups, shown))
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The shortest way to a node; empty where nothing but weak references lead there.
fn way(analysis: &Analysis, retainers: &Retainers, node: Node) -> Way {
    analysis.shortest_path(retainers, node).into_iter().map(|step| step.edge).collect()
}

/// Ways are equal if they go by the same names through the same classes; indices in arrays and tables are not names.
fn groups(analysis: &Analysis, retainers: &Retainers, nodes: &[Node]) -> Vec<Group> {
    let graph = &analysis.snapshot().graph;
    let mut places: HashMap<Vec<(u8, u32, u32)>, usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for node in nodes {
        let way = way(analysis, retainers, *node);
        let key = way.iter().map(|edge| {
            let kind = graph.edge_type(*edge);
            let name = if is_numbered(analysis, *edge) { u32::MAX } else { graph.edge_name(*edge) };
            (if kind.is_indexed() { 1 } else { 0 }, name, analysis.class_of(graph.target(*edge)))
        });
        let place = *places.entry(key.collect()).or_insert_with(|| {
            groups.push(Group { example: *node, way, count: 0, retained_bytes: 0 });
            groups.len() - 1
        });
        groups[place].count += 1;
        groups[place].retained_bytes += analysis.retained_size(*node);
    }
    groups.sort_by_key(|group| std::cmp::Reverse((group.count, group.retained_bytes)));
    groups
}

/// Whether the reference is one of many alike: an element, or an internal one with a number in its name.
fn is_numbered(analysis: &Analysis, edge: Edge) -> bool {
    let kind = analysis.snapshot().graph.edge_type(edge);
    kind.is_indexed() || (kind == EdgeType::Internal && analysis.edge_name(edge).starts_with(|first: char| first.is_ascii_digit()))
}

fn text(analysis: &Analysis, nodes: &[Node], groups: &[Group], shown: usize) -> String {
    let mut text = String::new();
    if let [node] = nodes {
        text.push_str(&heading(analysis, *node));
        text.push('\n');
    } else {
        let ways = if groups.len() == 1 { "one way".into() } else { format!("{} different ways", number(groups.len() as u64)) };
        let _ = writeln!(text, "{} objects are reached by {ways}\n", number(nodes.len() as u64));
    }
    for group in &groups[..shown] {
        if nodes.len() > 1 {
            let objects = plural(group.count, "object");
            let all = format!("{objects}, {} retained in sum; such as ", bytes(group.retained_bytes));
            let example = label_within(analysis, group.example, terminal::columns() - all.chars().count());
            let _ = writeln!(text, "{all}{example}");
        }
        write_way(analysis, group, &mut text);
        text.push('\n');
    }
    if shown < groups.len() {
        let _ = writeln!(text, "... and {} ways more (--top 0 shows all)", number((groups.len() - shown) as u64));
    }
    text
}

/// Columns of a class behind an object whose line is too long.
const CLASS_COLUMNS: usize = 24;

fn write_way(analysis: &Analysis, group: &Group, text: &mut String) {
    let graph = &analysis.snapshot().graph;
    let Some(first) = group.way.first() else {
        let what = if group.example == graph.root() { "the root itself" } else { "no strong reference leads there from a root" };
        let _ = writeln!(text, "  {what}");
        return;
    };
    let columns = terminal::columns();
    let _ = writeln!(text, "  {}", label_within(analysis, graph.source(*first), columns - 2));
    for edge in &group.way {
        let target = graph.target(*edge);
        let class = name(&analysis.classes()[analysis.class_of(target) as usize]);
        let label = label(analysis, target);
        // The class says more than the properties of a plain object do.
        let class = if label.starts_with(&class) || class.starts_with('(') { String::new() } else { format!("  {}", one_line(&class)) };
        let any = if group.count > 1 && is_numbered(analysis, *edge) { "  (and others alike)" } else { "" };
        let step = step(analysis, *edge);
        let line = format!("    {step} = {label}{class}{any}");
        if line.chars().count() <= columns {
            let _ = writeln!(text, "{line}");
            continue;
        }
        let what = cut(&class, CLASS_COLUMNS) + any;
        let label = label_within(analysis, target, columns - 8 - what.chars().count());
        let _ = writeln!(text, "    {} =\n        {label}{what}", cut(&step, columns - 6));
    }
}

fn group_json(analysis: &Analysis, group: &Group) -> Value {
    let graph = &analysis.snapshot().graph;
    let steps: Vec<Value> = group
        .way
        .iter()
        .map(|edge| json!({"from": node_json(analysis, graph.source(*edge)), "edge": edge_json(analysis, *edge)}))
        .collect();
    json!({
        "objects": group.count,
        "retained_bytes_sum": group.retained_bytes,
        "example": node_json(analysis, group.example),
        "steps": steps,
    })
}
