//! What keeps a node alive: its retainers in DevTools' order, the forest of paths to the roots, the
//! shortest path, the chain of dominators. Source: `retainingEdgesFilter`, `buildRetainers` (whose
//! slots fill backwards), `getRetainingPaths`, `getDominatorsOf`.

use super::Analysis;
use super::reach::BASE_SYSTEM_DISTANCE;
use crate::columns::Bits;
use crate::graph::{Edge, Node, Retainers};
use crate::meta::EdgeType;
use crate::strings::compare_units;
use hashbrown::{HashMap, HashSet};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Paths end at nodes of this distance: (GC roots) and its children.
const ROOT_DISTANCE: i32 = 2;

/// An edge that refers to a node, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retaining {
    /// The edge.
    pub edge: Edge,
    /// The source of the edge.
    pub from: Node,
}

/// A retainer of a node, with the retainers of the retainer below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainingForest {
    /// The edge and its source.
    pub retaining: Retaining,
    /// What keeps that node.
    pub children: Vec<RetainingForest>,
}

/// The way from a root to a node: edges, the first from the node nearest to the roots.
pub type Path = Vec<Retaining>;

/// How much of a forest is built.
#[derive(Clone, Copy, Debug)]
pub struct PathLimits {
    /// Edges from the node.
    pub depth: usize,
    /// Nodes looked at.
    pub nodes: usize,
    /// Retainers of one node, the nearest to the roots first.
    pub siblings: usize,
}

impl Default for PathLimits {
    /// DevTools' own.
    fn default() -> Self {
        PathLimits { depth: 30, nodes: 5000, siblings: 100 }
    }
}

/// An edge's name with the order of the Retainers view.
#[derive(PartialEq, Eq)]
struct EdgeName<'n> {
    is_proto: bool,
    is_indexed: bool,
    name: Cow<'n, str>,
}

impl<'n> EdgeName<'n> {
    fn of(analysis: &'n Analysis<'_, '_>, edge: Edge) -> Self {
        let name = analysis.edge_name(edge);
        let is_indexed = analysis.snapshot.graph.edge_type(edge).is_indexed();
        EdgeName { is_proto: name == "__proto__", is_indexed, name }
    }
}

impl Ord for EdgeName<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.is_proto, self.is_indexed)
            .cmp(&(other.is_proto, other.is_indexed))
            .then_with(|| compare_units(self.name.as_bytes(), other.name.as_bytes()))
    }
}

impl PartialOrd for EdgeName<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Analysis<'_, '_> {
    /// The edges that keep a node, in DevTools' internal order: no weak or invisible ones, none
    /// from the root.
    pub fn retainers(&self, retainers: &Retainers, node: Node) -> Vec<Retaining> {
        let graph = &self.snapshot.graph;
        let edges = graph.sources(retainers.of_node(node).iter().copied());
        let mut found: Vec<Retaining> = edges
            .filter(|(edge, from)| {
                let edge_type = graph.edge_type(*edge);
                edge_type != EdgeType::Weak
                    && edge_type != EdgeType::Invisible
                    && *from != graph.root()
            })
            .map(|(edge, from)| Retaining { edge, from })
            .collect();
        found.reverse();
        found
    }

    /// Sorts retainers by distance, then by the name of the node.
    pub fn sort_by_node_name(&self, retainers: &mut [Retaining]) {
        retainers.sort_by(|a, b| {
            let distance = self.distance(a.from).cmp(&self.distance(b.from));
            distance.then_with(|| compare_units(&self.name_bytes(a.from), &self.name_bytes(b.from)))
        });
    }

    /// Sorts retainers by distance, then by the name of the edge: the Retainers view. Strings come
    /// before indices, `__proto__` last.
    pub fn sort_by_edge_name(&self, retainers: &mut [Retaining]) {
        retainers.sort_by(|a, b| self.by_edge_name(a, b));
    }

    /// The first retainers of [`Analysis::sort_by_edge_name`], sorted, and no others.
    pub fn first_by_edge_name(&self, retainers: &mut Vec<Retaining>, first: usize) {
        if first < retainers.len() {
            let distance = |retaining: &Retaining| self.retaining_distance(retaining.from);
            let mut distances: Vec<i32> = retainers.iter().map(distance).collect();
            let last = *distances.select_nth_unstable(first).1;
            let (farthest, mut kept): (Vec<Retaining>, Vec<Retaining>) = retainers
                .iter()
                .filter(|retaining| distance(retaining) <= last)
                .partition(|retaining| distance(retaining) == last);
            kept.extend(self.few_by_edge_name(&farthest, first - kept.len()));
            *retainers = kept;
        }
        self.sort_by_edge_name(retainers);
    }

    /// The `first` of retainers by the names of their edges alone, those of equal names in their
    /// order. A name that comes too late once always does.
    fn few_by_edge_name(&self, retainers: &[Retaining], first: usize) -> Vec<Retaining> {
        let graph = &self.snapshot.graph;
        let mut late = Bits::sparse(self.names.len());
        let mut kept: BinaryHeap<(EdgeName, u32)> = BinaryHeap::new();
        for (place, retaining) in (0..).zip(retainers) {
            let edge = retaining.edge;
            let id = Some(graph.edge_name(edge)).filter(|_| !graph.edge_type(edge).is_indexed());
            if id.is_some_and(|id| late.get(id)) {
                continue;
            }
            let name = (EdgeName::of(self, edge), place);
            let full = kept.len() == first;
            if full && kept.peek().is_none_or(|last| name > *last) {
                id.into_iter().for_each(|id| late.set(id));
                continue;
            }
            if full {
                kept.pop();
            }
            kept.push(name);
        }
        kept.into_sorted_vec().into_iter().map(|(_, place)| retainers[place as usize]).collect()
    }

    fn by_edge_name(&self, a: &Retaining, b: &Retaining) -> Ordering {
        let distance = |retaining: &Retaining| self.retaining_distance(retaining.from);
        distance(a)
            .cmp(&distance(b))
            .then_with(|| EdgeName::of(self, a.edge).cmp(&EdgeName::of(self, b.edge)))
    }

    /// The distance that the Retainers view shows and sorts by: what nothing reaches comes last.
    pub fn retaining_distance(&self, node: Node) -> i32 {
        match self.distance(node) {
            distance if distance >= 0 => distance,
            _ => 2 * BASE_SYSTEM_DISTANCE,
        }
    }

    /// All paths from the roots to a node within limits, as DevTools builds them for its agents.
    /// The second value: whether a limit was reached.
    pub fn retaining_paths(
        &self,
        retainers: &Retainers,
        node: Node,
        limits: PathLimits,
    ) -> (Vec<RetainingForest>, bool) {
        let mut search = Search {
            analysis: self,
            retainers,
            limits,
            seen: 0,
            met: false,
            open: HashSet::new(),
            depths: HashMap::new(),
        };
        let forest = search.forest(node, 0);
        (forest, search.met)
    }

    /// A shortest path from the root to the node; WeakMap pairs count as in
    /// [`Analysis::distance`]. The first edge is the root's own, whose name may tell what it leads
    /// to: a variable, a module, a frame.
    pub fn shortest_path(&self, retainers: &Retainers, node: Node) -> Path {
        let mut path = Vec::new();
        let mut at = node;
        while let Some(nearest) = self.shortest_step(retainers, at) {
            path.push(nearest);
            at = nearest.from;
        }
        path.reverse();
        path
    }

    /// The last step of that path, which depends on the node alone; `None` at the root, and for a
    /// node that no strong reference reaches.
    pub fn shortest_step(&self, retainers: &Retainers, node: Node) -> Option<Retaining> {
        let graph = &self.snapshot.graph;
        let distance = self.distance(node);
        if node == graph.root() || distance < 0 {
            return None;
        }
        let edges = retainers
            .of_node(node)
            .iter()
            .map(|edge| Retaining { edge: *edge, from: graph.source(*edge) });
        // The root's own distance is that of engine internals, whatever the root holds.
        let held_by_root = distance <= 1 || distance == BASE_SYSTEM_DISTANCE + 1;
        let strong = edges.filter(|retaining| {
            let is_nearer = if held_by_root {
                retaining.from == graph.root()
            } else {
                (0..distance).contains(&self.distance(retaining.from))
            };
            graph.edge_type(retaining.edge) != EdgeType::Weak && is_nearer
        });
        strong.max_by_key(|retaining| {
            (self.distance(retaining.from), std::cmp::Reverse(retaining.edge))
        })
    }

    /// The node, its dominator, the dominator's dominator, and so on to the root.
    pub fn dominator_chain(&self, node: Node) -> Vec<Node> {
        let mut chain = vec![node];
        let mut at = node;
        while self.dominator(at) != at {
            at = self.dominator(at);
            chain.push(at);
        }
        chain
    }
}

struct Search<'f, 's, 'a> {
    analysis: &'f Analysis<'s, 'a>,
    retainers: &'f Retainers,
    limits: PathLimits,
    seen: usize,
    met: bool,
    open: HashSet<Node>,
    depths: HashMap<Node, usize>,
}

impl Search<'_, '_, '_> {
    /// Recursion is bounded by the limit of depth.
    fn forest(&mut self, node: Node, depth: usize) -> Vec<RetainingForest> {
        self.seen += 1;
        if self.seen > self.limits.nodes || depth >= self.limits.depth.min(1000) {
            self.met = true;
            return Vec::new();
        }
        let known_deeper = self.depths.get(&node).is_none_or(|known| depth < *known);
        if self.analysis.distance(node) <= ROOT_DISTANCE
            || self.open.contains(&node)
            || !known_deeper
        {
            return Vec::new();
        }
        self.open.insert(node);
        let retainers = self.candidates(node, depth);
        let mut forest = Vec::new();
        for retaining in retainers {
            let children = if self.analysis.distance(retaining.from) == ROOT_DISTANCE {
                self.seen += 1;
                if self.seen > self.limits.nodes {
                    self.met = true;
                    break;
                }
                Vec::new()
            } else {
                let children = self.forest(retaining.from, depth + 1);
                if children.is_empty() {
                    continue;
                }
                children
            };
            forest.push(RetainingForest { retaining, children });
        }
        self.open.remove(&node);
        self.depths.insert(node, depth);
        forest
    }

    /// The retainers from which a root can be reached within the depth, nearest first.
    fn candidates(&mut self, node: Node, depth: usize) -> Vec<Retaining> {
        let graph = &self.analysis.snapshot.graph;
        let mut found = Vec::new();
        for edge in self.retainers.of_node(node).iter().rev() {
            let from = graph.source(*edge);
            let distance = self.analysis.distance(from);
            if graph.edge_type(*edge) == EdgeType::Weak || distance < 0 {
                continue;
            }
            if i64::from(distance - ROOT_DISTANCE) < (self.limits.depth - depth) as i64 {
                found.push(Retaining { edge: *edge, from });
            } else {
                self.met = true;
            }
        }
        found.sort_by_key(|retaining| self.analysis.distance(retaining.from));
        self.met |= found.len() > self.limits.siblings;
        found.truncate(self.limits.siblings);
        found
    }
}
