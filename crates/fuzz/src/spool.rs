//! `events.spool`: any bytes, beside a good control page and the files of three processes, the
//! second a fork of the first and the third of the second. What can be read is merged, and every
//! order that comes out is a legal one.

use heaplab_preload::layout::{
    BEGAN_FORK, BEGAN_STARTED, Control, PROCESS_MAGIC, ProcessHeader, VERSION,
};
use heaplab_record::control::{CONTROL_FILE, ControlPage, Settings};
use heaplab_record::discover::process_path;
use heaplab_record::finish::merge_spool;
use heaplab_record::finish::streams::Files;
use heaplab_record::spool::EVENTS_FILE;
use heaplab_record::spool::reader::Index;
use heaplab_trace::{Event, Op};
use std::cell::OnceCell;
use std::mem::{offset_of, size_of};
use std::path::Path;

#[path = "../../record/tests/common/order.rs"]
mod order;

thread_local! {
    static FOLDER: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
}

/// One input.
pub fn run(data: &[u8]) {
    heaplab_trace::checksums::accept_wrong();
    let index = Index::read(data).expect("memory does not fail");
    assert!(index.sound_bytes <= data.len() as u64);
    if index.rings.is_empty() {
        return;
    }
    FOLDER.with(|cell| {
        let folder = cell.get_or_init(spool).path();
        std::fs::write(folder.join(EVENTS_FILE), data).expect("a writable folder");
        let files = Files::open(folder).expect("it was just written");
        let mut events: Vec<Event> = Vec::new();
        // Where there are records, they are merged: what is damaged costs what is behind it.
        let merged = merge_spool(&files, None, &mut events, &mut |_| {});
        let (tables, _, counts) =
            merged.unwrap_or_else(|error| panic!("a sink that takes everything, yet: {error}"));
        assert_eq!(counts.events, events.len() as u64);
        for event in &events {
            let process = &tables.threads[event.thread as usize].process;
            assert!(
                *process == event.process || event.op == Op::Mark,
                "{event:?} is a thread's of process {process}"
            );
            assert!((event.stack as usize) < tables.stacks.len(), "{event:?} has a stack");
        }
        order::check_order(&events);
    });
}

/// A spool without records, in memory-backed storage where there is any.
fn spool() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
        .expect("a writable folder");
    let settings = Settings { stack_depth: 16, ..Settings::default() };
    drop(ControlPage::create(folder.path(), settings).expect("a writable folder"));
    let page = folder.path().join(CONTROL_FILE);
    let mut control = std::fs::read(&page).expect("it was just written");
    // Three ticks a nanosecond, from 1 on.
    put(&mut control, offset_of!(Control, origin_counter), &1_u64.to_le_bytes());
    put(&mut control, offset_of!(Control, origin_ns), &1_u64.to_le_bytes());
    put(&mut control, offset_of!(Control, end_counter), &3_000_000_001_u64.to_le_bytes());
    put(&mut control, offset_of!(Control, end_ns), &1_000_000_001_u64.to_le_bytes());
    std::fs::write(&page, control).expect("a writable folder");
    for pid in 1..4_u32 {
        let mut bytes = vec![0; size_of::<ProcessHeader>()];
        put(&mut bytes, offset_of!(ProcessHeader, magic), &PROCESS_MAGIC.to_le_bytes());
        put(&mut bytes, offset_of!(ProcessHeader, version), &VERSION.to_le_bytes());
        put(&mut bytes, offset_of!(ProcessHeader, pid), &pid.to_le_bytes());
        put(
            &mut bytes,
            offset_of!(ProcessHeader, began),
            &(if pid == 1 { BEGAN_STARTED } else { BEGAN_FORK }).to_le_bytes(),
        );
        put(&mut bytes, offset_of!(ProcessHeader, parent_pid), &(pid - 1).to_le_bytes());
        put(
            &mut bytes,
            offset_of!(ProcessHeader, begin_counter),
            &u64::from(pid * 1000).to_le_bytes(),
        );
        std::fs::write(process_path(folder.path(), (pid, 0)), bytes).expect("a writable folder");
    }
    folder
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}
