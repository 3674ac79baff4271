//! `convert`: the same heap in other columns, types or line ends.
//!
//! Readers differ: some ask for `trace_node_id`, some for `detachedness`, line tools want a row a
//! line, and another program's file may lack lists. Node's columns have no place for Chromium's
//! scopes and scripts' nodes; all other targets keep them. Properties that a target does not name
//! change as little as possible. A dropped column disappears, a new one is 0, a node type of a
//! later V8 becomes `hidden`, and other programs' types are added behind V8's. The new file has
//! every list, in the order that DevTools reads.
//!
//! So a reader answers about the new file as about the old one without the losses ([`Lost`]):
//! `tests/conversions.rs` asks DevTools.

use super::ids::Ids;
use super::small_lists::{Places, copy_small_lists};
use super::{FileStrings, Progress, RewriteError, Ticker};
use crate::rows::Rows;
use crate::write::{
    EdgeName, Layout, NODE_TYPES, Node, NodeField, Rows as LineEnds, Writer, Written,
};
use std::io::Write;

/// What to make of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The same columns: every list, in order, each string once.
    Same,
    /// The same columns, a row a line.
    Lines,
    /// The same columns, a list a line: the smallest file.
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
    /// All targets with their names.
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
            Target::Node24 if rows.counts.trace_functions > 0 => {
                Layout::node_24().with_trace_nodes()
            }
            Target::Node24 => Layout::node_24(),
        };
        if layout.extra_native_bytes.is_some() {
            layout.extra_native_bytes = rows.layout.extra_native_bytes.or(Some(0));
        }
        let own = rows.layout.node_types.iter().filter(|name| !NODE_TYPES.contains(&name.as_str()));
        layout.node_types.extend(own.cloned());
        let own: Vec<_> = rows
            .layout
            .edge_types
            .iter()
            .filter(|name| !layout.edge_types.contains(name))
            .cloned()
            .collect();
        layout.edge_types.extend(own);
        layout
    }
}

/// The result of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The new file.
    pub written: Written,
    /// Data of the old file that the new one lacks.
    pub lost: Lost,
}

/// Type numbers of the file -> of the target.
fn type_numbers(from: &[String], to: &[String], otherwise: &str) -> Vec<u8> {
    let number = |name: &str| to.iter().position(|known| known == name);
    let otherwise = number(otherwise).unwrap_or(0);
    from.iter().map(|name| number(name).unwrap_or(otherwise) as u8).collect()
}

/// What of a file has no place in the columns and types of its target; all zero and empty where
/// nothing is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Nodes that become `hidden`: the old types with their counts. DevTools counts a hidden node
    /// with its only owner, or in `(system)`.
    pub hidden: Vec<(String, u64)>,
    /// Nodes that the old file marks as attached.
    pub attached: u64,
    /// Nodes that the old file marks as detached: the new file has no class `Detached <div>`, but
    /// one more `<div>`.
    pub detached: u64,
    /// Native nodes that the old file marks as detached by name alone, because it lacks the column.
    /// Readers of the new file look at the column.
    pub detached_by_name: u64,
    /// Nodes that said where they were allocated.
    pub allocated: u64,
    /// Scopes of scripts.
    pub scopes: u64,
    /// Variables of those scopes.
    pub scope_variables: u64,
    /// Uses of those variables.
    pub scope_uses: u64,
    /// Locations that named the node of their script; its number stays.
    pub script_objects: u64,
    /// Bytes outside of the heap that belong to no node: the total is less by so many.
    pub extra_native_bytes: u64,
    /// Columns and lists that are not known here, by name.
    pub unknown: Vec<String>,
}

impl Lost {
    /// Whether all of the file is in the new one.
    pub fn is_nothing(&self) -> bool {
        *self == Lost::default()
    }

    /// Counts the losses besides nodes' types and columns, which are counted as the nodes pass.
    fn beside_nodes(rows: &Rows<'_>, layout: &Layout) -> Result<Lost, RewriteError> {
        let mut lost = Lost { unknown: rows.unknown.clone(), ..Lost::default() };
        if layout.extra_native_bytes.is_none() {
            lost.extra_native_bytes = rows.layout.extra_native_bytes.unwrap_or(0);
        }
        if rows.layout.scopes && !layout.scopes {
            let mut scopes = rows.scopes();
            while let Some(scope) = scopes.read()? {
                lost.scopes += 1;
                lost.scope_variables = lost.scope_variables.saturating_add(scope.context_vars);
                lost.scope_uses = lost.scope_uses.saturating_add(scope.uses);
            }
        }
        if rows.layout.script_objects && !layout.script_objects {
            let mut locations = rows.locations();
            while locations.read()?.is_some() {
                lost.script_objects += 1;
            }
        }
        Ok(lost)
    }
}

/// Counts what nodes lose.
struct Losses {
    lost: Lost,
    /// Nodes of each type of the file.
    of_type: [u64; 256],
    /// Columns that are gone.
    without_detachedness: bool,
    without_trace_nodes: bool,
    /// The number of native nodes where their names alone say that they are detached.
    named: Option<u8>,
}

impl Losses {
    fn of(rows: &Rows<'_>, layout: &Layout) -> Result<Losses, RewriteError> {
        let had = |field| rows.layout.node_fields.contains(&field);
        let has = |field| layout.node_fields.contains(&field);
        let is_new = has(NodeField::Detachedness) && !had(NodeField::Detachedness);
        Ok(Losses {
            lost: Lost::beside_nodes(rows, layout)?,
            of_type: [0; 256],
            without_detachedness: !has(NodeField::Detachedness),
            without_trace_nodes: !has(NodeField::TraceNodeId),
            named: if is_new { rows.layout.node_type("native") } else { None },
        })
    }

    #[inline]
    fn count(&mut self, node: &Node, name: impl FnOnce() -> bool) {
        self.of_type[usize::from(node.node_type)] += 1;
        self.lost.attached += u64::from(self.without_detachedness && node.detachedness == 1);
        self.lost.detached += u64::from(self.without_detachedness && node.detachedness == 2);
        self.lost.allocated += u64::from(self.without_trace_nodes && node.trace_node_id != 0);
        self.lost.detached_by_name += u64::from(self.named == Some(node.node_type) && name());
    }

    /// All of it, where the types of the file have these names in the target.
    fn all(mut self, from: &[String], to: &[String]) -> Lost {
        let hidden =
            from.iter().zip(self.of_type).filter(|(name, count)| *count > 0 && !to.contains(name));
        self.lost.hidden = hidden.map(|(name, count)| (name.clone(), count)).collect();
        self.lost
    }
}

/// Writes the converted file and returns the losses.
pub fn convert<W: Write>(
    rows: &Rows<'_>,
    target: Target,
    sink: W,
    progress: Progress<'_>,
) -> Result<(W, Converted), RewriteError> {
    let FileStrings { strings, of_file } = FileStrings::read(rows)?;
    let layout = target.layout(rows);
    let mut losses = Losses::of(rows, &layout)?;
    let node_types = type_numbers(&rows.layout.node_types, &layout.node_types, "hidden");
    let node_type_names = layout.node_types.clone();
    let edge_types = type_numbers(&rows.layout.edge_types, &layout.edge_types, "internal");
    let mut ticker = Ticker::new(progress, rows.counts.nodes + rows.counts.edges);
    let mut writer = Writer::with_strings(sink, layout, rows.counts, strings)?;
    let mut ids = Ids::of(rows);
    let mut nodes = rows.nodes();
    while let Some(node) = nodes.read()? {
        let name = of_file[node.name.0 as usize];
        losses.count(&node, || writer.strings().bytes_of(name).starts_with(b"Detached "));
        ids.write(
            &mut writer,
            Node { node_type: node_types[usize::from(node.node_type)], name, ..node },
        )?;
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
    let (sink, written) = writer.finish()?;
    Ok((sink, Converted { written, lost: losses.all(&rows.layout.node_types, &node_type_names) }))
}
