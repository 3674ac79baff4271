//! Referrers of an object, the nearest to a root first, as DevTools' Retainers.

mod tree;

use crate::about_object::ObjectSection;
use crate::rows::{distance, edge_json, label_within, node_json, step};
use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::Analysis;
use heaplab_text::lines::cut;
use heaplab_text::words::count as number;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::fmt::{self, Write};
pub use tree::Limits;
use tree::{Followed, Tree, Under};

/// Referrers of the object.
pub struct Holders {
    /// How much of the tree is shown.
    pub limits: Limits,
}

impl ObjectSection for Holders {
    fn text(
        &self,
        analysis: &Analysis,
        node: Node,
        columns: usize,
        out: &mut dyn Write,
    ) -> fmt::Result {
        writeln!(out, "\nHeld by:")?;
        let tree = Tree::of(analysis, node, self.limits);
        let mut lines = Lines { analysis, tree: &tree, shown: HashSet::from([node]), columns };
        lines.write(&tree.first(node), &mut vec![node], out)?;
        match tree.not_followed {
            0 => Ok(()),
            left => writeln!(
                out,
                "\n{} objects are not followed: --lines {} are reached",
                number(left as u64),
                self.limits.lines
            ),
        }
    }

    fn json(&self, analysis: &Analysis, node: Node) -> Map<String, Value> {
        Map::from_iter([("total".to_owned(), json!(analysis.backward().of_node(node).len()))])
    }

    fn stream<M: SerializeMap>(
        &self,
        analysis: &Analysis,
        node: Node,
        map: &mut M,
    ) -> Result<(), M::Error> {
        let tree = Tree::of(analysis, node, self.limits);
        map.serialize_entry("not_followed", &tree.not_followed)?;
        map.serialize_entry("retainers", &Rows { analysis, tree: &tree, of: &tree.first(node) })
    }
}

/// The tree as text.
struct Lines<'w, 's, 'a> {
    analysis: &'w Analysis<'s, 'a>,
    tree: &'w Tree,
    /// Objects that were followed in the lines so far.
    shown: HashSet<Node>,
    columns: usize,
}

impl Lines<'_, '_, '_> {
    fn write(&mut self, of: &Followed, above: &mut Vec<Node>, out: &mut dyn Write) -> fmt::Result {
        let indent = "  ".repeat(above.len().min(self.columns / 4));
        for row in of.rows.clone() {
            let retaining = self.tree.rows[row];
            let under = self.tree.under(row);
            let where_else = match under {
                _ if above.contains(&retaining.from) => "  (again)",
                Under::Elsewhere if self.shown.contains(&retaining.from) => "  (above)",
                Under::Elsewhere => "  (below)",
                Under::Rows(_) | Under::Nothing => "",
            };
            let before =
                format!("{:>4} {indent}", distance(self.analysis.distance(retaining.from)));
            let room = self.columns - before.len();
            let (from, by) = (
                label_within(self.analysis, retaining.from, room),
                step(self.analysis, retaining.edge) + where_else,
            );
            if from.chars().count() + 1 + by.chars().count() <= room {
                writeln!(out, "{before}{from} {by}")?;
            } else {
                writeln!(out, "{before}{from}\n     {indent}    {}", cut(&by, room - 4))?;
            }
            if let Under::Rows(followed) = under {
                self.shown.insert(retaining.from);
                above.push(retaining.from);
                self.write(followed, above, out)?;
                above.pop();
            }
        }
        if of.rows.is_empty() && of.more == 0 {
            writeln!(out, "     {indent}nothing")?;
        }
        if of.more > 0 {
            writeln!(out, "     {indent}... and {} more", number(of.more as u64))?;
        }
        Ok(())
    }
}

/// The referrers of one object as JSON, and in them theirs.
struct Rows<'w, 's, 'a> {
    analysis: &'w Analysis<'s, 'a>,
    tree: &'w Tree,
    of: &'w Followed,
}

impl Serialize for Rows<'_, '_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(Some(self.of.rows.len()))?;
        for row in self.of.rows.clone() {
            rows.serialize_element(&Row { rows: self, row })?;
        }
        rows.end()
    }
}

struct Row<'w, 'r, 's, 'a> {
    rows: &'w Rows<'r, 's, 'a>,
    row: usize,
}

impl Serialize for Row<'_, '_, '_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Rows { analysis, tree, .. } = self.rows;
        let retaining = tree.rows[self.row];
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("edge", &edge_json(analysis, retaining.edge))?;
        map.serialize_entry("from", &node_json(analysis, retaining.from))?;
        match tree.under(self.row) {
            Under::Rows(of) => {
                map.serialize_entry("left_out", &of.more)?;
                map.serialize_entry("retainers", &Rows { analysis, tree, of })?;
            }
            Under::Elsewhere => map.serialize_entry("elsewhere", &true)?,
            Under::Nothing => {}
        }
        map.end()
    }
}
