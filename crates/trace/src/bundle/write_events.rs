//! From events to `events.parquet`.

use super::columns::{COLUMNS, FAMILIES, OPS, ORIGINS};
use crate::parquet::PAGE_ROWS;
use crate::parquet::encode::Present;
use crate::parquet::footer::RowGroup;
use crate::parquet::schema::{Column, Kind};
use crate::parquet::write::{ColumnWriter, FileWriter, Squeeze};
use crate::{Event, Flags, Op};
use std::io::Write;

/// Events gathered into columns at once: few enough to stay in the nearest cache (15 KiB of 32). A
/// power of two, a multiple of 64.
const BATCH: usize = 256;

/// Collects events into pages.
#[derive(Debug)]
pub struct EventWriter<W: Write> {
    file: FileWriter<W>,
    batch: Box<Batch>,
    page: Vec<Gathered>,
    page_rows: usize,
    counts: Counts,
    /// Whether addresses are written.
    addresses: bool,
}

/// Counts of the writer.
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
        Ok(EventWriter {
            file,
            batch: Box::default(),
            page,
            page_rows: 0,
            counts: Counts::default(),
            addresses: true,
        })
    }

    /// Takes the next event. Inlining removes most of this code if the caller knows the kind of
    /// event.
    #[inline(always)]
    pub fn push(&mut self, event: &Event) -> std::io::Result<()> {
        self.batch.push(event, self.addresses);
        if self.batch.rows == BATCH { self.gather() } else { Ok(()) }
    }

    /// Omits addresses from here on.
    pub fn leave_out_addresses(&mut self) {
        self.addresses = false;
    }

    /// Whether no event has been taken.
    pub fn is_empty(&self) -> bool {
        self.counts.events == 0 && self.batch.rows == 0
    }

    /// Adds the batch to the columns.
    #[inline(never)]
    fn gather(&mut self) -> std::io::Result<()> {
        let rows = self.batch.rows;
        if rows == 0 {
            return Ok(());
        }
        let spread = Spread::of(&self.batch);
        self.counts.events += rows as u64;
        self.counts.objects += self.batch.births;
        self.counts.end_ns = self.counts.end_ns.max(spread.end_ns);
        for (column, gathered) in COLUMNS.iter().zip(&mut self.page) {
            gather_column(column.name, &self.batch, &spread, gathered);
        }
        self.page_rows += rows;
        self.batch.clear();
        if self.page_rows >= PAGE_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let (rows, page) = (self.page_rows, &mut self.page);
        if rows > 0 {
            self.file.page(rows, |index, column, squeeze| {
                write_column(index, &mut page[index], column, squeeze)
            })?;
        }
        self.page_rows = 0;
        Ok(())
    }

    /// Writes the rest; returns the output, the row groups and the counts.
    pub fn finish(mut self) -> std::io::Result<(W, Vec<RowGroup>, Counts)> {
        self.gather()?;
        self.flush()?;
        let (out, groups) = self
            .file
            .finish(&[("heaplab.format_version".into(), super::FORMAT_VERSION.to_string())])?;
        Ok((out, groups, self.counts))
    }
}

/// Events until there are enough for a look at each column: field by field; fields with few values
/// share one word.
#[derive(Debug)]
struct Batch {
    rows: usize,
    /// Their operations, as a set.
    ops: u16,
    births: u64,
    /// See [`head_of`].
    head: [u64; BATCH],
    /// Process, and thread above it.
    who: [u64; BATCH],
    time_ns: [u64; BATCH],
    object: Sparse,
    size: Sparse,
    usable: Sparse,
    stack: Sparse,
    address: Sparse,
    /// Fields that recordings of malloc lack; zero unless `has_rare`.
    rare: [Rare; BATCH],
    has_rare: bool,
}

/// A column without a value in some rows.
#[derive(Debug)]
struct Sparse {
    values: [u64; BATCH],
    filled: usize,
    present: Rows,
}

/// Fields of few kinds of workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rare {
    arena: u32,
    collection: u32,
    field: u32,
    target: u64,
    /// The object, if such a field or a mark identifies it.
    object: u64,
}

impl Default for Sparse {
    fn default() -> Sparse {
        Sparse { values: [0; BATCH], filled: 0, present: NO_ROWS }
    }
}

impl Sparse {
    #[inline(always)]
    fn put(&mut self, row: usize, present: bool, value: u64) {
        if present {
            self.values[self.filled & (BATCH - 1)] = value;
            self.filled += 1;
            self.present[row / 64] |= 1 << (row % 64);
        }
    }

    fn clear(&mut self) {
        (self.filled, self.present) = (0, NO_ROWS);
    }
}

impl Default for Batch {
    fn default() -> Batch {
        let (none, rare) = ([0; BATCH], [Rare::default(); BATCH]);
        let [object, size, usable, stack, address] = std::array::from_fn(|_| Sparse::default());
        Batch {
            rows: 0,
            ops: 0,
            births: 0,
            head: none,
            who: none,
            time_ns: none,
            object,
            size,
            usable,
            stack,
            address,
            rare,
            has_rare: false,
        }
    }
}

impl Batch {
    /// Adds an event; the batch must have room.
    #[inline(always)]
    fn push(&mut self, event: &Event, addresses: bool) {
        let (row, op) = (self.rows & (BATCH - 1), event.op as u64);
        self.ops |= 1 << op;
        self.births += u64::from(is(op, ALLOCS) && event.counts());
        self.head[row] = head_of(event);
        self.who[row] = u64::from(event.process) | u64::from(event.thread) << 32;
        self.time_ns[row] = event.time_ns;
        // A failed allocation made no object.
        let is_about_nothing = is(op, ABOUT_NOTHING) && event.has(Flags::FAILED);
        self.object.put(row, is(op, WITH_OBJECT) && !is_about_nothing, event.object);
        self.size.put(row, is(op, WITH_SIZE), event.size);
        self.usable.put(row, event.usable != 0, event.usable);
        self.stack.put(row, event.stack != 0, event.stack.into());
        self.address.put(row, addresses && event.address != 0, event.address);
        let rare = Rare {
            arena: event.arena,
            collection: event.collection,
            field: event.field,
            target: event.target,
            object: 0,
        };
        if rare != Rare::default() || is(op, MARKS) {
            self.add_rare(row, rare, event.object);
        }
        self.rows += 1;
    }

    #[cold]
    fn add_rare(&mut self, row: usize, rare: Rare, object: u64) {
        self.rare[row] = Rare { object, ..rare };
        self.has_rare = true;
    }

    fn clear(&mut self) {
        (self.rows, self.ops, self.births) = (0, 0, 0);
        [&mut self.object, &mut self.size, &mut self.usable, &mut self.stack, &mut self.address]
            .into_iter()
            .for_each(Sparse::clear);
        if std::mem::take(&mut self.has_rare) {
            self.rare.fill(Rare::default());
        }
    }
}

const FAMILY_AT: u32 = 8;
const ORIGIN_AT: u32 = 16;
const ALIGN_AT: u32 = 24;
const FLAGS_AT: u32 = 32;

/// Operation, family, origin, log2 of the alignment, a byte each; then the flags.
#[inline(always)]
const fn head_of(event: &Event) -> u64 {
    event.op as u64
        | (event.family as u64) << FAMILY_AT
        | (event.origin as u64) << ORIGIN_AT
        | (event.align_log2 as u64) << ALIGN_AT
        | (event.flags.0 as u64) << FLAGS_AT
}

/// A set of a batch's rows.
type Rows = [u64; BATCH / 64];
const NO_ROWS: Rows = [0; BATCH / 64];

/// The rows that satisfy `is_so`.
#[inline(always)]
fn rows_where(rows: usize, is_so: impl Fn(usize) -> bool) -> Rows {
    let mut set = NO_ROWS;
    for row in 0..rows.min(BATCH) {
        set[row / 64] |= u64::from(is_so(row)) << (row % 64);
    }
    set
}

/// Facts about a batch as a whole: most columns of most batches hold one value.
#[derive(Debug)]
struct Spread {
    /// Bits of the heads that are set in some row.
    any: u64,
    /// Bits of the heads and of `who` that differ from the first row's in some row.
    head_varies: u64,
    who_varies: u64,
    end_ns: u64,
}

impl Spread {
    fn of(batch: &Batch) -> Spread {
        let (heads, who, times) =
            (&batch.head[..batch.rows], &batch.who[..batch.rows], &batch.time_ns[..batch.rows]);
        Spread {
            any: heads.iter().fold(0, |any, head| any | head),
            head_varies: heads.iter().fold(0, |varies, head| varies | (head ^ heads[0])),
            who_varies: who.iter().fold(0, |varies, each| varies | (each ^ who[0])),
            end_ns: times.iter().copied().max().unwrap_or(0),
        }
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

const _: () = assert!(Op::ALL.len() <= 16);
const ALLOCS: u16 = ops([Op::Alloc]);
const WITH_OBJECT: u16 = ops([
    Op::Alloc,
    Op::Free,
    Op::Realloc,
    Op::UsableSizeRead,
    Op::Promote,
    Op::Reference,
    Op::Report,
]);
/// Without an object where they failed.
const ABOUT_NOTHING: u16 = ops([Op::Alloc, Op::Report]);
const WITH_SIZE: u16 = ops([Op::Alloc, Op::Realloc]);
const COLLECTIONS: u16 = ops([Op::CollectBegin, Op::CollectEnd]);
const REFERENCES: u16 = ops([Op::Reference]);
const MARKS: u16 = ops([Op::Mark]);

const fn is(head: u64, set: u16) -> bool {
    set >> (head & 15) & 1 == 1
}

fn gather_column(name: &str, batch: &Batch, spread: &Spread, to: &mut Gathered) {
    let (rows, heads, rare) = (batch.rows, &batch.head, &batch.rare);
    // Rows of these operations; none if the batch lacks them.
    let of = |set: u16| {
        if batch.ops & set == 0 { NO_ROWS } else { rows_where(rows, |row| is(heads[row], set)) }
    };
    let byte = |row: usize, at: u32| heads[row] >> at & 0xff;
    let byte_is_there = |at: u32| {
        if spread.any >> at & 0xff == 0 {
            NO_ROWS
        } else {
            rows_where(rows, |row| byte(row, at) != 0)
        }
    };
    let mut flag = |flag: Flags| {
        let bit = FLAGS_AT + flag.0.trailing_zeros();
        to.required(rows, spread.head_varies >> bit & 1 != 0, |row| heads[row] >> bit & 1);
    };
    match name {
        "op" => to.required(rows, spread.head_varies & 15 != 0, |row| heads[row] & 15),
        "object" => to.sparse(rows, &batch.object),
        "size" => to.sparse(rows, &batch.size),
        "usable" => to.sparse(rows, &batch.usable),
        "alignment" => to.optional(rows, &byte_is_there(ALIGN_AT), |row| {
            1_u64.wrapping_shl(byte(row, ALIGN_AT) as u32)
        }),
        "zeroed" => flag(Flags::ZEROED),
        "moved" => flag(Flags::MOVED),
        "failed" => flag(Flags::FAILED),
        "inherited" => flag(Flags::INHERITED),
        "direct_to_old" => flag(Flags::DIRECT_TO_OLD),
        "family" => to.required(rows, spread.head_varies >> FAMILY_AT & 0xff != 0, |row| {
            byte(row, FAMILY_AT)
        }),
        "process" => {
            to.required(rows, spread.who_varies as u32 != 0, |row| batch.who[row] & 0xffff_ffff)
        }
        "thread" => to.required(rows, spread.who_varies >> 32 != 0, |row| batch.who[row] >> 32),
        "stack" => to.sparse(rows, &batch.stack),
        "arena" => to.required(rows, batch.has_rare, |row| rare[row].arena.into()),
        "time_ns" => to.required(rows, true, |row| batch.time_ns[row]),
        "address" => to.sparse(rows, &batch.address),
        "origin" => to.optional(rows, &byte_is_there(ORIGIN_AT), |row| byte(row, ORIGIN_AT)),
        "collection" => {
            let named = if batch.has_rare {
                rows_where(rows, |row| rare[row].collection != 0)
            } else {
                NO_ROWS
            };
            let both = of(COLLECTIONS);
            to.optional(rows, &std::array::from_fn(|word| named[word] | both[word]), |row| {
                rare[row].collection.into()
            });
        }
        "field" => to.optional(rows, &of(REFERENCES), |row| rare[row].field.into()),
        "target" => to.optional(rows, &of(REFERENCES), |row| rare[row].target),
        "mark" => to.optional(rows, &of(MARKS), |row| rare[row].object),
        other => unreachable!("column {other} has no field"),
    }
}
fn write_column(
    index: usize,
    from: &mut Gathered,
    column: &mut ColumnWriter,
    squeeze: &mut Squeeze,
) -> std::io::Result<()> {
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
        (Kind::Bool, None) => {
            column.booleans(from.values.iter().map(|value| *value != 0), squeeze)?
        }
        (Kind::Text, Some(Cell::Value(value))) => {
            column.named(names, std::iter::once(value as u32), Present::All, rows, squeeze)?
        }
        (_, Some(Cell::Value(value))) => column.constant(value, rows, squeeze)?,
        (_, None) => {
            let present = match from.values.len() {
                0 => Present::None,
                filled if filled == rows || !optional => Present::All,
                _ => Present::Bits(&from.bits),
            };
            if kind == Kind::Text {
                column.named(
                    names,
                    from.values.iter().map(|value| *value as u32),
                    present,
                    rows,
                    squeeze,
                )?;
            } else {
                column.integers(&from.values, present, rows, squeeze)?;
            }
        }
    }
    from.clear();
    Ok(())
}

/// One column of the page being filled: one cell for all rows while they are equal, then single
/// values.
#[derive(Debug, Default)]
struct Gathered {
    rows: usize,
    constant: Option<Cell>,
    /// The non-null values.
    values: Vec<u64>,
    /// The non-null rows, least significant bit first; kept for optional columns only.
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

    /// Adds rows that all have this cell.
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

    /// Stores the rows one by one from here on.
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

    fn required(&mut self, rows: usize, varies: bool, value: impl Fn(usize) -> u64) {
        if !varies {
            return self.same(Cell::Value(value(0)), rows);
        }
        self.write_out();
        self.values.extend((0..rows).map(value));
        self.rows += rows;
    }

    /// Adds rows of a sparse column: the rows of `present` have a value.
    fn optional(&mut self, rows: usize, present: &Rows, value: impl Fn(usize) -> u64) {
        if *present == NO_ROWS {
            return self.same(Cell::Null, rows);
        }
        let mut sparse = Sparse::default();
        for row in 0..rows {
            sparse.put(row, present[row / 64] >> (row % 64) & 1 == 1, value(row));
        }
        self.sparse(rows, &sparse);
    }

    fn sparse(&mut self, rows: usize, column: &Sparse) {
        if column.filled == 0 {
            return self.same(Cell::Null, rows);
        }
        self.write_out();
        self.values.extend_from_slice(&column.values[..column.filled]);
        for (place, word) in column.present.iter().enumerate() {
            self.bits.extend_from_slice(
                &word.to_le_bytes()[..rows.saturating_sub(place * 64).div_ceil(8).min(8)],
            );
        }
        self.rows += rows;
    }
}
