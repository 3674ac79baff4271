//! The findings with their advice, and the objects live at the end.

use super::places;
use crate::analysis::{is_kept_apart, numbered};
use crate::{Report, frames};
use heaplab_findings::{Found, LEAK, Leak, ORDER, Options, ShoeSize};
use heaplab_text::paint::Paint;
use heaplab_text::words::{bytes, count, plural};
use heaplab_trace::tables::Tables;

const FRAMES: usize = 6;
/// The default of `--top`.
const DEFAULT_TOP: usize = 10;
/// Sizes of a family that are shown.
const SIZES: usize = 8;

/// The findings that a change in the code would answer, in their order. What came once, stayed and
/// is little has its own section.
pub fn changes(paint: &mut Paint, report: &Report<'_>, most: usize) {
    let findings = numbered(report.findings);
    paint.heading("What to change");
    if findings.is_empty() {
        paint.line("Nothing wastes a thousandth of the peak or of all requested bytes.");
    }
    if findings.len() > 1 {
        paint.wrapped_dim("", ORDER);
    }
    let here = findings.iter().take_while(|finding| !finding.is_elsewhere()).count();
    if here == 0 && !findings.is_empty() {
        paint.line("Nothing costs memory or time on the recorded allocator.");
    }
    list(paint, report, (&findings[..here], 1), most);
    if here < findings.len() {
        if most > DEFAULT_TOP || findings[here..].iter().any(|finding| !finding.minor) {
            paint.heading("What would cost on another allocator");
        } else {
            paint.line("");
            paint.dim("On other allocators:");
        }
        list(paint, report, (&findings[here..], here + 1), most);
    }
}

/// The findings of one heading; the first has the rank `from`. Minor findings are shown if `most`
/// covers all findings and exceeds the default of `--top`.
fn list(paint: &mut Paint, report: &Report<'_>, (findings, from): (&[&Found], usize), most: usize) {
    let (small, large): (Vec<_>, Vec<_>) = findings.iter().partition(|finding| finding.minor);
    let shown = if most >= findings.len() && most > DEFAULT_TOP {
        findings.to_vec()
    } else {
        large.iter().take(most).copied().copied().collect()
    };
    for (index, finding) in shown.iter().enumerate() {
        if index > 0 {
            paint.line("");
        }
        one(paint, report.tables, from + index, finding);
        tried(paint, report, from + index);
    }
    if findings.len() > shown.len() {
        if !shown.is_empty() {
            paint.line("");
        }
        let (rest, small) = (findings.len() - shown.len(), small.len());
        let minor = match small {
            0 => String::new(),
            all if all == rest => " under 0.1 % of the peak".into(),
            some => format!(", {} of them under 0.1 % of the peak", count(some as u64)),
        };
        paint.wrapped_dim(
            "",
            &format!(
                "{}{minor}; --top {} shows {}",
                match shown.is_empty() {
                    true => plural(rest as u64, "finding"),
                    false => format!("and {} more", count(rest as u64)),
                },
                findings.len().max(DEFAULT_TOP + 1),
                if rest == 1 { "it" } else { "them" }
            ),
        );
    }
}

/// A finding with its number.
pub fn one(paint: &mut Paint, tables: &Tables, rank: usize, finding: &Found) {
    paint.item(&format!("{rank:>3}. "), &finding.title);
    if !finding.cost.is_empty() {
        paint.wrapped("     ", &finding.cost);
    }
    paint.wrapped("     ", &finding.advice);
    for note in finding.evidence.notes() {
        paint.wrapped("     ", &note);
    }
    shoe_sizes(paint, finding);
    if finding.confidence.reason.is_empty() {
        return;
    }
    let level = finding.evidence.sureness(finding.confidence.level);
    paint.wrapped_dim("     ", &format!("{level}: {}.", finding.confidence.reason));
    let (lines, further) = frames::lines(tables, finding.stack(), FRAMES);
    places::stack(paint, &lines, further);
    if finding.stack_count > 1 {
        let share = finding.stacks.first().map_or(0, |share| share.count);
        paint.dim(&format!(
            "       ({} of {} come from this stack; {} in all)",
            count(share),
            count(finding.count),
            plural(finding.stack_count, "stack")
        ));
    }
}

/// How to try the advice, and the result if it was tried.
fn tried(paint: &mut Paint, report: &Report<'_>, number: usize) {
    let what_if = report.what_if_of(number);
    if let Some(saved) = report.saving_of(number) {
        paint.wrapped("     ", &saved.words());
    } else if !what_if.is_empty() {
        paint.wrapped_dim("     ", &format!("Try it: {what_if}"));
    }
}

/// The sizes of a family, each with its part of the saving.
fn shoe_sizes(paint: &mut Paint, finding: &Found) {
    let (sizes, size_count) = finding.evidence.sizes();
    if size_count <= 1 {
        return;
    }
    let rows: Vec<[String; 5]> = sizes.iter().take(SIZES).map(row).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let heads = ["request", "becomes", "requests", "saves at peak", "over the run"];
    let widths: Vec<usize> =
        heads.iter().enumerate().map(|(column, head)| width(column).max(head.len())).collect();
    let line = |cells: [&str; 5]| {
        let cells: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        format!("       {}", cells.join("  "))
    };
    paint.dim(&line(heads));
    for row in &rows {
        paint.line(&line([&row[0], &row[1], &row[2], &row[3], &row[4]]));
    }
    let more = size_count - rows.len() as u64;
    if more > 0 {
        paint.dim(&format!("       and {} more", plural(more, "size")));
    }
}

fn row(size: &ShoeSize) -> [String; 5] {
    let saves = [size.saving.at_peak_bytes, size.saving.total_bytes]
        .map(|saved| if saved == 0 { "nothing".into() } else { bytes(saved) });
    let [peak, total] = saves;
    [count(size.request), count(size.usable), count(size.requested.objects), peak, total]
}

/// Objects of one time that stayed, most bytes first.
pub fn live_at_end(paint: &mut Paint, report: &Report<'_>, most: usize) {
    let findings = &report.findings.findings;
    let mut kept: Vec<&Found> = findings.iter().filter(|finding| is_kept_apart(finding)).collect();
    kept.sort_by_key(|finding| std::cmp::Reverse(finding.wasted_total_bytes()));
    let end = report.profile.end.live;
    paint.heading("Live at the end");
    if end.objects == 0 {
        paint.line("Nothing: every object was freed.");
        return;
    }
    let held = format!("{} in {}", bytes(end.bytes), plural(end.objects, "object"));
    let told = findings.iter().any(|finding| finding.kind == LEAK && !is_kept_apart(finding));
    let least = bytes(Options::default().least(report.profile.peak.live.bytes));
    let rest = match (kept.is_empty(), told) {
        (true, true) => {
            format!("The largest part is a finding above; no other place holds {least} or more.")
        }
        (true, false) => format!("It is spread: no place holds {least} of it or more."),
        (false, true) => "The largest part is a finding above; this came at one time:".into(),
        (false, false) => "It came at one time, each place by itself:".into(),
    };
    paint.wrapped("", &format!("{held}. {rest}"));
    for finding in kept.iter().take(most) {
        // A site that freed most of its objects and kept the rest is more suspicious than a table.
        let freed = match finding.evidence::<Leak>() {
            Some(leak) if leak.freed > 0 => {
                format!("; the site's other {} were freed", count(leak.freed))
            }
            _ => String::new(),
        };
        paint.line(&format!(
            "  {:>10}  {}{freed}",
            bytes(finding.wasted_total_bytes()),
            plural(finding.count, "object")
        ));
        let (lines, further) = frames::lines(report.tables, finding.stack(), FRAMES);
        places::stack(paint, &lines, further);
    }
    if kept.len() > most {
        paint.dim(&format!("  and {}", plural((kept.len() - most) as u64, "more place")));
    }
}
