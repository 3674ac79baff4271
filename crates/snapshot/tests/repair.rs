//! A file cut anywhere behind its header is repaired to a readable beginning of the original, and
//! the report says what is missing.

mod heaps;

use heaplab_snapshot::rewrite::{Repaired, is_repairable, repair};
use heaplab_snapshot::{EdgeType, Graph, Snapshot};
use heaps::Heap;
use std::io::Read;

fn file() -> Vec<u8> {
    let mut heap = Heap::new();
    let map = heap.node("object", "Map \u{e9}", 1234);
    let list = heap.node("object", "List", 56);
    let text = heap.node("string", "a \"quoted\" text", 78);
    heap.edge("property", 0, "map", map);
    heap.edge("element", 0, "12", list);
    heap.edge("property", map, "text", text);
    heap.edge("weak", list, "text", text);
    heap.locations.push([map, 7, 10, 20]);
    heap.locations.push([list, 7, 11, 21]);
    heap.file().into_bytes()
}

fn repaired(bytes: &[u8]) -> Option<(Vec<u8>, Repaired)> {
    repair(bytes, Vec::new(), &mut |_, _| ()).ok()
}

/// The edges as a reader sees them: names are texts or indices.
fn edges(snapshot: &Snapshot) -> Vec<(u32, EdgeType, String, u32)> {
    let graph: &Graph = &snapshot.graph;
    let name = |edge| match graph.edge_type(edge).is_indexed() {
        true => graph.edge_name(edge).to_string(),
        false => snapshot.strings.text(graph.edge_name(edge)).into_owned(),
    };
    let of = |node| {
        graph.edges(node).map(move |edge| (node, graph.edge_type(edge), edge, graph.target(edge)))
    };
    graph.nodes().flat_map(of).map(|(from, kind, edge, to)| (from, kind, name(edge), to)).collect()
}

#[test]
fn wherever_a_file_is_cut_its_beginning_is_kept_and_what_is_missing_is_told() {
    let bytes = file();
    let original = Snapshot::read(&bytes).unwrap();
    let all = edges(&original);
    let list = bytes.windows(9).position(|window| window == b"\"nodes\":[").unwrap() + 9;
    let root = list + bytes[list..].iter().take_while(|byte| **byte != b',').count();
    let edges_from = bytes.windows(9).position(|window| window == b"\"edges\":[").unwrap() + 9;
    let strings_from =
        bytes.windows(11).position(|window| window == b"\"strings\":[").unwrap() + 11;
    let mut most = (0, 0);
    for length in 0..=bytes.len() {
        let done = repaired(&bytes[..length]);
        assert_eq!(is_repairable(&bytes[..length]), done.is_some(), "cut at {length}");
        let Some((text, told)) = done else {
            assert!(most == (0, 0), "cut at {length}: a shorter one was repaired");
            continue;
        };
        let read = Snapshot::read(&text).unwrap_or_else(|error| panic!("cut at {length}: {error}"));
        let nodes = read.graph.node_count();
        assert_eq!(told.nodes, (nodes as u64, 4), "cut at {length}");
        for node in read.graph.nodes() {
            assert_eq!(read.graph.id(node), original.graph.id(node), "cut at {length}");
            assert_eq!(read.graph.self_size(node), original.graph.self_size(node));
        }
        let kept = edges(&read);
        for (kept, original) in kept.iter().zip(&all) {
            assert_eq!((kept.0, kept.1, kept.3), (original.0, original.1, original.3));
            assert!(kept.2 == original.2 || kept.2.starts_with("(lost name "), "{kept:?}");
        }
        assert_eq!(told.edges, (kept.len() as u64, 4));
        assert!((nodes, kept.len()) >= most, "cut at {length}: less than of a shorter file");
        most = (nodes, kept.len());
        if length >= edges_from {
            assert_eq!(nodes, 4, "cut at {length}");
        }
        if length >= strings_from {
            assert_eq!((kept.len(), read.locations.len()), (4, 2), "cut at {length}");
        }
        let missing = told.lost_names > 0
            || told.nodes.0 < 4
            || told.edges.0 < 4
            || !told.lost_lists.is_empty();
        // With the last brackets gone, and with them nothing: all strings are there.
        let last_string = bytes.iter().rposition(|byte| *byte == b'"').unwrap() + 1;
        assert_eq!(missing, length < last_string, "cut at {length}: {told:?}");
        assert_eq!(told.damage.is_none(), length >= bytes.trim_ascii_end().len(), "{told:?}");
    }
    assert_eq!(most, (4, 4));
    let shortest = (0..bytes.len()).find(|length| repaired(&bytes[..*length]).is_some());
    assert!(shortest.is_some_and(|length| length > root && length < edges_from), "{shortest:?}");
}

#[test]
fn a_real_file_without_its_names_has_all_its_sizes() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/devtools/node24-tracking.heapsnapshot.gz");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    let original = Snapshot::read(&bytes).unwrap();
    let strings = bytes.windows(11).rposition(|window| window == b"\"strings\":[").unwrap();
    let (text, told) = repaired(&bytes[..strings + 11]).unwrap();
    let read = Snapshot::read(&text).unwrap();
    let sizes = |snapshot: &Snapshot| -> Vec<(u32, u64, usize)> {
        let graph = &snapshot.graph;
        graph
            .nodes()
            .map(|node| (graph.id(node), graph.self_size(node), graph.edges(node).len()))
            .collect()
    };
    assert_eq!(sizes(&read), sizes(&original));
    assert_eq!((read.traces.nodes.len(), told.strings), (original.traces.nodes.len(), 0));
    assert!(told.lost_names > 1000 && told.lost_lists.is_empty(), "{told:?}");
    // Equal names stay equal.
    let first = |snapshot: &Snapshot| {
        let graph = &snapshot.graph;
        let mut seen = std::collections::HashMap::new();
        graph
            .nodes()
            .map(|node| *seen.entry(graph.node_name(node)).or_insert(node))
            .collect::<Vec<_>>()
    };
    assert_eq!(first(&read), first(&original));
}
