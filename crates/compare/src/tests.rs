//! Comparisons of generated runs: properties of every comparison.

use crate::verdict::verdict;
use crate::{
    Became, Change, Comparison, Figure, FunctionChange, HeldChange, Outcome, Presence, Reducer, Run,
};
use heaplab_report::{Shown, analyse};
use heaplab_text::paint::Look;
use heaplab_trace::bundle::{Bundle, BundleWriter, Meta, Selection};
use heaplab_trace::tables::{Arena, Frame, Process, StackNode, Tables, Thread};
use heaplab_trace::{Event, EventSink};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn bundled(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/what-if").join(name)
}

fn reduced(reducer: &mut Reducer, path: &Path) -> Run {
    let bundle = Bundle::open(path).unwrap();
    let analysis = analyse(&bundle, Selection::default(), None, Vec::new(), &mut |_| {}).unwrap();
    reducer.reduce(&bundle, &analysis, &Shown::Nothing)
}

fn compared(before: &[&str], after: &[&str]) -> Comparison {
    let mut reducer = Reducer::default();
    let [before, after] = [before, after]
        .map(|names| names.iter().map(|name| reduced(&mut reducer, &bundled(name))).collect());
    reducer.compare(before, after, "peak")
}

fn live(of: &Comparison) -> crate::Change {
    of.figures.iter().find(|row| row.figure == Figure::LiveBytes).unwrap().change
}

#[test]
fn a_recording_and_itself_do_not_differ() {
    let same = compared(&["sqlite-before.heaplab"], &["sqlite-before.heaplab"]);
    assert_eq!(same.verdict.outcome, Outcome::Same);
    assert!(same.verdict.sentences[0].starts_with("No difference: before and after need 6.77 MiB"));
    assert!(same.figures.iter().all(|row| row.change.difference == 0));
    assert!(same.functions.iter().all(|row| row.held.live_bytes.difference == 0
        && row.held.requests.difference == 0
        && row.presence == Presence::Both));
    assert!(same.findings.iter().all(|row| row.became == Became::Same));
}

/// SQLite before and after its own compile option, by the recordings' own events: 105,232 bytes
/// less at the peak, and 46 requests less.
#[test]
fn a_real_change_is_found_to_the_byte_and_the_way_back_is_the_negative() {
    let (there, back) = (
        compared(&["sqlite-before.heaplab"], &["sqlite-after.heaplab"]),
        compared(&["sqlite-after.heaplab"], &["sqlite-before.heaplab"]),
    );
    assert_eq!(live(&there).difference, -105_232);
    assert_eq!((there.verdict.outcome, back.verdict.outcome), (Outcome::Less, Outcome::More));
    for (one, other) in there.figures.iter().zip(&back.figures) {
        assert_eq!(one.change.difference, -other.change.difference);
    }
    for row in &there.functions {
        let other = back.functions.iter().find(|other| other.function == row.function).unwrap();
        assert_eq!(row.held.live_bytes.difference, -other.held.live_bytes.difference);
    }
    for row in &there.stacks {
        let other = back.stacks.iter().find(|other| other.stack == row.stack).unwrap();
        assert_eq!(row.held.live_bytes.difference, -other.held.live_bytes.difference);
        assert_eq!(row.lines.len(), other.lines.len());
    }
    // Every byte is some function's, and some stack's.
    let by_function: i64 = there.functions.iter().map(|row| row.held.live_bytes.difference).sum();
    let by_stack: i64 = there.stacks.iter().map(|row| row.held.live_bytes.difference).sum();
    let by_size: i64 = there.sizes.iter().map(|row| row.live_bytes.difference).sum();
    assert_eq!([by_function, by_stack, by_size], [-105_232; 3]);
}

#[test]
fn lines_that_moved_are_followed_and_a_mended_finding_is_gone() {
    let gawk = compared(&["gawk-before.heaplab"], &["gawk-after.heaplab"]);
    assert_eq!(live(&gawk).difference, 230_267);
    let stack = gawk.stacks.iter().find(|row| row.stack[0] == "r_interpret").unwrap();
    let lines: Vec<_> = stack.lines.iter().map(|line| (line.before, line.after)).collect();
    assert_eq!(lines, [(Some(837), Some(842)), (Some(864), Some(870))]);
    assert_eq!(gawk.stacks.iter().filter(|row| row.presence != Presence::Both).count(), 0);
    let growth = gawk.findings.iter().find(|row| row.kind == "growth").unwrap();
    assert_eq!((growth.became, growth.function.as_str()), (Became::Gone, "r_interpret"));
}

#[test]
fn two_programs_are_said_to_be_two() {
    let two = compared(&["gawk-before.heaplab"], &["sqlite-before.heaplab"]);
    assert!(
        two.warnings[0]
            .contains("two different programs (gawk-before before, sqlite-before after)")
    );
    assert!(compared(&["gawk-before.heaplab"], &["gawk-after.heaplab"]).warnings.is_empty());
}

#[test]
fn runs_that_differ_by_themselves_give_no_difference() {
    let one = ["sqlite-before.heaplab", "sqlite-after.heaplab"];
    let mixed = compared(&one, &["sqlite-after.heaplab", "sqlite-before.heaplab"]);
    assert_eq!(mixed.verdict.outcome, Outcome::Same);
    assert!(mixed.verdict.sentences[0].contains("beyond what runs differ by themselves"));
    assert!((mixed.confidence.unwrap() - 2.0 / 3.0).abs() < 1e-9);
    let steady = compared(&[one[0]; 4], &[one[1]; 4]);
    assert_eq!(
        (steady.verdict.outcome, live(&steady).low, live(&steady).high),
        (Outcome::Less, -105_232, -105_232)
    );
    assert!(steady.confidence.unwrap() >= 0.95);
}

#[test]
fn two_runs_a_side_do_not_know_their_spread() {
    let mut reducer = Reducer::default();
    let mut run = |more: u64| {
        let mut run = reduced(&mut reducer, &bundled("zstd-before.heaplab"));
        *run.figures.get_mut(&Figure::LiveBytes).unwrap() += more;
        run
    };
    let two: Vec<Run> = [0, 1, 100, 101].map(&mut run).into();
    let three: Vec<Run> = [0, 1, 2, 100, 101, 102].map(&mut run).into();
    let sides = |mut before: Vec<Run>| {
        let after = before.split_off(before.len() / 2);
        reducer.compare(before, after, "peak").verdict
    };
    let few = sides(two);
    assert_eq!(few.outcome, Outcome::Same);
    assert!(few.sentences[0].contains("No difference to speak of"), "{:?}", few.sentences);
    assert_eq!(sides(three).outcome, Outcome::More);
}

#[test]
fn churn_that_was_there_is_not_new() {
    let mut reducer = Reducer::default();
    let mut gawk = || reduced(&mut reducer, &bundled("gawk-before.heaplab"));
    let [before, mut after, before_again, mut without] = [(); 4].map(|()| gawk());
    let at = after.findings.iter().position(|found| found.kind == "churn").unwrap();
    let churn = after.findings.remove(at);
    without.findings.remove(at);
    without.stacks.get_mut(&churn.path).unwrap().clear();
    let became = |before: Run, after: Run| {
        let rows = reducer.compare(vec![before], vec![after], "peak").findings;
        let row = rows.iter().find(|row| row.kind == "churn" && row.function == churn.function);
        row.unwrap().became
    };
    // As many requests, no finding.
    assert_eq!(became(before, after), Became::Same);
    assert_eq!(became(before_again, without), Became::Gone);
}

/// Equal requests at other times: in the first run the survivors grow with time and allocations, in
/// the second all are old when the run ends.
#[test]
fn a_leak_is_equal_whether_it_grew_with_the_run_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut reducer = Reducer::default();
    let mut run = |name: &str, step_ns: u64| {
        let path = folder.path().join(name);
        let mut writer = BundleWriter::create(&path).unwrap();
        for object in 0..800 {
            let (size, time_ns) = (1000, object * step_ns);
            writer.push(&Event { object, size, stack: 1, time_ns, ..Event::default() }).unwrap();
        }
        let last = Event { object: 800, size: 8, time_ns: 800_000, ..Event::default() };
        writer.push(&last).unwrap();
        let frame = Frame { function: Some("keeps".into()), ..Frame::default() };
        let tables = Tables {
            frames: vec![frame],
            stacks: vec![StackNode::default(), StackNode { parent: 0, frame: 0 }],
            processes: vec![Process::default()],
            threads: vec![Thread::default()],
            arenas: vec![Arena { kind: "malloc".into(), ..Arena::default() }],
            ..Tables::default()
        };
        writer.finish(&tables, Meta::default()).unwrap();
        reduced(&mut reducer, &path)
    };
    let [grew, once] = [run("grew.heaplab", 1000), run("once.heaplab", 1)];
    let titles = [&grew, &once].map(|run| run.findings[0].title.clone());
    assert_ne!(titles[0], titles[1], "one grew with the run");
    let same = reducer.compare(vec![grew], vec![once], "peak");
    assert!(same.findings.iter().all(|row| row.became == Became::Same), "{:?}", same.findings);
}

#[test]
fn a_function_with_another_name_is_one_reason() {
    let mut of = compared(&["gawk-before.heaplab"], &["gawk-after.heaplab"]);
    let row = |function: &str, before, after| FunctionChange {
        function: function.into(),
        presence: Presence::Both,
        held: HeldChange { live_bytes: Change::of(&[before], &[after]), ..HeldChange::default() },
    };
    of.functions = vec![row("old_name", 900_000, 0), row("new_name", 0, 1_130_267)];
    let named_twice = verdict(&of).sentences[0].clone();
    assert!(named_twice.contains("new_name holds 1.08 MiB more"), "{named_twice}");
    let growth = of.findings.iter_mut().find(|row| row.kind == "growth").unwrap();
    (growth.function, growth.moved_from) = ("new_name".into(), Some("old_name".into()));
    let first = &verdict(&of).sentences[0];
    assert!(first.contains("new_name (before: old_name) holds 225 KiB more"), "{first}");
}

/// The same peak to the byte; after keeps what before gave back.
#[test]
fn a_leak_is_in_the_first_sentence_though_the_peak_is_the_same() {
    let mut reducer = Reducer::default();
    let [before, mut after] =
        [(); 2].map(|()| reduced(&mut reducer, &bundled("zstd-before.heaplab")));
    *after.figures.get_mut(&Figure::EndBytes).unwrap() += 500_000;
    let lines = after.stacks.values_mut().next().unwrap();
    lines.values_mut().next().unwrap().end_bytes += 500_000;
    let leak = reducer.compare(vec![before], vec![after], "peak");
    let first = &leak.verdict.sentences[0];
    assert!(first.starts_with("No difference: before and after need "), "{first}");
    assert!(
        first.contains(" at the peak, but 488 KiB more is live at the end, because "),
        "{first}"
    );
    assert!(first.ends_with(" holds 488 KiB more."), "{first}");
    let look = Look { width: 80, listing_width: 80, colour: false, top: 10 };
    let text = crate::text::comparison(&leak, &look);
    assert!(text.contains("By function that asks: live at the end\n"), "{text}");
    assert!(!text.contains("No function differs.\n"), "{text}");
}

#[test]
fn intervals_take_no_name_away_where_the_terminal_is_narrow() {
    let both = ["zstd-before.heaplab", "zstd-after.heaplab"];
    let mixed = compared(&both, &["zstd-after.heaplab", "zstd-before.heaplab"]);
    for (width, interval) in [
        (60, "          between -364 KiB and +364 KiB\n"),
        (80, "          between -364 KiB and +364 KiB\n"),
        (120, "  -364 KiB to +364 KiB  most resident\n"),
    ] {
        let look = Look { width, listing_width: width, colour: false, top: 10 };
        let text = crate::text::comparison(&mixed, &look);
        assert!(text.contains(interval), "{text}");
        assert!(width < 80 || text.contains("  freed before another was asked for\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
}

#[test]
fn a_run_that_is_given_twice_is_no_second_run() {
    let twice = compared(&["zstd-before.heaplab"; 2], &["zstd-after.heaplab"]);
    assert!(twice.warnings.iter().any(|warning| warning.contains("is given more than once")));
    assert!(twice.verdict.sentences.last().unwrap().starts_with("2 recordings before and 1 after"));
    let back = compared(&["zstd-after.heaplab"], &["zstd-before.heaplab", "sqlite-before.heaplab"]);
    assert!(back.verdict.sentences.last().unwrap().starts_with("1 recording before and 2 after"));
}

proptest! {
    /// For any two sides, each stack of either is in one row, and swapped sides give the same
    /// matching.
    #[test]
    fn no_stack_is_lost_or_counted_twice(
        before in prop::collection::btree_map(prop::collection::vec(0u32..5, 1..6), 1u64..50, 0..12),
        after in prop::collection::btree_map(prop::collection::vec(0u32..5, 1..6), 1u64..50, 0..12),
    ) {
        use crate::matching::{LeftOver, inlined};
        let left = |of: &std::collections::BTreeMap<Vec<u32>, u64>| -> Vec<(Vec<u32>, u64)> {
            of.iter().map(|(path, requests)| (path.clone(), *requests)).collect()
        };
        let (before, after) = (left(&before), left(&after));
        fn rows(of: &[(Vec<u32>, u64)]) -> Vec<LeftOver<'_>> {
            of.iter().map(|(path, requests)| LeftOver { path, requests: *requests, bytes: *requests }).collect()
        }
        let there = inlined(&rows(&before), &rows(&after));
        let back = inlined(&rows(&after), &rows(&before));
        let mut longer: Vec<_> = there.values().collect();
        longer.sort();
        longer.dedup();
        prop_assert_eq!(longer.len(), there.len(), "a stack is the same as one other");
        prop_assert_eq!(there, back);
    }
}
