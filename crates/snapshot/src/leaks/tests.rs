//! Leaks of heaps made by hand, and cuts against a walk that does without them.

use super::*;
use crate::analysis::Options;
use crate::names::Hash;
use crate::session::SnapshotIds;
use crate::snapshot::Snapshot;
use crate::write::{Counts, EdgeName, Layout, Node as Row, Writer, edge_type, node_type};
use proptest::prelude::*;

/// From, type, name, to.
type Step = (usize, u8, String, usize);

/// A heap made by hand. The first object is the root; ids are given, so that files can follow each
/// other.
#[derive(Clone, Debug, Default)]
struct Heap {
    objects: Vec<(u8, String, u64, u64)>,
    edges: Vec<Step>,
}

impl Heap {
    fn new() -> Heap {
        let mut heap = Heap::default();
        heap.add(node_type::SYNTHETIC, "", 1, 0);
        heap
    }

    fn add(&mut self, kind: u8, name: &str, id: u64, size: u64) -> usize {
        self.objects.push((kind, name.into(), id, size));
        self.objects.len() - 1
    }

    fn object(&mut self, name: &str, id: u64, size: u64) -> usize {
        self.add(node_type::OBJECT, name, id, size)
    }

    fn edge(&mut self, from: usize, name: &str, to: usize) {
        let is_index = name.parse::<u64>().is_ok();
        let kind = if is_index { edge_type::ELEMENT } else { edge_type::PROPERTY };
        self.edges.push((from, kind, name.into(), to));
    }

    fn file(&self) -> Vec<u8> {
        let counts = Counts {
            nodes: self.objects.len() as u64,
            edges: self.edges.len() as u64,
            trace_functions: 0,
        };
        let mut writer = Writer::new(Vec::new(), Layout::node_20(), counts, Hash::Mixed).unwrap();
        let of = |object: usize| self.edges.iter().filter(move |edge| edge.0 == object);
        for (place, (kind, name, id, size)) in self.objects.iter().enumerate() {
            let name = writer.string(name).unwrap();
            let edge_count = of(place).count() as u64;
            writer.node(&Row { edge_count, ..Row::new(*kind, name, *id, *size) }).unwrap();
        }
        for place in 0..self.objects.len() {
            for (_, kind, name, to) in of(place) {
                let name = match name.parse() {
                    Ok(index) => EdgeName::Index(index),
                    Err(_) => EdgeName::Text(writer.string(name).unwrap()),
                };
                writer.edge(place as u64, *kind, name, *to as u64).unwrap();
            }
        }
        writer.finish().unwrap().0
    }
}

/// Runs `with` on the leaks of a heap in which the objects from that id on leaked.
fn leaks<T>(heap: &Heap, from_id: u64, with: impl FnOnce(&Leaks, &Analysis) -> T) -> T {
    let file = heap.file();
    let snapshot = Snapshot::read(&file).unwrap();
    let analysis = Analysis::of(&snapshot, &Options::default());
    let mut before = heap.clone();
    before.objects.truncate(heap.objects.iter().filter(|object| object.2 < from_id).count());
    let kept = before.objects.len();
    before.edges.retain(|edge| edge.0 < kept && edge.3 < kept);
    let before = SnapshotIds::of(&Snapshot::read(&before.file()).unwrap());
    let last = SnapshotIds::of(&snapshot);
    let born = Born::between(&before, &last, &last).unwrap();
    with(&Leaks::of(&analysis, &born, |_| true), &analysis)
}

/// A cache on the global object with sessions of 100 bytes, each with a buffer of 1,000.
fn cache(sessions: u64, name_of: impl Fn(u64) -> String) -> Heap {
    let mut heap = Heap::new();
    let global = heap.object("global", 3, 8);
    let cache = heap.object("Cache", 5, 8);
    heap.edge(0, "global", global);
    heap.edge(global, "cache", cache);
    for number in 0..sessions {
        let session = heap.object("Session", 101 + 4 * number, 100);
        let buffer = heap.object("Buffer", 103 + 4 * number, 1000);
        heap.edge(session, "buffer", buffer);
        heap.edge(cache, &name_of(number), session);
    }
    heap
}

#[test]
fn what_blink_keeps_for_a_page_is_not_what_leaked() {
    let mut heap = Heap::new();
    let window = heap.add(node_type::NATIVE, "Window", 3, 8);
    let older = heap.object("Listener", 5, 1000);
    let table = heap.add(node_type::NATIVE, "blink::HeapVectorBacking<Member<X>>", 101, 64);
    let newer = heap.object("Listener", 103, 1000);
    heap.edge(0, "window", window);
    heap.edge(window, "listeners", table);
    heap.edge(table, "0", older);
    heap.edge(table, "1", newer);
    leaks(&heap, 100, |leaks, _| {
        assert_eq!((leaks.objects, leaks.retained_bytes()), (1, 1000));
        assert_eq!(leaks.groups[0].heads, [newer as Node]);
    });
}

#[test]
fn what_a_cache_holds_is_one_leak_whatever_its_entries_are_called() {
    for name_of in [|_: u64| "last".to_owned(), |number: u64| format!("user-{number}")] {
        leaks(&cache(50, name_of), 100, |leaks, analysis| {
            assert_eq!((leaks.groups.len(), leaks.objects), (1, 100));
            let group = &leaks.groups[0];
            assert_eq!((group.heads.len(), group.retained_bytes), (50, 50 * 1100));
            assert_eq!(leaks.way(group.entry).len(), 3);
            assert_eq!(analysis.edge_name(leaks.way(group.entry)[1]), "cache");
            let cut = leaks.cut(group);
            let told = (cut.references, cut.holders, cut.freed_bytes, cut.others.len());
            assert_eq!(told, (50, 1, 50 * 1100, 0));
        });
    }
}

#[test]
fn who_else_holds_a_leak_is_named() {
    let mut heap = cache(10, |_| "last".to_owned());
    let list = heap.object("List", 7, 8);
    // Objects have to be in the order of their ids for `leaks` to cut the file.
    heap.objects.remove(list);
    heap.objects.insert(3, (node_type::OBJECT, "List".into(), 7, 8));
    for edge in &mut heap.edges {
        edge.0 += usize::from(edge.0 >= 3);
        edge.3 += usize::from(edge.3 >= 3);
    }
    heap.edge(1, "list", 3);
    heap.edge(3, "first", 4);
    leaks(&heap, 100, |leaks, analysis| {
        let [cached] = &leaks.groups[..] else { panic!("{:?}", leaks.groups) };
        let cut = leaks.cut(cached);
        assert_eq!((cut.references, cut.freed_bytes), (10, 9 * 1100), "one is in the list too");
        assert_eq!(cut.others.len(), 1);
        assert_eq!(&*analysis.name(cut.others[0].from), "List");
    });
}

#[test]
fn tables_and_code_are_nobodys_leak_and_what_they_hold_is() {
    let mut heap = Heap::new();
    let map = heap.object("Map", 3, 8);
    heap.edge(0, "map", map);
    let table = heap.add(node_type::ARRAY, "", 101, 4096);
    // Two owners, so that the table keeps its size.
    heap.edge(map, "table", table);
    heap.edge(0, "table", table);
    for number in 0..3 {
        let value = heap.object("Value", 103 + 2 * number, 10);
        heap.edge(table, &number.to_string(), value);
    }
    leaks(&heap, 100, |leaks, _| {
        assert_eq!((leaks.groups.len(), leaks.objects, leaks.retained_bytes()), (1, 3, 30));
    });
}

#[test]
fn an_older_object_whose_table_grew_is_told_though_nothing_leaked() {
    // A list of numbers: its table is another one each time.
    let heap = |table_id: u64, table_bytes: u64| {
        let mut heap = Heap::new();
        for (number, (id, bytes)) in [(table_id, table_bytes), (9, 50_000)].into_iter().enumerate()
        {
            let list = heap.object("List", 3 + 2 * number as u64, 16);
            let table = heap.add(node_type::ARRAY, "", id, bytes);
            heap.edge(0, "list", list);
            heap.edge(list, "table", table);
        }
        heap.file()
    };
    let (before, after) = (heap(7, 40_000), heap(101, 100_000));
    let (before, after) = (Snapshot::read(&before).unwrap(), Snapshot::read(&after).unwrap());
    let [first, last] = [&before, &after].map(SnapshotIds::of);
    let born = Born::between(&first, &last, &last).unwrap();
    let analysis = Analysis::of(&after, &Options::default());
    assert_eq!((born.count(), Leaks::of(&analysis, &born, |_| true).objects), (1, 0));
    let sizes = OwnSizes::of(&before);
    let list = Grown { node: 1, before_bytes: 40_000, bytes: 100_000 };
    assert_eq!(grown(&analysis, &sizes, &born, |_| true), [list]);
    assert_eq!(grown(&analysis, &sizes, &born, |node| node != 1), []);
    assert_eq!(grown(&analysis, &OwnSizes::of(&after), &born, |_| true), [], "it stays");
}

#[test]
fn files_out_of_order_and_of_other_sessions_are_refused() {
    let moment = |heap: &Heap| SnapshotIds::of(&Snapshot::read(&heap.file()).unwrap());
    let (small, large) = (cache(2, |_| "a".into()), cache(40, |_| "a".into()));
    // An object that the later snapshot lacks.
    let mut first = small.clone();
    let gone = first.object("Gone", 9, 8);
    first.edge(0, "gone", gone);
    let (first, second) = (moment(&first), moment(&large));
    assert!(Born::between(&first, &second, &second).is_ok_and(|born| born.count() == 76));
    assert_eq!(
        Born::between(&second, &first, &second).unwrap_err(),
        BornError::OutOfOrder { file: 1, older: 259, newer: 107 }
    );
    assert_eq!(Born::between(&first, &second, &first).unwrap_err().file(), 2);
    assert!(Born::between(&second, &moment(&small), &moment(&small)).is_ok(), "only freed");
    let mut other = large;
    other.objects[2..].iter_mut().for_each(|object| object.0 = node_type::NATIVE);
    let error = Born::between(&first, &moment(&other), &second).unwrap_err();
    assert!(matches!(error, BornError::OtherSession { file: 1, .. }), "{error}");
}

/// The nodes that a walk without some edges reaches.
fn reached(heap: &Heap, cut: &dyn Fn(&Step) -> bool) -> Vec<bool> {
    let mut reached = vec![false; heap.objects.len()];
    let mut open = vec![0];
    while let Some(at) = open.pop() {
        if std::mem::replace(&mut reached[at], true) {
            continue;
        }
        let edges = heap.edges.iter().filter(|edge| edge.0 == at && !cut(edge));
        open.extend(edges.map(|edge| edge.3));
    }
    reached
}

proptest! {
    /// Heads are leaked and no leaked object dominates them; each leaked object has a head; the sum
    /// of all heads is what cutting every border frees; and a cut frees exactly the nodes that a
    /// walk without its steps no longer reaches.
    #[test]
    fn a_cut_frees_what_no_walk_reaches_any_more(
        old in 1usize..6, new in 1usize..8,
        edges in prop::collection::vec((0usize..14, 0usize..3, 0usize..14), 1..40),
    ) {
        let mut heap = Heap::new();
        for number in 0..old + new {
            let id = if number < old { 3 } else { 1001 } + 2 * number as u64;
            heap.object(["A", "B"][number % 2], id, 16 << number);
        }
        let count = heap.objects.len();
        for (from, name, to) in edges {
            heap.edge(from % count, ["a", "b", "c"][name], to % count);
        }
        // DevTools hangs unreachable nodes, with what they reach, off the root.
        let alive = reached(&heap, &|_| false);
        heap.edges.retain(|edge| alive[edge.0]);
        let is_new = |place: usize| place > old;
        leaks(&heap, 1000, |leaks, analysis| {
            let objects = (1..count).filter(|place| is_new(*place) && alive[*place]).count();
            prop_assert_eq!(leaks.objects, objects as u64);
            let without_borders = reached(&heap, &|edge| !is_new(edge.0) && is_new(edge.3));
            let gone = |reached: &[bool]| -> u64 {
                (1..count).filter(|place| alive[*place] && !reached[*place])
                    .map(|place| heap.objects[place].3).sum()
            };
            // Old objects that only new ones hold are retained too, by heads alone or together.
            prop_assert!(leaks.retained_bytes() <= gone(&without_borders));
            for group in &leaks.groups {
                let heads = group.heads.iter().map(|head| analysis.retained_size(*head));
                prop_assert_eq!(heads.sum::<u64>(), group.retained_bytes);
                let cut = leaks.cut(group);
                // The same steps: same name, same class of path; a walk by hand can cut them by
                // their edges.
                let graph = &analysis.snapshot().graph;
                let steps: Vec<Edge> = leaks.borders.steps_of(group).collect();
                prop_assert!(cut.references <= steps.len() as u64);
                let mut skip: Vec<(usize, usize, String)> = steps.iter().map(|edge| (
                    graph.source(*edge) as usize,
                    graph.target(*edge) as usize,
                    analysis.edge_name(*edge).into_owned(),
                )).collect();
                skip.sort();
                let left = reached(&heap, &|edge| skip.contains(&(edge.0, edge.3, edge.2.clone())));
                let freed: u64 = group.heads.iter().filter(|head| !left[**head as usize])
                    .map(|head| analysis.retained_size(*head)).sum();
                prop_assert_eq!(cut.freed_bytes, freed);
                prop_assert!(cut.freed_bytes <= gone(&left));
            }
            Ok(())
        })?;
    }
}
