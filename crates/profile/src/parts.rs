//! The parts of a process's resident memory: at the largest reading, and over time.
//!
//! A recording has readings of the kernel's figures now and then (`Tables::resident`). The parts of
//! each reading add up to the resident memory. Here they get names that a person knows: a file, a
//! runtime's arenas, the function that mapped them.

use crate::runtime_maps;
use heaplab_text::words::bytes;
use heaplab_trace::StackId;
use heaplab_trace::tables::{ResidentKind, ResidentPart, Tables, bare_name};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Parts with one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedPart {
    /// The kind that all of them have.
    pub kind: ResidentKind,
    /// In words: "code of libc.so.6", "pymalloc arenas".
    pub label: String,
    /// The stack that mapped most of it; 0: not recorded.
    pub stack: StackId,
    /// Resident bytes.
    pub bytes: u64,
    /// Of these, bytes in transparent huge pages.
    pub huge_bytes: u64,
    /// Mappings, or pieces of mappings.
    pub mappings: u64,
    /// Bytes of address space that the runtime says it reserved; 0: not known.
    #[serde(skip_serializing_if = "is_zero")]
    pub reserved_bytes: u64,
    /// Of these, bytes that the runtime says it committed.
    #[serde(skip_serializing_if = "is_zero")]
    pub committed_bytes: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl NamedPart {
    /// The label, with the runtime's own figures: "the JVM's Java Heap (of 64 MiB committed, 2 GiB
    /// reserved)".
    pub fn words(&self) -> String {
        let NamedPart { label, committed_bytes, reserved_bytes, .. } = self;
        if *reserved_bytes == 0 {
            return label.clone();
        }
        format!(
            "{label} (of {} committed, {} reserved)",
            bytes(*committed_bytes),
            bytes(*reserved_bytes)
        )
    }
}

/// The resident memory at one moment: the parts add up to `bytes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResidentParts {
    /// ns since the recording began.
    pub time_ns: u64,
    /// Resident bytes.
    pub bytes: u64,
    /// The parts, largest first.
    pub parts: Vec<NamedPart>,
}

impl ResidentParts {
    /// Whether the reading stands for the peak: it has at least three quarters of it. Readings miss
    /// a peak of some milliseconds.
    pub fn is_near(&self, peak_bytes: u64) -> bool {
        self.bytes >= peak_bytes - peak_bytes / 4
    }
}

/// Resident bytes by kind at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KindsAt {
    /// ns since the recording began.
    pub time_ns: u64,
    /// Resident bytes, in the order of [`ResidentKind::ALL`].
    pub bytes: [u64; ResidentKind::ALL.len()],
}

impl KindsAt {
    /// Resident bytes of all kinds.
    pub fn total(&self) -> u64 {
        self.bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// A reading of each living process; of each, its rows.
type Readings<'a> = BTreeMap<u32, &'a [ResidentPart]>;

/// Calls `visit` at each reading with the latest one of every process that lives then.
fn each_moment<'a>(
    tables: &'a Tables,
    process: Option<u32>,
    mut visit: impl FnMut(u64, &Readings<'a>),
) {
    let mut now = Readings::new();
    let same =
        |a: &ResidentPart, b: &ResidentPart| (a.time_ns, a.process) == (b.time_ns, b.process);
    for reading in tables.resident.chunk_by(same) {
        let Some(first) = reading.first() else { continue };
        if process.is_some_and(|process| process != first.process) {
            continue;
        }
        let lives = |row: &u32| {
            let process = tables.processes.get(*row as usize);
            let ended = process.and_then(|process| process.ended_ns);
            ended.is_none_or(|ended| ended >= first.time_ns)
        };
        now.insert(first.process, reading);
        now.retain(|row, _| lives(row) || *row == first.process);
        visit(first.time_ns, &now);
    }
}

/// Resident bytes by kind, at each reading: of one process, or of all that live.
pub fn resident_kinds(tables: &Tables, process: Option<u32>) -> Vec<KindsAt> {
    let mut moments = Vec::new();
    each_moment(tables, process, |time_ns, readings| {
        let mut bytes = [0_u64; ResidentKind::ALL.len()];
        for part in readings.values().flat_map(|rows| rows.iter()) {
            let place = ResidentKind::ALL.iter().position(|(kind, _)| *kind == part.kind);
            let sum = &mut bytes[place.unwrap_or(0)];
            *sum = sum.saturating_add(part.bytes);
        }
        moments.push(KindsAt { time_ns, bytes });
    });
    moments
}

/// The parts at the reading with the most resident bytes; `None`: there are no readings.
pub fn resident_parts(tables: &Tables, process: Option<u32>) -> Option<ResidentParts> {
    let mut most: Option<(u64, u64, Vec<ResidentPart>)> = None;
    each_moment(tables, process, |time_ns, readings| {
        let rows = || readings.values().flat_map(|rows| rows.iter());
        let bytes = rows().fold(0_u64, |sum, part| sum.saturating_add(part.bytes));
        if most.as_ref().is_none_or(|(_, before, _)| bytes > *before) {
            most = Some((time_ns, bytes, rows().cloned().collect()));
        }
    });
    let (time_ns, bytes, rows) = most?;
    Some(ResidentParts { time_ns, bytes, parts: named(tables, &rows) })
}

/// The parts by name, the largest first.
fn named(tables: &Tables, rows: &[ResidentPart]) -> Vec<NamedPart> {
    let mut places: HashMap<(ResidentKind, String), usize> = HashMap::new();
    let mut largest: Vec<u64> = Vec::new();
    let mut parts: Vec<NamedPart> = Vec::new();
    for row in rows {
        let (kind, label) = (row.kind, label(tables, row));
        let at = *places.entry((kind, label.clone())).or_insert(parts.len());
        if at == parts.len() {
            parts.push(NamedPart {
                kind,
                label,
                stack: 0,
                bytes: 0,
                huge_bytes: 0,
                mappings: 0,
                reserved_bytes: 0,
                committed_bytes: 0,
            });
            largest.push(0);
        }
        let part = &mut parts[at];
        part.bytes = part.bytes.saturating_add(row.bytes);
        part.huge_bytes = part.huge_bytes.saturating_add(row.huge_bytes);
        part.mappings = part.mappings.saturating_add(row.mappings.into());
        part.reserved_bytes = part.reserved_bytes.saturating_add(row.reserved_bytes);
        part.committed_bytes = part.committed_bytes.saturating_add(row.committed_bytes);
        if row.bytes > largest[at] {
            (largest[at], part.stack) = (row.bytes, row.stack);
        }
    }
    parts.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.label.cmp(&b.label)));
    parts
}

/// Beginning of the names of parts that a JVM names.
const JVM: &str = "JVM: ";

/// The name of a part, in words.
fn label(tables: &Tables, part: &ResidentPart) -> String {
    if let Some(purpose) = part.name.strip_prefix(JVM) {
        return format!("the JVM's {purpose}");
    }
    let file = || {
        let name = part.name.strip_suffix(" (deleted)").unwrap_or(&part.name);
        name.rsplit('/').next().unwrap_or(name)
    };
    let of = |what: &str| match file() {
        "" => format!("{what} of other files"),
        file => format!("{what} of {file}"),
    };
    match part.kind {
        ResidentKind::Blocks => "live blocks of malloc".into(),
        ResidentKind::Allocator => "malloc's free memory and tables".into(),
        ResidentKind::Mapped => mapped(tables, part),
        ResidentKind::Stack if part.name == "main" => "the main thread's stack".into(),
        ResidentKind::Stack => "threads' stacks".into(),
        ResidentKind::Code => of("code"),
        ResidentKind::Data => of("written data"),
        ResidentKind::File => of("pages"),
        ResidentKind::Shared if part.name.is_empty() => "shared memory".into(),
        ResidentKind::Shared => format!("shared memory {}", file()),
        ResidentKind::Recorder => "heaplab's recorder".into(),
        ResidentKind::Kernel => "the kernel's pages".into(),
        ResidentKind::Unknown => "unknown: anonymous memory, mapped unseen".into(),
    }
}

fn mapped(tables: &Tables, part: &ResidentPart) -> String {
    if let Some(runtime) = runtime_maps::name(tables, part.stack) {
        return runtime.into();
    }
    if !part.name.is_empty() && !part.name.starts_with('/') {
        return format!("mapped as \"{}\"", part.name);
    }
    let frames: Vec<u32> = tables.frames_of(part.stack).collect();
    match frames.get(tables.site(&frames)) {
        Some(frame) => format!("mapped by {}", bare_name(&tables.frame_label(*frame))),
        None => "mapped past malloc, without a stack".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_trace::tables::{Frame, Module, Process, StackNode};

    fn part(
        time_ns: u64,
        process: u32,
        kind: ResidentKind,
        name: &str,
        bytes: u64,
    ) -> ResidentPart {
        let (name, mappings) = (name.into(), 1);
        ResidentPart { time_ns, process, kind, name, bytes, mappings, ..ResidentPart::default() }
    }

    fn tables() -> Tables {
        use ResidentKind::*;
        Tables {
            processes: vec![
                Process::default(),
                Process { ended_ns: Some(15), ..Process::default() },
            ],
            resident: vec![
                part(1, 0, Blocks, "", 10),
                part(1, 0, Code, "/usr/lib/libc.so.6", 5),
                part(10, 1, Blocks, "", 100),
                part(12, 0, Blocks, "", 30),
                part(12, 0, Code, "/opt/libc.so.6", 5),
                part(12, 0, Code, "/usr/lib/libc.so.6", 6),
                part(20, 0, Blocks, "", 40),
            ],
            ..Tables::default()
        }
    }

    #[test]
    fn parts_of_all_processes_are_those_of_the_living() {
        let tables = tables();
        let totals = |process| {
            let moments = resident_kinds(&tables, process);
            moments.iter().map(|at| (at.time_ns, at.total())).collect::<Vec<_>>()
        };
        assert_eq!(totals(Some(0)), [(1, 15), (12, 41), (20, 40)]);
        assert_eq!(totals(None), [(1, 15), (10, 115), (12, 141), (20, 40)]);
        let peak = resident_parts(&tables, Some(0)).unwrap();
        assert_eq!((peak.time_ns, peak.bytes), (12, 41));
        let rows: Vec<(&str, u64)> =
            peak.parts.iter().map(|part| (part.label.as_str(), part.bytes)).collect();
        assert_eq!(rows, [("live blocks of malloc", 30), ("code of libc.so.6", 11)]);
        assert_eq!(resident_parts(&Tables::default(), None), None);
    }

    #[test]
    fn mapped_memory_has_the_name_of_its_runtime_or_its_function() {
        let frame = |function: Option<&str>, module| Frame {
            function: function.map(String::from),
            module,
            address: 0x10,
            ..Frame::default()
        };
        let module = |path: &str| Module { path: path.into(), ..Module::default() };
        let tables = Tables {
            frames: vec![
                frame(None, Some(0)),
                frame(Some("pool_grow(unsigned long)"), Some(1)),
                frame(Some("v8::internal::SemiSpace::Commit()"), None),
                frame(Some("v8::base::OS::Allocate(void*, unsigned long)"), None),
            ],
            modules: vec![module("/usr/bin/python3.11"), module("/usr/bin/app")],
            stacks: vec![
                StackNode::default(),
                StackNode { parent: 0, frame: 0 },
                StackNode { parent: 0, frame: 1 },
                StackNode { parent: 0, frame: 2 },
                StackNode { parent: 3, frame: 3 },
            ],
            ..Tables::default()
        };
        let label = |stack, name: &str| {
            label(&tables, &ResidentPart { stack, ..part(0, 0, ResidentKind::Mapped, name, 1) })
        };
        assert_eq!(label(1, ""), "pymalloc arenas");
        assert_eq!(label(2, ""), "mapped by pool_grow");
        assert_eq!(label(4, ""), "V8's new space");
        assert_eq!(label(1, "JVM: Java Heap"), "the JVM's Java Heap");
        assert_eq!(label(0, "worker pool"), "mapped as \"worker pool\"");
        assert_eq!(label(0, ""), "mapped past malloc, without a stack");
    }
}
