//! The report as text for a terminal: the recording and its quality, live memory, slop, the most
//! frequent requests, the findings with their advice, the live objects at the peak.

mod findings;
pub mod metaspace;
mod parts;
mod places;

use crate::analysis::{is_collected, is_mallocs};
use crate::{Report, frames};
use heaplab_findings::{Basis, CountsTable};
use heaplab_profile::{ProcessPeak, Timeline, TimelineAxis, resident_parts, resident_peak};
use heaplab_text::lines;
use heaplab_text::paint::{Look, Paint};
use heaplab_text::words::{bytes, copied, count, duration, percent, plural};
use heaplab_trace::NOTICED_AT_COLLECTION;
use heaplab_trace::bundle::Meta;
use heaplab_trace::tables::{Ended, Tables, process_label};

/// The whole report.
pub fn report(report: &Report<'_>, look: &Look) -> String {
    let mut paint = Paint::new(look.width, look.colour);
    header(&mut paint, report);
    warnings(&mut paint, report);
    live(&mut paint, report);
    parts::parts(&mut paint, report, look.top);
    places::marks(&mut paint, report, look.top);
    if report.profile.totals.requests == 0 {
        paint.line("");
        paint.line("Nothing was allocated, so there is nothing to say.");
        return paint.finish();
    }
    places::moments(&mut paint, report.tables, report.shown, look.top);
    let is_mallocs = is_mallocs(report.meta, report.tables);
    if is_mallocs {
        slop(&mut paint, report);
    }
    let basis = report.findings.counts.basis;
    let heading = if is_mallocs {
        format!("Most frequent requests ({})", on(basis))
    } else {
        "Most frequent sizes".into()
    };
    counts(&mut paint, &heading, &report.findings.counts, look.top, is_mallocs);
    let (heading, at_peak) = ("The same at the peak", &report.findings.counts_at_peak);
    counts(&mut paint, heading, at_peak, look.top.min(5), is_mallocs);
    if is_mallocs {
        findings::changes(&mut paint, report, look.top);
    }
    places::at_peak(&mut paint, report.tables, report.profile, look.top.min(5));
    if is_mallocs {
        findings::live_at_end(&mut paint, report, look.top.min(5));
    } else if is_collected(report.meta) {
        places::at_end(&mut paint, report.tables, report.profile, look.top.min(5));
    }
    if let Some(found) = report.dark_matter {
        paint.heading("Dark matter: what memory reporters name");
        let found = found.clone().with_frames(heaplab_dark_matter::FRAMES);
        heaplab_dark_matter::section(&mut paint, &found, &Look { top: look.top.min(2), ..*look });
    }
    paint.finish()
}

fn on(basis: Basis) -> String {
    if basis == Basis::Measured {
        "usable sizes as measured".into()
    } else {
        format!("usable sizes of {}", basis.title())
    }
}

/// The program's name as the title.
fn title(paint: &mut Paint, meta: &Meta) {
    let is_known = !meta.program.is_empty();
    paint.title(if is_known { &meta.program } else { "(the program's name is not known)" });
}

fn header(paint: &mut Paint, report: &Report<'_>) {
    let meta = report.meta;
    title(paint, meta);
    for sentence in &report.findings.lead {
        paint.item("", sentence);
    }
    let allocator = if meta.allocator.is_empty() {
        "allocator not known".into()
    } else {
        format!("recorded under {}", meta.allocator)
    };
    let depth = if meta.stack_depth == 0 {
        "no stacks".into()
    } else {
        format!("stacks to {}", plural(meta.stack_depth.into(), "frame"))
    };
    let mut facts = vec![allocator, plural(report.profile.totals.events, "event")];
    if meta.duration_ns > 0 {
        facts.push(duration(meta.duration_ns));
    }
    facts.extend([depth, plural(report.profile.threads.len() as u64, "thread")]);
    paint.wrapped("", &facts.join(" · "));
    if meta.sampled_every_words > 0 {
        paint.wrapped(
            "",
            &format!(
                "a profile: one word in {} was sampled; bytes stand for all, numbers of objects are those of samples",
                count(meta.sampled_every_words)
            ),
        );
    }
    if meta.death_rule == NOTICED_AT_COLLECTION {
        let apart = if meta.granularity_bytes == 0 {
            String::new()
        } else {
            format!(", {} of new objects apart", bytes(meta.granularity_bytes))
        };
        paint.wrapped(
            "",
            &format!("deaths noticed at collections{apart}: until then an object counts as live"),
        );
    }
    process(paint, report);
}

/// The process of the report, among the others of the recording.
fn process(paint: &mut Paint, report: &Report<'_>) {
    let tables = report.tables;
    let Some(row) = report.process else {
        if tables.processes.len() > 1 {
            paint.wrapped("", &format!("all {} processes together", tables.processes.len()));
        }
        return;
    };
    let Some(process) = tables.processes.get(row as usize) else { return };
    let command = if process.arguments.is_empty() {
        process.executable.clone()
    } else {
        one_line(&process.arguments.join(" "))
    };
    let end = match process.ended {
        Ended::Exited(0) => String::new(),
        Ended::Exited(status) => format!(", exit status {status}"),
        Ended::Signalled(signal) => format!(", killed by signal {signal}"),
        Ended::Exec => ", became another program".into(),
        // A worker of Node ends without a status.
        Ended::Unknown if process.ended_ns.is_some() => String::new(),
        Ended::Unknown => ", end not seen".into(),
    };
    paint.wrapped(
        "",
        &format!(
            "one of {} processes: pid {}, {command}{end}",
            tables.processes.len(),
            process_label(&tables.processes, row as usize)
        ),
    );
    let others: Vec<String> = report
        .peaks
        .iter()
        .filter(|peak| peak.process != row)
        .take(4)
        .map(|peak| other(tables, peak))
        .collect();
    if !others.is_empty() {
        let more = report.peaks.len() - 1 - others.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        paint.wrapped(
            "",
            &format!(
                "it has the largest peak; others: {}{more}. Choose with --process PID, NAME or all",
                others.join(", ")
            ),
        );
    }
}

/// A command's words on one line: a script given as an argument has many.
fn one_line(command: &str) -> String {
    const CHARACTERS_MAX: usize = 200;
    lines::cut(&command.split_whitespace().collect::<Vec<_>>().join(" "), CHARACTERS_MAX)
}

fn other(tables: &Tables, peak: &ProcessPeak) -> String {
    let row = peak.process as usize;
    let (pid, name) = tables.processes.get(row).map_or_else(
        || ("0".into(), "?"),
        |process| (process_label(&tables.processes, row), process.program_name()),
    );
    // A program that takes its memory past malloc is the largest one with the least peak.
    let resident = resident_peak(tables, Some(peak.process))
        .map_or(String::new(), |resident| format!(" of {} resident", bytes(resident.bytes)));
    format!("{pid} {name} (peak {}{resident})", bytes(peak.peak_bytes))
}

/// Limits of the figures stand at the top.
fn warnings(paint: &mut Paint, report: &Report<'_>) {
    let (meta, totals) = (report.meta, report.profile.totals);
    if let Some(cut) = &meta.cut {
        paint.warning(&format!("The recording was cut: {cut}"));
    }
    for loss in &meta.losses {
        paint.warning(loss);
    }
    for process in report.tables.processes.iter() {
        // The recording's losses name these too, with their number.
        let untold =
            |refused: &&String| !meta.losses.iter().any(|loss| loss.contains(refused.as_str()));
        if let Some(refused) = process.refused.as_ref().filter(untold) {
            paint.warning(&format!(
                "Nothing was recorded of pid {} ({}): {refused}",
                process.pid, process.executable
            ));
        }
    }
    if totals.unmatched_rows > 0 {
        let (rows, are) = (
            plural(totals.unmatched_rows, "row"),
            if totals.unmatched_rows == 1 { "is" } else { "are" },
        );
        paint.warning(&format!(
            "{rows} {are} about an object that is not live there: its birth was not recorded, or the recording is damaged, of which --verify says where."
        ));
    }
    if totals.unmeasured_requests > 0 && totals.unmeasured_requests < totals.requests {
        paint.warning(&format!(
            "The usable size of {} is not known.",
            plural(totals.unmeasured_requests, "request")
        ));
    }
    for limit in &report.findings.limits {
        paint.warning(limit);
    }
}

fn live(paint: &mut Paint, report: &Report<'_>) {
    let moves_unknown = report.meta.moves_unknown;
    let profile = report.profile;
    let (peak, end, totals) = (&profile.peak, &profile.end, &profile.totals);
    paint.heading("Live memory");
    let when = match profile.timeline.axis {
        TimelineAxis::Time => duration(peak.time_ns),
        TimelineAxis::Events => format!("event {}", count(peak.row)),
    };
    paint.wrapped(
        "",
        &format!(
            "peak {} in {} at {when}, end {} in {}",
            bytes(peak.live.bytes),
            plural(peak.live.objects, "object"),
            bytes(end.live.bytes),
            plural(end.live.objects, "object"),
        ),
    );
    sparkline(paint, &profile.timeline, report.end_ns());
    resident(paint, report);
    let moved = if totals.reallocations > 0 && moves_unknown {
        format!(", {} (moves are not known)", plural(totals.reallocations, "reallocation"))
    } else if totals.reallocations > 0 {
        format!(
            ", {} ({} moved, {} copied)",
            plural(totals.reallocations, "reallocation"),
            count(totals.moved_reallocations),
            copied(totals.moved_bytes, totals.remapped_bytes)
        )
    } else {
        String::new()
    };
    if is_collected(report.meta) {
        let (born, died) = (plural(totals.allocations, "object"), count(totals.frees));
        let born_bytes = bytes(totals.requested_bytes);
        paint.wrapped("", &format!("{born} born, {born_bytes} in all{moved}; {died} died"));
        return;
    }
    let failed = if totals.failed_requests > 0 {
        format!(", {} refused", count(totals.failed_requests))
    } else {
        String::new()
    };
    paint.wrapped("", &format!(
        "{}, {}{moved}{failed}; {} asked for in all, {} of it zeroed; {} of the objects were freed before their thread asked for anything else",
        plural(totals.allocations, "allocation"),
        plural(totals.frees, "free"),
        bytes(totals.requested_bytes),
        bytes(totals.zeroed_bytes),
        percent(totals.temporary as f64 / totals.allocations.max(1) as f64),
    ));
}

/// Memory that the system saw beside the requested bytes.
fn resident(paint: &mut Paint, report: &Report<'_>) {
    // Of a JVM's metaspace, resident memory is all that the JVM has.
    let Some(resident) = resident_peak(report.tables, report.process)
        .filter(|_| !heaplab_jvm::is_metaspace(report.tables))
    else {
        return;
    };
    let parts = resident_parts(report.tables, report.process);
    let peak = report.profile.peak.live.bytes;
    let most = if resident.is_kernels {
        format!("resident at most {}, as the kernel counted", bytes(resident.bytes))
    } else {
        format!(
            "resident {} in the largest of {}; between samples it may be more",
            bytes(resident.bytes),
            plural(resident.samples, "sample")
        )
    };
    if parts.is_some_and(|parts| parts.is_near(resident.bytes)) {
        paint.wrapped("", &format!("{most}; its parts stand below"));
        return;
    }
    let Some(others) = resident.bytes.checked_sub(peak) else {
        paint.wrapped(
            "",
            &format!(
                "{most}: less than was live, because blocks that are never written take no memory"
            ),
        );
        return;
    };
    if report.meta.cut.is_some() {
        let beyond = bytes(others);
        let what = "blocks of malloc after the cut, and memory that malloc did not give";
        paint.wrapped("", &format!("{most}; beyond the recorded peak {beyond}: {what}"));
        return;
    }
    let share = percent(others as f64 / resident.bytes.max(1) as f64);
    paint.wrapped(
        "",
        &format!(
            "{most}; beyond the peak of live bytes {} ({share}), which are no blocks of malloc:",
            bytes(others)
        ),
    );
    paint.wrapped_dim(
        "  ",
        "code, stacks, mappings made without malloc, the allocator's rounding and free memory, the recorder's pages. The division is not exact: the two peaks may be of different moments, and blocks that are never written are not resident.",
    );
}

/// Live bytes over the run, the most of each column. The last event's live bytes stay to the end.
fn sparkline(paint: &mut Paint, timeline: &Timeline, end_ns: u64) {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let (Some(first), Some(last)) = (timeline.points.first(), timeline.points.last()) else {
        return;
    };
    let most = timeline.points.iter().map(|point| point.max_bytes).max().unwrap_or(0);
    let columns = (paint.width() - 2).min(100);
    let mut end = last.at + timeline.width;
    if timeline.axis == TimelineAxis::Time {
        end = end.max(end_ns);
    }
    let span = (end - first.at).max(1);
    let mut line = String::new();
    let mut points = timeline.points.iter().peekable();
    let mut level = 0;
    for column in 0..columns {
        let until = first.at + (u128::from(span) * (column as u128 + 1) / columns as u128) as u64;
        // A column without events shows the live bytes before it.
        let mut highest = level;
        while let Some(point) = points.next_if(|point| point.at < until) {
            highest = highest.max(point.max_bytes);
            level = point.live.bytes;
        }
        line.push(BARS[(u128::from(highest) * 7 / u128::from(most.max(1))) as usize]);
    }
    paint.chart(&line);
    let (from, to) = match timeline.axis {
        TimelineAxis::Time => (duration(first.at), duration(end)),
        TimelineAxis::Events => {
            (format!("event {}", count(first.at)), format!("event {}", count(end)))
        }
    };
    let gap = columns.saturating_sub(from.chars().count() + to.chars().count());
    paint.dim(&format!("{from}{}{to}", " ".repeat(gap)));
}

fn slop(paint: &mut Paint, report: &Report<'_>) {
    paint.heading("Slop: bytes that the allocator adds to requests");
    const FIGURES: usize = 46;
    // The name gets the columns beside the figures, at most 34: a wider gap would part it from
    // its figures. Names cut to fewer than 26 look alike, and get lines of their own.
    let beside = paint.width().saturating_sub(FIGURES).min(34);
    let name_columns = if beside < 26 { 0 } else { beside };
    paint.dim(&format!(
        "{:<name_columns$}{:>12}{:>12}{:>9}{:>13}",
        "", "peak", "usable", "slop", "slop, run"
    ));
    for row in &report.findings.slop {
        let name = match row.basis {
            Basis::Measured if report.meta.allocator.is_empty() => "measured".to_string(),
            // Of a sanitizer, its library's file stands behind its name.
            Basis::Measured => {
                let name = report.meta.allocator.split(" (").next().unwrap_or_default();
                format!("measured ({name})")
            }
            Basis::Table(_) => row.basis.title().to_string(),
        };
        let print = |paint: &mut Paint, line: &str| match row.basis {
            Basis::Measured => paint.bold(line),
            Basis::Table(_) => paint.line(line),
        };
        let beside = match name_columns {
            0 => {
                print(paint, &lines::cut(&name, paint.width()));
                String::new()
            }
            columns => lines::cut(&name, columns - 1),
        };
        let line = format!(
            "{beside:<name_columns$}{:>12}{:>12}{:>9}{:>13}",
            bytes(row.at_peak_requested_bytes),
            bytes(row.at_peak_usable_bytes),
            percent(row.at_peak_share()),
            percent(row.total_share())
        );
        print(paint, &line);
    }
    let header = report.findings.slop.iter().map(|row| row.at_peak_header_bytes).max().unwrap_or(0);
    if header > 0 {
        paint.dim(&format!("glibc's chunk headers come on top: {} at the peak", bytes(header)));
    }
    if let Some(site) = report.findings.uses_its_slop.first() {
        let reads: u64 =
            report.findings.uses_its_slop.iter().map(|site| site.usable_size_reads).sum();
        let first = frames::lines(report.tables, site.stack, 1).0.join("");
        paint
            .wrapped("", &uses_its_slop(report.findings.uses_its_slop.len() as u64, reads, &first));
    }
}

/// That sites may use their slop; `first` is empty where no stack was recorded.
fn uses_its_slop(sites: u64, reads: u64, first: &str) -> String {
    let (read, its) = if sites == 1 { ("reads", "its") } else { ("read", "their") };
    let (sites, times) = (plural(sites, "site"), plural(reads, "time"));
    let first = match (first, its) {
        ("", _) => String::new(),
        (first, "its") => format!(" It is {first}"),
        (first, _) => format!(" The first: {first}"),
    };
    format!(
        "{sites} {read} {its} usable size ({times}) and may use {its} slop; it is not called waste.{first}"
    )
}

/// The document's table; `usable`: with the usable size of each request.
fn counts(paint: &mut Paint, heading: &str, table: &CountsTable, most: usize, usable: bool) {
    paint.heading(heading);
    paint.line(&format!(
        "{}, {}:",
        plural(table.requests, if usable { "request" } else { "object" }),
        plural(table.lines, "distinct size")
    ));
    let rows = &table.rows[..most.min(table.rows.len())];
    let widest = |value: fn(&heaplab_findings::CountsRow) -> u64| {
        rows.iter().map(|row| count(value(row)).len()).max().unwrap_or(1)
    };
    let (counts, requests) = (widest(|row| row.count), widest(|row| row.request));
    let (usables, slops) = (widest(|row| row.usable), widest(|row| row.slop));
    for (rank, row) in rows.iter().enumerate() {
        let line = format!(
            "({:>2} ) {:>counts$} ({:>4.1}%, {:>5.1}%): {:>requests$}",
            rank + 1,
            count(row.count),
            row.percent,
            row.cumulative_percent,
            count(row.request),
        );
        let (became, slop) = (count(row.usable), count(row.slop));
        let became = format!(" -> {became:>usables$} ( {slop:>slops$} )");
        paint.line(&if usable { line + &became } else { line });
    }
}

#[cfg(test)]
mod tests;
