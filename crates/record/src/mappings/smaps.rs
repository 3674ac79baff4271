//! Parses `/proc/PID/smaps` into rows: resident bytes of files, by kind, and anonymous mappings.
//!
//! A line that cannot be read is left out; sizes are in kB.

use super::{AnonymousRow, FilePart, Reading, facts};
use crate::preload;
use heaplab_trace::tables::ResidentKind;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;

/// Alignment and size of a heap of glibc's malloc beside the main one (`HEAP_MAX_SIZE`).
const GLIBC_HEAP_BYTES: u64 = 64 << 20;

/// One mapping of `smaps`.
#[derive(Clone, Debug, Default)]
struct Mapping<'a> {
    start: u64,
    end: u64,
    permissions: &'a str,
    name: &'a str,
    resident: u64,
    anonymous: u64,
    huge: u64,
    flags: &'a str,
}

impl<'a> Mapping<'a> {
    /// Parses a mapping's first line: "start-end rwxp offset major:minor inode   name".
    fn parse(line: &'a str) -> Option<Mapping<'a>> {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let (start, end) =
            (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        let permissions = rest.get(..4)?;
        // Three more fields; the name may hold spaces.
        let mut rest = rest[4..].trim_start_matches(' ');
        for _ in 0..3 {
            rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
        }
        let name = rest.trim_start_matches(' ');
        (start < end).then_some(Mapping { start, end, permissions, name, ..Mapping::default() })
    }

    fn field(&mut self, line: &'a str) {
        let bytes = |value: &str| {
            let kilobytes = value.trim().strip_suffix(" kB").and_then(|value| value.parse().ok());
            kilobytes.unwrap_or(0_u64).saturating_mul(1024)
        };
        match line.split_once(':') {
            Some(("Rss", value)) => self.resident = bytes(value),
            Some(("Anonymous", value)) => self.anonymous = bytes(value),
            Some(("AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped", value)) => {
                self.huge = self.huge.saturating_add(bytes(value));
            }
            Some(("VmFlags", value)) => self.flags = value,
            _ => {}
        }
    }

    fn has_flag(&self, flag: &str) -> bool {
        self.flags.split_ascii_whitespace().any(|found| found == flag)
    }

    fn is_anonymous(&self) -> bool {
        self.name.is_empty()
            || self.name == "[heap]"
            || self.name == "[stack]"
            || self.name.starts_with("[anon:")
    }

    /// Zeroed data lies behind a private mapping of its file. glibc names it on request
    /// (`glibc.mem.decorate_maps`).
    fn may_be_zeroed_data_of(&self, before: &Mapping<'_>) -> bool {
        let is_of_a_file = !before.is_anonymous() && before.permissions.ends_with('p');
        let may_be = self.name.is_empty() || self.name.starts_with("[anon: glibc: .bss");
        before.end == self.start && is_of_a_file && may_be
    }

    fn is_recorders(&self, spool: &str) -> bool {
        let in_spool = self.name.strip_prefix(spool).is_some_and(|rest| rest.starts_with('/'));
        in_spool || self.name.contains(preload::NAME_PREFIX)
    }

    fn file_kind(&self) -> ResidentKind {
        let name = self.name;
        if name.starts_with("[anon_shmem:")
            || ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"].iter().any(|of| name.starts_with(of))
        {
            ResidentKind::Shared
        } else if name.starts_with('[') {
            ResidentKind::Kernel
        } else if self.permissions.as_bytes().get(2) == Some(&b'x') {
            ResidentKind::Code
        } else {
            ResidentKind::File
        }
    }
}

fn mappings(text: &str) -> Vec<Mapping<'_>> {
    let mut found: Vec<Mapping<'_>> = Vec::new();
    for line in text.lines() {
        // A mapping's first line begins with a hexadecimal digit in lower case, a field's with a
        // capital letter.
        if line.as_bytes().first().is_some_and(|byte| byte.is_ascii_uppercase()) {
            if let Some(last) = found.last_mut() {
                last.field(line);
            }
        } else if let Some(mapping) = Mapping::parse(line) {
            found.push(mapping);
        }
    }
    // Of rows that the kernel gave while the program changed its mappings.
    let mut end = 0;
    found.retain(|mapping| {
        let follows = mapping.start >= end;
        end = end.max(mapping.end);
        follows
    });
    found
}

/// The text of a process's `smaps`; `None`: the process has ended, or ended meanwhile. The kernel
/// gives the text in pieces, and none after the last thread has left its address space: `maps`,
/// opened before and read after, tells that the text is whole.
pub fn text_of(pid: u32) -> Option<String> {
    let mut of_same_space = File::open(format!("/proc/{pid}/maps")).ok()?;
    let text = fs::read(format!("/proc/{pid}/smaps")).ok()?;
    let is_whole = of_same_space.read(&mut [0]).is_ok_and(|length| length == 1);
    is_whole.then(|| String::from_utf8_lossy(&text).into_owned())
}

/// Parses the text of `smaps`. `spool` is the recording's folder; `stacks` are the stack pointers
/// of threads.
pub fn parse(text: &str, spool: &str, stacks: &[u64]) -> Reading {
    let all = mappings(text);
    let mut files: BTreeMap<(ResidentKind, &str), FilePart> = BTreeMap::new();
    let mut add = |kind, name, bytes, huge_bytes| {
        if bytes == 0 {
            return;
        }
        let part = files.entry((kind, name)).or_insert_with(|| FilePart {
            kind,
            name: String::from(name),
            bytes: 0,
            huge_bytes: 0,
            mappings: 0,
        });
        part.bytes += bytes;
        part.huge_bytes += huge_bytes;
        part.mappings += 1;
    };
    let mut anonymous = Vec::new();
    for (place, mapping) in all.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|before| all.get(before));
        if !mapping.is_anonymous() {
            if mapping.is_recorders(spool) {
                add(ResidentKind::Recorder, "", mapping.resident, mapping.huge);
                continue;
            }
            // Written pages of a private mapping are copies.
            let written = mapping.anonymous.min(mapping.resident);
            let clean_huge = if written == 0 { mapping.huge } else { 0 };
            add(mapping.file_kind(), mapping.name, mapping.resident - written, clean_huge);
            add(ResidentKind::Data, mapping.name, written, mapping.huge - clean_huge);
        } else if mapping.resident > 0 {
            anonymous.push(row(mapping, before, all.get(place + 1), stacks, spool));
        }
    }
    let mut reading = Reading { files: files.into_values().collect(), anonymous };
    reading.bound();
    reading
}

fn row(
    mapping: &Mapping<'_>,
    before: Option<&Mapping<'_>>,
    after: Option<&Mapping<'_>>,
    stacks: &[u64],
    spool: &str,
) -> AnonymousRow {
    let is_unnamed = mapping.name.is_empty();
    let file = before.filter(|before| mapping.may_be_zeroed_data_of(before));
    // The recorder flags its zeroed data, so that the kernel keeps it apart from the program's
    // mappings. Where the kernel does not know the flag, the program's claims cut the row.
    let is_recorders = file.is_some_and(|file| file.is_recorders(spool));
    let file = file.filter(|_| !is_recorders);
    let mut known = 0;
    if is_recorders || (is_unnamed && mapping.has_flag("nr") && mapping.has_flag("dd")) {
        known |= facts::RECORDERS;
    }
    if stacks.iter().any(|stack| (mapping.start..mapping.end).contains(stack)) {
        known |= facts::STACK;
    }
    let reserves = |after: &Mapping<'_>| {
        after.start == mapping.end
            && after.permissions.starts_with("---")
            && after.end >= mapping.start + GLIBC_HEAP_BYTES
    };
    if is_unnamed && mapping.start.is_multiple_of(GLIBC_HEAP_BYTES) && after.is_some_and(reserves) {
        known |= facts::GLIBC_HEAP;
    }
    if file.is_some() {
        known |= facts::ZEROED_DATA;
    }
    AnonymousRow {
        start: mapping.start,
        end: mapping.end,
        bytes: mapping.resident,
        huge_bytes: mapping.huge.min(mapping.resident),
        name: if is_recorders { "" } else { file.map_or(mapping.name, |file| file.name) }.into(),
        facts: known,
        stretches: Vec::new(),
    }
}
