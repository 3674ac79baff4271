//! The first sentences of a report: the allocator saw little of the process, or nothing is worth
//! changing.

use crate::{Found, Options, Rank, model::share};
use heaplab_profile::{NamedPart, Profile, ResidentParts, resident_parts, resident_peak};
use heaplab_text::words::{bytes, duration, percent, plural};
use heaplab_trace::tables::{ResidentKind, Tables};

/// Even a process with hardly any heap has this much resident: libraries' data, stacks, the
/// recorder's own pages.
const BESIDE_BYTES: u64 = 4 << 20;

/// The sentences.
pub(crate) fn lead(
    tables: &Tables,
    profile: &Profile,
    findings: &[Found],
    options: &Options,
) -> Vec<String> {
    if profile.totals.requests == 0 {
        return Vec::new();
    }
    let nothing = nothing_worth(profile, findings, options);
    let unseen =
        coverage(tables, profile, options).or_else(|| unseen_python(tables, options.process));
    unseen.into_iter().chain(nothing).collect()
}

/// If the program asked the allocator for less than half of the resident memory: the share, and the
/// remedy.
fn coverage(tables: &Tables, profile: &Profile, options: &Options) -> Option<String> {
    let resident = resident_peak(tables, options.process)?;
    let live = profile.peak.live;
    let explained = live.bytes.max(live.usable_bytes);
    // Code and files are no heap: anonymous memory is, where samples tell the two apart.
    let heap = match resident.anonymous_bytes {
        0 => resident.bytes,
        anonymous => anonymous,
    };
    if explained.saturating_mul(2) >= heap || heap - explained < BESIDE_BYTES {
        return None;
    }
    let parts = resident_parts(tables, options.process);
    if let Some(parts) = parts.filter(|parts| parts.is_near(resident.bytes)) {
        return Some(named(tables, &parts, options.process));
    }
    let (of, what) = match resident.anonymous_bytes {
        0 => (resident.bytes, "resident at its peak"),
        anonymous => (anonymous, "resident beside code and files"),
    };
    Some(format!(
        "Only {} of {} ({}) are explained: so much of what the process had {what} were blocks of malloc. {}",
        bytes(explained),
        bytes(of),
        percent(share(explained, of)),
        remedy(tables, options.process)
    ))
}

/// Where stacks show a Python interpreter's own functions only: how to see Python's.
fn unseen_python(tables: &Tables, process: Option<u32>) -> Option<String> {
    let row = process.unwrap_or(0) as usize;
    let is_python = tables.processes.get(row)?.program_name().starts_with("python");
    (is_python && tables.stacks.len() > 1 && !has_frames_of_python(tables)).then(|| {
        String::from(
            "Stacks show the interpreter's functions only: record with --python to see Python's functions and lines.",
        )
    })
}

fn has_frames_of_python(tables: &Tables) -> bool {
    (0..tables.frames.len() as u32).any(|row| tables.is_interpreted(row))
}

/// Parts that the sentence names beside the blocks of malloc.
const NAMED_MAX: usize = 4;

/// The largest parts of the resident memory, and how to see into them.
fn named(tables: &Tables, parts: &ResidentParts, process: Option<u32>) -> String {
    let of_malloc = |part: &&NamedPart| part.kind == ResidentKind::Blocks;
    let blocks: u64 = parts.parts.iter().filter(of_malloc).map(|part| part.bytes).sum();
    let others: Vec<&NamedPart> = parts.parts.iter().filter(|part| !of_malloc(part)).collect();
    let (large, small) = others.split_at(others.len().min(NAMED_MAX));
    let mut words: Vec<String> =
        large.iter().map(|part| format!("{} {}", bytes(part.bytes), part.label)).collect();
    if !small.is_empty() {
        let rest = small.iter().map(|part| part.bytes).sum();
        words.push(format!("{} in {}", bytes(rest), plural(small.len() as u64, "smaller part")));
    }
    let row = process.unwrap_or(0) as usize;
    let program = tables.processes.get(row).map_or("", |process| process.program_name());
    let inside = INSIDE.iter().find(|(names, is_seen, _)| {
        names.iter().any(|name| program.starts_with(name)) && !is_seen(tables, parts)
    });
    format!(
        "Of {} resident at {}, blocks of malloc are {} ({}). The rest: {}.{}",
        bytes(parts.bytes),
        duration(parts.time_ns),
        bytes(blocks),
        percent(share(blocks, parts.bytes)),
        words.join("; "),
        inside.map_or(String::new(), |(.., words)| format!(" {words}"))
    )
}

/// Prefixes of programs' names, whether a recording already sees into the memory of such a runtime,
/// and how to do it otherwise.
type Inside = (&'static [&'static str], fn(&Tables, &ResidentParts) -> bool, &'static str);
const INSIDE: [Inside; 3] = [
    (
        &["python"],
        |tables, _| has_frames_of_python(tables),
        "To see objects in pymalloc's arenas, and Python's functions, record with --python.",
    ),
    (
        &["node", "chrom", "electron", "deno"],
        |_, _| false,
        "To see objects in V8's heap, record with --node, or take a heap snapshot (heaplab snapshot take).",
    ),
    (
        &["java"],
        |_, parts| parts.parts.iter().any(|part| part.reserved_bytes > 0),
        "The JVM names the purposes of its memory with --jvm-memory, and --jvm-metaspace records its metaspace.",
    ),
];

/// How to see more of this program.
fn remedy(tables: &Tables, process: Option<u32>) -> &'static str {
    let row = process.unwrap_or(0) as usize;
    let program = tables.processes.get(row).map_or("", |process| process.program_name());
    let is = |names: &[&str]| names.iter().any(|name| program.starts_with(name));
    if is(&["python"]) {
        "Python takes small objects from maps of its own: record with --python to see them."
    } else if is(&["node", "chrom", "electron", "deno"]) {
        "V8 maps its heap itself: record with --node, or take a heap snapshot (heaplab snapshot take)."
    } else if is(&["java"]) {
        "The JVM maps its heap itself: record with --jvm-memory to see its size, with --jvm-metaspace to see its metaspace."
    } else if is(&["ruby"]) {
        "Ruby maps its object pages itself: ObjectSpace tells what is in them."
    } else if is(&["cc1", "lto1", "g++", "gcc"]) {
        "GCC maps the pages of its garbage-collected heap itself."
    } else {
        "The rest was mapped past malloc (mmap: a runtime's heap, a pool, thread stacks) or is code and data: `record --samples 20` reads its parts more often."
    }
}

/// That no finding would be felt at the peak.
fn nothing_worth(profile: &Profile, findings: &[Found], options: &Options) -> Option<String> {
    let peak = profile.peak.live.bytes;
    let least = peak / options.peak_part.max(1);
    let is_large = |of: &&Found| of.rank == Rank::OverRun && of.needed_bytes() >= least.max(1);
    let (once, mistakes): (Vec<&Found>, Vec<&Found>) =
        findings.iter().filter(is_large).partition(|finding| finding.evidence.came_once());
    if !mistakes.is_empty() || findings.iter().any(|finding| finding.rank < Rank::OverRun) {
        return None;
    }
    let shown = |rank| findings.iter().filter(move |of| of.rank == rank && !of.minor);
    let over_run = || shown(Rank::OverRun).filter(|of| !of.evidence.came_once());
    let costs_elsewhere = shown(Rank::Elsewhere).next().is_some();
    let kinds = [
        (over_run().any(|of| of.needed_bytes() == 0), "time"),
        (over_run().any(|of| of.needed_bytes() > 0), "less memory than that"),
        (costs_elsewhere, "memory on other allocators"),
        (shown(Rank::OverRun).any(|of| of.evidence.came_once()), "what may be meant to stay"),
    ];
    let kinds: Vec<&str> = kinds.iter().filter(|(is, _)| *is).map(|(_, kind)| *kind).collect();
    let rest = match &kinds[..] {
        [] => String::new(),
        ["time"] => " The findings below save time at most.".into(),
        ["memory on other allocators"] => {
            " The findings below cost on other allocators only.".into()
        }
        kinds => format!(" The findings below save {}.", kinds.join(", or ")),
    };
    let nothing = match once.is_empty() {
        true => "no finding reaches",
        false => "nothing that grows or could be smaller reaches",
    };
    let on = if costs_elsewhere { " on the recorded allocator" } else { "" };
    let part = 100.0 / options.peak_part.max(1) as f64;
    Some(format!(
        "Nothing worth changing for memory{on}: {nothing} {part} % of the peak ({}).{rest}",
        bytes(peak)
    ))
}
