//! Attached and detached nodes of an embedder (DOM nodes): nodes with a known state pass it on to
//! nodes without.
//!
//! Targets of an attached node are attached. Targets of a detached node are detached, unless they
//! are attached already. State spreads through native nodes only, never through objects of the
//! language, and not along hidden, invisible and weak references. A detached node is renamed
//! "Detached X". Source: DevTools' `propagateDOMState`.

use super::names::Names;
use crate::columns::Column;
use crate::graph::{Graph, Node};
use crate::meta::{EdgeType, NodeType};
use crate::strings::StringId;
use hashbrown::HashMap;

/// States of attachment, as in the file.
pub(crate) const ATTACHED: u8 = 1;
pub(crate) const DETACHED: u8 = 2;

/// The states of all nodes and the new names of some.
#[derive(Debug, Default)]
pub(crate) struct Attachment<'a> {
    /// Empty if no node has a known state.
    pub states: Column<'a, u8>,
    pub renamed: HashMap<Node, StringId>,
}

impl Attachment<'_> {
    pub fn of(graph: &Graph, names: &mut Names) -> Attachment<'static> {
        if graph.detachedness.is_empty() {
            return Attachment::by_name(graph, names);
        }
        let mut spread = Spread {
            graph,
            names,
            visited: Vec::new(),
            stack: Vec::new(),
            detached_names: HashMap::new(),
            attachment: Attachment::default(),
        };
        if graph.detachedness.iter().any(|state| *state != 0) {
            spread.run();
        }
        spread.attachment
    }

    /// 0 unknown, 1 attached, 2 detached.
    pub fn state(&self, node: Node) -> u8 {
        self.states.get(node as usize).copied().unwrap_or(0)
    }

    /// Old snapshots have no states; their native nodes named "Detached ..." are detached.
    fn by_name(graph: &Graph, names: &Names) -> Attachment<'static> {
        let mut attachment = Attachment::default();
        for node in graph.nodes().filter(|node| graph.node_type(*node) == NodeType::Native) {
            if names.bytes(graph.node_name(node)).starts_with(b"Detached ") {
                let states = attachment.states.to_mut();
                states.resize(graph.node_count(), 0);
                states[node as usize] = DETACHED;
            }
        }
        attachment
    }
}

struct Spread<'g, 'n, 's, 'a> {
    graph: &'g Graph<'g>,
    names: &'n mut Names<'s, 'a>,
    visited: Vec<bool>,
    stack: Vec<Node>,
    detached_names: HashMap<StringId, StringId>,
    attachment: Attachment<'static>,
}

impl Spread<'_, '_, '_, '_> {
    fn run(&mut self) {
        self.attachment.states = self.graph.detachedness.to_vec().into();
        self.visited = vec![false; self.graph.node_count()];
        let mut detached = Vec::new();
        for node in self.graph.nodes() {
            let state = self.attachment.state(node);
            if state != 0 && self.take(node, state) && state == DETACHED {
                detached.push(node);
            }
        }
        self.flood(ATTACHED);
        self.stack = detached;
        self.flood(DETACHED);
    }

    /// Spreads a state from the nodes of the stack.
    fn flood(&mut self, state: u8) {
        while let Some(node) = self.stack.pop() {
            for edge in self.graph.edges(node) {
                if !matches!(
                    self.graph.edge_type(edge),
                    EdgeType::Hidden | EdgeType::Invisible | EdgeType::Weak
                ) {
                    let target = self.graph.target(edge);
                    if self.take(target, state) && state == DETACHED {
                        self.stack.push(target);
                    }
                }
            }
        }
    }

    /// Gives a node its state if it has none yet; attached nodes are stacked at once.
    fn take(&mut self, node: Node, state: u8) -> bool {
        if std::mem::replace(&mut self.visited[node as usize], true)
            || self.graph.node_type(node) != NodeType::Native
        {
            return false;
        }
        self.attachment.states.to_mut()[node as usize] = state;
        if state == ATTACHED {
            self.stack.push(node);
        } else if state == DETACHED {
            let old = self.graph.node_name(node);
            let names = &mut *self.names;
            let new = *self.detached_names.entry(old).or_insert_with(|| {
                let name = [b"Detached ".as_slice(), &names.bytes(old)].concat();
                names.add(name)
            });
            self.attachment.renamed.insert(node, new);
        }
        true
    }
}
