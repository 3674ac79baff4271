//! DevTools' rules one by one, on heaps of a few nodes: what each rule is for is in the module of
//! the analysis that has it.

mod heaps;

use heaplab_snapshot::analysis::{Analysis, BASE_SYSTEM_DISTANCE, NO_DISTANCE, Options, SameNames};
use heaplab_snapshot::{Snapshot, diff};
use heaps::Heap;

fn analysed(heap: &Heap, check: impl Fn(&Analysis)) {
    let file = heap.file();
    let snapshot = Snapshot::read(file.as_bytes()).unwrap();
    check(&Analysis::of(&snapshot, &Options::default()));
}

fn dominators(analysis: &Analysis) -> Vec<u32> {
    analysis.snapshot().graph.nodes().map(|node| analysis.dominator(node)).collect()
}

fn keys(analysis: &Analysis) -> Vec<String> {
    analysis
        .shown_classes()
        .map(|(_, class)| String::from_utf8_lossy(&class.key()).into_owned())
        .collect()
}

#[test]
fn weak_and_own_references_retain_nothing() {
    let mut heap = Heap::new();
    let (a, b) = (heap.node("object", "A", 8), heap.node("object", "B", 8));
    heap.edge("property", 0, "a", a);
    heap.edge("weak", a, "b", b);
    heap.edge("property", b, "self", b);
    analysed(&heap, |analysis| {
        assert_eq!(dominators(analysis), [0, 0, 0]);
        assert_eq!((analysis.retained_size(1), analysis.distance(2)), (8, NO_DISTANCE));
    });
}

#[test]
fn shortcuts_count_from_the_root_alone() {
    let mut heap = Heap::new();
    let (global, a, b) = (
        heap.node("object", "Window", 8),
        heap.node("object", "A", 8),
        heap.node("object", "B", 8),
    );
    heap.edge("shortcut", 0, "1", global);
    heap.edge("property", global, "a", a);
    heap.edge("property", a, "b", b);
    heap.edge("shortcut", global, "b", b);
    analysed(&heap, |analysis| assert_eq!(dominators(analysis), [0, 0, 1, 2]));
}

#[test]
fn what_the_debugger_holds_of_a_page_does_not_count() {
    let mut heap = Heap::new();
    let (global, a) = (heap.node("object", "Window", 8), heap.node("object", "A", 8));
    let debugger = heap.node("synthetic", "(Debugger)", 0);
    heap.edge("shortcut", 0, "1", global);
    heap.edge("element", 0, "2", debugger);
    heap.edge("property", global, "a", a);
    heap.edge("element", debugger, "1", a);
    analysed(&heap, |analysis| assert_eq!(dominators(analysis), [0, 0, 1, 0]));
}

#[test]
fn documents_make_page_objects_too() {
    let mut heap = Heap::new();
    let (documents, div) =
        (heap.node("synthetic", "(Document DOM trees)", 0), heap.node("native", "<div>", 8));
    let other = heap.node("synthetic", "(Other)", 0);
    heap.edge("element", 0, "1", documents);
    heap.edge("element", 0, "2", other);
    heap.edge("element", documents, "1", div);
    heap.edge("element", other, "1", div);
    analysed(&heap, |analysis| {
        assert_eq!(dominators(analysis), [0, 0, 1, 0]);
        assert_eq!(
            (analysis.distance(1), analysis.distance(2), analysis.distance(3)),
            (1, 2, BASE_SYSTEM_DISTANCE + 1)
        );
    });
}

#[test]
fn a_weak_maps_value_is_its_keys() {
    let mut heap = Heap::new();
    let (map, key, far) = (
        heap.node("object", "WeakMap", 8),
        heap.node("object", "Key", 8),
        heap.node("object", "Far", 8),
    );
    let (table, value) = (heap.node("object", "table", 8), heap.node("object", "Value", 8));
    heap.edge("property", 0, "map", map);
    heap.edge("property", 0, "far", far);
    heap.edge("property", far, "key", key);
    heap.edge("internal", map, "table", table);
    let name = |number: u32| {
        format!("{number} / part of key (Key @5) -> value (Value @11) pair in WeakMap (table @9)")
    };
    heap.edge("internal", table, &name(1), value);
    heap.edge("internal", key, &name(2), value);
    analysed(&heap, |analysis| {
        assert_eq!(analysis.dominator(value as u32), key as u32);
        assert_eq!(analysis.distance(value as u32), analysis.distance(key as u32) + 1);
        let key_retains = analysis.retained_size(key as u32);
        assert_eq!((key_retains, analysis.retained_size(table as u32)), (16, 8));
    });
}

#[test]
fn orphans_and_cycles_hang_off_the_root() {
    let mut heap = Heap::new();
    let (kept, orphan, child) = (
        heap.node("object", "Kept", 8),
        heap.node("object", "Orphan", 8),
        heap.node("object", "Child", 8),
    );
    let (one, two) = (heap.node("object", "One", 8), heap.node("object", "Two", 8));
    heap.edge("property", 0, "kept", kept);
    heap.edge("property", orphan, "child", child);
    heap.edge("property", one, "two", two);
    heap.edge("property", two, "one", one);
    heap.edge("property", two, "kept", kept);
    analysed(&heap, |analysis| assert_eq!(dominators(analysis), [0, 0, 0, 2, 0, 0]));
}

#[test]
fn owned_internals_give_their_sizes_to_their_only_owner() {
    let mut heap = Heap::new();
    let (a, b) = (heap.node("object", "A", 8), heap.node("object", "B", 8));
    let (own, inner, shared) = (
        heap.node("array", "", 100),
        heap.node("hidden", "system / X", 50),
        heap.node("array", "", 30),
    );
    let external = heap.node("native", "system / ExternalStringData", 7);
    for (kind, from, name, to) in [
        ("property", 0, "a", a),
        ("property", 0, "b", b),
        ("internal", a, "elements", own),
        ("internal", own, "x", inner),
        ("internal", a, "s", shared),
        ("internal", b, "s", shared),
        ("internal", b, "e", external),
    ] {
        heap.edge(kind, from, name, to);
    }
    let sizes =
        |analysis: &Analysis| (1..7).map(|node| analysis.self_size(node)).collect::<Vec<_>>();
    analysed(&heap, |analysis| assert_eq!(sizes(analysis), [158, 15, 0, 0, 30, 0]));
    // Without user roots (internals exposed on purpose) everything stays where it is.
    let mut exposed = Heap::new();
    let (root, a, own) = (
        exposed.node("synthetic", "(GC roots)", 0),
        exposed.node("object", "A", 8),
        exposed.node("array", "", 100),
    );
    exposed.edge("element", 0, "1", root);
    exposed.edge("element", root, "1", a);
    exposed.edge("internal", a, "elements", own);
    analysed(&exposed, |analysis| {
        assert_eq!((analysis.self_size(2), analysis.self_size(3)), (8, 100))
    });
}

#[test]
fn descriptors_and_the_sloppy_function_map_are_no_way() {
    let mut heap = Heap::new();
    let (a, descriptors) =
        (heap.node("object", "A", 8), heap.node("array", "(map descriptors)", 8));
    let targets: Vec<usize> = (0..6).map(|_| heap.node("object", "T", 8)).collect();
    let context = heap.node("hidden", "system / NativeContext", 8);
    let map = heap.node("object shape", "system / Map", 8);
    heap.edge("property", 0, "a", a);
    heap.edge("internal", a, "descriptors", descriptors);
    heap.edge("internal", a, "context", context);
    heap.edge("internal", context, "sloppy_function_map", map);
    for (slot, target) in targets.iter().enumerate() {
        heap.edge("hidden", descriptors, &slot.to_string(), *target);
    }
    analysed(&heap, |analysis| {
        let reached: Vec<bool> =
            targets.iter().map(|target| analysis.distance(*target as u32) == 3).collect();
        assert_eq!(reached, [true, true, true, true, false, true]);
        assert_eq!(analysis.distance(map as u32), NO_DISTANCE);
    });
}

#[test]
fn classes_are_made_of_types_names_tags_and_places() {
    let mut heap = Heap::new();
    let kinds = [
        ("code", "x", ",(compiled code)"),
        ("closure", "f", ",Function"),
        ("regexp", "r", ",RegExp"),
        ("string", "s", ",(string)"),
        ("object shape", "m", ",(object shape)"),
        ("number", "1", ",(number)"),
        ("native", "<div id=\"a\">", ",<div>"),
        ("native", "Detached <p class=x>", ",Detached <p>"),
        ("object", "Session", ",Session"),
        ("object", "Placed", "5,1,2,Placed"),
    ];
    for (kind, name, _) in kinds {
        let node = heap.node(kind, name, 8);
        heap.edge("property", 0, name, node);
    }
    heap.node("object", "Empty", 0);
    // The last place of an object counts; the place of a function (2) or a native node (7) does
    // not, in any order of the file.
    heap.locations = vec![[10, 9, 9, 9], [10, 5, 1, 2], [2, 7, 7, 7], [7, 3, 73, 9]];
    analysed(&heap, |analysis| assert_eq!(keys(analysis), kinds.map(|kind| kind.2)));
    heap.locations.sort_by_key(|place| place[0]);
    analysed(&heap, |analysis| assert_eq!(keys(analysis), kinds.map(|kind| kind.2)));
}

#[test]
fn of_two_classes_with_one_key_devtools_shows_the_later() {
    let mut heap = Heap::new();
    let (object, function) = (heap.node("object", "Function", 8), heap.node("closure", "f", 16));
    heap.edge("property", 0, "o", object);
    heap.edge("property", 0, "f", function);
    analysed(&heap, |analysis| {
        let shown: Vec<u64> = analysis.shown_classes().map(|(_, class)| class.self_size).collect();
        assert_eq!(shown, [16]);
        assert_eq!(
            analysis
                .classes()
                .iter()
                .filter(|class| class.shadowed)
                .map(|class| class.self_size)
                .collect::<Vec<_>>(),
            [8]
        );
    });
}

/// A heap of plain objects, each given by its properties.
fn plain(objects: &[&[&str]]) -> Heap {
    let mut heap = Heap::new();
    let value = heap.node("string", "v", 0);
    for properties in objects {
        let object = heap.node("object", "Object", 8);
        heap.edge("element", 0, "1", object);
        for property in *properties {
            heap.edge("property", object, property, value);
        }
    }
    heap
}

#[test]
fn interfaces_need_two_objects_and_one_in_a_thousand() {
    analysed(
        &plain(&[
            &["a", "b"],
            &["a", "b", "c"],
            &["b", "a"],
            &["__proto__", "a", "b"],
            &["c"],
            &[],
        ]),
        |analysis| {
            let interfaces: Vec<_> = analysis
                .interfaces()
                .iter()
                .map(|one| (String::from_utf8_lossy(&one.name).into_owned(), one.count))
                .collect();
            assert_eq!(interfaces, [("{a, b}".to_owned(), 2)]);
            // An object with both properties belongs to it, in any order; the others stay plain
            // objects.
            assert_eq!(keys(analysis), [",{a, b}", ",Object"]);
        },
    );
    let mut many = vec![&["a"][..]; 2001];
    many.extend([&["rare"][..]; 2]);
    analysed(&plain(&many), |analysis| assert_eq!(keys(analysis), [",{a}", ",Object"]));
    many.push(&["rare"]);
    analysed(&plain(&many), |analysis| assert_eq!(keys(analysis), [",{a}", ",{rare}"]));
}

#[test]
fn the_interface_with_most_properties_wins_then_the_most_frequent() {
    let objects: [&[&str]; 8] = [
        &["a"],
        &["a"],
        &["a"],
        &["b"],
        &["b"],
        &["a", "b", "x,'"],
        &["a", "b", "x,'"],
        &["a", "b", "q"],
    ];
    analysed(&plain(&objects), |analysis| {
        let class = |node: u32| {
            String::from_utf8_lossy(&analysis.classes()[analysis.class_of(node) as usize].name)
                .into_owned()
        };
        assert_eq!(
            (class(7), class(9), analysis.name(7).into_owned()),
            ("{a, b, \"x,'\"}".into(), "{a}".into(), "{a, b, \"x,'\"}".into())
        );
    });
}

#[test]
fn attachment_spreads_over_native_nodes_and_renames() {
    let mut heap = Heap::new();
    let nodes: Vec<usize> =
        ["<a>", "<b>", "<c>", "<d>"].iter().map(|name| heap.node("native", name, 8)).collect();
    let script = heap.node("object", "Wrapper", 8);
    let beyond = heap.node("native", "<e>", 8);
    heap.detached(nodes[0], 2);
    heap.detached(nodes[2], 1);
    for (kind, from, to) in [
        ("element", nodes[0], nodes[1]),
        ("hidden", nodes[0], beyond),
        ("element", nodes[2], nodes[3]),
        ("element", nodes[0], nodes[3]),
        ("element", nodes[1], script),
        ("property", script, beyond),
    ] {
        heap.edge(kind, from, "1", to);
    }
    heap.edge("element", 0, "1", nodes[0]);
    analysed(&heap, |analysis| {
        let states: Vec<u8> = (1..7).map(|node| analysis.detachedness(node)).collect();
        assert_eq!(states, [2, 2, 1, 1, 0, 0]);
        assert_eq!((analysis.name(2), analysis.name(4)), ("Detached <b>".into(), "<d>".into()));
    });
}

#[test]
fn concatenated_strings_are_shown_whole() {
    let mut heap = Heap::new();
    let (all, left, right) = (
        heap.node("concatenated string", "", 8),
        heap.node("string", "one ", 8),
        heap.node("string", "two", 8),
    );
    heap.edge("internal", all, "second", right);
    heap.edge("internal", all, "first", left);
    heap.edge("property", 0, "s", all);
    analysed(&heap, |analysis| assert_eq!(analysis.name(1), "one two"));
}

#[test]
fn the_same_id_is_unchanged_and_another_name_is_another_object() {
    let (mut before, mut after) = (Heap::new(), Heap::new());
    for (name, size, new_name, new_size) in [("A", 8, "A", 800), ("B", 8, "C", 8)] {
        let (old, new) =
            (before.node("object", name, size), after.node("object", new_name, new_size));
        before.edge("property", 0, "x", old);
        after.edge("property", 0, "x", new);
    }
    let (before, after) = (before.file(), after.file());
    let (before, after) =
        (Snapshot::read(before.as_bytes()).unwrap(), Snapshot::read(after.as_bytes()).unwrap());
    let [before, after] =
        [&before, &after].map(|snapshot| Analysis::of(snapshot, &Options::default()));
    let changes: Vec<_> = diff::compare(&before, &after)
        .iter()
        .map(|class| (class.key.clone(), class.count_delta(), class.size_delta()))
        .collect();
    assert_eq!(changes, [(b",B".to_vec(), -1, -8), (b",C".to_vec(), 1, 8)]);
    let points =
        [&before, &after, &after].map(|analysis| diff::Point::of(analysis, after.interfaces()));
    assert_eq!(diff::growing(&points), []);
    assert_eq!(
        diff::growing(&points[..2]).iter().map(|class| class.key.clone()).collect::<Vec<_>>(),
        [b",C".to_vec()]
    );
}

#[test]
fn sizes_beyond_32_bits_are_cut_as_in_devtools_unless_exact_ones_are_wanted() {
    let mut heap = Heap::new();
    let (buffer, data) =
        (heap.node("object", "ArrayBuffer", 8), heap.node("array", "data", (1 << 32) + 100));
    heap.edge("property", 0, "buffer", buffer);
    heap.edge("internal", buffer, "data", data);
    let file = heap.file();
    let snapshot = Snapshot::read(file.as_bytes()).unwrap();
    let size = |exact_sizes| {
        Analysis::of(&snapshot, &Options { exact_sizes, ..Options::default() }).retained_size(0)
    };
    assert_eq!((size(false), size(true)), (108, (1 << 32) + 108));
}

/// Concatenated strings in a chain, each made of the one behind it and a piece: all names by the
/// rule itself, step by step.
fn chain(links: usize, first: bool, pieces: &[&str]) -> (Heap, Vec<String>) {
    let mut heap = Heap::new();
    let leaves: Vec<usize> = pieces.iter().map(|piece| heap.node("string", piece, 16)).collect();
    let (mut node, mut text) = (leaves[0], pieces[0].to_owned());
    let mut names = Vec::new();
    for link in 0..links {
        let next = heap.node("concatenated string", "", 20);
        let piece = link % pieces.len();
        let (left, right) = if first { (node, leaves[piece]) } else { (leaves[piece], node) };
        heap.edge("internal", next, "first", left);
        heap.edge("internal", next, "second", right);
        heap.edge("property", 0, "p", next);
        text = if first { text + pieces[piece] } else { pieces[piece].to_owned() + &text };
        let mut name = String::new();
        // All pieces of a test are of one length.
        text.as_bytes()
            .chunks(pieces[0].len().max(1))
            .take_while(|piece| {
                let room = name.len() < 1024;
                name.extend(std::str::from_utf8(piece).into_iter().filter(|_| room));
                room
            })
            .count();
        names.push(name);
        node = next;
    }
    (heap, names)
}

#[test]
fn names_of_concatenated_strings_are_their_leaves_up_to_1024_units() {
    for (first, pieces) in [
        (true, ["a", "b", "c"]),
        (false, ["a", "b", "c"]),
        (true, ["abcdefg", "hijklmn", "opqrstu"]),
        (false, ["abcdefg", "hijklmn", "opqrstu"]),
    ] {
        let (heap, names) = chain(2000, first, &pieces);
        analysed(&heap, |analysis| {
            let graph = &analysis.snapshot().graph;
            let ropes: Vec<u32> = graph
                .nodes()
                .filter(|node| {
                    analysis.snapshot().node_type_name(graph.node_type(*node)).starts_with("conc")
                })
                .collect();
            for (node, name) in ropes.iter().zip(&names) {
                assert_eq!(analysis.name(*node), name.as_str(), "{first} {pieces:?}");
            }
            let mut same = SameNames::new(analysis);
            let numbers: Vec<u32> = ropes.iter().map(|node| same.number(*node)).collect();
            for (at, name) in names.iter().enumerate() {
                let twin = names.iter().position(|known| known == name).unwrap();
                assert_eq!(numbers[at], numbers[twin]);
                assert!(at == twin || numbers[..twin].iter().all(|number| *number != numbers[at]));
            }
        });
    }
}

#[test]
fn empty_strings_add_nothing_and_cycles_end() {
    let (heap, names) = chain(3000, true, &[""]);
    assert!(names.iter().all(String::is_empty));
    analysed(&heap, |analysis| {
        assert!(analysis.snapshot().graph.nodes().all(|node| analysis.name(node).is_empty()));
        assert!(analysis.duplicate_strings().is_empty(), "flat strings are V8's own business");
    });
    let mut heap = Heap::new();
    let (a, around, left) = (
        heap.node("string", "ab", 16),
        heap.node("concatenated string", "", 20),
        heap.node("concatenated string", "", 20),
    );
    for (rope, first, second) in [(around, a, around), (left, left, a)] {
        heap.edge("internal", rope, "first", first);
        heap.edge("internal", rope, "second", second);
        heap.edge("property", 0, "p", rope);
    }
    analysed(&heap, |analysis| {
        assert_eq!(analysis.name(around as u32), "ab".repeat(512));
        // DevTools does not return from this one.
        assert_eq!(analysis.name(left as u32), "");
    });
}

#[test]
fn strings_of_which_beginnings_alone_are_known_say_so() {
    let (long, cut, whole) = ("x".repeat(2000), "y".repeat(1024), "z");
    let mut heap = Heap::new();
    for name in [long.as_str(), &cut, whole] {
        for _ in 0..2 {
            let node = heap.node("string", name, 16);
            heap.edge("property", 0, "p", node);
        }
    }
    analysed(&heap, |analysis| {
        let found = analysis.duplicate_strings();
        let known: Vec<_> = found
            .iter()
            .map(|group| (analysis.name(group.nodes[0]).len(), group.beginnings_alone))
            .collect();
        assert_eq!(known, [(2000, false), (1024, true), (1, false)]);
    });
}
