//! The report of a JVM's metaspace: its contents at a moment, in the form of `jcmd VM.metaspace`,
//! and the largest wastes.
//!
//! The lines of `VM.metaspace` appear unchanged on a wide terminal, because users compare them with
//! jcmd's, and fold at their commas on a narrow one.

use super::{findings, title};
use crate::metaspace::OfProcess;
use heaplab_jvm::asked::Asked;
use heaplab_jvm::{Point, Report};
use heaplab_text::lines;
use heaplab_text::paint::{Look, Paint};
use heaplab_text::words::{bytes, duration, plural};
use heaplab_trace::bundle::Bundle;
use heaplab_trace::tables::process_label;

/// The contents of one JVM's metaspace at two moments, by kind of loader.
pub fn between(
    (from, before): (&str, &Report),
    (to, after): (&str, &Report),
    look: &Look,
) -> String {
    let mut paint = Paint::new(look.width, look.colour);
    paint.heading(&format!(
        "The metaspace at {from} ({}) and at {to} ({})",
        duration(before.time_ns),
        duration(after.time_ns)
    ));
    // Two sizes and an arrow are 22 columns at most.
    paint.line(&format!("{:<21}{:>13}{:>23}{:>23}", "", "arenas", "used", "committed"));
    let mut row = |name: &str, arenas: (u64, u64), used: (u64, u64), committed: (u64, u64)| {
        let pair = |(from, to): (u64, u64)| format!("{} -> {}", bytes(from), bytes(to));
        paint.line(&format!(
            "{name:<21}{:>13}{:>23}{:>23}",
            format!("{} -> {}", arenas.0, arenas.1),
            pair(used),
            pair(committed)
        ));
    };
    let (one, other) = (&before.statistics, &after.statistics);
    let mut kinds: Vec<(&str, bool)> = other
        .kinds
        .iter()
        .chain(&one.kinds)
        .map(|kind| (kind.loader.as_str(), kind.class))
        .collect();
    let mut seen = Vec::new();
    kinds.retain(|kind| {
        !seen.contains(kind) && {
            seen.push(*kind);
            true
        }
    });
    for (loader, class) in kinds {
        let find = |kinds: &[heaplab_jvm::statistics::Kind]| {
            let kind = kinds.iter().find(|kind| kind.loader == loader && kind.class == class);
            kind.map_or((0, 0, 0), |kind| {
                (kind.arenas, kind.in_use.used_bytes, kind.in_use.committed_bytes)
            })
        };
        let (from, to) = (find(&one.kinds), find(&other.kinds));
        let name = format!(
            "{}, {}",
            if loader.is_empty() { "not known" } else { loader },
            if class { "class" } else { "non-class" }
        );
        row(&name, (from.0, to.0), (from.1, to.1), (from.2, to.2));
    }
    let total = (one.loaders, other.loaders);
    row(
        "all (arenas: loaders)",
        total,
        (one.in_use().used_bytes, other.in_use().used_bytes),
        (one.committed_bytes(), other.committed_bytes()),
    );
    paint.finish()
}

/// The report as text.
pub fn text(bundle: &Bundle, of: &OfProcess, wanted: Option<&str>, look: &Look) -> String {
    let OfProcess { process, report, findings } = of;
    let (meta, statistics) = (bundle.meta(), &report.statistics);
    let mut paint = Paint::new(look.width, look.colour);
    title(&mut paint, meta);
    let facts = [
        meta.allocator.clone(),
        plural(statistics.counters.allocations, "block"),
        plural(statistics.counters.arena_births, "arena"),
        duration(meta.duration_ns),
    ];
    paint.wrapped("", &facts.join(" · "));
    if let Some(line) = which(bundle, *process) {
        paint.wrapped("", &line);
    }
    if let Some(cut) = &meta.cut {
        paint.warning(&format!("The recording was cut: {cut}"));
    }
    meta.losses.iter().for_each(|loss| paint.warning(loss));
    paint.heading("Committed");
    let (peak, in_use) = (&report.peak, statistics.in_use());
    let when = match wanted {
        Some(name) => format!("at {name} ({})", duration(report.time_ns)),
        None => "at the end".into(),
    };
    paint.wrapped(
        "",
        &format!(
            "peak {} at {}; {when} {}, of which {} used in chunks and {} in free chunks",
            bytes(peak.committed_bytes),
            duration(peak.time_ns),
            bytes(statistics.committed_bytes()),
            bytes(in_use.used_bytes),
            bytes(statistics.free_chunks_bytes())
        ),
    );
    chart(&mut paint, &report.timeline);
    let mut text = paint.finish();
    text.push_str(&format!("\nThe metaspace {when}, as jcmd VM.metaspace counts\n"));
    statistics
        .to_string()
        .lines()
        .for_each(|line| text.push_str(&folded(line, look.listing_width)));
    let mut paint = Paint::new(look.width, look.colour);
    paint.heading("Where committed bytes go unused, and what would help");
    if findings.is_empty() {
        paint.line("Nowhere to speak of.");
    }
    for (number, finding) in (1..).zip(findings.iter().take(look.top)) {
        findings::one(&mut paint, bundle.tables(), number, finding);
    }
    paint.line("");
    paint.wrapped_dim(
        "",
        "jcmd VM.metaspace of JDK 17 to 25 adds the non-class free chunks twice, so that its \"In free chunks\" can exceed the committed bytes; \
         here they count once. Blocks by loader and type of metadata: --blocks. Other designs on the same workload: heaplab replay --on (heaplab heaps lists them).",
    );
    text.push_str(&paint.finish());
    text
}

/// The requests to one JVM's metaspace as text, for a recording without the places of blocks.
/// `model` adds the committed bytes.
pub fn asked_text(
    bundle: &Bundle,
    process: u32,
    found: &Asked,
    wanted: Option<&str>,
    model: &str,
    look: &Look,
) -> String {
    let meta = bundle.meta();
    let mut paint = Paint::new(look.width, look.colour);
    title(&mut paint, meta);
    let facts = [
        meta.allocator.clone(),
        plural(bundle.meta().events, "event"),
        duration(meta.duration_ns),
        plural(found.purges, "purge"),
    ];
    paint.wrapped("", &facts.join(" · "));
    if let Some(line) = which(bundle, process) {
        paint.wrapped("", &line);
    }
    if let Some(cut) = &meta.cut {
        paint.warning(&format!("The recording was cut: {cut}"));
    }
    meta.losses.iter().for_each(|loss| paint.warning(loss));
    paint.wrapped(
        "",
        &format!(
            "The workload of a JVM's metaspace, without its chunks: requested bytes are exact; committed bytes come from a model ({model} below, others with --model)."
        ),
    );
    asked_tables(&mut paint, found, wanted, look.top);
    paint.finish()
}

fn asked_tables(paint: &mut Paint, found: &Asked, wanted: Option<&str>, most: usize) {
    paint.heading(&format!("Asked for, live at {}", wanted.unwrap_or("the end")));
    paint.line(&format!(
        "{} in {}; most {} at {}",
        bytes(found.live.bytes),
        plural(found.live.count, "block"),
        bytes(found.peak_bytes),
        duration(found.peak_ns)
    ));
    if found.refused > 0 {
        paint.line(&format!("{} refused", plural(found.refused, "request")));
    }
    paint.dim(&format!("{:<22}{:>15}{:>12}{:>14}", "loaders", "arenas", "live", "given back"));
    for loaders in &found.loaders {
        let kind = if loaders.kind.is_empty() { "not known" } else { &loaders.kind };
        let name = format!("{kind}, {}", if loaders.class { "class" } else { "non-class" });
        paint.line(&format!(
            "{name:<22}{:>15}{:>12}{:>14}",
            format!("{} of {}", loaders.arenas, loaders.born),
            bytes(loaders.live.bytes),
            bytes(loaders.given_back.bytes)
        ));
    }
    paint.dim(&format!("{:<22}{:>15}{:>12}", "types of metadata", "blocks", "live"));
    for kind in found.types.iter().take(most) {
        let name = if kind.name.is_empty() { "not known" } else { &kind.name };
        paint.line(&format!("{name:<22}{:>15}{:>12}", kind.live.count, bytes(kind.live.bytes)));
    }
    if found.types.len() > most {
        paint.dim(&format!("and {} more types", found.types.len() - most));
    }
}

/// A line in jcmd's form, which knows no width: a long line goes on below the text behind its name.
fn folded(line: &str, width: usize) -> String {
    if !line.contains(", ") && line.chars().count() > width {
        return lines::paragraph(line, "", 2, width);
    }
    let hanging = line.find(": ").map_or(0, |colon| colon + 2);
    let mut lines = vec![String::new()];
    for piece in line.split_inclusive(", ") {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > hanging && last + piece.trim_end().chars().count() > width {
            lines.push(" ".repeat(hanging));
        }
        if let Some(last) = lines.last_mut() {
            last.push_str(piece);
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A line that names the JVM and the others, if the recording has several.
fn which(bundle: &Bundle, process: u32) -> Option<String> {
    let all = &bundle.tables().processes;
    let this = all.get(process as usize)?;
    let rows: Vec<usize> = (0..all.len()).filter(|row| all[*row].refused.is_none()).collect();
    if rows.len() < 2 {
        return None;
    }
    let arguments = this.arguments.get(1..).unwrap_or_default().join(" ");
    let shown: String = arguments.chars().take(160).collect();
    let dots = if shown.len() < arguments.len() { "..." } else { "" };
    let others = others(
        rows.iter().filter(|row| **row != process as usize).map(|row| process_label(all, *row)),
    );
    Some(format!(
        "JVM {} of {}: {} {shown}{dots}. The others: --process {others}, or all.",
        process_label(all, process as usize),
        rows.len(),
        this.program_name()
    ))
}

/// Pids, and dots for those that are not shown.
fn others(mut pids: impl Iterator<Item = String>) -> String {
    let mut shown: Vec<String> = pids.by_ref().take(20).collect();
    if pids.next().is_some() {
        shown.push(String::from("..."));
    }
    shown.join(", ")
}

/// Committed bytes over time, and used ones below them, the most of each column.
fn chart(paint: &mut Paint, timeline: &[Point]) {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let (Some(first), Some(last)) = (timeline.first(), timeline.last()) else { return };
    let columns = paint.width().saturating_sub(12).clamp(20, 100);
    let most = timeline.iter().map(|point| point.committed_bytes).max().unwrap_or(0).max(1);
    let span = (last.time_ns - first.time_ns).max(1);
    for name in ["committed", "used"] {
        let value =
            |point: &Point| if name == "used" { point.used_bytes } else { point.committed_bytes };
        let (mut line, mut level) = (String::new(), 0);
        let mut points = timeline.iter().peekable();
        for column in 1..=columns as u128 {
            let until = first.time_ns + (u128::from(span) * column / columns as u128) as u64;
            let mut highest = 0;
            while let Some(point) = points.next_if(|point| point.time_ns <= until) {
                level = value(point);
                highest = highest.max(level);
            }
            line.push(
                BARS[(u128::from(highest.max(level)) * 7 / u128::from(most)).min(7) as usize],
            );
        }
        paint.chart(&format!("{name:<10}{line}"));
    }
}

#[cfg(test)]
mod tests {
    use super::{folded, others};

    #[test]
    fn a_long_line_goes_on_below_its_own_beginning() {
        assert_eq!(
            folded("  Both:  1 chunk,  2 KB used,  3 KB free", 80),
            "  Both:  1 chunk,  2 KB used,  3 KB free\n"
        );
        assert_eq!(
            folded("  Both:  1 chunk,  2 KB used,  3 KB free", 29),
            "  Both:  1 chunk,  2 KB used,\n         3 KB free\n"
        );
    }

    #[test]
    fn a_list_that_is_cut_says_so() {
        let pids = |last: u32| others((1..=last).map(|pid| pid.to_string()));
        assert_eq!(pids(2), "1, 2");
        assert!(pids(20).ends_with("19, 20") && pids(21).ends_with("19, 20, ..."));
    }
}
