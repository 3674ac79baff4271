//! Damaged and hostile bundles: an error that names file and place; never a panic, a hang or
//! unbounded memory.

use super::columns::{COLUMNS, FAMILIES, OPS};
use super::tests::{all, sample, tables, written};
use super::*;
use crate::Op;
use crate::parquet::encode;
use crate::parquet::footer::MAGIC;
use crate::parquet::thrift::{Writer, varint};
use crate::tables::Thread;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn read(path: &Path) -> Result<u64, TraceError> {
    let bundle = Bundle::open(path)?;
    bundle.verify()?;
    Ok(bundle.meta().events)
}

fn files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn any_byte_of_any_file_may_be_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = written(folder.path(), &sample());
    for file in files(bundle.path()) {
        let good = fs::read(&file).unwrap();
        // Every 17th, to keep the test quick; the fuzz target takes the rest.
        for at in (0..good.len()).step_by(17) {
            let mut bad = good.clone();
            bad[at] ^= if at % 2 == 0 { 0xff } else { 0x01 };
            fs::write(&file, &bad).unwrap();
            // Some bytes do not matter (the writer's name): reading may succeed, but must not
            // panic.
            let outcome = catch_unwind(AssertUnwindSafe(|| read(bundle.path())));
            assert!(outcome.is_ok(), "byte {at} of {}", file.display());
        }
        fs::write(&file, &good).unwrap();
    }
    assert_eq!(read(bundle.path()).unwrap(), sample().len() as u64);
}

#[test]
fn bytes_that_are_no_text_are_escaped_once() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = written(folder.path(), &sample());
    let file = bundle.path().join(EVENTS_FILE);
    let mut bytes = fs::read(&file).unwrap();
    let end = bytes.len() - MAGIC.len();
    bytes[end..].copy_from_slice(b"\xff\"\x00P");
    fs::write(&file, &bytes).unwrap();
    let error = read(bundle.path()).unwrap_err().to_string();
    assert!(error.ends_with(r#"found "\xff\"\x00P""#), "{error}");
}

#[test]
fn a_file_cut_anywhere_or_missing_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = written(folder.path(), &sample());
    for file in files(bundle.path()) {
        let good = fs::read(&file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        // The last byte of meta.json is a line end.
        for length in (0..good.len() - 1).step_by(7) {
            fs::write(&file, &good[..length]).unwrap();
            let error = read(bundle.path()).unwrap_err().to_string();
            assert!(error.contains(&name), "{error}");
        }
        fs::remove_file(&file).unwrap();
        let error = read(bundle.path()).unwrap_err().to_string();
        assert!(error.contains(&name) && error.contains("cannot open"), "{error}");
        fs::write(&file, &good).unwrap();
    }
}

/// The error for each change to a good bundle.
#[test]
fn what_contradicts_itself_is_said() {
    let mut said = Vec::new();
    let mut refused = |events: Vec<Event>, tables: &Tables, change: &dyn Fn(&Path)| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.heaplab");
        let mut writer = BundleWriter::create(&path).unwrap();
        events.iter().for_each(|event| writer.push(event).unwrap());
        writer.finish(tables, Meta::default()).unwrap();
        change(&path);
        let error = read(&path).unwrap_err().to_string();
        said.push(error.replace(&folder.path().display().to_string(), ""));
    };
    let nothing = |_: &Path| ();
    let meta = |from: &'static str, to: &'static str| {
        move |path: &Path| {
            let file = path.join("meta.json");
            let text = fs::read_to_string(&file).unwrap();
            assert!(text.contains(from), "{text}");
            fs::write(&file, text.replacen(from, to, 1)).unwrap();
        }
    };
    let alloc = Event { size: 1, ..Event::default() };
    let free = Event { op: Op::Free, ..Event::default() };
    refused(vec![alloc, free, free], &tables(), &nothing);
    refused(vec![alloc, Event { op: Op::Free, object: 7, ..free }], &tables(), &nothing);
    refused(vec![Event { object: 1, ..alloc }, alloc], &tables(), &nothing);
    refused(vec![Event { stack: 3, ..alloc }], &tables(), &nothing);
    refused(vec![Event { process: 2, ..alloc }], &tables(), &nothing);
    refused(vec![Event { op: Op::Mark, object: 2, ..Event::default() }], &tables(), &nothing);
    refused(vec![free], &tables(), &nothing);
    refused(vec![Event { size: u64::MAX, ..alloc }], &tables(), &nothing);
    refused(
        vec![alloc, Event { op: Op::Realloc, usable: (1 << 48) + 1, ..alloc }],
        &tables(),
        &nothing,
    );
    refused(vec![alloc], &tables(), &meta("\"format_version\": 1", "\"format_version\": 2"));
    refused(vec![alloc], &tables(), &meta("\"format_version\": 1", "\"format_version\": \"one\""));
    refused(vec![alloc], &tables(), &meta("\"events\": 1", "\"events\": 2"));
    refused(vec![alloc], &tables(), &meta("\"objects\": 1", "\"objects\": 1000000"));
    let mut cycle = tables();
    cycle.stacks[1].parent = 2;
    refused(vec![alloc], &cycle, &nothing);
    let mut beyond = tables();
    beyond.stacks[2].frame = 99;
    refused(vec![alloc], &beyond, &nothing);
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn events_without_objects_or_sizes_are_not_taken_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = written(folder.path(), &sample());
    let file = bundle.path().join(EVENTS_FILE);
    let good = fs::read(&file).unwrap();
    let without = |name: &str| {
        // The name in the footer's schema, after its length.
        let named = [&[name.len() as u8], name.as_bytes()].concat();
        let mut bad = good.clone();
        for at in (0..bad.len() - named.len()).filter(|at| good[*at..].starts_with(&named)) {
            bad[at + 1] = b'_';
        }
        fs::write(&file, bad).unwrap();
        read(bundle.path())
    };
    for name in ["object", "size"] {
        let error = without(name).unwrap_err().to_string();
        assert!(
            error.ends_with(&format!(
                "events.parquet: its schema: expected a column {name}, found none of that name"
            )),
            "{error}"
        );
    }
    // A column that is unknown in all rows may be missing.
    assert_eq!(without("address").unwrap(), sample().len() as u64);
}

/// Two blocks of 1 byte, one of them freed, with a null for the second's object or size. The null
/// must not read as object 0 or no bytes, even if another row has a value that it does not need.
#[test]
fn a_null_where_a_value_is_needed_is_said() {
    use crate::parquet::encode::Present;
    use crate::parquet::schema::Kind;
    use crate::parquet::write::FileWriter;
    const ROWS: usize = 3;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.heaplab");
    let mut writer = BundleWriter::create(&path).unwrap();
    let block =
        |op, object| Event { op, object, size: u64::from(op == Op::Alloc), ..Event::default() };
    for event in [block(Op::Alloc, 0), block(Op::Alloc, 1), block(Op::Free, 0)] {
        writer.push(&event).unwrap();
    }
    writer.finish(&tables(), Meta::default()).unwrap();
    let read_with = |sizes: Present, objects: Present| {
        let mut file = FileWriter::new(Vec::new(), &COLUMNS).unwrap();
        let count = |present: &Present| match present {
            Present::All => ROWS,
            Present::None => 0,
            Present::Bits(bits) => bits[0].count_ones() as usize,
        };
        file.page(ROWS, |index, column, squeeze| {
            match (COLUMNS[index].name, COLUMNS[index].kind) {
                ("op", _) => column.named(&OPS, [0, 0, 1].into_iter(), Present::All, ROWS, squeeze),
                ("family", _) => {
                    column.named(&FAMILIES, [0; ROWS].into_iter(), Present::All, ROWS, squeeze)
                }
                ("size", _) => column.integers(&[1; ROWS][..count(&sizes)], sizes, ROWS, squeeze),
                ("object", _) if objects == Present::All => {
                    column.integers(&[0, 1, 0], objects, ROWS, squeeze)
                }
                ("object", _) => {
                    column.integers(&[0; ROWS][..count(&objects)], objects, ROWS, squeeze)
                }
                (_, Kind::Bool) => column.same_boolean(false, ROWS, squeeze),
                _ if COLUMNS[index].optional => column.nulls(ROWS, squeeze),
                _ => column.constant(0, ROWS, squeeze),
            }
        })
        .unwrap();
        fs::write(path.join(EVENTS_FILE), file.finish(&[]).unwrap().0).unwrap();
        read(&path).map_err(|error| error.to_string())
    };
    assert_eq!(read_with(Present::Bits(&[0b011]), Present::All), Ok(ROWS as u64));
    let fails = |sizes, objects, said: &str| {
        let error = read_with(sizes, objects).unwrap_err();
        assert!(error.ends_with(&format!("events.parquet: {said}, found null")), "{error}");
    };
    fails(
        Present::None,
        Present::All,
        "row 0, column size: expected a value, which this alloc needs",
    );
    fails(
        Present::Bits(&[0b101]),
        Present::All,
        "row 1, column size: expected a value, which this alloc needs",
    );
    fails(
        Present::Bits(&[0b011]),
        Present::None,
        "row 0, column object: expected a value, which this alloc needs",
    );
    fails(
        Present::Bits(&[0b011]),
        Present::Bits(&[0b011]),
        "row 2, column object: expected a value, which this free needs",
    );
}

#[test]
fn nobody_waits_for_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = written(folder.path(), &sample());
    for file in files(bundle.path()) {
        let good = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &file,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        let error = read(bundle.path()).unwrap_err().to_string();
        let name = file.file_name().unwrap().to_string_lossy();
        assert!(
            error.contains(&format!("{name}: its kind: expected a regular file, found")),
            "{error}"
        );
        fs::remove_file(&file).unwrap();
        fs::write(&file, good).unwrap();
    }
}

/// A Parquet file of one page, with the given figures in its headers.
fn bomb(plain_bytes: i32, values: i32, content: &[u8]) -> Vec<u8> {
    let packed = zstd::bulk::compress(content, 1).unwrap();
    let mut file = MAGIC.to_vec();
    let mut header = Writer::new(&mut file);
    header.i32(1, 0);
    header.i32(2, plain_bytes);
    header.i32(3, packed.len() as i32);
    header.structure(5, |data| {
        data.i32(1, values);
        data.i32(2, 5);
        data.i32(3, 3);
        data.i32(4, 3);
    });
    header.end();
    file.extend_from_slice(&packed);
    let bytes = file.len() as i64 - 4;
    let at = file.len();
    let mut footer = Writer::new(&mut file);
    footer.i32(1, 2);
    footer.structures(2, &["root", "time_ns"], |element, name| {
        if *name != "root" {
            element.i32(1, 2);
            element.i32(3, 0);
        }
        element.bytes(4, name.as_bytes());
    });
    footer.i64(3, i64::from(values));
    footer.structures(4, &[()], |group, ()| {
        group.structures(1, &[()], |chunk, ()| {
            chunk.structure(3, |meta| {
                meta.i32(4, 6);
                meta.i64(5, i64::from(values));
                meta.i64(7, bytes);
                meta.i64(9, 4);
            });
        });
        group.i64(3, i64::from(values));
    });
    footer.end();
    let length = (file.len() - at) as u32;
    file.extend_from_slice(&length.to_le_bytes());
    file.extend_from_slice(MAGIC);
    file
}

#[test]
fn bombs_are_refused_before_memory_is_taken() {
    use crate::parquet::read::FileReader;
    use crate::parquet::schema::{Column, Encoding, Kind};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.parquet");
    let column = Column::required("time_ns", Kind::I64, Encoding::Delta);
    let error = |file: Vec<u8>| {
        fs::write(&path, file).unwrap();
        let attempt = || {
            let file = FileReader::open(&path)?;
            let mut reader = file.column(&column)?.unwrap();
            reader.open_group(&file, 0)?;
            reader.rows_ready(&file)
        };
        attempt().unwrap_err().to_string().replace(&folder.path().display().to_string(), "")
    };
    let mut many = Vec::new();
    [128, 4, 1 << 40, 0].iter().for_each(|number| varint(&mut many, *number));
    let mut honest = Vec::new();
    encode::delta(&[1, 2, 3], &mut honest);
    let said = [
        error(bomb(i32::MAX, 3, &honest)),
        error(bomb(1 << 20, 3, &honest)),
        error(bomb(honest.len() as i32, 1_000_000, &honest)),
        error(bomb(honest.len() as i32, i32::MAX, &honest)),
        error(bomb(many.len() as i32, 3, &many)),
        error(bomb(8, 3, &vec![0; 50 << 20])),
    ];
    insta::assert_snapshot!(said.join("\n"));
}

/// A header claims a million threads, or two billion, and nothing follows.
#[test]
fn a_million_threads_in_a_header_are_refused_before_memory_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), &sample()).path().to_owned();
    for claimed in [1_000_000, i32::MAX] {
        fs::write(path.join("threads.parquet"), bomb(8, claimed, b"")).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(
            error.contains("threads.parquet")
                && error.contains("rows")
                && error.contains(&claimed.to_string()),
            "{error}"
        );
    }
}

/// A million real threads are read, however few bytes they take.
#[test]
fn a_million_equal_threads_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.heaplab");
    let mut writer = BundleWriter::create(&path).unwrap();
    writer.push(&Event { size: 1, ..Event::default() }).unwrap();
    let threads = vec![Thread::default(); 1_000_000];
    writer.finish(&Tables { threads, ..tables() }, Meta::default()).unwrap();
    assert_eq!(Bundle::open(&path).unwrap().tables().threads.len(), 1_000_000);
}

#[test]
fn a_selection_of_a_process_that_is_not_there_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = written(folder.path(), &sample());
    assert!(all(&bundle, Selection { process: Some(77) }).is_empty());
    assert_eq!(bundle.tables(), &tables());
}
