//! `heaplab record` and `report` on real runtimes: where all of their memory is, beside what they
//! say of it themselves.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Objects that stay, then what pymalloc says of its arenas, then a rest for a reading.
const PYTHON: &str = "
import sys, time
kept = {number: str(number) * 3 for number in range(300_000)}
sys._debugmallocstats()
time.sleep(1.3)
";

/// Objects that stay, and what V8 has in memory for them.
const NODE: &str = "
const kept = [];
for (let number = 0; number < 300_000; number += 1) kept.push({ number, text: `x${number}` });
const spaces = require('v8').getHeapSpaceStatistics();
console.log(spaces.reduce((sum, space) => sum + space.physical_space_size, 0));
setTimeout(() => console.log(kept.length), 1300);
";

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).current_dir(folder).output().unwrap()
}

/// Records a command; what it printed, and the parts of its largest reading, which must add up.
fn parts(folder: &Path, command: &[&str]) -> (Output, u64, Vec<(String, u64)>) {
    let heaplab = env!("CARGO_BIN_EXE_heaplab");
    let options = ["record", "--quiet", "--force", "--samples", "20", "-o", "r.heaplab", "--"];
    let record = run(folder, heaplab, &[&options[..], command].concat());
    assert!(record.status.success(), "{}", String::from_utf8_lossy(&record.stderr));
    let report = run(folder, heaplab, &["report", "r.heaplab", "--json"]);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let document: Value = serde_json::from_slice(&report.stdout).unwrap();
    let resident = &document["resident_parts"];
    let parts: Vec<(String, u64)> = resident["parts"]
        .as_array()
        .expect("readings")
        .iter()
        .map(|part| (part["label"].as_str().unwrap().into(), part["bytes"].as_u64().unwrap()))
        .collect();
    let bytes = resident["bytes"].as_u64().unwrap();
    assert_eq!(parts.iter().map(|part| part.1).sum::<u64>(), bytes);
    let most = document["resident_kinds"].as_array().unwrap().iter().map(|at| {
        at["bytes"].as_array().unwrap().iter().map(|bytes| bytes.as_u64().unwrap()).sum::<u64>()
    });
    assert_eq!(most.max(), Some(bytes));
    (record, bytes, parts)
}

fn bytes_of(parts: &[(String, u64)], start: &str) -> u64 {
    parts.iter().filter(|(label, _)| label.starts_with(start)).map(|(_, bytes)| bytes).sum()
}

/// What nobody is known to have mapped is next to nothing.
fn assert_known(parts: &[(String, u64)], bytes: u64) {
    assert!(bytes_of(parts, "unknown") <= bytes / 50, "{parts:?}");
}

#[test]
fn pymalloc_has_the_arenas_that_python_counts() {
    if !heaplab_oracle::has("python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // A version manager's `python3` is a script of many processes.
    let real = run(folder.path(), "python3", &["-c", "import sys; print(sys.executable)"]);
    let real = String::from_utf8(real.stdout).unwrap();
    let (record, bytes, parts) = parts(folder.path(), &[real.trim(), "-c", PYTHON]);
    let said = String::from_utf8_lossy(&record.stderr);
    let line = said.lines().find(|line| line.contains(" bytes/arena ")).expect("statistics");
    let total: u64 = line.rsplit('=').next().unwrap().trim().replace(',', "").parse().unwrap();
    let arenas = bytes_of(&parts, "pymalloc arenas");
    assert!(arenas <= total && arenas >= total * 9 / 10, "{arenas} of {total}: {parts:?}");
    assert_known(&parts, bytes);
}

#[test]
fn v8_has_what_node_says_of_its_heap() {
    if !heaplab_oracle::has("node") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (record, bytes, parts) = parts(folder.path(), &["node", "-e", NODE]);
    let said = String::from_utf8_lossy(&record.stdout);
    let physical: u64 = said.lines().next().unwrap().trim().parse().unwrap();
    let v8 = bytes_of(&parts, "V8");
    // V8 counts a page that it has not written yet; a later collection gives pages back.
    assert!(v8 * 10 >= physical * 7 && v8 * 10 <= physical * 14, "{v8}, {physical}: {parts:?}");
    assert_known(&parts, bytes);
}

#[test]
fn a_compilers_every_megabyte_has_a_name() {
    if !heaplab_oracle::has("g++") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.cpp"), "#include <iostream>\n#include <regex>\n").unwrap();
    let (_, bytes, parts) = parts(folder.path(), &["g++", "-O1", "-c", "a.cpp"]);
    let (largest, of_largest) = &parts[0];
    assert_eq!(largest, "GCC's garbage-collected pages", "{parts:?}");
    assert!(of_largest * 2 > bytes, "{parts:?}");
    assert!(bytes_of(&parts, "code of cc1plus") > 1 << 20, "{parts:?}");
    assert_known(&parts, bytes);
}
