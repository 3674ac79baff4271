//! Whether two files are snapshots of one session, so that equal ids mean equal objects.
//!
//! V8 numbers objects in the order of its first walk, and forgets the numbers when the inspector's
//! session ends. The next session begins at 1 again. Two files of two sessions then share nearly
//! all ids, for different objects, and a comparison by id is meaningless. No file names its
//! session, but two signs tell. Within a session an object keeps its type (a flattened string is a
//! rare exception), so common ids of different types are different objects. And a file whose ids
//! rise by 2 from node to node is the first of its session, so no older file is of the same
//! session.
//!
//! Measured on pairs that Node 12 to 24 and Chromium wrote in one session: no common id changed its
//! type, and the second file never rises throughout. On two sessions of an idle Node 20: 3 % of the
//! types, and it does. `tests/devtools.rs` holds the pairs to that.

use crate::meta::NodeType;
use crate::snapshot::Snapshot;

/// Ids that are compared: enough to see one in a thousand, and no more memory for a larger file.
const SAMPLES: usize = 1 << 16;
/// The largest part of the common ids whose type may change within a session.
const CHANGED_MAX: f64 = 0.005;

/// A file's ids with their types, 5 bytes an object: all that a comparison needs.
#[derive(Clone, Debug)]
pub struct SnapshotIds {
    /// In their order.
    ids: Vec<u32>,
    /// Of each id.
    types: Vec<NodeType>,
    /// The file's names of its types.
    type_names: Vec<String>,
    /// Whether the ids of the language's objects (those of its embedder are even) rise by 2 from
    /// object to object.
    rises: bool,
}

impl SnapshotIds {
    /// Of a file that is read.
    pub fn of(snapshot: &Snapshot) -> SnapshotIds {
        let graph = &snapshot.graph;
        let mut keys: Vec<u64> = graph
            .nodes()
            .map(|node| u64::from(graph.id(node)) << 8 | u64::from(graph.node_type(node).0))
            .collect();
        keys.sort_unstable();
        SnapshotIds {
            ids: keys.iter().map(|key| (key >> 8) as u32).collect(),
            types: keys.iter().map(|key| NodeType(*key as u8)).collect(),
            type_names: snapshot.header.meta.node_types.clone(),
            rises: rises(snapshot),
        }
    }

    /// Its ids, the smallest first.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The last id of an object of the language's heap (those of its embedder are even).
    pub fn last_object_id(&self) -> u32 {
        self.ids.iter().rev().find(|id| **id % 2 == 1).copied().unwrap_or(0)
    }

    fn type_name(&self, id: u32) -> Option<&str> {
        let place = self.ids.binary_search(&id).ok()?;
        Some(self.types[place].name(&self.type_names))
    }
}

/// The result for a pair of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Sampled ids that both files have.
    pub common: u64,
    /// Common ids whose objects have different types in the two files.
    pub changed: u64,
    /// The newer file is the first of its session: its ids rise by 2 from object to object.
    pub newer_is_first: bool,
    /// The last ids of both, if the newer file must be the older one: a session counts its ids up,
    /// so that a later file has no id that is new and below the last one of the file before.
    pub reversed: Option<(u32, u32)>,
}

impl Session {
    /// Looks at two files.
    pub fn of(older: &SnapshotIds, newer: &SnapshotIds) -> Session {
        let mut session = Session {
            newer_is_first: newer.rises,
            reversed: reversed(older, newer),
            ..Session::default()
        };
        let stride = newer.ids.len().div_ceil(SAMPLES).max(1);
        for (id, kind) in newer.ids.iter().zip(&newer.types).step_by(stride) {
            if let Some(before) = older.type_name(*id) {
                session.common += 1;
                session.changed += u64::from(before != kind.name(&newer.type_names));
            }
        }
        session
    }

    /// Whether equal ids are evidently not equal objects.
    pub fn is_broken(&self) -> bool {
        (self.newer_is_first && self.changed > 0)
            || self.changed as f64 > CHANGED_MAX * self.common as f64
    }
}

fn reversed(older: &SnapshotIds, newer: &SnapshotIds) -> Option<(u32, u32)> {
    let (end, new_end) = (older.last_object_id(), newer.last_object_id());
    let is_new = |id: &&u32| **id % 2 == 1 && older.ids.binary_search(id).is_err();
    (new_end < end && newer.ids.iter().any(|id| is_new(&id))).then_some((end, new_end))
}

/// Whether the ids of the language's objects rise by 2 throughout.
fn rises(snapshot: &Snapshot) -> bool {
    let graph = &snapshot.graph;
    let ids = || graph.nodes().map(|node| graph.id(node)).filter(|id| id % 2 == 1);
    ids().zip(ids().skip(1)).all(|(id, next)| next == id.wrapping_add(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Hash;
    use crate::write::{Counts, Layout, Node, Writer};

    /// Objects with their ids and types, 3 an object and 8 something native.
    fn file(nodes: &[(u64, u8)]) -> Vec<u8> {
        let counts = Counts { nodes: nodes.len() as u64 + 1, edges: 0, trace_functions: 0 };
        let mut writer = Writer::new(Vec::new(), Layout::node_20(), counts, Hash::Mixed).unwrap();
        let name = writer.string("name").unwrap();
        writer.node(&Node::new(9, name, 1, 0)).unwrap();
        for (id, kind) in nodes {
            writer.node(&Node::new(*kind, name, *id, 8)).unwrap();
        }
        writer.finish().unwrap().0
    }

    fn of(older: &[(u64, u8)], newer: &[(u64, u8)]) -> Session {
        let moment = |nodes| SnapshotIds::of(&Snapshot::read(&file(nodes)).unwrap());
        Session::of(&moment(older), &moment(newer))
    }

    #[test]
    fn ids_that_begin_anew_are_seen_and_those_that_go_on_are_believed() {
        let first = [(3, 3), (5, 3), (7, 8), (9, 3)];
        // @5 is gone and @11 is new.
        let next = of(&first, &[(3, 3), (11, 3), (7, 8), (9, 3)]);
        assert_eq!((next, next.is_broken()), (Session { common: 4, ..Session::default() }, false));
        // The same gone, and all behind it is numbered anew.
        let anew = of(&first, &[(3, 3), (5, 8), (7, 3), (9, 3)]);
        assert_eq!(
            (anew, anew.is_broken()),
            (Session { common: 5, changed: 2, newer_is_first: true, reversed: None }, true)
        );
        assert!(!of(&first, &first).is_broken(), "a file and its copy");
        // The same pair the other way round.
        let back = of(&[(3, 3), (11, 3), (7, 8), (9, 3)], &first);
        assert_eq!((back.reversed, next.reversed), (Some((11, 9)), None));
        // The last object died, and no new one was met.
        assert_eq!(of(&first, &first[..3]).reversed, None);
    }

    #[test]
    fn one_string_that_was_flattened_among_many_objects_is_no_other_session() {
        let mut nodes: Vec<(u64, u8)> = (1..=1000).map(|number| (4003 - 2 * number, 3)).collect();
        let older = nodes.clone();
        nodes[500].1 = 2;
        let session = of(&older, &nodes);
        assert_eq!((session.changed, session.is_broken()), (1, false));
        nodes[..20].iter_mut().for_each(|node| node.1 = 2);
        assert!(of(&older, &nodes).is_broken());
    }
}
