//! Objects that retain more in each snapshot of a series than in the one before.
//! [`crate::diff::growing`] names the classes that grow; this names the objects that hold them.
//!
//! The pass goes from the newest snapshot to the oldest and keeps only candidates that may still be
//! growing. The holder of a growing object grows as well, up to the root. Of such a chain only the
//! lowest object is reported: no single object below explains its growth.
//!
//! Source: memlab's `unbound-object` analysis, which reports each object of such a chain.

use crate::analysis::Analysis;
use crate::graph::Node;
use crate::leaks::is_of_program;
use hashbrown::HashMap;
use std::cmp::Reverse;

/// What retains less in the newest snapshot is no leak that somebody looks for.
const RETAINED_MIN_BYTES: u64 = 1024;
/// The part of an object's growth that another object below it explains.
const EXPLAINED: f64 = 0.9;

/// An object that grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growing {
    /// Its id.
    pub id: u32,
    /// Retained bytes in each snapshot, the oldest first.
    pub retained_bytes: Vec<u64>,
}

impl Growing {
    /// From the first snapshot to the last, bytes.
    pub fn bytes(&self) -> u64 {
        let ends = self.retained_bytes.last().zip(self.retained_bytes.first());
        ends.map_or(0, |(last, first)| last.saturating_sub(*first))
    }
}

/// What may be growing, after some snapshots from the newest on.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// Retained bytes, the newest first; none before the first snapshot.
    courses: Option<HashMap<u32, Vec<u64>>>,
}

impl Candidates {
    /// Looks at the next snapshot, which is older than the one before.
    pub fn older(&mut self, analysis: &Analysis) {
        let graph = &analysis.snapshot().graph;
        let Some(courses) = &mut self.courses else {
            let large = |node: &Node| {
                analysis.retained_size(*node) >= RETAINED_MIN_BYTES
                    && is_of_program(analysis, *node)
            };
            let course = |node: Node| (graph.id(node), vec![analysis.retained_size(node)]);
            self.courses = Some(graph.nodes().filter(large).map(course).collect());
            return;
        };
        let length = courses.values().next().map_or(0, Vec::len);
        for node in graph.nodes() {
            if let Some(course) = courses.get_mut(&graph.id(node))
                && course.len() == length
                && course.last().is_some_and(|newer| analysis.retained_size(node) < *newer)
            {
                course.push(analysis.retained_size(node));
            }
        }
        courses.retain(|_, course| course.len() > length);
    }

    /// Whether nothing is growing any more.
    pub fn is_empty(&self) -> bool {
        self.courses.as_ref().is_none_or(HashMap::is_empty)
    }

    /// The lowest objects that grow, those that grew by most first, with their nodes. `newest` is
    /// the snapshot that was looked at first.
    pub fn lowest(self, newest: &Analysis) -> Vec<(Node, Growing)> {
        let courses = self.courses.unwrap_or_default();
        let graph = &newest.snapshot().graph;
        let mut growing: HashMap<Node, Growing> = HashMap::new();
        for node in graph.nodes() {
            if let Some(course) = courses.get(&graph.id(node)) {
                let retained_bytes = course.iter().rev().copied().collect();
                growing.insert(node, Growing { id: graph.id(node), retained_bytes });
            }
        }
        let mut explained = Vec::new();
        for (node, grown) in &growing {
            let mut above = newest.dominator(*node);
            while above != newest.dominator(above) && !growing.contains_key(&above) {
                above = newest.dominator(above);
            }
            if let Some(holder) = growing.get(&above).filter(|_| above != *node)
                && grown.bytes() as f64 >= EXPLAINED * holder.bytes() as f64
            {
                explained.push(above);
            }
        }
        explained.iter().for_each(|node| drop(growing.remove(node)));
        let mut lowest: Vec<(Node, Growing)> = growing.into_iter().collect();
        lowest.sort_by_key(|(node, growing)| (Reverse(growing.bytes()), *node));
        lowest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Options;
    use crate::names::Hash;
    use crate::snapshot::Snapshot;
    use crate::write::{Counts, EdgeName, Layout, Node as Row, Writer, edge_type, node_type};

    /// A global object that holds a list of so many entries, and something that stays.
    fn file(entries: u64) -> Vec<u8> {
        let counts = Counts { nodes: 4 + entries, edges: 3 + entries, trace_functions: 0 };
        let mut writer = Writer::new(Vec::new(), Layout::node_20(), counts, Hash::Mixed).unwrap();
        let [global, list, same] =
            ["global", "list", "same"].map(|name| writer.string(name).unwrap());
        let row =
            |kind, name, id, size, edge_count| Row { edge_count, ..Row::new(kind, name, id, size) };
        writer.node(&row(node_type::SYNTHETIC, global, 1, 0, 1)).unwrap();
        writer.node(&row(node_type::OBJECT, global, 3, 5000, 2)).unwrap();
        writer.node(&row(node_type::OBJECT, list, 5, 100, entries)).unwrap();
        writer.node(&row(node_type::OBJECT, same, 7, 9000, 0)).unwrap();
        for entry in 0..entries {
            writer.node(&row(node_type::OBJECT, list, 9 + 2 * entry, 500, 0)).unwrap();
        }
        let named = edge_type::PROPERTY;
        writer.edge(0, named, EdgeName::Text(global), 1).unwrap();
        writer.edge(1, named, EdgeName::Text(list), 2).unwrap();
        writer.edge(1, named, EdgeName::Text(same), 3).unwrap();
        for entry in 0..entries {
            writer.edge(2, edge_type::ELEMENT, EdgeName::Index(entry), 4 + entry).unwrap();
        }
        writer.finish().unwrap().0
    }

    fn lowest(counts: &[u64]) -> Vec<(u32, Vec<u64>)> {
        let files: Vec<Vec<u8>> = counts.iter().map(|count| file(*count)).collect();
        let snapshots: Vec<Snapshot> =
            files.iter().map(|file| Snapshot::read(file).unwrap()).collect();
        let analyses: Vec<Analysis> =
            snapshots.iter().map(|each| Analysis::of(each, &Options::default())).collect();
        let mut candidates = Candidates::default();
        analyses.iter().rev().for_each(|analysis| candidates.older(analysis));
        let Some(newest) = analyses.last() else { return Vec::new() };
        let lowest = candidates.lowest(newest);
        lowest.into_iter().map(|(_, growing)| (growing.id, growing.retained_bytes)).collect()
    }

    #[test]
    fn the_list_grows_and_what_holds_it_is_not_told() {
        assert_eq!(lowest(&[2, 4, 6]), [(5, vec![1100, 2100, 3100])]);
    }

    #[test]
    fn what_shrinks_once_does_not_grow() {
        assert_eq!(lowest(&[2, 6, 4]), []);
        assert_eq!(lowest(&[4, 4, 6]), []);
        assert_eq!(lowest(&[]), []);
    }
}
