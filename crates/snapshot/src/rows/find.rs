//! Where the header and each list of a file lie.

use super::cursor::Cursor;
use super::damage::Damage;
use crate::meta::named_twice;
use crate::names::StringId;
use crate::write::{Counts, Layout, NodeField, Rows as LineEnds, Section};
use std::ops::Range;

/// More columns than any file has.
pub(super) const COLUMNS_MAX: usize = 16;

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
    pub(super) edge_columns: usize,
    /// Where type, name and end stand in an edge's row.
    pub(super) edge_at: [usize; 3],
    pub(super) indexed: [bool; 256],
    pub(super) location_columns: usize,
    /// Where the object, script, line and column stand in a location's row.
    pub(super) location_at: [usize; 4],
    pub(super) ranges: [Option<Range<usize>>; 7],
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
        let Some(section) = Section::ALL.into_iter().find(|section| section.key().as_bytes() == key) else {
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
    if rows.counts.nodes > node_bytes / rows.node_columns() || rows.counts.edges > edge_bytes / rows.edge_columns as u64 {
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

/// The `snapshot` object.
fn header<'a>(cursor: &mut Cursor<'a>) -> Result<Rows<'a>, Damage> {
    let start = cursor.at;
    let [mut node_fields, mut edge_fields, mut location_fields, mut node_types, mut edge_types] = [const { Vec::new() }; 5];
    let (mut nodes, mut edges, mut counts, mut native) = (None, None, Counts::default(), None);
    cursor.object(&mut |cursor, key| match key {
        "meta" => cursor.object(&mut |cursor, key| match key {
            "node_fields" => cursor.strings(0, &mut |_, name| node_fields.push(name)),
            "edge_fields" => cursor.strings(0, &mut |_, name| edge_fields.push(name)),
            "location_fields" => cursor.strings(0, &mut |_, name| location_fields.push(name)),
            "node_types" => cursor.strings(0, &mut |depth, name| {
                if depth == 1 {
                    node_types.push(name)
                }
            }),
            "edge_types" => cursor.strings(0, &mut |depth, name| {
                if depth == 1 {
                    edge_types.push(name)
                }
            }),
            _ => cursor.skip_value().map(|_| ()),
        }),
        "node_count" => cursor.number().map(|count| nodes = Some(count)),
        "edge_count" => cursor.number().map(|count| edges = Some(count)),
        "trace_function_count" => cursor.number().map(|count| counts.trace_functions = count),
        "root_index" => match cursor.number()? {
            0 => Ok(()),
            _ => Err(cursor.damage("a root that is the first node")),
        },
        "extra_native_bytes" => cursor.number().map(|count| native = Some(count)),
        _ => cursor.skip_value().map(|_| ()),
    })?;
    let missing = |expected| Damage::at(cursor.bytes, start, expected);
    counts.nodes = nodes.ok_or_else(|| missing("a header with node_count"))?;
    counts.edges = edges.ok_or_else(|| missing("a header with edge_count"))?;
    let columns =
        node_columns(&node_fields).ok_or_else(|| missing("a header with the node_fields type, name, id, self_size and edge_count"))?;
    let edge_at =
        places(&edge_fields, ["type", "name_or_index", "to_node"]).ok_or_else(|| missing("edge_fields type, name_or_index and to_node"))?;
    let location_names = ["object_index", "script_id", "line", "column"];
    if location_fields.is_empty() {
        location_fields.extend(location_names.map(str::to_owned));
    }
    let location_at =
        places(&location_fields, location_names).ok_or_else(|| missing("location_fields object_index, script_id, line and column"))?;
    let widest = columns.len().max(edge_fields.len()).max(location_fields.len());
    if widest > COLUMNS_MAX || node_types.len() > 256 || edge_types.len() > 256 {
        return Err(missing("a header with at most 16 columns and 256 types"));
    }
    if [&node_types, &edge_types].into_iter().any(|names| named_twice(names).is_some()) {
        return Err(missing("a header that names each type once"));
    }
    let layout = Layout {
        node_fields: columns.iter().flatten().copied().collect(),
        node_types,
        edge_types,
        rows: LineEnds::OneLine,
        extra_native_bytes: native,
    };
    let indexed = indexed(&layout);
    Ok(Rows {
        bytes: cursor.bytes,
        layout,
        counts,
        columns,
        edge_columns: edge_fields.len(),
        edge_at,
        indexed,
        location_columns: location_fields.len(),
        location_at,
        ranges: [const { None }; 7],
        string_count: 0,
    })
}

/// Which edge types have an index for a name.
fn indexed(layout: &Layout) -> [bool; 256] {
    let mut indexed = [false; 256];
    ["element", "hidden"].into_iter().filter_map(|name| layout.edge_type(name)).for_each(|number| indexed[usize::from(number)] = true);
    indexed
}

/// Columns by name; those that every file needs must be there once.
fn node_columns(names: &[String]) -> Option<Vec<Option<NodeField>>> {
    let columns: Vec<Option<NodeField>> = names.iter().map(|name| NodeField::of_name(name)).collect();
    let needed = [NodeField::Type, NodeField::Name, NodeField::Id, NodeField::SelfSize, NodeField::EdgeCount];
    let once = |field| columns.iter().filter(|column| **column == Some(field)).count() == 1;
    let twice = NodeField::ALL.into_iter().any(|field| columns.iter().filter(|column| **column == Some(field)).count() > 1);
    (!twice && needed.into_iter().all(once)).then_some(columns)
}

/// Where the fields of those names stand.
fn places<const N: usize>(fields: &[String], names: [&str; N]) -> Option<[usize; N]> {
    let mut places = [0; N];
    for (place, name) in places.iter_mut().zip(names) {
        *place = fields.iter().position(|field| field == name)?;
    }
    Some(places)
}
