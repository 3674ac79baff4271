//! Where the header and each list of a file lie.

use super::cursor::Cursor;
use super::damage::Damage;
use super::header::{Columns, ScopeColumns, header};
use crate::names::StringId;
use crate::write::{Counts, Layout, NodeField, Rows as LineEnds, Section};
use std::ops::Range;

/// A snapshot whose lists have been found. Rows are read with [`Rows::nodes`] and its sisters.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    pub(super) bytes: &'a [u8],
    /// What its header says of columns and types.
    pub layout: Layout,
    /// What its header says of counts.
    pub counts: Counts,
    /// Its node columns; none for those that are not known here.
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
}

/// What [`Rows::locate`] found on its way, damage or not.
#[derive(Debug)]
pub(crate) struct Located<'a> {
    /// What was found so far; none if the header is no header.
    pub(crate) rows: Option<Rows<'a>>,
    /// Lists that do not end.
    pub(crate) cut: Option<(Section, usize)>,
    /// What ended it.
    pub(crate) damage: Option<Damage>,
}

impl<'a> Rows<'a> {
    /// Finds the lists. Every list of numbers may be missing but nodes and edges; strings must be there.
    pub fn find(bytes: &'a [u8]) -> Result<Rows<'a>, Damage> {
        match Rows::locate(bytes) {
            Located { rows: Some(rows), damage: None, .. } => Ok(rows),
            Located { damage, .. } => Err(damage.unwrap_or_else(|| Damage::at(bytes, 0, "a snapshot"))),
        }
    }

    /// The same, and what was found where it is damaged.
    pub(crate) fn locate(bytes: &'a [u8]) -> Located<'a> {
        let mut located = Located { rows: None, cut: None, damage: None };
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

    /// Whether a list is there.
    pub fn has(&self, section: Section) -> bool {
        self.ranges[section as usize].is_some()
    }

    /// Takes every name for one that is there, because the strings are not.
    pub(crate) fn trust_names(&mut self) {
        self.string_count = u64::from(u32::MAX);
    }

    /// Damage at the end of a list.
    pub(crate) fn damage_at(&self, section: Section, expected: &'static str) -> Damage {
        Damage::at(self.bytes, self.range(section).map_or(0, |range| range.end.saturating_sub(1)), expected)
    }

    /// How many strings there are.
    pub fn string_count(&self) -> u64 {
        self.string_count
    }

    /// Nodes' columns in a row.
    pub(crate) fn node_columns(&self) -> u64 {
        self.columns.len() as u64
    }

    /// A number below `limit`.
    #[inline]
    pub(super) fn small(&self, number: u64, limit: usize, offset: usize, expected: &'static str) -> Result<u8, Damage> {
        if number < limit as u64 { Ok(number as u8) } else { Err(Damage::at(self.bytes, offset, expected)) }
    }

    /// The number of a string.
    #[inline]
    pub(crate) fn name(&self, number: u64, offset: usize) -> Result<StringId, Damage> {
        if number < self.string_count { Ok(StringId(number as u32)) } else { Err(Damage::at(self.bytes, offset, "a string that is there")) }
    }

    /// The ordinal of a node from its place in the list.
    #[inline]
    pub(crate) fn node(&self, place: u64, offset: usize) -> Result<u64, Damage> {
        let width = self.columns.len() as u64;
        let ordinal = place / width;
        if place.is_multiple_of(width) && ordinal < self.counts.nodes {
            Ok(ordinal)
        } else {
            Err(Damage::at(self.bytes, offset, "the place of a node that is there"))
        }
    }
}

fn locate<'a>(bytes: &'a [u8], located: &mut Located<'a>) -> Result<(), Damage> {
    let mut cursor = Cursor { bytes, at: 0 };
    cursor.expect(b'{', "`{\"snapshot\":`")?;
    if cursor.raw_string()? != b"snapshot" {
        return Err(Damage::at(bytes, 1, "`\"snapshot\"` as the first key"));
    }
    cursor.expect(b':', "a colon")?;
    let rows = located.rows.insert(header(&mut cursor)?);
    let mut last = None;
    while cursor.take(b',') {
        cursor.peek();
        let key_at = cursor.at;
        let key = cursor.raw_string()?;
        cursor.expect(b':', "a colon")?;
        // Scopes whose fields are not known are passed like any other list that nobody knows.
        let is_known = |section: &Section| section.key().as_bytes() == key && (rows.scope_columns.is_some() || !section.is_of_scopes());
        let Some(section) = Section::ALL.into_iter().find(is_known) else {
            cursor.skip_value()?;
            continue;
        };
        if last.is_some_and(|last| section <= last) {
            return Err(Damage::at(bytes, key_at, "the lists in the order of the format"));
        }
        last = Some(section);
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
    for section in [Section::Nodes, Section::Edges, Section::Strings] {
        if !rows.has(section) {
            return Err(cursor.damage("nodes, edges and strings"));
        }
    }
    // What is sized by a count is then bounded by the file.
    let node_bytes = rows.range(Section::Nodes).map_or(0, |range| range.len() as u64);
    let edge_bytes = rows.range(Section::Edges).map_or(0, |range| range.len() as u64);
    if rows.counts.nodes > node_bytes / rows.node_columns() || rows.counts.edges > edge_bytes / rows.edge_columns.width as u64 {
        return Err(Damage::at(bytes, 0, "a header whose counts fit the lists"));
    }
    cursor.expect(b'}', "the end of the snapshot")?;
    if cursor.peek().is_some() {
        return Err(cursor.damage("nothing behind the snapshot"));
    }
    Ok(())
}

/// Passes a list; strings are counted.
fn pass(cursor: &mut Cursor<'_>, section: Section, rows: &mut Rows<'_>) -> Result<(), Damage> {
    match section {
        Section::Strings => {
            let mut count = 0u64;
            cursor.list(&mut |cursor| {
                count += 1;
                cursor.raw_string().map(|_| ())
            })?;
            if count > u64::from(u32::MAX) {
                return Err(cursor.damage("fewer than 2^32 strings"));
            }
            rows.string_count = count;
            Ok(())
        }
        Section::TraceTree => cursor.skip_value().map(|_| ()),
        _ => {
            cursor.expect(b'[', "a list")?;
            // Numbers have no brackets.
            let Some(length) = cursor.bytes[cursor.at..].iter().position(|byte| *byte == b']') else {
                return Err(Damage::at(cursor.bytes, cursor.bytes.len(), "the end of the list"));
            };
            cursor.at += length + 1;
            Ok(())
        }
    }
}

fn line_ends(bytes: &[u8], start: usize, columns: usize) -> LineEnds {
    let after_row = bytes[start..].iter().enumerate().filter(|(_, byte)| **byte == b',').nth(columns.saturating_sub(1));
    match after_row {
        Some((comma, _)) if bytes[start + comma - 1] == b'\n' => LineEnds::OnePerLine,
        _ => LineEnds::OneLine,
    }
}
