//! The places of Node's own objects in old space when a workload begins.
//!
//! A compaction moves these objects together with the workload's, so their sizes decide where the
//! workload's objects come to lie. V8 reports only the sum of the sizes; its memory has the rest. A
//! separate run ends its start with a collection that moves nothing: then each live object is
//! marked in its page's bitmap, and fillers lie behind objects. The run stops there, and heaplab
//! reads its pages from outside (`/proc/PID/mem`).
//!
//! Source: `MemoryChunk`, `Marking` and `HeapObject` in V8's spaces.h, marking.h and objects.h at
//! the four versions.

use crate::process::Watch;
use crate::results::{self, Head, OLD_SPACE};
use crate::spec::{STRATEGIES, Spec};
use crate::workload::Table;
use crate::{NodeError, find, known, run};
use std::collections::HashMap;
use std::fs::File;
use std::io::{PipeWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// A page of old space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPage {
    /// Offset in the page's area and bytes of each object, upwards.
    pub objects: Vec<(u32, u32)>,
    /// Bytes of all objects.
    pub live_bytes: u32,
    /// Bytes of the area; shorter than usual where Node's snapshot ends.
    pub area_bytes: u32,
    /// Whether the page comes from Node's snapshot: no compaction empties such a page.
    pub stays: bool,
    /// It has a remembered set.
    pub remembered: bool,
}

impl Own {
    /// Writes a TOML file for `base=` of the family `v8`: a table a page. Its objects are pairs:
    /// bytes (negative: free), and the number of pieces of this size in a row.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for page in &self.pages {
            let mut pieces: Vec<(i64, u32)> = Vec::new();
            let mut put = |bytes: i64| match pieces.last_mut() {
                Some((last, count)) if *last == bytes => *count += 1,
                _ => pieces.push((bytes, 1)),
            };
            let mut end = 0;
            for &(offset, bytes) in &page.objects {
                if offset > end {
                    put(i64::from(end) - i64::from(offset));
                }
                put(i64::from(bytes));
                end = offset + bytes;
            }
            let pieces = pieces.iter().map(|(bytes, count)| format!("[{bytes},{count}]"));
            text += &format!(
                "[[page]]\narea_bytes = {}\nstays = {}\nremembered = {}\nobjects = [{}]\n",
                page.area_bytes,
                page.stays,
                page.remembered,
                pieces.collect::<Vec<_>>().join(",")
            );
        }
        text
    }
}

/// The first line of a file of `own=`: everything that the objects depend on.
fn heading(spec: &Spec, table: Table) -> String {
    let Table { slots, hidden_classes } = table;
    let classes = if hidden_classes { ", hidden classes" } else { "" };
    format!(
        "# Node's own objects when a workload begins: Node {}, strategy={}, compact={}, \
         semi_space={}m, limit={}m, gc={}, {slots} slots{classes}",
        spec.version,
        STRATEGIES[usize::from(spec.strategy)],
        spec.compact.name(),
        spec.semi_space_mb,
        spec.limit_mb,
        spec.gc.name(),
    )
}

/// Checks that the file of `own=` does not exist, or is one of this Node for a workload with one of
/// these tables: another file is not replaced.
pub(crate) fn check_free(spec: &Spec, tables: &[Table]) -> Result<(), NodeError> {
    let Some(path) = &spec.own else { return Ok(()) };
    let failed = |source| NodeError::Start { path: path.clone(), action: "read", source };
    let mut first = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(HEADING_BYTES_MAX).read_to_end(&mut first).map_err(failed)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let first = String::from_utf8_lossy(&first);
    let found = first.lines().next().unwrap_or_default();
    let mut expected: Vec<String> = tables.iter().map(|table| heading(spec, *table)).collect();
    if expected.iter().any(|expected| expected == found) {
        return Ok(());
    }
    let expected = expected.swap_remove(0);
    let found = if found.starts_with('#') { found } else { "no file of own=" }.into();
    Err(NodeError::Taken { path: path.clone(), expected, found })
}

/// Writes Node's own objects to the file of `own=`, which appears whole or not at all.
pub(crate) fn write(spec: &Spec, table: Table) -> Result<(), NodeError> {
    let Some(path) = &spec.own else { return Ok(()) };
    check_free(spec, &[table])?;
    let pages = objects(spec, table)?.to_toml();
    let text = format!("{}\nnode = {:?}\n{pages}", heading(spec, table), spec.version);
    let failed = |source| NodeError::Start { path: path.clone(), action: "write", source };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file =
        tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.persist(path).map(|_| ()).map_err(|error| failed(error.error))
}

/// The layout of a page in a version of V8: positions in words from the page's start.
struct Layout {
    node: &'static str,
    area: usize,
    /// The page's own address; its size, the high-water mark's place and its space follow.
    own_address: usize,
    owner: usize,
    live_bytes: usize,
    next: usize,
    /// Instance types of non-objects: fillers of one and two words here, longer ones next.
    filler: u16,
    free_space: u16,
}

const SIZE: usize = 0;
const FLAGS: usize = 1;
const BITMAP: usize = 2;
/// `MemoryChunk::IS_EXECUTABLE`.
const IS_EXECUTABLE: u64 = 1;
/// `MemoryChunk::NEVER_EVACUATE`.
const NEVER_EVACUATE: u64 = 1 << 7;
/// Words that are read of a page's header.
const HEADER_WORDS: usize = 34;
const WORD: usize = known::WORD_BYTES as usize;
/// `Map::kInstanceSizeInWordsOffset` and `kInstanceTypeOffset`.
const MAP_WORDS: usize = 8;
const MAP_TYPE: usize = 12;
/// Longest start.
const START: Duration = Duration::from_secs(120);
/// Most bytes that are read of an existing file's first line.
const HEADING_BYTES_MAX: u64 = 1000;
/// Most pages of old space at the start.
const PAGES_MAX: usize = 1000;

const LAYOUTS: [Layout; 4] = [
    Layout {
        node: "12.22.1",
        area: 5,
        own_address: 8,
        owner: 10,
        live_bytes: 12,
        next: 28,
        filler: 76,
        free_space: 73,
    },
    Layout {
        node: "13.14.0",
        area: 5,
        own_address: 10,
        owner: 12,
        live_bytes: 14,
        next: 29,
        filler: 160,
        free_space: 161,
    },
    Layout {
        node: "14.0.0",
        area: 4,
        own_address: 9,
        owner: 11,
        live_bytes: 13,
        next: 28,
        filler: 162,
        free_space: 163,
    },
    Layout {
        node: "14.21.3",
        area: 4,
        own_address: 9,
        owner: 11,
        live_bytes: 13,
        next: 28,
        filler: 165,
        free_space: 166,
    },
];

/// Node's own objects when a workload begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Their pages in old space, in list order.
    pub pages: Vec<OwnPage>,
    /// Bytes on pages of code in blocks too small for any list, by the last sweep of each page.
    pub code_waste_bytes: u64,
}

/// Node's own objects when a workload with such a table begins.
///
/// # Errors
/// See [`NodeError`]; also a version other than the four, or an unexpected memory content.
pub fn objects(spec: &Spec, table: Table) -> Result<Own, NodeError> {
    let node = find::node(spec)?;
    let layout = LAYOUTS.iter().find(|layout| layout.node == spec.version);
    let layout = layout.ok_or_else(|| {
        unread(
            "a version whose pages are known, 12.22.1, 13.14.0, 14.0.0 or 14.21.3",
            &spec.version,
        )
    })?;
    let failed =
        |source| NodeError::Start { path: node.clone(), action: "make a pipe for", source };
    let (input, hold) = std::io::pipe().map_err(failed)?;
    let mut hold = Some(hold);
    let mut found = None;
    let mut watch = |pid, results: &[u8]| read_once(layout, pid, results, &mut hold, &mut found);
    let limits = run::limits(START, 2, 2);
    let watch: Watch<'_> = &mut watch;
    let command = run::command(spec, &node, table, run::Purpose::Look);
    let ended = crate::process::run(command, &node, Stdio::from(input), &limits, watch)?;
    match found {
        Some(found) => found,
        None => {
            run::refuse(spec, &node, 0, &ended, &limits)?;
            Err(unread("two records before it ends", &format!("{} bytes", ended.results.len())))
        }
    }
}

fn unread(expected: &str, found: &str) -> NodeError {
    NodeError::Output { place: "its pages".into(), expected: expected.into(), found: found.into() }
}

/// Reads the pages once both records of the start have arrived, and then lets Node go on.
fn read_once(
    layout: &Layout,
    pid: libc::pid_t,
    results: &[u8],
    hold: &mut Option<PipeWriter>,
    found: &mut Option<Result<Own, NodeError>>,
) {
    if hold.is_none() || results::count(results) < 2 {
        return;
    }
    *found = Some(
        results::parse(results, 2, 2)
            .map_err(|(expected, said)| unread(&expected, &said))
            .and_then(|(head, records)| {
                read(layout, pid, old_space_bytes(&head, &records[1].after))
            }),
    );
    *hold = None;
}

fn old_space_bytes(head: &Head, spaces: &[heaplab_heap::SpaceState]) -> u64 {
    let mut all = head.spaces.iter().zip(spaces);
    all.find(|(name, _)| *name == OLD_SPACE).map_or(0, |(_, state)| state.committed_bytes)
}

/// The memory of a process.
struct Memory {
    file: File,
    /// Instance type and size in words of the maps read so far.
    maps: HashMap<u64, Option<(u16, u8)>>,
}

impl Memory {
    fn bytes(&self, address: u64, bytes: usize) -> Option<Vec<u8>> {
        let mut read = vec![0; bytes];
        self.file.read_exact_at(&mut read, address).ok()?;
        Some(read)
    }

    fn words(&self, address: u64, words: usize) -> Option<Vec<u64>> {
        let bytes = self.bytes(address, words * WORD)?;
        let word =
            |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        Some(bytes.chunks_exact(WORD).map(word).collect())
    }

    /// Instance type and size in words, if the word is an object's map.
    fn map(&mut self, word: u64) -> Option<(u16, u8)> {
        if word & 3 != 1 {
            return None;
        }
        if let Some(known) = self.maps.get(&word) {
            return *known;
        }
        let read = self.bytes(word - 1, MAP_TYPE + 2);
        let map = read
            .map(|map| (u16::from_le_bytes([map[MAP_TYPE], map[MAP_TYPE + 1]]), map[MAP_WORDS]));
        self.maps.insert(word, map);
        map
    }
}

/// A chunk of V8's memory: its address and its header.
type Chunk = (u64, Vec<u64>);

fn read(layout: &Layout, pid: libc::pid_t, committed_bytes: u64) -> Result<Own, NodeError> {
    let failed = |action| {
        move |source| NodeError::Start { path: format!("/proc/{pid}").into(), action, source }
    };
    let file = File::open(format!("/proc/{pid}/mem")).map_err(failed("read the memory of"))?;
    let mut memory = Memory { file, maps: HashMap::new() };
    let ranges =
        std::fs::read_to_string(format!("/proc/{pid}/maps")).map_err(failed("read the maps of"))?;
    let chunks = chunks(layout, &memory, &ranges);
    let mut owners: Vec<u64> = chunks.values().map(|header| header[layout.owner]).collect();
    owners.sort_unstable();
    owners.dedup();
    let old = owners
        .into_iter()
        .map(|owner| in_order(layout, &chunks, owner))
        .find(|pages| pages.iter().map(|(_, header)| header[SIZE]).sum::<u64>() == committed_bytes);
    let old = old.ok_or_else(|| {
        unread("a space of the size of old space", &format!("{} chunks", chunks.len()))
    })?;
    let code = chunks.values().filter(|header| header[FLAGS] & IS_EXECUTABLE != 0);
    Ok(Own {
        // A page's count of waste lies before its link to the next page.
        code_waste_bytes: code.map(|header| header[layout.next - 1]).sum(),
        pages: old
            .iter()
            .map(|page| own_page(layout, &mut memory, page))
            .collect::<Result<_, _>>()?,
    })
}

/// All chunks.
fn chunks(layout: &Layout, memory: &Memory, ranges: &str) -> HashMap<u64, Vec<u64>> {
    let mut chunks = HashMap::new();
    for line in ranges.lines() {
        let range = line.split_once(' ').filter(|(_, rest)| rest.starts_with('r'));
        let ends = range.and_then(|(range, _)| range.split_once('-'));
        let number = |text| u64::from_str_radix(text, 16).ok();
        let Some((start, end)) = ends.and_then(|(start, end)| Some((number(start)?, number(end)?)))
        else {
            continue;
        };
        let mut at = start.next_multiple_of(known::PAGE_BYTES);
        while at < end {
            let header = memory.words(at, HEADER_WORDS).filter(|header| {
                header[layout.own_address] == at && header[SIZE] == header[layout.own_address + 1]
            });
            if let Some(header) = header {
                chunks.insert(at, header);
            }
            at += known::PAGE_BYTES;
        }
    }
    chunks
}

/// The chunks of a space in their linked order.
fn in_order(layout: &Layout, chunks: &HashMap<u64, Vec<u64>>, owner: u64) -> Vec<Chunk> {
    let first = chunks
        .iter()
        .find(|(_, header)| header[layout.owner] == owner && header[layout.next + 1] == 0);
    let mut next = first.map_or(0, |(address, _)| *address);
    let mut ordered = Vec::new();
    while let Some(header) = chunks.get(&next).filter(|_| ordered.len() < PAGES_MAX) {
        ordered.push((next, header.clone()));
        next = header[layout.next];
    }
    ordered
}

fn own_page(
    layout: &Layout,
    memory: &mut Memory,
    (address, header): &Chunk,
) -> Result<OwnPage, NodeError> {
    let gone = || unread("memory that stays", &format!("none at {address:#x}"));
    let size = header[SIZE].min(known::PAGE_BYTES) as usize;
    let words = memory.words(*address, size / WORD).ok_or_else(gone)?;
    let bitmap =
        memory.words(header[BITMAP], known::PAGE_BYTES as usize / WORD / 64).ok_or_else(gone)?;
    let area = header[layout.area].checked_sub(*address).ok_or_else(gone)? as usize / WORD;
    if area > words.len() {
        return Err(gone());
    }
    let marked = |at: usize| bitmap[at / 64] >> (at % 64) & 1 == 1;
    let mut starts = Vec::new();
    let mut at = area;
    // A live object has two bits, at its first two words.
    while at + 1 < words.len() {
        if marked(at) {
            starts.push(at);
            at += 1;
        }
        at += 1;
    }
    let ends = starts.iter().skip(1).copied().chain([words.len()]);
    let mut objects = Vec::with_capacity(starts.len());
    for (&start, next) in starts.iter().zip(ends) {
        let end = end_of(layout, memory, &words, start, next);
        objects.push((((start - area) * WORD) as u32, ((end - start) * WORD) as u32));
    }
    let live_bytes: u32 = objects.iter().map(|(_, bytes)| bytes).sum();
    if u64::from(live_bytes) != header[layout.live_bytes] {
        return Err(unread(
            &format!("{} live bytes at {address:#x}", header[layout.live_bytes]),
            &format!("objects of {live_bytes}"),
        ));
    }
    Ok(OwnPage {
        objects,
        live_bytes,
        area_bytes: ((words.len() - area) * WORD) as u32,
        stays: header[FLAGS] & NEVER_EVACUATE != 0,
        remembered: header[layout.live_bytes + 1] != 0,
    })
}

/// The end of the object at a word. Its map gives the size. If objects of the map have many sizes,
/// the object ends before the fillers that lead to the next one; its spare fields hold fillers too.
fn end_of(layout: &Layout, memory: &mut Memory, words: &[u64], start: usize, next: usize) -> usize {
    if let Some((_, size @ 1..)) = memory.map(words[start]) {
        return next.min(start + usize::from(size));
    }
    let mut leads = |mut at: usize| {
        while at < next {
            at += match memory.map(words[at]) {
                Some((kind, words)) if kind == layout.filler && words > 0 => usize::from(words),
                Some((kind, _)) if kind == layout.free_space => {
                    // The size is a small integer, in the upper half of a word.
                    let bytes = words.get(at + 1).map_or(0, |word| word >> 32) as usize;
                    (bytes / WORD).max(1)
                }
                _ => return false,
            };
        }
        at == next
    };
    (start + 2..next).find(|&at| leads(at)).unwrap_or(next)
}
