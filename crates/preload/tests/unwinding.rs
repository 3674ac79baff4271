//! Real programs' stacks, each compared inside of the program with libgcc's unwinder and with a
//! walk without the cache (c/verify.c): none may differ or end early.

mod drainer;
mod machine;

use drainer::{Drainer, Image, Options};
use heaplab_preload::layout::{ALLOC, REPORT};
use std::collections::HashSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Slots of the comparison's counts: stacks told without a walk, and equal stacks.
const VERIFY_TRACED: usize = 11;
const VERIFY_SAME: usize = 12;

/// Compiles the comparison in.
const VERIFYING: &str = "-DHEAPLAB_VERIFY";

/// Makes rings forget nodes and traces all the time: they hold 64 nodes, fewer than a deep stack
/// has frames, and a few stacks.
const FORGETFUL: &[&str] = &["-DKNOWN_BITS=6,10,3,2", "-DKNOWN_BITS_FIRST=6,10,3,2", GUESSING];

/// Tries traces even if they do not pay.
const GUESSING: &str = "-DTRACE_ALWAYS";

/// Records the command and compares every stack; returns the image of the named program.
fn verify(depth: u32, command: &mut Command, input: Option<&Path>) -> Image {
    verify_with(&[], depth, command, input)
}

fn verify_with(more: &[&str], depth: u32, command: &mut Command, input: Option<&Path>) -> Image {
    let d = verifying(machine::own(), more, depth);
    let input = input.map_or(Stdio::null(), |path| std::fs::File::open(path).unwrap().into());
    let child = d.spawn(command.stdin(input).stdout(Stdio::null()));
    verified(d, child)
}

fn verifying(machine: &machine::Machine, more: &[&str], depth: u32) -> Drainer {
    let options = Options { stack_depth: depth, keep: depth == 64, ..Options::default() };
    Drainer::with_preload(options, &machine.object(&[&[VERIFYING], more].concat()))
}

/// Waits for the child; returns its image with the most stacks.
fn verified(mut d: Drainer, mut child: Child) -> Image {
    let spool = d.folder.path().to_path_buf();
    let status = d.drain_until_exit(&mut child);
    assert!(status.success(), "{status}");
    let report = std::fs::read_to_string(spool.join("verify.txt")).unwrap_or_default();
    let images = d.finish();
    for image in &images {
        let others: Vec<_> = image
            .lost
            .iter()
            .enumerate()
            .filter(|(i, n)| ![VERIFY_TRACED, VERIFY_SAME].contains(i) && **n != 0)
            .collect();
        assert!(others.is_empty(), "{}: {others:?}\n{report}", image.executable);
    }
    images.into_iter().max_by_key(|i| i.lost[VERIFY_SAME]).unwrap()
}

#[test]
fn sqlite_stacks_are_those_of_libgcc() {
    if !heaplab_oracle::has("sqlite3") {
        return;
    }
    let workload = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite-workload.sql");
    for depth in [16, 64] {
        let image = verify(depth, Command::new("sqlite3").arg(":memory:"), Some(&workload));
        let (same, traced) = (image.lost[VERIFY_SAME], image.lost[VERIFY_TRACED]);
        // 95.5 % as a rule. At the program's start one stack in eight is new, and guessing
        // sometimes rests for a while: 91.5 %.
        assert!(
            same > 50_000 && traced * 5 > same * 4,
            "{traced} of {same} stacks were told without a walk"
        );
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
    if !heaplab_oracle::has("g++") {
        return;
    }
    let source = tempfile::Builder::new().suffix(".cpp").tempfile().unwrap();
    std::fs::write(source.path(), "#include <map>\n#include <string>\nstd::map<std::string, int> m; int f() { return m[\"a\"]; }\n")
        .unwrap();
    for depth in [16, 64, 400] {
        let image = verify_with(
            &[GUESSING],
            depth,
            Command::new("g++").args(["-O1", "-c", "-o", "/dev/null"]).arg(source.path()),
            None,
        );
        let (same, traced) = (image.lost[VERIFY_SAME], image.lost[VERIFY_TRACED]);
        assert!(
            same > 20_000 && traced * 4 > same,
            "{traced} of {same} stacks were told without a walk"
        );
    }
}

#[test]
fn a_ring_that_forgets_its_nodes_defines_them_again() {
    let source = tempfile::Builder::new().suffix(".cpp").tempfile().unwrap();
    std::fs::write(source.path(), "#include <map>\n#include <string>\nstd::map<std::string, int> m; int f() { return m[\"a\"]; }\n")
        .unwrap();
    for depth in [16, 64] {
        if heaplab_oracle::has("g++") {
            verify_with(
                FORGETFUL,
                depth,
                Command::new("g++").args(["-O1", "-c", "-o", "/dev/null"]).arg(source.path()),
                None,
            );
        }
        if heaplab_oracle::has("jq") {
            let image = verify_with(
                FORGETFUL,
                depth,
                Command::new("jq").args(["-n", "[range(3000)|{a:tostring,b:[.]}]|length"]),
                None,
            );
            if depth == 64 {
                let different: HashSet<Vec<u64>> =
                    (0..image.nodes.len() as u32).map(|node| image.stack(node)).collect();
                let (defined, different) = (image.nodes.len(), different.len());
                assert!(
                    defined > 4 * different,
                    "{defined} definitions of {different} nodes: nothing was forgotten"
                );
            }
        }
    }
}

#[test]
fn jq_and_python_stacks_are_those_of_libgcc() {
    if heaplab_oracle::has("jq") {
        verify_with(
            &[GUESSING],
            64,
            Command::new("jq")
                .args(["-n", "[range(3000)|{a:tostring,b:[.]}]|group_by(.a|length)|length"]),
            None,
        );
    }
    if heaplab_oracle::has("python3") {
        let script = "import json, re, ssl, sqlite3; sqlite3.connect(':memory:').execute('create table t(x)'); json.dumps([{}] * 1000)";
        verify(64, Command::new("python3").args(["-c", script]), None);
    }
}

#[test]
fn reports_within_a_pass_have_the_stacks_of_libgcc() {
    let ways: [(&[&str], u32, &str); 5] = [
        (&[GUESSING], 64, "-fomit-frame-pointer"),
        (&[GUESSING], 64, "-fno-omit-frame-pointer"),
        (&[GUESSING], 8, "-fomit-frame-pointer"),
        (&[], 64, "-fomit-frame-pointer"),
        (FORGETFUL, 64, "-fomit-frame-pointer"),
    ];
    for machine in std::iter::once(machine::own()).chain(machine::aarch64()) {
        // qemu takes half a minute for each way
        let ways = if machine.is_emulated() { &ways[..1] } else { &ways };
        for &(more, stack_depth, frames) in ways {
            let options = Options { stack_depth, reports: true, ..Options::default() };
            let object = machine.object(&[&[VERIFYING], more].concat());
            let d = Drainer::with_preload(options, &object);
            let program =
                machine.compile(d.folder.path(), "passes.c", "passes", &[frames, "-rdynamic"]);
            let mut command = machine.command(&program, &d.variables());
            let image = verified(d, drainer::start(&mut command));
            let reports = image.of_kind(REPORT).count();
            let (same, traced) = (image.lost[VERIFY_SAME], image.lost[VERIFY_TRACED]);
            assert!(reports > 3000, "{reports} reports");
            assert!(
                more != [GUESSING] || traced * 2 > same,
                "{traced} of {same} stacks were told without a walk"
            );
        }
    }
}

#[test]
fn an_aarch64_programs_stacks_are_those_of_libgcc() {
    let Some(aarch64) = machine::aarch64() else { return };
    for (more, depth) in [(&[][..], 16), (&[GUESSING], 64), (&[], 190), (FORGETFUL, 64)] {
        let d = verifying(aarch64, more, depth);
        let folder = d.folder.path();
        let program =
            aarch64.compile(folder, "stacks.c", "stacks", &["-fomit-frame-pointer", "-rdynamic"]);
        let plugin = aarch64.compile(folder, "plugin.c", "plugin.so", &["-shared", "-fPIC"]);
        let mut command = aarch64.command(&program, &d.variables());
        let child = drainer::start(command.arg(plugin).stdout(Stdio::null()));
        assert!(verified(d, child).lost[VERIFY_SAME] > 150);
    }
}
