//! Growth through the public interface, the document's arithmetic first.

use crate::program::Program;
use heaplab_findings::{
    CHURN, Findings, Found, GROWTH, Growth, GrowthStrategy, Level, Options, Through,
};
use heaplab_trace::{Flags, Op};

fn grown(findings: &Findings) -> Vec<&Growth> {
    findings.findings.iter().filter_map(|finding| finding.evidence::<Growth>()).collect()
}

/// One buffer, reallocated through these sizes.
fn buffer(sizes: impl IntoIterator<Item = u64>) -> Program {
    let mut program = Program::new();
    let stack = program.stack(&["main", "append", "grow"]);
    let mut sizes = sizes.into_iter();
    let object = program.malloc(stack, sizes.next().unwrap());
    sizes.for_each(|size| program.realloc(stack, object, size));
    program.free(object);
    program
}

const MIB: u64 = 1 << 20;

#[test]
fn the_documents_just_enough() {
    // 1 + 2 + 3 + ... + 1,048,576
    let (profile, findings) = buffer(1..=MIB).findings(Options::default());
    assert_eq!(profile.totals.requested_bytes, 549_756_338_176);
    let [growth] = grown(&findings)[..] else { panic!("{findings:?}") };
    assert_eq!(growth.cumulative_bytes, 549_756_338_176);
    assert_eq!(growth.strategy, GrowthStrategy::JustEnough { mean_step_bytes: 1.0 });
    assert_eq!(growth.steps, MIB - 1);
    assert_eq!(growth.copied_upper_bytes, 549_756_338_176 - MIB);
    assert_eq!(growth.copied_moved_bytes, Some(growth.copied_upper_bytes));
}

#[test]
fn the_documents_four_kib_steps_and_what_doubling_makes_of_them() {
    // 4,096 + 8,192 + 12,288 + ... + 1,048,576, and 4,096 + 8,192 + 16,384 + ... + 1,048,576
    let (_, findings) = buffer((1..=256).map(|step| step * 4096)).findings(Options::default());
    let [growth] = grown(&findings)[..] else { panic!("{findings:?}") };
    assert_eq!(growth.cumulative_bytes, 134_742_016);
    assert_eq!(growth.doubling_cumulative_bytes, 2_093_056);
    assert_eq!(growth.doubling_steps, 8);
    assert_eq!(growth.strategy, GrowthStrategy::Linear { step_bytes: 4096 });
    let finding = &findings.findings[0];
    assert_eq!((finding.kind, finding.confidence.level), (GROWTH, Level::High));
    assert_eq!(finding.saving.total_bytes, 134_742_016 - 2_093_056);
    insta::assert_snapshot!(format!("{}\n{}", finding.title, finding.advice), @r#"
    grow: 127 MiB asked for beyond doubling: 1 buffer grew in steps of 4,096 bytes to 1.00 MiB; double the capacity
    Double the capacity instead: 8 instead of 255 requests, 2.00 MiB instead of 128 MiB asked for, at most 1.00 MiB instead of 128 MiB copied. A doubled buffer is up to half empty: shrink it once it is complete where that matters.
    "#);
}

#[test]
fn where_moves_are_not_known_none_are_claimed() {
    let steps = || buffer((1..=256).map(|step| step * 4096));
    let (_, findings) = steps().findings(Options { moves_known: false, ..Options::default() });
    let Found { advice, saving, .. } = &findings.findings[0];
    assert!(
        advice.contains(
            " instead of at most 128 MiB copied (if each moved: this recording does not say)."
        ),
        "{advice}"
    );
    let growth = grown(&findings)[0];
    assert_eq!(
        (growth.copied_moved_bytes, growth.copied().as_str(), saving.copied_bytes),
        (None, "at most 128 MiB", 0)
    );
}

#[test]
fn what_grew_in_place_was_not_copied() {
    let mut program = buffer((1..=256).map(|step| step * 4096));
    for event in program.events.iter_mut().filter(|event| event.op == Op::Realloc).skip(4) {
        event.flags = Flags::default();
    }
    let (profile, findings) = program.findings(Options::default());
    let moved = (1 + 2 + 3 + 4) * 4096;
    assert_eq!(profile.totals.moved_bytes, moved);
    let (finding, growth) = (&findings.findings[0], grown(&findings)[0]);
    assert_eq!(
        (growth.copied_upper_bytes, growth.copied_moved_bytes),
        (255 * 256 / 2 * 4096, Some(moved))
    );
    assert_eq!(finding.saving.copied_bytes, 0, "doubling may copy a MiB");
    assert!(
        finding.advice.contains("128 MiB asked for; moves copied 40.0 KiB. A doubled"),
        "{}",
        finding.advice
    );
}

#[test]
fn what_glibc_may_have_remapped_is_not_called_copied() {
    let from = heaplab_profile::remapped_from_bytes("glibc 2.36");
    assert_eq!(from, heaplab_profile::remapped_from_bytes(""), "not known: perhaps glibc");
    assert_eq!(heaplab_profile::remapped_from_bytes("jemalloc (libjemalloc.so.2)"), u64::MAX);
    let options = Options { remapped_from_bytes: from, ..Options::default() };
    let (_, findings) = buffer((1..=256).map(|step| step * 4096)).findings(options.clone());
    let (finding, growth) = (&findings.findings[0], grown(&findings)[0]);
    // 4,096 to 126,976 are copied; 131,072 and more were mapped by themselves.
    let copied = 31 * 32 / 2 * 4096;
    assert_eq!(
        (growth.copied_moved_bytes, growth.remapped_bytes),
        (Some(copied), growth.copied_upper_bytes - copied)
    );
    assert_eq!(finding.saving.copied_bytes, copied - growth.doubling_copied_bytes);
    let said = "at most 1.00 MiB instead of at least 1.94 MiB copied (blocks of 128 KiB and more that moved may have been remapped instead).";
    assert!(finding.advice.contains(said), "{}", finding.advice);
    let (_, findings) = buffer((32..=256).map(|step| step * 4096)).findings(options);
    assert_eq!(grown(&findings)[0].copied(), "at most 126 MiB");
}

#[test]
fn doubling_is_not_reported_and_an_eighth_more_is() {
    let (profile, findings) = buffer((12..=20).map(|log2| 1 << log2)).findings(Options::default());
    assert_eq!(profile.totals.requested_bytes, 2_093_056);
    assert!(grown(&findings).is_empty(), "{findings:?}");
    let mut size = 64u64;
    let (_, findings) = buffer(std::iter::from_fn(|| {
        size += size / 8 + 48;
        (size < 800_000).then_some(size & !31)
    }))
    .findings(Options::default());
    let [growth] = grown(&findings)[..] else { panic!("{findings:?}") };
    assert!(
        matches!(growth.strategy, GrowthStrategy::Exponential { factor } if (factor - 1.125).abs() < 0.02),
        "{:?}",
        growth.strategy
    );
}

#[test]
fn growth_by_hand_is_recognised() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "push_back"]);
    let noise = program.stack(&["main", "other"]);
    let mut old = program.malloc(stack, 1000);
    for step in 2..=50 {
        let new = program.malloc(stack, step * 1000);
        let between = program.malloc(noise, 40);
        program.free(between);
        program.free(old);
        old = new;
    }
    program.free(old);
    let (_, findings) = program.findings(Options::default());
    let [growth] = grown(&findings)[..] else { panic!("{findings:?}") };
    assert_eq!((growth.through, growth.chains, growth.steps), (Through::AllocateCopyFree, 1, 49));
    assert_eq!(growth.strategy, GrowthStrategy::Linear { step_bytes: 1000 });
    assert_eq!(growth.cumulative_bytes, (1..=50).map(|step| step * 1000).sum::<u64>());
    assert_eq!(growth.copied_moved_bytes, None, "nobody saw a copy");
}

/// A vector of one stack for each of 25 places, pushed in turn.
#[test]
fn buffers_that_grow_in_turn_are_told_apart() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "push_back"]);
    let mut buffers: Vec<u64> = (0..25).map(|_| program.malloc(stack, 1000)).collect();
    for step in 2..=50 {
        for buffer in &mut buffers {
            let larger = program.malloc(stack, step * 1000);
            program.free(*buffer);
            *buffer = larger;
        }
    }
    buffers.into_iter().for_each(|buffer| program.free(buffer));
    let (_, findings) = program.findings(Options::default());
    let [growth] = grown(&findings)[..] else { panic!("{findings:?}") };
    assert_eq!((growth.chains, growth.steps, growth.longest_steps), (25, 25 * 49, 49));
    assert_eq!(growth.strategy, GrowthStrategy::Linear { step_bytes: 1000 });
    assert_eq!(growth.cumulative_bytes, 25 * (1..=50).map(|step| step * 1000).sum::<u64>());
}

#[test]
fn a_queue_is_no_buffer() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % 100_000
    };
    for length in [1, 3, 30] {
        let mut program = Program::new();
        let stack = program.stack(&["main", "enqueue"]);
        let mut queue = std::collections::VecDeque::new();
        for item in 0..5000 {
            queue.push_back(program.malloc(stack, 1 + random()));
            if item >= length {
                program.free(queue.pop_front().unwrap());
            }
        }
        let (_, findings) = program.findings(Options::default());
        assert!(grown(&findings).is_empty(), "{length}: {:?}", grown(&findings));
    }
}

/// Blocks of one stack, each made before the one before it is freed.
fn overlapping(program: &mut Program, stack: u32, sizes: impl Iterator<Item = u64>) {
    let mut old = None;
    for size in sizes {
        let new = program.malloc(stack, size);
        old.replace(new).into_iter().for_each(|old| program.free(old));
    }
    old.into_iter().for_each(|old| program.free(old));
}

#[test]
fn messages_that_become_longer_are_perhaps_a_buffer() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "send"]);
    (0..50).for_each(|_| overlapping(&mut program, stack, (1..=50).map(|message| message * 100)));
    let (_, findings) = program.findings(Options::default());
    let finding = findings.findings.iter().find(|finding| finding.kind == GROWTH).unwrap();
    assert_eq!((finding.confidence.level, finding.saving.copied_bytes), (Level::Low, 0));
    assert_eq!(
        finding.title,
        "send: 5.47 MiB asked for beyond doubling: 50 buffers may have grown in steps of 100 bytes to 4.88 KiB; double the capacity"
    );
    insta::assert_snapshot!(finding.advice, @"If each is one buffer, double its capacity instead: 300 instead of 2,450 requests, 620 KiB instead of 6.08 MiB asked for, at most 308 KiB instead of at most 5.84 MiB copied (if all was copied each time). A doubled buffer is up to half empty: shrink it once it is complete where that matters.");
}

#[test]
fn what_becomes_large_in_many_steps_is_likely_one_buffer() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "push_back"]);
    overlapping(&mut program, stack, (1..=200).map(|step| step * 1000));
    let (_, findings) = program.findings(Options::default());
    let finding = findings.findings.iter().find(|finding| finding.kind == GROWTH).unwrap();
    assert_eq!((finding.confidence.level, finding.saving.copied_bytes), (Level::Medium, 0));
    assert!(
        finding.title.contains(": 1 buffer grew in steps of 1,000 bytes to 195 KiB;"),
        "{}",
        finding.title
    );
    assert!(
        finding
            .advice
            .contains(" instead of at most 19.0 MiB copied (if all was copied each time)"),
        "{}",
        finding.advice
    );
}

#[test]
fn blocks_that_only_get_larger_are_no_buffer() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "load"]);
    // Each block is freed before the next is born, or much later: nobody copied anything.
    for step in 1..=50 {
        let object = program.malloc(stack, step * 1000);
        program.free(object);
    }
    let objects: Vec<u64> = (1..=50).map(|step| program.malloc(stack, step * 1000)).collect();
    objects.into_iter().for_each(|object| program.free(object));
    let (_, findings) = program.findings(Options::default());
    assert!(grown(&findings).is_empty(), "{findings:?}");
}

#[test]
fn a_shrink_ends_a_chain() {
    let (_, findings) =
        buffer([1000, 2000, 3000, 4000, 500, 1500, 2500, 3500]).findings(Options::default());
    assert!(grown(&findings).is_empty(), "three steps are no chain: {findings:?}");
    let (_, findings) =
        buffer([1000, 2000, 3000, 4000, 5000, 6000, 500]).findings(Options::default());
    assert_eq!(grown(&findings)[0].steps, 5);
}

/// Like redis' strings: the usable size decides the next request.
#[test]
fn a_buffer_that_reads_its_usable_size_is_not_simply_told_to_double() {
    let mut program = Program::new();
    let [make_room, read] =
        [["main", "sdsMakeRoomFor"], ["main", "sdsnewlen"]].map(|stack| program.stack(&stack));
    let buffer = program.malloc(make_room, 1000);
    for step in 2..=200 {
        program.realloc(make_room, buffer, step * 1000);
        program.usable_size(buffer);
    }
    program.free(buffer);
    let other = program.malloc(read, 64);
    program.free(other);
    let (_, findings) = program.findings(Options::default());
    let growth = grown(&findings)[0];
    assert_eq!((growth.usable_size_reads, findings.uses_its_slop.len()), (199, 1));
    let finding = &findings.findings[0];
    assert!(
        finding.title.ends_with("; look at what it makes of the usable size that it reads"),
        "{}",
        finding.title
    );
    assert!(
        finding
            .advice
            .starts_with("The same function reads the usable size of its blocks (199 times)")
            && finding.advice.contains("Double the capacity instead"),
        "{}",
        finding.advice
    );
}

/// A list that is made, grown by realloc and given back for each of many items.
fn rebuilt_by_realloc(items: u64, sizes: &[u64]) -> Program {
    let mut program = Program::new();
    let stack = program.stack(&["main", "item", "append"]);
    for _ in 0..items {
        let buffer = program.malloc(stack, sizes[0]);
        sizes[1..].iter().for_each(|size| program.realloc(stack, buffer, *size));
        program.free(buffer);
    }
    program
}

/// The same, grown by hand.
fn rebuilt(items: u64, sizes: &[u64]) -> Program {
    let mut program = Program::new();
    let stack = program.stack(&["main", "item", "append"]);
    for _ in 0..items {
        let mut buffer = program.malloc(stack, sizes[0]);
        for size in &sizes[1..] {
            let larger = program.malloc(stack, *size);
            program.free(buffer);
            buffer = larger;
        }
        program.free(buffer);
    }
    program
}

#[test]
fn one_buffer_is_reported_once_and_the_other_side_of_it_is_named() {
    // Many small steps: doubling gains more than keeping.
    let many: Vec<u64> = (1..=60).map(|step| step * 16_384).collect();
    // A few: keeping it gains more.
    let few: Vec<u64> = (20..=24).map(|step| step * 16_384).collect();
    for (program, kept, named) in [
        (
            rebuilt_by_realloc(200, &many),
            GROWTH,
            " The same buffers come and go: 16,384 bytes asked for 200 times, one at a time.",
        ),
        // The churn of a buffer grown by hand are its steps.
        (rebuilt(100, &many), GROWTH, ""),
        (rebuilt(1, &many), GROWTH, ""),
        (rebuilt(100, &few), CHURN, ": 100 buffers may have grown"),
    ] {
        let (_, findings) = program.findings(Options { growth_steps: 3, ..Options::default() });
        let of_buffer: Vec<_> = findings
            .findings
            .iter()
            .filter(|finding| matches!(finding.kind, GROWTH | CHURN))
            .collect();
        let [only] = of_buffer[..] else {
            panic!("{:?}", of_buffer.iter().map(|finding| &finding.title).collect::<Vec<_>>())
        };
        assert_eq!(only.kind, kept, "{} {}", only.title, only.advice);
        assert!(only.advice.contains(named), "{}", only.advice);
        assert!(
            !named.is_empty() || only.advice.ends_with(" where that matters."),
            "{}",
            only.advice
        );
    }
}

#[test]
fn growth_of_one_stack_and_churn_of_another_are_two_findings() {
    let mut program = rebuilt(100, &(1..=60).map(|step| step * 16_384).collect::<Vec<u64>>());
    let other = program.stack(&["main", "scratch"]);
    for _ in 0..10_000 {
        let buffer = program.malloc(other, 1 << 20);
        program.free(buffer);
    }
    let (_, findings) = program.findings(Options::default());
    for kind in [GROWTH, CHURN] {
        assert_eq!(
            findings.findings.iter().filter(|finding| finding.kind == kind).count(),
            1,
            "{kind:?}"
        );
    }
}
