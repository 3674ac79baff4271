//! From `events.parquet` to events.

use super::columns::{COLUMNS, FAMILIES, OPS, ORIGINS};
use super::{Bundle, Selection};
use crate::parquet::read::{ColumnReader, FileReader, Present, Stretch};
use crate::tables::Tables;
use crate::{Event, EventSource, Family, Flags, Op, Origin, TraceError};

/// Most events of a batch: few enough to stay in the nearest caches while column after column is
/// set.
const BATCH: usize = 512;

/// The events of a bundle.
#[derive(Debug)]
pub struct Events {
    file: FileReader,
    selection: Selection,
    columns: Vec<(usize, ColumnReader)>,
    next_group: usize,
    limits: Limits,
    row: u64,
}

/// Row counts of the tables: upper bounds of references.
#[derive(Clone, Copy, Debug)]
struct Limits {
    objects: u64,
    processes: u64,
    threads: u64,
    stacks: u64,
    arenas: u64,
    marks: u64,
}

impl Limits {
    fn of(tables: &Tables, objects: u64) -> Limits {
        Limits {
            objects,
            processes: tables.processes.len() as u64,
            threads: tables.threads.len() as u64,
            stacks: tables.stacks.len() as u64,
            arenas: tables.arenas.len() as u64,
            marks: tables.marks.len() as u64,
        }
    }
}

impl Events {
    pub(super) fn open(bundle: &Bundle, selection: Selection) -> Result<Events, TraceError> {
        let file = FileReader::open(&bundle.path.join(super::EVENTS_FILE))?;
        if file.footer().rows != bundle.meta.events || bundle.meta.objects > bundle.meta.events {
            return Err(TraceError::Malformed {
                path: file.path().into(),
                place: "footer".into(),
                expected: format!(
                    "{} rows and at most as many objects, as meta.json says",
                    bundle.meta.events
                ),
                found: format!("{} rows, {} objects", file.footer().rows, bundle.meta.objects),
            });
        }
        let mut columns = Vec::with_capacity(COLUMNS.len());
        for (index, column) in COLUMNS.iter().enumerate() {
            let Some(mut reader) = file.column(column)? else {
                // A column that is null in all rows may be missing. These two are null in some rows
                // and identify the others.
                if ["object", "size"].contains(&column.name) {
                    let (place, expected) =
                        ("its schema".into(), format!("a column {}", column.name));
                    return Err(TraceError::Malformed {
                        path: file.path().into(),
                        place,
                        expected,
                        found: "none of that name".into(),
                    });
                }
                continue;
            };
            reader = reader.null_is(0);
            reader = match column.name {
                "op" => reader.naming(|name| number_in(&OPS, name)),
                "family" => reader.naming(|name| number_in(&FAMILIES, name)),
                "origin" => reader.naming(|name| number_in(&ORIGINS, name)),
                _ => reader,
            };
            columns.push((index, reader));
        }
        let limits = Limits::of(&bundle.tables, bundle.meta.objects);
        Ok(Events { file, selection, columns, next_group: 0, limits, row: 0 })
    }

    /// Rows of the next batch; 0 at the end.
    fn advance(&mut self) -> Result<usize, TraceError> {
        loop {
            let mut rows = BATCH;
            for (_, column) in &mut self.columns {
                rows = rows.min(column.rows_ready(&self.file)?);
            }
            if rows > 0 {
                return Ok(rows);
            }
            if self.next_group == self.file.footer().groups.len() {
                return Ok(0);
            }
            for (_, column) in &mut self.columns {
                column.open_group(&self.file, self.next_group)?;
            }
            self.next_group += 1;
        }
    }

    /// Checks that every event of the rows just taken has its required values. A null reads as 0,
    /// which may be an object or a size.
    fn check_present(&self, batch: &[Event]) -> Result<(), TraceError> {
        for (index, column) in &self.columns {
            let needs: fn(&Event) -> bool = match COLUMNS[*index].name {
                "object" => is_about_object,
                "size" => has_size,
                _ => continue,
            };
            let without = match column.present() {
                Present::All => None,
                Present::None => batch.iter().position(needs),
                Present::Levels(levels) => {
                    batch.iter().zip(levels).position(|(event, level)| (*level == 0) & needs(event))
                }
            };
            if let Some(at) = without {
                let name = COLUMNS[*index].name;
                return Err(TraceError::Malformed {
                    path: self.file.path().into(),
                    place: format!("row {}, column {name}", self.row + at as u64),
                    expected: format!("a value, which this {} needs", OPS[batch[at].op as usize]),
                    found: "null".into(),
                });
            }
        }
        Ok(())
    }
}

fn number_in(names: &[&str], name: &str) -> Option<u64> {
    names.iter().position(|known| *known == name).map(|number| number as u64)
}

impl EventSource for Events {
    fn next_batch(&mut self, batch: &mut Vec<Event>) -> Result<(), TraceError> {
        loop {
            batch.clear();
            let rows = self.advance()?;
            if rows == 0 {
                return Ok(());
            }
            let stretches: Vec<(usize, Stretch)> = self
                .columns
                .iter_mut()
                .map(|(index, column)| (*index, column.take(rows)))
                .collect();
            fill(batch, rows, &stretches, &self.limits).map_err(|(column, expected, found)| {
                malformed(&self.file, self.row, column, expected, found)
            })?;
            self.check_present(batch)?;
            self.row += rows as u64;
            if let Some(process) = self.selection.process {
                batch.retain(|event| event.process == process);
            }
            if !batch.is_empty() {
                return Ok(());
            }
        }
    }
}

/// Column, expected, found.
type Wrong = (usize, String, String);

fn malformed(
    file: &FileReader,
    row: u64,
    column: usize,
    expected: String,
    found: String,
) -> TraceError {
    let place = format!("column {}, in the rows from {row}", COLUMNS[column].name);
    TraceError::Malformed { path: file.path().into(), place, expected, found }
}

/// Makes `rows` events of the columns: constants first, once for all, then varying values.
fn fill(
    batch: &mut Vec<Event>,
    rows: usize,
    stretches: &[(usize, Stretch)],
    limits: &Limits,
) -> Result<(), Wrong> {
    let mut template = Event::default();
    let mut greatest_op = 0;
    let mut marks = Stretch::Constant(0);
    for (index, stretch) in stretches {
        let greatest = match stretch {
            Stretch::Constant(value) => *value,
            Stretch::Values(values) => values.iter().copied().max().unwrap_or(0),
        };
        check(*index, greatest, limits)?;
        match (COLUMNS[*index].name, stretch) {
            ("op", _) => greatest_op = greatest,
            ("mark", stretch) => marks = *stretch,
            _ => {}
        }
        if let Stretch::Constant(value) = stretch {
            set(*index, std::slice::from_mut(&mut template), &[*value])?;
        }
    }
    batch.resize(rows, template);
    for (index, stretch) in stretches {
        if let Stretch::Values(values) = stretch {
            set(*index, batch, values)?;
        }
    }
    if greatest_op >= Op::ArenaBirth as u64 {
        name_rows(batch, marks);
    }
    let names_object = |event: &&Event| is_about_object(event) && event.object >= limits.objects;
    // The check by column cannot tell object 0 from null: this matters only without any object.
    if limits.objects == 0
        && let Some(event) = batch.iter().find(names_object)
    {
        return Err((1, "no object, as meta.json says".into(), format!("object {}", event.object)));
    }
    Ok(())
}

fn is_about_object(event: &Event) -> bool {
    match event.op {
        Op::Alloc | Op::Report => !event.has(Flags::FAILED),
        Op::Free | Op::Realloc | Op::UsableSizeRead | Op::Promote | Op::Reference => true,
        _ => false,
    }
}

fn has_size(event: &Event) -> bool {
    matches!(event.op, Op::Alloc | Op::Realloc)
}

/// Operations on rows of a table carry the row as their object.
fn name_rows(batch: &mut [Event], marks: Stretch) {
    for (row, event) in batch.iter_mut().enumerate() {
        match (event.op, marks) {
            (Op::ArenaBirth | Op::ArenaDeath, _) => event.object = event.arena.into(),
            (Op::Mark, Stretch::Constant(mark)) => event.object = mark,
            (Op::Mark, Stretch::Values(marks)) => event.object = marks[row],
            _ => {}
        }
    }
}

/// Whether the greatest value of a column stays within its table.
fn check(index: usize, greatest: u64, limits: &Limits) -> Result<(), Wrong> {
    let (limit, what) = match COLUMNS[index].name {
        "object" => (limits.objects.max(1), "objects born"),
        "process" => (limits.processes, "rows of processes.parquet"),
        "thread" => (limits.threads, "rows of threads.parquet"),
        "stack" => (limits.stacks.max(1), "rows of stacks.parquet"),
        "arena" => (limits.arenas.max(1), "rows of arenas.parquet"),
        "mark" => (limits.marks.max(1), "rows of marks.parquet"),
        "time_ns" => (1 << 63, "nanoseconds"),
        _ => return Ok(()),
    };
    if greatest >= limit {
        return Err((index, format!("values under {limit}, the {what}"), greatest.to_string()));
    }
    Ok(())
}

/// Sets the field of column `index` in each event.
fn set(index: usize, batch: &mut [Event], values: &[u64]) -> Result<(), Wrong> {
    fn each(batch: &mut [Event], values: &[u64], set: impl Fn(&mut Event, u64)) {
        batch.iter_mut().zip(values).for_each(|(event, value)| set(event, *value));
    }
    fn flag(batch: &mut [Event], values: &[u64], flag: Flags) {
        each(batch, values, |event, value| event.flags.0 |= flag.0 * value as u16);
    }
    match COLUMNS[index].name {
        "op" => {
            each(batch, values, |event, value| event.op = Op::ALL[value as usize % Op::ALL.len()])
        }
        "object" => each(batch, values, |event, value| event.object = value),
        "size" => each(batch, values, |event, value| event.size = value),
        "usable" => each(batch, values, |event, value| event.usable = value),
        "alignment" => {
            if let Some(wrong) =
                values.iter().find(|value| **value != 0 && !value.is_power_of_two())
            {
                return Err((index, "powers of two".into(), wrong.to_string()));
            }
            each(batch, values, |event, value| {
                event.align_log2 = (value.trailing_zeros() % 64) as u8
            });
        }
        "zeroed" => flag(batch, values, Flags::ZEROED),
        "moved" => flag(batch, values, Flags::MOVED),
        "failed" => flag(batch, values, Flags::FAILED),
        "inherited" => flag(batch, values, Flags::INHERITED),
        "direct_to_old" => flag(batch, values, Flags::DIRECT_TO_OLD),
        "family" => each(batch, values, |event, value| {
            event.family = Family::from_number(value as u8).unwrap_or_default()
        }),
        "process" => each(batch, values, |event, value| event.process = value as u32),
        "thread" => each(batch, values, |event, value| event.thread = value as u32),
        "stack" => each(batch, values, |event, value| event.stack = value as u32),
        "arena" => each(batch, values, |event, value| event.arena = value as u32),
        "time_ns" => each(batch, values, |event, value| event.time_ns = value),
        "address" => each(batch, values, |event, value| event.address = value),
        "origin" => each(batch, values, |event, value| {
            event.origin = Origin::from_number(value as u8).unwrap_or_default()
        }),
        "collection" => each(batch, values, |event, value| event.collection = value as u32),
        "field" => each(batch, values, |event, value| event.field = value as u32),
        "target" => each(batch, values, |event, value| event.target = value),
        _ => {}
    }
    Ok(())
}
