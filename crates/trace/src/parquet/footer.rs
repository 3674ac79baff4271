//! The table of contents at the end of a Parquet file: schema, row groups, and the places of their
//! column chunks.

use super::schema::{Column, Kind};
use super::thrift::{Reader, Writer, wire};
use super::{Fault, ROW_GROUP_ROWS};

/// First and last bytes of every Parquet file.
pub const MAGIC: &[u8; 4] = b"PAR1";

/// Compression by zstd, Parquet's number.
pub const ZSTD: i32 = 6;

/// One column of one row group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Its offset in the file: of its dictionary page, or its first data page.
    pub offset: u64,
    /// Bytes of its dictionary page; 0: none.
    pub dictionary_bytes: u64,
    /// Bytes in the file, page headers included.
    pub bytes: u64,
    /// Bytes of its pages, headers included, before compression.
    pub uncompressed_bytes: u64,
    /// Rows, nulls included.
    pub rows: u64,
    /// Nulls among them.
    pub nulls: u64,
    /// Parquet's numbers of the encodings within.
    pub encodings: Vec<i32>,
    /// Minimum and maximum as plain little-endian bytes, if known.
    pub range: Option<(Vec<u8>, Vec<u8>)>,
}

/// One row group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowGroup {
    /// Rows.
    pub rows: u64,
    /// One chunk a column, in the order of the schema.
    pub chunks: Vec<Chunk>,
}

/// A column as a file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Parquet's number of its physical type.
    pub physical: i32,
    /// Whether it may be null.
    pub optional: bool,
}

/// The content of a footer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footer {
    /// The columns.
    pub columns: Vec<Declared>,
    /// Rows of the whole file.
    pub rows: u64,
    /// The row groups in order.
    pub groups: Vec<RowGroup>,
}

/// Encodes the footer, without its length and magic.
pub fn encode(
    columns: &[Column],
    rows: u64,
    groups: &[RowGroup],
    key_values: &[(String, String)],
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut file = Writer::new(&mut out);
    file.i32(1, 2);
    let elements: Vec<Option<&Column>> =
        std::iter::once(None).chain(columns.iter().map(Some)).collect();
    file.structures(2, &elements, |writer, element| {
        schema_element(writer, *element, columns.len())
    });
    file.i64(3, rows as i64);
    file.structures(4, groups, |writer, group| row_group(writer, columns, group));
    file.structures(5, key_values, |writer, (key, value)| {
        writer.bytes(1, key.as_bytes());
        writer.bytes(2, value.as_bytes());
    });
    file.bytes(6, concat!("heaplab version ", env!("CARGO_PKG_VERSION")).as_bytes());
    // Without an order for each column, readers must ignore minimum and maximum values.
    file.structures(7, columns, |writer, _| writer.structure(1, |_| ()));
    file.end();
    out
}

fn schema_element(writer: &mut Writer, column: Option<&Column>, columns: usize) {
    let Some(column) = column else {
        writer.bytes(4, b"heaplab");
        writer.i32(5, columns as i32);
        return;
    };
    writer.i32(1, column.kind.physical());
    writer.i32(3, i32::from(column.optional));
    writer.bytes(4, column.name.as_bytes());
    if let Some(converted) = column.kind.converted() {
        writer.i32(6, converted);
    }
    match column.kind {
        Kind::Text => writer.structure(10, |kind| kind.structure(1, |_| ())),
        Kind::U32 | Kind::U64 => writer.structure(10, |kind| {
            kind.structure(10, |integer| {
                integer.i8(1, if column.kind == Kind::U32 { 32 } else { 64 });
                integer.bool(2, false);
            });
        }),
        Kind::Bool | Kind::I32 | Kind::I64 => {}
    }
}

fn row_group(writer: &mut Writer, columns: &[Column], group: &RowGroup) {
    let pairs: Vec<(&Column, &Chunk)> = columns.iter().zip(&group.chunks).collect();
    writer.structures(1, &pairs, |writer, (column, chunk)| {
        writer.i64(2, 0);
        writer.structure(3, |meta| column_meta(meta, column, chunk));
    });
    writer.i64(2, group.chunks.iter().map(|chunk| chunk.uncompressed_bytes as i64).sum());
    writer.i64(3, group.rows as i64);
    writer.i64(5, group.chunks.first().map_or(0, |chunk| chunk.offset as i64));
    writer.i64(6, group.chunks.iter().map(|chunk| chunk.bytes as i64).sum());
}

fn column_meta(meta: &mut Writer, column: &Column, chunk: &Chunk) {
    meta.i32(1, column.kind.physical());
    meta.i32s(2, &chunk.encodings);
    meta.texts(3, &[column.name]);
    meta.i32(4, ZSTD);
    meta.i64(5, chunk.rows as i64);
    meta.i64(6, chunk.uncompressed_bytes as i64);
    meta.i64(7, chunk.bytes as i64);
    meta.i64(9, (chunk.offset + chunk.dictionary_bytes) as i64);
    if chunk.dictionary_bytes > 0 {
        meta.i64(11, chunk.offset as i64);
    }
    meta.structure(12, |statistics| {
        statistics.i64(3, chunk.nulls as i64);
        if let Some((least, greatest)) = &chunk.range {
            statistics.bytes(5, greatest);
            statistics.bytes(6, least);
        }
    });
}

/// Decodes a footer. `end` is its offset in the file: no chunk may reach beyond.
pub fn decode(bytes: &[u8], end: u64) -> Result<Footer, Fault> {
    let mut footer = Footer::default();
    Reader::new(bytes).structure(|reader, field, kind| match (field, kind) {
        (2, wire::LIST) => {
            footer.columns = schema(reader)?;
            Ok(())
        }
        (3, wire::I64) => {
            footer.rows = unsigned(reader, "number of rows")?;
            Ok(())
        }
        (4, wire::LIST) => each_structure(reader, |reader| {
            let columns = footer.columns.len();
            footer.groups.push(decode_group(reader, end, columns)?);
            Ok(())
        }),
        _ => reader.skip(kind),
    })?;
    let sum: u64 = footer.groups.iter().map(|group| group.rows).sum();
    if sum != footer.rows {
        return Err(Fault::new(
            format!("{} rows in the row groups together", footer.rows),
            sum.to_string(),
        ));
    }
    Ok(footer)
}

fn each_structure<'a>(
    reader: &mut Reader<'a>,
    mut each: impl FnMut(&mut Reader<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let (kind, length) = reader.list()?;
    if kind != wire::STRUCT && length > 0 {
        return Err(Fault::new("a list of structs", format!("a list of type {kind}")));
    }
    for _ in 0..length {
        each(reader)?;
    }
    Ok(())
}

fn unsigned(reader: &mut Reader, what: &str) -> Result<u64, Fault> {
    let value = reader.signed()?;
    u64::try_from(value)
        .map_err(|_| Fault::new(format!("a {what} of at least 0"), value.to_string()))
}

fn schema(reader: &mut Reader) -> Result<Vec<Declared>, Fault> {
    let mut columns = Vec::new();
    let mut root = true;
    each_structure(reader, |reader| {
        let (mut name, mut physical, mut repetition, mut children) = (String::new(), -1, 0, 0);
        reader.structure(|reader, field, kind| match (field, kind) {
            (1, wire::I32) => reader.signed().map(|value| physical = value as i32),
            (3, wire::I32) => reader.signed().map(|value| repetition = value),
            (4, wire::BINARY) => {
                reader.binary().map(|value| name = String::from_utf8_lossy(value).into_owned())
            }
            (5, wire::I32) => reader.signed().map(|value| children = value),
            _ => reader.skip(kind),
        })?;
        if root {
            root = false;
            return Ok(());
        }
        if children != 0 || !(0..=1).contains(&repetition) {
            return Err(Fault::new(
                "columns that are neither nested nor repeated",
                format!("column {name}"),
            ));
        }
        columns.push(Declared { name, physical, optional: repetition == 1 });
        Ok(())
    })?;
    Ok(columns)
}

fn decode_group(reader: &mut Reader, end: u64, columns: usize) -> Result<RowGroup, Fault> {
    let mut group = RowGroup::default();
    reader.structure(|reader, field, kind| match (field, kind) {
        (1, wire::LIST) => each_structure(reader, |reader| {
            group.chunks.push(decode_chunk(reader, end)?);
            Ok(())
        }),
        (3, wire::I64) => unsigned(reader, "number of rows").map(|rows| group.rows = rows),
        _ => reader.skip(kind),
    })?;
    if group.rows > ROW_GROUP_ROWS as u64 {
        return Err(Fault::new(
            format!("row groups of at most {ROW_GROUP_ROWS} rows"),
            format!("one of {}", group.rows),
        ));
    }
    if group.chunks.len() != columns {
        return Err(Fault::new(
            format!("a chunk for each of {columns} columns"),
            format!("{} chunks", group.chunks.len()),
        ));
    }
    if let Some(chunk) = group.chunks.iter().find(|chunk| chunk.rows != group.rows) {
        return Err(Fault::new(
            format!("{} rows in each chunk of the row group", group.rows),
            chunk.rows.to_string(),
        ));
    }
    Ok(group)
}

fn decode_chunk(reader: &mut Reader, end: u64) -> Result<Chunk, Fault> {
    let mut chunk = Chunk::default();
    let (mut codec, mut data, mut dictionary) = (0, 0, None);
    reader.structure(|reader, field, kind| match (field, kind) {
        (3, wire::STRUCT) => reader.structure(|reader, field, kind| match (field, kind) {
            (4, wire::I32) => reader.signed().map(|value| codec = value as i32),
            (5, wire::I64) => unsigned(reader, "number of values").map(|value| chunk.rows = value),
            (6, wire::I64) => {
                unsigned(reader, "size").map(|value| chunk.uncompressed_bytes = value)
            }
            (7, wire::I64) => unsigned(reader, "size").map(|value| chunk.bytes = value),
            (9, wire::I64) => unsigned(reader, "offset").map(|value| data = value),
            (11, wire::I64) => unsigned(reader, "offset").map(|value| dictionary = Some(value)),
            _ => reader.skip(kind),
        }),
        _ => reader.skip(kind),
    })?;
    chunk.offset = dictionary.filter(|offset| *offset > 0).map_or(data, |offset| offset.min(data));
    chunk.dictionary_bytes = data - chunk.offset;
    if codec != ZSTD {
        return Err(Fault::new(
            format!("columns compressed by zstd (codec {ZSTD})"),
            format!("codec {codec}"),
        ));
    }
    if chunk.offset < 4 || chunk.offset.checked_add(chunk.bytes).is_none_or(|last| last > end) {
        let found = format!("one of {} bytes at {}", chunk.bytes, chunk.offset);
        return Err(Fault::new(format!("column chunks between bytes 4 and {end}"), found));
    }
    Ok(chunk)
}
