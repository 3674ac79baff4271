//! Events to `events.parquet`.

use super::columns::{COLUMNS, FAMILIES, OPS, ORIGINS};
use crate::parquet::PAGE_ROWS;
use crate::parquet::encode::Present;
use crate::parquet::footer::RowGroup;
use crate::parquet::schema::{Column, Kind};
use crate::parquet::write::{ColumnWriter, FileWriter, Squeeze};
use crate::{Event, Flags, Op};
use std::io::Write;

/// Events whose columns are gathered at once: what stays in the nearest cache (20 KiB of 32). A power of two, a multiple of 8.
const BATCH: usize = 256;

/// Collects events into pages.
#[derive(Debug)]
pub struct EventWriter<W: Write> {
    file: FileWriter<W>,
    batch: Vec<Event>,
    page: Vec<Gathered>,
    page_rows: usize,
    counts: Counts,
    /// Whether addresses are written.
    addresses: bool,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Rows.
    pub events: u64,
    /// Objects born.
    pub objects: u64,
    /// The latest time.
    pub end_ns: u64,
}

impl<W: Write> EventWriter<W> {
    /// Begins a file.
    pub fn new(out: W) -> std::io::Result<EventWriter<W>> {
        let file = FileWriter::new(out, &COLUMNS)?;
        let page = COLUMNS.iter().map(|_| Gathered::default()).collect();
        Ok(EventWriter { file, batch: Vec::with_capacity(BATCH), page, page_rows: 0, counts: Counts::default(), addresses: true })
    }

    /// Takes the next event.
    #[inline]
    pub fn push(&mut self, event: &Event) -> std::io::Result<()> {
        self.batch.push(*event);
        if self.batch.len() == BATCH { self.gather() } else { Ok(()) }
    }

    /// From here on, no addresses.
    pub fn leave_out_addresses(&mut self) {
        self.addresses = false;
    }

    /// Whether no event was taken so far.
    pub fn is_empty(&self) -> bool {
        self.counts.events == 0 && self.batch.is_empty()
    }

    /// Takes the batch apart into columns.
    fn gather(&mut self) -> std::io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let mut spread = Spread::of(&self.batch);
        if !self.addresses {
            spread.varies.address = 0;
        }
        self.counts.events += self.batch.len() as u64;
        self.counts.objects += spread.births;
        self.counts.end_ns = self.counts.end_ns.max(spread.end_ns);
        for (column, gathered) in COLUMNS.iter().zip(&mut self.page) {
            gather_column(column.name, &self.batch, &spread, gathered);
        }
        self.page_rows += self.batch.len();
        self.batch.clear();
        if self.page_rows >= PAGE_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let (rows, page) = (self.page_rows, &mut self.page);
        if rows > 0 {
            self.file.page(rows, |index, column, squeeze| write_column(index, &mut page[index], column, squeeze))?;
        }
        self.page_rows = 0;
        Ok(())
    }

    /// Writes what is left; gives back what was written to, and the row groups.
    pub fn finish(mut self) -> std::io::Result<(W, Vec<RowGroup>, Counts)> {
        self.gather()?;
        self.flush()?;
        let (out, groups) = self.file.finish(&[("heaplab.format_version".into(), super::FORMAT_VERSION.to_string())])?;
        Ok((out, groups, self.counts))
    }
}

/// Which fields vary within a batch: most columns of most batches hold one value.
#[derive(Debug)]
struct Spread {
    /// For fields that are mostly zero their bits in any event, for others the bits in which some event differs from the first.
    varies: Event,
    op: u16,
    flags: u16,
    origin: u8,
    family: u8,
    births: u64,
    end_ns: u64,
}

impl Spread {
    fn of(batch: &[Event]) -> Spread {
        let first = &batch[0];
        let mut spread = Spread { varies: Event::default(), op: 0, flags: 0, origin: 0, family: 0, births: 0, end_ns: 0 };
        let varies = &mut spread.varies;
        for event in batch {
            spread.op |= 1 << event.op as u16;
            spread.flags |= event.flags.0;
            spread.family |= event.family as u8 ^ first.family as u8;
            spread.origin |= event.origin as u8;
            varies.align_log2 |= event.align_log2;
            varies.process |= event.process ^ first.process;
            varies.thread |= event.thread ^ first.thread;
            varies.stack |= event.stack;
            varies.arena |= event.arena ^ first.arena;
            varies.collection |= event.collection;
            varies.address |= event.address;
            varies.usable |= event.usable;
            spread.births += u64::from(event.op == Op::Alloc && event.counts());
            spread.end_ns = spread.end_ns.max(event.time_ns);
        }
        spread
    }

    /// Whether an operation of this set is among them.
    fn any(&self, set: u16) -> bool {
        self.op & set != 0
    }
}

/// Operations as a set, for "does this operation have that column".
const fn ops<const N: usize>(ops: [Op; N]) -> u16 {
    let mut set = 0;
    let mut index = 0;
    while index < N {
        set |= 1 << ops[index] as u16;
        index += 1;
    }
    set
}

const WITH_OBJECT: u16 = ops([Op::Alloc, Op::Free, Op::Realloc, Op::UsableSizeRead, Op::Promote, Op::Reference]);
const WITH_SIZE: u16 = ops([Op::Alloc, Op::Realloc]);
const COLLECTIONS: u16 = ops([Op::CollectBegin, Op::CollectEnd]);
const REFERENCES: u16 = ops([Op::Reference]);
const MARKS: u16 = ops([Op::Mark]);

const fn is(event: &Event, set: u16) -> bool {
    set >> (event.op as u16) & 1 == 1
}

/// A failed allocation: no object came of it.
fn born_nothing(event: &Event) -> bool {
    event.op == Op::Alloc && event.has(Flags::FAILED)
}

fn gather_column(name: &str, batch: &[Event], spread: &Spread, to: &mut Gathered) {
    let varies = &spread.varies;
    match name {
        "op" => to.required(batch, !spread.op.is_power_of_two(), |event| event.op as u64),
        "object" => to.optional(batch, true, |event| (is(event, WITH_OBJECT) && !born_nothing(event), event.object)),
        "size" => to.optional(batch, spread.any(WITH_SIZE), |event| (is(event, WITH_SIZE), event.size)),
        "usable" => to.optional(batch, varies.usable != 0, |event| (event.usable != 0, event.usable)),
        "alignment" => {
            let alignment = |event: &Event| 1u64.wrapping_shl(event.align_log2.into());
            to.optional(batch, varies.align_log2 != 0, |event| (event.align_log2 != 0, alignment(event)));
        }
        "zeroed" => to.flag(batch, spread, Flags::ZEROED),
        "moved" => to.flag(batch, spread, Flags::MOVED),
        "failed" => to.flag(batch, spread, Flags::FAILED),
        "inherited" => to.flag(batch, spread, Flags::INHERITED),
        "direct_to_old" => to.flag(batch, spread, Flags::DIRECT_TO_OLD),
        "family" => to.required(batch, spread.family != 0, |event| event.family as u64),
        "process" => to.required(batch, varies.process != 0, |event| event.process.into()),
        "thread" => to.required(batch, varies.thread != 0, |event| event.thread.into()),
        "stack" => to.optional(batch, varies.stack != 0, |event| (event.stack != 0, event.stack.into())),
        "arena" => to.required(batch, varies.arena != 0, |event| event.arena.into()),
        "time_ns" => to.required(batch, true, |event| event.time_ns),
        "address" => to.optional(batch, varies.address != 0, |event| (event.address != 0, event.address)),
        "origin" => to.optional(batch, spread.origin != 0, |event| (event.origin as u8 != 0, event.origin as u64)),
        "collection" => {
            let any = varies.collection != 0 || spread.any(COLLECTIONS);
            to.optional(batch, any, |event| (is(event, COLLECTIONS) || event.collection != 0, event.collection.into()));
        }
        "field" => to.optional(batch, spread.any(REFERENCES), |event| (is(event, REFERENCES), event.field.into())),
        "target" => to.optional(batch, spread.any(REFERENCES), |event| (is(event, REFERENCES), event.target)),
        "mark" => to.optional(batch, spread.any(MARKS), |event| (is(event, MARKS), event.object)),
        other => unreachable!("column {other} has no field"),
    }
}

fn write_column(index: usize, from: &mut Gathered, column: &mut ColumnWriter, squeeze: &mut Squeeze) -> std::io::Result<()> {
    let Column { name, kind, optional, .. } = COLUMNS[index];
    let rows = from.rows;
    let names: &[&str] = match name {
        "op" => &OPS,
        "family" => &FAMILIES,
        "origin" => &ORIGINS,
        _ => &[],
    };
    match (kind, from.constant.take()) {
        (_, Some(Cell::Null)) => column.nulls(rows, squeeze)?,
        (Kind::Bool, Some(Cell::Value(value))) => column.same_boolean(value != 0, rows, squeeze)?,
        (Kind::Bool, None) => column.booleans(from.values.iter().map(|value| *value != 0), squeeze)?,
        (Kind::Text, Some(Cell::Value(value))) => column.named(names, std::iter::once(value as u32), Present::All, rows, squeeze)?,
        (_, Some(Cell::Value(value))) => column.constant(value, rows, squeeze)?,
        (_, None) => {
            let present = match from.values.len() {
                0 => Present::None,
                filled if filled == rows || !optional => Present::All,
                _ => Present::Bits(&from.bits),
            };
            if kind == Kind::Text {
                column.named(names, from.values.iter().map(|value| *value as u32), present, rows, squeeze)?;
            } else {
                column.integers(&from.values, present, rows, squeeze)?;
            }
        }
    }
    from.clear();
    Ok(())
}

/// One column of the page that is being filled: one cell for all rows as long as that is true, then values.
#[derive(Debug, Default)]
struct Gathered {
    rows: usize,
    constant: Option<Cell>,
    /// The values that are not null.
    values: Vec<u64>,
    /// Which rows are not null, least significant bit first; kept for optional columns only.
    bits: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Null,
    Value(u64),
}

impl Gathered {
    fn clear(&mut self) {
        self.rows = 0;
        self.constant = None;
        self.values.clear();
        self.bits.clear();
    }

    /// All rows of a batch have this cell.
    fn same(&mut self, cell: Cell, rows: usize) {
        if self.rows == 0 {
            self.constant = Some(cell);
        }
        if self.constant == Some(cell) {
            self.rows += rows;
            return;
        }
        self.write_out();
        self.repeat(cell, rows);
        self.rows += rows;
    }

    /// From here on the rows are kept one by one.
    fn write_out(&mut self) {
        if let Some(cell) = self.constant.take() {
            self.repeat(cell, self.rows);
        }
    }

    fn repeat(&mut self, cell: Cell, rows: usize) {
        let byte = match cell {
            Cell::Null => 0,
            Cell::Value(value) => {
                self.values.resize(self.values.len() + rows, value);
                0xff
            }
        };
        self.bits.resize(self.bits.len() + rows.div_ceil(8), byte);
    }

    fn required(&mut self, batch: &[Event], varies: bool, value: impl Fn(&Event) -> u64) {
        if !varies {
            return self.same(Cell::Value(value(&batch[0])), batch.len());
        }
        self.write_out();
        self.values.extend(batch.iter().map(value));
        self.rows += batch.len();
    }

    fn flag(&mut self, batch: &[Event], spread: &Spread, flag: Flags) {
        if spread.flags & flag.0 == 0 {
            return self.same(Cell::Value(0), batch.len());
        }
        self.required(batch, true, |event| u64::from(event.has(flag)));
    }

    fn optional(&mut self, batch: &[Event], any: bool, value: impl Fn(&Event) -> (bool, u64)) {
        if !any {
            return self.same(Cell::Null, batch.len());
        }
        self.write_out();
        let (mut kept, mut filled) = ([0; BATCH], 0);
        for eight in batch.chunks(8) {
            let mut byte = 0;
            for (index, event) in eight.iter().enumerate() {
                // Written always, kept only where present: no branch on what alternates.
                let (present, value) = value(event);
                kept[filled & (BATCH - 1)] = value;
                filled += usize::from(present);
                byte |= u8::from(present) << index;
            }
            self.bits.push(byte);
        }
        self.values.extend_from_slice(&kept[..filled]);
        self.rows += batch.len();
    }
}
