//! Nodes in the order of their names, the first few and all, against names that are made and
//! sorted.

mod heaps;

use heaplab_snapshot::Snapshot;
use heaplab_snapshot::analysis::{Analysis, Options, SameNames};
use heaps::Heap;
use proptest::prelude::*;

/// Characters whose orders differ: by bytes, by 16-bit units, as shown; escaped in the file and
/// not. The last two stand for halves of a surrogate pair.
const LETTERS: [char; 9] = ['a', 'b', ' ', '\n', '"', 'é', '\u{fffd}', '\u{1f600}', '\u{e000}'];

fn word() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&LETTERS[..]), 0..4)
        .prop_map(|letters| letters.into_iter().collect())
}

/// A node: its type, its name, and its references with property names and target numbers.
type Row = (u8, String, Vec<(String, usize)>);

fn heap(rows: &[Row]) -> Heap {
    let mut heap = Heap::new();
    for (kind, name, _) in rows {
        match kind {
            0 => heap.node("string", name, 8),
            1 => heap.node("concatenated string", name, 8),
            2 => heap.node("object", "Object", 8),
            3 => heap.node("object", name, 8),
            _ => heap.node("native", name, 8),
        };
    }
    for ((number, (kind, _, edges)), state) in (1..).zip(rows).zip([0, 1, 2].into_iter().cycle()) {
        for (place, (name, to)) in edges.iter().enumerate() {
            let (edge_type, name) = if *kind == 1 {
                ("internal", ["first", "second"][place % 2])
            } else {
                ("property", name.as_str())
            };
            heap.edge(edge_type, number, name, to % (rows.len() + 1));
        }
        heap.detached(number, if *kind == 4 { state } else { 0 });
        heap.edge("property", 0, "p", number);
    }
    heap
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn the_first_of_them_are_those_of_all_sorted(
        rows in prop::collection::vec((0u8..5, word(), prop::collection::vec((word(), 0usize..40), 0..4)), 1..40),
        from in 0u32..5,
        first in 0usize..50,
        descending in any::<bool>(),
    ) {
        // Halves of pairs can only be written as escapes: U+E000 marks one.
        let file = heap(&rows).file().replace('\u{e000}', "\\ud83d");
        let snapshot = Snapshot::read(file.as_bytes()).unwrap();
        let analysis = Analysis::of(&snapshot, &Options::default());
        let nodes: Vec<u32> = snapshot.graph.nodes().rev().filter(|node| *node >= from).collect();
        let mut places: Vec<u32> = (0..nodes.len() as u32).collect();
        let name = |place: &u32| analysis.name(nodes[*place as usize]).into_owned();
        if descending {
            places.sort_by_key(|place| std::cmp::Reverse(name(place)));
        } else {
            places.sort_by_key(name);
        }
        prop_assert_eq!(&analysis.first_by_name(&nodes, usize::MAX, descending), &places);
        places.truncate(first);
        prop_assert_eq!(&analysis.first_by_name(&nodes, first, descending), &places);
        // Numbers of names are equal where names are.
        let mut same = SameNames::new(&analysis);
        let numbers: Vec<u32> = nodes.iter().map(|node| same.number(*node)).collect();
        let names: Vec<_> = nodes.iter().map(|node| analysis.name_bytes(*node)).collect();
        for (at, name) in names.iter().enumerate() {
            let twin = names.iter().position(|known| known == name).unwrap();
            prop_assert_eq!(numbers[at], numbers[twin]);
            prop_assert!(at == twin || !numbers[..twin].contains(&numbers[at]));
        }
    }
}
