//! `segregated` against its model, a real Go: the same births, all in old space, the same deaths,
//! and the bytes of spans after each forced collection.
//!
//! Go takes spans in an order of its own, and its spans hold its own objects too, so the bytes
//! differ. Equal are the classes, the sizes of spans, and that empty spans go back.
//! `cargo test -p heaplab-v8 --test against_installed_go -- --nocapture` prints the table.

mod shapes;

use heaplab_heap::{Collected, Collection};
use heaplab_v8::{Spec, V8Heap};
use shapes::{Length, SHAPES, Step, slots, workload};
use std::io::Write;
use std::process::{Command, Stdio};

/// Bytes of spans and of cells with objects, after each collection.
type Lines = Vec<[u64; 2]>;

/// Bytes of an object of `words` words: a header word more, two words at least.
fn bytes(words: u32) -> u32 {
    (8 + words.max(1) * 8).max(16)
}

fn in_go(program: &std::path::Path, steps: &[Step]) -> Lines {
    let mut input = slots(steps).to_le_bytes().to_vec();
    for step in steps {
        let (slot, bytes) = match *step {
            Step::Birth(slot, words) => (slot as i32, bytes(words)),
            Step::Map(_) => panic!("Go has no hidden classes"),
            Step::Death(slot) => (slot as i32, 0),
            Step::Collect => (-1, 0),
        };
        input.extend([slot, bytes as i32].into_iter().flat_map(i32::to_le_bytes));
    }
    let mut child = Command::new(program)
        .env("GOGC", "off")
        .env("GOMAXPROCS", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let number = |text: &str| text.parse::<u64>().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| line.split_once(' ').map(|(one, two)| [number(one), number(two)]).unwrap())
        .collect()
}

fn here(steps: &[Step]) -> Lines {
    let spec = Spec::parse("segregated,shape=plain").unwrap();
    let mut heap = V8Heap::new(spec).unwrap();
    shapes::run(&mut heap, steps, true);
    let state = |one: &Collection| {
        let after = one.after;
        [after.committed_bytes, after.used_bytes]
    };
    heap.collections().iter().map(state).collect()
}

#[test]
fn spans_are_about_those_of_go() {
    if !heaplab_oracle::runs("go", &["version"]) {
        return;
    }
    let folder = std::env::temp_dir().join(format!("heaplab-go-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("spans");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/spans.go");
    let built = Command::new("go").args(["build", "-o"]).arg(&program).arg(source).status();
    assert!(built.unwrap().success(), "go build {source}");
    println!("| workload | collection | spans of Go | spans here | ratio |\n|---|---|---|---|---|");
    // Objects of "large" are not cells: both sides keep them apart.
    for shape in SHAPES.into_iter().filter(|shape| !["large", "arrays"].contains(shape)) {
        let steps = workload(shape, Length { births: 60_000, every: 15_000, seed: 23 });
        let (go, ours) = (in_go(&program, &steps), here(&steps));
        assert_eq!((go.len(), ours.len()), (4, 4), "{shape}");
        for (at, (go, ours)) in go.iter().zip(&ours).enumerate() {
            let ratio = ours[0] as f64 / go[0] as f64;
            println!("| {shape} | {} | {} | {} | {ratio:.4} |", at + 1, go[0], ours[0]);
            assert!((0.95..1.05).contains(&ratio), "{shape}: {go:?} in Go, {ours:?} here");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
