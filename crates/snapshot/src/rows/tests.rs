//! Rows of files that the writer wrote, and of files that are damaged.

use super::*;
use crate::names::Hash;
use crate::write::{Counts, Layout, Writer, edge_type, node_type};

fn file(layout: Layout) -> Vec<u8> {
    let mut writer = Writer::new(
        Vec::new(),
        layout,
        Counts { nodes: 3, edges: 3, trace_functions: 1 },
        Hash::Mixed,
    )
    .unwrap();
    let name = writer.string("na\"me").unwrap();
    for (ordinal, edges) in [(0, 2), (1, 0), (2, 1)] {
        writer
            .node(&Node {
                edge_count: edges,
                ..Node::new(node_type::OBJECT, name, ordinal * 2 + 1, 8)
            })
            .unwrap();
    }
    writer.edge(0, edge_type::ELEMENT, EdgeName::Index(5), 1).unwrap();
    writer.edge(0, edge_type::PROPERTY, EdgeName::Text(name), 2).unwrap();
    writer.edge(2, edge_type::WEAK, EdgeName::Text(name), 0).unwrap();
    writer.trace_function_info(1, name, name, [2, 3, 4]).unwrap();
    writer.open_trace_node([1, 0, 5, 6]).unwrap();
    writer.open_trace_node([2, 0, 7, 8]).unwrap();
    writer.close_trace_node().unwrap();
    writer.close_trace_node().unwrap();
    writer.finish().unwrap().0
}

#[test]
fn every_list_is_read() {
    for layout in [Layout::node_12(), Layout::node_16(), Layout::node_24()] {
        let bytes = file(layout.clone());
        let rows = Rows::find(&bytes).unwrap();
        assert_eq!(rows.layout, layout);
        let mut nodes = rows.nodes();
        let mut counts = Vec::new();
        while let Some(node) = nodes.read().unwrap() {
            counts.push((node.id, node.edge_count, node.self_size));
        }
        assert_eq!(counts, [(1, 2, 8), (3, 0, 8), (5, 1, 8)]);
        let mut edges = rows.edges();
        let mut ends = Vec::new();
        while let Some(edge) = edges.read().unwrap() {
            ends.push((edge.from, edge.to));
        }
        assert_eq!(ends, [(0, 1), (0, 2), (2, 0)]);
        let mut steps = rows.trace_tree();
        let mut depth = 0;
        let mut deepest = 0;
        while let Some(step) = steps.read().unwrap() {
            depth += if matches!(step, TraceStep::Open(_)) { 1 } else { -1 };
            deepest = deepest.max(depth);
        }
        assert_eq!((depth, deepest), (0, 2));
        assert_eq!(rows.strings().read().unwrap(), Some(b"na\"me".as_slice()));
    }
}

#[test]
fn a_cut_file_says_where() {
    let bytes = file(Layout::node_24());
    for length in 0..bytes.len() {
        let damage = Rows::find(&bytes[..length]).unwrap_err();
        assert!(damage.offset <= length as u64, "{damage}");
    }
}

#[test]
fn lies_are_found_at_their_byte() {
    let text = String::from_utf8(file(Layout::node_24())).unwrap();
    let broken = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        let text = text.replace(from, to);
        let read = || -> Result<(), ReadError> {
            let rows = Rows::find(text.as_bytes())?;
            let (mut nodes, mut edges) = (rows.nodes(), rows.edges());
            while nodes.read()?.is_some() {}
            while edges.read()?.is_some() {}
            Ok(())
        };
        read().unwrap_err().to_string()
    };
    assert!(broken("\"node_count\":3", "\"node_count\":2").contains("`]` behind 2 nodes"));
    assert!(
        broken("\"node_count\":3", "\"node_count\":99999999").contains("a `node_count` of at most")
    );
    assert!(broken("\"edge_count\":3", "\"edge_count\":4").contains("nodes with 4 edges together"));
    assert!(broken("[3,0,1,8,2,0,", "[3,9,1,8,2,0,").contains("a string's number below 1"));
    assert!(broken("[3,0,1,8,2,0,", "[99,0,1,8,2,0,").contains("a node type below 15"));
    assert!(broken("\"edges\":[1,5,6,", "\"edges\":[1,5,7,").contains("a multiple of 6 below 18"));
    assert!(broken("\"edges\":[1,5,6,", "\"edges\":[1,5,,").contains("an integer, found `,"));
    assert!(broken("\"samples\"", "\"nodes\"").contains("a key that comes behind"));
    assert!(broken("na\\\"me", "na\\xme").contains("an escape"));
    assert!(broken("\"snapshot\":", "\"snap\":").contains("the first of a heap snapshot"));
}
