//! Logs of several JVMs, one behind the other or interleaved.

use super::*;

/// Two JVMs with equal addresses and threads, a mark between them, and heaplab's notes of the
/// recording.
#[test]
fn jvms_of_one_log_are_told_apart() {
    let text = "[100ns][71][5] heaplab: process {\"executable\":\"/opt/java\",\"arguments\":[\"java\",\"A\"],\"parent\":1}\n\
        [110ns][71][5] Arena @0x0a0 (non-class sm): : born.\n\
        [120ns][72][5] Arena @0x0a0 (non-class sm): : born.\n\
        [125ns][72][0] heaplab: process {\"parent\":71}\n\
        [130ns][71][5] Arena @0x0a0 (non-class sm): requested 10 words.\n\
        [140ns][72][5] Arena @0x0a0 (non-class sm): requested 20 words.\n\
        [150ns][71][5] ChkMgr @0x1 (non-class-space): handing out chunk @0x2, u, base 0x2000, level lv14.\n\
        [150ns][72][5] VsListNode @0x1 base 0x4000000 : committing range 0x4000000..0x4010000(8192 words)\n\
        [150ns][72][5] VsListNode @0x1 base 0x4000000 : ... committed 8192 additional words.\n\
        [160ns][71][5] Arena @0x0a0 (non-class sm): returning 0x1000.\n\
        [160ns][72][5] Arena @0x0a0 (non-class sm): returning 0x1000.\n\
        [210ns][72][0] heaplab: memory 4096 1024\n\
        [220ns][72][5] Metaspace::allocate: type 10 return 0x1000.\n\
        [230ns][71][5] Metaspace::allocate: type 7 return 0x1000.\n\
        [240ns][71][5] heaplab: process {damaged\n\
        [250ns][72][5] Arena @0x0a0 (non-class sm): : dies.\n";
    let moment = |name: &str, time_ns, pid| NamedMoment { name: name.into(), time_ns, pid };
    let moments = vec![moment("loaded", 105, Some(72)), moment("over", 900, None)];
    let mut importer = Importer::new(&ImportOptions::default()).recorded(100, moments);
    let mut events: Vec<Event> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        importer.line(index as u64 + 1, line.as_bytes(), true, &mut events).unwrap();
    }
    let done = importer.finish(&mut events).unwrap();
    let mut checker = OrderChecker::new("two", &done.tables);
    events.iter().for_each(|event| checker.check(event).unwrap());
    let of = |op| {
        events
            .iter()
            .filter(|event| event.op == op)
            .map(|event| (event.process, event.time_ns, event.arena, event.size))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(Op::Alloc), [(1, 120, 2, 160), (0, 130, 1, 80)]);
    assert_eq!(of(Op::ArenaDeath), [(1, 150, 2, 0)]);
    assert_eq!(of(Op::Mark), [(1, 105, 0, 0), (0, 900, 0, 0)].map(|(_, time, ..)| (1, time, 0, 0)));
    let tables = &done.tables;
    assert_eq!(
        tables.marks.iter().map(|mark| (mark.name.as_str(), mark.process)).collect::<Vec<_>>(),
        [("loaded", Some(1)), ("over", None)]
    );
    let processes: Vec<_> = tables
        .processes
        .iter()
        .map(|process| (process.pid, process.executable.as_str(), process.parent, process.began_ns))
        .collect();
    assert_eq!(processes, [(71, "/opt/java", None, 0), (72, "", Some(0), 20)]);
    assert_eq!(
        tables
            .chunks
            .iter()
            .map(|chunk| (ChunkOp::of(chunk).unwrap(), chunk.process))
            .collect::<Vec<_>>(),
        [(ChunkOp::Take, 0), (ChunkOp::Commit, 1)]
    );
    let samples: Vec<_> = tables
        .samples
        .iter()
        .map(|sample| (sample.process, sample.resident_bytes, sample.committed_bytes))
        .collect();
    assert_eq!(samples, [(1, 4096, 65536)]);
    assert_eq!(
        tables.threads.iter().map(|thread| (thread.process, thread.tid)).collect::<Vec<_>>(),
        [(0, 5), (1, 5)]
    );
    assert_eq!((done.meta.duration_ns, done.meta.losses.len()), (901, 0));
}

#[test]
fn a_second_jvm_whose_lines_name_no_pid_is_not_taken_for_the_first() {
    let one = [
        "Initialized with strategy: balanced reclaim.",
        " - commit_granule_bytes: 65536.",
        "Arena @0x0a0 (class sm): : born.",
    ];
    let block = [
        "Arena @0x0a0 (class sm): requested 10 words.",
        "Metaspace::allocate: type 0 return 0x1000.",
    ];
    // JDK 21 and later have no policy.
    for (second, place) in
        [(&one[..], "line 6: another JVM begins"), (&one[1..], "line 6: another JVM begins")]
    {
        let text = log(&[&one[..], &block, second].concat());
        let (events, done) = imported(text.as_bytes(), false).unwrap();
        assert_eq!(
            (events.len(), events_of(&events, Op::Alloc)),
            (2, 1),
            "what was read before stays"
        );
        let said = done.meta.cut.unwrap();
        assert!(said.contains(place) && said.contains("decoration pid"), "{said}");
        let losses = imported(text.as_bytes(), true).unwrap().1.meta.losses;
        assert!(
            losses.iter().any(|loss| loss.starts_with("1 JVMs begin with lines that count")),
            "{losses:?}"
        );
    }
    let interleaved = log(&[one[0], one[0], one[1], one[1], one[2]]);
    assert!(
        imported(interleaved.as_bytes(), false)
            .unwrap_err()
            .to_string()
            .contains("line 4: another JVM begins")
    );
}

/// The report on an allocation that failed repeats a setting.
#[test]
fn a_jvm_that_runs_out_of_metaspace_stays_one_jvm() {
    let report =
        ["Metaspace (data) allocation failed for size 4", "", " - commit_granule_bytes: 65536."];
    let text = log(&[
        &[" - commit_granule_bytes: 65536.", "Arena @0x0a0 (class sm): : born."][..],
        &report,
        &report,
        &["Arena @0x0a0 (class sm): requested 10 words."],
        &["Metaspace::allocate: type 0 return 0x1000."],
    ]
    .concat());
    let (events, done) = imported(text.as_bytes(), false).unwrap();
    assert_eq!(
        (events_of(&events, Op::Alloc), done.meta.cut, done.meta.losses.len()),
        (1, None, 0)
    );
}

/// The kernel gives an ended JVM's pid to another: nothing of the first belongs to the second.
#[test]
fn a_pid_that_is_used_again_is_another_jvm() {
    let text = "[100ns][71][5] heaplab: process {\"executable\":\"/opt/one\"}\n\
        [110ns][71][5] Arena @0x0a0 (non-class sm): : born.\n\
        [120ns][71][5] Arena @0x0a0 (non-class sm): requested 10 words.\n\
        [130ns][71][5] Arena @0x0a0 (non-class sm): returning 0x1000.\n\
        [150ns][71][0] heaplab: ended\n\
        [160ns][71][5] heaplab: process {\"executable\":\"/opt/other\"}\n\
        [170ns][71][5] Arena @0x0a0 (non-class sm): : born.\n\
        [180ns][71][5] Arena @0x0a0 (non-class sm): requested 20 words.\n\
        [190ns][71][5] Arena @0x0a0 (non-class sm): returning 0x1000.\n\
        [200ns][71][5] Metaspace::allocate: type 7 return 0x1000.\n\
        [210ns][71][0] heaplab: ended\n";
    let mut importer = Importer::new(&ImportOptions::default()).recorded(100, Vec::new());
    let mut events: Vec<Event> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        importer.line(index as u64 + 1, line.as_bytes(), true, &mut events).unwrap();
    }
    let done = importer.finish(&mut events).unwrap();
    let mut checker = OrderChecker::new("again", &done.tables);
    events.iter().for_each(|event| checker.check(event).unwrap());
    let processes = done.tables.processes.iter();
    let processes: Vec<_> = processes
        .map(|process| {
            (process.pid, process.executable.as_str(), process.began_ns, process.ended_ns)
        })
        .collect();
    assert_eq!(processes, [(71, "/opt/one", 0, Some(50)), (71, "/opt/other", 60, Some(110))]);
    let blocks = events.iter().filter(|event| event.op == Op::Alloc);
    let blocks: Vec<_> =
        blocks.map(|event| (event.process, event.time_ns, event.arena, event.size)).collect();
    assert!(
        blocks.len() == 2
            && blocks[0] == (0, 50, 1, 80)
            && (blocks[1].0, blocks[1].2, blocks[1].3) == (1, 2, 160),
        "{blocks:?}"
    );
    assert_eq!(
        (events.iter().filter(|event| event.op == Op::ArenaBirth).count(), done.meta.losses.len()),
        (2, 0)
    );
}

/// An ended JVM's committed bytes are not added to the next one's.
#[test]
fn committed_bytes_are_those_of_jvms_that_live() {
    let mut importer = Importer::new(&ImportOptions::default());
    let mut events: Vec<Event> = Vec::new();
    let mut counts = |pid: u32, messages: &[&str]| {
        for message in messages {
            importer
                .line(1, format!("[1ns][{pid}][5] {message}").as_bytes(), true, &mut events)
                .unwrap();
        }
        let counts = importer.counts();
        (counts.committed_bytes >> 16, counts.committed_peak_bytes >> 16)
    };
    let commit = [
        "VsListNode @0x1 base 0x4000000 : committing range 0x4000000..0x4010000(8192 words)",
        "VsListNode @0x1 base 0x4000000 : ... committed 8192 additional words.",
    ];
    assert_eq!((counts(71, &commit), counts(72, &commit)), ((1, 1), (2, 2)));
    assert_eq!(counts(71, &["heaplab: ended"]), (1, 2));
    assert_eq!(counts(71, &["heaplab: ended"]), (1, 2));
    assert_eq!((counts(73, &commit), counts(74, &commit)), ((2, 2), (3, 3)));
    assert_eq!(
        (counts(72, &["heaplab: ended"]), counts(74, &["heaplab: ended"])),
        ((2, 3), (1, 3))
    );
}

#[test]
fn the_reclaim_policy_is_known_by_jvm() {
    use crate::Reclaim;
    let granule = " - commit_granule_bytes: 65536.";
    for (lines, expected) in [
        (vec!["Initialized with strategy: balanced reclaim.", granule], Reclaim::Balanced),
        (vec!["Initialized with strategy: aggressive reclaim.", granule], Reclaim::Aggressive),
        (vec![granule], Reclaim::Removed),
    ] {
        let born = "Arena @0xb0 (non-class sm): : born.";
        let (_, done) = imported(log(&[&lines[..], &[born]].concat()).as_bytes(), false).unwrap();
        let row = done
            .tables
            .chunks
            .iter()
            .find(|chunk| ChunkOp::of(chunk) == Some(ChunkOp::Granule))
            .unwrap();
        assert_eq!(Reclaim::from_code(row.address), expected);
    }
}
