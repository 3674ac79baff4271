//! The Python package's own tests: CPython's heap as the generator writes it, read as JSON by the
//! program it belongs to.

use std::path::Path;
use std::process::Command;

#[test]
fn a_python_program_finds_its_own_heap_in_its_snapshot() {
    let Some(python) = heaplab_oracle::python("heaplab.snapshot") else { return };
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/tests/test_snapshot.py");
    let output =
        Command::new(python).arg(tests).current_dir(std::env::temp_dir()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.matches(": ok").count() >= 8,
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_crates_reader_reads_what_python_wrote() {
    let Some(python) = heaplab_oracle::python("heaplab.snapshot") else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = "import sys, heaplab.snapshot\nclass Session: pass\nkept = [Session() for _ in range(7)]\nheaplab.snapshot.write(sys.argv[1])";
    let path = folder.path().join("a.heapsnapshot");
    let output = Command::new(python)
        .args(["-c", program])
        .arg(&path)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&path).unwrap();
    let report = heaplab_snapshot::validate::validate(&bytes, &mut |_, _| ());
    assert!(report.is_good() && report.oddities.is_empty(), "{report:?}");
    let snapshot = heaplab_snapshot::Snapshot::read(&bytes).unwrap();
    let sessions = snapshot.graph.nodes().filter(|node| {
        snapshot.strings.text(snapshot.graph.node_name(*node)) == "__main__.Session"
    });
    // A string with the class's own name also has that label; it is another type of node.
    let objects = sessions
        .filter(|node| snapshot.node_type_name(snapshot.graph.node_type(*node)) == "object");
    assert_eq!(objects.count(), 7);
}
