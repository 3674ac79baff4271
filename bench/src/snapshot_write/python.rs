//! CPython's heap: processes of about a million objects. Some are made of JSON documents and
//! instances of classes; others hold little else than small distinct strings or numbers, where the
//! bytes kept for each object weigh most.

use crate::bounds::Bounds;
use anyhow::{Context, Result};
use std::process::Command;

/// The content of the heaps, and the program that makes each.
const HEAPS: [(&str, &str); 4] = [
    ("documents and instances", DOCUMENTS),
    ("1 M small distinct strings", "kept = ['s%d' % number for number in range(1_000_000)]"),
    (
        "a dictionary of 1 M small distinct keys",
        "kept = {'s%d' % number: None for number in range(1_000_000)}",
    ),
    ("1 M distinct integers", "kept = [1_000_000 + number for number in range(1_000_000)]"),
];

/// The request to `write`: keep ids for the next snapshot (the default), or not, because none
/// follows.
const WAYS: [(&str, &str); 2] =
    [("as it is by default", "{}"), ("as the last", r#"{"last": true}"#)];

const DOCUMENTS: &str = r#"
import json
class Session:
    def __init__(self, number):
        self.number, self.user, self.tags, self.peers = number, "user %d" % number, ["a", "b"], []
document = json.dumps([{"id": n, "name": "item %d" % (n % 5000), "price": n / 8, "tags": ["x", "y"], "owner": {"mail": "m%d" % n}} for n in range(100)])
documents = [json.loads(document) for _ in range(1000)]
sessions = [Session(n) for n in range(60_000)]
"#;

const START: &str = r#"
import json, sys, time
import heaplab.snapshot

def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key))
"#;

const END: &str = r#"
before = status("VmRSS")
start, start_cpu = time.perf_counter(), time.process_time()
result = heaplab.snapshot.write(sys.argv[1], **json.loads(sys.argv[2]))
cpu = time.process_time() - start_cpu
print(json.dumps({"s": time.perf_counter() - start, "cpu": cpu, "before": before, "peak": status("VmHWM"), **result}))
"#;

pub fn run(bounds: &mut Bounds) -> Result<()> {
    let python = std::env::var_os("HEAPLAB_PYTHON").unwrap_or_else(|| "python3".into());
    let folder = tempfile::tempdir()?;
    let probe = Command::new(&python)
        .args(["-c", "import heaplab.snapshot"])
        .current_dir(folder.path())
        .output();
    if !probe.is_ok_and(|output| output.status.success()) {
        println!(
            "CPython: skipped, {} lacks the package heaplab (see python/README.md; set HEAPLAB_PYTHON)",
            python.display()
        );
        return Ok(());
    }
    let path = folder.path().join("a.heapsnapshot");
    for (name, heap) in HEAPS {
        let program = format!("{START}\n{heap}\n{END}");
        for (way, arguments) in WAYS {
            one(
                bounds,
                &format!("{name}, {way}"),
                Command::new(&python)
                    .args(["-c", &program])
                    .arg(&path)
                    .arg(arguments)
                    .current_dir(folder.path()),
            )?;
        }
    }
    Ok(())
}

fn one(bounds: &mut Bounds, name: &str, program: &mut Command) -> Result<()> {
    let output = program.output()?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let number = |key: &str| {
        result[key].as_f64().with_context(|| format!("{key} in what the program printed"))
    };
    let nodes = number("nodes")?;
    println!(
        "CPython, {name}:\n{nodes} objects, {} references, {} strings,\n{} bytes, resident {} kB before",
        number("edges")?,
        number("strings")?,
        number("bytes")?,
        number("before")?
    );
    // By CPU time, like all times here: other programs do not count.
    bounds.at_most(
        &format!("CPython, 1 M objects, CPU time: {name}"),
        number("cpu")? * 1e6 / nodes,
        "s",
        5.0,
    );
    println!("1 M objects by the clock, the disk included: {:.2} s", number("s")? * 1e6 / nodes);
    bounds.at_most(
        &format!("CPython, largest resident size, of that before: {name}"),
        number("peak")? / number("before")?,
        "times",
        1.3,
    );
    Ok(())
}
