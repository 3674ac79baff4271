//! `heaplab snapshot path` on heaps whose ways are long, and on what the root itself holds;
//! `retainers` where ways are many.

use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Objects in the chain: the ways to all of them have their square of steps.
const LINKS: u64 = 20_000;
/// Layers of the braid.
const LAYERS: u64 = 60;
/// What the answers may be made of: with a way kept for each object this would take 3 GB.
const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// root -head-> Link 1 -next-> Link 2 -> ... and root -weak-> Lost.
fn chain(folder: &Path) -> PathBuf {
    let mut nodes = String::from("9,0,1,0,2");
    let mut edges = format!("2,2,5,6,4,{}", 5 * (LINKS + 1));
    for link in 1..=LINKS {
        let more = u64::from(link < LINKS);
        let _ = write!(nodes, ",3,1,{},16,{more}", 2 * link + 1);
        if more == 1 {
            let _ = write!(edges, ",2,3,{}", 5 * (link + 1));
        }
    }
    let _ = write!(nodes, ",3,5,{},16,0", 2 * LINKS + 3);
    written(folder, &nodes, &edges)
}

/// A file of nodes of five fields. Strings: Link is 1, Lost is 5, names of references are 2 to 4.
fn written(folder: &Path, nodes: &str, edges: &str) -> PathBuf {
    let text = format!(
        "{{\"snapshot\":{{\"meta\":{{\"node_fields\":[\"type\",\"name\",\"id\",\"self_size\",\"edge_count\"],\
         \"node_types\":[[\"hidden\",\"array\",\"string\",\"object\",\"code\",\"closure\",\"regexp\",\"number\",\"native\",\"synthetic\"],\
         \"string\",\"number\",\"number\",\"number\"],\"edge_fields\":[\"type\",\"name_or_index\",\"to_node\"],\
         \"edge_types\":[[\"context\",\"element\",\"property\",\"internal\",\"hidden\",\"shortcut\",\"weak\"],\"string_or_number\",\"node\"]}},\
         \"node_count\":{},\"edge_count\":{}}},\"nodes\":[{nodes}],\"edges\":[{edges}],\
         \"strings\":[\"\",\"Link\",\"head\",\"next\",\"lost\",\"Lost\"]}}",
        nodes.split(',').count() / 5,
        edges.split(',').count() / 3
    );
    let path = folder.join("chain.heapsnapshot");
    std::fs::write(&path, text).unwrap();
    path
}

/// Runs with so little memory that a way kept for each object does not fit.
fn path(file: &Path, words: &[&str]) -> Output {
    let limited = format!("ulimit -v {}; exec \"$0\" \"$@\"", MEMORY_BYTES_MAX / 1024);
    let mut command = Command::new("sh");
    command
        .args(["-c", &limited, env!("CARGO_BIN_EXE_heaplab"), "snapshot", "path"])
        .arg(file)
        .args(words);
    command.output().unwrap()
}

/// Layers of two objects, each of which refers to both of the next layer: to one in layer N lead
/// 2^N ways.
fn braid(folder: &Path) -> PathBuf {
    let mut nodes = String::from("9,0,1,0,2");
    let mut edges = String::from("2,2,5,2,2,10");
    for node in 1..=2 * LAYERS {
        let next = 2 * node.div_ceil(2) + 1;
        let more = next < 2 * LAYERS;
        let _ = write!(nodes, ",3,1,{},16,{}", 2 * node + 1, if more { 2 } else { 0 });
        if more {
            let _ = write!(edges, ",2,3,{},2,4,{}", 5 * next, 5 * (next + 1));
        }
    }
    written(folder, &nodes, &edges)
}

fn retainers(file: &Path, words: &[&str]) -> String {
    let last = format!("@{}", 4 * LAYERS + 1);
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    text(&command.args(["snapshot", "retainers"]).arg(file).arg(last).args(words).output().unwrap())
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_long_chain_takes_memory_and_text_of_its_length() {
    let folder = tempfile::tempdir().unwrap();
    let file = chain(folder.path());
    for (class, different) in [
        ("Link", "20,000 objects are reached by 20,000 different ways"),
        ("*", "are reached by 20,00"),
    ] {
        let shown = text(&path(&file, &[class, "--top", "1"]));
        assert!(shown.contains(different), "{shown}");
    }
    let shown = text(&path(&file, &["Link", "--top", "0", "--steps", "4"]));
    assert!(shown.contains("    ... 19,996 steps more (--steps 0 shows all) ...\n"));
    assert!((shown.len() as u64) < 1024 * LINKS, "{}", shown.len());
    let answer: Value = serde_json::from_str(&text(&path(&file, &["@40001", "--json"]))).unwrap();
    let way = &answer["paths"][0];
    assert_eq!(
        (way["length"].as_u64(), way["left_out"]["steps"].as_u64()),
        (Some(LINKS), Some(LINKS - 40))
    );
    let ids: Vec<u64> = way["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["from"]["id"].as_u64().unwrap())
        .collect();
    // The root is @1, link N is @(2N + 1): steps 0 to 19 from the root's side, and the last 20.
    let expected: Vec<u64> = (0..20).chain(LINKS - 20..LINKS).map(|link| 2 * link + 1).collect();
    assert_eq!(ids, expected);
    let whole: Value =
        serde_json::from_str(&text(&path(&file, &["@5001", "--steps", "0", "--json"]))).unwrap();
    assert_eq!(
        (
            whole["paths"][0]["steps"].as_array().unwrap().len(),
            &whole["paths"][0]["left_out"]["steps"]
        ),
        (2500, &0.into())
    );
}

#[test]
fn what_the_root_holds_is_one_step_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = chain(folder.path());
    let shown = text(&path(&file, &["@3"]));
    assert!(shown.contains("  the root\n    .head = Link @3\n"), "{shown}");
    let answer: Value = serde_json::from_str(&text(&path(&file, &["@3", "--json"]))).unwrap();
    let steps = &answer["paths"][0]["steps"];
    assert_eq!(
        (steps.as_array().unwrap().len(), &steps[0]["from"]["id"], &steps[0]["edge"]["name"]),
        (1, &1.into(), &"head".into())
    );
    assert!(text(&path(&file, &["@1"])).contains("  the root itself\n"));
    let lost = text(&path(&file, &[&format!("@{}", 2 * LINKS + 3)]));
    assert!(lost.contains("no strong reference leads there from a root"), "{lost}");
}

/// Rows of the JSON, and those that say that the object is followed elsewhere.
fn counted(rows: &Value) -> (u64, u64) {
    let rows = rows.as_array().unwrap();
    rows.iter().fold((0, 0), |(all, elsewhere), row| {
        let (below, below_elsewhere) = row.get("retainers").map_or((0, 0), counted);
        (all + 1 + below, elsewhere + u64::from(row["elsewhere"] == true) + below_elsewhere)
    })
}

#[test]
fn every_object_is_followed_once_however_many_ways_lead_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = braid(folder.path());
    assert_eq!(retainers(&file, &[]).matches(" Link @").count(), 2);
    // The last layer's object has two referrers, and each object of the layers between has two; the
    // first layer's have none but the root.
    let rows = 2 + 4 * (LAYERS - 2);
    let whole = retainers(&file, &["--depth", "100"]);
    assert_eq!(
        (whole.matches(" Link @").count() as u64, whole.matches("nothing").count()),
        (rows, 2),
        "{whole}"
    );
    assert_eq!(
        whole.matches("(above)").count() + whole.matches("(below)").count(),
        rows as usize / 2 - 1,
        "{whole}"
    );
    let answer: Value =
        serde_json::from_str(&retainers(&file, &["--depth", "100", "--lines", "0", "--json"]))
            .unwrap();
    assert_eq!(
        (counted(&answer["retainers"]), &answer["not_followed"]),
        ((rows, rows / 2 - 1), &0.into())
    );
}

#[test]
fn lines_are_for_the_nearest_levels_and_what_is_left_out_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = braid(folder.path());
    let cut = retainers(&file, &["--depth", "100", "--lines", "7"]);
    assert_eq!(cut.matches(" Link @").count(), 7, "{cut}");
    assert!(
        cut.contains("... and 1 more\n")
            && cut.ends_with("\n2 objects are not followed: --lines 7 are reached\n"),
        "{cut}"
    );
    let first_level = retainers(&file, &["--lines", "1"]);
    assert_eq!(
        (first_level.matches(" Link @").count(), first_level.contains("not followed")),
        (2, false),
        "{first_level}"
    );
    let answer: Value =
        serde_json::from_str(&retainers(&file, &["--depth", "100", "--lines", "7", "--json"]))
            .unwrap();
    assert_eq!(
        (counted(&answer["retainers"]).0, &answer["not_followed"]),
        (7, &2.into()),
        "{answer}"
    );
}
