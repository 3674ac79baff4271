//! Random heaps against independent answers: petgraph's dominators, retained sizes by taking each
//! node away, distances by a textbook walk, owners by their definition; and heaps of the shapes
//! that make simple algorithms quadratic or deep.

mod heaps;

use heaplab_snapshot::analysis::{Analysis, BASE_SYSTEM_DISTANCE, NO_DISTANCE, Options};
use heaplab_snapshot::{Node, Snapshot};
use heaps::Heap;
use petgraph::algo::dominators::simple_fast;
use petgraph::graph::{DiGraph, NodeIndex};
use proptest::prelude::*;
use std::collections::{BTreeSet, HashSet, VecDeque};

/// Edges that keep their target alive, orphans and cycles hung on the root as DevTools does.
fn essential(graph: &heaplab_snapshot::Graph) -> Vec<(u32, u32)> {
    let mut edges = Vec::new();
    for node in graph.nodes() {
        for edge in graph.edges(node) {
            if graph.edge_type(edge).known_name() != Some("weak") && graph.target(edge) != node {
                edges.push((node, graph.target(edge)));
            }
        }
    }
    let referred: HashSet<u32> = edges.iter().map(|edge| edge.1).collect();
    edges.extend(
        graph
            .nodes()
            .filter(|node| *node != 0 && !referred.contains(node))
            .map(|orphan| (0, orphan)),
    );
    let reached = reach(&edges, graph.node_count(), None);
    edges.retain(|edge| reached.contains(&edge.0));
    edges.extend(graph.nodes().filter(|node| !reached.contains(node)).map(|node| (0, node)));
    edges
}

/// The nodes that the root reaches without one node.
fn reach(edges: &[(u32, u32)], nodes: usize, without: Option<u32>) -> BTreeSet<u32> {
    let mut next: Vec<Vec<u32>> = vec![Vec::new(); nodes];
    edges.iter().for_each(|(from, to)| next[*from as usize].push(*to));
    let (mut reached, mut stack) = (BTreeSet::new(), vec![0]);
    while let Some(node) = stack.pop() {
        if Some(node) != without && reached.insert(node) {
            stack.extend(&next[node as usize]);
        }
    }
    reached
}

fn check_dominators(snapshot: &Snapshot, analysis: &Analysis) -> Result<(), TestCaseError> {
    let graph = &snapshot.graph;
    let edges = essential(graph);
    let oracle: DiGraph<(), ()> = DiGraph::from_edges(edges.iter().copied());
    let dominators = simple_fast(&oracle, NodeIndex::new(0));
    let total: u64 = graph.nodes().map(|node| analysis.self_size(node)).sum();
    for node in graph.nodes() {
        if node != 0 {
            let theirs = dominators
                .immediate_dominator(NodeIndex::new(node as usize))
                .map(|node| node.index() as Node);
            prop_assert_eq!(Some(analysis.dominator(node)), theirs, "dominator of {}", node);
        }
        let left: u64 = reach(&edges, graph.node_count(), Some(node))
            .iter()
            .map(|node| analysis.self_size(*node))
            .sum();
        prop_assert_eq!(analysis.retained_size(node), total - left, "retained size of {}", node);
    }
    Ok(())
}

fn check_distances(snapshot: &Snapshot, analysis: &Analysis) -> Result<(), TestCaseError> {
    let graph = &snapshot.graph;
    let synthetic = |node: Node| graph.node_type(node).known_name() == Some("synthetic");
    let mut distances = vec![NO_DISTANCE; graph.node_count()];
    let roots: Vec<Node> =
        graph.edges(0).map(|edge| graph.target(edge)).filter(|node| !synthetic(*node)).collect();
    roots.iter().for_each(|root| distances[*root as usize] = 1);
    let mut queue: VecDeque<Node> = roots.iter().copied().collect();
    for phase in 0..2 {
        while let Some(node) = queue.pop_front() {
            for edge in graph.edges(node) {
                let target = graph.target(edge) as usize;
                if graph.edge_type(edge).known_name() != Some("weak")
                    && distances[target] == NO_DISTANCE
                {
                    distances[target] = distances[node as usize] + 1;
                    queue.push_back(target as Node);
                }
            }
        }
        if phase == 0 {
            distances[0] = if roots.is_empty() { 0 } else { BASE_SYSTEM_DISTANCE };
            queue.push_back(0);
        }
    }
    let ours: Vec<i32> = graph.nodes().map(|node| analysis.distance(node)).collect();
    prop_assert_eq!(ours, distances);
    Ok(())
}

/// An internal's size goes to the only other node from which a path through internals leads to it.
fn check_owners(snapshot: &Snapshot, analysis: &Analysis) -> Result<(), TestCaseError> {
    let graph = &snapshot.graph;
    let internal =
        |node: Node| matches!(graph.node_type(node).known_name(), Some("hidden" | "array"));
    let synthetic = |node: Node| graph.node_type(node).known_name() == Some("synthetic");
    let mut sizes: Vec<u64> = graph.nodes().map(|node| graph.self_size(node)).collect();
    if graph.edges(0).any(|edge| !synthetic(graph.target(edge))) {
        let mut owners: Vec<BTreeSet<Node>> = vec![BTreeSet::new(); graph.node_count()];
        for from in graph.nodes().filter(|node| !internal(*node)) {
            let (mut seen, mut stack) = (HashSet::new(), vec![from]);
            while let Some(node) = stack.pop() {
                let strong = graph
                    .edges(node)
                    .filter(|edge| graph.edge_type(*edge).known_name() != Some("weak"));
                for target in
                    strong.map(|edge| graph.target(edge)).filter(|target| internal(*target))
                {
                    owners[target as usize].insert(from);
                    if seen.insert(target) {
                        stack.push(target);
                    }
                }
            }
        }
        for (node, owners) in owners.iter().enumerate() {
            if let (1, Some(owner)) = (owners.len(), owners.first())
                && !synthetic(*owner)
            {
                let moved = std::mem::take(&mut sizes[node]);
                sizes[*owner as usize] += moved;
            }
        }
    }
    let ours: Vec<u64> = graph.nodes().map(|node| analysis.self_size(node)).collect();
    prop_assert_eq!(ours, sizes);
    Ok(())
}

const KINDS: [&str; 6] = ["object", "hidden", "array", "string", "object", "synthetic"];
const EDGES: [&str; 5] = ["property", "element", "internal", "weak", "context"];

fn heap() -> impl Strategy<Value = Heap> {
    let nodes = prop::collection::vec((0..KINDS.len(), 0u64..100), 1..40);
    let edges = prop::collection::vec(
        (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..EDGES.len()),
        0..120,
    );
    let fields = Just(
        ["type", "name", "id", "self_size", "edge_count", "detachedness", "trace_node_id"].to_vec(),
    )
    .prop_shuffle();
    (nodes, edges, fields, Just(["to_node", "type", "name_or_index"].to_vec()).prop_shuffle())
        .prop_map(|(nodes, edges, node_fields, edge_fields)| {
            let mut heap = Heap::new();
            (heap.node_fields, heap.edge_fields) = (node_fields, edge_fields);
            nodes.iter().for_each(|(kind, size)| {
                heap.node(KINDS[*kind], "X", *size);
            });
            for (from, to, kind) in edges {
                heap.edge(EDGES[kind], from.index(nodes.len() + 1), "7", to.index(nodes.len() + 1));
            }
            heap
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_heaps_have_the_answers_of_textbooks(heap in heap()) {
        let file = heap.file();
        let snapshot = Snapshot::read(file.as_bytes()).unwrap();
        for threads in [1, 2] {
            let analysis = Analysis::of(&snapshot, &Options { threads, ..Options::default() });
            check_owners(&snapshot, &analysis)?;
            check_distances(&snapshot, &analysis)?;
            check_dominators(&snapshot, &analysis)?;
        }
    }
}

/// A chain with an index beside it: every link has a child that the index refers to too, so that
/// finding a child's dominator climbs the whole chain unless it jumps. A simple algorithm takes 8e9
/// steps here.
#[test]
fn deep_chains_with_an_index_take_near_linear_time() {
    const LINKS: usize = 130_000;
    let mut heap = Heap::new();
    let (chain, index) = (heap.node("object", "Link", 8), heap.node("object", "Index", 8));
    let mut link = chain;
    for place in 0..LINKS {
        let child = heap.node("object", "Child", 8);
        let next = heap.node("object", "Link", 8);
        heap.edge("property", link, "next", next);
        heap.edge("property", link, "child", child);
        heap.edge("element", index, &place.to_string(), child);
        link = next;
    }
    heap.edge("property", 0, "chain", chain);
    heap.edge("property", 0, "index", index);
    let file = heap.file();
    let snapshot = Snapshot::read(file.as_bytes()).unwrap();
    let analysis = Analysis::of(&snapshot, &Options::default());
    assert_eq!(analysis.retained_size(chain as Node), 8 * (LINKS as u64 + 1));
    assert_eq!(analysis.retained_size(index as Node), 8);
    assert!(
        (3..snapshot.graph.node_count() as Node)
            .step_by(2)
            .all(|child| analysis.dominator(child) == 0)
    );
    assert_eq!(analysis.distance(link as Node), LINKS as i32 + 1);
    let chain = analysis.shown_classes().find(|(_, class)| class.name == b"Link").unwrap().1;
    assert_eq!((chain.count, chain.retained_size), (LINKS as u64 + 1, 8 * (LINKS as u64 + 1)));
}

/// One object that everything refers to, and one that refers to everything.
#[test]
fn very_wide_objects() {
    let mut heap = Heap::new();
    let (all, hub) = (heap.node("object", "All", 16), heap.node("object", "Hub", 4));
    for place in 0..50_000 {
        let node = heap.node("object", "Leaf", 8);
        heap.edge("element", all, &place.to_string(), node);
        heap.edge("property", node, "hub", hub);
    }
    heap.edge("property", 0, "all", all);
    let file = heap.file();
    let snapshot = Snapshot::read(file.as_bytes()).unwrap();
    let analysis = Analysis::of(&snapshot, &Options::default());
    assert_eq!(
        (analysis.dominator(hub as Node), analysis.retained_size(all as Node)),
        (all as Node, 400_020)
    );
}
