//! Real programs' stacks, each compared inside of the program with libgcc's unwinder and with a walk that does not use the
//! cache (preload/verify.c): not one may differ or end early.

mod drainer;

use drainer::{Drainer, Image, Options};
use heaplab_recorder::layout::ALLOC;
use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Stdio};

const VERIFY_SAME: usize = 12;

/// Makes rings forget nodes all the time: they know 64 of them, fewer than a deep stack has frames.
const FORGETFUL: &[&str] = &["-DKNOWN_BITS=6", "-DKNOWN_BITS_FIRST=6"];

/// The preload object with the comparison compiled in.
fn verifying_object(folder: &Path, more: &[&str]) -> Vec<u8> {
    let out = folder.join("verify.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/preload/preload.c");
    let flags =
        "-std=gnu11 -O2 -DHEAPLAB_VERIFY -fPIC -shared -fvisibility=hidden -ftls-model=initial-exec -fexceptions -fno-builtin-malloc";
    let run = Command::new("cc").args(flags.split(' ')).args(more).args([source, "-o"]).arg(&out).output().expect("a C compiler");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    std::fs::read(out).unwrap()
}

/// Whether the program is there; without it the test is skipped, or fails where all must run.
fn installed(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    if !there {
        assert!(std::env::var_os("HEAPLAB_REQUIRE_ORACLES").is_none(), "{program} is not installed");
        eprintln!("skipped: {program} is not installed");
    }
    there
}

/// Records the command with every stack compared; gives the image of the program named.
fn verify(depth: u32, command: &mut Command, input: Option<&Path>) -> Image {
    verify_with(&[], depth, command, input)
}

fn verify_with(more: &[&str], depth: u32, command: &mut Command, input: Option<&Path>) -> Image {
    let folder = tempfile::tempdir().unwrap();
    let d = Drainer::with_preload(
        Options { stack_depth: depth, keep: depth == 64, ..Options::default() },
        &verifying_object(folder.path(), more),
    );
    let spool = d.folder.path().to_path_buf();
    let input = input.map_or(Stdio::null(), |path| std::fs::File::open(path).unwrap().into());
    let mut d = d;
    let mut child = d.spawn(command.stdin(input).stdout(Stdio::null()));
    let status = d.drain_until_exit(&mut child);
    assert!(status.success(), "{status}");
    let report = std::fs::read_to_string(spool.join("verify.txt")).unwrap_or_default();
    let images = d.finish();
    for image in &images {
        let others: Vec<_> = image.lost.iter().enumerate().filter(|(i, n)| *i != VERIFY_SAME && **n != 0).collect();
        assert!(others.is_empty(), "{}: {others:?}\n{report}", image.executable);
    }
    images.into_iter().max_by_key(|i| i.lost[VERIFY_SAME]).unwrap()
}

#[test]
fn sqlite_stacks_are_those_of_libgcc() {
    if !installed("sqlite3") {
        return;
    }
    let workload = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite-workload.sql");
    for depth in [16, 64] {
        let image = verify(depth, Command::new("sqlite3").arg(":memory:"), Some(&workload));
        assert!(image.lost[VERIFY_SAME] > 50_000);
        // Debian's sqlite3 has no frame pointers: following them gave 11 distinct stacks
        if depth != 64 {
            continue;
        }
        let nodes: HashSet<u32> = image.of_kind(ALLOC).map(|e| e.node()).collect();
        let stacks: HashSet<Vec<u64>> = nodes.iter().map(|&node| image.stack(node)).collect();
        assert!(stacks.len() >= 255, "{} stacks", stacks.len());
    }
}

#[test]
fn the_cpp_compilers_stacks_are_those_of_libgcc() {
    if !installed("g++") {
        return;
    }
    let source = tempfile::Builder::new().suffix(".cpp").tempfile().unwrap();
    std::fs::write(source.path(), "#include <map>\n#include <string>\nstd::map<std::string, int> m; int f() { return m[\"a\"]; }\n")
        .unwrap();
    for depth in [16, 64, 400] {
        let image = verify(depth, Command::new("g++").args(["-O1", "-c", "-o", "/dev/null"]).arg(source.path()), None);
        assert!(image.lost[VERIFY_SAME] > 20_000, "{}", image.lost[VERIFY_SAME]);
    }
}

#[test]
fn a_ring_that_forgets_its_nodes_defines_them_again() {
    let source = tempfile::Builder::new().suffix(".cpp").tempfile().unwrap();
    std::fs::write(source.path(), "#include <map>\n#include <string>\nstd::map<std::string, int> m; int f() { return m[\"a\"]; }\n")
        .unwrap();
    for depth in [16, 64] {
        if installed("g++") {
            verify_with(FORGETFUL, depth, Command::new("g++").args(["-O1", "-c", "-o", "/dev/null"]).arg(source.path()), None);
        }
        if installed("jq") {
            let image = verify_with(FORGETFUL, depth, Command::new("jq").args(["-n", "[range(3000)|{a:tostring,b:[.]}]|length"]), None);
            if depth == 64 {
                let different: HashSet<Vec<u64>> = (0..image.nodes.len() as u32).map(|node| image.stack(node)).collect();
                let (defined, different) = (image.nodes.len(), different.len());
                assert!(defined > 4 * different, "{defined} definitions of {different} nodes: nothing was forgotten");
            }
        }
    }
}

#[test]
fn jq_and_python_stacks_are_those_of_libgcc() {
    if installed("jq") {
        verify(64, Command::new("jq").args(["-n", "[range(3000)|{a:tostring,b:[.]}]|group_by(.a|length)|length"]), None);
    }
    if installed("python3") {
        let script = "import json, re, ssl, sqlite3; sqlite3.connect(':memory:').execute('create table t(x)'); json.dumps([{}] * 1000)";
        verify(64, Command::new("python3").args(["-c", script]), None);
    }
}
