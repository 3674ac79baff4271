//! `convert`: the same heap in other columns, types or line ends.
//!
//! Readers differ: some ask for `trace_node_id`, some for `detachedness`, line tools want a row a line, and a file that another program wrote may lack
//! lists. A Node's columns have no place for Chromium's scopes and scripts' nodes; all other targets keep them. What a target does not name changes as little as it can: a column that is gone is dropped, one that is new is 0, a node type of a later V8
//! becomes `hidden`, and types of other programs are added behind V8's. What comes out has every list, in the order that DevTools reads.

use super::ids::Ids;
use super::small_lists::{Places, copy_small_lists};
use super::{FileStrings, Progress, RewriteError, Ticker};
use crate::rows::Rows;
use crate::write::{EdgeName, Layout, NODE_TYPES, Node, Rows as LineEnds, Writer, Written};
use std::io::Write;

/// What to make of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// As it is, written anew: every list, in order, each string once.
    Same,
    /// As it is, a row a line.
    Lines,
    /// As it is, a list a line: smallest.
    Compact,
    /// The columns of Node 12 and 14.
    Node12,
    /// The columns of Node 16.
    Node16,
    /// The columns of Node 18 and 20.
    Node20,
    /// The columns of Node 24, with `trace_node_id` if the file tells where objects were allocated.
    Node24,
}

impl Target {
    /// All of them with their names.
    pub const ALL: [(&'static str, Target); 7] = [
        ("same", Target::Same),
        ("lines", Target::Lines),
        ("compact", Target::Compact),
        ("node12", Target::Node12),
        ("node16", Target::Node16),
        ("node20", Target::Node20),
        ("node24", Target::Node24),
    ];

    fn layout(self, rows: &Rows<'_>) -> Layout {
        let mut layout = match self {
            Target::Same => return rows.layout.clone(),
            Target::Lines => return rows.layout.clone().with_rows(LineEnds::OnePerLine),
            Target::Compact => return rows.layout.clone().with_rows(LineEnds::OneLine),
            Target::Node12 => Layout::node_12(),
            Target::Node16 => Layout::node_16(),
            Target::Node20 => Layout::node_20(),
            Target::Node24 if rows.counts.trace_functions > 0 => Layout::node_24().with_trace_nodes(),
            Target::Node24 => Layout::node_24(),
        };
        if layout.extra_native_bytes.is_some() {
            layout.extra_native_bytes = rows.layout.extra_native_bytes.or(Some(0));
        }
        let own = rows.layout.node_types.iter().filter(|name| !NODE_TYPES.contains(&name.as_str()));
        layout.node_types.extend(own.cloned());
        let own: Vec<_> = rows.layout.edge_types.iter().filter(|name| !layout.edge_types.contains(name)).cloned().collect();
        layout.edge_types.extend(own);
        layout
    }
}

/// Type numbers of the file -> of the target.
fn type_numbers(from: &[String], to: &[String], otherwise: &str) -> Vec<u8> {
    let number = |name: &str| to.iter().position(|known| known == name);
    let otherwise = number(otherwise).unwrap_or(0);
    from.iter().map(|name| number(name).unwrap_or(otherwise) as u8).collect()
}

/// Writes the file anew.
pub fn convert<W: Write>(rows: &Rows<'_>, target: Target, sink: W, progress: Progress<'_>) -> Result<(W, Written), RewriteError> {
    let FileStrings { strings, of_file } = FileStrings::read(rows)?;
    let layout = target.layout(rows);
    let node_types = type_numbers(&rows.layout.node_types, &layout.node_types, "hidden");
    let edge_types = type_numbers(&rows.layout.edge_types, &layout.edge_types, "internal");
    let mut ticker = Ticker::new(progress, rows.counts.nodes + rows.counts.edges);
    let mut writer = Writer::with_strings(sink, layout, rows.counts, strings)?;
    let mut ids = Ids::of(rows);
    let mut nodes = rows.nodes();
    while let Some(node) = nodes.read()? {
        let name = of_file[node.name.0 as usize];
        ids.write(&mut writer, Node { node_type: node_types[usize::from(node.node_type)], name, ..node })?;
        ticker.tick();
    }
    let mut edges = rows.edges();
    while let Some(edge) = edges.read()? {
        let name = match edge.name {
            EdgeName::Text(name) => EdgeName::Text(of_file[name.0 as usize]),
            index => index,
        };
        writer.edge(edge.from, edge_types[usize::from(edge.edge_type)], name, edge.to)?;
        ticker.tick();
    }
    let places = Places { copies: 1, of: |node, _| Some(node) };
    copy_small_lists(rows, &mut writer, |_, name, _| Ok(of_file[name.0 as usize]), places)?;
    Ok(writer.finish()?)
}
