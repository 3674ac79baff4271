//! Events to `events.parquet`.

use super::columns::{COLUMNS, FAMILIES, OPS, ORIGINS};
use crate::parquet::PAGE_ROWS;
use crate::parquet::encode::Present;
use crate::parquet::footer::RowGroup;
use crate::parquet::write::{ColumnWriter, FileWriter, Squeeze};
use crate::{Event, Flags, Op};
use std::io::Write;

/// Collects events into pages.
#[derive(Debug)]
pub struct EventWriter<W: Write> {
    file: FileWriter<W>,
    page: Vec<Event>,
    scratch: Scratch,
    counts: Counts,
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

/// Values and the bits of those present, for one column of one page.
#[derive(Debug, Default)]
struct Scratch {
    values: Vec<u64>,
    bits: Vec<u8>,
}

impl<W: Write> EventWriter<W> {
    /// Begins a file.
    pub fn new(out: W) -> std::io::Result<EventWriter<W>> {
        let file = FileWriter::new(out, &COLUMNS)?;
        Ok(EventWriter { file, page: Vec::with_capacity(PAGE_ROWS), scratch: Scratch::default(), counts: Counts::default() })
    }

    /// Takes the next event.
    #[inline]
    pub fn push(&mut self, event: &Event) -> std::io::Result<()> {
        self.page.push(*event);
        if self.page.len() == PAGE_ROWS { self.flush() } else { Ok(()) }
    }

    /// Whether no event was taken so far.
    pub fn is_empty(&self) -> bool {
        self.counts.events == 0 && self.page.is_empty()
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let (page, scratch) = (&self.page, &mut self.scratch);
        if page.is_empty() {
            return Ok(());
        }
        self.counts.events += page.len() as u64;
        let spread = Spread::of(page);
        self.counts.objects += spread.births;
        self.counts.end_ns = self.counts.end_ns.max(spread.end_ns);
        self.file.page(page.len(), |index, column, squeeze| write_column(index, page, &spread, scratch, column, squeeze))?;
        self.page.clear();
        Ok(())
    }

    /// Writes what is left; gives back what was written to, and the row groups.
    pub fn finish(mut self) -> std::io::Result<(W, Vec<RowGroup>, Counts)> {
        self.flush()?;
        let counts = self.counts;
        let (out, groups) = self.file.finish(&[("heaplab.format_version".into(), super::FORMAT_VERSION.to_string())])?;
        Ok((out, groups, counts))
    }
}

/// Which fields vary within a page: most columns of most pages hold one value.
#[derive(Debug)]
struct Spread {
    /// For each field the bits in which some event differs from the first, in a struct of the same shape.
    varies: Event,
    flags: u16,
    origin: u8,
    family: u8,
    births: u64,
    end_ns: u64,
}

impl Spread {
    fn of(page: &[Event]) -> Spread {
        let first = &page[0];
        let mut spread = Spread { varies: Event::default(), flags: 0, origin: 0, family: 0, births: 0, end_ns: 0 };
        let varies = &mut spread.varies;
        for event in page {
            spread.flags |= event.flags.0;
            spread.family |= event.family as u8 ^ first.family as u8;
            spread.origin |= event.origin as u8;
            varies.align_log2 |= event.align_log2;
            varies.process |= event.process ^ first.process;
            varies.thread |= event.thread ^ first.thread;
            varies.stack |= event.stack;
            varies.arena |= event.arena ^ first.arena;
            varies.collection |= event.collection;
            varies.field |= event.field;
            varies.address |= event.address;
            varies.target |= event.target;
            varies.usable |= event.usable;
            spread.births += u64::from(event.op == Op::Alloc && event.counts());
            spread.end_ns = spread.end_ns.max(event.time_ns);
        }
        spread
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

fn write_column(
    index: usize,
    page: &[Event],
    spread: &Spread,
    scratch: &mut Scratch,
    column: &mut ColumnWriter,
    squeeze: &mut Squeeze,
) -> std::io::Result<()> {
    let first = &page[0];
    let varies = &spread.varies;
    let mut to = To { page, scratch, column, squeeze };
    match COLUMNS[index].name {
        "op" => to.named(&OPS, true, |event| event.op as u8),
        "object" => to.optional(true, |event| (is(event, WITH_OBJECT) && !born_nothing(event), event.object)),
        "size" => to.optional(true, |event| (is(event, WITH_SIZE), event.size)),
        "usable" => to.optional(varies.usable != 0, |event| (event.usable != 0, event.usable)),
        "alignment" => to.optional(varies.align_log2 != 0, |event| (event.align_log2 != 0, 1u64.wrapping_shl(event.align_log2.into()))),
        "zeroed" => to.flag(spread, Flags::ZEROED),
        "moved" => to.flag(spread, Flags::MOVED),
        "failed" => to.flag(spread, Flags::FAILED),
        "inherited" => to.flag(spread, Flags::INHERITED),
        "direct_to_old" => to.flag(spread, Flags::DIRECT_TO_OLD),
        "family" => to.named(&FAMILIES, spread.family != 0, |event| event.family as u8),
        "process" => to.required(varies.process != 0, first.process.into(), |event| event.process.into()),
        "thread" => to.required(varies.thread != 0, first.thread.into(), |event| event.thread.into()),
        "stack" => to.optional(varies.stack != 0, |event| (event.stack != 0, event.stack.into())),
        "arena" => to.required(varies.arena != 0, first.arena.into(), |event| event.arena.into()),
        "time_ns" => to.required(true, 0, |event| event.time_ns),
        "address" => to.optional(varies.address != 0, |event| (event.address != 0, event.address)),
        "origin" => to.origins(spread.origin != 0),
        "collection" => to.optional(true, |event| (is(event, COLLECTIONS) || event.collection != 0, event.collection.into())),
        "field" => to.optional(true, |event| (is(event, REFERENCES), event.field.into())),
        "target" => to.optional(true, |event| (is(event, REFERENCES), event.target)),
        "mark" => to.optional(true, |event| (is(event, MARKS), event.object)),
        other => unreachable!("column {other} has no field"),
    }
}

/// A failed allocation: no object came of it.
fn born_nothing(event: &Event) -> bool {
    event.op == Op::Alloc && event.has(Flags::FAILED)
}

/// One column of one page on its way out.
struct To<'a> {
    page: &'a [Event],
    scratch: &'a mut Scratch,
    column: &'a mut ColumnWriter,
    squeeze: &'a mut Squeeze,
}

impl To<'_> {
    fn named(&mut self, names: &[&str], varies: bool, number: impl Fn(&Event) -> u8) -> std::io::Result<()> {
        let page = if varies { self.page } else { &self.page[..1] };
        self.column.named(names, page.iter().map(|event| number(event).into()), self.page.len(), self.squeeze)
    }

    fn origins(&mut self, any: bool) -> std::io::Result<()> {
        if !any {
            return self.column.nulls(self.page.len(), self.squeeze);
        }
        let origins = self.page.iter().map(|event| (event.origin as usize != 0).then(|| ORIGINS[event.origin as usize]));
        self.column.texts(origins, self.squeeze)
    }

    fn flag(&mut self, spread: &Spread, flag: Flags) -> std::io::Result<()> {
        if spread.flags & flag.0 == 0 {
            return self.column.booleans(self.page.iter().map(|_| false), self.squeeze);
        }
        self.column.booleans(self.page.iter().map(|event| event.has(flag)), self.squeeze)
    }

    fn required(&mut self, varies: bool, first: u64, value: impl Fn(&Event) -> u64) -> std::io::Result<()> {
        if !varies {
            return self.column.constant(first, self.page.len(), self.squeeze);
        }
        self.scratch.values.clear();
        self.scratch.values.extend(self.page.iter().map(value));
        self.column.integers(&self.scratch.values, Present::All, self.page.len(), self.squeeze)
    }

    fn optional(&mut self, any: bool, value: impl Fn(&Event) -> (bool, u64)) -> std::io::Result<()> {
        let rows = self.page.len();
        if !any {
            return self.column.nulls(rows, self.squeeze);
        }
        let Scratch { values, bits } = &mut *self.scratch;
        values.resize(rows, 0);
        bits.clear();
        let mut filled = 0;
        for eight in self.page.chunks(8) {
            let mut byte = 0;
            for (index, event) in eight.iter().enumerate() {
                // Written always, kept only where present: no branch on what alternates.
                let (present, value) = value(event);
                values[filled] = value;
                filled += usize::from(present);
                byte |= u8::from(present) << index;
            }
            bits.push(byte);
        }
        let present = match filled {
            0 => Present::None,
            _ if filled == rows => Present::All,
            _ => Present::Bits(bits),
        };
        self.column.integers(&values[..filled], present, rows, self.squeeze)
    }
}
