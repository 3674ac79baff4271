//! A heap of adjacency lists through the generator, read by another parser; heaps that change;
//! lines that are scanned once.

use super::*;
use crate::names::StringId;
use crate::write::{EdgeName, edge_type, node_type};
use proptest::prelude::*;
use serde_json::Value;

/// Objects are addresses, 16 bytes apart; object 0 is the root.
#[derive(Default)]
struct Lists {
    references: Vec<Vec<usize>>,
    /// Objects of the first pass that get another reference in the second.
    growing: Option<usize>,
    source: Vec<u8>,
    closures: usize,
    wrong_target: bool,
    /// An object (referred to by the root) that must hold the objects to which nothing else refers,
    /// and the objects that it got.
    last: Option<usize>,
    unmet: Vec<usize>,
    /// Whether all objects are named, and not only the root.
    all: bool,
    /// Whether nodes stand in the order of addresses.
    by_address: bool,
}

const BASE: u64 = 0x7f12_0000_0000;

impl Lists {
    fn index(object: u64) -> usize {
        ((object - BASE) / 16) as usize
    }

    fn address(index: usize) -> u64 {
        BASE + index as u64 * 16
    }
}

impl Embedder for Lists {
    fn root(&mut self) -> u64 {
        BASE
    }

    fn objects(&mut self, add: &mut dyn FnMut(u64)) {
        (0..if self.all { self.references.len() } else { 0 })
            .for_each(|index| add(Lists::address(index)));
    }

    fn names_all_objects(&self) -> bool {
        self.all
    }

    fn numbered_by_address(&self) -> bool {
        self.by_address
    }

    fn last(&mut self) -> Option<u64> {
        self.last.map(Lists::address)
    }

    fn unmet(&mut self, met: &dyn Fn(u64) -> bool) -> Option<u64> {
        self.last?;
        let found = (0..self.references.len()).rev().find(|index| !met(Lists::address(*index)))?;
        self.unmet.push(found);
        Some(Lists::address(found))
    }

    fn targets(&mut self, object: u64, visit: &mut impl FnMut(u64)) {
        if self.last == Some(Lists::index(object)) {
            self.references[Lists::index(object)] = self.unmet.clone();
        }
        self.references[Lists::index(object)]
            .iter()
            .for_each(|target| visit(Lists::address(*target)));
    }

    fn describe(&mut self, object: u64, names: &mut impl NameSink) -> Description {
        let index = Lists::index(object);
        let name = names.intern(format!("class {}", index % 3).as_bytes());
        let (id, self_size) = (index as u64 * 2 + 1, index as u64);
        Description {
            node_type: node_type::OBJECT,
            name,
            id,
            self_size,
            trace_node_id: 0,
            detachedness: 0,
        }
    }

    fn references(&mut self, object: u64, edges: &mut impl EdgeSink) {
        let index = Lists::index(object);
        for (slot, target) in self.references[index].iter().enumerate() {
            let target =
                Lists::address(if self.wrong_target { self.references.len() } else { *target });
            if slot % 2 == 0 {
                edges.element(slot as u64, target);
            } else {
                edges.named(edge_type::PROPERTY, slot.to_string().as_bytes(), target);
            }
        }
        if self.growing == Some(index) {
            edges.edge(edge_type::ELEMENT, EdgeName::Index(0), BASE);
        }
    }

    fn position(&mut self, object: u64) -> Option<Position> {
        let index = Lists::index(object);
        (index > 0 && index <= self.closures)
            .then_some(Position::Offset { script: 4, offset: index as u64 * 10 })
    }

    fn scripts(&self) -> Vec<u64> {
        vec![4]
    }

    fn script_source(&self, script: u64) -> Option<&[u8]> {
        (script == 4).then_some(&self.source)
    }
}

fn made(heap: &mut impl Embedder, options: GeneratorOptions) -> (Value, Profile) {
    let (bytes, profile) = generate(heap, Vec::new(), options).unwrap();
    assert_eq!(profile.file_bytes, bytes.len() as u64);
    (serde_json::from_slice(&bytes).unwrap(), profile)
}

fn rows(value: &Value, key: &str, width: usize) -> Vec<Vec<u64>> {
    let numbers: Vec<u64> =
        value[key].as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect();
    numbers.chunks(width).map(<[u64]>::to_vec).collect()
}

#[test]
fn objects_stand_in_the_order_in_which_they_were_met() {
    let mut heap =
        Lists { references: vec![vec![2, 1], vec![0, 1], vec![], vec![0]], ..Lists::default() };
    let (file, profile) = made(&mut heap, GeneratorOptions::default());
    let ids: Vec<u64> = rows(&file, "nodes", 6).iter().map(|row| row[2]).collect();
    assert_eq!(ids, [1, 5, 3], "object 3 is met by nobody");
    let property =
        file["strings"].as_array().unwrap().iter().position(|name| name == "1").unwrap() as u64;
    assert_eq!(
        rows(&file, "edges", 3),
        [vec![1, 0, 6], vec![2, property, 12], vec![1, 0, 0], vec![2, property, 12]]
    );
    assert_eq!((profile.nodes, profile.edges, profile.serialization_names.lookups), (3, 4, 5));
    assert_eq!(profile.generation_names.lookups, 0);
    let (_, profile) = made(
        &mut heap,
        GeneratorOptions { names_in_generation: true, ..GeneratorOptions::default() },
    );
    assert_eq!(profile.generation_names.lookups, 5);
}

#[test]
fn a_heap_that_names_its_objects_is_not_searched() {
    for by_address in [false, true] {
        let references = vec![vec![2], vec![0], vec![]];
        let mut heap = Lists { references, all: true, by_address, ..Lists::default() };
        let (file, profile) = made(&mut heap, GeneratorOptions::default());
        assert_eq!((profile.nodes, profile.edges), (3, 2), "object 1 is met by nobody");
        assert_eq!(rows(&file, "edges", 3).iter().map(|edge| edge[2]).collect::<Vec<_>>(), [12, 0]);
    }
}

#[test]
fn objects_stand_by_address_where_the_order_does_not_matter() {
    let references = vec![vec![3, 1], vec![0, 1], vec![], vec![2]];
    let mut heap = Lists { references, by_address: true, ..Lists::default() };
    let (file, profile) = made(&mut heap, GeneratorOptions::default());
    let ids: Vec<u64> = rows(&file, "nodes", 6).iter().map(|row| row[2]).collect();
    assert_eq!(ids, [1, 3, 5, 7]);
    assert_eq!(
        rows(&file, "edges", 3).iter().map(|edge| edge[2] / 6).collect::<Vec<_>>(),
        [3, 1, 0, 1, 2]
    );
    assert_eq!(
        (profile.nodes, profile.edges, profile.kept_bytes),
        (4, 5, 0),
        "edges are counted again"
    );
}

#[test]
fn what_nobody_refers_to_is_held_by_the_last() {
    for by_address in [false, true] {
        let references = vec![vec![1, 2], vec![], vec![], vec![4], vec![3], vec![], vec![5]];
        let mut heap = Lists { references, last: Some(1), by_address, ..Lists::default() };
        let (file, profile) = made(&mut heap, GeneratorOptions::default());
        // 6 holds 5; of 4 and 3 the one asked for first holds the other.
        assert_eq!((heap.unmet, profile.nodes, profile.edges), (vec![6, 4], 7, 7));
        assert_eq!(rows(&file, "nodes", 6)[1][4], 2);
    }
}

#[test]
fn a_heap_that_changes_is_refused() {
    let references = vec![vec![1], vec![0]];
    let mut heap = Lists { references: references.clone(), growing: Some(1), ..Lists::default() };
    assert!(matches!(
        generate(&mut heap, Vec::new(), GeneratorOptions::default()),
        Err(GenerateError::References { ordinal: 1, first: 1, second: 2 })
    ));
    let mut heap = Lists { references: references.clone(), wrong_target: true, ..Lists::default() };
    assert!(matches!(
        generate(&mut heap, Vec::new(), GeneratorOptions::default()),
        Err(GenerateError::Unmet { ordinal: 0 })
    ));
    // Counts that were not kept are the writer's to hold against each other.
    let mut heap = Lists {
        references: references.clone(),
        growing: Some(1),
        by_address: true,
        ..Lists::default()
    };
    assert!(matches!(
        generate(&mut heap, Vec::new(), GeneratorOptions::default()),
        Err(GenerateError::Write(WriteError::Count { .. }))
    ));
    let mut heap = Lists { references, wrong_target: true, by_address: true, ..Lists::default() };
    assert!(matches!(
        generate(&mut heap, Vec::new(), GeneratorOptions::default()),
        Err(GenerateError::Unmet { ordinal: 0 })
    ));
}

#[test]
fn a_failing_sink_ends_it() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut heap = Lists { references: vec![vec![0]], ..Lists::default() };
    assert!(matches!(
        generate(&mut heap, Full, GeneratorOptions::default()),
        Err(GenerateError::Write(WriteError::Sink(_)))
    ));
}

#[test]
fn a_script_is_looked_at_once_or_once_a_function() {
    let closures = 50;
    let mut heap =
        Lists { references: vec![(1..=closures).collect()], closures, ..Lists::default() };
    heap.references.resize(closures + 1, Vec::new());
    heap.source = b"function(){\nreturn}".repeat(60);
    let length = heap.source.len() as u64;
    let (once, profile) = made(&mut heap, GeneratorOptions::default());
    assert_eq!((profile.source_bytes, profile.locations, profile.scripts), (length, closures, 1));
    let (each, profile) = made(
        &mut heap,
        GeneratorOptions { positions: Positions::PerFunction, ..GeneratorOptions::default() },
    );
    assert_eq!((profile.source_bytes, profile.scripts), (length * closures as u64, 0));
    assert_eq!(once, each);
    // The second line begins at 12 and has 19 bytes, so offset 30 is 18 bytes into it.
    assert_eq!(rows(&once, "locations", 4)[2], [18, 4, 1, 18]);
    heap.by_address = true;
    let (by_address, profile) = made(&mut heap, GeneratorOptions::default());
    assert_eq!((profile.source_bytes, profile.locations, profile.scripts), (length, closures, 1));
    assert_eq!(by_address, once, "the order is the same here");
}

#[test]
fn the_profile_is_readable() {
    let mut heap = Lists { references: vec![vec![0]], ..Lists::default() };
    let (_, profile) = made(&mut heap, GeneratorOptions::default());
    let text = profile.to_string();
    for word in
        ["generation", "serialization", "line ends", "1 objects, 1 references", "slots a name"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
}

proptest! {
    #[test]
    fn every_heap_comes_back(lists in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..8), 1..120), all: bool, by_address: bool) {
        let count = lists.len();
        let references: Vec<Vec<usize>> = lists.iter().map(|list| list.iter().map(|target| target.index(count)).collect()).collect();
        let mut heap = Lists { references: references.clone(), by_address, ..Lists::default() };
        let options = GeneratorOptions { names_in_generation: all, ..GeneratorOptions::default() };
        let (bytes, profile) = generate(&mut heap, Vec::new(), options).unwrap();
        let file: Value = serde_json::from_slice(&bytes).unwrap();
        let nodes = rows(&file, "nodes", 6);
        let edges = rows(&file, "edges", 3);
        prop_assert_eq!(nodes.len() as u64, profile.nodes);
        // Ids say which object a node is.
        let object = |ordinal: u64| ((nodes[ordinal as usize / 6][2] - 1) / 2) as usize;
        let mut reached = vec![false; count];
        let mut edge = edges.iter();
        for (ordinal, node) in nodes.iter().enumerate() {
            let index = object(ordinal as u64 * 6);
            prop_assert!(!std::mem::replace(&mut reached[index], true), "an object has one node");
            let targets: Vec<usize> = edge.by_ref().take(node[4] as usize).map(|edge| object(edge[2])).collect();
            prop_assert_eq!(&targets, &references[index]);
        }
        prop_assert!(edge.next().is_none());
        // This crate's reader sees the same graph.
        let snapshot = crate::Snapshot::read(&bytes).unwrap();
        let graph = &snapshot.graph;
        prop_assert_eq!((graph.node_count() as u64, graph.edge_count() as u64), (profile.nodes, profile.edges));
        for node in graph.nodes() {
            let index = (graph.id(node) as usize - 1) / 2;
            prop_assert_eq!(snapshot.strings.text(graph.node_name(node)), format!("class {}", index % 3));
            let targets: Vec<usize> = graph.edges(node).map(|edge| (graph.id(graph.target(edge)) as usize - 1) / 2).collect();
            prop_assert_eq!(&targets, &references[index]);
        }
        for (index, list) in references.iter().enumerate().filter(|(index, _)| reached[*index]) {
            prop_assert!(list.iter().all(|target| reached[*target]), "{index} leads to an object without a node");
        }
    }

    #[test]
    fn wide_objects_pass_in_pieces(width in 200usize..2000, by_address: bool) {
        let mut heap = Lists { references: vec![(0..=width).collect()], by_address, ..Lists::default() };
        heap.references.resize(width + 1, vec![0]);
        let (file, profile) = made(&mut heap, GeneratorOptions::default());
        prop_assert_eq!(profile.edges as usize, 2 * width + 1);
        prop_assert_eq!(rows(&file, "edges", 3)[width][2] as usize, width * 6);
    }
}

/// The sink of a test that asks an embedder for names alone.
#[test]
fn an_embedder_can_be_asked_without_a_file() {
    struct Names(Vec<Vec<u8>>);
    impl NameSink for Names {
        fn intern(&mut self, text: &[u8]) -> StringId {
            self.0.push(text.to_vec());
            StringId(self.0.len() as u32 - 1)
        }
    }
    let mut names = Names(Vec::new());
    Lists::default().describe(BASE + 16, &mut names);
    assert_eq!(names.0, [b"class 1".to_vec()]);
}

mod borrowed_texts;
