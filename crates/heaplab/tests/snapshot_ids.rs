//! A snapshot whose objects share ids: every command that refuses it names the file, the byte and
//! what was expected there, and says how it is taken all the same; with that it is.

use std::path::Path;
use std::process::{Command, Output};

fn heaplab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heaplab")).args(arguments).output().unwrap()
}

/// A root and two objects with the id 3.
const FILE: &str = r#"{"snapshot":{"meta":{"node_fields":["type","name","id","self_size","edge_count"],"node_types":[["synthetic","object"],"string","number","number","number"],"edge_fields":["type","name_or_index","to_node"],"edge_types":[["property","element"],"string_or_number","node"]},"node_count":3,"edge_count":2,"trace_function_count":0},
"nodes":[0,0,1,0,2
,1,1,3,8,0
,1,1,3,16,0
],"edges":[1,0,5
,1,1,10
],"trace_function_infos":[],"trace_tree":[],"samples":[],"locations":[],"strings":["","Session"]}"#;

#[test]
fn every_command_says_where_an_id_is_there_twice_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) =
        (folder.path().join("twice.heapsnapshot"), folder.path().join("out.heapsnapshot"));
    std::fs::write(&path, FILE).unwrap();
    let (file, out) = (path.to_str().unwrap(), out.to_str().unwrap());
    let second = FILE.find("3,16,0").unwrap();
    let first = FILE.find("3,8,0").unwrap();
    let expected = format!(
        "{file}: byte {second}: expected an id that no other node has (byte {first} has it too), found `3,16,0"
    );
    let commands: [&[&str]; 9] = [
        &["summary", file],
        &["dominators", file],
        &["object", file, "Session"],
        &["strings", file],
        &["query", file, "top 3"],
        &["check", file, "--assert", "count(Session) <= 10"],
        &["convert", file, "--to", "node20", "-o", out],
        &["redact", file, "-o", out],
        &["trim", file, "Session", "-o", out],
    ];
    for command in commands {
        let run = |more: &[&str]| heaplab(&[&["snapshot"], command, more].concat());
        let refused = run(&[]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && said.contains(&expected), "{command:?}: {said}");
        assert!(
            said.contains("--allow-duplicate-ids") && !Path::new(out).exists(),
            "{command:?}: {said}"
        );
        let taken = run(&["--allow-duplicate-ids"]);
        assert!(taken.status.success(), "{command:?}: {}", String::from_utf8_lossy(&taken.stderr));
        if command.contains(&out) {
            let valid = heaplab(&["snapshot", "validate", out]);
            assert!(
                valid.status.success(),
                "{command:?}: {}",
                String::from_utf8_lossy(&valid.stdout)
            );
            std::fs::remove_file(out).unwrap();
        }
    }
    let validated = heaplab(&["snapshot", "validate", file]);
    let said = String::from_utf8(validated.stdout).unwrap()
        + &String::from_utf8(validated.stderr).unwrap();
    assert!(
        validated.status.code() == Some(1) && said.contains(&format!("byte {second}")),
        "{said}"
    );
    assert!(said.contains("1 nodes with the id of another, such as 3"), "{said}");
}
