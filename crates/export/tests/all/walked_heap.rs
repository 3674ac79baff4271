//! A heap as a heap snapshot: parts made by hand, with every byte known, as the reader finds them.

use heaplab_export::{About, LiveBlock, WalkedHeap};
use heaplab_heap::{Part, Region, Role};
use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::validate::validate;
use heaplab_snapshot::{EdgeType, Snapshot};
use heaplab_trace::tables::{Arena, Frame, StackNode, Tables};
use std::collections::{BTreeMap, HashMap};

fn tables() -> Tables {
    let frame = |name: &str| Frame { function: Some(name.into()), ..Frame::default() };
    let arena = Arena { kind: "class".into(), loader: "app".into(), ..Arena::default() };
    Tables {
        frames: vec![frame("read_file"), frame("<Rows as Parse>::row")],
        stacks: vec![
            StackNode { parent: 0, frame: 0 },
            StackNode { parent: 0, frame: 0 },
            StackNode { parent: 0, frame: 1 },
        ],
        arenas: vec![Arena::default(), arena],
        ..Tables::default()
    }
}

/// A node of 64 KB at `base`: a chunk of the arena of region 1 with two blocks, and a free chunk.
fn parts(base: usize) -> Vec<Part> {
    let at = |from: usize, to: usize| base + from..base + to;
    vec![
        Part::group(0, Role::Group, "non-class space"),
        Part::new(1, Role::Reserved, "node of 64 KB", at(0, 0x10000)),
        Part::new(2, Role::Vacant, "(free chunks)", at(0x4000, 0x6000)),
        Part::group(1, Role::Arena(Some(Region(1))), "standard arena"),
        Part::new(2, Role::Chunk, "chunk of 4 KB", at(0x1000, 0x2000)),
        Part::new(3, Role::Vacant, "(chunk headers)", at(0x1000, 0x1040)),
        Part::new(3, Role::Blocks, "blocks", at(0x1040, 0x1100)),
        Part::new(3, Role::Vacant, "(free blocks)", at(0x1100, 0x1180)),
        Part::new(3, Role::Blocks, "blocks", at(0x1180, 0x1190)),
        Part::new(3, Role::Vacant, "(free)", at(0x1190, 0x1800)),
    ]
}

fn blocks(base: usize) -> Vec<(usize, LiveBlock)> {
    let block = |object, size, stack| LiveBlock { object, size, stack, thread: 0 };
    // The second lies before the first; behind it 0x20 bytes are vacant, and behind the first 4.
    vec![(base + 0x1180, block(7, 12, 2)), (base + 0x1040, block(9, 0xa0, 1))]
}

fn written(parts: Vec<Part>, blocks: Vec<(usize, LiveBlock)>) -> (Vec<u8>, bool) {
    let (tables, about, arenas) = (
        tables(),
        About { program: "app".into(), ..About::default() },
        HashMap::from([(Region(1), 1)]),
    );
    let heap = WalkedHeap {
        tables: &tables,
        parts,
        blocks,
        arenas,
        objects_born: 10,
        heap: "elastic",
        moment: "peak",
        about: &about,
    };
    let mut bytes = Vec::new();
    let written = heap.write(&mut bytes).unwrap();
    let report = validate(&bytes, &mut |_, _| ());
    assert!(report.is_good() && report.oddities.is_empty(), "{report:?}");
    (bytes, written.ids_last)
}

/// Each node as `name`, by the references from the root to it: own bytes, retained bytes.
fn found(bytes: &[u8]) -> BTreeMap<String, (u64, u64)> {
    let snapshot = Snapshot::read(bytes).unwrap();
    let analysis = Analysis::of(&snapshot, &Options::default());
    let graph = &snapshot.graph;
    let text = |string| snapshot.strings.text(string).into_owned();
    let mut found = BTreeMap::new();
    let mut waiting = vec![(graph.root(), String::new())];
    while let Some((node, path)) = waiting.pop() {
        let name = text(graph.node_name(node));
        found.insert(
            format!("{path}{name}"),
            (analysis.self_size(node), analysis.retained_size(node)),
        );
        for edge in graph.edges(node) {
            let reference = match graph.edge_type(edge) {
                EdgeType::Element => format!("[{}]", graph.edge_name(edge)),
                EdgeType::Weak => format!("weak {}", text(graph.edge_name(edge))),
                _ => text(graph.edge_name(edge)),
            };
            waiting.push((graph.target(edge), format!("{path}{name} / {reference} ")));
        }
    }
    found
}

#[test]
fn each_committed_byte_is_a_nodes_own() {
    let (bytes, ids_last) = written(parts(0x10_0000), blocks(0x10_0000));
    assert!(ids_last);
    let found = found(&bytes);
    let root = "app, elastic at peak";
    let space = format!("{root} / part non-class space");
    let node = format!("{space} / 0x100000 node of 64 KB");
    let arena = format!("{space} / arena app, class");
    let chunk = format!("{arena} / 0x101000 chunk of 4 KB");
    let inside = |what: &str, own| (format!("{chunk} / {what}"), (own, own));
    let in_chunk = [
        inside("[0] (chunk headers)", 0x40),
        inside("[64] read_file", 0xa0),
        inside("[224] (gaps)", 0x20),
        inside("[256] (free blocks)", 0x80),
        inside("[384] fn <Rows as Parse>::row", 12),
        inside("rounding (rounding)", 4),
        inside("[400] (free)", 0x670),
    ];
    let mut expected = BTreeMap::from([
        (root.to_owned(), (0, 0x2800)),
        (space.clone(), (0, 0x2800)),
        (node.clone(), (0, 0x2000)),
        (format!("{node} / 0x104000 (free chunks)"), (0x2000, 0x2000)),
        (arena.clone(), (0, 0x800)),
        (chunk.clone(), (0, 0x800)),
        // Visible but not held: the node lists its content.
        (format!("{node} / weak 0x101000 chunk of 4 KB"), (0, 0x800)),
    ]);
    expected.extend(in_chunk.clone());
    expected.extend(in_chunk.map(|(path, bytes)| {
        (path.replace(&chunk, &format!("{node} / weak 0x101000 chunk of 4 KB")), bytes)
    }));
    assert_eq!(found, expected);
}

/// Another replay has the heap at another address; a new block and a gone one change no other id.
#[test]
fn ids_are_those_of_places_and_last() {
    let ids = |parts: Vec<Part>, blocks| {
        let (bytes, _) = written(parts, blocks);
        let snapshot = Snapshot::read(&bytes).unwrap();
        let graph = &snapshot.graph;
        let name = |node| snapshot.strings.text(graph.node_name(node)).into_owned();
        graph
            .nodes()
            .map(|node| (graph.id(node), (name(node), graph.self_size(node))))
            .collect::<BTreeMap<_, _>>()
    };
    let before = ids(parts(0x10_0000), blocks(0x10_0000));
    assert_eq!(before, ids(parts(0x7f00_0000_0000), blocks(0x7f00_0000_0000)));
    let mut fewer = parts(0x10_0000);
    let free = fewer.remove(2);
    assert_eq!(free.own_bytes(), 0x2000);
    let after = ids(fewer, blocks(0x10_0000)[..1].to_vec());
    for (id, what) in &after {
        // The block's place is a larger hole now.
        assert!(
            before.get(id) == Some(what) || what.0 == "(gaps)",
            "{id}: {what:?} after, {:?} before",
            before.get(id)
        );
    }
    assert!(after.contains_key(&(2 * 7 + 3)) && !after.contains_key(&(2 * 9 + 3)));
    // A chunk in another arena is another chunk.
    let mut other = parts(0x10_0000);
    other[3].role = Role::Arena(Some(Region(2)));
    let chunk = |nodes: &BTreeMap<_, (String, _)>| {
        nodes.iter().find(|(_, (name, _))| name == "chunk of 4 KB").map(|(id, _)| *id)
    };
    assert_ne!(chunk(&before), chunk(&ids(other, blocks(0x10_0000))));
}

#[test]
fn what_has_4_gib_is_several_nodes() {
    let free = Part::new(0, Role::Vacant, "(free)", 0x1000..0x1000 + (9 << 30));
    let (bytes, _) = written(vec![free], Vec::new());
    let snapshot = Snapshot::read(&bytes).unwrap();
    assert_eq!(Analysis::of(&snapshot, &Options::default()).total_bytes(), 9 << 30);
    assert_eq!(snapshot.graph.node_count(), 4);
}
