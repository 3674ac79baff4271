//! Any table of rows as a Parquet file: value by value, for tables too small for columns.

use super::PAGE_ROWS;
use super::encode::{Present, bits};
use super::schema::{Column, Kind};
use super::write::FileWriter;
use std::io::Write;

/// One value of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Null.
    Null,
    /// A number or a row of another table.
    Number(u64),
    /// A text.
    Text(std::borrow::Cow<'a, str>),
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Value::Number(value)
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Value::Number(value.into())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Value::Text(value.into())
    }
}

impl From<String> for Value<'_> {
    fn from(value: String) -> Self {
        Value::Text(value.into())
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(value: &'a String) -> Self {
        Value::Text(value.as_str().into())
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// Writes a table to `out`: `value(row, column)` gives each value.
///
/// # Errors
/// Those of `out`.
pub fn write<'a, W: Write>(
    out: W,
    columns: &[Column],
    rows: usize,
    value: impl Fn(usize, usize) -> Value<'a>,
) -> std::io::Result<W> {
    let mut file = FileWriter::new(out, columns)?;
    let mut from = 0;
    while from < rows {
        let page = (rows - from).min(PAGE_ROWS / 16);
        file.page(page, |index, writer, squeeze| {
            let values = (from..from + page).map(|row| value(row, index));
            if columns[index].kind == Kind::Text {
                let texts: Vec<Value> = values.collect();
                return writer.texts(
                    texts.iter().map(|value| {
                        if let Value::Text(text) = value { Some(&**text) } else { None }
                    }),
                    squeeze,
                );
            }
            let (mut numbers, mut present, mut packed) = (Vec::new(), Vec::new(), Vec::new());
            for value in values {
                present.push(matches!(value, Value::Number(_)));
                numbers.extend(if let Value::Number(number) = value { Some(number) } else { None });
            }
            bits(present.into_iter(), &mut packed);
            let present = match numbers.len() {
                0 => Present::None,
                length if length == page => Present::All,
                _ => Present::Bits(&packed),
            };
            writer.integers(&numbers, present, page, squeeze)
        })?;
        from += page;
    }
    Ok(file.finish(&[])?.0)
}
