//! Questions about all objects against the slow way: each object's name made, its condition
//! evaluated, its group looked for.
//!
//! Each question is asked twice: of a fresh analysis, and of one that is prepared for questions.

mod heaps;

use heaplab_expression::{Expression, Value};
use heaplab_snapshot::analysis::{Analysis, Options, SameNames};
use heaplab_snapshot::query::answer::{Answer, Cell};
use heaplab_snapshot::query::condition::Condition;
use heaplab_snapshot::query::object::Objects;
use heaplab_snapshot::query::plan::{Field, Plan, read_condition};
use heaplab_snapshot::{Node, Snapshot};
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

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let edges = prop::collection::vec((word(), 0usize..40), 0..4);
    prop::collection::vec((0u8..5, word(), edges), 1..40)
}

/// The heap as a file. Halves of pairs can only be written as escapes: U+E000 marks one.
fn file(rows: &[Row]) -> String {
    heap(rows).file().replace('\u{e000}', "\\ud83d")
}

const CONDITIONS: [&str; 25] = [
    "name = \"a\"",
    "name ~ \"*a*\" or name = \"\"",
    "not name >= \"b\"",
    "class = \"Object\" and shallow > 4",
    "type ~ \"*string\"",
    "type = \"object\" or not class ~ \"(*\"",
    "8 <= shallow",
    "retained != 8",
    "-1 < distance and distance <= 2",
    "id > 2.5",
    "references = 1 + 1",
    "detached = 1",
    "retained / shallow > 1",
    "not retained / references >= 8",
    "shallow / (retained / references) = 0",
    "id * 0 + 9007199254740992 = 9007199254740993",
    "id * 100000000000 * 100000000 > 100000000000000000000",
    "not (shallow > 4 and 1 / references > 0)",
    "name != \"a\"",
    "name ~ \"*\u{fffd}**\"",
    "name = \"\u{fffd}\"",
    "shallow > 1 or 1 / references > 0",
    "1 = 1",
    "1 / 0 = 1 or shallow >= 0",
    "name = class or name < type",
];

/// A field of a group, and its exact bytes if it is a name.
type Key = (Cell, Vec<u8>);

/// The slow way.
fn holds(objects: &Objects, node: Node, condition: &Expression) -> bool {
    let mut field = |name: &str, _: Option<&str>| {
        let field = match name {
            "id" => Field::Id,
            "type" => Field::Type,
            "class" => Field::Class,
            "name" => Field::Name,
            "shallow" => Field::Shallow,
            "retained" => Field::Retained,
            "distance" => Field::Distance,
            "detached" => Field::Detached,
            _ => Field::References,
        };
        match objects.field(node, field) {
            Cell::Number(number) => Value::from(number),
            Cell::Text(text) => Value::Text(text),
        }
    };
    condition.is_true(&mut field) && !condition.is_undefined(&mut field)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_first_of_them_are_those_of_all_sorted(
        rows in rows(),
        from in 0u32..5,
        first in 0usize..50,
        descending in any::<bool>(),
    ) {
        let file = file(&rows);
        let snapshot = Snapshot::read(file.as_bytes()).unwrap();
        let analysis = Analysis::of(&snapshot, &Options::default());
        let nodes: Vec<u32> = snapshot.graph.nodes().rev().filter(|node| *node >= from).collect();
        let mut all: Vec<u32> = (0..nodes.len() as u32).collect();
        let name = |place: &u32| analysis.name(nodes[*place as usize]).into_owned();
        if descending {
            all.sort_by_key(|place| std::cmp::Reverse(name(place)));
        } else {
            all.sort_by_key(name);
        }
        let few = &all[..first.min(all.len())];
        for is_prepared in [false, true] {
            if is_prepared {
                analysis.prepare_questions();
            }
            prop_assert_eq!(&analysis.first_by_name(&nodes, usize::MAX, descending), &all);
            prop_assert_eq!(&analysis.first_by_name(&nodes, first, descending), few);
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

    #[test]
    fn conditions_hold_as_their_expressions_do(rows in rows()) {
        let file = file(&rows);
        let snapshot = Snapshot::read(file.as_bytes()).unwrap();
        let analysis = Analysis::of(&snapshot, &Options::default());
        let objects = Objects::of(&analysis);
        for is_prepared in [false, true] {
            if is_prepared {
                analysis.prepare_questions();
            }
            for text in CONDITIONS {
                let expression = read_condition(text).unwrap();
                let condition = Condition::new(&objects, &expression);
                for node in snapshot.graph.nodes() {
                    let expected = holds(&objects, node, &expression);
                    prop_assert_eq!(condition.holds(node), expected, "{} for {}", text, node);
                }
                // More objects than one block of sums has.
                let nodes = || snapshot.graph.nodes().cycle().take(100);
                let expected: Vec<_> =
                    nodes().filter(|node| holds(&objects, *node, &expression)).collect();
                prop_assert_eq!(condition.holding(nodes()), expected, "{}", text);
            }
        }
    }

    #[test]
    fn groups_are_those_that_are_looked_for(
        rows in rows(),
        by in prop::sample::subsequence(vec!["type", "class", "name", "distance", "detached"], 1..4).prop_shuffle(),
        top in 1usize..8,
        of_some in any::<bool>(),
    ) {
        let file = file(&rows);
        let snapshot = Snapshot::read(file.as_bytes()).unwrap();
        let analysis = Analysis::of(&snapshot, &Options::default());
        let objects = Objects::of(&analysis);
        let condition = if of_some { "where shallow > 4 " } else { "" };
        let question = format!("{condition}group {} sort count top {top}", by.join(", "));
        let plan = Plan::read(&question).unwrap();
        // Groups in the order of their first objects.
        let mut groups: Vec<(Vec<Key>, Vec<Node>)> = Vec::new();
        let is_chosen = |node: &Node| !of_some || analysis.self_size(*node) > 4;
        for node in snapshot.graph.nodes().filter(is_chosen) {
            // Names that are only shown alike are not the same.
            let exact = |field| match field {
                Field::Name => analysis.name_bytes(node).into_owned(),
                _ => Vec::new(),
            };
            let key = |field: &Field| (objects.field(node, *field), exact(*field));
            let key: Vec<Key> = plan.group.iter().map(key).collect();
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, nodes)) => nodes.push(node),
                None => groups.push((key, vec![node])),
            }
        }
        groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
        for is_prepared in [false, true] {
            if is_prepared {
                analysis.prepare_questions();
            }
            let answer = Answer::of(&analysis, &plan, |_| true);
            prop_assert_eq!(answer.row_count(), top.min(groups.len()));
            prop_assert_eq!(answer.found, groups.len());
            for (row, (key, nodes)) in groups.iter().take(top).enumerate() {
                let cell = |field| answer.cell(row, field);
                for (field, (expected, _)) in plan.group.iter().zip(key) {
                    prop_assert_eq!(&cell(*field), expected);
                }
                let bytes: u64 = nodes.iter().map(|node| analysis.self_size(*node)).sum();
                prop_assert_eq!(cell(Field::Count), Cell::Number(nodes.len() as i64));
                prop_assert_eq!(cell(Field::Shallow), Cell::Number(bytes as i64));
                let is_below = |node: &Node| {
                    let mut at = *node;
                    while analysis.dominator(at) != at {
                        at = analysis.dominator(at);
                        if nodes.contains(&at) {
                            return true;
                        }
                    }
                    false
                };
                let highest = nodes.iter().filter(|node| !is_below(node));
                let retained: u64 = highest.map(|node| analysis.retained_size(*node)).sum();
                prop_assert_eq!(cell(Field::Retained), Cell::Number(retained as i64));
            }
        }
    }

    #[test]
    fn the_first_retainers_are_those_of_all_sorted(rows in rows(), first in 0usize..20) {
        let file = file(&rows);
        let snapshot = Snapshot::read(file.as_bytes()).unwrap();
        let analysis = Analysis::of(&snapshot, &Options::default());
        for node in snapshot.graph.nodes() {
            let mut all = analysis.retainers(analysis.backward(), node);
            let mut few = all.clone();
            analysis.first_by_edge_name(&mut few, first);
            analysis.sort_by_edge_name(&mut all);
            prop_assert_eq!(&few[..], &all[..first.min(all.len())]);
        }
    }
}
