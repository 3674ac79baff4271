//! The comparison as text for a terminal: the verdict, whole runs, findings, functions, stacks,
//! sizes.

use crate::change::Change;
use crate::comparison::{Comparison, FunctionChange, LineChange, Presence, StackChange};
use crate::findings::{Became, FindingChange};
use crate::run::{Figure, Recorded};
use crate::verdict::{signed, signed_percent};
use heaplab_text::paint::{Look, Paint};
use heaplab_text::table::Table;
use heaplab_text::words::{bytes, count, plural};

/// Functions of a stack that are shown.
const STACK_SHOWN: usize = 6;

/// The whole comparison.
pub fn comparison(of: &Comparison, look: &Look) -> String {
    let mut paint = Paint::new(look.width, look.colour);
    let program = of.after.first().map_or("", |run| run.program.as_str());
    paint.title(if program.is_empty() { "(the program's name is not known)" } else { program });
    for (number, sentence) in of.verdict.sentences.iter().enumerate() {
        if number == 0 {
            paint.item("", sentence);
        } else {
            paint.wrapped("", sentence);
        }
    }
    of.warnings.iter().for_each(|warning| paint.warning(warning));
    paint.line("");
    recordings(&mut paint, "before", &of.before);
    recordings(&mut paint, "after", &of.after);
    whole(&mut paint, of);
    findings(&mut paint, of, look.top);
    functions(&mut paint, of, look.top);
    stacks(&mut paint, of, look.top);
    sizes(&mut paint, of, look.top.min(5));
    paint.finish()
}

fn recordings(paint: &mut Paint, side: &str, runs: &[Recorded]) {
    for run in runs {
        let process = if run.process.is_empty() {
            String::new()
        } else {
            format!(", process {}", run.process)
        };
        paint.dim(&format!("{side:<6}  {}{process}", run.path));
    }
}

/// Columns for a name beside an interval; with fewer, the interval has a line of its own.
const NAME_WIDTH_MIN: usize = 34;

/// A table of changes: what differs, and its name.
struct Changes {
    name: String,
    has_spread: bool,
    rows: Vec<Row>,
}

/// What stands in a row, as text.
struct Row {
    numbers: [String; 4],
    /// Empty: the runs do not differ.
    interval: String,
    name: String,
}

impl Changes {
    fn new(of: &Comparison, name: &str) -> Changes {
        Changes { name: name.to_owned(), has_spread: of.confidence.is_some(), rows: Vec::new() }
    }

    fn row(&mut self, change: &Change, number: fn(u64) -> String, name: &str) {
        let sign = |value: i64| match value {
            0 => "0".to_owned(),
            ..0 => format!("-{}", number(value.unsigned_abs())),
            _ => format!("+{}", number(value.unsigned_abs())),
        };
        let is_none = change.difference == 0 || !change.is_beyond_spread();
        let difference = if is_none { "none".to_owned() } else { sign(change.difference) };
        let share = if is_none {
            String::new()
        } else {
            change.share().map_or("new".into(), signed_percent)
        };
        let interval = if change.low == change.high {
            String::new()
        } else {
            format!("{} to {}", sign(change.low), sign(change.high))
        };
        let numbers = [number(change.before), number(change.after), difference, share];
        self.rows.push(Row { numbers, interval, name: name.to_owned() });
    }

    fn table(&self, with_intervals: bool) -> Table {
        let interval = |text: &str| with_intervals.then(|| text.to_owned());
        let headings = ["before", "after", "difference", ""].map(str::to_owned);
        let mut table =
            Table::new(headings.into_iter().chain(interval("interval")).chain([self.name.clone()]));
        for row in &self.rows {
            let numbers = row.numbers.iter().cloned();
            table.row(numbers.chain(interval(&row.interval)).chain([row.name.clone()]));
        }
        table
    }

    fn print(self, paint: &mut Paint) {
        let width = |text: &dyn Fn(&Row) -> usize| self.rows.iter().map(text).max().unwrap_or(0);
        let numbers: usize =
            (0..4).map(|at| 2 + width(&|row| row.numbers[at].chars().count())).sum();
        let interval = 2 + width(&|row| row.interval.chars().count());
        let name = width(&|row| row.name.chars().count()).min(NAME_WIDTH_MIN);
        let fits = numbers + interval + name <= paint.width();
        let text = self.table(self.has_spread && fits).text(paint.width());
        let intervals = self.rows.iter().map(|row| row.interval.as_str());
        for (line, interval) in text.lines().zip(std::iter::once("").chain(intervals)) {
            paint.line(line);
            if self.has_spread && !fits && !interval.is_empty() {
                paint.dim(&format!("          between {}", interval.replace(" to ", " and ")));
            }
        }
    }
}

/// The name of a figure.
pub(crate) fn figure_name(figure: Figure, moment: &str) -> String {
    let at = match moment {
        "peak" => "the peak".into(),
        "end" => "the end".into(),
        moment => format!("`{moment}`"),
    };
    match figure {
        Figure::LiveBytes => format!("live at {at}"),
        Figure::LiveObjects => format!("objects live at {at}"),
        Figure::SlopBytes => format!("slop at {at}"),
        Figure::ResidentBytes => "most resident".into(),
        Figure::EndBytes => "live at the end".into(),
        Figure::Allocations => "allocations".into(),
        Figure::Reallocations => "reallocations".into(),
        Figure::Temporary => "freed before another was asked for".into(),
        Figure::RequestedBytes => "asked for in all".into(),
        Figure::CopiedBytes => "copied by reallocations".into(),
    }
}

pub(crate) fn is_bytes(figure: Figure) -> bool {
    !matches!(
        figure,
        Figure::LiveObjects | Figure::Allocations | Figure::Reallocations | Figure::Temporary
    )
}

fn whole(paint: &mut Paint, of: &Comparison) {
    paint.heading("The whole run");
    let mut table = Changes::new(of, "what");
    for row in &of.figures {
        let number = if is_bytes(row.figure) { bytes } else { count };
        table.row(&row.change, number, &figure_name(row.figure, &of.moment));
    }
    for row in &of.marks {
        table.row(&row.change, bytes, &format!("live at `{}`", row.mark));
    }
    table.print(paint);
}

fn findings(paint: &mut Paint, of: &Comparison, top: usize) {
    let (changed, rest): (Vec<&FindingChange>, Vec<&FindingChange>) =
        of.findings.iter().partition(|row| row.became != Became::Same && !row.minor);
    let (same, small): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|row| row.became == Became::Same);
    if of.findings.is_empty() {
        return;
    }
    paint.heading("Findings");
    for row in changed.iter().take(top) {
        let needed = &row.needed_bytes;
        let change = if needed.difference != 0 && needed.is_beyond_spread() {
            format!("; {} at the peak or at the end", signed(needed.difference))
        } else if row.total_bytes.difference != 0 && row.total_bytes.is_beyond_spread() {
            format!("; {} over the run", signed(row.total_bytes.difference))
        } else {
            String::new()
        };
        let moved = row.moved_from.as_ref().map_or(String::new(), |from| format!(" (from {from})"));
        let word = match row.became {
            Became::New => "new",
            Became::More => "more",
            Became::Moved => "moved",
            Became::Less => "less",
            Became::Gone => "gone",
            Became::Same => "same",
        };
        paint.item(&format!("{word:<6} "), &format!("{}{moved}", row.title));
        paint.wrapped_dim("       ", &format!("{}{change}", row.kind));
    }
    more(paint, changed.len(), top, "finding");
    let mut left = Vec::new();
    if !same.is_empty() {
        left.push(format!("{} as before", plural(same.len() as u64, "finding")));
    }
    if !small.is_empty() {
        left.push(format!(
            "{} under a thousandth of the peak",
            plural(small.len() as u64, "finding")
        ));
    }
    if !left.is_empty() {
        let besides = if changed.is_empty() { "" } else { "Besides, " };
        paint.dim(&format!("{besides}{}.", left.join(", ")));
    }
}

fn functions(paint: &mut Paint, of: &Comparison, top: usize) {
    let rows: Vec<_> = of.functions.iter().filter(|row| row.held.differs()).collect();
    paint
        .heading(&format!("By function that asks: {}", figure_name(Figure::LiveBytes, &of.moment)));
    if rows.is_empty() {
        paint.line("No function differs.");
        return;
    }
    let mut table = Changes::new(of, "function");
    let live: Vec<_> = rows.iter().filter(|row| row.held.live_bytes.difference != 0).collect();
    for row in live.iter().take(top) {
        table.row(&row.held.live_bytes, bytes, &named(&row.function, row.presence));
    }
    if live.is_empty() {
        paint.line("No function differs there.");
    } else {
        table.print(paint);
        more(paint, live.len(), top, "function");
    }
    if of.moment != "end" {
        functions_at_end(paint, of, &rows, top.min(5));
    }
    let mut by_requests = rows;
    by_requests.retain(|row| row.held.requests.difference != 0);
    by_requests.sort_by_key(|row| std::cmp::Reverse(row.held.requests.difference.unsigned_abs()));
    if by_requests.is_empty() {
        return;
    }
    paint.heading("By function that asks: requests of the run");
    let mut table = Changes::new(of, "function");
    for row in by_requests.iter().take(top.min(5)) {
        table.row(&row.held.requests, count, &named(&row.function, row.presence));
    }
    table.print(paint);
    more(paint, by_requests.len(), top.min(5), "function");
}

fn named(name: &str, presence: Presence) -> String {
    match (name, presence) {
        ("", _) => "(no stack recorded)".to_owned(),
        (name, Presence::New) => format!("{name} (new)"),
        (name, Presence::Gone) => format!("{name} (gone)"),
        (name, Presence::Both) => name.to_owned(),
    }
}

/// A leak shows at the end: the peak may be equal.
fn functions_at_end(paint: &mut Paint, of: &Comparison, rows: &[&FunctionChange], top: usize) {
    let end = |row: &FunctionChange| row.held.end_bytes;
    let differs = |row: &FunctionChange| end(row).difference != 0 && end(row).is_beyond_spread();
    let mut rows: Vec<_> = rows.iter().filter(|row| differs(row)).collect();
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|row| std::cmp::Reverse(end(row).difference.unsigned_abs()));
    paint.heading("By function that asks: live at the end");
    let mut table = Changes::new(of, "function");
    for row in rows.iter().take(top) {
        table.row(&end(row), bytes, &named(&row.function, row.presence));
    }
    table.print(paint);
    more(paint, rows.len(), top, "function");
}

fn stacks(paint: &mut Paint, of: &Comparison, top: usize) {
    let is_shown = |row: &&StackChange| {
        !row.stack.is_empty()
            && row.held.live_bytes.difference != 0
            && row.held.live_bytes.is_beyond_spread()
    };
    let rows: Vec<&StackChange> = of.stacks.iter().filter(is_shown).collect();
    if rows.is_empty() {
        return;
    }
    paint.heading(&format!("By stack: {}", figure_name(Figure::LiveBytes, &of.moment)));
    for row in rows.iter().take(top.min(5)) {
        let live = &row.held.live_bytes;
        let state = match row.presence {
            Presence::New => ", new",
            Presence::Gone => ", gone",
            Presence::Both => "",
        };
        let inlined = if row.inlined { ", inlined on one side" } else { "" };
        paint.bold(&format!(
            "{:>10}  {} before, {} after{state}{inlined}",
            signed(live.difference),
            bytes(live.before),
            bytes(live.after)
        ));
        for (depth, function) in row.stack.iter().take(STACK_SHOWN).enumerate() {
            let lines = if depth == 0 { moved(&row.lines) } else { String::new() };
            paint.line(&format!("            {function}{lines}"));
        }
        if row.stack.len() > STACK_SHOWN {
            paint.dim(&format!("            and {} further out", row.stack.len() - STACK_SHOWN));
        }
    }
    more(paint, rows.len(), top.min(5), "stack");
}

/// Where the calls are, and where they were.
fn moved(lines: &[LineChange]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for line in lines.iter().filter(|line| line.before.or(line.after).is_some_and(|line| line > 0))
    {
        parts.push(match (line.before, line.after) {
            (Some(before), Some(after)) if before == after => format!("{before}"),
            (Some(before), Some(after)) => format!("{before} -> {after}"),
            (Some(before), None) => format!("{before} (gone)"),
            (None, Some(after)) => format!("{after} (new)"),
            (None, None) => continue,
        });
    }
    let word = if parts.len() == 1 { "line" } else { "lines" };
    if parts.is_empty() { String::new() } else { format!("  {word} {}", parts.join(", ")) }
}

fn sizes(paint: &mut Paint, of: &Comparison, top: usize) {
    let is = |change: &Change| change.difference != 0 && change.is_beyond_spread();
    let mut rows: Vec<_> = of.sizes.iter().filter(|row| is(&row.requests)).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.requests.difference.unsigned_abs()));
    if rows.is_empty() {
        return;
    }
    paint.heading("By size asked for: requests of the run");
    let mut table = Changes::new(of, "size");
    for row in rows.iter().take(top) {
        table.row(&row.requests, count, &plural(row.size_bytes, "byte"));
    }
    table.print(paint);
    more(paint, rows.len(), top, "size");
}

fn more(paint: &mut Paint, all: usize, shown: usize, what: &str) {
    if all > shown {
        let more = plural((all - shown) as u64, &format!("more {what}"));
        paint.dim(&format!("{more} (--top N)"));
    }
}
