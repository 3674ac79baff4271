//! The streaming pass against a plain model that keeps everything: same sums, same peak, same rows
//! at the peak.

use heaplab_profile::{
    Amount, At, Lives, MomentRequest, Profile, ProfileOptions, SURVIVES, TimelineAxis,
    remapped_from_bytes,
};
use heaplab_trace::source::Slice;
use heaplab_trace::tables::{Mark, StackNode, Tables};
use heaplab_trace::{Event, Flags, Op};
use proptest::prelude::*;
use std::collections::BTreeMap;

const STACKS: usize = 6;

fn tables() -> Tables {
    Tables { stacks: vec![StackNode::default(); STACKS], ..Tables::default() }
}

fn run(events: &[Event], options: &ProfileOptions) -> Profile {
    Profile::of(&tables(), &mut Slice(events), options).unwrap()
}

/// Turns loose choices into a legal workload.
fn workload(choices: &[(u8, u16, u16)]) -> Vec<Event> {
    let mut live: Vec<u64> = Vec::new();
    let mut born = 0;
    let mut events = Vec::new();
    for (row, &(what, size, pick)) in choices.iter().enumerate() {
        let stack = u32::from(pick) % STACKS as u32;
        let base = Event {
            size: size.into(),
            usable: u64::from(size).next_multiple_of(16),
            stack,
            thread: u32::from(what) % 3,
            time_ns: row as u64 * 10 + 1,
            ..Event::default()
        };
        let at = usize::from(pick) % live.len().max(1);
        match what % 8 {
            0..=2 => {
                events.push(Event { op: Op::Alloc, object: born, ..base });
                live.push(born);
                born += 1;
            }
            3 | 4 if !live.is_empty() => {
                let (size, usable, stack) = (0, 0, 0);
                events.push(Event {
                    op: Op::Free,
                    object: live.swap_remove(at),
                    size,
                    usable,
                    stack,
                    ..base
                });
            }
            5 | 6 if !live.is_empty() => {
                let flags = if what > 100 { Flags::MOVED } else { Flags::default() };
                events.push(Event { op: Op::Realloc, object: live[at], flags, ..base });
            }
            7 => events.push(Event { op: Op::Alloc, flags: Flags::FAILED, ..base }),
            _ => events.push(Event {
                op: Op::Free,
                flags: Flags::INHERITED,
                object: 1 << 40,
                ..base
            }),
        }
    }
    events
}

/// Live objects by id as (size, usable, stack), after every event.
fn model(events: &[Event]) -> Vec<BTreeMap<u64, (u64, u64, u32)>> {
    let mut live = BTreeMap::new();
    events
        .iter()
        .map(|event| {
            if event.counts() {
                match event.op {
                    Op::Alloc | Op::Realloc => {
                        live.insert(event.object, (event.size, event.usable, event.stack));
                    }
                    _ => {
                        live.remove(&event.object);
                    }
                }
            }
            live.clone()
        })
        .collect()
}

fn sum<'a>(objects: impl Iterator<Item = &'a (u64, u64, u32)>) -> Amount {
    objects.fold(Amount::default(), |sum, (bytes, usable, _)| Amount {
        objects: sum.objects + 1,
        bytes: sum.bytes + bytes,
        usable_bytes: sum.usable_bytes + usable,
    })
}

/// A life: from a request to a release, with stack, thread and size of the request.
#[derive(Clone, Copy, Debug)]
struct Life {
    began_ns: u64,
    /// `u64::MAX`: lives at the end.
    ended_ns: u64,
    bytes: u64,
    stack: u32,
    thread: u32,
    temporary: bool,
}

fn lives(events: &[Event]) -> Vec<Life> {
    let mut live: BTreeMap<u64, Life> = BTreeMap::new();
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    let mut ended = Vec::new();
    for event in events.iter().filter(|event| event.counts()) {
        if let Some(life) = live.remove(&event.object) {
            let temporary = event.op == Op::Free && last.get(&event.thread) == Some(&event.object);
            ended.push(Life { ended_ns: event.time_ns, temporary, ..life });
        }
        if event.op == Op::Free {
            last.retain(|thread, object| *thread != event.thread || *object != event.object);
            continue;
        }
        last.insert(event.thread, event.object);
        let (began_ns, ended_ns, temporary) = (event.time_ns, u64::MAX, false);
        let Event { size: bytes, stack, thread, .. } = *event;
        live.insert(event.object, Life { began_ns, ended_ns, bytes, stack, thread, temporary });
    }
    ended.extend(live.into_values());
    ended
}

proptest! {
    #[test]
    fn lives_by_step_answer_for_any_range(
        choices in prop::collection::vec(any::<(u8, u16, u16)>(), 1..400),
        steps in 2..40usize,
        (from, to) in (0.0..1.0f64, 0.0..1.0f64),
    ) {
        let events = workload(&choices);
        let profile = run(&events, &ProfileOptions { range_steps: steps, ..ProfileOptions::default() });
        let ranges = profile.ranges.as_ref().unwrap();
        prop_assert!(ranges.steps <= steps && ranges.width.is_power_of_two());
        let step = |share: f64| (share * (ranges.steps + 1) as f64) as u16;
        let (from, to) = (step(from.min(to)), step(from.max(to)));
        let at = |step: u16| ranges.first + u64::from(step) * ranges.width;
        let (from_ns, to_ns) = (at(from), at(to));
        let lives = lives(&events);
        for site in &ranges.sites {
            let own: Vec<&Life> = lives.iter()
                .filter(|life| life.stack == site.stack && life.thread == site.thread).collect();
            let ours = |passes: &dyn Fn(&Lives) -> bool| site.lives.iter()
                .filter(|lives| passes(lives))
                .fold((0, 0, 0), |(objects, bytes, temporary), lives| (objects + lives.all.objects,
                    bytes + lives.all.bytes, temporary + lives.temporary.objects));
            let plain = |passes: &dyn Fn(&Life) -> bool| own.iter().filter(|life| passes(life))
                .fold((0, 0, 0), |(objects, bytes, temporary), life| (objects + 1,
                    bytes + life.bytes, temporary + u64::from(life.temporary)));
            let inside = |ns: u64| from_ns <= ns && ns < to_ns;
            let is_in = |step: u16| from <= step && step < to && step != SURVIVES;
            prop_assert_eq!(ours(&|lives| is_in(lives.born)), plain(&|life| inside(life.began_ns)));
            prop_assert_eq!(ours(&|lives| is_in(lives.died)), plain(&|life| inside(life.ended_ns)));
            prop_assert_eq!(ours(&|lives| lives.born < to && lives.died >= to),
                plain(&|life| life.began_ns < to_ns && life.ended_ns >= to_ns));
            prop_assert_eq!(ours(&|lives| is_in(lives.born) && lives.died >= to),
                plain(&|life| inside(life.began_ns) && life.ended_ns >= to_ns));
        }
        let peak: u64 = ranges.sites.iter().map(|site| site.at_peak.bytes).sum();
        prop_assert_eq!(peak, profile.peak.live.bytes);
        let died: u64 = ranges.died_by_time.iter().flatten().map(|row| row.objects).sum();
        prop_assert_eq!(died, profile.totals.frees);
        let sizes: u64 = ranges.sizes.iter().map(|row| row.all.bytes).sum();
        prop_assert_eq!(sizes, profile.totals.requested_bytes);
        for size in &profile.sizes {
            let end = ranges.sizes.iter()
                .filter(|row| row.request == size.request && row.died == SURVIVES);
            prop_assert_eq!(end.map(|row| row.all.objects).sum::<u64>(), size.at_end.objects);
        }
    }

    #[test]
    fn everything_agrees(choices in prop::collection::vec(any::<(u8, u16, u16)>(), 1..400), at in 0..400u64) {
        let events = workload(&choices);
        let states = model(&events);
        let at = at.min(events.len() as u64 - 1);
        let moments = vec![
            MomentRequest { name: "row".into(), at: At::Row(at) },
            MomentRequest { name: "time".into(), at: At::Time(at * 10 + 1) },
        ];
        let profile = run(&events, &ProfileOptions { moments, timeline_points: 16, ..ProfileOptions::default() });

        let peak_bytes = states.iter().map(|state| sum(state.values()).bytes).max().unwrap_or(0);
        prop_assert_eq!(profile.peak.live.bytes, peak_bytes);
        if peak_bytes > 0 {
            let row = states.iter().position(|state| sum(state.values()).bytes == peak_bytes).unwrap();
            prop_assert_eq!(profile.peak.row, row as u64);
            prop_assert_eq!(profile.peak.live, sum(states[row].values()));
            for stack in &profile.stacks {
                prop_assert_eq!(stack.at_peak, sum(states[row].values().filter(|object| object.2 == stack.stack)));
            }
            for size in &profile.sizes {
                prop_assert_eq!(size.at_peak, sum(states[row].values().filter(|object| object.0 == size.request)));
            }
        }
        let end = states.last().unwrap();
        prop_assert_eq!(profile.end.live, sum(end.values()));
        for stack in &profile.stacks {
            prop_assert_eq!(stack.at_end, sum(end.values().filter(|object| object.2 == stack.stack)));
            prop_assert_eq!(stack.requested.objects, stack.released.objects + stack.at_end.objects);
            prop_assert_eq!(stack.requested.objects, stack.allocations + stack.reallocations);
        }
        for moment in &profile.moments {
            prop_assert_eq!(moment.row, at, "{}", &moment.name);
            let state = &states[at as usize];
            prop_assert_eq!(moment.live, sum(state.values()));
            for stack in &moment.stacks {
                prop_assert_eq!(stack.live, sum(state.values().filter(|object| object.2 == stack.stack)));
            }
        }
        prop_assert_eq!(profile.timeline.axis, TimelineAxis::Time);
        prop_assert_eq!(profile.timeline.points.iter().map(|point| point.max_bytes).max(), Some(peak_bytes));
        let totals = &profile.totals;
        prop_assert_eq!(totals.frees, profile.lifetimes.by_time.iter().map(|bucket| bucket.objects).sum::<u64>());
        prop_assert_eq!(totals.requests, profile.sizes.iter().map(|size| size.requested.objects).sum::<u64>());
        prop_assert_eq!(totals.requested_bytes, profile.threads.iter().map(|thread| thread.requested.bytes).sum::<u64>());
        prop_assert_eq!(totals.failed_requests, events.iter().filter(|event| event.has(Flags::FAILED)).count() as u64);
        prop_assert_eq!(totals.inherited_rows, events.iter().filter(|event| event.has(Flags::INHERITED)).count() as u64);
    }
}

#[test]
fn an_arena_takes_its_objects_with_it() {
    let alloc = |object, arena| Event { object, arena, size: 100, ..Event::default() };
    let free = Event { op: Op::Free, object: 1, ..Event::default() };
    let events = [
        alloc(0, 0),
        alloc(1, 7),
        alloc(2, 7),
        free,
        Event { op: Op::ArenaDeath, arena: 7, ..Event::default() },
    ];
    let profile = run(&events, &ProfileOptions::default());
    assert_eq!(profile.totals.frees, 2);
    assert_eq!(profile.end.live.objects, 1);
    assert_eq!(profile.timeline.axis, TimelineAxis::Events);
}

#[test]
fn temporary_is_per_thread_and_short_lived_is_in_bytes() {
    let alloc = |object, thread, size| Event { object, thread, size, stack: 1, ..Event::default() };
    let free = |object, thread| Event { op: Op::Free, object, thread, ..Event::default() };
    // Object 0 is temporary although another thread allocates in between; object 2 is not, and
    // outlives the limit.
    let events = [
        alloc(0, 0, 8),
        alloc(1, 1, 8),
        free(0, 0),
        alloc(2, 0, 8),
        alloc(3, 0, 2 << 20),
        free(2, 0),
        free(3, 0),
    ];
    let profile = run(&events, &ProfileOptions::default());
    assert_eq!(profile.totals.temporary, 2);
    assert_eq!(profile.stack(1).unwrap().short_lived, 2);
    assert_eq!(profile.threads[0].cross_thread_frees, 0);
}

#[test]
fn what_no_program_can_do_is_an_error_with_its_row() {
    let alloc = Event { size: 8, ..Event::default() };
    let cases = [
        (vec![alloc, alloc], "event 1: object 0 is born a second time"),
        (
            vec![Event { size: u64::MAX, ..alloc }],
            "event 0: an object of 18446744073709551615 bytes",
        ),
        (
            vec![Event { usable: u64::MAX, ..alloc }],
            "event 0: an object of 18446744073709551615 bytes",
        ),
        (vec![Event { stack: 6, ..alloc }], "event 0: stack 6 is not in the table of 6 stacks"),
        (
            vec![Event { thread: u32::MAX, ..alloc }],
            "event 0: thread 4294967295 is beyond any table",
        ),
    ];
    for (events, message) in cases {
        let error = Profile::of(&tables(), &mut Slice(&events), &ProfileOptions::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains(message), "{error}");
    }
    let strangers = [
        Event { op: Op::Free, object: 9, ..Event::default() },
        Event { op: Op::Realloc, object: 9, ..Event::default() },
    ];
    assert_eq!(run(&strangers, &ProfileOptions::default()).totals.unmatched_rows, 2);
    assert_eq!(run(&[], &ProfileOptions::default()).totals, heaplab_profile::Totals::default());
}

#[test]
fn marks_of_other_processes_are_taken_by_their_time_and_own_ones_by_their_event() {
    let mark = |name: &str, time_ns, process| Mark { name: name.into(), time_ns, process };
    // Not in order of time, as processes' files may name them.
    let marks = vec![
        mark("late", 900, None),
        mark("early", 5, Some(1)),
        mark("own", 25, Some(0)),
        mark("between", 25, Some(1)),
    ];
    let tables = Tables { marks, ..tables() };
    let birth =
        |object, time_ns| Event { op: Op::Alloc, object, size: 100, time_ns, ..Event::default() };
    let own = Event { op: Op::Mark, object: 2, time_ns: 25, ..Event::default() };
    let taken = |events: &[Event]| -> Vec<(String, u64, u64)> {
        let profile = Profile::of(&tables, &mut Slice(events), &ProfileOptions::default()).unwrap();
        profile.marks.into_iter().map(|mark| (mark.name, mark.row, mark.live.bytes)).collect()
    };
    let row = |name: &str, row, bytes| (name.to_string(), row, bytes);
    let events = [birth(0, 10), birth(1, 20), own, birth(2, 25), birth(3, 30)];
    // `own` stands at its event; marks with the same stamp come before `between`.
    assert_eq!(
        taken(&events),
        [row("early", 0, 0), row("own", 2, 200), row("between", 3, 300), row("late", 4, 400)]
    );
    // A trace without times has only the marks met in it.
    let untimed = events.map(|event| Event { time_ns: 0, ..event });
    assert_eq!(taken(&untimed), [row("own", 2, 200)]);
}

#[test]
fn what_may_have_been_remapped_is_not_counted_as_copied() {
    let birth = |object, size| Event { op: Op::Alloc, object, size, ..Event::default() };
    let moved = |object, size| Event {
        op: Op::Realloc,
        object,
        size,
        flags: Flags::MOVED,
        ..Event::default()
    };
    let events = [
        birth(0, 1000),
        moved(0, 200_000),
        moved(0, 300_000),
        birth(1, 131_048),
        moved(1, 500),
        moved(1, 600),
    ];
    let sums = |options: &ProfileOptions| {
        let totals = run(&events, options).totals;
        (totals.moved_reallocations, totals.moved_bytes, totals.remapped_bytes)
    };
    assert_eq!(sums(&ProfileOptions::default()), (4, 1000 + 200_000 + 500 + 500, 0));
    let glibc = ProfileOptions {
        remapped_from_bytes: remapped_from_bytes("glibc 2.36"),
        ..ProfileOptions::default()
    };
    assert_eq!(sums(&glibc), (4, 1000 + 500, 200_000 + 500));
}
