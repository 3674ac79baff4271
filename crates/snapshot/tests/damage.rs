//! All readers report the same damage: the same fault in a list, at the same byte. `validate` calls
//! exactly those files good that can be read and rewritten.

use heaplab_snapshot::rewrite::{Target, convert};
use heaplab_snapshot::rows::Rows;
use heaplab_snapshot::validate::{Oddity, validate};
use heaplab_snapshot::write::Section;
use heaplab_snapshot::{ReadOptions, Snapshot};

/// A file with every list, in V8's order of fields. The root has two edges, the object and the code
/// one each.
const GOOD: &str = r#"{"snapshot":{"meta":{"node_fields":["type","name","id","self_size","edge_count","trace_node_id","detachedness"],"node_types":[["hidden","array","string","object","code","synthetic"],"string","number","number","number","number","number"],"edge_fields":["type","name_or_index","to_node"],"edge_types":[["context","element","property","internal","hidden","shortcut","weak"],"string_or_number","node"],"trace_function_info_fields":["function_id","name","script_name","script_id","line","column"],"trace_node_fields":["id","function_info_index","count","size","children"],"sample_fields":["timestamp_us","last_assigned_id"],"location_fields":["object_index","script_id","script_object_index","line","column"],"scope_fields":["script_node_index","scope_id","depth","scope_context_vars_count","scope_uses_count"],"scope_context_var_fields":["name"],"scope_use_fields":["declaring_scope_id","slot_index"]},"node_count":3,"edge_count":4,"trace_function_count":2},
"nodes":[5,0,1,0,2,0,0,3,1,3,16,1,2,1,4,2,5,64,1,0,2],
"edges":[1,33,7,2,3,14,3,3,14,6,4,7],
"trace_function_infos":[70,1,2,80,81,82,71,3,4,80,83,84],
"trace_tree":[1,0,91,92,[2,1,93,94,[]]],
"samples":[1001,3,1002,5],
"locations":[7,80,14,85,86],
"scopes":[14,-2,0,1,0,14,0,1,0,2],
"scope_context_vars":[3],
"scope_uses":[-2,0,-2,40],
"strings":["(root)","Session","a\n.js","user","weak\u00e9"]}"#;

/// The replaced text, its replacement, the first wrong byte in the changed file, and the
/// expectation.
type Case = (&'static str, &'static str, &'static str, &'static str);

const HEADER: &[Case] = &[
    ("{\"snapshot\"", "{\"snap\"", "\"snap\"", "the key `snapshot`"),
    ("{\"snapshot\":{", "{\"snapshot\":[", "[\"meta\"", "the header, an object"),
    ("\"node_count\":3", "\"node_count\":x", "x,\"edge_count", "the number of nodes"),
    ("\"node_count\":3", "\"nodes\":3", "{\"meta\"", "a header with the key `node_count`"),
    ("\"node_count\":3", "\"node_count\":0", "0,\"edge_count\"", "a `node_count` of at least 1"),
    ("\"node_count\":3", "\"node_count\":99999", "99999,", "a `node_count` of at most"),
    ("\"edge_count\":4", "\"edge_count\":99999", "99999,", "a `edge_count` of at most"),
    ("\"edge_count\":4", "\"edge_count\":-1", "-1,", "the number of edges"),
    (
        ",\"trace_function_count\":2",
        ",\"trace_function_count\":2,\"root_index\":8",
        "8},",
        "a multiple of 7 below 21",
    ),
    (
        ",\"trace_function_count\":2",
        ",\"trace_function_count\":2,\"root_index\":21",
        "21},",
        "a multiple of 7 below 21",
    ),
    ("\"self_size\"", "\"size\"", "[\"type\",\"name\",\"id\"", "the node field `self_size`"),
    ("\"detachedness\"]", "\"id\"]", "[\"type\",\"name\",\"id\"", "each node field once"),
    ("[[\"hidden\"", "[\"number\",[\"hidden\"", "[\"number\",[\"hidden\"", "names of node types"),
    ("\"synthetic\"]", "\"array\"]", "[[\"hidden\",\"array\"", "each once"),
    ("\"to_node\"", "\"end\"", "[\"type\",\"name_or_index\"", "the edge field `to_node`"),
    ("\"script_name\"", "\"script\"", "[\"function_id\"", "field `script_name`"),
    (
        "\"size\",\"children\"",
        "\"children\",\"size\"",
        "[\"id\",\"function_info_index\"",
        "`children` as the last",
    ),
    ("\"timestamp_us\"", "\"time\"", "[\"time\"", "field `timestamp_us`"),
    ("\"line\",\"column\"],\"scope", "\"line\"],\"scope", "[\"object_index\"", "field `column`"),
];

const KEYS: &[Case] = &[
    ("\"nodes\":[", "\"edges\":[],\"nodes\":[", "\"edges\":[],", "the key `nodes`"),
    ("\"edges\":[", "\"edge\":[", "\"trace_function_infos\":[", "the key `edges`"),
    ("\"edges\":[", "\"nodes\":[],\"edges\":[", "\"nodes\":[],", "a key that comes behind `nodes`"),
    (
        "\"trace_function_infos\":[",
        "\"infos\":[",
        "\"trace_tree\":[",
        "the key `trace_function_infos`",
    ),
    ("\"samples\":[1001,3,1002,5],", "", "", ""),
    (
        "\"strings\":[",
        "\"locations\":[],\"strings\":[",
        "\"locations\":[],",
        "a key that comes behind `scope_uses`",
    ),
    ("\"strings\":[", "\"words\":[", "}", "the key `strings`"),
    ("\"edges\":[", "edges\":[", "edges\":[1,33", "a key in quotes"),
    ("\"edges\":[", "\"edges\"[", "[1,33", "a colon"),
    ("\"edges\":[1", "\"edges\":1", "1,33", "a list"),
    ("],\n\"edges\"", "]\n\"edges\"", "\"edges\":[", "a comma and the next key"),
    ("\\u00e9\"]}", "\\u00e9\"]}x", "x", "the end of the file"),
];

const NODES: &[Case] = &[
    ("[5,0,1,0,2", "[6,0,1,0,2", "6,0,1,0,2", "a node type below 6"),
    ("3,1,3,16,1", "3,5,3,16,1", "5,3,16,1", "a string's number below 5"),
    ("3,1,3,16,1", "3,1,4294967296,16,1", "4294967296", "an id below 2^32"),
    ("3,1,3,16,1", "3,1,1,16,1", "1,16,1,2", "an id that no other node has (byte "),
    ("3,1,3,16,1", "3,1,3,18446744073709551616,1", "18446744073709551616", "an integer below 2^64"),
    ("3,1,3,16,1", "3,1,3,16,3", "3,2,1,4,2", "at most 4 edges together"),
    (
        "3,1,3,16,1",
        "3,1,3,16,0",
        "],\n\"edges\"",
        "nodes with 4 edges together, as the header says (3 are announced)",
    ),
    ("16,1,2,1,", "16,1,4294967296,1,", "4294967296", "a trace node's id below 2^32"),
    ("16,1,2,1,", "16,1,2,3,", "3,4,2,5,64", "a detachedness below 3"),
    ("4,2,5,64,1,0,2]", "4,2,5,64,1,0]", "],\n\"edges\"", "a comma: rows have 7 fields"),
    ("64,1,0,2]", "64,1,0,2,3]", "],\n\"edges\"", "a comma: rows have 7 fields"),
    ("64,1,0,2]", "64,1,0,2,3,0,7,0,0,0,0]", "3,0,7,0,0,0,0]", "`]` behind 3 nodes"),
    ("\"node_count\":3", "\"node_count\":2", "4,2,5,64", "`]` behind 2 nodes"),
    (
        "\"node_count\":3",
        "\"node_count\":5",
        "],\n\"edges\"",
        "5 nodes, as the header says (3 are there)",
    ),
    ("3,1,3,16,1", "3,1,-3,16,1", "-3,16", "an integer"),
    ("3,1,3,16,1", "3,1,3.5,16,1", ".5,16", "a comma"),
    ("3,1,3,16,1", "3,1,,16,1", ",16,1,2", "an integer"),
    ("3,1,3,16,1", "3,1,\"3\",16,1", "\"3\"", "an integer"),
];

const EDGES: &[Case] = &[
    ("[1,33,7", "[7,33,7", "7,33,7", "an edge type below 7"),
    ("[1,33,7", "[1,4294967296,7", "4294967296", "an index below 2^32"),
    ("2,3,14,3", "2,5,14,3", "5,14,3", "a string's number below 5"),
    ("2,3,14,3", "2,3,13,3", "13,3", "a multiple of 7 below 21"),
    ("2,3,14,3", "2,3,21,3", "21,3", "a multiple of 7 below 21"),
    ("6,4,7]", "6,4]", "],\n\"trace_function_infos\"", "a comma: rows have 3 fields"),
    (",6,4,7]", "]", "],\n\"trace_function_infos\"", "4 edges, as the header says (3 are there)"),
    ("6,4,7]", "6,4,7,6,4,14]", "6,4,14]", "`]` behind 4 edges"),
    ("\"edge_count\":4", "\"edge_count\":5", "],\n\"edges\"", "nodes with 5 edges together"),
    ("\"edge_count\":4", "\"edge_count\":3", "1,0,2],\n\"edges\"", "at most 3 edges together"),
    ("[1,33,7", "[1,33 7", "7,2,3", "a comma"),
];

const SMALL_LISTS: &[Case] = &[
    ("[70,1,2,80", "[70,5,2,80", "5,2,80", "a string's number below 5"),
    ("[70,1,2,80", "[70,1,9,80", "9,80", "a string's number below 5"),
    (
        ",71,3,4,80,83,84]",
        "]",
        "],\n\"trace_tree\"",
        "2 functions, as the header says (1 are there)",
    ),
    (
        "\"trace_function_count\":2",
        "\"trace_function_count\":1",
        "71,3,4",
        "`]` behind 1 functions",
    ),
    ("80,83,84]", "80,83]", "],\n\"trace_tree\"", "a comma: rows have 6 fields"),
    ("[2,1,93", "[2,2,93", "2,93", "a function below 2"),
    ("[1,0,91,92,[", "[1,0,91,[", "[2,1,93", "an integer"),
    ("93,94,[]]]", "93,94]]", "]],\n\"samples\"", "a comma"),
    ("1002,5]", "1002]", "],\n\"locations\"", "a comma: rows have 2 fields"),
    ("1002,5]", "1002,x]", "x],\n\"locations\"", "an integer"),
    ("[7,80,14,85", "[8,80,14,85", "8,80,14", "a multiple of 7 below 21"),
    ("[7,80,14,85", "[7,80,21,85", "21,85", "a multiple of 7 below 21"),
    ("[7,80,14,85", "[7,80,14,4294967296", "4294967296", "a line below 2^32"),
    ("85,86]", "85]", "],\n\"scopes\"", "a comma: rows have 5 fields"),
    ("[14,-2,0", "[15,-2,0", "15,-2", "a multiple of 7 below 21"),
    ("[14,-2,0", "[14,-2,-1", "-1,1,0", "a depth below 2^32"),
    ("[14,-2,0,1,", "[14,-2,0,0,", "3],\n\"scope_uses\"", "`]` behind 0 rows"),
    (
        "[14,-2,0,1,",
        "[14,-2,0,2,",
        "],\n\"scope_uses\"",
        "2 rows of `scope_context_vars`, as `scopes` say (1 are there)",
    ),
    ("vars\":[3]", "vars\":[5]", "5],\n\"scope_uses\"", "a string's number below 5"),
    (",-2,40]", "]", "],\n\"strings\"", "2 rows of `scope_uses`, as `scopes` say (1 are there)"),
    (",-2,40]", ",-2]", "],\n\"strings\"", "a comma: rows have 2 fields"),
    (",-2,40]", ",-2,-40]", "-40]", "a place below 2^32"),
];

const STRINGS: &[Case] = &[
    ("\"Session\"", "Session\"", "Session\"", "a string in quotes"),
    ("\"Session\",", "\"Session\"", "\"a\\n.js\"", "a comma or `]`"),
    ("\"Session\",", "\"Session\",,", ",\"a\\n", "a string in quotes"),
    ("a\\n.js", "a\\x.js", "\\x.js", "an escape of JSON"),
    ("a\\n.js", "a\n.js", "\n.js", "an escaped control character"),
    ("\\u00e9", "\\u00g9", "\\u00g9", "an escape of JSON"),
    ("\"user\"", "7", "7,\"weak", "a string in quotes"),
    (",\"weak\\u00e9\"]", "]", "4,7],\n\"trace_function_infos\"", "a string's number below 4"),
];

#[test]
fn each_damage_is_told_at_its_byte_by_whatever_reads() {
    assert!(
        validate(GOOD.as_bytes(), &mut |_, _| ()).is_good(),
        "{:?}",
        validate(GOOD.as_bytes(), &mut |_, _| ())
    );
    for (from, to, at, expected) in
        [HEADER, KEYS, NODES, EDGES, SMALL_LISTS, STRINGS].into_iter().flatten()
    {
        assert!(GOOD.contains(from), "{from}");
        let bad = GOOD.replacen(from, to, 1);
        let report = validate(bad.as_bytes(), &mut |_, _| ());
        let read = Snapshot::read(bad.as_bytes()).err();
        assert_eq!(report.damage, read, "{from} -> {to}");
        let threads = ReadOptions { threads: 2, ..ReadOptions::default() };
        assert_eq!(Snapshot::read_with(bad.as_bytes(), &threads).err(), read, "{from} -> {to}");
        if at.is_empty() {
            assert!(report.is_good(), "{from} -> {to}: {:?}", report.damage);
            continue;
        }
        let damage = report.damage.unwrap_or_else(|| panic!("{from} -> {to} is taken"));
        let place = if *at == "}" {
            bad.len() - 1
        } else {
            bad.rfind(at).unwrap_or_else(|| panic!("no {at} in {bad}"))
        };
        let shown = &bad[..bad.len().min(place + 20)][place.saturating_sub(20)..];
        assert_eq!(damage.offset, place as u64, "{from} -> {to}: {damage}, not at {shown:?}");
        assert!(damage.expected.contains(expected), "{from} -> {to}: {damage}");
        assert_eq!(report.good_bytes, damage.offset);
        assert!(
            report
                .lists
                .iter()
                .all(|list| !(list.offset..list.end).contains(&damage.offset) || !list.whole),
            "{from} -> {to}"
        );
        let rewritten =
            Rows::find(bad.as_bytes()).map_err(|error| error.to_string()).and_then(|rows| {
                convert(&rows, Target::Same, Vec::new(), &mut |_, _| ())
                    .map(|_| ())
                    .map_err(|error| error.to_string())
            });
        assert!(rewritten.is_err(), "{from} -> {to} is written anew");
    }
}

#[test]
fn wherever_a_file_is_cut_its_end_is_blamed() {
    // The counts of a large file exceed what the rest of it can hold.
    let rows = (1..500).map(|node| format!(",3,1,{},16,0,0,0", 2 * node + 7)).collect::<String>();
    let large = GOOD.replacen("64,1,0,2]", &format!("64,1,0,2{rows}]"), 1).replacen(
        "\"node_count\":3",
        "\"node_count\":502",
        1,
    );
    assert!(validate(large.as_bytes(), &mut |_, _| ()).is_good());
    for good in [GOOD, &large] {
        let step = if good.len() > 4000 { 7 } else { 1 };
        for length in (1..good.len()).step_by(step) {
            let report = validate(&good.as_bytes()[..length], &mut |_, _| ());
            let damage = report.damage.clone().unwrap_or_else(|| panic!("cut at {length}: good"));
            assert!(
                damage
                    .to_string()
                    .ends_with("the end of the file (it was cut, or its writer has not finished)")
                    || damage.expected.starts_with("an escape"),
                "cut at {length}: {damage}"
            );
            assert_eq!(Snapshot::read(&good.as_bytes()[..length]).err(), Some(damage));
            if let Some(list) = report.cut_in() {
                assert!(
                    report.is_cut()
                        && report.good_bytes == list.good_to
                        && list.good_to <= length as u64,
                    "{report:?}"
                );
                // The part called good is good: the list ends there with that many rows.
                if list.section == Section::Nodes && list.rows > 0 {
                    let numbers = &good[list.offset as usize + 1..list.good_to as usize];
                    assert_eq!(
                        numbers.split(',').count() as u64,
                        7 * list.rows,
                        "cut at {length}: {report:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn how_many_ids_are_not_alone_is_told_beside_the_first() {
    let twice = GOOD.replacen("3,1,3,16,1", "3,1,1,16,1", 1).replacen("4,2,5,64", "4,2,1,64", 1);
    let report = validate(twice.as_bytes(), &mut |_, _| ());
    assert_eq!(report.oddities, [Oddity::DuplicateIds(2, 1)]);
    let error = Snapshot::read(twice.as_bytes()).expect_err("duplicates");
    let first = twice.find("\"nodes\":[5,0,1").unwrap() + "\"nodes\":[5,0,".len();
    assert_eq!(error.offset as usize, twice.find("1,16,1,2").unwrap());
    assert!(error.expected.contains(&format!("byte {first} has it too")), "{error}");
}
