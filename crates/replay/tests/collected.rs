//! The driver on collected heaps: births, deaths, growth, forced collections and references arrive
//! as in the program, contents survive, and no damaged program makes the driver do the impossible.

use heaplab_heap::Collection;
use heaplab_heap::witness::Witness;
use heaplab_replay::{CellKind, CellReport, CellRequest, ReplayError, Touch, collected};
use heaplab_textbook::{MarkSweep, Options, SemiSpace};
use heaplab_trace::program::{Facts, Program, compile};
use heaplab_trace::source::Slice;
use heaplab_trace::tables::Tables;
use heaplab_trace::{BY_REACHABILITY, Event, FREED_BY_PROGRAM, Op};
use std::io::Cursor;
use std::path::Path;

fn program(events: &[Event], death_rule: &str) -> Program {
    let facts = Facts { death_rule: death_rule.into(), ..Facts::default() };
    let mut out = Cursor::new(Vec::new());
    compile(&mut Slice(events), &Tables::default(), facts, 0, Path::new("test"), &mut out).unwrap();
    Program::from_bytes(&out.into_inner(), Path::new("test")).unwrap()
}

fn request(kind: CellKind) -> CellRequest {
    let (heap, program) = (String::from("test"), "test".into());
    CellRequest {
        heap,
        kind,
        program,
        touch: Touch::Known,
        threads: false,
        passes: 2,
        core: None,
        huge_pages: true,
    }
}

fn event(op: Op, object: u64, size: u64) -> Event {
    Event { op, object, size, ..Event::default() }
}

/// Births, growth and deaths of mixed sizes, a forced collection every 500 events.
fn workload(length: usize) -> Vec<Event> {
    let mut state = 9_u64;
    let mut next = move |bound: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let (mut events, mut live, mut births) = (Vec::new(), Vec::new(), 0);
    for row in 0..length {
        let size = if next(20) == 0 { next(100_000) } else { next(400) };
        match next(10) {
            0..=4 => {
                live.push(births);
                events.push(event(Op::Alloc, births, size));
                births += 1;
            }
            5..=8 if !live.is_empty() => {
                events.push(event(Op::Free, live.swap_remove(next(live.len() as u64) as usize), 0))
            }
            9 if !live.is_empty() => {
                events.push(event(Op::Realloc, live[next(live.len() as u64) as usize], size))
            }
            _ => {}
        }
        if row % 500 == 499 {
            events.push(event(Op::Collect, 0, 0));
        }
    }
    events
}

fn marked(row: &Collection) -> u64 {
    row.work.expect("it counts its work").marked_objects
}

fn collections(report: CellReport) -> Vec<Collection> {
    match report {
        CellReport::Space(report) => report.collections,
        CellReport::Time(report) => report.collections,
        other => panic!("{other:?}"),
    }
}

#[test]
fn contents_survive_and_forced_collections_are_rows() {
    let program = program(&workload(20_000), FREED_BY_PROGRAM);
    assert_eq!(program.facts().forced_collections, 40);
    for kind in [CellKind::Verify, CellKind::Space, CellKind::Time] {
        let swept =
            collected::run(MarkSweep::new(Options::default()).unwrap(), &program, &request(kind));
        let copied =
            collected::run(SemiSpace::new(Options::default()).unwrap(), &program, &request(kind));
        if kind == CellKind::Verify {
            assert!(matches!(swept, CellReport::Verified { .. }), "{swept:?}");
            assert!(matches!(copied, CellReport::Verified { .. }), "{copied:?}");
            continue;
        }
        let (swept, copied) = (collections(swept), collections(copied));
        let forced = |rows: &[Collection]| -> Vec<(u64, u64)> {
            rows.iter()
                .filter(|row| row.cause == "forced")
                .map(|row| (row.births, marked(row)))
                .collect()
        };
        assert_eq!(forced(&swept).len(), 40);
        assert_eq!(
            forced(&swept),
            forced(&copied),
            "the same objects are alive at the same births"
        );
    }
}

#[test]
fn references_keep_objects_alive_until_no_root_reaches_them() {
    let events = [
        event(Op::Alloc, 0, 10),
        event(Op::Alloc, 1, 20),
        Event { op: Op::Reference, object: 0, field: 0, target: 1, ..Event::default() },
        event(Op::Free, 1, 0),
        event(Op::Collect, 0, 0),
        event(Op::Free, 0, 0),
        event(Op::Collect, 0, 0),
    ];
    let program = program(&events, BY_REACHABILITY);
    let report = collected::run(
        SemiSpace::new(Options::default()).unwrap(),
        &program,
        &request(CellKind::Space),
    );
    let rows = collections(report);
    assert_eq!(rows.iter().map(marked).collect::<Vec<_>>(), [2, 0]);
}

#[test]
fn a_full_heap_and_a_damaged_program_are_errors() {
    let events: Vec<Event> = (0..100).map(|object| event(Op::Alloc, object, 100_000)).collect();
    let small = Options { limit_bytes: 2 << 20, ..Options::default() };
    let report = collected::run(
        MarkSweep::new(small).unwrap(),
        &program(&events, ""),
        &request(CellKind::Space),
    );
    let CellReport::Failed { reason } = report else { panic!("{report:?}") };
    assert!(reason.starts_with("out of memory: 100000 bytes asked for, 20"), "{reason}");
    // Two objects never share a slot, and an empty slot does not die. The compiler refuses such
    // events, so the test forges the words. Four words without effect come first: a table of two
    // slots takes at least four words.
    let forged = |words: &[u32]| {
        Program::from_bytes(&forge(&[&[6; 4], words].concat()), Path::new("forged")).unwrap()
    };
    for (words, found) in [
        (&[1_u32, 8, 1, 8][..], "taken already"),
        (&[0], "empty"),
        (&[3, 8], "empty"),
        (&[9, 8, 0x56, 1, 3], "empty"),
        (&[5 << 6 | 3 << 3 | 6, 0], "empty"),
    ] {
        let program = forged(words);
        let mut driver =
            collected::Driver::new(&program, MarkSweep::new(small).unwrap(), Witness::new(2));
        let error = driver.run_to(usize::MAX, Touch::None).unwrap_err();
        assert!(
            matches!(&error, ReplayError::Slot { found: what, .. } if *what == found),
            "{words:?}: {error}"
        );
    }
}

/// A program file of these words, with correct checksums.
fn forge(words: &[u32]) -> Vec<u8> {
    use xxhash_rust::xxh3::xxh3_64;
    let mut out = Cursor::new(Vec::new());
    compile(&mut Slice(&[]), &Tables::default(), Facts::default(), 0, Path::new("empty"), &mut out)
        .unwrap();
    let empty = out.into_inner();
    let trailer_bytes = u64::from_le_bytes(empty[32..40].try_into().unwrap()) as usize;
    let trailer = std::str::from_utf8(&empty[empty.len() - trailer_bytes..]).unwrap();
    let trailer = trailer
        .replace("\"word\":0", &format!("\"word\":{}", words.len()))
        .replace("\"slots\":0", "\"slots\":2");
    let mut rest: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    rest.resize(rest.len().next_multiple_of(8), 0);
    rest.extend_from_slice(trailer.as_bytes());
    let mut header = empty[..64].to_vec();
    header[24..32].copy_from_slice(&(words.len() as u64).to_le_bytes());
    header[32..40].copy_from_slice(&(trailer.len() as u64).to_le_bytes());
    header[48..56].copy_from_slice(&xxh3_64(&rest).to_le_bytes());
    let checksum = xxh3_64(&header[..56]);
    header[56..64].copy_from_slice(&checksum.to_le_bytes());
    [header, rest].concat()
}

/// A copying collection holds the live objects twice. No checkpoint lies within a collection.
#[test]
fn the_second_copy_of_a_collection_counts() {
    let births = 3_000;
    let events: Vec<Event> = (0..births)
        .flat_map(|object| {
            let old = (object >= 1_000).then(|| event(Op::Free, object - 1_000, 0));
            [Some(event(Op::Alloc, object, 4_000)), old].into_iter().flatten()
        })
        .collect();
    let program = program(&events, FREED_BY_PROGRAM);
    let most = |report: CellReport| match report {
        CellReport::Space(report) => {
            let most_live = report
                .collections
                .iter()
                .map(|row| row.before.used_bytes.max(row.after.used_bytes));
            let committed = report.samples.iter().filter_map(|sample| sample.committed_bytes).max();
            (committed.unwrap(), most_live.max().unwrap())
        }
        other => panic!("{other:?}"),
    };
    let options = Options { overhead_percent: 20, ..Options::default() };
    let space = request(CellKind::Space);
    let copying = SemiSpace::new(options).unwrap();
    let (committed, used) = most(collected::run(copying, &program, &space));
    assert!(committed >= 2 * used, "{committed} bytes committed for {used}");
    let sweeping = MarkSweep::new(options).unwrap();
    let (committed, used) = most(collected::run(sweeping, &program, &space));
    assert!(committed < 2 * used, "{committed} bytes committed for {used}");
}
