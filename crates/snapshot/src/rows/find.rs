//! Where the header and each list of a file lie.

use super::header::{Columns, ScopeColumns, header};
use crate::ReadError;
use crate::meta::{CountPlaces, Header};
use crate::names::StringId;
use crate::reader::{Cursor, Key, check_order, offset_of, second_id};
use crate::write::{Counts, Layout, NodeField, Rows as LineEnds, Section};
use std::ops::Range;

/// A snapshot with the places of its lists. [`Rows::nodes`] and its sisters read the rows.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    pub(super) bytes: &'a [u8],
    /// The columns and types that the header declares.
    pub layout: Layout,
    /// The counts that the header declares.
    pub counts: Counts,
    /// The root's index in the list of nodes.
    pub(super) root_index: u64,
    /// The node columns; `None` for unknown ones.
    pub(super) columns: Vec<Option<NodeField>>,
    /// Type, name and end.
    pub(super) edge_columns: Columns<3>,
    pub(super) indexed: [bool; 256],
    /// Function, name, script name, script, line and column.
    pub(super) trace_function_columns: Columns<6>,
    /// Id, function, count and size; the children are last.
    pub(super) trace_node_columns: Columns<4>,
    /// Time and last id.
    pub(super) sample_columns: Columns<2>,
    /// Object, script, line and column.
    pub(super) location_columns: Columns<4>,
    /// The script's node, where a location has it.
    pub(super) script_object_at: Option<usize>,
    pub(super) scope_columns: Option<ScopeColumns>,
    pub(super) ranges: [Option<Range<usize>>; Section::ALL.len()],
    pub(super) string_count: u64,
    /// Columns and lists that are not known here, by name.
    pub(crate) unknown: Vec<String>,
    /// Whether nodes may share an id, which a caller that rewrites the file may allow.
    pub(super) duplicate_ids: bool,
}

/// How a snapshot begins.
pub(crate) const BEGINNING: &str = "`{\"snapshot\":`, the beginning of a heap snapshot";

/// What [`Rows::locate`] found on its way, damage or not.
#[derive(Debug)]
pub(crate) struct Located<'a> {
    /// The lists found so far; `None` if the header is unreadable.
    pub(crate) rows: Option<Rows<'a>>,
    /// Lists that do not end.
    pub(crate) cut: Option<(Section, usize)>,
    /// What ended it.
    pub(crate) damage: Option<ReadError>,
    /// Counts that no file of this length can have, where nothing else ended it.
    pub(crate) lie: Option<ReadError>,
}

impl<'a> Rows<'a> {
    /// Finds the lists. Every list of numbers may be missing but nodes and edges; strings must be
    /// there.
    pub fn find(bytes: &'a [u8]) -> Result<Rows<'a>, ReadError> {
        match Rows::locate(bytes) {
            Located { rows: Some(rows), damage: None, lie: None, .. } if rows.root_index != 0 => {
                Err(ReadError::saying(
                    0,
                    "a root that is the first node, as in V8's files",
                    format!("the `root_index` {}", rows.root_index),
                ))
            }
            Located { rows: Some(rows), damage: None, lie: None, .. } => Ok(rows),
            Located { damage, lie, .. } => {
                Err(damage.or(lie).unwrap_or_else(|| ReadError::at(bytes, 0, "a snapshot")))
            }
        }
    }

    /// Like [`Rows::find`]; of a damaged file, the lists before the damage.
    pub(crate) fn locate(bytes: &'a [u8]) -> Located<'a> {
        let mut located = Located { rows: None, cut: None, damage: None, lie: None };
        located.damage = locate(bytes, &mut located).err();
        located
    }

    /// Where a list lies, brackets included.
    pub(crate) fn range(&self, section: Section) -> Option<Range<usize>> {
        self.ranges[section as usize].clone()
    }

    /// Takes a list for whole though its end is missing, so that its rows can be read up to there.
    pub(crate) fn accept_cut(&mut self, section: Section, start: usize) {
        self.ranges[section as usize] = Some(start..self.bytes.len());
    }

    /// Allows nodes to share an id. A caller that rewrites the file gives all but the first of
    /// these nodes new ids, larger than any and of the same parity. By default such a file is
    /// refused, as in reading.
    pub fn allow_duplicate_ids(&mut self) {
        self.duplicate_ids = true;
    }

    pub(crate) fn duplicate_ids_allowed(&self) -> bool {
        self.duplicate_ids
    }

    /// The error of a node whose id an earlier node has.
    #[cold]
    pub(crate) fn duplicate_id(&self, first: usize, second: usize) -> ReadError {
        let column =
            self.columns.iter().position(|column| *column == Some(NodeField::Id)).unwrap_or(0);
        let start = self.range(Section::Nodes).map_or(0, |range| range.start);
        let [first, second] = [first, second]
            .map(|row| offset_of(self.bytes, start, (row * self.columns.len() + column) as u64));
        second_id(self.bytes, first, second)
    }

    /// Whether a list is there.
    pub fn has(&self, section: Section) -> bool {
        self.ranges[section as usize].is_some()
    }

    /// Remembers the key at the cursor as one that is not known here, unless its list is empty.
    fn pass_unknown(&mut self, mut cursor: Cursor<'_>) {
        let Ok(key) = cursor.string("a key in quotes") else { return };
        let is_empty = cursor.take(b':') && cursor.take(b'[') && cursor.take(b']');
        if !is_empty {
            self.unknown.push(String::from_utf8_lossy(key).into_owned());
        }
    }

    /// Takes every name for one that is there, because the strings are not.
    pub(crate) fn trust_names(&mut self) {
        self.string_count = u64::from(u32::MAX);
    }

    /// An error at the bracket that ends a list.
    pub(crate) fn at_end_of(&self, section: Section, expected: impl Into<String>) -> ReadError {
        ReadError::at(
            self.bytes,
            self.range(section).map_or(0, |range| range.end.saturating_sub(1)),
            expected,
        )
    }

    /// How many strings there are.
    pub fn string_count(&self) -> u64 {
        self.string_count
    }

    /// A number below `limit`.
    #[inline]
    pub(super) fn small(
        &self,
        number: u64,
        limit: usize,
        numbers: &super::Numbers<'_>,
        field: usize,
        what: &str,
    ) -> Result<u8, ReadError> {
        if number < limit as u64 {
            Ok(number as u8)
        } else {
            Err(numbers.error(field, format!("{what} below {limit}")))
        }
    }

    /// A number of 32 bits.
    #[inline]
    pub(super) fn short(
        &self,
        number: u64,
        numbers: &super::Numbers<'_>,
        field: usize,
        expected: &str,
    ) -> Result<u64, ReadError> {
        if number >> 32 == 0 { Ok(number) } else { Err(numbers.error(field, expected.to_owned())) }
    }

    /// The number of a string.
    #[inline]
    pub(super) fn name(
        &self,
        number: u64,
        numbers: &super::Numbers<'_>,
        field: usize,
    ) -> Result<StringId, ReadError> {
        if number < self.string_count {
            return Ok(StringId(number as u32));
        }
        Err(numbers.error(
            field,
            format!("a string's number below {}, the strings there are", self.string_count),
        ))
    }

    /// The ordinal of a node from its place in the list.
    #[inline]
    pub(super) fn node(
        &self,
        place: u64,
        numbers: &super::Numbers<'_>,
        field: usize,
    ) -> Result<u64, ReadError> {
        let width = self.columns.len() as u64;
        let ordinal = place / width;
        if place.is_multiple_of(width) && ordinal < self.counts.nodes {
            return Ok(ordinal);
        }
        Err(numbers.error(
            field,
            format!(
                "a multiple of {width} below {}, the index of a node",
                self.counts.nodes.saturating_mul(width)
            ),
        ))
    }
}

fn locate<'a>(bytes: &'a [u8], located: &mut Located<'a>) -> Result<(), ReadError> {
    let mut cursor = Cursor::new(bytes);
    cursor.expect(b'{', BEGINNING)?;
    let mut last = None;
    let mut head: Option<(Header, CountPlaces)> = None;
    loop {
        if last.is_some() && !cursor.take(b',') {
            cursor.expect(b'}', "a comma and the next key, or `}`")?;
            break;
        }
        let before = cursor;
        let Some(key) = Key::read(&mut cursor, last.is_none())? else {
            located.rows.iter_mut().for_each(|rows| rows.pass_unknown(before));
            continue;
        };
        let functions = head.as_ref().is_some_and(|(header, _)| header.trace_function_count > 0);
        check_order(bytes, &key, last, functions)?;
        last = Some(key.place);
        let Some(section) = key.section() else {
            let (rows, header, places) = header(&mut cursor)?;
            located.rows = Some(rows);
            head = Some((header, places));
            continue;
        };
        let Some(rows) = located.rows.as_mut() else { continue };
        // Scopes with unknown fields are skipped like any unknown list.
        if section.is_of_scopes() && rows.scope_columns.is_none() {
            rows.pass_unknown(before);
            cursor.skip()?;
            continue;
        }
        cursor.peek();
        let start = cursor.at;
        if let Err(damage) = pass(&mut cursor, section, rows) {
            located.cut = Some((section, start));
            return Err(damage);
        }
        rows.ranges[section as usize] = Some(start..cursor.at);
        if section == Section::Nodes {
            rows.layout.rows = line_ends(bytes, start, rows.columns.len());
        }
    }
    let end = cursor.at - 1;
    if cursor.peek().is_some() {
        return Err(cursor.error("the end of the file"));
    }
    if let Some(rows) = &located.rows {
        Key::needed(end, |section| rows.has(section), rows.counts.trace_functions)?;
    }
    // Then the file's size bounds everything sized by a count.
    located.lie = head.and_then(|(header, places)| header.check_counts(&places, bytes).err());
    Ok(())
}

/// Passes a list; strings are counted.
fn pass(cursor: &mut Cursor<'_>, section: Section, rows: &mut Rows<'_>) -> Result<(), ReadError> {
    if section == Section::TraceTree {
        return cursor.skip().map(|_| ());
    }
    if section == Section::Strings {
        cursor.expect(b'[', "a list")?;
        rows.string_count = count_strings(cursor)?;
        return Ok(());
    }
    pass_numbers(cursor, section)
}

/// Passes a list of numbers.
pub(super) fn pass_numbers(cursor: &mut Cursor<'_>, section: Section) -> Result<(), ReadError> {
    cursor.expect(b'[', "a list")?;
    // Numbers have no brackets.
    let Some(length) = memchr::memchr(b']', &cursor.bytes[cursor.at..]) else {
        return Err(ReadError::at(
            cursor.bytes,
            cursor.bytes.len(),
            format!("the rest of `{}`, which does not end", section.key()),
        ));
    };
    cursor.at += length + 1;
    Ok(())
}

/// Passes strings behind their bracket.
fn count_strings(cursor: &mut Cursor<'_>) -> Result<u64, ReadError> {
    let mut count = 0u64;
    while !cursor.take(b']') {
        if count > 0 {
            cursor.expect(b',', "a comma or `]`")?;
        }
        cursor.string("a string in quotes")?;
        count += 1;
    }
    if count > u64::from(u32::MAX) {
        Err(cursor.error("fewer than 2^32 strings"))
    } else {
        Ok(count)
    }
}

fn line_ends(bytes: &[u8], start: usize, columns: usize) -> LineEnds {
    let after_row = bytes[start..]
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b',')
        .nth(columns.saturating_sub(1));
    match after_row {
        Some((comma, _)) if bytes[start + comma - 1] == b'\n' => LineEnds::OnePerLine,
        _ => LineEnds::OneLine,
    }
}
