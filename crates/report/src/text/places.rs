//! Stacks by the bytes that they hold: at the peak, at a moment, between two moments.

use crate::{Report, Shown, frames};
use heaplab_profile::Profile;
use heaplab_text::paint::Paint;
use heaplab_text::words::{bytes, count, duration, percent, plural};
use heaplab_trace::StackId;
use heaplab_trace::tables::Tables;
use std::collections::HashMap;

/// Frames shown of a stack.
const FRAMES: usize = 6;

/// Stacks with equal shown frames, summed up.
struct Place {
    lines: Vec<String>,
    further: usize,
    stacks: u64,
    bytes: i64,
    objects: i64,
}

/// The places of these stacks, the most bytes first.
fn places(tables: &Tables, stacks: impl Iterator<Item = (StackId, i64, i64)>) -> Vec<Place> {
    let mut index: HashMap<Vec<String>, usize> = HashMap::new();
    let mut places: Vec<Place> = Vec::new();
    for (stack, bytes, objects) in stacks {
        let (lines, further) = frames::lines(tables, stack, FRAMES);
        let at = *index.entry(lines.clone()).or_insert(places.len());
        if at == places.len() {
            places.push(Place { lines, further, stacks: 0, bytes: 0, objects: 0 });
        }
        let place = &mut places[at];
        place.stacks += 1;
        place.bytes += bytes;
        place.objects += objects;
        place.further = place.further.min(further);
    }
    places.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.lines.cmp(&b.lines)));
    places
}

/// The frames, indented; a note if there are none.
pub fn stack(paint: &mut Paint, lines: &[String], further: usize) {
    if lines.is_empty() {
        paint.dim("       (no stack was recorded)");
    }
    for line in lines {
        paint.dim(&format!("       {line}"));
    }
    if further > 0 {
        paint.dim(&format!("       ... {} further out", plural(further as u64, "frame")));
    }
}

/// The stacks behind the peak.
pub fn at_peak(paint: &mut Paint, tables: &Tables, profile: &Profile, most: usize) {
    paint.heading("Who holds the peak");
    let rows = profile.stacks.iter().filter(|row| row.at_peak.objects > 0);
    show(
        paint,
        tables,
        rows.map(|row| (row.stack, row.at_peak.bytes as i64, row.at_peak.objects as i64)),
        profile.peak.live.bytes,
        most,
    );
}

/// The holders of objects live at the end.
pub fn at_end(paint: &mut Paint, tables: &Tables, profile: &Profile, most: usize) {
    paint.heading("Who holds live memory at the end");
    let rows = profile.stacks.iter().filter(|row| row.at_end.objects > 0);
    show(
        paint,
        tables,
        rows.map(|row| (row.stack, row.at_end.bytes as i64, row.at_end.objects as i64)),
        profile.end.live.bytes,
        most,
    );
}

fn show(
    paint: &mut Paint,
    tables: &Tables,
    stacks: impl Iterator<Item = (StackId, i64, i64)>,
    whole: u64,
    most: usize,
) {
    let places = places(tables, stacks);
    for place in places.iter().take(most) {
        let share = place.bytes as f64 / whole.max(1) as f64;
        let alike = if place.stacks > 1 {
            format!(", {} alike", plural(place.stacks, "stack"))
        } else {
            String::new()
        };
        paint.line(&format!(
            "  {:>10} {:>7}  {}{alike}",
            bytes(place.bytes.unsigned_abs()),
            percent(share),
            plural(place.objects.unsigned_abs(), "object")
        ));
        stack(paint, &place.lines, place.further);
    }
    if places.len() > most {
        let rest: i64 = places[most..].iter().map(|place| place.bytes).sum();
        paint.dim(&format!(
            "  {:>10}          in {}",
            bytes(rest.unsigned_abs()),
            plural((places.len() - most) as u64, "more place")
        ));
    }
}

/// The recording's marks with the live bytes at each: the names for `--at` and `--between`.
pub fn marks(paint: &mut Paint, report: &Report<'_>, most: usize) {
    let tables = report.tables;
    if tables.marks.is_empty() {
        return;
    }
    paint.heading("Marks");
    paint.dim(&format!("{:>10}{:>14}{:>14}  mark", "time", "live", "objects"));
    let process = report.process.and_then(|row| tables.processes.get(row as usize));
    for (row, mark) in tables.marks.iter().enumerate().take(most) {
        let passed = report.profile.marks.iter().find(|passed| passed.mark as usize == row);
        let (live, objects) = match (passed, process) {
            // A mark of the shown process counts, whatever the process's times say.
            (_, Some(process))
                if mark.process != report.process && mark.time_ns < process.began_ns =>
            {
                ("not begun".into(), String::new())
            }
            (_, Some(process))
                if mark.process != report.process && !process.ran_at(mark.time_ns) =>
            {
                ("ended".into(), String::new())
            }
            (Some(passed), _) => (bytes(passed.live.bytes), count(passed.live.objects)),
            (None, _) => ("not known".into(), String::new()),
        };
        paint.line(&format!(
            "{:>10}{live:>14}{objects:>14}  {}",
            duration(mark.time_ns),
            tables.mark_name(row)
        ));
    }
    if tables.marks.len() > most {
        paint.dim(&format!(
            "and {} more; --top {} shows them",
            count((tables.marks.len() - most) as u64),
            tables.marks.len()
        ));
    }
}

/// The moments of `--at` and `--between`.
pub fn moments(paint: &mut Paint, tables: &Tables, shown: &Shown, most: usize) {
    match shown {
        Shown::Nothing => {}
        Shown::At { moment } => {
            let time = if moment.time_ns > 0 {
                format!("{}, ", duration(moment.time_ns))
            } else {
                String::new()
            };
            paint.heading(&format!("At {} ({time}after event {})", moment.name, count(moment.row)));
            paint.line(&format!(
                "{} live in {}",
                bytes(moment.live.bytes),
                plural(moment.live.objects, "object")
            ));
            let live = moment.stacks.iter().filter(|row| row.live.objects > 0);
            show(
                paint,
                tables,
                live.map(|row| (row.stack, row.live.bytes as i64, row.live.objects as i64)),
                moment.live.bytes,
                most,
            );
        }
        Shown::Between { from, to, stacks } => {
            paint.heading(&format!(
                "Between {} ({}) and {} ({})",
                from.name,
                duration(from.time_ns),
                to.name,
                duration(to.time_ns)
            ));
            let requested: u64 = stacks.iter().map(|change| change.requested.bytes).sum();
            let requests: u64 = stacks.iter().map(|change| change.requested.objects).sum();
            paint.wrapped(
                "",
                &format!(
                    "live: {} -> {} in {} -> {}; {} asked for in {}",
                    bytes(from.live.bytes),
                    bytes(to.live.bytes),
                    count(from.live.objects),
                    plural(to.live.objects, "object"),
                    bytes(requested),
                    plural(requests, "request"),
                ),
            );
            for (what, grew) in [("more", true), ("less", false)] {
                let changed = stacks
                    .iter()
                    .filter(|change| change.live_bytes != 0 && (change.live_bytes > 0) == grew);
                let sign = if grew { 1 } else { -1 };
                let changed: Vec<_> = changed
                    .map(|change| {
                        (change.stack, sign * change.live_bytes, sign * change.live_objects)
                    })
                    .collect();
                if !changed.is_empty() {
                    let whole = changed.iter().map(|change| change.1).sum::<i64>().unsigned_abs();
                    paint.bold(&format!("{} {what} live", bytes(whole)));
                    show(paint, tables, changed.into_iter(), whole, most);
                }
            }
        }
    }
}
