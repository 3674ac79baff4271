//! Births and deaths against a program that knows its own.

use super::*;
use heaplab_trace::Op;
use std::collections::HashMap;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/truth.js");
/// What an array's sample has beside its elements: their header; with the array itself; with V8's
/// memento of where it was allocated, too.
const HEADERS_BYTES: [u64; 3] = [16, 16 + 32, 16 + 32 + 16];

#[derive(serde::Deserialize)]
struct Truth {
    births: Vec<u64>,
    deaths: Vec<i64>,
}

/// The elements of an array of the program's, of which it has a multiple of eight.
fn length(bytes: u64) -> Option<u64> {
    let of = |header| {
        bytes
            .checked_sub(header)
            .filter(|rest| *rest >= 4096 && rest.is_multiple_of(64))
            .map(|rest| rest / 8)
    };
    HEADERS_BYTES.into_iter().find_map(of)
}

/// The arrays that were born in `make`, which the optimising compiler may put into `round`.
fn arrays(bundle: &Bundle, events: &[Event]) -> Vec<(usize, u64, u64)> {
    let tables = bundle.tables();
    let mut innermost: HashMap<u32, bool> = HashMap::new();
    let mut is_ours = |stack: u32| {
        *innermost.entry(stack).or_insert_with(|| {
            let frame = tables.frames_of(stack).next().map(|frame| tables.frame_label(frame));
            matches!(frame.as_deref(), Some("make" | "round"))
        })
    };
    let births = events.iter().enumerate().filter(|(_, event)| event.op == Op::Alloc);
    births
        .filter(|(_, event)| is_ours(event.stack))
        .filter_map(|(row, event)| Some((row, event.object, length(event.size)?)))
        .collect()
}

/// The rows and objects of the arrays that the program knows, in order, and how many of them the
/// recording does not have.
fn matched(arrays: &[(usize, u64, u64)], lengths: &[u64]) -> (Vec<Option<(usize, u64)>>, usize) {
    let mut rest = arrays.iter().peekable();
    let of = |length: &u64| {
        rest.next_if(|(_, _, found)| found == length).map(|(row, object, _)| (*row, *object))
    };
    let matched: Vec<_> = lengths.iter().map(of).collect();
    assert!(rest.next().is_none(), "every array of the recording is the program's, in its order");
    let missed = matched.iter().filter(|array| array.is_none()).count();
    (matched, missed)
}

/// How many arrays were not recorded, and how many of the others died at a later collection than
/// the first one after their slot was emptied.
fn check(node: &Path, options: &[&str], flags: &[&str]) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let truth = folder.path().join("truth.json");
    let command = [&[node.to_str().unwrap()], flags, &[PROGRAM, truth.to_str().unwrap()]].concat();
    let output = record(folder.path(), options, &command);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", said(&output.stderr));
    let truth: Truth = serde_json::from_str(&std::fs::read_to_string(&truth).unwrap()).unwrap();
    let (bundle, events) = bundle(folder.path());
    assert_eq!(
        (&bundle.meta().cut, bundle.meta().losses.len()),
        (&None, 0),
        "{:?}",
        bundle.meta().losses
    );
    let arrays = arrays(&bundle, &events);
    let (arrays, missed) = matched(&arrays, &truth.births);
    let frees: HashMap<u64, usize> = events
        .iter()
        .enumerate()
        .filter(|(_, event)| event.op == Op::Free)
        .map(|(row, event)| (event.object, row))
        .collect();
    let collections: Vec<usize> = events
        .iter()
        .enumerate()
        .filter(|(_, event)| event.op == Op::Collect)
        .map(|(row, _)| row)
        .collect();
    assert!(collections.len() > 5, "{collections:?}");
    // The collection at which a row stands, or that comes after it.
    let collection = |row: usize| collections.partition_point(|collection| *collection < row);
    let mut late = 0;
    for (array, death) in arrays.iter().zip(&truth.deaths) {
        let Some((_, object)) = array else { continue };
        let noticed = frees.get(object).map(|row| collection(*row));
        match usize::try_from(*death) {
            Err(_) => assert_eq!(noticed, None, "what is kept does not die"),
            Ok(death) => {
                // Its slot was emptied before the next array was born.
                let before = arrays[..death]
                    .iter()
                    .rev()
                    .flatten()
                    .next()
                    .expect("some array was born before");
                let due = collection(before.0);
                let noticed = noticed.expect("what was let go of dies");
                assert!(noticed >= due, "no death is noticed before it happens");
                late += usize::from(noticed != due);
            }
        }
    }
    let count = truth.births.len();
    eprintln!(
        "{node:?} {flags:?} {options:?}: of {count} births {missed} missed, of the deaths {late} late, {} collections",
        collections.len()
    );
    (missed, late)
}

/// A collection finds an array live that the program let go of just before, where a register still
/// has it. And the profiler of V8 before 12 misses single births in functions that were just
/// optimised (the inspector's does as well).
#[test]
fn births_and_deaths_are_those_that_the_program_knows() {
    for node in nodes() {
        let is_old = {
            let output = Command::new(&node).arg("--version").output().unwrap();
            ["v18.", "v20."].iter().any(|old| said(&output.stdout).starts_with(old))
        };
        let coarse = ["--granularity", "2M", "--stack-depth", "4"];
        for (options, flags, missed_max) in
            [(&[][..], &["--no-opt"][..], 0), (&[], &[], 10), (&coarse, &[], 10)]
        {
            let (missed, late) = check(&node, options, flags);
            let missed_max = if is_old { missed_max } else { 0 };
            assert!(
                missed <= missed_max && late <= 3,
                "{node:?} {options:?} {flags:?}: {missed} missed, {late} late"
            );
        }
    }
}
