//! The small lists: samples, locations, and the allocation tree. Fields are found by name, every
//! number is checked.

use super::cursor::Cursor;
use super::ints::{self, Ints};
use crate::meta::{
    Header, LOCATION_FIELDS, SAMPLE_FIELDS, TRACE_FUNCTION_FIELDS, TRACE_NODE_FIELDS, field,
};
use crate::snapshot::{Location, Sample, TraceFunction, TraceNode, Traces};
use crate::{Instructions, ReadError};

/// A list's place, and the means to read it.
#[derive(Clone, Copy, Debug)]
pub(super) struct List<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
    pub instructions: Option<Instructions>,
}

/// Names that were read before the strings: the largest and where it stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Names {
    largest: Option<(u64, usize)>,
}

impl Names {
    /// Where a name stands that is beyond the strings there are.
    pub fn beyond(&self, strings: u64) -> Option<usize> {
        self.largest.filter(|(name, _)| *name >= strings).map(|(_, at)| at)
    }
}

/// Calls `each` with the rows of a list of `fields` numbers each.
fn rows(
    list: &List,
    fields: usize,
    mut each: impl FnMut(u64, &[u64]) -> Result<(), ReadError>,
) -> Result<usize, ReadError> {
    let mut ints = Ints::new(list.bytes, list.at, list.instructions);
    let mut buffer = vec![0; fields * 64 + ints::FILL_ROOM];
    let (mut held, mut row) = (0, 0);
    loop {
        let filled = ints.fill(&mut buffer[held..])?;
        held += filled;
        for values in buffer[..held].chunks_exact(fields) {
            each(row, values)?;
            row += 1;
        }
        let done = held / fields * fields;
        buffer.copy_within(done..held, 0);
        held -= done;
        match ints.end() {
            Some(end) if filled == 0 && held != 0 => {
                return Err(ReadError::at(
                    list.bytes,
                    end - 1,
                    format!("a comma: rows have {fields} fields"),
                ));
            }
            Some(end) if filled == 0 => return Ok(end),
            _ => {}
        }
    }
}

/// Where fields stand; the header's reader has made sure that they are there.
fn places<const N: usize>(fields: &[String], names: [&str; N]) -> [usize; N] {
    names.map(|name| field(fields, name).unwrap_or(0))
}

/// A value that must fit 32 bits.
fn small(bytes: &[u8], at: usize, index: u64, value: u64, what: &str) -> Result<u32, ReadError> {
    u32::try_from(value).map_err(|_| {
        ReadError::at(bytes, ints::offset_of(bytes, at, index), format!("{what} below 2^32"))
    })
}

pub(super) fn samples(
    list: &List,
    header: &Header,
    samples: &mut Vec<Sample>,
) -> Result<usize, ReadError> {
    let fields = &header.meta.sample_fields;
    let [timestamp, last] = places(fields, SAMPLE_FIELDS);
    rows(list, fields.len(), |_, row| {
        samples.push(Sample { timestamp_us: row[timestamp], last_assigned_id: row[last] });
        Ok(())
    })
}

pub(super) fn locations(
    list: &List,
    header: &Header,
    locations: &mut Vec<Location>,
) -> Result<usize, ReadError> {
    let (bytes, at) = (list.bytes, list.at);
    let fields = &header.meta.location_fields;
    let [object, script, line, column] = places(fields, LOCATION_FIELDS);
    let script_object = field(fields, "script_object_index").unwrap_or(object);
    let node_fields = header.meta.node_fields.len() as u64;
    rows(list, fields.len(), |number, row| {
        let index = |place: usize| number * fields.len() as u64 + place as u64;
        for place in [object, script_object] {
            if !row[place].is_multiple_of(node_fields)
                || row[place] / node_fields >= header.node_count
            {
                let expected = format!(
                    "a multiple of {node_fields} below {}, the index of a node",
                    header.node_count * node_fields
                );
                return Err(ReadError::at(
                    bytes,
                    ints::offset_of(bytes, at, index(place)),
                    expected,
                ));
            }
        }
        locations.push(Location {
            node: (row[object] / node_fields) as u32,
            script_id: small(bytes, at, index(script), row[script], "a script's number")?,
            line: small(bytes, at, index(line), row[line], "a line")?,
            column: small(bytes, at, index(column), row[column], "a column")?,
        });
        Ok(())
    })
}

pub(super) fn trace_functions(
    list: &List,
    header: &Header,
    traces: &mut Traces,
    names: &mut Names,
) -> Result<usize, ReadError> {
    let (bytes, at) = (list.bytes, list.at);
    let fields = &header.meta.trace_function_info_fields;
    let [id, name, script_name, script_id, line, column] = places(fields, TRACE_FUNCTION_FIELDS);
    let count = header.trace_function_count;
    let end = rows(list, fields.len(), |number, row| {
        let index = |place: usize| number * fields.len() as u64 + place as u64;
        if number == count {
            let surplus = ints::offset_of(bytes, at, index(0));
            return Err(ReadError::at(
                bytes,
                surplus,
                format!("`]` behind {count} functions, as the header says"),
            ));
        }
        for place in [name, script_name] {
            if names.largest.is_none_or(|(largest, _)| row[place] > largest) {
                names.largest = Some((row[place], ints::offset_of(bytes, at, index(place))));
            }
        }
        traces.functions.push(TraceFunction {
            function_id: row[id],
            name: small(bytes, at, index(name), row[name], "a string's number")?,
            script_name: small(
                bytes,
                at,
                index(script_name),
                row[script_name],
                "a string's number",
            )?,
            script_id: row[script_id],
            line: row[line],
            column: row[column],
        });
        Ok(())
    })?;
    let there = traces.functions.len() as u64;
    if there != count {
        return Err(ReadError::at(
            bytes,
            end - 1,
            format!("{count} functions, as the header says ({there} are there)"),
        ));
    }
    Ok(end)
}

/// The tree of calls: lists within lists, as deep as the program's stacks were, walked without
/// recursion.
pub(super) fn trace_tree(
    cursor: &mut Cursor,
    header: &Header,
    traces: &mut Traces,
) -> Result<(), ReadError> {
    let fields = &header.meta.trace_node_fields;
    let [id, function, count, size, children] = places(fields, TRACE_NODE_FIELDS);
    // Indices of the nodes whose children are being read; the outermost list has only the root.
    let mut open: Vec<Option<u32>> = vec![None];
    let mut values = vec![0; fields.len()];
    let mut first = true;
    cursor.expect(b'[', "the allocation tree, a list")?;
    while let Some(&parent) = open.last() {
        if cursor.take(b']') {
            open.pop();
            first = false;
            continue;
        }
        if !first {
            cursor.expect(b',', "a comma or `]`")?;
        }
        for (place, value) in values[..children].iter_mut().enumerate() {
            cursor.peek();
            let from = cursor.at;
            *value = cursor.integer(&fields[place])?;
            if place == function && *value >= header.trace_function_count {
                return Err(ReadError::at(
                    cursor.bytes,
                    from,
                    format!("a function below {}", header.trace_function_count),
                ));
            }
            cursor.expect(b',', "a comma")?;
        }
        let node = TraceNode {
            id: values[id],
            function: values[function] as u32,
            count: values[count],
            size_bytes: values[size],
            parent,
        };
        open.push(Some(traces.nodes.len() as u32));
        traces.nodes.push(node);
        cursor.expect(b'[', "the children, a list")?;
        first = true;
    }
    Ok(())
}
