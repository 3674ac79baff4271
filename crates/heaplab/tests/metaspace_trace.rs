//! The workload of a JVM's metaspace without its chunks: told as what it is, on a model as in a
//! replay, and the same after a way through a file.

use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What heaplab prints.
fn said(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(arguments)
        .current_dir(folder)
        .env("COLUMNS", "100")
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_imported_metaspace_is_told_as_metaspace_and_its_model_agrees_with_the_replay() {
    let folder = tempfile::tempdir().unwrap();
    let trace = repository().join("traces/metaspace/churn.trace.gz");
    said(folder.path(), &["import", trace.to_str().unwrap(), "-o", "churn.heaplab"]);
    let report = said(folder.path(), &["report", "churn.heaplab"]);
    assert!(report.contains("The workload of a JVM's metaspace, without its chunks"), "{report}");
    assert!(report.contains("\nstandard, non-class         2 of 1282"), "{report}");
    for of_malloc in ["Slop", "What to change", "does not free", "clownshoes", "Live at the end"] {
        assert!(!report.contains(of_malloc), "{of_malloc}: {report}");
    }
    let json = said(folder.path(), &["report", "churn.heaplab", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["findings"]["findings"], serde_json::json!([]));

    // Committed at each purge and at the end: 1.75 MiB and so on, as the model's listing says.
    let replay = ["replay", "churn.heaplab", "--on", "metaspace:jdk17", "--space", "--json", "-q"];
    let results: serde_json::Value = serde_json::from_str(&said(folder.path(), &replay)).unwrap();
    let curve = results["heaps"][0]["space"]["curve"].as_array().unwrap();
    let marks: Vec<(&str, u64)> = curve
        .iter()
        .filter_map(|moment| Some((moment["mark"].as_str()?, moment["committed_bytes"].as_u64()?)))
        .collect();
    assert_eq!(marks.len(), 5, "{marks:?}");
    for (mark, committed) in marks {
        let line = report.lines().find(|line| line.starts_with(mark)).unwrap();
        let shown = format!("{:.2} MiB", committed as f64 / f64::from(1 << 20));
        let columns: Vec<&str> =
            line.split("  ").map(str::trim).filter(|text| !text.is_empty()).collect();
        assert_eq!(columns[3], shown, "{line}");
    }

    said(
        folder.path(),
        &["export", "churn.heaplab", "--format", "metaspace-trace", "-o", "again.trace"],
    );
    said(folder.path(), &["import", "again.trace", "-o", "again.heaplab"]);
    let body = |report: &str| report.lines().skip(1).collect::<Vec<_>>().join("\n");
    assert_eq!(body(&said(folder.path(), &["report", "again.heaplab"])), body(&report));
}

#[test]
fn a_recorded_jvm_stays_a_metaspace_through_export_and_import() {
    let folder = tempfile::tempdir().unwrap();
    let log = repository().join("crates/jvm/tests/data/jvm-log/jdk-17.0.15.log.gz");
    said(folder.path(), &["import", "jvm-log", log.to_str().unwrap(), "-o", "jvm.heaplab"]);
    said(
        folder.path(),
        &["export", "jvm.heaplab", "--format", "metaspace-trace", "-o", "jvm.trace"],
    );
    said(folder.path(), &["import", "jvm.trace", "-o", "again.heaplab"]);
    let model = |bundle: &str| {
        let text = said(folder.path(), &["report", bundle, "--model", "metaspace:jdk17"]);
        text[text.find("at end:").unwrap()..].to_string()
    };
    assert_eq!(model("jvm.heaplab"), model("again.heaplab"));
    let report = said(folder.path(), &["report", "again.heaplab"]);
    assert!(report.contains("The workload of a JVM's metaspace"), "{report}");
    let blocks = said(folder.path(), &["report", "again.heaplab", "--blocks"]);
    assert!(
        blocks.contains("Who holds the peak") && !blocks.contains("What to change"),
        "{blocks}"
    );
}
