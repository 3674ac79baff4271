//! Rewrites of small heaps, read by the crate's reader and compared.

use super::*;
use crate::Snapshot;
use crate::analysis::{Analysis, Options};
use crate::names::Hash;
use crate::rows::Rows;
use crate::validate::validate;
use crate::write::{Counts, EdgeName, Layout, Node, Scope, Writer, edge_type};

/// A heap with every kind of list: a root, a class twice, a string, a WeakMap pair.
pub(super) fn heap() -> Vec<u8> {
    let counts = Counts { nodes: 5, edges: 7, trace_functions: 1 };
    let mut writer = Writer::new(Vec::new(), Layout::node_20(), counts, Hash::Mixed).unwrap();
    let mut name = |text: &str| writer.string(text).unwrap();
    let (root, session, secret, mail) =
        (name(""), name("Session"), name("s3cret contents"), name("eve@example.com"));
    let pair =
        name("1 / part of key (Session @3) -> value (Session @5) pair in WeakMap (table @9)");
    let (user, function) = (name("user"), name("login"));
    let edges = [3, 2, 1, 0, 1];
    let rows = [
        (9, root, 1, 0),
        (3, session, 3, 24),
        (3, session, 5, 32),
        (2, secret, 7, 40),
        (1, session, 9, 16),
    ];
    for ((node_type, name, id, self_size), edge_count) in rows.into_iter().zip(edges) {
        writer
            .node(&Node {
                edge_count,
                trace_node_id: id / 9,
                ..Node::new(node_type, name, id, self_size)
            })
            .unwrap();
    }
    writer.edge(0, edge_type::ELEMENT, EdgeName::Index(1), 1).unwrap();
    writer.edge(0, edge_type::SHORTCUT, EdgeName::Text(user), 2).unwrap();
    writer.edge(0, edge_type::ELEMENT, EdgeName::Index(2), 4).unwrap();
    writer.edge(1, edge_type::PROPERTY, EdgeName::Text(mail), 3).unwrap();
    writer.edge(1, edge_type::INTERNAL, EdgeName::Text(pair), 2).unwrap();
    writer.edge(2, edge_type::CONTEXT, EdgeName::Text(user), 3).unwrap();
    writer.edge(4, edge_type::INTERNAL, EdgeName::Text(pair), 2).unwrap();
    writer.trace_function_info(1, function, secret, [2, 3, 4]).unwrap();
    writer.open_trace_node([1, 0, 5, 6]).unwrap();
    writer.close_trace_node().unwrap();
    writer.sample(0, 9).unwrap();
    writer.location(1, 2, 3, 4).unwrap();
    writer.finish().unwrap().0
}

/// (type, name, id, size) of each node, (type, name, target) of each edge.
type Lists = (Vec<(String, String, u32, u64)>, Vec<(String, String, u32)>);

pub(super) fn lists(bytes: &[u8]) -> Lists {
    assert!(validate(bytes, &mut |_, _| ()).is_good(), "{}", String::from_utf8_lossy(bytes));
    let snapshot = Snapshot::read(bytes).unwrap();
    let graph = &snapshot.graph;
    let nodes = graph.nodes().map(|node| {
        let name = snapshot.strings.text(graph.node_name(node)).to_string();
        (
            snapshot.node_type_name(graph.node_type(node)).to_owned(),
            name,
            graph.id(node),
            graph.self_size(node),
        )
    });
    let edges = graph.nodes().flat_map(|node| graph.edges(node)).map(|edge| {
        let edge_type = graph.edge_type(edge);
        let name = match snapshot.edge_type_name(edge_type) {
            "element" | "hidden" => graph.edge_name(edge).to_string(),
            _ => snapshot.strings.text(graph.edge_name(edge)).to_string(),
        };
        (snapshot.edge_type_name(edge_type).to_owned(), name, graph.target(edge))
    });
    (nodes.collect(), edges.collect())
}

fn quiet(_: u64, _: u64) {}

#[test]
fn every_target_is_the_same_heap() {
    let bytes = heap();
    let expected = lists(&bytes);
    for (name, target) in Target::ALL {
        let (converted, _) =
            convert(&Rows::find(&bytes).unwrap(), target, Vec::new(), &mut quiet).unwrap();
        assert_eq!(lists(&converted), expected, "{name}");
        let (back, _) =
            convert(&Rows::find(&converted).unwrap(), Target::Node20, Vec::new(), &mut quiet)
                .unwrap();
        if target != Target::Node12 {
            assert_eq!(
                String::from_utf8(back).unwrap(),
                String::from_utf8(bytes.clone()).unwrap(),
                "{name} and back"
            );
        }
    }
    let (same, _) =
        convert(&Rows::find(&bytes).unwrap(), Target::Same, Vec::new(), &mut quiet).unwrap();
    assert_eq!(same, bytes);
}

#[test]
fn fields_are_found_by_their_names() {
    let mut text = String::from_utf8(heap()).unwrap();
    for (usual, permuted) in [
        (
            r#"["function_id","name","script_name","script_id","line","column"]"#,
            r#"["name","column","function_id","more","script_id","script_name","line"]"#,
        ),
        (r#""trace_function_infos":[1,6,2,2,3,4"#, r#""trace_function_infos":[6,4,1,99,2,2,3"#),
        (
            r#"["id","function_info_index","count","size","children"]"#,
            r#"["size","id","count","function_info_index","more","children"]"#,
        ),
        (r#""trace_tree":[1,0,5,6,[]"#, r#""trace_tree":[6,1,5,0,99,[]"#),
        (r#"["timestamp_us","last_assigned_id"]"#, r#"["last_assigned_id","more","timestamp_us"]"#),
        (r#""samples":[0,9"#, r#""samples":[9,99,0"#),
        (
            r#"["object_index","script_id","line","column"]"#,
            r#"["column","more","line","object_index","script_id"]"#,
        ),
        (r#""locations":[7,2,3,4"#, r#""locations":[4,99,3,7,2"#),
        (r#"["type","name_or_index","to_node"]"#, r#"["to_node","type","name_or_index"]"#),
        (r#""edge_types":[["#, r#""edge_types":["node",["#),
        (r#"],"string_or_number","node"]"#, r#"],"string_or_number"]"#),
    ] {
        assert!(text.contains(usual), "{usual} is not in {text}");
        text = text.replace(usual, permuted);
    }
    let (start, end) =
        (text.find("\"edges\":[").unwrap() + 9, text.find("],\n\"trace_function_infos\"").unwrap());
    let numbers: Vec<&str> = text[start..end].split(',').map(str::trim).collect();
    let edges: Vec<String> =
        numbers.chunks(3).map(|row| format!("{},{},{}", row[2], row[0], row[1])).collect();
    text.replace_range(start..end, &edges.join(","));
    assert!(
        validate(text.as_bytes(), &mut quiet).is_good(),
        "{:?}",
        validate(text.as_bytes(), &mut quiet)
    );
    let (same, _) =
        convert(&Rows::find(text.as_bytes()).unwrap(), Target::Lines, Vec::new(), &mut quiet)
            .unwrap();
    assert_eq!(String::from_utf8(same).unwrap(), String::from_utf8(heap()).unwrap());
    for (from, to) in [
        ("\"timestamp_us\"", "\"time\""),
        ("\"script_name\"", "\"script\""),
        ("\"children\"", "\"calls\""),
        ("\"line\"", "\"row\""),
    ] {
        let damage = Rows::find(text.replace(from, to).as_bytes()).unwrap_err().to_string();
        assert!(damage.contains("field"), "{damage}");
    }
}

#[test]
fn scopes_that_do_not_belong_together_are_damage() {
    let layout = Layout { scopes: true, ..Layout::node_24() };
    let file = |context_vars, uses| {
        let mut writer = Writer::new(
            Vec::new(),
            layout.clone(),
            Counts { nodes: 1, ..Counts::default() },
            Hash::Mixed,
        )
        .unwrap();
        let name = writer.string("variable").unwrap();
        writer.node(&Node::new(9, name, 1, 0)).unwrap();
        writer.scope(Scope { script: 0, id: -2, depth: 0, context_vars, uses }).unwrap();
        writer.scope_context_var(name).unwrap();
        writer.scope_use(-2, 0).unwrap();
        writer.finish().unwrap().0
    };
    let bytes = file(1, 1);
    assert!(
        bytes.windows(22).any(|piece| piece == b"\"scopes\":[0,-2,0,1,1],"),
        "{}",
        String::from_utf8_lossy(&bytes)
    );
    let same = |bytes: &[u8]| {
        convert(&Rows::find(bytes).unwrap(), Target::Same, Vec::new(), &mut quiet)
            .map(|(bytes, _)| bytes)
    };
    assert_eq!(same(&bytes).unwrap(), bytes);
    for (context_vars, uses) in [(0, 1), (2, 1), (1, 0), (1, 2), (u32::MAX.into(), 1)] {
        assert!(
            matches!(same(&file(context_vars, uses)), Err(RewriteError::Scopes)),
            "{context_vars} {uses}"
        );
        assert!(
            !validate(&file(context_vars, uses), &mut quiet).is_good(),
            "{context_vars} {uses}"
        );
    }
    let node =
        convert(&Rows::find(&bytes).unwrap(), Target::Node24, Vec::new(), &mut quiet).unwrap().0;
    assert!(!String::from_utf8(node).unwrap().contains("scope"));
}

#[test]
fn types_of_other_programs_are_kept_and_later_ones_hidden() {
    let text = String::from_utf8(heap()).unwrap();
    let text = text
        .replace("\"wasm object\"]", "\"object shape 2\"]")
        .replacen("\n,3,1,3,", "\n,15,1,3,", 1)
        .replacen("\n,3,1,5,", "\n,14,1,5,", 1);
    let (converted, _) =
        convert(&Rows::find(text.as_bytes()).unwrap(), Target::Node12, Vec::new(), &mut quiet)
            .unwrap();
    let (nodes, _) = lists(&converted);
    assert_eq!((nodes[1].0.as_str(), nodes[2].0.as_str()), ("object shape 2", "hidden"));
}

#[test]
fn a_ladder_has_what_it_says() {
    let bytes = heap();
    let (nodes, edges) = lists(&bytes);
    for copies in [1, 2, 5] {
        let (tall, ladder) =
            ladder(&Rows::find(&bytes).unwrap(), copies, Vec::new(), &mut quiet).unwrap();
        let (tall_nodes, tall_edges) = lists(&tall);
        assert_eq!(
            (tall_nodes.len() as u64, tall_edges.len() as u64),
            (ladder.nodes, ladder.edges)
        );
        assert_eq!((ladder.nodes, ladder.edges), (1 + copies * 4, copies * 7));
        assert_eq!(ladder.self_size_bytes, tall_nodes.iter().map(|node| node.3).sum::<u64>());
        assert_eq!(tall_nodes.iter().filter(|node| node.1 == "Session").count() as u64, copies * 3);
        let ids: std::collections::HashSet<u32> = tall_nodes.iter().map(|node| node.2).collect();
        assert_eq!(ids.len(), tall_nodes.len(), "every node has an id of its own");
        // Tables of WeakMap pairs are named by their copies' ids.
        for (_, name, _) in tall_edges.iter().filter(|edge| edge.1.contains("WeakMap")) {
            let table: u32 =
                name.rsplit('@').next().unwrap().trim_end_matches(')').parse().unwrap();
            assert!(tall_nodes.iter().any(|node| node.2 == table && node.0 == "array"), "{name}");
        }
        if copies == 1 {
            assert_eq!((&tall_nodes, &tall_edges), (&nodes, &edges));
        }
    }
    assert!(matches!(
        ladder(&Rows::find(&bytes).unwrap(), 0, Vec::new(), &mut quiet),
        Err(RewriteError::Asked(_))
    ));
    assert!(matches!(
        ladder(&Rows::find(&bytes).unwrap(), 1 << 40, Vec::new(), &mut quiet),
        Err(RewriteError::Asked(_))
    ));
}

/// A root, two holders, three sessions that hold two strings each (one shared by all), and 50
/// others.
fn sessions() -> Vec<u8> {
    let others = 50;
    let counts = Counts { nodes: 10 + others, edges: 11 + others, trace_functions: 0 };
    let mut writer = Writer::new(Vec::new(), Layout::node_24(), counts, Hash::Mixed).unwrap();
    let mut name = |text: &str| writer.string(text).unwrap();
    let [root, holder, session, own, shared, other] =
        ["", "Holder", "Session", "own", "shared", "Other"].map(&mut name);
    let mut node = |node_type, name, id, self_size, edge_count| {
        writer.node(&Node { edge_count, ..Node::new(node_type, name, id, self_size) }).unwrap();
    };
    node(9, root, 1, 0, 2 + others);
    (0..2).for_each(|holder_number| {
        node(3, holder, 3 + holder_number * 2, 16, if holder_number == 0 { 3 } else { 0 })
    });
    (0..3).for_each(|number| node(3, session, 11 + number * 2, 32, 2));
    (0..3).for_each(|number| node(2, own, 21 + number * 2, 100, 0));
    node(2, shared, 31, 1000, 0);
    (0..others).for_each(|number| node(3, other, 101 + number * 2, 8, 0));
    let mut edge =
        |from, to| writer.edge(from, edge_type::ELEMENT, EdgeName::Index(to), to).unwrap();
    (1..3).chain(10..10 + others).for_each(|to| edge(0, to));
    (3..6).for_each(|to| edge(1, to));
    (3..6).for_each(|session| {
        edge(session, session + 3);
        edge(session, 9);
    });
    writer.finish().unwrap().0
}

#[test]
fn a_class_is_kept_with_what_it_retains_and_its_ways() {
    let bytes = sessions();
    let snapshot = Snapshot::read(&bytes).unwrap();
    let analysis = Analysis::of(&snapshot, &Options::default());
    let trimming = Trimming { objects: &[3, 4, 5], referrers_max: 10 };
    let (small, trimmed) =
        trim(&Rows::find(&bytes).unwrap(), &analysis, &trimming, Vec::new(), &mut quiet).unwrap();
    // The root, the holder that leads to them, three sessions, their own strings. The holder
    // retains what the sessions share.
    assert_eq!((trimmed.nodes, trimmed.edges), ((8, 60), (7, 61)));
    let (nodes, edges) = lists(&small);
    let ids: Vec<u32> = nodes.iter().map(|node| node.2).collect();
    assert_eq!((ids, edges.len()), (vec![1, 3, 11, 13, 15, 21, 23, 25], 7));
    let small_snapshot = Snapshot::read(&small).unwrap();
    let small_analysis = Analysis::of(&small_snapshot, &Options::default());
    for node in [11, 13, 15] {
        let (before, after) = (
            snapshot.graph.node_by_id(node).unwrap(),
            small_snapshot.graph.node_by_id(node).unwrap(),
        );
        assert_eq!(analysis.retained_size(before), small_analysis.retained_size(after));
        assert_eq!(analysis.distance(before), small_analysis.distance(after));
    }
    // The holder retains everything, shared objects too.
    let trimming = Trimming { objects: &[1], referrers_max: 10 };
    let (_, trimmed) =
        trim(&Rows::find(&bytes).unwrap(), &analysis, &trimming, Vec::new(), &mut quiet).unwrap();
    assert_eq!(trimmed.nodes.0, 9);
    let nothing = Trimming { objects: &[], referrers_max: 10 };
    assert_eq!(
        trim(&Rows::find(&bytes).unwrap(), &analysis, &nothing, Vec::new(), &mut quiet)
            .unwrap()
            .1
            .nodes
            .0,
        1
    );
    let beyond = Trimming { objects: &[60], referrers_max: 10 };
    assert!(matches!(
        trim(&Rows::find(&bytes).unwrap(), &analysis, &beyond, Vec::new(), &mut quiet),
        Err(RewriteError::Asked(_))
    ));
    let other = heap();
    assert!(matches!(
        trim(&Rows::find(&other).unwrap(), &analysis, &trimming_of_none(), Vec::new(), &mut quiet),
        Err(RewriteError::Asked(_))
    ));
}

fn trimming_of_none() -> Trimming<'static> {
    Trimming { objects: &[], referrers_max: 0 }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn what_was_retained_stays_retained(
        targets in proptest::collection::vec(proptest::collection::vec(0u64..40, 0..4), 40),
        asked in proptest::collection::vec(1u32..40, 1..4),
        referrers_max in 0usize..4,
    ) {
        let edges: usize = targets.iter().map(Vec::len).sum();
        let counts = Counts { nodes: 40, edges: edges as u64, trace_functions: 0 };
        let mut writer = Writer::new(Vec::new(), Layout::node_24(), counts, Hash::Mixed).unwrap();
        let name = writer.string("Thing").unwrap();
        for (ordinal, list) in targets.iter().enumerate() {
            let node_type = if ordinal == 0 { 9 } else { 3 };
            writer.node(&Node { edge_count: list.len() as u64, ..Node::new(node_type, name, ordinal as u64 * 2 + 1, 8) }).unwrap();
        }
        for (ordinal, list) in targets.iter().enumerate() {
            for target in list {
                writer.edge(ordinal as u64, edge_type::PROPERTY, EdgeName::Text(name), *target).unwrap();
            }
        }
        let bytes = writer.finish().unwrap().0;
        let snapshot = Snapshot::read(&bytes).unwrap();
        let analysis = Analysis::of(&snapshot, &Options::default());
        let trimming = Trimming { objects: &asked, referrers_max };
        let (small, _) = trim(&Rows::find(&bytes).unwrap(), &analysis, &trimming, Vec::new(), &mut quiet).unwrap();
        let small_snapshot = Snapshot::read(&small).unwrap();
        let small_analysis = Analysis::of(&small_snapshot, &Options::default());
        for node in &asked {
            let new = small_snapshot.graph.node_by_id(snapshot.graph.id(*node)).unwrap();
            proptest::prop_assert!(small_analysis.retained_size(new) >= analysis.retained_size(*node));
            proptest::prop_assert_eq!(small_analysis.distance(new), analysis.distance(*node));
        }
    }
}

/// Every list in one file, with its fields in another order where readers must look at their names.
const EVERY_LIST: &[u8] = include_bytes!("../../../../fuzz/seeds/snapshot_rewrite/scopes");

/// A file that `validate` calls good can be rewritten, and the result is good.
fn rewrites_keep_their_word(bytes: &[u8]) {
    let good = validate(bytes, &mut quiet).is_good();
    let Ok(rows) = Rows::find(bytes) else {
        // Of the readable files, only one whose root is not the first node cannot be rewritten.
        return assert!(Snapshot::read(bytes).map_or(!good, |snapshot| snapshot.graph.root() != 0));
    };
    let check = |what: &str, written: Result<Vec<u8>, RewriteError>| match written {
        Ok(new) => {
            assert!(
                validate(&new, &mut quiet).is_good(),
                "{what}: {}\n{}",
                String::from_utf8_lossy(bytes),
                String::from_utf8_lossy(&new)
            )
        }
        Err(RewriteError::Asked(_)) => {}
        Err(error) => assert!(!good, "{what}: {error}: {}", String::from_utf8_lossy(bytes)),
    };
    for (name, target) in Target::ALL {
        check(name, convert(&rows, target, Vec::new(), &mut quiet).map(|(bytes, _)| bytes));
    }
    check("ladder", ladder(&rows, 3, Vec::new(), &mut quiet).map(|(bytes, _)| bytes));
    for keep in [Keep::Identifiers, Keep::Names, Keep::Own] {
        let redaction = Redaction { keep, identifiers: Identifiers::own(), key: Key::new([1; 32]) };
        check("redact", redact(&rows, redaction, Vec::new(), &mut quiet).map(|(bytes, _)| bytes));
    }
    if let Ok(snapshot) = Snapshot::read(bytes) {
        let analysis = Analysis::of(&snapshot, &Options::default());
        let trimming = Trimming { objects: &[0], referrers_max: 2 };
        check(
            "trim",
            trim(&rows, &analysis, &trimming, Vec::new(), &mut quiet).map(|(bytes, _)| bytes),
        );
    }
}

#[test]
fn a_root_that_is_not_the_first_node_is_read_and_not_rewritten() {
    let text = String::from_utf8(heap()).unwrap().replacen(
        "\"trace_function_count\":1",
        "\"trace_function_count\":1,\"root_index\":7",
        1,
    );
    assert!(
        validate(text.as_bytes(), &mut quiet).is_good(),
        "{:?}",
        validate(text.as_bytes(), &mut quiet)
    );
    let refused = Rows::find(text.as_bytes()).unwrap_err();
    assert!(refused.expected.contains("a root that is the first node"), "{refused}");
    rewrites_keep_their_word(text.as_bytes());
}

#[test]
fn a_file_with_every_list_is_rewritten() {
    assert!(validate(EVERY_LIST, &mut quiet).is_good());
    rewrites_keep_their_word(EVERY_LIST);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]
    #[test]
    fn damage_is_refused_or_written_anew(
        changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), proptest::sample::select(&b"0123456789,-[]\"a:{}"[..])), 1..4),
        gone in 0usize..3,
    ) {
        let mut bytes = EVERY_LIST.to_vec();
        // Half of the changes among the rows, which are the smaller part of the file.
        for (number, (at, byte)) in changes.into_iter().enumerate() {
            let from = if number % 2 == 0 { 1000 } else { 0 };
            let at = from + at.index(bytes.len() - from);
            bytes.splice(at..(at + gone).min(bytes.len()), [byte]);
        }
        rewrites_keep_their_word(&bytes);
    }
}

/// A file with shared ids is refused with the reader's own words. With permission it is rewritten
/// with an id each, and the first nodes keep theirs.
#[test]
fn shared_ids_are_refused_at_their_byte_or_made_new() {
    let file = String::from_utf8(heap()).unwrap();
    let shared = file.replacen(",5,32,", ",3,32,", 1).replacen(",7,40,", ",3,40,", 1);
    assert_ne!(file, shared);
    let shared = shared.as_bytes();
    let expected = Snapshot::read(shared).unwrap_err();
    assert_eq!(&shared[expected.offset as usize..][..5], b"3,32,");
    let mut rows = Rows::find(shared).unwrap();
    let refused =
        |error: RewriteError| matches!(error, RewriteError::Damage(damage) if damage == expected);
    assert!(refused(
        convert(&rows, Target::Same, Vec::new(), &mut |_, _| ()).map(drop).unwrap_err()
    ));
    let redaction = || Redaction {
        keep: Keep::default(),
        identifiers: Identifiers::own(),
        key: Key::new([7; 32]),
    };
    assert!(refused(redact(&rows, redaction(), Vec::new(), &mut |_, _| ()).map(drop).unwrap_err()));
    rows.allow_duplicate_ids();
    let ids = |bytes: &[u8]| lists(bytes).0.into_iter().map(|(_, _, id, _)| id).collect::<Vec<_>>();
    assert_eq!(
        ids(&convert(&rows, Target::Same, Vec::new(), &mut |_, _| ()).unwrap().0),
        [1, 3, 11, 13, 9]
    );
    assert_eq!(
        ids(&redact(&rows, redaction(), Vec::new(), &mut |_, _| ()).unwrap().0),
        [1, 3, 11, 13, 9]
    );
    // Even ones stay even.
    let even = file.replacen(",3,24,", ",4,24,", 1).replacen(",5,32,", ",4,32,", 1);
    let mut rows = Rows::find(even.as_bytes()).unwrap();
    rows.allow_duplicate_ids();
    assert_eq!(
        ids(&convert(&rows, Target::Same, Vec::new(), &mut |_, _| ()).unwrap().0),
        [1, 4, 10, 7, 9]
    );
}

#[test]
fn a_secret_ends_before_its_line_end() {
    for line_end in ["", "\n", "\r\n"] {
        let text = format!("a secret{line_end}");
        assert_eq!(Key::of_secret(text.as_bytes()), Some((Key::of_text(b"a secret"), 8)));
        assert_eq!(Key::of_secret(line_end.as_bytes()), None);
    }
    assert_ne!(Key::of_text(b"a secret"), Key::of_text(b"a secres"));
}
