//! Bundles written and read back, by this crate and by the parquet crate.

use super::*;
use crate::tables::{
    Arena, Began, ChunkEvent, Ended, Frame, Mark, Module, OpName, Process, ResidentKind,
    ResidentPart, Sample, StackNode, Thread,
};
use crate::{Family, Flags, Op, Origin};
use proptest::prelude::*;

fn resident() -> Vec<ResidentPart> {
    let part = ResidentPart { time_ns: 7, process: 1, bytes: 4096, ..ResidentPart::default() };
    vec![
        ResidentPart { kind: ResidentKind::Code, name: "/lib/x.so".into(), ..part.clone() },
        ResidentPart {
            kind: ResidentKind::Mapped,
            stack: 2,
            bytes: 3 << 20,
            huge_bytes: 2 << 20,
            mappings: 3,
            reserved_bytes: 8 << 20,
            committed_bytes: 4 << 20,
            ..part
        },
    ]
}

/// Tables with every optional value present once and missing once.
pub(super) fn tables() -> Tables {
    let process = |pid, parent| Process {
        pid,
        parent,
        executable: "/bin/a b".into(),
        arguments: vec!["a".into(), "\"quoted\"".into()],
        ..Process::default()
    };
    Tables {
        resident: resident(),
        stacks: vec![
            StackNode::default(),
            StackNode { parent: 0, frame: 0 },
            StackNode { parent: 1, frame: 2 },
        ],
        frames: vec![
            Frame {
                module: Some(0),
                address: u64::MAX - 1,
                inlined_into: Some(1),
                ..Frame::default()
            },
            Frame {
                function: Some("main()".into()),
                file: Some("m.c".into()),
                line: 7,
                ..Frame::default()
            },
            Frame { module: None, address: 0x7fff_0000_1234, ..Frame::default() },
        ],
        modules: vec![Module {
            path: "/lib/x.so".into(),
            build_id: "ab12".into(),
            process: 1,
            bias: 0x7f00_0000_0000,
            size: 4096,
            loaded_ns: 5,
            unloaded_ns: Some(9),
        }],
        processes: vec![
            Process { ended: Ended::Exited(-1), ended_ns: Some(99), ..process(10, None) },
            Process {
                began: Began::Fork,
                began_ns: 3,
                ended: Ended::Signalled(9),
                refused: Some("static".into()),
                ..process(11, Some(0))
            },
        ],
        threads: vec![
            Thread { process: 0, tid: 10, name: "main".into() },
            Thread { process: 1, tid: 11, name: String::new() },
        ],
        arenas: arenas(),
        marks: vec![
            Mark { name: "loaded".into(), time_ns: 4, process: None },
            Mark { name: "closed".into(), time_ns: 8, process: Some(1) },
        ],
        samples: vec![Sample {
            time_ns: 1,
            process: 0,
            resident_bytes: 9,
            resident_anonymous_bytes: 8,
            resident_peak_bytes: 10,
            committed_bytes: 0,
        }],
        chunks: chunks(),
    }
}

fn arenas() -> Vec<Arena> {
    vec![
        Arena::default(),
        Arena {
            kind: "class".into(),
            partner: Some(0),
            loader: "boot".into(),
            growth_policy: "2x".into(),
        },
    ]
}

/// Chunks of operations with a short name, the longest, and that of the workload.
fn chunks() -> Vec<ChunkEvent> {
    ["take", "fifteen letters", OpName::TRIM.text()]
        .map(|name| ChunkEvent {
            op: OpName::new(name).unwrap(),
            row: 2,
            time_ns: 7,
            address: 1 << 47,
            bytes: 65536,
            arena: 1,
            process: 1,
        })
        .to_vec()
}

/// The next event, before ids are given.
fn step() -> impl Strategy<Value = (Event, prop::sample::Index)> {
    let numbers = (0u64..=u64::MAX, 0u64..300, 0u32..2, 0u32..3, 0u64..1 << 62);
    (0u8..11, 0u16..32, 0u8..64, numbers, any::<u64>(), any::<prop::sample::Index>()).prop_map(
        |(op, flags, align_log2, (big, small, process, stack, time_ns), address, which)| {
            let event = Event {
                op: Op::from_number(op).unwrap(),
                flags: Flags(flags),
                family: Family::from_number((small % 5) as u8).unwrap(),
                origin: Origin::from_number((small % 4) as u8).unwrap(),
                align_log2: align_log2 * u8::from(small % 2 == 0),
                process,
                thread: process,
                stack,
                collection: (small % 4) as u32,
                size: if small % 7 == 0 { big } else { small },
                usable: small * 8,
                time_ns,
                address: address * (small % 2),
                ..Event::default()
            };
            (event, which)
        },
    )
}

/// Turns arbitrary steps into the events of a program: objects are born before their use.
fn legal(steps: Vec<(Event, prop::sample::Index)>) -> Vec<Event> {
    let (mut live, mut born, mut arena) = (Vec::new(), 0, 0);
    let mut events = Vec::new();
    for (mut event, which) in steps {
        let about_size = matches!(event.op, Op::Alloc | Op::Realloc);
        if !about_size {
            event.size = 0;
        } else if !event.has(Flags::FAILED) {
            // Only failed requests can be larger.
            event.size = event.size.min(crate::order::OBJECT_BYTES_MAX);
        }
        event.flags.0 &= !Flags::INHERITED.0;
        if event.op == Op::Alloc && !event.has(Flags::FAILED) {
            event.object = born;
            live.push(born);
            born += 1;
        } else if matches!(
            event.op,
            Op::Free | Op::Realloc | Op::UsableSizeRead | Op::Promote | Op::Reference
        ) {
            let Some(at) = (!live.is_empty()).then(|| which.index(live.len())) else { continue };
            event.object = live[at];
            match event.op {
                Op::Free => drop(live.swap_remove(at)),
                Op::Reference => {
                    (event.target, event.field) =
                        (if at == 0 { u64::MAX } else { live[0] }, at as u32)
                }
                _ => {}
            }
        } else if matches!(event.op, Op::ArenaBirth | Op::ArenaDeath) {
            if arena == 2 || (arena == 0) != (event.op == Op::ArenaBirth) {
                continue;
            }
            arena += 1;
            (event.arena, event.object) = (1, 1);
        } else if event.op == Op::Mark {
            event.object = which.index(2) as u64;
        }
        events.push(event);
    }
    events
}

pub(super) fn written(folder: &Path, events: &[Event]) -> Bundle {
    let path = folder.join("t.heaplab");
    let mut writer = BundleWriter::create(&path).unwrap();
    events.iter().for_each(|event| writer.push(event).unwrap());
    writer.finish(&tables(), Meta { program: "test".into(), ..Meta::default() }).unwrap();
    Bundle::open(&path).unwrap()
}

pub(super) fn all(bundle: &Bundle, selection: Selection) -> Vec<Event> {
    let mut events = Vec::new();
    bundle
        .events(selection)
        .unwrap()
        .for_each(|event| EventSink::push(&mut events, event))
        .unwrap();
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_column_comes_back(steps in prop::collection::vec(step(), 0..400)) {
        let folder = tempfile::tempdir().unwrap();
        let events = legal(steps);
        let bundle = written(folder.path(), &events);
        prop_assert_eq!(bundle.tables(), &tables());
        prop_assert_eq!(all(&bundle, Selection::default()), events.clone());
        bundle.verify().unwrap();
        let ours: Vec<Event> = events.into_iter().filter(|event| event.process == 1).collect();
        prop_assert_eq!(all(&bundle, Selection { process: Some(1) }), ours);
    }
}

/// A workload over several pages and row groups: most objects die young, some live on.
fn long(rows: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let (mut born, mut next_dead) = (0u64, 0u64);
    while (events.len() as u64) < rows {
        let row = events.len() as u64;
        let common =
            Event { time_ns: row * 40 + row % 7, stack: (row % 2) as u32, ..Event::default() };
        if row % 3 == 2 && next_dead < born {
            events.push(Event { op: Op::Free, object: next_dead, ..common });
            next_dead += 1;
        } else {
            events.push(Event {
                object: born,
                size: row % 100_003,
                usable: row % 100_003 + 8,
                ..common
            });
            born += 1;
        }
    }
    events
}

#[test]
fn pages_and_row_groups_join() {
    let folder = tempfile::tempdir().unwrap();
    let events = long(1_200_000);
    let bundle = written(folder.path(), &events);
    assert!(all(&bundle, Selection::default()) == events);
    bundle.verify().unwrap();
    assert_eq!(bundle.meta().duration_ns, events.last().unwrap().time_ns);
}

#[test]
fn the_parquet_crate_reads_the_same() {
    use parquet::file::reader::FileReader as _;
    use parquet::record::RowAccessor;
    let folder = tempfile::tempdir().unwrap();
    let events = long(70_000);
    let bundle = written(folder.path(), &events);
    let file = File::open(bundle.path().join("events.parquet")).unwrap();
    let reader = parquet::file::reader::SerializedFileReader::new(file).unwrap();
    for (row, event) in reader.get_row_iter(None).unwrap().zip(&events) {
        let row = row.unwrap();
        assert_eq!(row.get_string(0).unwrap(), columns::OPS[event.op as usize]);
        assert_eq!(row.get_long(1).unwrap(), event.object as i64);
        let (size, usable) = if event.op == Op::Alloc {
            (Some(event.size), Some(event.usable))
        } else {
            (None, None)
        };
        assert_eq!((row.get_ulong(2).ok(), row.get_ulong(3).ok()), (size, usable));
        assert_eq!(row.get_uint(12).ok(), (event.stack != 0).then_some(event.stack));
        assert_eq!(row.get_long(14).unwrap(), event.time_ns as i64);
    }
    for table in tables_codec::FILES {
        let file = File::open(bundle.path().join(table)).unwrap();
        let reader = parquet::file::reader::SerializedFileReader::new(file).unwrap();
        assert!(reader.get_row_iter(None).unwrap().all(|row| row.is_ok()), "{table}");
    }
}

#[test]
fn nothing_is_left_of_a_bundle_that_was_not_finished() {
    let folder = tempfile::tempdir().unwrap();
    let writer = BundleWriter::create(&folder.path().join("t.heaplab")).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    drop(writer);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.heaplab");
    fs::write(&path, "something else").unwrap();
    let error = BundleWriter::create(&path).unwrap_err().to_string();
    assert!(error.contains("something of that name exists"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"something else");
}

#[test]
fn a_bundle_is_replaced_when_the_new_one_is_whole_and_nothing_else_ever_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.heaplab");
    let program = |path: &Path| Bundle::open(path).unwrap().meta().program.clone();
    let named = |program: &str| Meta { program: program.into(), ..Meta::default() };
    BundleWriter::replace(&path).unwrap().finish(&Tables::default(), named("old")).unwrap();
    drop(BundleWriter::replace(&path).unwrap());
    assert_eq!(program(&path), "old", "an unfinished one replaces nothing");
    let writer = BundleWriter::replace(&path).unwrap();
    assert_eq!(program(&path), "old");
    writer.finish(&Tables::default(), named("new")).unwrap();
    assert_eq!(program(&path), "new");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing stays beside it");
    let precious = folder.path().join("precious");
    std::fs::create_dir(&precious).unwrap();
    std::fs::write(precious.join("thesis.txt"), b"...").unwrap();
    let error = BundleWriter::replace(&precious).unwrap_err().to_string();
    assert!(error.contains("no bundle"), "{error}");
}

/// A whole recording lies between the beginning and the end of a bundle.
#[test]
fn what_became_something_else_meanwhile_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.heaplab");
    BundleWriter::create(&path).unwrap().finish(&Tables::default(), Meta::default()).unwrap();
    let thesis = path.join("thesis.txt");
    let writer = BundleWriter::replace(&path).unwrap();
    fs::remove_dir_all(&path).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(&thesis, "...").unwrap();
    let error = writer.finish(&Tables::default(), Meta::default()).unwrap_err().to_string();
    assert!(error.contains("no bundle"), "{error}");
    assert_eq!(fs::read(&thesis).unwrap(), b"...");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing stays beside it");
}

/// In a container every process may have the same number.
#[test]
fn what_a_process_of_this_number_left_keeps_no_bundle_from_being_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.heaplab");
    let replace = || BundleWriter::replace(&path)?.finish(&Tables::default(), Meta::default());
    replace().unwrap();
    let left = hidden_name(&path, "unfinished").unwrap();
    fs::create_dir(&left).unwrap();
    fs::write(left.join(META_FILE), "{}").unwrap();
    replace().unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "somebody may be writing there");
}

/// As on a file system that cannot exchange two names.
#[test]
fn a_bundle_that_was_set_aside_is_found_by_who_opens_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, new) = (folder.path().join("x.heaplab"), folder.path().join("new"));
    let named = |program: &str| Meta { program: program.into(), ..Meta::default() };
    BundleWriter::create(&path).unwrap().finish(&Tables::default(), named("old")).unwrap();
    BundleWriter::create(&new).unwrap().finish(&Tables::default(), named("new")).unwrap();
    assert!(replace_in_two_steps(&folder.path().join("not there"), &path).is_err());
    assert_eq!(Bundle::open(&path).unwrap().meta().program, "old", "it has its name back");
    let old = replace_in_two_steps(&new, &path).unwrap();
    assert_eq!(Bundle::open(&path).unwrap().meta().program, "new");
    // As if the process had ended between the steps.
    fs::remove_dir_all(&path).unwrap();
    let error = Bundle::open(&path).unwrap_err().to_string();
    assert!(
        error.contains("while replacing it") && error.contains(old.to_str().unwrap()),
        "{error}"
    );
    assert_eq!(Bundle::open(&old).unwrap().meta().program, "old");
    let error = Bundle::open(&folder.path().join("y.heaplab")).unwrap_err().to_string();
    assert!(!error.contains("replacing"), "{error}");
}

#[test]
fn frames_are_replaced_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let mut bundle = written(folder.path(), &[]);
    let before = bundle.tables().frames.clone();
    assert!(bundle.rewrite_frames(before[..2].to_vec()).is_err(), "a stack refers to row 2");
    assert_eq!(Bundle::open(bundle.path()).unwrap().tables().frames, before);
    let mut frames = before.clone();
    frames[2].function = Some("jitted".into());
    frames.push(Frame { function: Some("inlined there".into()), ..Frame::default() });
    bundle.rewrite_frames(frames.clone()).unwrap();
    assert_eq!(bundle.tables().frames, frames);
    assert_eq!(Bundle::open(bundle.path()).unwrap().tables().frames, frames);
    let names: Vec<_> =
        fs::read_dir(bundle.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{names:?}");
}

/// One event of every kind, by hand: the content of each format version's bundle in tests/data.
pub(super) fn sample() -> Vec<Event> {
    let at = |time_ns| Event { time_ns, ..Event::default() };
    vec![
        Event { size: 100, usable: 104, stack: 2, address: 0x1000, flags: Flags::ZEROED, ..at(10) },
        Event {
            object: 1,
            size: 64,
            usable: 64,
            align_log2: 6,
            family: Family::Aligned,
            thread: 1,
            process: 1,
            ..at(20)
        },
        Event {
            op: Op::Realloc,
            size: 4104,
            usable: 4120,
            stack: 1,
            address: 0x2000,
            flags: Flags::MOVED,
            ..at(30)
        },
        Event { size: u64::MAX, flags: Flags::FAILED, ..at(40) },
        Event { op: Op::UsableSizeRead, ..at(50) },
        Event { op: Op::Mark, object: 1, ..at(55) },
        Event { op: Op::Free, flags: Flags::INHERITED, process: 1, thread: 1, ..at(60) },
        Event { op: Op::ArenaBirth, object: 1, arena: 1, family: Family::Arena, ..at(70) },
        Event { object: 2, size: 24, arena: 1, family: Family::Arena, ..at(80) },
        Event { op: Op::ArenaDeath, object: 1, arena: 1, family: Family::Arena, ..at(90) },
        Event {
            object: 3,
            size: 32,
            family: Family::Managed,
            origin: Origin::Marshalled,
            flags: Flags::DIRECT_TO_OLD,
            ..at(100)
        },
        Event { object: 4, size: 48, family: Family::Managed, origin: Origin::Custom, ..at(110) },
        Event { op: Op::Reference, object: 3, field: 2, target: 4, ..at(120) },
        Event { op: Op::Reference, object: 3, field: 2, target: u64::MAX, ..at(130) },
        Event { op: Op::CollectBegin, collection: 0, ..at(140) },
        Event { op: Op::Promote, object: 3, collection: 0, ..at(150) },
        Event { op: Op::CollectEnd, collection: 0, ..at(160) },
        Event { op: Op::CollectBegin, collection: 1, ..at(170) },
        Event { op: Op::Free, object: 4, collection: 1, ..at(180) },
        Event { op: Op::CollectEnd, collection: 1, ..at(190) },
    ]
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[test]
fn a_bundle_of_format_version_1_is_read() {
    let bundle = Bundle::open(&data("version-1.bundle")).unwrap();
    bundle.verify().unwrap();
    assert_eq!(all(&bundle, Selection::default()), sample());
    // Chunks, the kernel's peak and parts of resident memory came later, without a new version.
    let mut expected = Tables { chunks: Vec::new(), resident: Vec::new(), ..tables() };
    expected.samples.iter_mut().for_each(|sample| sample.resident_peak_bytes = 0);
    assert_eq!(bundle.tables(), &expected);
    assert_eq!(
        (bundle.meta().events, bundle.meta().objects, bundle.meta().duration_ns),
        (20, 5, 190)
    );
}

/// With `HEAPLAB_WRITE_SAMPLE` set, adds a bundle of the current version to tests/data, for a
/// change of the format; bundles of old versions stay unchanged.
#[test]
fn write_the_bundle_of_this_version() {
    if std::env::var_os("HEAPLAB_WRITE_SAMPLE").is_none() {
        return;
    }
    let path = data(&format!("version-{FORMAT_VERSION}.bundle"));
    let mut writer = BundleWriter::create(&path).unwrap();
    sample().iter().for_each(|event| writer.push(event).unwrap());
    let meta = Meta {
        program: "sample".into(),
        allocator: "none".into(),
        cut: Some("by hand".into()),
        ..Meta::default()
    };
    writer.finish(&tables(), meta).unwrap();
}
