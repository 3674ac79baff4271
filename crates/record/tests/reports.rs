//! What memory reporters name is in the recording where it was asked for, and nowhere else.

mod common;

use common::{compile, options, record};
use heaplab_trace::{Event, Flags, Op};

#[test]
fn each_report_is_a_row_with_its_block_and_its_stack() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "reports", "cc", &[]) else { return };
    let options = session_options(folder.path(), &program, true);
    let recording = record(&options);
    assert!(recording.recorded.status.unwrap().success(), "the usable size is the allocator's");
    let born = |size: u64| {
        let ours = |event: &&Event| event.op == Op::Alloc && event.size == size;
        recording.events.iter().find(ours).unwrap()
    };
    let reports: Vec<&Event> =
        recording.events.iter().filter(|event| event.op == Op::Report).collect();
    let named: Vec<(u64, bool)> =
        reports.iter().map(|report| (report.object, report.has(Flags::FAILED))).collect();
    let object = |size: u64| (born(size).object, false);
    assert_eq!(named, [object(100), object(200), object(200), object(300), (0, true)]);
    assert_eq!(reports[3].address, born(300).address + 123);
    assert_eq!(reports[4].address, born(500).address, "one that was freed");
    let functions = |stack: u32| {
        let tables = &recording.tables;
        let frames = tables.frames_of(stack).map(|frame| tables.frame_label(frame));
        frames.collect::<Vec<String>>()
    };
    assert!(reports.iter().all(|report| !functions(report.stack).is_empty()));
    assert_ne!(reports[1].stack, reports[2].stack, "two calls");
    let marks: Vec<&str> = recording.tables.marks.iter().map(|mark| mark.name.as_str()).collect();
    assert_eq!(marks, ["heaplab: reporters asked", "heaplab: reporters answered"]);
    let reads = recording.events.iter().filter(|event| event.op == Op::UsableSizeRead).count();
    assert_eq!(reads, 0, "a reporter that measures does not use the slop");

    let options = session_options(folder.path(), &program, false);
    let plain = record(&options);
    assert!(plain.recorded.status.unwrap().success());
    assert!(plain.events.iter().all(|event| event.op != Op::Report));
    assert!(plain.tables.marks.is_empty());
}

fn session_options(
    folder: &std::path::Path,
    program: &std::path::Path,
    reports: bool,
) -> heaplab_record::session::RecordOptions {
    let spool = folder.join(format!("{reports}.spool"));
    heaplab_record::session::RecordOptions { reports, spool, ..options(folder, &[&program]) }
}
