//! Recorded workloads in heaplab's OCaml heap and in the real runtime, through the command line:
//! every slice and every counter is equal, each policy, several overheads and minor heaps.

mod bundled;

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What is asked of both: policy, overhead, minor heap.
const SETTINGS: [&str; 7] = [
    "a=0,o=80,s=32k",
    "a=1,o=80,s=32k",
    "a=2,o=80,s=32k",
    "a=0,o=20,s=32k",
    "a=1,o=320,s=32k",
    "a=2,o=20,s=32k",
    "a=2,o=120,s=256k",
];

fn replay(bundle: &Path) -> Value {
    let pairs = SETTINGS.map(|setting| format!("ocaml:{setting},ocamlrt:{setting}"));
    let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(["replay", "--space", "--json", "--quiet", "--on", &pairs.join(",")])
        .arg(bundle)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a slice is compared by: all but the births, which the runtime does not count; parts of a
/// cycle in whole millionths. Those of the runtime are so already.
fn slices(heap: &Value, is_runtime: bool) -> Vec<Value> {
    let millionths = |part: &Value| {
        let millionths = part.as_f64().unwrap() * 1e6;
        (if is_runtime { millionths.round() } else { millionths }) as i64
    };
    let all = heap["slices"].as_array().unwrap();
    all.iter()
        .map(|slice| {
            let whole = ["phase", "heap_words", "allocated_words", "computed_work"];
            let parts = ["p", "backlog"].map(|name| Value::from(millionths(&slice[name])));
            whole.map(|name| slice[name].clone()).into_iter().chain(parts).collect()
        })
        .collect()
}

#[test]
fn recorded_workloads_are_equal_slice_for_slice() {
    let version = Command::new("ocamlopt").arg("-version").output();
    if !version.is_ok_and(|output| output.stdout.starts_with(b"4.13.")) {
        heaplab_oracle::skip("OCaml 4.13 is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut compared = 0;
    for name in ["sqlite", "python"] {
        let results = replay(&bundled::copied(name, folder.path()));
        for (setting, pair) in SETTINGS.iter().zip(results["heaps"].as_array().unwrap().chunks(2)) {
            let [ours, theirs] = pair else { panic!("{setting}: one heap of two") };
            assert_eq!(ours["counters"], theirs["counters"], "{name}, {setting}");
            let (ours, theirs) = (slices(ours, false), slices(theirs, true));
            assert_eq!(ours.len(), theirs.len(), "{name}, {setting}");
            for (nth, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                assert_eq!(ours, theirs, "{name}, {setting}, slice {nth}");
            }
            compared += ours.len();
        }
    }
    assert!(compared > 200, "{compared} slices");
}
