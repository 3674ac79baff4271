//! The Summary's filters (objects retained only by contexts, detached nodes, the console or event
//! handlers; duplicated strings; a native context's objects; a function's allocations), and the
//! native context of each object. Source: `createNamedFilter`, `calculateNativeContextAttribution`.
//!
//! "Retained by X" means: a walk from the root that avoids X does not reach the object. Objects
//! that no walk reaches do not count.

use super::classes::Counting;
use super::names::Names;
use super::reach::{NO_DISTANCE, leading_integer};
use super::{Analysis, Class, retained};
use crate::columns::{self, Bits};
use crate::graph::{Edge, Graph, Node};
use crate::meta::{EdgeType, NodeType};
use crate::strings::StringId;
use hashbrown::HashSet;

/// Which nodes a summary looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Only contexts of functions keep them.
    RetainedByContexts,
    /// Only detached nodes of a document keep them.
    RetainedByDetachedNodes,
    /// Only the console of the developer tools keeps them.
    RetainedByConsole,
    /// Only event handlers keep them.
    RetainedByEventHandlers,
    /// Strings that are on the heap more than once.
    DuplicatedStrings,
    /// Ids above the first and up to the second: objects allocated between two snapshots.
    Ids(u32, u32),
    /// Objects of one native context.
    NativeContext(Node),
    /// Objects of several native contexts.
    SharedByNativeContexts,
    /// Objects of no native context.
    WithoutNativeContext,
    /// Objects that a function allocated: an index in [`crate::Traces::functions`].
    AllocatedBy(u32),
}

/// To which native context (a page, a frame, a realm) each node belongs.
#[derive(Clone, Debug)]
pub struct NativeContexts {
    /// The native contexts.
    pub contexts: Vec<Node>,
    owner: Vec<u32>,
}

/// Some of a heap's nodes.
#[derive(Clone, Debug)]
pub struct NodeSet(Bits);

impl NodeSet {
    /// Whether the node is one of them.
    pub fn contains(&self, node: Node) -> bool {
        self.0.get(node)
    }
}

const NONE: u32 = 0;
const SHARED: u32 = u32::MAX;

impl NativeContexts {
    /// The context that the node belongs to alone.
    pub fn of_node(&self, node: Node) -> Option<Node> {
        match self.owner[node as usize] {
            NONE | SHARED => None,
            owner => Some(owner - 1),
        }
    }

    /// Whether several contexts reach the node.
    pub fn is_shared(&self, node: Node) -> bool {
        self.owner[node as usize] == SHARED
    }

    fn of(graph: &Graph, names: &Names, is_context: impl Fn(Node) -> bool) -> NativeContexts {
        let (to_context, to_map) = (names.first("native_context"), names.first("map"));
        let mut found = NativeContexts {
            contexts: graph.nodes().filter(|node| is_context(*node)).collect(),
            owner: vec![],
        };
        let mut contexts = Bits::new(graph.node_count());
        found.contexts.iter().for_each(|node| contexts.set(*node));
        let internal = |node: Node, name: Option<StringId>, fits: &dyn Fn(Node) -> bool| {
            let mut edges =
                graph.edges(node).filter(|edge| graph.edge_type(*edge) == EdgeType::Internal);
            edges
                .find(|edge| Some(graph.edge_name(*edge)) == name && fits(graph.target(*edge)))
                .map(|edge| graph.target(edge))
        };
        found.owner = columns::zeroed(graph.node_count());
        let mut queue = Vec::new();
        let mut fixed = Bits::new(graph.node_count());
        for node in graph.nodes() {
            // An object's map's map belongs to one context, and knows it.
            let owner = if contexts.get(node) {
                Some(node)
            } else {
                let meta = internal(node, to_map, &|_| true)
                    .and_then(|map| internal(map, to_map, &|_| true));
                meta.and_then(|meta| internal(meta, to_context, &|target| contexts.get(target)))
            };
            if let Some(owner) = owner {
                found.owner[node as usize] = owner + 1;
                fixed.set(node);
                queue.push(node);
            }
        }
        found.spread(graph, &fixed, queue);
        found
    }

    /// Objects that a context's objects reach belong to the context, or are shared.
    fn spread(&mut self, graph: &Graph, fixed: &Bits, mut queue: Vec<Node>) {
        while let Some(node) = queue.pop() {
            let owner = self.owner[node as usize];
            for edge in graph.edges(node) {
                let target = graph.target(edge);
                let passes = !matches!(graph.edge_type(edge), EdgeType::Shortcut | EdgeType::Weak);
                if !passes || target == node || fixed.get(target) {
                    continue;
                }
                let slot = &mut self.owner[target as usize];
                let merged = if *slot == NONE || *slot == owner { owner } else { SHARED };
                if merged != *slot {
                    *slot = merged;
                    queue.push(target);
                }
            }
        }
    }
}

impl Names<'_, '_> {
    /// The first string of the file with these characters.
    fn first(&self, text: &str) -> Option<StringId> {
        (0..self.file_len() as StringId).find(|id| *self.bytes(*id) == *text.as_bytes())
    }
}

impl Analysis<'_, '_> {
    /// To which native context each node belongs.
    pub fn native_contexts(&self) -> NativeContexts {
        NativeContexts::of(&self.snapshot.graph, &self.names, |node| {
            let name = self.raw_name(node);
            let name = name.strip_prefix(b"Detached ").unwrap_or(&name);
            name == b"system / NativeContext" || name.starts_with(b"system / NativeContext / ")
        })
    }

    /// The classes of the nodes that pass a filter, with counts, sizes and distances of those nodes
    /// alone. Indices are those of [`Analysis::classes`].
    pub fn filtered_classes(&self, filter: Filter) -> Vec<Class> {
        let selected = self.selected(filter);
        let empty = |class: &Class| Class {
            count: 0,
            self_size: 0,
            retained_size: 0,
            distance: 0,
            shadowed: false,
            ..class.clone()
        };
        let mut classes = Counting::new(self.classes.classes.iter().map(empty).collect());
        for node in self.snapshot.graph.nodes().filter(|node| selected.get(*node)) {
            let size = self.self_size(node);
            if size != 0 {
                classes.count(&self.classes.class_of, node, size, self.distance(node));
            }
        }
        classes.mark_shadowed();
        let mut counts = retained::counts(&self.tree);
        let size = |node: Node| if selected.get(node) { self.self_size(node) } else { 0 };
        let mut order = columns::zeroed(counts.len());
        let size_and_class = (size, &self.classes.class_of[..]);
        retained::class_retained(
            &self.tree,
            &self.retained,
            &mut counts,
            &mut order,
            size_and_class,
            &mut classes.classes,
        );
        classes.classes
    }

    /// The nodes that pass a filter.
    pub fn filtered(&self, filter: Filter) -> NodeSet {
        NodeSet(self.selected(filter))
    }

    fn selected(&self, filter: Filter) -> Bits {
        let graph = &self.snapshot.graph;
        match filter {
            Filter::RetainedByContexts => {
                self.beyond(|_, edge| !self.is_context(graph.target(edge)))
            }
            Filter::RetainedByDetachedNodes => self.beyond(|_, edge| {
                self.detachedness(graph.target(edge)) != super::attachment::DETACHED
            }),
            Filter::RetainedByConsole => self.beyond(|node, edge| !self.is_console(node, edge)),
            Filter::RetainedByEventHandlers => {
                let handlers = self.event_handlers();
                self.beyond(|_, edge| !handlers.get(graph.target(edge)))
            }
            Filter::DuplicatedStrings => {
                let mut selected = Bits::new(graph.node_count());
                self.duplicate_strings()
                    .iter()
                    .flat_map(|group| &group.nodes)
                    .for_each(|node| selected.set(*node));
                selected
            }
            Filter::Ids(after, until) => {
                self.each(|node| graph.id(node) > after && graph.id(node) <= until)
            }
            Filter::NativeContext(context) => {
                let contexts = self.native_contexts();
                self.each(|node| contexts.of_node(node) == Some(context))
            }
            Filter::SharedByNativeContexts => {
                let contexts = self.native_contexts();
                self.each(|node| contexts.is_shared(node))
            }
            Filter::WithoutNativeContext => {
                let contexts = self.native_contexts();
                self.each(|node| contexts.owner[node as usize] == NONE)
            }
            Filter::AllocatedBy(function) => {
                let allocated = self
                    .snapshot
                    .traces
                    .nodes
                    .iter()
                    .filter(|trace| trace.function == function && trace.count != 0);
                let traces: HashSet<u64> = allocated.map(|trace| trace.id).collect();
                self.each(|node| {
                    graph.trace_node(node).is_some_and(|trace| traces.contains(&u64::from(trace)))
                })
            }
        }
    }

    fn each(&self, passes: impl Fn(Node) -> bool) -> Bits {
        let graph = &self.snapshot.graph;
        let mut selected = Bits::new(graph.node_count());
        graph.nodes().filter(|node| passes(*node)).for_each(|node| selected.set(node));
        selected
    }

    /// The objects that a walk from the root reaches, but none along the edges that pass.
    fn beyond(&self, passes: impl Fn(Node, Edge) -> bool) -> Bits {
        let graph = &self.snapshot.graph;
        let mut reached = Bits::new(graph.node_count());
        reached.set(graph.root());
        let mut stack = vec![graph.root()];
        while let Some(node) = stack.pop() {
            for edge in graph.edges(node) {
                let target = graph.target(edge);
                if graph.edge_type(edge) != EdgeType::Weak
                    && !reached.get(target)
                    && passes(node, edge)
                {
                    reached.set(target);
                    stack.push(target);
                }
            }
        }
        self.each(|node| !reached.get(node) && self.distance(node) != NO_DISTANCE)
    }

    fn is_context(&self, node: Node) -> bool {
        let name = self.raw_name(node);
        *name == *b"system / Context" || name.starts_with(b"system / Context / ")
    }

    /// Whether the edge is a global of the console.
    fn is_console(&self, node: Node, edge: Edge) -> bool {
        let graph = &self.snapshot.graph;
        let edge_type = graph.edge_type(edge);
        if graph.node_type(node) != NodeType::Synthetic || edge_type.is_indexed() {
            return false;
        }
        let name = self.names.bytes(graph.edge_name(edge));
        let is_string = edge_type != EdgeType::Shortcut || leading_integer(&name).is_none();
        is_string && name.ends_with(b" / DevTools console")
    }

    /// The functions that handle events, or what wraps them.
    fn event_handlers(&self) -> Bits {
        let graph = &self.snapshot.graph;
        let named = |node: Node, name: &str| {
            graph
                .edges(node)
                .find(|edge| self.edge_name(*edge) == name)
                .map(|edge| graph.target(edge))
        };
        let mut handlers = Bits::new(graph.node_count());
        for node in graph.nodes().filter(|node| *self.raw_name(*node) == *b"V8EventListener") {
            let Some(callback) = named(node, "1") else { continue };
            let has_code = |node: Node| named(node, "code").is_some();
            let wrapped = || {
                graph.edges(callback).map(|edge| graph.target(edge)).find(|child| has_code(*child))
            };
            let handler = if has_code(callback) { callback } else { wrapped().unwrap_or(callback) };
            handlers.set(handler);
        }
        handlers
    }
}
