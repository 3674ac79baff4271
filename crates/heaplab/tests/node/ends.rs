//! Programs that end in every way, and programs that are no Node.

use super::*;
use heaplab_trace::Op;
use heaplab_trace::tables::Ended;
use std::os::unix::process::ExitStatusExt;

/// What allocates some megabytes.
const WORK: &str =
    "const a = []; for (let i = 0; i < 40000; i++) { a[i % 1000] = new Array(20).fill(i); }";

fn run(node: &Path, script: &str) -> (tempfile::TempDir, Output) {
    let folder = tempfile::tempdir().unwrap();
    let output = record(folder.path(), &[], &[node.to_str().unwrap(), "-e", script]);
    (folder, output)
}

#[test]
fn the_program_ends_as_it_would() {
    for node in nodes() {
        let (folder, output) = run(
            &node,
            &format!("{WORK} console.log('out'); console.error('err'); process.exit(3)"),
        );
        assert_eq!((output.status.code(), said(&output.stdout).as_str()), (Some(3), "out\n"));
        assert!(
            said(&output.stderr).starts_with("err\nheaplab: recorded "),
            "{}",
            said(&output.stderr)
        );
        let (bundle, events) = bundle(folder.path());
        assert_eq!(
            (&bundle.meta().cut, &bundle.tables().processes[0].ended),
            (&None, &Ended::Exited(3))
        );
        assert_eq!(bundle.meta().granularity_bytes, 1 << 20);
        assert!(
            bundle.meta().allocator.starts_with("V8 ")
                && bundle.meta().death_rule == "noticed at a collection"
        );
        assert!(
            events.last().is_some_and(|event| event.op == Op::Collect),
            "the last collection comes at the end"
        );
        assert_eq!(left(folder.path()), ["x.heaplab"]);
        let (_folder, output) = run(&node, &format!("{WORK} throw new Error('thrown')"));
        assert!(
            output.status.code() == Some(1) && said(&output.stderr).contains("Error: thrown"),
            "{}",
            said(&output.stderr)
        );
        assert!(!said(&output.stderr).contains("lost"), "{}", said(&output.stderr));
    }
}

#[test]
fn what_was_written_before_a_signal_is_kept() {
    for node in nodes() {
        let (folder, output) = run(
            &node,
            &format!("{WORK} process.kill(process.pid, 'SIGTERM'); setTimeout(() => 0, 60000)"),
        );
        assert_eq!(output.status.code(), Some(128 + 15), "{}", said(&output.stderr));
        let (bundle, events) = bundle(folder.path());
        assert!(
            bundle.meta().cut.as_ref().is_some_and(|cut| cut.contains("signal 15")),
            "{:?}",
            bundle.meta().cut
        );
        assert!(
            events.len() > 10_000 && bundle.tables().processes[0].ended == Ended::Signalled(15)
        );
    }
}

#[test]
fn workers_and_children_are_heaps_of_their_own() {
    for node in nodes() {
        let child =
            "require('child_process').execFileSync(process.execPath, ['-e', 'globalThis.x = 1'])";
        let worker = "new (require('worker_threads').Worker)('for (let i = 0; i < 1e5; i++) globalThis.x = [i]', {eval: true})";
        let (folder, output) = run(&node, &format!("{WORK} {child}; {worker}"));
        assert!(output.status.success(), "{}", said(&output.stderr));
        let (bundle, events) = bundle(folder.path());
        let processes = &bundle.tables().processes;
        assert_eq!(
            processes.iter().map(|process| process.parent).collect::<Vec<_>>(),
            [None, Some(0), Some(0)]
        );
        assert_eq!((&bundle.meta().losses, &bundle.meta().cut), (&Vec::new(), &None));
        for row in 0..3 {
            assert!(
                events.iter().filter(|event| event.process == row && event.op == Op::Alloc).count()
                    > 100
            );
        }
        assert!(
            processes[2].arguments.last().unwrap().contains("a worker of"),
            "{:?}",
            processes[2].arguments
        );
    }
}

#[test]
fn what_cannot_be_recorded_is_said_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |command: &[&str], what: &str| {
        let output = record(folder.path(), &[], command);
        assert!(
            output.status.code() == Some(1) && said(&output.stderr).contains(what),
            "{command:?}: {}",
            said(&output.stderr)
        );
        assert_eq!(left(folder.path()), [""; 0], "{command:?}");
    };
    refused(&["no-such-node-anywhere", "a.js"], "there is no program no-such-node-anywhere");
    refused(
        &["sh", "-c", "exit 7"],
        "started no Node that reads NODE_OPTIONS; it ended with exit status: 7",
    );
    for node in nodes() {
        let command = [node.to_str().unwrap(), "--permission", "a.js"];
        refused(&command, "--permission keeps Node from loading the addon");
    }
    if let Ok(old) = std::env::var("HEAPLAB_OLD_NODE") {
        refused(&[&old, "-e", "0"], "its version is not one of 18 to 24");
    }
    let output = record(folder.path(), &["--granularity", "4M"], &["sh", "-c", "0"]);
    assert!(said(&output.stderr).contains("is not node itself"), "{}", said(&output.stderr));
    let output = record(folder.path(), &["--granularity", "3M"], &["node"]);
    assert!(said(&output.stderr).contains("a power of two from 1M"), "{}", said(&output.stderr));
}

/// A heaplab that is killed takes nobody with it, and `recover` finds what was written.
#[test]
fn a_recording_survives_its_heaplab() {
    for node in nodes() {
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "{WORK} require('fs').writeFileSync('ready', ''); setTimeout(() => require('fs').writeFileSync('done', ''), 3000)"
        );
        let mut heaplab = Command::new(env!("CARGO_BIN_EXE_heaplab"));
        heaplab.args([
            "record",
            "--node",
            "-o",
            "x.heaplab",
            "--",
            node.to_str().unwrap(),
            "-e",
            &script,
        ]);
        let mut child =
            heaplab.current_dir(folder.path()).env_remove("NODE_OPTIONS").spawn().unwrap();
        let there = |name: &str| {
            let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while !folder.path().join(name).exists() {
                assert!(std::time::Instant::now() < until, "{name} comes");
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        };
        there("ready");
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        there("done");
        let mut recover = Command::new(env!("CARGO_BIN_EXE_heaplab"));
        let output = recover
            .args(["recover", "x.heaplab.spool"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", said(&output.stderr));
        let (bundle, events) = bundle(folder.path());
        assert!(
            bundle.meta().cut.as_ref().is_some_and(|cut| cut.contains("heaplab was ended"))
                && events.len() > 10_000
        );
    }
}
