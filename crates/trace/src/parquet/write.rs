//! From columns of values to a Parquet file, a page at a time.
//!
//! Memory is bounded by one row group, compressed: pages are encoded and compressed as they fill,
//! and a column's pages wait for those of the columns before it.

use super::encode::{self, Present};
use super::footer::{Chunk, MAGIC, RowGroup};
use super::schema::{Column, Encoding, Kind};
use super::thrift::Writer;
use super::{ROW_GROUP_ROWS, footer};
use hashbrown::HashMap;
use std::io::Write;

/// Most distinct values of an integer column's dictionary in a row group; beyond them values are
/// written as differences.
pub const DICTIONARY_LIMIT: usize = 64 * 1024;
/// Bytes of distinct texts at which a row group ends.
const TEXT_BYTES_PER_GROUP: usize = 8 << 20;

/// Bits of the hash under which [`Dictionary`] remembers recent values.
const RECENT_BITS: u32 = 10;
/// No index: a dictionary has fewer values.
const NOT_KNOWN: u32 = u32::MAX;

const PLAIN: i32 = 0;
const RLE: i32 = 3;
const DELTA_BINARY_PACKED: i32 = 5;
const RLE_DICTIONARY: i32 = 8;

/// Writes a Parquet file with these columns.
pub struct FileWriter<W: Write> {
    out: W,
    at: u64,
    columns: Vec<ColumnWriter>,
    group_rows: usize,
    rows: u64,
    groups: Vec<RowGroup>,
    squeeze: Squeeze,
}

impl<W: Write> std::fmt::Debug for FileWriter<W> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.debug_struct("FileWriter").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl<W: Write> FileWriter<W> {
    /// Begins a file.
    pub fn new(mut out: W, columns: &[Column]) -> std::io::Result<FileWriter<W>> {
        out.write_all(MAGIC)?;
        let columns = columns.iter().map(|column| ColumnWriter::new(*column)).collect();
        Ok(FileWriter {
            out,
            at: 4,
            columns,
            group_rows: 0,
            rows: 0,
            groups: Vec::new(),
            squeeze: Squeeze::new()?,
        })
    }

    /// Takes one page of `rows` rows of every column: `page(index, writer)` writes it with the
    /// column's writer.
    pub fn page(
        &mut self,
        rows: usize,
        mut page: impl FnMut(usize, &mut ColumnWriter, &mut Squeeze) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        if self.group_rows + rows > ROW_GROUP_ROWS {
            self.end_group()?;
        }
        for (index, column) in self.columns.iter_mut().enumerate() {
            page(index, column, &mut self.squeeze)?;
            debug_assert_eq!(
                column.chunk.rows as usize,
                self.group_rows + rows,
                "column {}",
                column.column.name
            );
        }
        self.group_rows += rows;
        if self.group_rows >= ROW_GROUP_ROWS
            || self.columns.iter().any(|column| column.dictionary.bytes > TEXT_BYTES_PER_GROUP)
        {
            self.end_group()?;
        }
        Ok(())
    }

    fn end_group(&mut self) -> std::io::Result<()> {
        if self.group_rows == 0 {
            return Ok(());
        }
        let mut group = RowGroup {
            rows: self.group_rows as u64,
            chunks: Vec::with_capacity(self.columns.len()),
        };
        for column in &mut self.columns {
            let chunk = column.finish(&mut self.out, self.at, &mut self.squeeze)?;
            self.at += chunk.bytes;
            group.chunks.push(chunk);
        }
        self.groups.push(group);
        self.rows += self.group_rows as u64;
        self.group_rows = 0;
        Ok(())
    }

    /// Writes the rest and the footer; returns the output and the row groups.
    pub fn finish(
        mut self,
        key_values: &[(String, String)],
    ) -> std::io::Result<(W, Vec<RowGroup>)> {
        self.end_group()?;
        let columns: Vec<Column> = self.columns.iter().map(|column| column.column).collect();
        let footer = footer::encode(&columns, self.rows, &self.groups, key_values);
        self.out.write_all(&footer)?;
        self.out.write_all(&(footer.len() as u32).to_le_bytes())?;
        self.out.write_all(MAGIC)?;
        self.out.flush()?;
        Ok((self.out, self.groups))
    }
}

/// Compression with its buffers, shared by the columns.
pub struct Squeeze {
    zstd: zstd::bulk::Compressor<'static>,
    plain: Vec<u8>,
    packed: Vec<u8>,
    header: Vec<u8>,
    indices: Vec<u32>,
}

impl std::fmt::Debug for Squeeze {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.debug_struct("Squeeze").finish_non_exhaustive()
    }
}

impl Squeeze {
    fn new() -> std::io::Result<Squeeze> {
        // One more level takes 3 % off a recording's file, and half as long again to compress.
        let zstd = zstd::bulk::Compressor::new(1)?;
        Ok(Squeeze {
            zstd,
            plain: Vec::new(),
            packed: Vec::new(),
            header: Vec::new(),
            indices: Vec::new(),
        })
    }

    /// Compresses `plain` and appends it to `out` as a page; returns the page's bytes before
    /// compression, header included.
    fn page(
        &mut self,
        fill: impl FnOnce(&mut Writer),
        kind: i32,
        out: &mut Vec<u8>,
    ) -> std::io::Result<u64> {
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(self.plain.len()));
        self.zstd.compress_to_buffer(&self.plain, &mut self.packed)?;
        self.header.clear();
        let mut header = Writer::new(&mut self.header);
        header.i32(1, kind);
        header.i32(2, self.plain.len() as i32);
        header.i32(3, self.packed.len() as i32);
        header.i32(4, crc32fast::hash(&self.packed) as i32);
        fill(&mut header);
        header.end();
        out.extend_from_slice(&self.header);
        out.extend_from_slice(&self.packed);
        Ok((self.header.len() + self.plain.len()) as u64)
    }
}

/// One column's pages of the current row group.
#[derive(Debug)]
pub struct ColumnWriter {
    column: Column,
    pages: Vec<u8>,
    chunk: Chunk,
    dictionary: Dictionary,
    range: Option<(u64, u64)>,
}

impl ColumnWriter {
    fn new(column: Column) -> ColumnWriter {
        ColumnWriter {
            column,
            pages: Vec::new(),
            chunk: Chunk::default(),
            dictionary: Dictionary::default(),
            range: None,
        }
    }

    /// A page of integers: `values` are those of the non-null rows.
    pub fn integers(
        &mut self,
        values: &[u64],
        present: Present,
        rows: usize,
        squeeze: &mut Squeeze,
    ) -> std::io::Result<()> {
        self.begin(present, rows, squeeze);
        let delta = self.column.encoding == Encoding::Delta
            || !self.dictionary.indices(values, &mut squeeze.indices);
        let encoding = match (values.is_empty(), delta) {
            (true, _) => PLAIN,
            (false, true) => {
                self.widen_range(values);
                encode::delta(values, &mut squeeze.plain);
                DELTA_BINARY_PACKED
            }
            (false, false) => {
                encode::indices(&squeeze.indices, self.dictionary.distinct(), &mut squeeze.plain);
                RLE_DICTIONARY
            }
        };
        self.data_page(rows, values.len(), encoding, squeeze)
    }

    /// A page of numbers that stand for `names`; a single number stands for all present rows.
    pub fn named(
        &mut self,
        names: &[&str],
        numbers: impl ExactSizeIterator<Item = u32>,
        present: Present,
        rows: usize,
        squeeze: &mut Squeeze,
    ) -> std::io::Result<()> {
        self.begin(present, rows, squeeze);
        let values = match present {
            Present::All => rows,
            Present::None => 0,
            Present::Bits(_) => numbers.len(),
        };
        if self.dictionary.distinct() == 0 {
            for name in names {
                self.dictionary.text(name);
            }
        }
        squeeze.indices.clear();
        squeeze.indices.extend(numbers);
        match squeeze.indices[..] {
            [only] => encode::run(only, values, names.len(), &mut squeeze.plain),
            _ => encode::indices(&squeeze.indices, names.len(), &mut squeeze.plain),
        }
        self.data_page(rows, values, RLE_DICTIONARY, squeeze)
    }

    /// A page with this value in every row.
    pub fn constant(
        &mut self,
        value: u64,
        rows: usize,
        squeeze: &mut Squeeze,
    ) -> std::io::Result<()> {
        if self.column.encoding != Encoding::Dictionary {
            return self.integers(&vec![value; rows], Present::All, rows, squeeze);
        }
        self.begin(Present::All, rows, squeeze);
        let index = self.dictionary.index(value);
        // More distinct values than the limit only after constant pages: still a valid dictionary.
        encode::run(index, rows, self.dictionary.distinct(), &mut squeeze.plain);
        self.data_page(rows, rows, RLE_DICTIONARY, squeeze)
    }

    /// A page of nulls.
    pub fn nulls(&mut self, rows: usize, squeeze: &mut Squeeze) -> std::io::Result<()> {
        self.integers(&[], Present::None, rows, squeeze)
    }

    /// A page of booleans, never null.
    pub fn booleans(
        &mut self,
        values: impl ExactSizeIterator<Item = bool>,
        squeeze: &mut Squeeze,
    ) -> std::io::Result<()> {
        let rows = values.len();
        self.begin(Present::All, rows, squeeze);
        encode::bits(values, &mut squeeze.plain);
        self.data_page(rows, rows, PLAIN, squeeze)
    }

    /// A page with this boolean in every row.
    pub fn same_boolean(
        &mut self,
        value: bool,
        rows: usize,
        squeeze: &mut Squeeze,
    ) -> std::io::Result<()> {
        self.begin(Present::All, rows, squeeze);
        squeeze.plain.resize(rows.div_ceil(8), if value { 0xff } else { 0 });
        self.data_page(rows, rows, PLAIN, squeeze)
    }

    /// A page of texts.
    pub fn texts<'t>(
        &mut self,
        values: impl Iterator<Item = Option<&'t str>>,
        squeeze: &mut Squeeze,
    ) -> std::io::Result<()> {
        let mut present = Vec::new();
        let mut indices = std::mem::take(&mut squeeze.indices);
        indices.clear();
        for value in values {
            present.push(value.is_some());
            indices.extend(value.map(|value| self.dictionary.text(value)));
        }
        let rows = present.len();
        let mut bits = Vec::new();
        encode::bits(present.into_iter(), &mut bits);
        let present = match indices.len() {
            0 => Present::None,
            length if length == rows => Present::All,
            _ => Present::Bits(&bits),
        };
        self.begin(present, rows, squeeze);
        let encoding = if indices.is_empty() { PLAIN } else { RLE_DICTIONARY };
        if !indices.is_empty() {
            encode::indices(&indices, self.dictionary.distinct(), &mut squeeze.plain);
        }
        let values = indices.len();
        squeeze.indices = indices;
        self.data_page(rows, values, encoding, squeeze)
    }

    fn begin(&mut self, present: Present, rows: usize, squeeze: &mut Squeeze) {
        squeeze.plain.clear();
        if self.column.optional {
            encode::levels(&present, rows, &mut squeeze.plain);
        }
    }

    fn data_page(
        &mut self,
        rows: usize,
        values: usize,
        encoding: i32,
        squeeze: &mut Squeeze,
    ) -> std::io::Result<()> {
        let header = |header: &mut Writer| {
            header.structure(5, |data| {
                data.i32(1, rows as i32);
                data.i32(2, encoding);
                data.i32(3, RLE);
                data.i32(4, RLE);
            });
        };
        self.chunk.uncompressed_bytes += squeeze.page(header, 0, &mut self.pages)?;
        self.chunk.rows += rows as u64;
        self.chunk.nulls += (rows - values) as u64;
        if !self.chunk.encodings.contains(&encoding) {
            self.chunk.encodings.push(encoding);
        }
        Ok(())
    }

    fn widen_range(&mut self, values: &[u64]) {
        // Flipping the sign bit of signed values makes unsigned comparison order them.
        let flip = if matches!(self.column.kind, Kind::I32 | Kind::I64) { 1 << 63 } else { 0 };
        let (mut least, mut greatest) =
            self.range.map_or((u64::MAX, 0), |(least, greatest)| (least ^ flip, greatest ^ flip));
        for value in values {
            least = least.min(*value ^ flip);
            greatest = greatest.max(*value ^ flip);
        }
        self.range = Some((least ^ flip, greatest ^ flip));
    }

    /// Writes the chunk at byte `at` of the file and begins the next.
    fn finish(
        &mut self,
        out: &mut impl Write,
        at: u64,
        squeeze: &mut Squeeze,
    ) -> std::io::Result<Chunk> {
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.encodings.push(RLE);
        chunk.encodings.dedup();
        let mut dictionary_page = Vec::new();
        if self.dictionary.distinct() > 0 && chunk.encodings.contains(&RLE_DICTIONARY) {
            squeeze.plain.clear();
            self.dictionary.plain(self.column.kind, &mut squeeze.plain);
            let distinct = self.dictionary.distinct() as i32;
            let header = |header: &mut Writer| {
                header.structure(7, |dictionary| {
                    dictionary.i32(1, distinct);
                    dictionary.i32(2, PLAIN);
                });
            };
            chunk.uncompressed_bytes += squeeze.page(header, 2, &mut dictionary_page)?;
            if !chunk.encodings.contains(&PLAIN) {
                chunk.encodings.push(PLAIN);
            }
        }
        // Dictionary values are missing from the range: no range is better than half of one.
        if self.dictionary.distinct() == 0
            && let (Some((least, greatest)), Some(bytes)) =
                (self.range, self.column.kind.plain_bytes())
        {
            chunk.range = Some((
                least.to_le_bytes()[..bytes].to_vec(),
                greatest.to_le_bytes()[..bytes].to_vec(),
            ));
        }
        chunk.offset = at;
        chunk.dictionary_bytes = dictionary_page.len() as u64;
        chunk.bytes = (dictionary_page.len() + self.pages.len()) as u64;
        out.write_all(&dictionary_page)?;
        out.write_all(&self.pages)?;
        self.pages.clear();
        self.dictionary.clear();
        self.range = None;
        Ok(chunk)
    }
}

/// The distinct values of a column in a row group, in order of first appearance.
#[derive(Debug, Default)]
struct Dictionary {
    /// The last value for each of a few hashes, with its index: most values are found here. Empty
    /// until used.
    recent: Vec<(u64, u32)>,
    numbers: HashMap<u64, u32, xxhash_rust::xxh3::Xxh3DefaultBuilder>,
    values: Vec<u64>,
    texts: HashMap<Box<str>, u32>,
    text_bytes: Vec<u8>,
    bytes: usize,
}

impl Dictionary {
    fn distinct(&self) -> usize {
        self.values.len() + self.texts.len()
    }

    #[inline]
    fn index(&mut self, value: u64) -> u32 {
        let slot = (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT_BITS)) as usize;
        match self.recent.get(slot) {
            Some((known, index)) if *known == value && *index != NOT_KNOWN => *index,
            _ => self.index_slowly(value, slot),
        }
    }

    #[cold]
    fn index_slowly(&mut self, value: u64, slot: usize) -> u32 {
        let next = self.values.len() as u32;
        let index = *self.numbers.entry(value).or_insert_with(|| {
            self.values.push(value);
            next
        });
        self.recent.resize(1 << RECENT_BITS, (0, NOT_KNOWN));
        self.recent[slot] = (value, index);
        index
    }

    /// The indices of `values`; false if the dictionary is full.
    fn indices(&mut self, values: &[u64], out: &mut Vec<u32>) -> bool {
        out.clear();
        if self.values.len() > DICTIONARY_LIMIT {
            return false;
        }
        out.extend(values.iter().map(|value| self.index(*value)));
        true
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(index) = self.texts.get(text) {
            return *index;
        }
        let index = self.texts.len() as u32;
        self.texts.insert(text.into(), index);
        self.text_bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.text_bytes.extend_from_slice(text.as_bytes());
        self.bytes = self.text_bytes.len();
        index
    }

    fn plain(&self, kind: Kind, out: &mut Vec<u8>) {
        match kind.plain_bytes() {
            Some(bytes) => self
                .values
                .iter()
                .for_each(|value| out.extend_from_slice(&value.to_le_bytes()[..bytes])),
            None => out.extend_from_slice(&self.text_bytes),
        }
    }

    fn clear(&mut self) {
        self.recent.clear();
        self.numbers.clear();
        self.values.clear();
        self.texts.clear();
        self.text_bytes.clear();
        self.bytes = 0;
    }
}
