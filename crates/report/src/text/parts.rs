//! The resident memory at its largest reading: a table of parts that add up.

use crate::{Report, frames};
use heaplab_profile::{NamedPart, resident_parts, resident_peak};
use heaplab_text::lines::wrap;
use heaplab_text::paint::Paint;
use heaplab_text::words::{bytes, duration, percent, plural};
use heaplab_trace::tables::ResidentKind;
use std::collections::BTreeMap;

/// Parts under this part of the whole, one in so many, are summed up by kind.
const SMALL_PART: u64 = 200;
/// Frames of the call that mapped a part.
const FRAMES: usize = 3;

/// The section; nothing where the recording has no readings.
pub(super) fn parts(paint: &mut Paint, report: &Report<'_>, most: usize) {
    let Some(all) = resident_parts(report.tables, report.process) else { return };
    let whole = all.bytes.max(1);
    paint.heading("Where resident memory was, at its largest reading");
    let kernels = resident_peak(report.tables, report.process)
        .filter(|peak| peak.is_kernels && peak.bytes > all.bytes)
        .map_or(String::new(), |peak| {
            format!(" (the kernel's peak between readings: {})", bytes(peak.bytes))
        });
    let huge = all.parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.huge_bytes));
    let huge = if huge > 0 { format!(", {} in huge pages", bytes(huge)) } else { String::new() };
    paint
        .wrapped("", &format!("{} at {}{kernels}{huge}:", bytes(all.bytes), duration(all.time_ns)));
    let is_large = |part: &NamedPart| part.bytes >= whole / SMALL_PART;
    let large = all.parts.iter().filter(|part| is_large(part)).count().min(most.max(8));
    let (large, small) = all.parts.split_at(large);
    for part in large {
        row(paint, part.bytes, whole, &part.words());
        if part.kind == ResidentKind::Mapped {
            for line in frames::lines(report.tables, part.stack, FRAMES).0 {
                paint.dim(&format!("       {line}"));
            }
        }
    }
    let mut by_kind: BTreeMap<ResidentKind, (u64, u64)> = BTreeMap::new();
    for part in small {
        let (sum, parts) = by_kind.entry(part.kind).or_default();
        *sum = sum.saturating_add(part.bytes);
        *parts += 1;
    }
    let mut rest: Vec<_> = by_kind.into_iter().collect();
    rest.sort_by_key(|(_, (sum, _))| std::cmp::Reverse(*sum));
    for (kind, (sum, parts)) in rest {
        let alone = small.iter().find(|part| part.kind == kind && parts == 1);
        let label = alone.map_or_else(|| summed(kind, parts), |part| part.words());
        row(paint, sum, whole, &label);
    }
    row(paint, all.bytes, whole, "in all");
}

fn row(paint: &mut Paint, part_bytes: u64, whole: u64, label: &str) {
    let share = percent(part_bytes as f64 / whole as f64);
    let figures = format!("  {:>10} {share:>7}  ", bytes(part_bytes));
    let columns = figures.chars().count();
    // The figures of a JVM's part stand behind its name: they go on below it.
    for (number, words) in wrap(label, paint.width().saturating_sub(columns)).iter().enumerate() {
        let before = if number == 0 { figures.as_str() } else { "" };
        paint.line(&format!("{before:columns$}{words}"));
    }
}

/// Several small parts of a kind in words.
fn summed(kind: ResidentKind, parts: u64) -> String {
    let more = |one: &str| format!("{} more", plural(parts, one));
    match kind {
        ResidentKind::Code => format!("code of {}", more("file")),
        ResidentKind::Data => format!("written data of {}", more("file")),
        ResidentKind::File => format!("other pages of {}", more("file")),
        ResidentKind::Mapped => format!("mapped past malloc from {}", more("place")),
        ResidentKind::Shared => format!("shared memory in {}", more("part")),
        ResidentKind::Stack => "stacks".into(),
        ResidentKind::Blocks
        | ResidentKind::Allocator
        | ResidentKind::Recorder
        | ResidentKind::Kernel
        | ResidentKind::Unknown => format!("{} in {}", kind.name(), more("part")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_label_goes_on_below_itself() {
        let mut paint = Paint::new(60, false);
        row(
            &mut paint,
            1 << 20,
            4 << 20,
            "the JVM's Shared class space (of 12.5 MiB committed, 16.0 MiB reserved)",
        );
        insta::assert_snapshot!(paint.finish(), @r"
          1.00 MiB  25.0 %  the JVM's Shared class space (of
                            12.5 MiB committed, 16.0 MiB reserved)
        ");
    }
}
