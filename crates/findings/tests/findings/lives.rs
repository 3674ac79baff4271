//! Churn and leaks on programs with known answers.

use crate::program::Program;
use heaplab_findings::{
    CHURN, CLOWNSHOES, Churn, ChurnPattern, Found, Kind, LEAK, Leak, LeakClock, LeakPattern, Level,
    Options, Rank,
};
use heaplab_trace::tables::{Module, Process, ResidentKind, ResidentPart, Sample};

fn of(program: &Program, kind: Kind, options: Options) -> Vec<Found> {
    program
        .findings(options)
        .1
        .findings
        .into_iter()
        .filter(|finding| finding.kind == kind)
        .collect()
}

#[test]
fn state_rebuilt_for_each_item() {
    let mut program = Program::new();
    let parser = program.stack(&["main", "run", "parse", "new_state"]);
    let keeper = program.stack(&["main", "keep"]);
    for _ in 0..1000 {
        let state = program.calloc(parser, 512);
        let table = program.malloc(parser, 2048);
        program.malloc(keeper, 16);
        program.free(table);
        program.free(state);
    }
    let churn = of(&program, CHURN, Options::default());
    let [finding] = &churn[..] else { panic!("{churn:?}") };
    let evidence = finding.evidence::<Churn>().unwrap();
    assert_eq!(evidence.pattern, ChurnPattern::Rebuilt);
    assert_eq!((evidence.requests, evidence.most_live, evidence.zeroed_bytes), (2000, 2, 512_000));
    assert_eq!(evidence.sizes, [(512, 1000), (2048, 1000)]);
    assert_eq!(finding.saving.requests, 1998);
    insta::assert_snapshot!(format!("{}\n{}", finding.title, finding.advice), @r#"
    new_state: 512; 2,048 bytes asked for 2,000 times, 2 at a time; keep the blocks and use them again
    Keep up to 2 blocks and use them again: 1,998 requests fewer, 66.6 % of the run's and 500 KiB of zeroing. At least half of them are freed before another 32 bytes are asked for.
    "#);
}

/// Three places in one function, and one in another that is called from the same.
#[test]
fn the_state_of_one_function_is_one_finding() {
    let mut program = Program::new();
    let at = |program: &mut Program, function: &str, line: u32| {
        let stack = program.stack(&["main", &format!("{function}:{line}")]);
        let frame =
            &mut program.tables.frames[program.tables.stacks[stack as usize].frame as usize];
        (frame.function, frame.line) = (Some(function.to_string()), line);
        stack
    };
    let state = [("state", 10), ("state", 11), ("state", 12), ("scratch", 30)]
        .map(|(function, line)| at(&mut program, function, line));
    // Kept for good by the same function: it does not hide the rest.
    let kept = at(&mut program, "state", 13);
    for _ in 0..1000 {
        let objects = [16_384, 640, 96, 48]
            .into_iter()
            .zip(state)
            .map(|(size, stack)| program.malloc(stack, size))
            .collect::<Vec<_>>();
        program.malloc(kept, 32);
        objects.into_iter().for_each(|object| program.free(object));
    }
    let churn = of(&program, CHURN, Options::default());
    let titles: Vec<&str> = churn.iter().map(|finding| finding.title.as_str()).collect();
    assert_eq!(
        titles,
        [
            "state: 96; 640; 16,384 bytes asked for 3,000 times, at most 3 at a time; keep the blocks and use them again",
            "scratch: 48 bytes asked for 1,000 times, one at a time; keep the block and use it again"
        ]
    );
    assert_eq!(churn[0].stack_count, 3);
}

/// Twenty callers of one place, and three places of one function, one after the other: never is
/// more than one alive.
#[test]
fn alive_at_once_is_no_sum_over_stacks_and_sites() {
    let mut program = Program::new();
    let callers: Vec<u32> = (0..20)
        .map(|caller| {
            program.stack(&["main", &format!("caller {caller}"), "a", "b", "c", "read", "xmalloc"])
        })
        .collect();
    let places = [1, 2, 3].map(|line| {
        let stack = program.stack(&["main", &format!("lines:{line}")]);
        let frame = program.tables.stacks[stack as usize].frame as usize;
        program.tables.frames[frame].function = Some("lines".into());
        stack
    });
    for _ in 0..150 {
        for stack in callers.iter().copied().chain(places) {
            let size = if callers.contains(&stack) { 512 } else { 64 };
            let object = program.malloc(stack, size);
            program.free(object);
        }
    }
    let churn = of(&program, CHURN, Options::default());
    let most: Vec<_> = churn
        .iter()
        .map(|finding| {
            let churn = finding.evidence::<Churn>().unwrap();
            (churn.most_live, churn.most_live_is_bound)
        })
        .collect();
    assert_eq!(most, [(1, false), (1, false)]);
    assert_eq!(
        churn[0].title,
        "read: 512 bytes asked for 3,000 times, one at a time; keep the block and use it again"
    );
    assert!(
        churn[0].advice.starts_with("Keep the block and use it again: 2,999 requests fewer"),
        "{}",
        churn[0].advice
    );
    assert_eq!((churn[0].stack_count, churn[1].stack_count), (20, 3));
}

#[test]
fn requests_of_one_byte_are_no_bytes() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "flag"]);
    for _ in 0..3000 {
        let object = program.malloc(stack, 1);
        program.free(object);
    }
    let churn = of(&program, CHURN, Options::default());
    assert!(churn[0].title.starts_with("flag: 1 byte asked for 3,000 times"), "{}", churn[0].title);
}

#[test]
fn without_a_stack_there_is_no_site_that_churns() {
    let mut program = Program::new();
    for _ in 0..1000 {
        let object = program.malloc(0, 512);
        program.free(object);
    }
    assert!(of(&program, CHURN, Options::default()).is_empty());
}

#[test]
fn large_buffers_that_live_shortly() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "read_file"]);
    for turn in 0..40 {
        let buffer = program.malloc(stack, 300_000 + turn * 4096);
        program.free(buffer);
    }
    let churn = of(&program, CHURN, Options::default());
    let [finding] = &churn[..] else { panic!("{churn:?}") };
    let evidence = finding.evidence::<Churn>().unwrap();
    assert_eq!((evidence.pattern, evidence.most_live), (ChurnPattern::LargeShortLived, 1));
    insta::assert_snapshot!(format!("{}\n{}", finding.title, finding.advice), @r#"
    read_file: buffers of 371 KiB on average asked for 40 times, one at a time; keep the block and use it again
    Keep one and use it again: 14.5 MiB are requested again over the run. Where the allocator gives such memory back to the system in between, each page of a fresh one costs a page fault.
    "#);
}

#[test]
fn a_program_that_builds_something_up_does_not_churn() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "insert"]);
    let objects: Vec<u64> = (0..5000).map(|_| program.malloc(stack, 64)).collect();
    objects.into_iter().for_each(|object| program.free(object));
    assert!(of(&program, CHURN, Options::default()).is_empty());
}

#[test]
fn a_leak_grows_and_a_table_does_not() {
    let mut program = Program::new();
    let table = program.stack(&["main", "init", "table"]);
    let leaky = program.stack(&["main", "handle", "session"]);
    program.malloc(table, 100_000);
    for turn in 0..1000 {
        let session = program.malloc(leaky, 200);
        if turn % 10 != 0 {
            program.free(session);
        }
    }
    let leaks = of(&program, LEAK, Options::default());
    let evidence: Vec<_> = leaks
        .iter()
        .map(|finding| {
            let leak = finding.evidence::<Leak>().unwrap();
            (leak.pattern, leak.at_end.objects, leak.freed)
        })
        .collect();
    assert_eq!(evidence, [(LeakPattern::Growing, 100, 900), (LeakPattern::OneOff, 1, 0)]);
    assert_eq!(leaks[0].confidence.level, Level::High);
    assert_eq!(leaks[1].saving.at_peak_bytes, 0);
    insta::assert_snapshot!(format!("{}\n{}", leaks[0].title, leaks[0].advice), @r#"
    session: 19.5 KiB in 100 objects never freed, growing with the run; find the path that does not free
    Of 1,000 objects made here, 100 (10.0 %) stayed. Look for the path that does not free; at this pace a run twice as long holds twice as much.
    "#);

    let cut = of(&program, LEAK, Options { ended: false, ..Options::default() });
    assert!(cut.iter().all(|finding| finding.confidence.level == Level::Low));
}

/// A process that another one starts late in a recording is divided by its own life.
#[test]
fn a_leak_of_a_process_that_began_late_grows() {
    let mut program = Program::new();
    let leaky = program.stack(&["main", "handle", "session"]);
    for _ in 0..1000 {
        program.malloc(leaky, 200);
    }
    program.events.iter_mut().for_each(|event| event.time_ns += 60_000_000_000);
    let leaks = of(&program, LEAK, Options::default());
    let [of] = &leaks[..] else { panic!("{leaks:?}") };
    let leak = leak(of);
    assert_eq!((leak.pattern, leak.born_by_eighth), (LeakPattern::Growing, [25_000; 8]));
}

fn leak(finding: &Found) -> &Leak {
    finding.evidence().unwrap()
}

/// Objects freed before a leak begins make the peak; the leak had nothing live there.
#[test]
fn a_leak_after_the_peak_holds_its_bytes_at_the_end_only() {
    let mut program = Program::new();
    let [large, leaky, grown] = [["main", "load"], ["main", "session"], ["main", "grow"]]
        .map(|stack| program.stack(&stack));
    let buffer = program.malloc(large, 200 << 20);
    program.free(buffer);
    let list = program.malloc(grown, 1 << 10);
    for turn in 0..1000 {
        program.malloc(leaky, 50_000);
        let other = program.malloc(leaky, 64);
        program.free(other);
        if turn == 500 {
            program.realloc(grown, list, 4 << 20);
        }
    }
    let leaks = of(&program, LEAK, Options::default());
    let first = &leaks[0];
    assert_eq!(leak(first).pattern, LeakPattern::Growing);
    assert_eq!((first.wasted_at_peak_bytes(), first.wasted_total_bytes()), (0, 50_000_000));
    assert_eq!((first.saving.at_peak_bytes, first.saving.total_bytes), (0, 50_000_000));
    assert_eq!((leaks[1].wasted_at_peak_bytes(), leaks[1].wasted_total_bytes()), (0, 4 << 20));

    // In reverse, all of the leak was live there.
    let mut program = Program::new();
    let [large, leaky] = [["main", "load"], ["main", "session"]].map(|stack| program.stack(&stack));
    for _ in 0..1000 {
        program.malloc(leaky, 50_000);
    }
    let buffer = program.malloc(large, 200 << 20);
    program.malloc(leaky, 0);
    program.free(buffer);
    program.malloc(leaky, 70_000);
    let leaks = of(&program, LEAK, Options::default());
    assert_eq!(
        (leaks[0].wasted_at_peak_bytes(), leaks[0].wasted_total_bytes()),
        (50_000_000, 50_070_000)
    );
}

/// The first 99 hundredths of the time go by before the first of a thousand sessions.
#[test]
fn a_leak_after_a_long_start_grows_with_the_allocations() {
    let mut program = Program::new();
    let [load, leaky] = [["main", "load"], ["main", "session"]].map(|stack| program.stack(&stack));
    let buffer = program.malloc(load, 200 << 20);
    for _ in 0..1000 {
        program.malloc(leaky, 50_000);
    }
    program.events.iter_mut().skip(1).for_each(|event| event.time_ns += 100_000_000);
    program.free(buffer);
    let last = program.events.len() - 1;
    program.events[last].time_ns = program.events[last - 1].time_ns;
    let leaks = of(&program, LEAK, Options::default());
    assert_eq!(
        (leak(&leaks[0]).pattern, leak(&leaks[0]).eighths_of),
        (LeakPattern::Growing, LeakClock::Allocations)
    );
    assert!(
        leaks[0].advice.ends_with("at this pace twice the work holds twice as much."),
        "{}",
        leaks[0].advice
    );

    // A table built before a long computation is no leak, although it is most of the allocations.
    program.events[last].time_ns *= 100;
    let leaks = of(&program, LEAK, Options::default());
    assert_eq!(leak(&leaks[0]).pattern, LeakPattern::OneOff);
}

#[test]
fn what_is_live_at_the_end_without_a_stack_is_no_sites_leak() {
    let mut program = Program::new();
    for turn in 0..1000 {
        let session = program.malloc(0, 200);
        if turn % 10 != 0 {
            program.free(session);
        }
    }
    let (_, findings) = program.findings(Options::default());
    let leaks: Vec<_> = findings.findings.iter().filter(|finding| finding.kind == LEAK).collect();
    assert_eq!(
        (leaks.len(), leaks[0].confidence.level, leaks[0].saving.total_bytes),
        (1, Level::Low, 0)
    );
    assert!(
        leaks[0].advice.starts_with("No call stack was recorded with these"),
        "{}",
        leaks[0].advice
    );
    assert!(
        findings.limits.iter().any(|limit| limit.starts_with("No call stacks were recorded")),
        "{:?}",
        findings.limits
    );
}

#[test]
fn what_lowers_the_peak_comes_first_and_then_what_saves_over_the_run() {
    let mut program = Program::new();
    let [page, scratch, item] = [["main", "page"], ["main", "scratch"], ["main", "item"]]
        .map(|stack| program.stack(&stack));
    let pages: Vec<u64> = (0..100).map(|_| program.malloc_usable(page, 4104, 5120)).collect();
    for _ in 0..1000 {
        let (buffer, item) = (program.malloc(scratch, 100_000), program.malloc(item, 48));
        program.free(item);
        program.free(buffer);
    }
    pages.into_iter().for_each(|object| program.free(object));
    let (_, findings) = program.findings(Options::default());
    let order: Vec<(Kind, u64, u64)> = findings
        .findings
        .iter()
        .map(|finding| (finding.kind, finding.saving.at_peak_bytes, finding.saving.total_bytes))
        .collect();
    let saved = order[0].1;
    assert!(saved > 90_000, "{order:?}");
    assert_eq!(order, [(CLOWNSHOES, saved, saved), (CHURN, 0, 99_900_000), (CHURN, 0, 47_952)]);
}

/// Two callers of one function leak, rebuild and keep: each cause appears once, and no title twice.
#[test]
fn what_one_function_does_for_one_cause_is_one_finding() {
    let mut program = Program::new();
    let callers: Vec<u32> = (0..30)
        .map(|caller| program.stack(&["main", &format!("caller {caller}"), "session", "xmalloc"]))
        .collect();
    for turn in 0..6000 {
        let stack = callers[turn % callers.len()];
        program.malloc(stack, 112);
        let state = program.malloc(stack, 64 + 16 * (turn as u64 % 2));
        program.free(state);
    }
    let (_, findings) = program.findings(Options::default());
    let titles: Vec<&str> =
        findings.findings.iter().map(|finding| finding.title.as_str()).collect();
    assert_eq!(
        titles,
        [
            "session: 656 KiB in 6,000 objects never freed, growing with the run; find the path that does not free"
        ]
    );
    assert_eq!(findings.findings[0].stack_count, 30);
    assert_eq!((findings.findings[0].rank, findings.lead.len()), (Rank::Leak, 0));
}

/// 5.9 MiB that came at one time and are never freed stand before a block of 64 bytes that comes
/// and goes.
#[test]
fn what_is_lost_stands_before_what_comes_and_goes() {
    let mut program = Program::new();
    let [lost, small] = [["main", "load"], ["main", "item"]].map(|stack| program.stack(&stack));
    for _ in 0..59 {
        program.malloc(lost, 100 << 10);
    }
    for _ in 0..300_000 {
        let item = program.malloc(small, 64);
        program.free(item);
    }
    let (_, findings) = program.findings(Options::default());
    let ranks: Vec<(Rank, &str)> =
        findings.findings.iter().map(|finding| (finding.rank, finding.title.as_str())).collect();
    assert_eq!(
        ranks,
        [
            (
                Rank::Kept,
                "load: 5.76 MiB in 59 objects still live at the end, none ever freed; free them, or know why they stay"
            ),
            (
                Rank::OverRun,
                "item: 64 bytes asked for 300,000 times, one at a time; keep the block and use it again"
            ),
        ]
    );
}

/// Equal bytes are ordered by values, never by their text.
#[test]
fn numbers_are_not_ordered_as_texts() {
    let mut program = Program::new();
    let base = program.stack(&["main", "table"]);
    program.malloc(base, 100 << 10);
    for size in [13_312, 131_072, 12_698] {
        let stack = program.stack(&["main", &format!("of {size}")]);
        program.malloc(stack, size);
    }
    let leaks = of(&program, LEAK, Options::default());
    let held: Vec<u64> = leaks.iter().map(Found::wasted_total_bytes).collect();
    assert_eq!(held, [131_072, 102_400, 13_312, 12_698]);
}

#[test]
fn that_nothing_is_worth_changing_is_said_first() {
    let mut program = Program::new();
    let [table, item] = [["main", "table"], ["main", "item"]].map(|stack| program.stack(&stack));
    let table = program.malloc(table, 4 << 20);
    for _ in 0..20_000 {
        let item = program.malloc(item, 64);
        program.free(item);
    }
    program.free(table);
    let (_, findings) = program.findings(Options::default());
    assert_eq!(
        findings.lead,
        [
            "Nothing worth changing for memory: no finding reaches 1 % of the peak (4.00 MiB). The findings below save time at most."
        ]
    );
    assert!(!findings.findings[0].minor && findings.findings[0].rank == Rank::OverRun);
}

/// Python keeps small objects in its own maps.
#[test]
fn that_most_of_a_process_was_not_seen_is_said_first_with_the_remedy() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "list_resize"]);
    let list = program.malloc(stack, 18 << 20);
    program.free(list);
    let sampled = |program: &mut Program, executable: &str, resident: u64, anonymous: u64| {
        program.tables.processes =
            vec![Process { executable: executable.into(), ..Process::default() }];
        program.tables.samples = vec![Sample {
            time_ns: 1500,
            resident_bytes: resident << 20,
            resident_anonymous_bytes: anonymous << 20,
            ..Sample::default()
        }];
        program.findings(Options::default()).1.lead
    };
    let lead = sampled(&mut program, "/usr/bin/python3.11", 77, 60);
    assert_eq!(
        lead[0],
        "Only 18.0 MiB of 60.0 MiB (30.0 %) are explained: so much of what the process had resident beside code and files were blocks of malloc. Python takes small objects from maps of its own: record with --python to see them."
    );
    let lead = sampled(&mut program, "/usr/libexec/cc1plus", 213, 0);
    assert!(lead[0].starts_with("Only 18.0 MiB of 213 MiB (8.5 %) are explained"), "{lead:?}");
    assert!(lead[0].contains("GCC maps the pages"), "{lead:?}");
    // A recording with readings of the parts names them.
    let part = |kind, name: &str, mebibytes: u64| ResidentPart {
        time_ns: 1500,
        kind,
        name: name.into(),
        bytes: mebibytes << 20,
        ..ResidentPart::default()
    };
    program.tables.resident = vec![
        part(ResidentKind::Blocks, "", 18),
        part(ResidentKind::Allocator, "", 2),
        part(ResidentKind::Mapped, "", 40),
        part(ResidentKind::Code, "/usr/bin/python3.11", 9),
        part(ResidentKind::Data, "/usr/bin/python3.11", 3),
        part(ResidentKind::Stack, "main", 1),
    ];
    let advice = "record with --python";
    program.tables.frames.iter_mut().for_each(|frame| frame.file = Some("app.py".into()));
    let lead = sampled(&mut program, "/usr/bin/python3.11", 77, 60);
    assert!(!lead[0].contains(advice), "these stacks have Python's functions: {lead:?}");
    let modules: Vec<_> = program.tables.frames.iter().map(|frame| frame.module).collect();
    program.tables.frames.iter_mut().for_each(|frame| frame.module = Some(0));
    let lead = sampled(&mut program, "/usr/bin/python3.11", 77, 60);
    assert_eq!(
        lead[0],
        "Of 73.0 MiB resident at 1.5 us, blocks of malloc are 18.0 MiB (24.7 %). The rest: 40.0 MiB mapped past malloc, without a stack; 9.00 MiB code of python3.11; 3.00 MiB written data of python3.11; 2.00 MiB malloc's free memory and tables; 1.00 MiB in 1 smaller part. To see objects in pymalloc's arenas, and Python's functions, record with --python."
    );
    let lead = sampled(&mut program, "/usr/bin/java", 77, 60);
    assert!(lead[0].ends_with("--jvm-metaspace records its metaspace."), "{lead:?}");
    program.tables.resident[2].name = "JVM: Java Heap".into();
    program.tables.resident[2].reserved_bytes = 64 << 20;
    let lead = sampled(&mut program, "/usr/bin/java", 77, 60);
    assert!(lead[0].ends_with("1.00 MiB in 1 smaller part."), "recorded with it: {lead:?}");
    program.tables.resident.clear();
    let restored = program.tables.frames.iter_mut().zip(modules);
    restored.for_each(|(frame, module)| frame.module = module);
    // Enough is explained: by Python's functions, which have no module, or the interpreter's.
    assert_eq!(sampled(&mut program, "/usr/bin/python3.11", 30, 20).len(), 1);
    program.tables.frames.iter_mut().for_each(|frame| frame.module = Some(0));
    let lead = sampled(&mut program, "/usr/bin/python3.11", 30, 20);
    assert!(lead[0].ends_with("record with --python to see Python's functions and lines."));
    // Code is no heap, and half is enough.
    for (resident, anonymous) in [(77, 30), (36, 0), (200, 20)] {
        let lead = sampled(&mut program, "/usr/bin/app", resident, anonymous);
        assert!(lead.iter().all(|sentence| !sentence.contains("explained")), "{lead:?}");
    }
}

/// The nearest named caller stands in the title of a function without a name.
#[test]
fn a_title_without_a_name_has_the_nearest_one_further_out() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "sqlite3_step", "bare"]);
    let row = program.tables.stacks[stack as usize].frame as usize;
    program.tables.modules =
        vec![Module { path: "/usr/lib/libsqlite3.so.0".into(), ..Module::default() }];
    let frame = &mut program.tables.frames[row];
    (frame.function, frame.module, frame.address) = (None, Some(0), 0xa70f1);
    for _ in 0..2000 {
        let object = program.malloc(stack, 1000);
        program.free(object);
    }
    let titles: Vec<String> =
        program.findings(Options::default()).1.findings.into_iter().map(|one| one.title).collect();
    assert!(
        titles
            .iter()
            .any(|title| title.starts_with("libsqlite3.so.0+0xa70f1 (under sqlite3_step): ")),
        "{titles:?}"
    );
}

/// A library without symbols asks for most, and the finding says where its symbols would be.
#[test]
fn places_without_names_come_with_the_file_that_has_them() {
    let mut program = Program::new();
    let [named, bare] = [["main", "own"], ["main", "bare"]].map(|stack| program.stack(&stack));
    let row = program.tables.stacks[bare as usize].frame as usize;
    program.tables.modules = vec![Module {
        path: "/usr/lib/libxml2.so.2".into(),
        build_id: "ab0123cdef".into(),
        ..Module::default()
    }];
    (program.tables.frames[row].function, program.tables.frames[row].module) = (None, Some(0));
    for _ in 0..100 {
        for (stack, size) in [(named, 1000), (bare, 1000)] {
            let object = program.malloc(stack, size);
            program.free(object);
        }
    }
    let hint = |program: &Program| {
        let limits = program.findings(Options::default()).1.limits;
        limits.into_iter().find(|limit| limit.contains("without a name"))
    };
    assert_eq!(
        hint(&program).unwrap(),
        "50.0 % of the bytes were asked for by functions without a name in /usr/lib/libxml2.so.2 (/usr/lib/debug/.build-id/ab/0123cdef.debug). Install the debug symbols of their packages (Debian: NAME-dbgsym; Fedora: debuginfo-install; any: DEBUGINFOD_URLS and debuginfod-find debuginfo BUILD-ID), then run heaplab symbolize."
    );
    program.tables.frames[row].function = Some("xmlStrdup".into());
    assert_eq!(hint(&program), None);
}

#[test]
fn nothing_is_found_in_nothing() {
    let (_, findings) = Program::new().findings(Options::default());
    assert!(findings.findings.is_empty() && findings.counts.rows.is_empty());
}

/// The interpreter's functions ask for both, five frames and more inside of Python's.
#[test]
fn findings_name_the_functions_of_python_and_keep_them_apart() {
    let mut program = Program::new();
    let inner = ["type_call", "vectorcall", "init", "init_impl", "resize", "PyObject_Malloc"];
    let stacks = ["load_users", "load_orders"]
        .map(|python| program.stack(&[&["main", python][..], &inner].concat()));
    program.tables.modules = vec![Module { path: "/usr/bin/python3".into(), ..Module::default() }];
    for frame in &mut program.tables.frames {
        match frame.function.as_deref() {
            Some(name) if name.starts_with("load_") => frame.file = Some("app.py".into()),
            _ => frame.module = Some(0),
        }
    }
    for _ in 0..300 {
        for stack in stacks {
            program.malloc(stack, 4_000);
        }
    }
    let found = program.findings(Options::default()).1.findings;
    let leaks = found.iter().filter(|found| found.kind.name == "leak");
    let mut functions: Vec<&str> = leaks.map(|found| found.function.as_str()).collect();
    functions.sort_unstable();
    assert_eq!(functions, ["load_orders", "load_users"]);
}
