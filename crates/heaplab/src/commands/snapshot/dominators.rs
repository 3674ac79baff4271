//! `heaplab snapshot dominators`: what holds what alive. What an object dominates goes when it
//! goes.

use super::file::{self, Reading};
use super::rows::share;
use super::rows::{label_within, node_json};
use crate::terminal;
use anyhow::Result;
use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::Analysis;
use heaplab_snapshot::query::subject::Subject;
use heaplab_text::words::count as number;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `heaplab snapshot dominators`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # what holds most, from the root down
  heaplab snapshot dominators a.heapsnapshot
  heaplab snapshot dominators a.heapsnapshot --depth 5 --top 3
  # what @4711 holds, and what holds it
  heaplab snapshot dominators a.heapsnapshot @4711
  heaplab snapshot dominators a.heapsnapshot --json | \\
      jq '.dominated[0].object.name'")]
pub struct Args {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// An object such as @4711, or the class whose largest object is meant; without one, the root
    #[arg(value_name = "OBJECT")]
    subject: Option<Subject>,
    /// How far to follow, at most 100
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    depth: u8,
    /// Objects to show of those that one dominates; 0: all
    #[arg(long, value_name = "N", default_value_t = 8)]
    top: usize,
    /// Leave out what retains less than so many per cent of the heap
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5)]
    least: f64,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    file::analysed(&args.file, &args.reading, |analysis| {
        let root = analysis.snapshot().graph.root();
        let node = args.subject.as_ref().map_or(Ok(root), |subject| subject.node(analysis))?;
        let top = if args.top == 0 { usize::MAX } else { args.top };
        let least_bytes = (analysis.total_bytes() as f64 * args.least / 100.0) as u64;
        let tree = Tree { analysis, children: children(analysis), top, least_bytes };
        let above = chain(analysis, node);
        if args.json {
            let dominators: Vec<Value> =
                above.iter().map(|node| node_json(analysis, *node)).collect();
            let answer = json!({
                "format": "heaplab-snapshot-dominators",
                "version": 1,
                "object": node_json(analysis, node),
                "dominators": dominators,
                "dominated": tree.json(node, args.depth.into()),
            });
            println!("{}", serde_json::to_string(&answer)?)
        } else {
            let room = terminal::columns() - LABEL_COLUMN;
            let mut text = String::new();
            for node in above.iter().rev() {
                let _ = writeln!(
                    text,
                    "{:>17}  {}",
                    share(analysis.retained_size(*node), analysis.total_bytes()),
                    label_within(analysis, *node, room)
                );
            }
            let _ = writeln!(
                text,
                "{:>17}  {}",
                share(analysis.retained_size(node), analysis.total_bytes()),
                label_within(analysis, node, room)
            );
            tree.text(node, args.depth.into(), 1, &mut text);
            print!("{text}")
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Where an object's label begins: behind the bytes and their share.
const LABEL_COLUMN: usize = 19;

/// What dominates a node, the nearest first.
fn chain(analysis: &Analysis, node: Node) -> Vec<Node> {
    let mut chain = Vec::new();
    let mut above = node;
    while analysis.dominator(above) != above {
        above = analysis.dominator(above);
        chain.push(above);
    }
    chain
}

/// The nodes by what dominates them: where each one's begin, and all of them.
fn children(analysis: &Analysis) -> (Vec<u32>, Vec<Node>) {
    let graph = &analysis.snapshot().graph;
    let mut first = vec![0_u32; graph.node_count() + 1];
    let dominated = || graph.nodes().filter(|node| analysis.dominator(*node) != *node);
    for node in dominated() {
        first[analysis.dominator(node) as usize] += 1;
    }
    let mut sum = 0;
    for slot in &mut first {
        sum += *slot;
        *slot = sum;
    }
    let mut children = vec![0; sum as usize];
    for node in dominated().rev() {
        let slot = &mut first[analysis.dominator(node) as usize];
        *slot -= 1;
        children[*slot as usize] = node;
    }
    (first, children)
}

struct Tree<'t, 's, 'a> {
    analysis: &'t Analysis<'s, 'a>,
    children: (Vec<u32>, Vec<Node>),
    top: usize,
    least_bytes: u64,
}

impl Tree<'_, '_, '_> {
    /// The children that retain most, and how many there are.
    fn largest(&self, node: Node) -> (Vec<Node>, usize) {
        let (first, all) = &self.children;
        let mut children =
            all[first[node as usize] as usize..first[node as usize + 1] as usize].to_vec();
        children.sort_by_key(|child| Reverse(self.analysis.retained_size(*child)));
        let count = children.len();
        let small = children
            .partition_point(|child| self.analysis.retained_size(*child) >= self.least_bytes);
        // Where all is small, the largest is still worth a line.
        children.truncate(self.top.min(small.max(1)));
        (children, count)
    }

    fn text(&self, node: Node, depth: usize, level: usize, out: &mut String) {
        let (children, count) = self.largest(node);
        for child in &children {
            let retained = share(self.analysis.retained_size(*child), self.analysis.total_bytes());
            let label = label_within(
                self.analysis,
                *child,
                terminal::columns().saturating_sub(LABEL_COLUMN + 2 * level),
            );
            let _ = writeln!(out, "{retained:>17}  {}{label}", "  ".repeat(level));
            if level < depth {
                self.text(*child, depth, level + 1, out);
            }
        }
        if children.len() < count {
            let _ = writeln!(
                out,
                "{:>17}  {}... and {} more",
                "",
                "  ".repeat(level),
                number((count - children.len()) as u64)
            );
        }
    }

    fn json(&self, node: Node, depth: usize) -> Vec<Value> {
        let row = |child: &Node| {
            let mut row = json!({"object": node_json(self.analysis, *child)});
            if depth > 1 {
                row["dominated"] = self.json(*child, depth - 1).into();
            }
            row
        };
        self.largest(node).0.iter().map(row).collect()
    }
}
