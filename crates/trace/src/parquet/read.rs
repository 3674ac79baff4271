//! From a Parquet file to columns of values, a row group at a time.
//!
//! The bounds: a footer within the file, a chunk within [`CHUNK_BYTES_LIMIT`], a page within
//! [`PAGE_BYTES_LIMIT`] and with no more rows than its row group has left. Checksums are compared
//! if a page has one.

use super::decode::{self, Runs};
use super::footer::{self, Footer, MAGIC};
use super::schema::{Column, Kind};
use super::thrift::{Reader, wire};
use super::{CHUNK_BYTES_LIMIT, FOOTER_BYTES_LIMIT, Fault, PAGE_BYTES_LIMIT};
use crate::TraceError;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file open for reading: its footer is in memory.
#[derive(Debug)]
pub struct FileReader {
    path: PathBuf,
    file: File,
    footer: Footer,
}

impl FileReader {
    /// Opens a file and reads its footer.
    pub fn open(path: &Path) -> Result<FileReader, TraceError> {
        let file = crate::regular::open(path, "open")?;
        let length = file.metadata().map_err(TraceError::io(path, "read the size"))?.len();
        let malformed = |place: String, fault: Fault| TraceError::Malformed {
            path: path.into(),
            place,
            expected: fault.expected,
            found: fault.found,
        };
        if length < 12 {
            let fault = Fault::new(
                "a Parquet file of at least 12 bytes (was it cut short?)",
                format!("{length} bytes"),
            );
            return Err(malformed("its length".into(), fault));
        }
        let mut tail = [0; 8];
        file.read_exact_at(&mut tail, length - 8).map_err(TraceError::io(path, "read"))?;
        let [a, b, c, d, magic @ ..] = tail;
        if magic != *MAGIC {
            let fault = Fault::new(
                "the closing bytes PAR1 (was it cut short?)",
                format!("\"{}\"", magic.escape_ascii()),
            );
            return Err(malformed(format!("byte {}", length - 4), fault));
        }
        let bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
        if bytes > length - 12 || bytes > FOOTER_BYTES_LIMIT as u64 {
            let limit = (length - 12).min(FOOTER_BYTES_LIMIT as u64);
            let place = format!("byte {}", length - 8);
            return Err(TraceError::Limit {
                path: path.into(),
                place,
                what: "the length of the footer",
                found: bytes,
                limit,
            });
        }
        let at = length - 8 - bytes;
        let mut buffer = vec![0; bytes as usize];
        file.read_exact_at(&mut buffer, at).map_err(TraceError::io(path, "read"))?;
        let footer = footer::decode(&buffer, at)
            .map_err(|fault| malformed(format!("footer at byte {at}"), fault))?;
        Ok(FileReader { path: path.into(), file, footer })
    }

    /// The footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A reader of one column. `None` if the file lacks the column and the column may be null.
    pub fn column(&self, column: &Column) -> Result<Option<ColumnReader>, TraceError> {
        let malformed = |expected: String, found: String| TraceError::Malformed {
            path: self.path.clone(),
            place: "its schema".into(),
            expected,
            found,
        };
        let Some(index) =
            self.footer.columns.iter().position(|declared| declared.name == column.name)
        else {
            if column.optional {
                return Ok(None);
            }
            return Err(malformed(format!("a column {}", column.name), "none of that name".into()));
        };
        let declared = &self.footer.columns[index];
        if declared.physical != column.kind.physical() {
            let expected =
                format!("column {} of Parquet type {}", column.name, column.kind.physical());
            return Err(malformed(expected, format!("type {}", declared.physical)));
        }
        Ok(Some(ColumnReader::new(*column, index, declared.optional)))
    }
}

/// Parquet's number of `DELTA_BINARY_PACKED`.
const DELTA: i64 = 5;

/// A stretch of rows of one column. Nulls read as the column's null value.
#[derive(Clone, Copy, Debug)]
pub enum Stretch<'a> {
    /// All rows have this value.
    Constant(u64),
    /// One value a row.
    Values(&'a [u64]),
}

/// The rows with a value.
#[derive(Clone, Copy, Debug)]
pub enum Present<'a> {
    /// All.
    All,
    /// None.
    None,
    /// The rows with level 1.
    Levels(&'a [u8]),
}

/// Reads the pages of one column in order.
///
/// Texts become indices into [`ColumnReader::texts`], or the numbers given by
/// [`ColumnReader::naming`].
#[derive(Debug)]
pub struct ColumnReader {
    column: Column,
    index: usize,
    optional: bool,
    null: u64,
    naming: Option<fn(&str) -> Option<u64>>,
    next_group: usize,
    chunk: Vec<u8>,
    at: usize,
    group_rows_left: usize,
    dictionary: Vec<u64>,
    texts: Vec<String>,
    page: Page,
    plain: Vec<u8>,
    zstd: Decompressor,
    values: Vec<u64>,
    out: Vec<u64>,
    indices: Vec<u32>,
    levels: Vec<u8>,
}

/// A decompression context, made at the first page.
#[derive(Default)]
struct Decompressor(Option<zstd::bulk::Decompressor<'static>>);

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.write_str("Decompressor")
    }
}

/// The rest of the page decoded last.
#[derive(Debug, Default)]
struct Page {
    /// Rows not returned yet.
    rows: usize,
    /// Rows returned.
    at: usize,
    /// Values returned: fewer than rows if some are null.
    filled: usize,
    /// The value of all rows, if equal.
    constant: Option<u64>,
    /// Some rows are null, by `levels`.
    sparse: bool,
    /// All rows are null.
    void: bool,
    /// Rows returned last.
    taken: usize,
    /// `indices` into the dictionary are the values, not `values`.
    coded: bool,
}

struct PageHeader {
    kind: i64,
    plain_bytes: usize,
    packed_bytes: usize,
    checksum: Option<u32>,
    values: usize,
    encoding: i64,
}

impl ColumnReader {
    fn new(column: Column, index: usize, optional: bool) -> ColumnReader {
        ColumnReader {
            column,
            index,
            optional,
            null: u64::MAX,
            naming: None,
            next_group: 0,
            chunk: Vec::new(),
            at: 0,
            group_rows_left: 0,
            dictionary: Vec::new(),
            texts: Vec::new(),
            page: Page::default(),
            plain: Vec::new(),
            zstd: Decompressor::default(),
            values: Vec::new(),
            out: Vec::new(),
            indices: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// Makes nulls read as `null` (default `u64::MAX`).
    pub fn null_is(mut self, null: u64) -> ColumnReader {
        self.null = null;
        self
    }

    /// Makes texts read as the numbers they name; refuses unknown texts.
    pub fn naming(mut self, naming: fn(&str) -> Option<u64>) -> ColumnReader {
        self.naming = Some(naming);
        self
    }

    /// The texts that values are indices of, for the row group read last.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Most rows of the next stretch; 0: the end of the row group.
    pub fn rows_ready(&mut self, file: &FileReader) -> Result<usize, TraceError> {
        while self.page.rows == 0 {
            if self.group_rows_left == 0 {
                return Ok(0);
            }
            self.next_page().map_err(|fault| self.malformed(file, fault))?;
        }
        Ok(self.page.rows)
    }

    /// The next `rows` rows, at most [`ColumnReader::rows_ready`].
    ///
    /// Looks dictionary values up and inserts nulls here, a few rows at a time, so that a page's
    /// columns stay small enough for the caches.
    pub fn take(&mut self, rows: usize) -> Stretch<'_> {
        let page = &mut self.page;
        debug_assert!(rows <= page.rows);
        page.rows -= rows;
        page.taken = rows;
        if let Some(value) = page.constant {
            return Stretch::Constant(value);
        }
        let here = page.at..page.at + rows;
        page.at += rows;
        let (dictionary, indices, values) = (&self.dictionary, &self.indices, &self.values);
        self.out.clear();
        match (page.sparse, page.coded) {
            (false, false) => return Stretch::Values(&values[here]),
            (false, true) => {
                self.out.extend(indices[here].iter().map(|index| dictionary[*index as usize]))
            }
            (true, false) => spread(
                &self.levels[here],
                self.null,
                &mut page.filled,
                |at| values[at],
                &mut self.out,
            ),
            (true, true) => {
                let value = |at: usize| dictionary[indices[at] as usize];
                spread(&self.levels[here], self.null, &mut page.filled, value, &mut self.out);
            }
        }
        Stretch::Values(&self.out)
    }

    /// Which of the rows returned last have a value.
    pub fn present(&self) -> Present<'_> {
        let Page { void, sparse, at, taken, .. } = self.page;
        match (void, sparse) {
            (true, _) => Present::None,
            (false, false) => Present::All,
            (false, true) => Present::Levels(&self.levels[at - taken..at]),
        }
    }

    /// Reads the chunk of row group `group`.
    pub fn open_group(&mut self, file: &FileReader, group: usize) -> Result<(), TraceError> {
        self.next_group = group;
        let chunk = &file.footer.groups[group].chunks[self.index];
        if chunk.bytes > CHUNK_BYTES_LIMIT as u64 {
            return Err(TraceError::Limit {
                path: file.path.clone(),
                place: self.place(),
                what: "the size of the column chunk",
                found: chunk.bytes,
                limit: CHUNK_BYTES_LIMIT as u64,
            });
        }
        self.chunk.resize(chunk.bytes as usize, 0);
        file.file
            .read_exact_at(&mut self.chunk, chunk.offset)
            .map_err(TraceError::io(&file.path, "read"))?;
        self.at = 0;
        self.group_rows_left = chunk.rows as usize;
        self.page = Page::default();
        self.dictionary.clear();
        self.texts.clear();
        Ok(())
    }

    fn place(&self) -> String {
        format!("row group {}, column {}", self.next_group, self.column.name)
    }

    fn malformed(&self, file: &FileReader, fault: Fault) -> TraceError {
        let place = format!("{}, page ending at byte {} of its chunk", self.place(), self.at);
        TraceError::Malformed {
            path: file.path.clone(),
            place,
            expected: fault.expected,
            found: fault.found,
        }
    }

    fn next_page(&mut self) -> Result<(), Fault> {
        let mut reader = Reader::new(&self.chunk[self.at..]);
        let header = page_header(&mut reader)?;
        let packed = reader.take(header.packed_bytes)?;
        self.at = self.chunk.len() - reader.rest().len();
        if crate::checksums::are_compared()
            && header.checksum.is_some_and(|checksum| checksum != crc32fast::hash(packed))
        {
            return Err(Fault::new(
                "content as it was written",
                "a checksum that differs (the file is damaged)",
            ));
        }
        let mut plain = std::mem::take(&mut self.plain);
        decompress(&mut self.zstd.0, packed, header.plain_bytes, &mut plain)?;
        let outcome = match header.kind {
            0 => self.data_page(&plain, &header),
            2 => self.dictionary_page(&plain, &header),
            other => Err(Fault::new(
                "a data page of version 1 or a dictionary page",
                format!("a page of type {other}"),
            )),
        };
        self.plain = plain;
        outcome
    }

    fn dictionary_page(&mut self, plain: &[u8], header: &PageHeader) -> Result<(), Fault> {
        let mut reader = Reader::new(plain);
        // Every entry takes at least four bytes.
        if header.values > plain.len() / 4 {
            return Err(Fault::new(
                format!("{} dictionary values", header.values),
                format!("{} bytes", plain.len()),
            ));
        }
        self.dictionary.clear();
        self.texts.clear();
        for _ in 0..header.values {
            match self.column.kind.plain_bytes() {
                Some(bytes) => {
                    let mut value = [0; 8];
                    value[..bytes].copy_from_slice(reader.take(bytes)?);
                    self.dictionary.push(widen(self.column.kind, value));
                }
                None if self.column.kind == Kind::Text => self.dictionary_text(&mut reader)?,
                None => {
                    return Err(Fault::new("booleans without a dictionary", "a dictionary page"));
                }
            }
        }
        Ok(())
    }

    fn dictionary_text(&mut self, reader: &mut Reader) -> Result<(), Fault> {
        let mut length = [0; 4];
        length.copy_from_slice(reader.take(4)?);
        let bytes = reader.take(u32::from_le_bytes(length) as usize)?;
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Fault::new("UTF-8", bytes.escape_ascii().to_string()))?;
        match self.naming {
            Some(naming) => {
                let shown: String = text.chars().take(40).collect();
                let number = naming(text).ok_or_else(|| {
                    Fault::new(format!("a known {}", self.column.name), format!("{shown:?}"))
                })?;
                self.dictionary.push(number);
            }
            None => {
                self.dictionary.push(self.texts.len() as u64);
                self.texts.push(text.into());
            }
        }
        Ok(())
    }

    fn data_page(&mut self, plain: &[u8], header: &PageHeader) -> Result<(), Fault> {
        let rows = header.values;
        if rows == 0 || rows > self.group_rows_left {
            return Err(Fault::new(
                format!("1 to {} rows, as the row group has left", self.group_rows_left),
                rows.to_string(),
            ));
        }
        let (present, plain) = if self.optional {
            decode::levels(plain, rows, &mut self.levels)?
        } else {
            (Runs::Constant(1), plain)
        };
        let values = match present {
            Runs::Constant(0) => 0,
            Runs::Constant(_) => rows,
            Runs::Mixed => self.levels.iter().map(|level| usize::from(*level)).sum(),
        };
        let mut page = Page {
            rows,
            sparse: present == Runs::Mixed && values > 0,
            void: values == 0,
            ..Page::default()
        };
        page.constant = if values == 0 {
            Some(self.null)
        } else {
            self.page_values(plain, values, header.encoding)?
        };
        page.coded = header.encoding != DELTA && self.column.kind != Kind::Bool;
        if page.sparse {
            if let Some(value) = page.constant.take() {
                page.coded = false;
                self.values.clear();
                self.values.resize(values, value);
            }
            // The place after the last value is read, though not used.
            self.values.push(0);
            self.indices.push(0);
        }
        self.group_rows_left -= rows;
        self.page = page;
        Ok(())
    }

    /// Decodes the non-null values; returns their value if all are equal.
    fn page_values(
        &mut self,
        plain: &[u8],
        values: usize,
        encoding: i64,
    ) -> Result<Option<u64>, Fault> {
        match (encoding, self.column.kind) {
            (DELTA, Kind::I32 | Kind::U32 | Kind::I64 | Kind::U64) => {
                decode::delta(plain, values, &mut self.values)?;
                if self.column.kind == Kind::U32 || self.column.kind == Kind::I32 {
                    self.values
                        .iter_mut()
                        .for_each(|value| *value = widen(self.column.kind, value.to_le_bytes()));
                }
                Ok(None)
            }
            (2 | 8, Kind::I32 | Kind::U32 | Kind::I64 | Kind::U64 | Kind::Text) => {
                self.dictionary_values(plain, values)
            }
            (0, Kind::Bool) => decode::bits(plain, values, &mut self.values),
            (other, kind) => Err(Fault::new(
                "an encoding of bundles (delta for integers, dictionary, plain booleans)",
                format!("encoding {other} of a {kind:?} column"),
            )),
        }
    }

    fn dictionary_values(&mut self, plain: &[u8], values: usize) -> Result<Option<u64>, Fault> {
        let mut reader = Reader::new(plain);
        let width = reader.byte()?;
        let runs =
            decode::hybrid(reader.rest(), u32::from(width), values, &mut self.indices, |index| {
                index as u32
            })?;
        let beyond = |index: u32, distinct: usize| {
            Fault::new(format!("indices under {distinct}"), index.to_string())
        };
        if let Runs::Constant(index) = runs {
            let value = self.dictionary.get(index as usize).copied();
            return value.map(Some).ok_or_else(|| beyond(index, self.dictionary.len()));
        }
        let greatest = self.indices.iter().copied().max().unwrap_or(0);
        if greatest as usize >= self.dictionary.len() {
            return Err(beyond(greatest, self.dictionary.len()));
        }
        Ok(None)
    }
}

/// Appends to `out` for each level the next value or null.
fn spread(
    levels: &[u8],
    null: u64,
    filled: &mut usize,
    value: impl Fn(usize) -> u64,
    out: &mut Vec<u64>,
) {
    let mut at = *filled;
    out.extend(levels.iter().map(|level| {
        // Looked up in any case: a branch would alternate unpredictably.
        let value = value(at);
        at += usize::from(*level);
        if *level == 0 { null } else { value }
    }));
    *filled = at;
}

/// A value of 32 bits as one of 64. Signed values keep their bits too, so no value looks like null.
fn widen(kind: Kind, bytes: [u8; 8]) -> u64 {
    match kind.plain_bytes() {
        Some(4) => u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        _ => u64::from_le_bytes(bytes),
    }
}

fn page_header(reader: &mut Reader) -> Result<PageHeader, Fault> {
    let mut header = PageHeader {
        kind: -1,
        plain_bytes: 0,
        packed_bytes: 0,
        checksum: None,
        values: 0,
        encoding: -1,
    };
    let (mut plain, mut packed, mut values) = (-1, -1, -1);
    reader.structure(|reader, field, kind| match (field, kind) {
        (1, wire::I32) => reader.signed().map(|value| header.kind = value),
        (2, wire::I32) => reader.signed().map(|value| plain = value),
        (3, wire::I32) => reader.signed().map(|value| packed = value),
        (4, wire::I32) => reader.signed().map(|value| header.checksum = Some(value as u32)),
        (5 | 7, wire::STRUCT) => reader.structure(|reader, field, kind| match (field, kind) {
            (1, wire::I32) => reader.signed().map(|value| values = value),
            (2, wire::I32) => reader.signed().map(|value| header.encoding = value),
            _ => reader.skip(kind),
        }),
        _ => reader.skip(kind),
    })?;
    let bounded = |what: &str, value: i64, limit: usize| {
        let within = usize::try_from(value).ok().filter(|value| *value <= limit);
        within.ok_or_else(|| Fault::new(format!("{what} from 0 to {limit}"), value.to_string()))
    };
    header.plain_bytes = bounded("a page size", plain, PAGE_BYTES_LIMIT)?;
    header.packed_bytes = bounded("a compressed page size", packed, CHUNK_BYTES_LIMIT)?;
    header.values = bounded("a number of values", values, PAGE_BYTES_LIMIT)?;
    Ok(header)
}

fn decompress(
    zstd: &mut Option<zstd::bulk::Decompressor<'static>>,
    packed: &[u8],
    plain_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let zstd = match zstd {
        Some(zstd) => zstd,
        None => zstd.insert(
            zstd::bulk::Decompressor::new()
                .map_err(|error| Fault::new("memory for zstd", error.to_string()))?,
        ),
    };
    out.resize(plain_bytes, 0);
    let found = zstd.decompress_to_buffer(packed, &mut out[..]);
    let found = found.map_err(|error| {
        Fault::new(format!("{plain_bytes} bytes compressed by zstd"), error.to_string())
    })?;
    if found != plain_bytes {
        return Err(Fault::new(
            format!("{plain_bytes} bytes"),
            format!("{found} bytes after decompression"),
        ));
    }
    Ok(())
}
