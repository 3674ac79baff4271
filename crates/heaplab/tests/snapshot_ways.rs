//! `heaplab snapshot path` on heaps whose ways are long, and on what the root itself holds.

use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Objects in the chain: the ways to all of them have their square of steps.
const LINKS: u64 = 20_000;
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
    let text = format!(
        "{{\"snapshot\":{{\"meta\":{{\"node_fields\":[\"type\",\"name\",\"id\",\"self_size\",\"edge_count\"],\
         \"node_types\":[[\"hidden\",\"array\",\"string\",\"object\",\"code\",\"closure\",\"regexp\",\"number\",\"native\",\"synthetic\"],\
         \"string\",\"number\",\"number\",\"number\"],\"edge_fields\":[\"type\",\"name_or_index\",\"to_node\"],\
         \"edge_types\":[[\"context\",\"element\",\"property\",\"internal\",\"hidden\",\"shortcut\",\"weak\"],\"string_or_number\",\"node\"]}},\
         \"node_count\":{},\"edge_count\":{}}},\"nodes\":[{nodes}],\"edges\":[{edges}],\
         \"strings\":[\"\",\"Link\",\"head\",\"next\",\"lost\",\"Lost\"]}}",
        LINKS + 2,
        LINKS + 1
    );
    let path = folder.join("chain.heapsnapshot");
    std::fs::write(&path, text).unwrap();
    path
}

/// Runs with so little memory that a way kept for each object does not fit.
fn path(file: &Path, words: &[&str]) -> Output {
    let limited = format!("ulimit -v {}; exec \"$0\" \"$@\"", MEMORY_BYTES_MAX / 1024);
    let mut command = Command::new("sh");
    command.args(["-c", &limited, env!("CARGO_BIN_EXE_heaplab"), "snapshot", "path"]).arg(file).args(words);
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_long_chain_takes_memory_and_text_of_its_length() {
    let folder = tempfile::tempdir().unwrap();
    let file = chain(folder.path());
    for (class, different) in [("Link", "20,000 objects are reached by 20,000 different ways"), ("*", "are reached by 20,00")] {
        let shown = text(&path(&file, &[class, "--top", "1"]));
        assert!(shown.contains(different), "{shown}");
    }
    let shown = text(&path(&file, &["Link", "--top", "0", "--steps", "4"]));
    assert!(shown.contains("    ... 19,996 steps more (--steps 0 shows all) ...\n"));
    assert!((shown.len() as u64) < 1024 * LINKS, "{}", shown.len());
    let answer: Value = serde_json::from_str(&text(&path(&file, &["@40001", "--json"]))).unwrap();
    let way = &answer["paths"][0];
    assert_eq!((way["length"].as_u64(), way["left_out"]["steps"].as_u64()), (Some(LINKS), Some(LINKS - 40)));
    let ids: Vec<u64> = way["steps"].as_array().unwrap().iter().map(|step| step["from"]["id"].as_u64().unwrap()).collect();
    // The root is @1, link N is @(2N + 1): steps 0 to 19 from the root's side, and the last 20.
    let expected: Vec<u64> = (0..20).chain(LINKS - 20..LINKS).map(|link| 2 * link + 1).collect();
    assert_eq!(ids, expected);
    let whole: Value = serde_json::from_str(&text(&path(&file, &["@5001", "--steps", "0", "--json"]))).unwrap();
    assert_eq!((whole["paths"][0]["steps"].as_array().unwrap().len(), &whole["paths"][0]["left_out"]["steps"]), (2500, &0.into()));
}

#[test]
fn what_the_root_holds_is_one_step_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = chain(folder.path());
    let shown = text(&path(&file, &["@3"]));
    assert!(shown.contains("  the root\n    .head = Link @3\n"), "{shown}");
    let answer: Value = serde_json::from_str(&text(&path(&file, &["@3", "--json"]))).unwrap();
    let steps = &answer["paths"][0]["steps"];
    assert_eq!((steps.as_array().unwrap().len(), &steps[0]["from"]["id"], &steps[0]["edge"]["name"]), (1, &1.into(), &"head".into()));
    assert!(text(&path(&file, &["@1"])).contains("  the root itself\n"));
    let lost = text(&path(&file, &[&format!("@{}", 2 * LINKS + 3)]));
    assert!(lost.contains("no strong reference leads there from a root"), "{lost}");
}
