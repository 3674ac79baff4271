//! Accounts for all of a process's memory: a program takes known amounts in every possible way
//! (`programs/whole_process.c`) and writes down its own `/proc/self/smaps`. The recording's parts
//! must add up to that, and each must match what the program did.

mod common;

use common::{compile, options, record};
use heaplab_trace::tables::{ResidentKind, ResidentPart, Tables};
use std::path::Path;

const K: u64 = 1024;

/// One mapping: start, end, name, resident and anonymous bytes, and whether the kernel leaves it
/// out of core dumps. Parsed anew here, because the recorder's parser is under test.
struct Mapping {
    start: u64,
    end: u64,
    name: String,
    resident: u64,
    anonymous: u64,
    is_undumped: bool,
}

fn smaps(path: &Path) -> Vec<Mapping> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut all: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let kilobytes = || words[1].parse::<u64>().unwrap() * K;
        match (words[0], all.last_mut()) {
            ("Rss:", Some(last)) => last.resident = kilobytes(),
            ("Anonymous:", Some(last)) => last.anonymous = kilobytes(),
            ("VmFlags:", Some(last)) => last.is_undumped = words.contains(&"dd"),
            (range, _) => {
                let Some((start, end)) = range.split_once('-') else { continue };
                let number = |text| u64::from_str_radix(text, 16).unwrap();
                let name = words.get(5..).unwrap_or_default().join(" ");
                let (start, end, resident, anonymous) = (number(start), number(end), 0, 0);
                let is_undumped = false;
                all.push(Mapping { start, end, name, resident, anonymous, is_undumped });
            }
        }
    }
    all
}

/// The last reading of a process.
fn last(tables: &Tables, process: u32) -> Vec<&ResidentPart> {
    let of = || tables.resident.iter().filter(|part| part.process == process);
    let at = of().map(|part| part.time_ns).max().expect("a reading");
    of().filter(|part| part.time_ns == at).collect()
}

fn sum(parts: &[&ResidentPart], kind: ResidentKind) -> u64 {
    parts.iter().filter(|part| part.kind == kind).map(|part| part.bytes).sum()
}

/// Whether the recorder's zeroed data has the flag by which the kernel keeps it apart.
fn has_flagged_zeroed_data(own: &[Mapping]) -> bool {
    let is_zeroed_data =
        |pair: &&[Mapping]| pair[0].name.contains("heaplab-preload-") && pair[1].name.is_empty();
    let found = own.windows(2).find(is_zeroed_data);
    found.is_some_and(|pair| pair[0].end == pair[1].start && pair[1].is_undumped)
}

#[test]
fn every_byte_of_a_process_is_in_one_part() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "whole_process", "cc", &[]) else { return };
    let recording = record(&options(folder.path(), &[&program, &folder.path()]));
    assert_eq!(recording.recorded.status.and_then(|status| status.code()), Some(0));
    let tables = &recording.tables;
    let own = smaps(&folder.path().join("smaps"));
    let mark = tables.marks.iter().find(|mark| mark.name == "still").expect("the mark");
    let parts = last(tables, 0);
    assert!(parts[0].time_ns > mark.time_ns, "a reading while the program held still");

    let resident: u64 = own.iter().map(|mapping| mapping.resident).sum();
    let total: u64 = parts.iter().map(|part| part.bytes).sum();
    assert_eq!(total, resident, "{parts:#?}");

    // By the call that mapped them: every call has a stack of its own.
    let mut mapped: Vec<u64> = parts
        .iter()
        .filter(|part| part.kind == ResidentKind::Mapped)
        .map(|part| {
            assert_ne!(part.stack, 0, "{part:?}");
            part.bytes / K
        })
        .collect();
    mapped.sort_unstable();
    let behind = std::fs::read_to_string(folder.path().join("behind")).unwrap();
    let behind = behind.parse::<u64>().unwrap() / K;
    let mut expected = vec![300, 700, 2048, 2560, 3072];
    // None where no mapping of the recorder's has room behind it.
    expected.extend((behind > 0).then_some(behind));
    expected.sort_unstable();
    assert_eq!(mapped, expected, "over, break, partly, moved, holed, and {behind} KiB behind");
    assert!(has_flagged_zeroed_data(&own));

    let of = |wanted: &str| own.iter().filter(|mapping| mapping.name == wanted).collect::<Vec<_>>();
    let file = folder.path().join("mapped file");
    let file = file.to_str().unwrap();
    let [file_mapping] = of(file)[..] else { panic!("one mapping of {file}") };
    let part = |kind, name: &str| {
        parts
            .iter()
            .find(|part| (part.kind, part.name.as_str()) == (kind, name))
            .map_or(0, |part| part.bytes)
    };
    assert_eq!(part(ResidentKind::Data, file), 256 * K);
    assert_eq!(part(ResidentKind::Data, file), file_mapping.anonymous);
    assert_eq!(part(ResidentKind::File, file), file_mapping.resident - file_mapping.anonymous);

    let address = std::fs::read_to_string(folder.path().join("thread")).unwrap();
    let address = u64::from_str_radix(&address, 16).unwrap();
    let is_stack = |mapping: &&Mapping| {
        mapping.name == "[stack]" || (mapping.start..mapping.end).contains(&address)
    };
    let stacks: u64 = own.iter().filter(is_stack).map(|mapping| mapping.resident).sum();
    assert_eq!(sum(&parts, ResidentKind::Stack), stacks);
    assert!(stacks >= 2048 * K, "{stacks}");

    // 5 MiB and 500 blocks are written; of 3 MiB only the page with malloc's header is there.
    let blocks = sum(&parts, ResidentKind::Blocks);
    let written = 5120 * K + 500 * 1000;
    assert!((written..written + 64 * K).contains(&blocks), "{blocks} {written}");
    // malloc's rest: 500 freed blocks, headers, the unused end of its first heap.
    let rest = sum(&parts, ResidentKind::Allocator);
    assert!((500 * 1000..900 * K).contains(&rest), "{rest}");

    let spool = folder.path().join("test.heaplab.spool");
    let recorders = own.iter().filter(|mapping| {
        mapping.name.starts_with(spool.to_str().unwrap())
            || mapping.name.contains("heaplab-preload-")
    });
    let recorders: u64 = recorders.map(|mapping| mapping.resident).sum();
    assert!(sum(&parts, ResidentKind::Recorder) > recorders, "its private memory comes on top");
    assert!(sum(&parts, ResidentKind::Unknown) <= 64 * K, "{parts:#?}");

    // The forked child has its parent's mappings, with their stacks.
    let child = last(tables, 1);
    let own: u64 = smaps(&folder.path().join("child")).iter().map(|mapping| mapping.resident).sum();
    assert_eq!(child.iter().map(|part| part.bytes).sum::<u64>(), own, "{child:#?}");
    let mut of_child: Vec<u64> = child
        .iter()
        .filter(|part| part.kind == ResidentKind::Mapped)
        .map(|part| part.bytes / K)
        .collect();
    of_child.sort_unstable();
    assert_eq!(of_child, mapped);
}
