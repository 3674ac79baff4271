//! Bundles in other tools: DuckDB and pandas read the same numbers, and the document's SQL runs.

use heaplab_trace::bundle::{Bundle, BundleWriter, Selection};
use heaplab_trace::import::{self, ImportOptions};
use heaplab_trace::{EventSource, Op};
use std::path::Path;
use std::process::Command;

fn read_by_python(python: &Path, bundle: &Path) -> serde_json::Value {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(python)
        .arg(here.join("tests/readers.py"))
        .args([bundle, &here.join("../../docs/bundle-format.md")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn duckdb_and_pandas_read_what_was_written() {
    let Some(python) = heaplab_oracle::python("duckdb, pandas, pyarrow") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("git.heaplab");
    let text: &[u8] = include_bytes!("data/git-pack-objects.txt.gz");
    let mut writer = BundleWriter::create(&path).unwrap();
    let imported = import::import(text, None, &ImportOptions::default(), &mut writer).unwrap();
    writer.finish(&imported.tables, imported.meta).unwrap();

    let bundle = Bundle::open(&path).unwrap();
    let mut expected = [("alloc", 0, 0), ("free", 0, 0), ("realloc", 0, 0)];
    let (mut live, mut born) = (std::collections::HashMap::new(), 0);
    let count = |event: &heaplab_trace::Event| {
        let of = match event.op {
            Op::Alloc => 0,
            Op::Free => 1,
            _ => 2,
        };
        expected[of].1 += 1;
        expected[of].2 += event.size;
        born += u64::from(event.op == Op::Alloc);
        if event.op == Op::Free {
            live.remove(&event.object)
        } else {
            live.insert(event.object, event.size)
        };
        Ok(())
    };
    bundle.events(Selection::default()).unwrap().for_each(count).unwrap();

    let read = read_by_python(&python, &path);
    assert_eq!(read["duckdb"], serde_json::json!(expected));
    assert_eq!(read["pandas"], serde_json::json!(expected));
    assert_eq!(read["tables"]["stacks"], bundle.tables().stacks.len());
    let types = ["op", "object", "size", "zeroed", "process", "time_ns"]
        .map(|column| read["types"][column].as_str().unwrap());
    // pandas shows text as "object" or "str" by version, and a column with nulls as float.
    assert_eq!(types[1..], ["int64", "float64", "bool", "uint32", "int64"]);
    let answers = read["answers"].as_array().unwrap();
    assert_eq!(answers.len(), 4);
    let at_end = [live.len().to_string(), live.values().sum::<u64>().to_string()];
    assert_eq!(answers[1], serde_json::json!([at_end]));
    assert!(answers.iter().all(|answer| !answer.as_array().unwrap().is_empty()));
}

#[test]
fn every_kind_of_column_is_read() {
    let Some(python) = heaplab_oracle::python("duckdb, pandas, pyarrow") else { return };
    let read = read_by_python(
        &python,
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/version-1.bundle"),
    );
    let ops: Vec<&str> =
        read["duckdb"].as_array().unwrap().iter().map(|row| row[0].as_str().unwrap()).collect();
    let all = [
        "alloc",
        "arena_birth",
        "arena_death",
        "collect_begin",
        "collect_end",
        "free",
        "mark",
        "promote",
        "realloc",
        "reference",
        "usable_size_read",
    ];
    assert_eq!(ops, all);
}
