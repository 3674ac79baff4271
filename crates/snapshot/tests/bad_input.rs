//! Files that are cut, lie, or are something else: each error has a byte offset and the expected
//! content, and time and memory stay bounded by the file's size.

mod heaps;

use heaplab_snapshot::{ReadError, ReadOptions, Snapshot};
use heaps::Heap;
use proptest::prelude::*;

fn heap() -> Heap {
    let mut heap = Heap::new();
    let session = heap.node("object", "Session", 16);
    let cache = heap.node("array", "cache", 32);
    heap.edge("property", 0, "session", session);
    heap.edge("element", session, "3", cache);
    heap.locations.push([session, 5, 1, 2]);
    heap
}

fn error(file: &str) -> ReadError {
    Snapshot::read(file.as_bytes()).map(|_| ()).expect_err(file)
}

/// Replaces a piece of the good file. The error must be at `at` (found in the changed file) with
/// the given expectation.
fn refused(from: &str, to: &str, at: &str, expected: &str) {
    let good = heap().file();
    assert!(good.contains(from), "{from} is not in {good}");
    let bad = good.replacen(from, to, 1);
    let error = error(&bad);
    let place = bad.find(at).unwrap_or_else(|| panic!("{at} is not in {bad}"));
    assert_eq!(error.offset as usize, place, "{error}\n{bad}");
    assert!(error.expected.contains(expected), "{error}");
}

// The good file's lists: nodes [9,0,1,0,1,0, 3,2,3,16,1,0, 1,3,5,32,0,0], edges [2,1,6, 1,3,12],
// locations [6,5,1,2].
const NODES: &str = "\"nodes\":[9, 0, 1, 0, 1, 0, 3, 2, 3, 16, 1, 0, 1, 3, 5, 32, 0, 0]";
const EDGES: &str = "\"edges\":[2, 1, 6, 1, 3, 12]";

/// The replaced text, its replacement, the text at which the error must be, and the expectation.
const REFUSED: &[(&str, &str, &str, &str)] = &[
    // Keys in another order.
    ("\"nodes\"", "\"edges\":[],\"nodes\"", "\"edges\"", "the key `nodes`"),
    ("\"edges\"", "\"edge5\"", "\"locations\"", "the key `edges`"),
    (
        "\"locations\"",
        "\"strings\":[],\"locations\"",
        "\"locations\":[6",
        "a key that comes behind `strings`",
    ),
    ("\"strings\":", "\"string5\":", "}\n", "the key `strings`"),
    ("\"edges\"", "\"nodes\":[],\"edges\"", "\"nodes\":[],", "a key that comes behind `nodes`"),
    // Indices out of range.
    ("\"nodes\":[9, 0", "\"nodes\":[15, 0", "15, 0, 1", "a node type below 15"),
    ("9, 0, 1, 0", "9, 77, 1, 0", "77", "a string's number below 4"),
    ("[2, 1, 6", "[7, 1, 6", "7, 1, 6", "an edge type below 7"),
    ("[2, 1, 6", "[2, 9, 6", "9, 6", "a string's number below 4"),
    ("[2, 1, 6", "[2, 1, 18", "18", "a multiple of 6 below 18"),
    ("[2, 1, 6", "[2, 1, 7", "7, 1, 3", "a multiple of 6 below 18"),
    ("[2, 1, 6", "[2, 1, 4611686018427387904", "4611686018427387904", "a multiple of 6"),
    ("[6, 5, 1, 2]", "[7, 5, 1, 2]", "7, 5, 1, 2", "a multiple of 6"),
    ("[6, 5, 1, 2]", "[6, 5, 1, 4294967296]", "4294967296", "a column below 2^32"),
    ("9, 0, 1, 0", "9, 0, 4294967296, 0", "4294967296", "an id below 2^32"),
    (
        "9, 0, 1, 0",
        "9, 0, 99999999999999999999, 0",
        "99999999999999999999",
        "an integer below 2^64",
    ),
    // Counts that lie.
    ("\"node_count\":3", "\"node_count\":2", "1, 3, 5, 32", "`]` behind 2 nodes"),
    (
        "\"node_count\":3",
        "\"node_count\":4",
        "],\n\"edges\"",
        "4 nodes, as the header says (3 are there)",
    ),
    ("\"edge_count\":2", "\"edge_count\":3", "],\n\"edges\"", "nodes with 3 edges together"),
    ("\"edge_count\":2", "\"edge_count\":1", "1, 0, 1, 3, 5", "at most 1 edges together"),
    ("1, 3, 12]", "1, 3]", "],\n\"locations", "a comma: rows have 3 fields"),
    ("1, 3, 12]", "1, 3, 12, 4, 5, 6]", "4, 5, 6", "`]` behind 2 edges"),
    // Before any memory is asked for.
    (
        "\"node_count\":3",
        "\"node_count\":3000000000000000000",
        "3000000000000000000",
        "a `node_count` of at most",
    ),
    ("\"edge_count\":2", "\"edge_count\":4000000000", "4000000000", "a `edge_count` of at most"),
    (
        "32, 0, 0]",
        "32, 18446744073709551615, 0]",
        "18446744073709551615",
        "at most 2 edges together",
    ),
    // Headers that lack a needed part.
    ("\"self_size\"", "\"size\"", "[\"type\", \"name\"", "the node field `self_size`"),
    ("\"to_node\"", "\"target\"", "[\"type\", \"name_or_index\"", "the edge field `to_node`"),
    ("\"node_count\"", "\"nodes\"", "{\"meta\"", "a header with the key `node_count`"),
    ("\"node_types\"", "\"node_type5\"", "{\"node_fields\"", "names of node types"),
    // What stands behind the end.
    ("]}\n", "]}?", "?", "the end of the file"),
];

#[test]
fn each_lie_is_refused_at_its_place() {
    for (from, to, at, expected) in REFUSED {
        refused(from, to, at, expected);
    }
}

#[test]
fn the_good_file_is_good() {
    let file = heap().file();
    assert!(file.contains(NODES) && file.contains(EDGES), "{file}");
    assert_eq!(Snapshot::read(file.as_bytes()).unwrap().graph.edge_count(), 2);
}

#[test]
fn what_is_no_snapshot() {
    assert!(error("").to_string().contains("empty file"));
    assert!(error("[1,2]").expected.contains("snapshot"));
    assert!(error("{\"head\":{}}").expected.contains("snapshot"));
    assert!(error("{\"nodes\":[]}").expected.contains("snapshot"));
    assert!(error("\u{1f600}").expected.contains("snapshot"));
    assert!(error("{").to_string().contains("was cut"));
}

#[test]
fn every_cut_is_refused_at_or_before_its_end() {
    let good = heap().file();
    for length in 0..good.trim_end().len() {
        let error = error(&good[..length]);
        assert!(error.offset as usize <= length, "{length}: {error}");
    }
}

#[test]
fn element_indices_are_no_strings() {
    let file = heap().file().replacen("1, 3, 12]", "1, 300000, 12]", 1);
    assert_eq!(Snapshot::read(file.as_bytes()).unwrap().graph.edge_name(1), 300_000);
}

#[test]
fn duplicated_ids_are_refused_unless_they_are_allowed() {
    refused("3, 2, 3, 16", "3, 2, 1, 16", "1, 16, 1", "an id that no other node has");
    let far = heap().file().replacen("3, 2, 3, 16", "3, 2, 4000000001, 16", 1).replacen(
        "1, 3, 5, 32",
        "1, 3, 4000000001, 32",
        1,
    );
    assert!(error(&far).expected.contains("an id that no other"));
    let options = ReadOptions { allow_duplicate_ids: true, ..ReadOptions::default() };
    assert!(Snapshot::read_with(far.as_bytes(), &options).is_ok());
}

#[test]
fn lone_surrogates_are_kept_apart_and_shown_as_one_sign() {
    let file = heap().file().replacen("\"Session\"", "\"a\\ud83d\"", 1).replacen(
        "\"cache\"",
        "\"a\\ud83e\"",
        1,
    );
    let snapshot = Snapshot::read(file.as_bytes()).unwrap();
    let (one, other) = (snapshot.graph.node_name(1), snapshot.graph.node_name(2));
    assert_ne!(snapshot.strings.bytes(one), snapshot.strings.bytes(other));
    assert_eq!(snapshot.strings.text(one), "a\u{fffd}");
    refused("\"Session\"", "\"Se\\usion\"", "\\us", "an escape of JSON");
    refused("\"Session\"", "\"Se\nsion\"", "\nsion", "an escaped control character");
}

#[test]
fn unknown_keys_and_signed_lists_are_skipped() {
    for more in [",\"more\":[1,{\"a\":null}]", ",\"comment\":\"]}\""] {
        let file = heap().file().replacen("]}\n", &format!("]{more}}}\n"), 1);
        assert!(Snapshot::read(file.as_bytes()).is_ok(), "{file}");
    }
    let scopes = heap().file().replacen("\"strings\"", "\"scopes\":[1,-2,0],\"strings\"", 1);
    assert!(Snapshot::read(scopes.as_bytes()).is_ok());
}

#[test]
fn a_type_that_is_named_twice_is_refused_by_every_reader() {
    let twice = heap().file().replacen("\"property\"", "\"element\"", 1);
    assert!(error(&twice).to_string().contains("`element` twice"), "{}", error(&twice));
    let report = heaplab_snapshot::validate::validate(twice.as_bytes(), &mut |_, _| ());
    assert!(report.damage.is_some_and(|damage| damage.to_string().contains("each once")));
}

#[test]
fn deep_nesting_takes_no_stack() {
    let deep = format!(
        "{},\"x\":{}",
        heap().file().trim_end().strip_suffix('}').unwrap(),
        "[".repeat(1_000_000)
    );
    assert!(error(&deep).to_string().contains("the end of the file"));
    let tree = heap().file().replacen("\"location_fields\"", "\"trace_function_info_fields\":[\"function_id\",\"name\",\"script_name\",\"script_id\",\"line\",\"column\"],\"trace_node_fields\":[\"id\",\"function_info_index\",\"count\",\"size\",\"children\"],\"location_fields\"", 1);
    let tree = tree.replacen("\"edge_count\":2", "\"edge_count\":2,\"trace_function_count\":1", 1);
    let calls = (0..200_000).map(|id| format!("{id},0,1,8,[")).collect::<String>();
    let lists = format!(
        "\"trace_function_infos\":[1,0,0,3,4,5],\"trace_tree\":[{calls}{}],\"locations\"",
        "]".repeat(200_000)
    );
    let tree = tree.replacen("\"locations\"", &lists, 1);
    let snapshot = Snapshot::read(tree.as_bytes()).unwrap();
    assert_eq!(
        (snapshot.traces.nodes.len(), snapshot.traces.nodes[199_999].parent),
        (200_000, Some(199_998))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// One byte is another, or some are gone: an answer or an error within the file, and the same
    /// with two threads.
    #[test]
    fn damage_never_panics(at in any::<prop::sample::Index>(), byte in any::<u8>(), gone in 0usize..4) {
        let mut bytes = heap().file().into_bytes();
        let at = at.index(bytes.len());
        bytes.splice(at..(at + gone).min(bytes.len()), [byte]);
        let one = Snapshot::read(&bytes).map(|snapshot| heaplab_snapshot::analysis::Analysis::of(&snapshot, &Default::default()).total_bytes());
        let two = Snapshot::read_with(&bytes, &ReadOptions { threads: 2, ..ReadOptions::default() });
        if let Err(error) = &one {
            prop_assert!(error.offset as usize <= bytes.len());
        }
        prop_assert_eq!(one.err(), two.err());
    }
}
