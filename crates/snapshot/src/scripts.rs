//! Names of scripts. A place in a file has V8's number of its script; the file has no list of
//! scripts. But a function leads to its script's name: `shared`, `script`, `name`.
//!
//! Source: `V8HeapExplorer::ExtractSharedFunctionInfoReferences` and `ExtractScriptReferences`. Up
//! to Node 20 the second edge is `script_or_debug_info`. For a function under a debugger it leads
//! to debug information without a name; then another function of the script gives the name.

use crate::graph::Node;
use crate::meta::NodeType;
use crate::snapshot::Snapshot;
use hashbrown::HashSet;
use std::collections::BTreeMap;

/// Names by V8's number of the script. A script without a name, or without a live function, has
/// none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scripts {
    names: BTreeMap<u32, String>,
}

impl Scripts {
    /// The names that the functions of a snapshot tell.
    pub fn of(snapshot: &Snapshot) -> Scripts {
        let mut known = HashSet::new();
        let mut names = BTreeMap::new();
        for location in &snapshot.locations {
            if known.contains(&location.script_id) {
                continue;
            }
            let Some(name) = name_of_functions_script(snapshot, location.node) else { continue };
            known.insert(location.script_id);
            if !name.is_empty() {
                names.insert(location.script_id, name);
            }
        }
        Scripts { names }
    }

    /// The name of the script with that number.
    pub fn name(&self, script_id: u32) -> Option<&str> {
        self.names.get(&script_id).map(String::as_str)
    }

    /// The names, by ascending number.
    pub fn names(&self) -> impl ExactSizeIterator<Item = (u32, &str)> {
        self.names.iter().map(|(id, name)| (*id, name.as_str()))
    }

    /// A place as text: `app.js:236:14`, or `script 6:236:14` without the script's name. Lines and
    /// columns count from 1 there, and from 0 in `place`.
    pub fn place(&self, place: (u32, u32, u32)) -> String {
        let (script_id, line, column) = place;
        let (line, column) = (u64::from(line) + 1, u64::from(column) + 1);
        match self.name(script_id) {
            Some(name) => format!("{name}:{line}:{column}"),
            None => format!("script {script_id}:{line}:{column}"),
        }
    }
}

fn name_of_functions_script(snapshot: &Snapshot, function: Node) -> Option<String> {
    let graph = &snapshot.graph;
    if graph.node_type(function) != NodeType::Closure {
        return None;
    }
    let follow = |from: Node, name: &str| {
        let is_it = |edge: &u32| {
            !graph.edge_type(*edge).is_indexed()
                && snapshot.strings.raw(graph.edge_name(*edge)) == name.as_bytes()
        };
        graph.edges(from).find(is_it).map(|edge| graph.target(edge))
    };
    let shared = follow(function, "shared")?;
    let script = follow(shared, "script").or_else(|| follow(shared, "script_or_debug_info"))?;
    let name = follow(script, "name")?;
    let is_text = graph.node_type(name) == NodeType::String;
    is_text.then(|| snapshot.strings.text(graph.node_name(name)).into_owned())
}
