//! That nothing survives but what may, in a small heap and in made-up ones; that what readers
//! compute with is still there.

use super::super::tests::{heap, lists};
use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn redacted(bytes: &[u8], keep: Keep, sources: &[&str]) -> Vec<u8> {
    let mut identifiers = Identifiers::own();
    for source in sources {
        identifiers.add_source(source.as_bytes());
    }
    let redaction = Redaction { keep, identifiers, key: Key::new([7; 32]) };
    redact(&Rows::find(bytes).unwrap(), redaction, Vec::new(), &mut |_, _| ()).unwrap().0
}

fn strings(bytes: &[u8]) -> Vec<String> {
    let rows = Rows::find(bytes).unwrap();
    let mut strings = rows.strings();
    let mut all = Vec::new();
    while let Some(text) = strings.read().unwrap() {
        all.push(String::from_utf8_lossy(text).into_owned());
    }
    all
}

#[test]
fn contents_go_and_the_shape_stays() {
    let bytes = heap();
    let (nodes, edges) = lists(&bytes);
    for keep in [Keep::Identifiers, Keep::Names, Keep::Own] {
        let (new_nodes, new_edges) = lists(&redacted(&bytes, keep, &[]));
        for (new, old) in new_nodes.iter().zip(&nodes) {
            assert_eq!(
                (&new.0, new.2, new.3, new.1.encode_utf16().count()),
                (&old.0, old.2, old.3, old.1.encode_utf16().count())
            );
        }
        for (new, old) in new_edges.iter().zip(&edges) {
            assert_eq!(
                (&new.0, new.2, new.1.encode_utf16().count()),
                (&old.0, old.2, old.1.encode_utf16().count()),
                "{new:?} {old:?}"
            );
        }
        assert_eq!(new_nodes[1].1, new_nodes[2].1, "the same class is still the same");
        assert_ne!(new_nodes[3].1, nodes[3].1);
        assert_eq!(
            new_edges[5].1 == "user",
            keep == Keep::Names,
            "a variable of what is no context"
        );
        assert_eq!(new_edges[3].1 == "eve@example.com", keep == Keep::Names);
        assert_eq!(new_nodes[1].1 == "Session", keep == Keep::Names);
        assert!(new_edges[6].1.ends_with(" @5) pair in WeakMap (table @9)"), "{}", new_edges[6].1);
        let both =
            new_edges[6].1.contains("(Session @3)") && new_edges[6].1.contains("(Session @5)");
        assert_eq!(
            (both, new_edges[6].1.contains("Session")),
            (keep == Keep::Names, keep == Keep::Names),
            "{}",
            new_edges[6].1
        );
    }
    let with_source = redacted(&bytes, Keep::Identifiers, &["class Session { }"]);
    let (new_nodes, new_edges) = lists(&with_source);
    assert_eq!(new_nodes[1].1, "Session");
    assert!(
        new_edges[6].1.contains(" (Session @3) -> value (Session @5) pair"),
        "{}",
        new_edges[6].1
    );
}

#[test]
fn names_that_readers_compute_with_keep_their_form() {
    let decide_as = |text: &str, role: Role| {
        let mut strings = StringsStorage::new(Hash::Mixed);
        strings.intern(text).unwrap();
        let identifiers = Identifiers::own();
        let mut names = Names {
            strings: &strings,
            of_file: vec![StringId(0)],
            stand_ins: StandIns::new(Key::new([1; 32]), &strings),
            paired: Paired::of(&strings),
            keep: Keep::Identifiers,
            identifiers: &identifiers,
            decided: std::array::from_fn(|_| vec![UNDECIDED; 1]),
            kept: vec![false],
            text: Vec::new(),
        };
        let mut new = StringsStorage::new(Hash::Mixed);
        let id = names.of(&mut new, StringId(0), role).unwrap();
        String::from_utf8_lossy(new.bytes_of(id)).into_owned()
    };
    let decide = |text: &str| decide_as(text, Role::System);
    assert_eq!(decide("system / Context"), "system / Context");
    let window = decide("Window / https://bank.example/alice");
    assert!(
        window.starts_with("Window / ") && !window.contains("alice") && window.len() == 35,
        "{window}"
    );
    let div = decide("<div id=\"alice\">");
    assert!(
        div.starts_with("<div ") && div.ends_with('>') && !div.contains("alice") && div.len() == 16,
        "{div}"
    );
    assert!(!decide("<x-alice>").contains("alice"));
    assert_eq!(decide("(ArrayConcat builtin)"), "(ArrayConcat builtin)");
    for slot in ["123456", "17 / Map"] {
        assert_eq!(decide_as(slot, Role::Slot), slot);
    }
    for role in [Role::Content, Role::Name, Role::Class, Role::Code, Role::System] {
        assert!(
            !decide_as("123456", role).contains("123456")
                && !decide_as("123456 / Map", role).contains("123456"),
            "{role:?}"
        );
    }
    assert!(!decide_as("17 / 123456", Role::Slot).contains("123456"));
    assert_ne!(decide_as("4915112345678", Role::Slot), "4915112345678");
    let phone = decide(
        "1 / part of key (Map @1) -> value (Map @2) 4915112345678 pair in WeakMap (table @3)",
    );
    assert!(!phone.contains("49151"), "{phone}");
    let pair =
        "7 / part of key (system / Map @11) -> value (Array @12) pair in WeakMap (table @13)";
    assert_eq!(decide(pair), pair);
    let broken = decide(
        "1 / part of key (alicia @1) -> value (robert @2) pair in WeakMap (table @3) carolyn)",
    );
    assert!(!["alicia", "robert", "carolyn"].iter().any(|name| broken.contains(name)), "{broken}");
}

/// Names of nodes and edges, each of one role, in a file of their own.
fn redacted_names(names: &[(&str, u8)], keep: Keep, sources: &[&str]) -> Vec<String> {
    use crate::write::{Counts, Layout};
    let counts = Counts { nodes: 1, edges: names.len() as u64, ..Counts::default() };
    let mut writer = Writer::new(Vec::new(), Layout::node_24(), counts, Hash::Mixed).unwrap();
    let root = writer.string("").unwrap();
    writer.node(&Node { edge_count: names.len() as u64, ..Node::new(9, root, 1, 0) }).unwrap();
    for (name, edge_type) in names {
        let name = writer.string(name).unwrap();
        writer.edge(0, *edge_type, EdgeName::Text(name), 0).unwrap();
    }
    let (_, edges) = lists(&redacted(&writer.finish().unwrap().0, keep, sources));
    edges.into_iter().map(|edge| edge.1).collect()
}

const INTERNAL: u8 = 3;
const PROPERTY: u8 = 2;

/// Nodes (type, name) with ids 1, 3, ... under a root of id 99, and names of references that the
/// root has to itself.
fn redacted_pairs(nodes: &[(u8, &str)], pairs: &[&str], keep: Keep) -> Vec<String> {
    use crate::write::{Counts, Layout};
    let counts =
        Counts { nodes: nodes.len() as u64 + 1, edges: pairs.len() as u64, ..Counts::default() };
    let mut writer = Writer::new(Vec::new(), Layout::node_24(), counts, Hash::Mixed).unwrap();
    let root = writer.string("").unwrap();
    writer.node(&Node { edge_count: pairs.len() as u64, ..Node::new(9, root, 99, 0) }).unwrap();
    for (at, (node_type, name)) in (0..).zip(nodes) {
        let name = writer.string(name).unwrap();
        writer.node(&Node::new(*node_type, name, at * 2 + 1, 8)).unwrap();
    }
    for pair in pairs {
        let name = writer.string(pair).unwrap();
        writer.edge(0, INTERNAL, EdgeName::Text(name), 0).unwrap();
    }
    let (_, edges) =
        lists(&redacted(&writer.finish().unwrap().0, keep, &["class Session { hunter2 }"]));
    edges.into_iter().map(|edge| edge.1).collect()
}

const OBJECT: u8 = 3;

#[test]
fn a_class_in_a_pair_stays_where_the_nodes_name_does() {
    let nodes = [
        (OBJECT, "Session"),
        (OBJECT, "Private"),
        (OBJECT, "file:///home/alice"),
        (2, "hunter2"),
        (12, "hunter2"),
    ];
    let pairs = [
        "1 / part of key (Session @1) -> value (Private @3) pair in WeakMap (table @99)",
        "2 / part of key (Session @1) -> value (hunter2 @7) pair in WeakMap (table @99)",
        // A symbol may be a key.
        "3 / part of key (hunter2 @9) -> value (Session @1) pair in WeakMap (table @99)",
        "4 / part of key (Session @1) -> value (file:///home/alice @5) pair in WeakMap (table @99)",
        // No node is called so.
        "5 / part of key (Private @1) -> value (Session @77) pair in WeakMap (table @99)",
    ];
    for keep in [Keep::Identifiers, Keep::Names, Keep::Own] {
        let new = redacted_pairs(&nodes, &pairs, keep);
        let has = |number: usize, text: &str| new[number].contains(text);
        assert_eq!(
            [has(0, "(Session @1)"), has(0, "(Private @3)")],
            [keep != Keep::Own, keep == Keep::Names],
            "{keep:?} {new:?}"
        );
        assert_eq!(
            [has(1, "(Session @1)"), has(2, "(Session @1)")],
            [keep != Keep::Own; 2],
            "{keep:?} {new:?}"
        );
        assert!(
            new.iter().all(|name| !name.contains("hunter2") && !name.contains("alice")),
            "{keep:?} {new:?}"
        );
        assert!(!has(4, "Session") && !has(4, "Private"), "{keep:?} {new:?}");
    }
}

#[test]
fn an_id_that_two_nodes_have_tells_nothing() {
    let mut strings = StringsStorage::new(Hash::Mixed);
    strings.intern("1 / part of key (A @1) -> value (B @3) pair in WeakMap (table @5)").unwrap();
    let (a, b) = (strings.intern("A").unwrap(), strings.intern("B").unwrap());
    let pair = Pair::of(strings.bytes_of(StringId(0))).unwrap();
    let mut paired = Paired::of(&strings);
    for (id, role, name) in
        [(1, Role::Class, a), (3, Role::Class, b), (3, Role::Content, b), (7, Role::Class, b)]
    {
        paired.meet(id, role, name);
    }
    let role = |side| paired.role(side, |name| strings.bytes_of(name));
    assert!(role(&pair.key) == Some(Role::Class) && role(&pair.value).is_none());
}

#[test]
fn what_a_pair_holds_does_not_stay_because_a_class_might() {
    let held = "1 / part of key (Session @1) -> value (hunter2 @2) pair in WeakMap (table @3)";
    let element = "2 / part of key (<div @click=\"open('hunter2')\"> @1) -> value (Map @2) pair in WeakMap (table @3)";
    let twice = "3 / part of key (Map @1) -> value (a @4915112345678) -> value (b @2) pair in WeakMap (table @3)";
    for keep in [Keep::Identifiers, Keep::Names, Keep::Own] {
        let names = [held, element, twice].map(|name| (name, INTERNAL));
        let new = redacted_names(&names, keep, &["class Session { hunter2 }"]);
        assert!(
            new.iter().all(|name| !name.contains("hunter2")
                && !name.contains("49151")
                && !name.contains("Session")),
            "{keep:?} {new:?}"
        );
        assert!(
            new[1].ends_with(" @1) -> value (Map @2) pair in WeakMap (table @3)"),
            "{}",
            new[1]
        );
    }
}

#[test]
fn a_propertys_name_is_no_builtins() {
    let names = [
        ("(Alice builtin)", PROPERTY),
        ("Alice (builtin)", PROPERTY),
        ("(ArrayConcat builtin)", INTERNAL),
    ];
    let new = redacted_names(&names, Keep::Identifiers, &[]);
    assert!(
        !new[0].contains("Alice") && !new[1].contains("Alice") && new[2] == names[2].0,
        "{new:?}"
    );
}

/// Functions that have a record of the compiler's and some that have none, in a file with another
/// program's types.
fn functions() -> Vec<u8> {
    use crate::write::{Counts, Layout};
    let mut layout = Layout::node_24();
    layout.node_types.push("acme database row".to_owned());
    layout.edge_types.push("acme reference".to_owned());
    let (row, reference) = (layout.node_types.len() as u8 - 1, layout.edge_types.len() as u8 - 1);
    let names = [
        "",
        "system / Context",
        "login",
        "userAlice",
        "file:///home/alice/app.js",
        "alice.js",
        "Window / https://bank.example/alice",
    ];
    let nodes = [
        (9, 0, 6),
        (3, 1, 2),
        (5, 2, 1),
        (4, 2, 0),
        (5, 3, 1),
        (4, 4, 0),
        (4, 5, 0),
        (3, 6, 1),
        (row, 3, 0),
    ];
    let counts = Counts { nodes: nodes.len() as u64, edges: 11, trace_functions: 1 };
    let mut writer = Writer::new(Vec::new(), layout, counts, Hash::Mixed).unwrap();
    let ids: Vec<StringId> = names.iter().map(|name| writer.string(name).unwrap()).collect();
    let [shared, variable] = ["shared", "visits"].map(|name| writer.string(name).unwrap());
    for (at, (node_type, name, edge_count)) in nodes.into_iter().enumerate() {
        writer
            .node(&Node { edge_count, ..Node::new(node_type, ids[name], at as u64 * 2 + 1, 8) })
            .unwrap();
    }
    // Properties called as the functions and as the variables are.
    for (to, name) in [(2, ids[2]), (4, ids[3]), (7, variable), (5, ids[4]), (6, ids[2])] {
        writer.edge(0, 2, EdgeName::Text(name), to).unwrap();
    }
    writer.edge(0, 1, EdgeName::Index(0), 1).unwrap();
    writer.edge(1, 0, EdgeName::Text(variable), 2).unwrap();
    writer.edge(1, 0, EdgeName::Text(ids[2]), 2).unwrap();
    writer.edge(2, 3, EdgeName::Text(shared), 3).unwrap();
    // Another program's node of this name leads to no code of that name.
    writer.edge(4, 3, EdgeName::Text(shared), 3).unwrap();
    writer.edge(7, reference, EdgeName::Text(ids[3]), 8).unwrap();
    writer.trace_function_info(1, ids[2], ids[4], [0, 0, 0]).unwrap();
    writer.finish().unwrap().0
}

#[test]
fn a_functions_name_stays_where_the_compiler_wrote_it_down() {
    let of = |keep| strings(&redacted(&functions(), keep, &[]));
    let survived = |keep| {
        let new = of(keep);
        ["login", "userAlice", "visits"].map(|name| new.iter().any(|text| text == name))
    };
    assert_eq!(survived(Keep::Identifiers), [true, false, true]);
    assert_eq!(survived(Keep::Own), [false; 3]);
    assert_eq!(survived(Keep::Names), [true; 3]);
}

#[test]
fn addresses_and_other_programs_types_never_stay() {
    for keep in [Keep::Identifiers, Keep::Names, Keep::Own] {
        let bytes = redacted(&functions(), keep, &[]);
        let text = String::from_utf8(bytes.clone()).unwrap();
        for secret in ["alice.js", "https:", "bank", "acme"] {
            assert!(!text.contains(secret), "{keep:?} {secret}: {text}");
        }
        // Only as the name of a property, which was asked for.
        assert_eq!(text.contains("file:///home/alice/app.js"), keep == Keep::Names);
        let snapshot = crate::Snapshot::read(&bytes).unwrap();
        let graph = &snapshot.graph;
        assert!(
            graph
                .nodes()
                .all(|node| !snapshot.strings.text(graph.node_name(node)).contains("alice")),
            "{keep:?}"
        );
        assert!(
            graph
                .nodes()
                .any(|node| snapshot.node_type_name(graph.node_type(node)).starts_with("type "))
        );
        assert!(!snapshot.strings.text(snapshot.traces.functions[0].script_name).contains("alice"));
    }
}

/// A file of made-up strings in every role.
fn made(texts: &[String], uses: &[(u8, u8)]) -> Vec<u8> {
    use crate::write::{Counts, Layout};
    let nodes = uses.len() as u64;
    let counts = Counts { nodes, edges: nodes, trace_functions: 1 };
    let mut layout = Layout { scopes: true, ..Layout::node_24() };
    layout.node_types.push(format!("type of {}", texts[0]));
    let mut writer = Writer::new(Vec::new(), layout, counts, Hash::Mixed).unwrap();
    let ids: Vec<StringId> = texts.iter().map(|text| writer.string(text).unwrap()).collect();
    for (ordinal, (node_type, _)) in uses.iter().enumerate() {
        let node = Node::new(*node_type, ids[ordinal % ids.len()], ordinal as u64 * 2 + 1, 8);
        writer.node(&Node { edge_count: 1, ..node }).unwrap();
    }
    for (ordinal, (_, edge_type)) in uses.iter().enumerate() {
        let name = if matches!(edge_type, 1 | 4) {
            EdgeName::Index(3)
        } else {
            EdgeName::Text(ids[(ordinal * 7 + 1) % ids.len()])
        };
        writer.edge(ordinal as u64, *edge_type, name, 0).unwrap();
    }
    writer.trace_function_info(1, ids[0], ids[ids.len() / 2], [0, 0, 0]).unwrap();
    writer.finish().unwrap().0
}

/// What `Keep::Names` asks to keep in a file of `made`: names as V8's own type numbers say them,
/// not as the code under test does.
#[derive(Default)]
struct NamesUsed {
    /// Of properties, variables (0, 2) and roots (5).
    of_properties: HashSet<String>,
    /// Of objects, closures, code (3, 5, 4) and functions.
    of_classes: HashSet<String>,
    /// Names of internal and weak references (3, 6), under every `Keep`.
    of_slots: HashSet<String>,
}

impl NamesUsed {
    fn of(bytes: &[u8]) -> NamesUsed {
        let rows = Rows::find(bytes).unwrap();
        let texts = strings(bytes);
        let mut used = NamesUsed::default();
        let mut nodes = rows.nodes();
        while let Some(node) = nodes.read().unwrap() {
            if matches!(node.node_type, 3..=5) {
                used.of_classes.insert(texts[node.name.0 as usize].clone());
            }
        }
        let mut edges = rows.edges();
        while let Some(edge) = edges.read().unwrap() {
            match (edge.edge_type, edge.name) {
                (0 | 2 | 5, EdgeName::Text(name)) => {
                    used.of_properties.insert(texts[name.0 as usize].clone());
                }
                (3 | 6, EdgeName::Text(name)) => {
                    used.of_slots.insert(texts[name.0 as usize].clone());
                }
                _ => {}
            }
        }
        // Function and script of the one trace function: see `made`.
        let mut functions = rows.trace_functions();
        while let Some(function) = functions.read().unwrap() {
            used.of_classes.extend(
                [function.name, function.script_name].map(|name| texts[name.0 as usize].clone()),
            );
        }
        used
    }

    /// Addresses are no classes' names; where one is a part of several, the others may stay.
    fn may_keep_class(&self, text: &str) -> bool {
        let has_scheme = |part: &str| {
            let scheme = part.split_once(':').map_or("", |(scheme, _)| scheme);
            !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric())
        };
        self.of_classes.contains(text)
            && text.split(" / ").all(|part| !part.contains(['/', '\\']) && !has_scheme(part))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_other_string_of_the_original_survives(
        texts in prop::collection::vec("[a-z]{1,3}@[a-z]{3,9}\\.com|[A-Za-z]{6,12}|[a-zé€😀 /<>]{1,30}|[0-9]{1,12}|.", 1..80),
        uses in prop::collection::vec((0u8..16, 0u8..7), 1..120),
        which in 0..3usize,
    ) {
        let bytes = made(&texts, &uses);
        let keep = [Keep::Identifiers, Keep::Own, Keep::Names][which];
        let new = redacted(&bytes, keep, &["function allowed() {}"]);
        let originals: HashSet<String> = strings(&bytes).into_iter().collect();
        let own = Identifiers::own();
        let used = NamesUsed::of(&bytes);
        // Slot numbers of the runtime stay, because they tell nothing of the program: up to six
        // digits survive if an internal or weak reference of the original has that name, whole or
        // before " / ", and nowhere else.
        let slots = used.of_slots.clone();
        let asked = if keep == Keep::Names { used } else { NamesUsed::default() };
        for text in strings(&new) {
            // Tags and the parts of "Window / ..." are kept or not one by one.
            let part = |(place, part): (usize, &str)| {
                let digits = part.len() <= 6 && part.bytes().all(|byte| byte.is_ascii_digit());
                let slot = part.is_empty() || (digits && place == 0 && slots.contains(&text));
                let tag = part.strip_prefix('<').and_then(|part| part.strip_suffix('>')).is_some_and(|tag| HTML_TAGS.contains(&tag));
                slot || tag || own.contains(part.as_bytes()) || (keep == Keep::Identifiers && part == "allowed")
            };
            let allowed = text.split(" / ").enumerate().all(part) || asked.of_properties.contains(&text) || asked.may_keep_class(&text);
            prop_assert!(allowed || !originals.contains(&text), "{:?} survived", text);
        }
        let survived = NamesUsed::of(&new).of_properties;
        prop_assert!(asked.of_properties.is_subset(&survived), "{:?} asked for, {:?} kept", asked.of_properties, survived);
        let types = Rows::find(&new).unwrap().layout.node_types.clone();
        prop_assert_eq!(types.last().map(String::as_str), Some("type 15"));
        prop_assert_eq!(Rows::find(&new).unwrap().counts, Rows::find(&bytes).unwrap().counts);
    }

    #[test]
    fn no_part_of_a_pair_survives(
        key in "[ -~]{0,6}SECRET[0-9]{8} @[ -~]{0,12}|SECRET[0-9]{8} @[0-9]{1,13}\\) -> value \\(",
        value in "SECRET[0-9]{8}( @[ -~]{0,12}| @[0-9]{1,13}\\) -> value \\(| @1\\) pair in WeakMap \\(table @3\\)|)",
        source: bool,
    ) {
        let name = format!("1 / part of key ({key} @1) -> value ({value} @2) pair in WeakMap (table @3)");
        let sources = [key.as_str(), value.as_str()];
        for keep in [Keep::Identifiers, Keep::Names, Keep::Own] {
            let new = redacted_names(&[(&name, INTERNAL)], keep, if source { &sources } else { &[] });
            prop_assert!(!new[0].contains("SECRET"), "{:?} {:?}: {}", keep, name, new[0]);
            prop_assert_eq!(new[0].encode_utf16().count(), name.encode_utf16().count());
        }
    }
}
