//! Rewrites of small heaps, read by the crate's reader and compared.

use super::*;
use crate::Snapshot;
use crate::names::Hash;
use crate::validate::validate;
use crate::write::{Counts, EdgeName, Layout, Node, edge_type};

/// A heap with every kind of list: a root, a class twice, a string, a WeakMap pair.
pub(super) fn heap() -> Vec<u8> {
    let counts = Counts { nodes: 5, edges: 7, trace_functions: 1 };
    let mut writer = Writer::new(Vec::new(), Layout::node_20(), counts, Hash::Mixed).unwrap();
    let mut name = |text: &str| writer.string(text).unwrap();
    let (root, session, secret, mail) = (name(""), name("Session"), name("s3cret contents"), name("eve@example.com"));
    let pair = name("1 / part of key (Session @3) -> value (Session @5) pair in WeakMap (table @9)");
    let (user, function) = (name("user"), name("login"));
    let edges = [3, 2, 1, 0, 1];
    let rows = [(9, root, 1, 0), (3, session, 3, 24), (3, session, 5, 32), (2, secret, 7, 40), (1, session, 9, 16)];
    for ((node_type, name, id, self_size), edge_count) in rows.into_iter().zip(edges) {
        writer.node(&Node { edge_count, trace_node_id: id / 9, ..Node::new(node_type, name, id, self_size) }).unwrap();
    }
    writer.edge(0, edge_type::ELEMENT, EdgeName::Index(1), 1).unwrap();
    writer.edge(0, edge_type::SHORTCUT, EdgeName::Text(user), 2).unwrap();
    writer.edge(0, edge_type::ELEMENT, EdgeName::Index(2), 4).unwrap();
    writer.edge(1, edge_type::PROPERTY, EdgeName::Text(mail), 3).unwrap();
    writer.edge(1, edge_type::INTERNAL, EdgeName::Text(pair), 2).unwrap();
    writer.edge(2, edge_type::CONTEXT, EdgeName::Text(user), 3).unwrap();
    writer.edge(4, edge_type::INTERNAL, EdgeName::Text(pair), 2).unwrap();
    writer.trace_function_info(1, function, secret, [2, 3, 4]).unwrap();
    writer.open_trace_node([1, 0, 5, 6]).unwrap();
    writer.close_trace_node().unwrap();
    writer.sample(0, 9).unwrap();
    writer.location(1, 2, 3, 4).unwrap();
    writer.finish().unwrap().0
}

/// (type, name, id, size) of each node, (type, name, target) of each edge.
type Lists = (Vec<(String, String, u32, u64)>, Vec<(String, String, u32)>);

pub(super) fn lists(bytes: &[u8]) -> Lists {
    assert!(validate(bytes, &mut |_, _| ()).is_good(), "{}", String::from_utf8_lossy(bytes));
    let snapshot = Snapshot::read(bytes).unwrap();
    let graph = &snapshot.graph;
    let nodes = graph.nodes().map(|node| {
        let name = snapshot.strings.text(graph.node_name(node)).to_string();
        (snapshot.node_type_name(graph.node_type(node)).to_owned(), name, graph.id(node), graph.self_size(node))
    });
    let edges = graph.nodes().flat_map(|node| graph.edges(node)).map(|edge| {
        let edge_type = graph.edge_type(edge);
        let name = match snapshot.edge_type_name(edge_type) {
            "element" | "hidden" => graph.edge_name(edge).to_string(),
            _ => snapshot.strings.text(graph.edge_name(edge)).to_string(),
        };
        (snapshot.edge_type_name(edge_type).to_owned(), name, graph.target(edge))
    });
    (nodes.collect(), edges.collect())
}

fn quiet(_: u64, _: u64) {}

#[test]
fn every_target_is_the_same_heap() {
    let bytes = heap();
    let expected = lists(&bytes);
    for (name, target) in Target::ALL {
        let (converted, _) = convert(&Rows::find(&bytes).unwrap(), target, Vec::new(), &mut quiet).unwrap();
        assert_eq!(lists(&converted), expected, "{name}");
        let (back, _) = convert(&Rows::find(&converted).unwrap(), Target::Node20, Vec::new(), &mut quiet).unwrap();
        if target != Target::Node12 {
            assert_eq!(String::from_utf8(back).unwrap(), String::from_utf8(bytes.clone()).unwrap(), "{name} and back");
        }
    }
    let (same, _) = convert(&Rows::find(&bytes).unwrap(), Target::Same, Vec::new(), &mut quiet).unwrap();
    assert_eq!(same, bytes);
}

#[test]
fn types_of_other_programs_are_kept_and_later_ones_hidden() {
    let text = String::from_utf8(heap()).unwrap();
    let text = text.replace("\"wasm object\"]", "\"object shape 2\"]").replacen("\n,3,1,3,", "\n,15,1,3,", 1).replacen(
        "\n,3,1,5,",
        "\n,14,1,5,",
        1,
    );
    let (converted, _) = convert(&Rows::find(text.as_bytes()).unwrap(), Target::Node12, Vec::new(), &mut quiet).unwrap();
    let (nodes, _) = lists(&converted);
    assert_eq!((nodes[1].0.as_str(), nodes[2].0.as_str()), ("object shape 2", "hidden"));
}

#[test]
fn a_ladder_has_what_it_says() {
    let bytes = heap();
    let (nodes, edges) = lists(&bytes);
    for copies in [1, 2, 5] {
        let (tall, ladder) = ladder(&Rows::find(&bytes).unwrap(), copies, Vec::new(), &mut quiet).unwrap();
        let (tall_nodes, tall_edges) = lists(&tall);
        assert_eq!((tall_nodes.len() as u64, tall_edges.len() as u64), (ladder.nodes, ladder.edges));
        assert_eq!((ladder.nodes, ladder.edges), (1 + copies * 4, copies * 7));
        assert_eq!(ladder.self_size_bytes, tall_nodes.iter().map(|node| node.3).sum::<u64>());
        assert_eq!(tall_nodes.iter().filter(|node| node.1 == "Session").count() as u64, copies * 3);
        let ids: std::collections::HashSet<u32> = tall_nodes.iter().map(|node| node.2).collect();
        assert_eq!(ids.len(), tall_nodes.len(), "every node has an id of its own");
        // Tables of WeakMap pairs are named by their copies' ids.
        for (_, name, _) in tall_edges.iter().filter(|edge| edge.1.contains("WeakMap")) {
            let table: u32 = name.rsplit('@').next().unwrap().trim_end_matches(')').parse().unwrap();
            assert!(tall_nodes.iter().any(|node| node.2 == table && node.0 == "array"), "{name}");
        }
        if copies == 1 {
            assert_eq!((&tall_nodes, &tall_edges), (&nodes, &edges));
        }
    }
    assert!(matches!(ladder(&Rows::find(&bytes).unwrap(), 0, Vec::new(), &mut quiet), Err(RewriteError::Asked(_))));
    assert!(matches!(ladder(&Rows::find(&bytes).unwrap(), 1 << 40, Vec::new(), &mut quiet), Err(RewriteError::Asked(_))));
}
