//! Each change on a few rows, any changes on any legal workload, and whole bundles.

use super::*;
use crate::{Growth, Place, SizeRow, Sizes};
use heaplab_trace::order::OrderChecker;
use heaplab_trace::tables::{Arena, Process, Tables, Thread};
use heaplab_trace::{Event, EventSink, Flags, ObjectId};
use proptest::prelude::*;

fn tables(stacks: usize) -> Tables {
    Tables {
        stacks: vec![Default::default(); stacks],
        frames: vec![Default::default()],
        processes: vec![Process::default(); 2],
        threads: vec![Thread::default(); 2],
        arenas: vec![Arena { kind: "malloc".into(), ..Arena::default() }],
        ..Tables::default()
    }
}

fn of_stack(stack: u32, change: Change) -> Rule {
    Rule {
        place: Place::Stacks { name: "f".into(), stacks: vec![stack] },
        except: Vec::new(),
        change,
    }
}

fn alloc(object: ObjectId, size: u64, stack: u32) -> Event {
    Event { object, size, stack, ..Event::default() }
}

fn realloc(object: ObjectId, size: u64, stack: u32) -> Event {
    Event { op: Op::Realloc, object, size, stack, ..Event::default() }
}

fn free(object: ObjectId) -> Event {
    Event { op: Op::Free, object, ..Event::default() }
}

/// What rules make of events: `a3:100` is the birth of object 3, `r` a reallocation, `f` a free.
fn changed(rules: &[Rule], events: &[Event]) -> String {
    let mut changer = Changer::new(&tables(4), rules, None).unwrap();
    let mut rows: Vec<Event> = Vec::new();
    for event in events {
        changer.push(event, &mut rows).unwrap();
    }
    changer.finish(&mut rows).unwrap();
    let words = rows.iter().map(|row| match row.op {
        Op::Alloc => format!("a{}:{}", row.object, row.size),
        Op::Realloc => format!("r{}:{}", row.object, row.size),
        Op::Free => format!("f{}", row.object),
        other => format!("{other:?}{}", row.object),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn sizes_change_where_they_are_asked_for() {
    let row = |beside| SizeRow { from: 100, to: 64, beside, displaces: false };
    let events = [alloc(0, 100, 1), alloc(1, 100, 2), realloc(1, 100, 1), free(0), free(1)];
    let rules = |beside| [of_stack(1, Change::Sizes(Sizes::Table(vec![row(beside)])))];
    assert_eq!(changed(&rules(0), &events), "a0:64 a1:100 r1:64 f0 f1");
    assert_eq!(changed(&rules(9), &events), "a0:64 a1:9 a2:100 r2:64 f1 f0 f2");
    let less = [of_stack(1, Change::Sizes(Sizes::Less(8)))];
    assert_eq!(changed(&less, &events), "a0:92 a1:100 r1:92 f0 f1");
}

#[test]
fn a_buffer_that_is_large_enough_is_not_asked_for_again() {
    let rules = [of_stack(1, Change::Grow(Growth::Factor(2.0)))];
    let steps = |to: u64| (101..=to).map(|size| realloc(0, size, 1));
    let events: Vec<Event> = [alloc(0, 100, 2)].into_iter().chain(steps(401)).collect();
    assert_eq!(changed(&rules, &events), "a0:100 r0:200 r0:400 r0:800");
    // What is made to fit is made so, and grows from there.
    let fit = [alloc(0, 100, 2), realloc(0, 150, 1), realloc(0, 120, 1), realloc(0, 130, 1)];
    assert_eq!(changed(&rules, &fit), "a0:100 r0:200 r0:120 r0:240");
    let powers = [of_stack(1, Change::Grow(Growth::PowerOfTwo))];
    assert_eq!(changed(&powers, &events), "a0:100 r0:128 r0:256 r0:512");
    let others = [alloc(0, 100, 1), realloc(0, 150, 2), free(0)];
    assert_eq!(changed(&rules, &others), "a0:100 r0:150 f0");
}

#[test]
fn a_buffer_that_grows_by_hand_is_one_buffer() {
    let rules = [of_stack(1, Change::Grow(Growth::Factor(2.0)))];
    let steps: Vec<Event> = (0..6u64)
        .flat_map(|step| {
            let old = (step > 0).then(|| free(step - 1));
            [Some(alloc(step, 100 + 30 * step, 1)), old].into_iter().flatten()
        })
        .chain([free(5), alloc(6, 8, 2)])
        .collect();
    // 100, 130 (200), 160, 190, 220 (400), 250.
    assert_eq!(changed(&rules, &steps), "a0:100 a1:200 f0 a2:400 f1 f2 a3:8");
    // Two buffers that live together are two, also if they grow in turn.
    let two = [alloc(0, 100, 1), alloc(1, 130, 1), free(1), free(0)];
    assert_eq!(changed(&rules, &two), "a0:100 a1:130 f1 f0");
    let in_turn = [
        alloc(0, 100, 1),
        alloc(1, 500, 1),
        alloc(2, 130, 1),
        free(0),
        alloc(3, 600, 1),
        free(1),
        alloc(4, 190, 1),
        free(2),
        alloc(5, 210, 1),
        free(4),
    ];
    // 100, 130 (200), 190, 210 (400); 500, 600 (1000).
    assert_eq!(changed(&rules, &in_turn), "a0:100 a1:500 a2:200 f0 a3:1000 f1 a4:400 f2");
}

#[test]
fn what_is_kept_serves_again() {
    let rules = [of_stack(1, Change::Reuse)];
    let events = [
        alloc(0, 100, 1),
        free(0),
        alloc(1, 90, 1),
        realloc(1, 100, 2),
        realloc(1, 150, 2),
        alloc(2, 90, 1),
        free(1),
        alloc(3, 200, 1),
        free(2),
    ];
    assert_eq!(changed(&rules, &events), "a0:100 r0:150 a1:90 f0 a2:200");
}

#[test]
fn a_cap_frees_the_oldest() {
    let rules = [of_stack(1, Change::Cap { bytes: 100 })];
    let events = [
        alloc(0, 60, 1),
        alloc(1, 60, 1),
        realloc(0, 70, 1),
        free(0),
        alloc(2, 40, 1),
        realloc(2, 41, 1),
        free(1),
        free(2),
    ];
    assert_eq!(changed(&rules, &events), "a0:60 f0 a1:60 a2:40 f1 r2:41 f2");
}

#[test]
fn what_is_dropped_is_gone_and_the_rest_has_new_numbers() {
    let rules = [of_stack(1, Change::Drop)];
    let events = [
        alloc(0, 1, 1),
        alloc(1, 2, 2),
        realloc(0, 3, 2),
        Event { op: Op::UsableSizeRead, object: 0, ..Event::default() },
        free(1),
        free(0),
        Event { flags: Flags::INHERITED, process: 1, ..free(0) },
        Event { flags: Flags::INHERITED, process: 1, ..free(1) },
    ];
    assert_eq!(changed(&rules, &events), "a0:2 f0 f0");
}

#[test]
fn an_arena_is_freed_whole() {
    let rules = [of_stack(1, Change::Arena { chunk_bytes: 256 })];
    let events = [
        alloc(0, 100, 1),
        alloc(1, 100, 1),
        alloc(2, 100, 1),
        alloc(3, 5, 2),
        free(0),
        free(2),
        free(1),
        free(3),
    ];
    assert_eq!(changed(&rules, &events), "a0:256 a1:256 a2:5 f0 f1 f2");
}

#[test]
fn a_bundle_is_changed_whole_and_says_whence() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["a.heaplab", "b.heaplab"].map(|name| folder.path().join(name));
    let mut writer = BundleWriter::create(&from).unwrap();
    for object in 0..1000 {
        writer.push(&Event { usable: 104, ..alloc(object, 100, 1 + (object % 2) as u32) }).unwrap();
        if object % 10 != 3 {
            writer.push(&free(object)).unwrap();
        }
    }
    // Born elsewhere, and grown by stack 2 last.
    writer.push(&alloc(1000, 8, 3)).unwrap();
    writer.push(&realloc(1000, 16, 2)).unwrap();
    writer.finish(&tables(4), Meta::default()).unwrap();
    let bundle = Bundle::open(&from).unwrap();
    // Stack 2 keeps a hundred, and asks twice for one more; stack 1 keeps none.
    let rules = [of_stack(2, Change::DropUnfreed), of_stack(1, Change::Drop)];
    let done = change(&bundle, &rules, None, &to, |_| ()).unwrap().done;
    assert_eq!((done[0].spared, done[1].spared), (102, 500));
    let after = Bundle::open(&to).unwrap();
    after.verify().unwrap();
    assert_eq!((after.meta().objects, after.meta().events), (400, 800));
    let origin = after.meta().origin.clone().unwrap();
    assert_eq!(origin.bundle, from.display().to_string());
    assert_eq!(origin.changes, ["f: what is never freed is not made", "f: nothing is asked for"]);
    // One function's leak and its other blocks: two rules of one stack, in any order.
    let mut rules = [of_stack(2, Change::DropUnfreed), of_stack(2, Change::Reuse)];
    for _ in 0..2 {
        let done = change(&bundle, &rules, None, &to, |_| ()).unwrap().done;
        let of =
            |change: Change| done[rules.iter().position(|rule| rule.change == change).unwrap()];
        assert_eq!(of(Change::DropUnfreed).spared, 102);
        assert_eq!((of(Change::Reuse).requests, of(Change::Reuse).spared), (400, 399));
        rules.reverse();
    }
    // Nothing is left for the second rule.
    let all = [of_stack(1, Change::Drop), of_stack(1, Change::Grow(Growth::PowerOfTwo))];
    assert_eq!(change(&bundle, &all, None, &to, |_| ()).unwrap().done[1].requests, 0);
}

#[test]
fn what_cannot_be_changed_so_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["a.heaplab", "b.heaplab"].map(|name| folder.path().join(name));
    let meta = Meta { death_rule: "noticed at a collection".into(), ..Meta::default() };
    BundleWriter::create(&from).unwrap().finish(&tables(2), meta).unwrap();
    let bundle = Bundle::open(&from).unwrap();
    let error = change(&bundle, &[of_stack(1, Change::Reuse)], None, &to, |_| ()).unwrap_err();
    assert!(error.to_string().contains("noticed at a collection"), "{error}");
    assert!(!to.exists());
    let error = change(&bundle, &[of_stack(1, Change::Drop)], None, &to, |_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "f: nothing is asked for: no request of this recording is concerned"
    );
    assert!(!to.exists());
}

/// A legal workload from small numbers.
fn workload(steps: &[(u8, u8, u16)]) -> Vec<Event> {
    let (mut events, mut live, mut born) = (Vec::new(), Vec::new(), 0);
    for (what, whom, size) in steps {
        let (stack, size) = (u32::from(whom % 4), u64::from(*size));
        let thread = u32::from(whom / 128);
        let row = match (what % 8, live.len()) {
            (0..3, _) | (_, 0) => {
                live.push(born);
                born += 1;
                alloc(born - 1, size, stack)
            }
            (3..5, count) => realloc(live[usize::from(*whom) % count], size, stack),
            (5, count) => {
                let object = live[usize::from(*whom) % count];
                Event { op: Op::UsableSizeRead, object, ..Event::default() }
            }
            (6, _) => Event { flags: Flags::INHERITED, ..free(u64::from(*whom) % born) },
            (_, count) => free(live.swap_remove(usize::from(*whom) % count)),
        };
        // An object is its process's own.
        let process = u32::from(row.object % 5 == 4);
        events.push(Event { thread, process, ..row });
    }
    events
}

fn any_change() -> impl Strategy<Value = Change> {
    let row = SizeRow { from: 7, to: 5, beside: 3, displaces: false };
    let displaced = SizeRow { from: 9, to: 8, beside: 0, displaces: true };
    prop_oneof![
        Just(Change::Sizes(Sizes::Less(3))),
        Just(Change::Sizes(Sizes::Table(vec![row, displaced]))),
        (1.1..4.0f64).prop_map(|factor| Change::Grow(Growth::Factor(factor))),
        Just(Change::Grow(Growth::PowerOfTwo)),
        (0..200u64).prop_map(|bytes| Change::Cap { bytes }),
        Just(Change::Reuse),
        Just(Change::Drop),
        (64..200u64).prop_map(|chunk_bytes| Change::Arena { chunk_bytes }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn changed_workloads_are_legal(
        steps in prop::collection::vec(any::<(u8, u8, u16)>().prop_map(|(a, b, c)| (a, b, c % 20)), 0..400),
        changes in prop::collection::vec((0..4u32, any_change()), 1..4),
        process in prop::option::of(0..2u32),
    ) {
        let rules: Vec<Rule> =
            changes.into_iter().map(|(stack, change)| of_stack(stack, change)).collect();
        let tables = tables(4);
        let mut changer = Changer::new(&tables, &rules, process).unwrap();
        let (mut rows, mut checker) = (Vec::new(), OrderChecker::new("changed", &tables));
        for event in workload(&steps) {
            changer.push(&event, &mut rows).unwrap();
        }
        changer.finish(&mut rows).unwrap();
        for row in &rows {
            checker.check(row).map_err(|error| TestCaseError::fail(error.to_string()))?;
        }
    }

    #[test]
    fn no_rule_changes_nothing(
        steps in prop::collection::vec(any::<(u8, u8, u16)>(), 0..200),
    ) {
        let (events, mut rows) = (workload(&steps), Vec::new());
        let mut changer = Changer::new(&tables(4), &[], None).unwrap();
        for event in &events {
            changer.push(event, &mut rows).unwrap();
        }
        prop_assert_eq!(rows, events);
    }
}
