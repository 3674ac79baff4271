//! Compiling and decoding restore the events, and no damage to the bytes causes more than an error.

use super::*;
use crate::source::Slice;
use crate::tables::{ChunkEvent, Mark, OpName, Tables};
use crate::{Event, Flags, Op, Origin, TraceError};
use proptest::prelude::*;
use std::collections::HashMap;
use std::io::Cursor;
use std::path::Path;

fn bytes_of(events: &[Event]) -> Result<Vec<u8>, TraceError> {
    let tables = Tables {
        marks: vec![Mark { name: "loaded".into(), ..Mark::default() }],
        ..Tables::default()
    };
    let mut out = Cursor::new(Vec::new());
    compile(&mut Slice(events), &tables, Facts::default(), 7, Path::new("test"), &mut out)?;
    Ok(out.into_inner())
}

fn program(events: &[Event]) -> Program {
    Program::from_bytes(&bytes_of(events).unwrap(), Path::new("test")).unwrap()
}

fn event(op: Op, object: u64, size: u64) -> Event {
    Event { op, object, size, ..Event::default() }
}

/// Turns a program back into events. Objects are numbered in birth order, as in a bundle.
fn interpret(program: &Program) -> Vec<Event> {
    let mut events = Vec::new();
    let mut slots: HashMap<u32, u64> = HashMap::new();
    let (mut thread, mut births) = (0, 0);
    for step in program.steps() {
        let (_, step) = step.unwrap();
        let base = Event { thread, ..Event::default() };
        match step {
            Step::Thread { thread: next } => thread = next,
            Step::Free { slot } => {
                events.push(Event { op: Op::Free, object: slots.remove(&slot).unwrap(), ..base })
            }
            Step::Allocate { slot, size, align_log2, zeroed, region } => {
                let flags = if zeroed { Flags::ZEROED } else { Flags::default() };
                assert_eq!(slots.insert(slot, births), None, "slot {slot} was taken");
                events.push(Event {
                    op: Op::Alloc,
                    object: births,
                    size,
                    align_log2,
                    flags,
                    arena: region,
                    ..base
                });
                births += 1;
            }
            Step::Reallocate { slot, size, align_log2, region } => {
                events.push(Event {
                    op: Op::Realloc,
                    object: slots[&slot],
                    size,
                    align_log2,
                    arena: region,
                    ..base
                });
            }
            Step::UsableSize { slot } => {
                events.push(Event { op: Op::UsableSizeRead, object: slots[&slot], ..base })
            }
            Step::RegionBirth { region } => {
                events.push(Event { op: Op::ArenaBirth, arena: region, ..base })
            }
            Step::RegionDeath { region, first, members } => {
                for slot in &program.words()[first..first + members] {
                    slots.remove(slot).unwrap();
                }
                events.push(Event { op: Op::ArenaDeath, arena: region, ..base });
            }
            Step::Managed(managed) => events.extend(managed_event(managed, &slots, base)),
        }
    }
    assert!(slots.len() <= program.facts().slots as usize);
    events
}

/// The event of an instruction for heaps that collect. A place is part of the birth behind it.
fn managed_event(managed: Managed, slots: &HashMap<u32, u64>, base: Event) -> Option<Event> {
    Some(match managed {
        Managed::Collect => Event { op: Op::Collect, ..base },
        Managed::CollectYoung => Event { op: Op::CollectYoung, ..base },
        Managed::Trim => Event { op: Op::Trim, ..base },
        Managed::NextOld | Managed::NextHiddenClass => return None,
        Managed::Release { slot } => Event { op: Op::Free, object: slots[&slot], ..base },
        Managed::Reference { from, field, to } => {
            let target = to.map_or(u64::MAX, |to| slots[&to]);
            Event { op: Op::Reference, object: slots[&from], field, target, ..base }
        }
    })
}

#[test]
fn a_birth_keeps_its_place() {
    let birth =
        |object, origin, flags| Event { object, size: 80, origin, flags, ..Event::default() };
    let old = Flags::DIRECT_TO_OLD;
    let events = [
        birth(0, Origin::HiddenClass, Flags::default()),
        birth(1, Origin::Normal, old),
        birth(2, Origin::HiddenClass, old),
        birth(3, Origin::Normal, Flags::default()),
    ];
    let program = program(&events);
    let steps: Vec<Step> = program.steps().map(|step| step.unwrap().1).collect();
    let next = |at: usize| match steps[at] {
        Step::Managed(managed) => Some(managed),
        _ => None,
    };
    let (class, old) = (Some(Managed::NextHiddenClass), Some(Managed::NextOld));
    assert_eq!([0, 1, 2, 3, 4, 5, 6].map(next), [class, None, old, None, class, None, None]);
    assert_eq!((program.facts().old_births, program.facts().objects), (1, 4));
}

/// A legal workload from arbitrary choices: (what, which, size, alignment, thread).
fn workload(choices: &[(u8, usize, u64, u8, u32)]) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut live: Vec<(u64, u32)> = Vec::new();
    let (mut births, mut arena_alive, mut arena) = (0, false, 0);
    for &(what, which, size, align_log2, thread) in choices {
        let thread = if events.is_empty() { 0 } else { thread };
        let base = Event { size, align_log2, ..Event { thread, ..Event::default() } };
        match what {
            0..=3 => {
                let flags = if what == 0 { Flags::ZEROED } else { Flags::default() };
                let region = if what == 1 && arena_alive { arena } else { 0 };
                live.push((births, region));
                events.push(Event { op: Op::Alloc, object: births, flags, arena: region, ..base });
                births += 1;
            }
            4..=5 if !live.is_empty() => {
                let (object, _) = live.swap_remove(which % live.len());
                events.push(Event { op: Op::Free, object, thread, ..Event::default() });
            }
            6 if !live.is_empty() => {
                let (object, region) = live[which % live.len()];
                events.push(Event { op: Op::Realloc, object, arena: region, ..base });
            }
            7 if !live.is_empty() => {
                events.push(Event {
                    op: Op::UsableSizeRead,
                    object: live[which % live.len()].0,
                    thread,
                    ..Event::default()
                });
            }
            9 if !live.is_empty() => {
                let object = live[which % live.len()].0;
                let target = if size.is_multiple_of(2) {
                    live[(size as usize / 2) % live.len()].0
                } else {
                    u64::MAX
                };
                let choices = [
                    Event {
                        op: Op::Reference,
                        object,
                        field: align_log2.into(),
                        target,
                        ..Event::default()
                    },
                    Event { op: Op::Collect, ..Event::default() },
                    Event { op: Op::CollectYoung, ..Event::default() },
                    Event { op: Op::Trim, ..Event::default() },
                ];
                // These rows belong to the thread of the row before them.
                let before = events.last().map_or(0, |event: &Event| event.thread);
                events.push(Event { thread: before, ..choices[which % choices.len()] });
            }
            8 if arena_alive => {
                arena_alive = false;
                live.retain(|(_, region)| *region != arena);
                events.push(Event { op: Op::ArenaDeath, arena, thread, ..Event::default() });
            }
            8 => {
                arena_alive = true;
                arena += 1;
                events.push(Event { op: Op::ArenaBirth, arena, thread, ..Event::default() });
            }
            _ => {}
        }
    }
    events
}

/// Threads in a program are dense in order of appearance.
fn dense_threads(mut events: Vec<Event>) -> Vec<Event> {
    let mut seen: Vec<u32> = Vec::new();
    for event in &mut events {
        let dense = seen.iter().position(|thread| *thread == event.thread);
        event.thread = dense.unwrap_or_else(|| {
            seen.push(event.thread);
            seen.len() - 1
        }) as u32;
    }
    events
}

proptest! {
    #[test]
    fn compiled_and_interpreted_is_the_workload(
        choices in prop::collection::vec(
            (0u8..10, any::<usize>(), prop_oneof![0u64..5_000, Just(u64::from(u32::MAX)), 1u64 << 32..1 << 40], 0u8..20, 0u32..4),
            0..400,
        )
    ) {
        let events = workload(&choices);
        prop_assert_eq!(interpret(&program(&events)), dense_threads(events));
    }

    #[test]
    fn any_words_decode_or_are_an_error(words in prop::collection::vec(any::<u32>(), 0..200)) {
        let mut at = 0;
        while let Ok(Some(_)) = decode(&words, &mut at) {
            prop_assert!(at <= words.len());
        }
    }

    #[test]
    fn damage_is_an_error(at in any::<prop::sample::Index>(), bit in 0u8..8, cut in any::<prop::sample::Index>()) {
        let events = [event(Op::Alloc, 0, 10), event(Op::Realloc, 0, 20), event(Op::Free, 0, 0)];
        let whole = bytes_of(&events).unwrap();
        let mut damaged = whole.clone();
        damaged[at.index(whole.len())] ^= 1 << bit;
        prop_assert!(Program::from_bytes(&damaged, Path::new("test")).is_err());
        // Up to seven bytes of padding are not part of the file's content in memory.
        let cut = cut.index(whole.len());
        prop_assert!(Program::from_bytes(&whole[..cut], Path::new("test")).is_err());
    }
}

#[test]
fn slots_are_as_many_as_were_live_at_once() {
    // One thread allocates, the other frees: slots kept by the freeing thread would pile up.
    let mut events = Vec::new();
    for object in 0..1_000 {
        events.push(Event { thread: 0, ..event(Op::Alloc, object, 8) });
        if object >= 3 {
            events.push(Event { thread: 1, ..event(Op::Free, object - 3, 0) });
        }
    }
    let program = program(&events);
    assert_eq!((program.facts().slots, program.facts().threads), (4, 2));
    assert_eq!(program.facts().peak_requested_bytes, 32);
}

#[test]
fn checkpoints_name_the_peak_the_marks_and_the_end() {
    let mut events: Vec<Event> = (0..1_000).map(|object| event(Op::Alloc, object, 10)).collect();
    events.push(event(Op::Mark, 0, 0));
    events.extend((0..1_000).map(|object| event(Op::Free, object, 0)));
    let program = program(&events);
    let checkpoints = program.checkpoints();
    assert!((64..=132).contains(&checkpoints.len()), "{}", checkpoints.len());
    let peak = checkpoints.iter().find(|checkpoint| checkpoint.event == 1_000).unwrap();
    assert_eq!((peak.requested_bytes, peak.live_objects), (10_000, 1_000));
    let mark = checkpoints.iter().find(|checkpoint| checkpoint.mark.is_some()).unwrap();
    assert_eq!((mark.event, program.facts().marks[0].as_str()), (1_000, "loaded"));
    let end = checkpoints.last().unwrap();
    assert_eq!(
        (end.event, end.requested_bytes, end.word as usize),
        (2_000, 0, program.words().len())
    );
}

#[test]
fn what_no_program_can_do_is_an_error_with_its_place() {
    let cases: [&[Event]; 5] = [
        &[event(Op::Free, 3, 0)],
        &[event(Op::Alloc, 0, 1), event(Op::Alloc, 0, 1)],
        &[event(Op::Alloc, 0, 1), event(Op::Free, 0, 0), event(Op::Realloc, 0, 4)],
        &[Event { arena: 9, ..event(Op::ArenaDeath, 0, 0) }],
        &[event(Op::Alloc, 0, u64::MAX - 3)],
    ];
    let errors: Vec<String> =
        cases.iter().map(|events| bytes_of(events).unwrap_err().to_string()).collect();
    assert_eq!(
        errors,
        [
            "test: event 0: object 3 is freed and not live",
            "test: event 1: object 0 is born and was live already",
            "test: event 2: object 0 is reallocated and not live",
            "test: event 0: arena 9 ends and never began",
            "test: event 0: size of a block is 18446744073709551612, over the limit of 140737488355328",
        ]
    );
}

#[test]
fn failed_and_inherited_rows_and_promotions_are_left_out() {
    let failed = Event { flags: Flags::FAILED, ..event(Op::Alloc, 0, u64::MAX) };
    let inherited = Event { flags: Flags::INHERITED, ..event(Op::Free, 99, 0) };
    let promoted = event(Op::Promote, 0, 0);
    let program = program(&[failed, event(Op::Alloc, 0, 5), inherited, promoted]);
    assert_eq!((program.facts().events, program.facts().skipped_events), (1, 3));
    assert_eq!(program.words().len(), 2, "the words of the birth");
}

#[test]
fn a_program_says_what_kind_each_arena_is() {
    let arena = |kind: &str, policy: &str| crate::tables::Arena {
        kind: kind.into(),
        growth_policy: policy.into(),
        ..Default::default()
    };
    let tables = Tables {
        arenas: vec![
            arena("malloc", ""),
            arena("class", "boot"),
            arena("non-class", "boot"),
            arena("class", "boot"),
        ],
        ..Tables::default()
    };
    let birth = |arena| Event { op: Op::ArenaBirth, arena, ..Event::default() };
    let mut out = Cursor::new(Vec::new());
    let facts = compile(
        &mut Slice(&[birth(3), birth(2), birth(9)]),
        &tables,
        Facts::default(),
        7,
        Path::new("test"),
        &mut out,
    )
    .unwrap();
    let kinds: Vec<&str> = facts.regions().map(|region| region.kind.as_str()).collect();
    assert_eq!((kinds, facts.region_kinds.len()), (vec!["malloc", "class", "non-class", ""], 4));
    assert_eq!(Program::from_bytes(&out.into_inner(), Path::new("test")).unwrap().facts(), &facts);
}

#[test]
fn asked_moments_are_words_and_a_purge_after_the_last_event_is_before_the_end() {
    let at = |time_ns, object| Event { time_ns, ..event(Op::Alloc, object, 8) };
    let events = [at(10, 0), at(20, 1), at(30, 2)];
    let purge = |time_ns| ChunkEvent { op: OpName::TRIM, time_ns, ..ChunkEvent::default() };
    let tables = Tables { chunks: vec![purge(20), purge(40)], ..Tables::default() };
    let mut out = Cursor::new(Vec::new());
    let (source, path) = (&mut Slice(&events), Path::new("test"));
    let moments_ns = [5, 20, 25, u64::MAX];
    let (_, standing) =
        compile_and_standing(source, &tables, Facts::default(), 0, path, &moments_ns, &mut out)
            .unwrap();
    let program = Program::from_bytes(&out.into_inner(), path).unwrap();
    let steps: Vec<(usize, bool)> = program
        .steps()
        .map(|step| step.map(|(word, step)| (word, matches!(step, Step::Managed(_)))).unwrap())
        .collect();
    let words = program.words().len();
    let before =
        |word: usize| steps.iter().filter(move |(at, _)| *at < word).map(|(_, purge)| *purge);
    assert_eq!(standing.moments.len(), 4);
    let moments: Vec<Vec<bool>> =
        standing.moments.iter().map(|word| before(*word).collect()).collect();
    let (birth, purge) = (false, true);
    assert!(moments[0].is_empty());
    assert_eq!(moments[1], [birth, birth, purge]);
    assert_eq!(moments[2], moments[1]);
    assert_eq!(moments[3], [birth, birth, purge, birth, purge]);
    assert!(standing.moments[3] <= words);
}

#[test]
fn transients_are_births_alike_each_with_its_free() {
    let birth = |slot, size, zeroed| {
        let mut words = Vec::new();
        let step = Step::Allocate { slot, size, align_log2: 0, zeroed, region: 0 };
        encoding::encode_request(&mut words, step);
        encoding::encode(&mut words, Step::Free { slot });
        words
    };
    let none: [usize; 0] = [];
    let sizes = |words: &[u32]| transients(words).collect::<Vec<_>>();
    let run = [birth(3, 8, false), birth(3, 0, false), birth(3, 500, false)].concat();
    assert_eq!(sizes(&run), [8, 0, 500]);
    // Cut, they end before the one that is not whole; another slot or kind ends them.
    assert_eq!(sizes(&run[..8]), [8, 0]);
    assert_eq!(sizes(&[&run[..3], &birth(4, 8, false)].concat()), [8]);
    assert_eq!(sizes(&[&run[..3], &birth(3, 8, true)].concat()), [8]);
    assert_eq!(sizes(&[&run[..2], &run[5..6], &run].concat()), [8, 8, 0, 500]);
    assert_eq!(sizes(&[&run[..2], &birth(4, 8, false)].concat()), none);
    // A birth with a long instruction is left to single steps, and so are words that only look like
    // a run.
    assert_eq!(sizes(&birth(3, 1 << 33, false)), none);
    assert_eq!(sizes(&run[2..]), none);
    assert_eq!(sizes(&[]), none);
}
