//! Small heaps made by hand, as files: fields may stand in any order, so that tests can see that
//! they are looked up by name.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::HashMap;
use std::fmt::Write;

pub const NODE_TYPES: [&str; 15] = [
    "hidden",
    "array",
    "string",
    "object",
    "code",
    "closure",
    "regexp",
    "number",
    "native",
    "synthetic",
    "concatenated string",
    "sliced string",
    "symbol",
    "bigint",
    "object shape",
];
pub const EDGE_TYPES: [&str; 7] =
    ["context", "element", "property", "internal", "hidden", "shortcut", "weak"];

#[derive(Clone, Debug)]
struct Node {
    kind: &'static str,
    name: String,
    size: u64,
    detachedness: u8,
    edges: Vec<(&'static str, String, usize)>,
}

/// A heap. The first node is the root.
#[derive(Clone, Debug)]
pub struct Heap {
    nodes: Vec<Node>,
    /// Object, script, line, column.
    pub locations: Vec<[usize; 4]>,
    pub node_fields: Vec<&'static str>,
    pub edge_fields: Vec<&'static str>,
}

impl Heap {
    pub fn new() -> Heap {
        let mut heap = Heap {
            nodes: Vec::new(),
            locations: Vec::new(),
            node_fields: vec!["type", "name", "id", "self_size", "edge_count", "detachedness"],
            edge_fields: vec!["type", "name_or_index", "to_node"],
        };
        heap.node("synthetic", "", 0);
        heap
    }

    /// Adds a node; its id is 2n + 1.
    pub fn node(&mut self, kind: &'static str, name: &str, size: u64) -> usize {
        self.nodes.push(Node { kind, name: name.into(), size, detachedness: 0, edges: Vec::new() });
        self.nodes.len() - 1
    }

    pub fn detached(&mut self, node: usize, state: u8) {
        self.nodes[node].detachedness = state;
    }

    /// Adds an edge; names of elements and hidden edges are numbers.
    pub fn edge(&mut self, kind: &'static str, from: usize, name: &str, to: usize) {
        self.nodes[from].edges.push((kind, name.into(), to));
    }

    /// The file.
    pub fn file(&self) -> String {
        let mut strings: Vec<String> = Vec::new();
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut string = |text: &str| {
            *numbers.entry(text.to_owned()).or_insert_with(|| {
                strings.push(text.to_owned());
                strings.len() - 1
            })
        };
        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        for (place, node) in self.nodes.iter().enumerate() {
            nodes.extend(self.node_fields.iter().map(|field| match *field {
                "type" => NODE_TYPES.iter().position(|kind| *kind == node.kind).unwrap(),
                "name" => string(&node.name),
                "id" => 2 * place + 1,
                "self_size" => node.size as usize,
                "edge_count" => node.edges.len(),
                "detachedness" => usize::from(node.detachedness),
                _ => 0,
            }));
            for (kind, name, to) in &node.edges {
                edges.extend(self.edge_fields.iter().map(|field| match *field {
                    "type" => EDGE_TYPES.iter().position(|known| known == kind).unwrap(),
                    "name_or_index" if ["element", "hidden"].contains(kind) => {
                        name.parse().unwrap()
                    }
                    "name_or_index" => string(name),
                    "to_node" => to * self.node_fields.len(),
                    _ => 0,
                }));
            }
        }
        let types = |fields: &[&str], names: &[&str]| {
            let lists: Vec<String> = fields
                .iter()
                .map(
                    |field| {
                        if *field == "type" { format!("{names:?}") } else { "\"number\"".into() }
                    },
                )
                .collect();
            lists.join(",")
        };
        let locations: Vec<usize> = self
            .locations
            .iter()
            .flat_map(|row| [row[0] * self.node_fields.len(), row[1], row[2], row[3]])
            .collect();
        let mut file = String::new();
        let _ = write!(
            file,
            "{{\"snapshot\":{{\"meta\":{{\"node_fields\":{:?},\"node_types\":[{}],\"edge_fields\":{:?},\"edge_types\":[{}],\
             \"location_fields\":[\"object_index\",\"script_id\",\"line\",\"column\"]}},\"node_count\":{},\"edge_count\":{}}},\n\
             \"nodes\":{nodes:?},\n\"edges\":{edges:?},\n\"locations\":{locations:?},\n\"strings\":{}}}\n",
            self.node_fields,
            types(&self.node_fields, &NODE_TYPES),
            self.edge_fields,
            types(&self.edge_fields, &EDGE_TYPES),
            self.nodes.len(),
            edges.len() / self.edge_fields.len(),
            serde_json::to_string(&strings).unwrap(),
        );
        file
    }
}
