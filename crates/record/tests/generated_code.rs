//! Frames of code that a program makes while it runs have the names that the program's map for perf
//! gives, on a real Node and a real JVM.

mod common;

use common::{Recording, options, record};
use heaplab_trace::Op;
use heaplab_trace::tables::Frame;
use std::path::Path;
use std::process::Command;

/// Bytes that only the program's own buffers ask for, with what the allocator's caller adds.
const BUFFER_BYTES: std::ops::Range<u64> = 100_003..100_103;

/// The frames of each buffer's stack, innermost first.
fn stacks(recording: &Recording) -> Vec<Vec<&Frame>> {
    let tables = &recording.tables;
    recording
        .events
        .iter()
        .filter(|event| event.op == Op::Alloc && BUFFER_BYTES.contains(&event.size))
        .map(|event| {
            tables.frames_of(event.stack).map(|row| &tables.frames[row as usize]).collect()
        })
        .collect()
}

fn recorded(folder: &Path, command: &[&str]) -> Recording {
    let words: Vec<&dyn AsRef<std::ffi::OsStr>> =
        command.iter().map(|word| word as &dyn AsRef<std::ffi::OsStr>).collect();
    let mut options = options(folder, &words);
    options.stack_depth = 64;
    let recording = record(&options);
    for process in &recording.tables.processes {
        let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", process.pid));
    }
    recording
}

#[test]
fn javascript_has_its_functions_files_and_lines() {
    if !heaplab_oracle::has("node") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("my app.js");
    let program = "function keepBuffers(kept) {\n  kept.push(Buffer.allocUnsafeSlow(100003));\n}\n\
        const kept = [];\nfor (let i = 0; i < 50; i++) keepBuffers(kept);\n";
    std::fs::write(&script, program).unwrap();
    let script = script.to_str().unwrap();
    let log = format!("--logfile={}", folder.path().join("v8.log").display());
    let recording = recorded(
        folder.path(),
        &[
            "node",
            "--perf-basic-prof",
            "--interpreted-frames-native-stack",
            "--no-logfile-per-isolate",
            &log,
            script,
        ],
    );
    let stacks = stacks(&recording);
    assert_eq!(stacks.len(), 50);
    for stack in stacks {
        let named = |frame: &&&Frame| frame.function.as_deref() == Some("keepBuffers");
        let frame = stack.iter().find(named).expect("the function");
        assert_eq!((frame.file.as_deref(), frame.line), (Some(script), 1));
    }
}

#[test]
fn compiled_java_has_its_methods() {
    if !heaplab_oracle::has("java") || !heaplab_oracle::has("javac") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("Buffers.java");
    let program = "public class Buffers {
        static java.nio.ByteBuffer keep() { return java.nio.ByteBuffer.allocateDirect(100_003); }
        public static void main(String[] args) {
            var kept = new java.util.ArrayList<java.nio.ByteBuffer>();
            for (int i = 0; i < 50; i++) kept.add(keep());
        }
    }";
    std::fs::write(&source, program).unwrap();
    let made = Command::new("javac").arg("-d").arg(folder.path()).arg(&source).status().unwrap();
    assert!(made.success());
    let recording = recorded(
        folder.path(),
        &[
            "java",
            "-Xcomp",
            "-XX:-Inline",
            "-XX:+PreserveFramePointer",
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:+DumpPerfMapAtExit",
            "-cp",
            folder.path().to_str().unwrap(),
            "Buffers",
        ],
    );
    let stacks = stacks(&recording);
    assert_eq!(stacks.len(), 50);
    for stack in stacks {
        let names: Vec<&str> = stack.iter().filter_map(|frame| frame.function.as_deref()).collect();
        assert!(names.iter().any(|name| name.contains("Buffers.keep(")), "{names:?}");
    }
}
