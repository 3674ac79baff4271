//! Which nodes have the same name: a number for each name.
//!
//! No name is kept: of each a node that has it is known, and names are compared where they are. Nodes that share a string of the file, and concatenated
//! strings of which the same string decides the name, are found without a look at it.

use super::Analysis;
use crate::graph::Node;
use crate::meta::NodeType;
use crate::strings::StringId;
use hashbrown::{HashMap, HashTable};
use xxhash_rust::xxh3::xxh3_64;

/// Numbers for the names of nodes that were asked for, from 0 on.
pub struct SameNames<'n, 's, 'a> {
    analysis: &'n Analysis<'s, 'a>,
    table: HashTable<u32>,
    /// A node of each name, and the name's hash.
    names: Vec<(Node, u64)>,
    by_string: HashMap<StringId, u32>,
    by_rope: HashMap<Node, u32>,
}

impl<'n, 's, 'a> SameNames<'n, 's, 'a> {
    /// None yet.
    pub fn new(analysis: &'n Analysis<'s, 'a>) -> Self {
        SameNames { analysis, table: HashTable::new(), names: Vec::new(), by_string: HashMap::new(), by_rope: HashMap::new() }
    }

    /// The number of the node's name, as [`Analysis::name_bytes`] gives it.
    pub fn number(&mut self, node: Node) -> u32 {
        let analysis = self.analysis;
        if analysis.has_plain_objects_name(node) {
            return self.number_of_name(node);
        }
        let node = analysis.concatenated().same(node);
        let is_rope = analysis.snapshot.graph.node_type(node) == NodeType::ConcatenatedString;
        let known = if is_rope { self.by_rope.get(&node) } else { self.by_string.get(&analysis.name_id(node)) };
        if let Some(known) = known {
            return *known;
        }
        let number = self.number_of_name(node);
        if is_rope {
            self.by_rope.insert(node, number);
        } else {
            self.by_string.insert(analysis.name_id(node), number);
        }
        number
    }

    fn number_of_name(&mut self, node: Node) -> u32 {
        let name = self.analysis.name_bytes(node);
        let hash = xxh3_64(&name);
        let SameNames { analysis, table, names, .. } = self;
        let same = |number: &u32| {
            let (first, known) = names[*number as usize];
            known == hash && analysis.name_bytes(first) == name
        };
        if let Some(number) = table.find(hash, same) {
            return *number;
        }
        let number = names.len() as u32;
        names.push((node, hash));
        table.insert_unique(hash, number, |number| names[*number as usize].1);
        number
    }
}
