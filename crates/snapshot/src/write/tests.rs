//! The writer's output, read by another parser; and every input that the writer refuses.

use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn small(layout: Layout) -> Vec<u8> {
    let mut writer = Writer::new(
        Vec::new(),
        layout,
        Counts { nodes: 2, edges: 2, trace_functions: 0 },
        Hash::Mixed,
    )
    .unwrap();
    let root = writer.string("").unwrap();
    let name = writer.string("Größe").unwrap();
    writer.node(&Node { edge_count: 1, ..Node::new(node_type::SYNTHETIC, root, 1, 0) }).unwrap();
    writer.node(&Node { edge_count: 1, ..Node::new(node_type::OBJECT, name, 3, 24) }).unwrap();
    writer.edge(0, edge_type::ELEMENT, EdgeName::Index(7), 1).unwrap();
    writer.edge(1, edge_type::PROPERTY, EdgeName::Text(name), 1).unwrap();
    writer.location(1, 5, 6, 7).unwrap();
    writer.finish().unwrap().0
}

#[test]
fn a_row_a_line_as_node_20() {
    let text = String::from_utf8(small(Layout::node_20())).unwrap();
    let rest = &text[text.find("\"nodes\"").unwrap()..];
    assert_eq!(
        rest,
        "\"nodes\":[9,0,1,0,1,0,0\n,3,1,3,24,1,0,0\n],\n\"edges\":[1,7,7\n,2,1,7\n],\n\"trace_function_infos\":[],\n\"trace_tree\":[],\n\
         \"samples\":[],\n\"locations\":[7,5,6,7\n],\n\"strings\":[\"\",\n\"Gr\\u00F6\\u00DFe\"]}"
    );
}

#[test]
fn a_list_a_line_as_node_24() {
    let text = String::from_utf8(small(Layout::node_24())).unwrap();
    let rest = &text[text.find("\"nodes\"").unwrap()..];
    assert!(
        rest.starts_with("\"nodes\":[9,0,1,0,1,0,3,1,3,24,1,0],\n\"edges\":[1,7,6,2,1,6],\n"),
        "{rest}"
    );
    assert!(text.contains(",\"extra_native_bytes\":0}"));
}

#[test]
fn the_trace_tree_nests() {
    let layout = Layout::node_24().with_trace_nodes();
    let mut writer = Writer::new(
        Vec::new(),
        layout,
        Counts { nodes: 1, edges: 0, trace_functions: 1 },
        Hash::Mixed,
    )
    .unwrap();
    let name = writer.string("(root)").unwrap();
    writer.node(&Node::new(node_type::SYNTHETIC, name, 1, 0)).unwrap();
    writer.trace_function_info(0, name, name, [0, 1, 2]).unwrap();
    writer.open_trace_node([1, 0, 0, 0]).unwrap();
    for id in [2, 3] {
        writer.open_trace_node([id, 0, 4, 5]).unwrap();
        writer.close_trace_node().unwrap();
    }
    writer.close_trace_node().unwrap();
    writer.sample(10, 11).unwrap();
    let text = String::from_utf8(writer.finish().unwrap().0).unwrap();
    assert!(
        text.contains("\"trace_tree\":[1,0,0,0,[2,0,4,5,[],3,0,4,5,[]]],\n\"samples\":[10,11],"),
        "{text}"
    );
    assert!(text.contains("\"edge_count\",\"trace_node_id\",\"detachedness\"]"), "{text}");
}

fn writer(nodes: u64, edges: u64) -> Writer<Vec<u8>> {
    let mut writer = Writer::new(
        Vec::new(),
        Layout::node_24(),
        Counts { nodes, edges, trace_functions: 0 },
        Hash::Mixed,
    )
    .unwrap();
    writer.string("a").unwrap();
    writer
}

fn node(edge_count: u64) -> Node {
    Node { edge_count, ..Node::new(node_type::OBJECT, StringId(0), 1, 8) }
}

#[test]
fn what_the_header_said_is_held() {
    let mut short = writer(2, 0);
    short.node(&node(0)).unwrap();
    assert!(matches!(
        short.finish(),
        Err(WriteError::Count { section: Section::Nodes, declared: 2, written: 1 })
    ));
    let mut long = writer(1, 0);
    long.node(&node(0)).unwrap();
    assert!(matches!(long.node(&node(0)), Err(WriteError::Count { written: 2, .. })));
    let mut announced = writer(1, 1);
    announced.node(&node(2)).unwrap();
    let error = announced.edge(0, edge_type::ELEMENT, EdgeName::Index(0), 0);
    assert!(matches!(error, Err(WriteError::EdgeCounts { announced: 2, declared: 1 })));
}

#[test]
fn edges_belong_to_the_nodes_that_announced_them() {
    let two = || {
        let mut writer = writer(2, 2);
        writer.node(&node(2)).unwrap();
        writer.node(&Node { id: 3, ..node(0) }).unwrap();
        writer
    };
    let mut right = two();
    right.edge(0, edge_type::HIDDEN, EdgeName::Index(0), 1).unwrap();
    right.edge(0, edge_type::HIDDEN, EdgeName::Index(1), 1).unwrap();
    right.finish().unwrap();
    let mut moved = two();
    moved.edge(0, edge_type::HIDDEN, EdgeName::Index(0), 1).unwrap();
    moved.edge(1, edge_type::HIDDEN, EdgeName::Index(1), 1).unwrap();
    assert!(matches!(moved.finish(), Err(WriteError::EdgesOfNodes)));
    let mut back = two();
    back.edge(1, edge_type::HIDDEN, EdgeName::Index(0), 1).unwrap();
    assert!(matches!(
        back.edge(0, edge_type::HIDDEN, EdgeName::Index(0), 1),
        Err(WriteError::EdgeOrder { from: 0, after: 1 })
    ));
}

#[test]
fn what_is_not_there_is_refused() {
    let mut other = writer(1, 1);
    assert!(matches!(
        other.node(&Node { name: StringId(1), ..node(1) }),
        Err(WriteError::Name { given: 1, known: 1 })
    ));
    let mut other = writer(1, 1);
    assert!(matches!(
        other.node(&Node { node_type: 15, ..node(1) }),
        Err(WriteError::Type { given: 15, known: 15, .. })
    ));
    let with_node = || {
        let mut other = writer(1, 1);
        other.node(&node(1)).unwrap();
        other
    };
    assert!(matches!(
        with_node().edge(0, 1, EdgeName::Index(0), 1),
        Err(WriteError::Node { node: 1, nodes: 1, .. })
    ));
    assert!(matches!(
        with_node().edge(0, 1, EdgeName::Text(StringId(0)), 0),
        Err(WriteError::EdgeName(1))
    ));
    assert!(matches!(with_node().edge(0, 2, EdgeName::Index(0), 0), Err(WriteError::EdgeName(2))));
    let mut other = with_node();
    other.edge(0, 1, EdgeName::Index(0), 0).unwrap();
    other.location(0, 1, 1, 1).unwrap();
    assert!(matches!(
        other.sample(1, 1),
        Err(WriteError::Order { given: Section::Samples, open: Section::Locations })
    ));
    let twice = Layout {
        node_fields: [NodeField::ALL.as_slice(), &[NodeField::Id]].concat(),
        ..Layout::node_16()
    };
    assert!(matches!(
        Writer::new(Vec::new(), twice, Counts::default(), Hash::Mixed),
        Err(WriteError::Layout("has a column twice"))
    ));
}

#[test]
fn what_no_reader_takes_is_not_written() {
    let mut twice = writer(3, 0);
    twice.node(&node(0)).unwrap();
    twice.node(&Node { id: 70_000, ..node(0) }).unwrap();
    assert!(matches!(twice.node(&node(0)), Err(WriteError::DuplicateId { id: 1, node: 2 })));
    assert!(matches!(
        writer(1, 0).node(&Node { id: 1 << 32, ..node(0) }),
        Err(WriteError::Number { what: "an id", .. })
    ));
    assert!(matches!(
        writer(1, 0).node(&Node { detachedness: 3, ..node(0) }),
        Err(WriteError::Number { below: 3, .. })
    ));
    let mut far = writer(1, 1);
    far.node(&node(1)).unwrap();
    assert!(matches!(
        far.edge(0, edge_type::ELEMENT, EdgeName::Index(1 << 32), 0),
        Err(WriteError::Number { what: "an index", .. })
    ));
    let mut far = writer(1, 0);
    far.node(&node(0)).unwrap();
    assert!(matches!(
        far.location(0, 1, 1 << 32, 1),
        Err(WriteError::Number { what: "a line", .. })
    ));
    let none = Writer::new(Vec::new(), Layout::node_24(), Counts::default(), Hash::Mixed);
    assert!(matches!(none, Err(WriteError::NoNodes)));
    let mut calls = writer(1, 0);
    calls.node(&node(0)).unwrap();
    assert!(matches!(
        calls.open_trace_node([1, 0, 0, 0]),
        Err(WriteError::Number { what: "a function's index", .. })
    ));
}

fn numbers(value: &Value, key: &str) -> Vec<u64> {
    value[key].as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

proptest! {
    #[test]
    fn another_parser_finds_every_row(
        nodes in prop::collection::vec((0u8..15, ".{0,6}", any::<u16>(), any::<u64>(), 0usize..5), 1..40),
        ends in prop::collection::vec((0u8..7, any::<u32>(), any::<prop::sample::Index>()), 160),
        which in 0..4usize,
    ) {
        let layout = [Layout::node_12, Layout::node_16, Layout::node_20, Layout::node_24][which]();
        let edges: usize = nodes.iter().map(|node| node.4).sum();
        let counts = Counts { nodes: nodes.len() as u64, edges: edges as u64, trace_functions: 0 };
        let mut writer = Writer::new(Vec::new(), layout.clone(), counts, Hash::Mixed).unwrap();
        let (mut node_rows, mut edge_rows) = (Vec::new(), Vec::new());
        for (number, (node_type, name, id, self_size, edge_count)) in nodes.iter().enumerate() {
            // Each once, in no order.
            let id = &(u64::from(*id) << 16 | number as u64);
            let name = writer.string(name).unwrap();
            let node_type = *node_type % layout.node_types.len() as u8;
            writer.node(&Node { edge_count: *edge_count as u64, ..Node::new(node_type, name, *id, *self_size) }).unwrap();
            let row = [u64::from(node_type), u64::from(name.0), *id, *self_size, *edge_count as u64, 0, 0];
            node_rows.extend_from_slice(&row[..layout.node_fields.len()]);
        }
        let mut end = ends.iter();
        for (from, node) in nodes.iter().enumerate() {
            for (edge_type, name, to) in end.by_ref().take(node.4) {
                let to = to.index(nodes.len()) as u64;
                let (name, number) = match *edge_type {
                    edge_type::ELEMENT | edge_type::HIDDEN => (EdgeName::Index(u64::from(*name)), u64::from(*name)),
                    _ => {
                        let id = writer.string(&name.to_string()).unwrap();
                        (EdgeName::Text(id), u64::from(id.0))
                    }
                };
                writer.edge(from as u64, *edge_type, name, to).unwrap();
                edge_rows.extend([u64::from(*edge_type), number, to * layout.node_fields.len() as u64]);
            }
        }
        let (bytes, written) = writer.finish().unwrap();
        prop_assert_eq!(written.bytes, bytes.len() as u64);
        let read: Value = serde_json::from_slice(&bytes).unwrap();
        prop_assert_eq!(numbers(&read, "nodes"), node_rows);
        prop_assert_eq!(numbers(&read, "edges"), edge_rows);
        prop_assert_eq!(read["strings"].as_array().unwrap().len(), written.strings);
        for (row, node) in numbers(&read, "nodes").chunks(layout.node_fields.len()).zip(&nodes) {
            prop_assert_eq!(read["strings"][row[1] as usize].as_str().unwrap(), &node.1);
        }
    }
}
