//! The ladder: k copies of a snapshot under one root, a file of any size with known answers.
//!
//! Root edges decide much in DevTools (user roots, where distances begin, which shortcuts hold). So
//! copies do not hang under a new node: the one root has the original root's edges k times. Every
//! other node of copy c gets an id of its own, and the names of WeakMap pairs, which hold ids,
//! follow. Hence the ladder has 1 + k(n-1) nodes, k e edges, and k times the size of all nodes but
//! the root. Each class has k times the count, shallow and retained size. Distances stay.

use super::small_lists::{Places, copy_small_lists};
use super::{FileStrings, Progress, RewriteError, Ticker};
use crate::names::StringId;
use crate::rows::Rows;
use crate::write::{Counts, EdgeName, Node, Writer, Written};
use std::io::Write;

/// Sizes of a ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// Nodes.
    pub nodes: u64,
    /// Edges.
    pub edges: u64,
    /// Bytes of all nodes.
    pub self_size_bytes: u64,
    /// The file.
    pub written: Written,
}

/// Ids are 32-bit numbers in every reader.
const ID_MAX: u64 = u32::MAX as u64;

/// Writes `copies` of the file.
pub fn ladder<W: Write>(
    rows: &Rows<'_>,
    copies: u64,
    sink: W,
    progress: Progress<'_>,
) -> Result<(W, Ladder), RewriteError> {
    let asked = |text: &str| RewriteError::Asked(text.to_owned());
    let before_first = rows
        .counts
        .nodes
        .checked_sub(1)
        .ok_or_else(|| asked("a snapshot without nodes has no root to multiply"))?;
    let (max_id, sizes) = ids_and_sizes(rows)?;
    // Even, so that ids stay odd or even: of the heap or of its embedder.
    let stride = (max_id + 2) & !1;
    if copies == 0 || stride.checked_mul(copies).is_none_or(|last| last > ID_MAX) {
        return Err(asked(&format!(
            "{copies} copies with ids up to {max_id} do not fit: at least one, and ids below 2^32"
        )));
    }
    let FileStrings { strings, of_file } = FileStrings::read(rows)?;
    let copying = Copying { rows, copies, stride, before_first, of_file };
    let counts = Counts {
        nodes: 1 + copies * before_first,
        edges: rows.counts.edges * copies,
        ..rows.counts
    };
    let mut writer = Writer::with_strings(sink, rows.layout.clone(), counts, strings)?;
    let mut ticker = Ticker::new(progress, counts.nodes + counts.edges);
    copying.nodes(&mut writer, &mut ticker)?;
    copying.edges(Part::Root, &mut writer, &mut ticker)?;
    copying.edges(Part::Rest, &mut writer, &mut ticker)?;
    // All copies share the root.
    let places = Places {
        copies,
        of: |node, copy| (node > 0 || copy == 0).then(|| copying.place(node, copy)),
    };
    copy_small_lists(rows, &mut writer, |_, name, _| Ok(copying.name(name)), places)?;
    let (sink, written) = writer.finish()?;
    let self_size_bytes = sizes.0 + sizes.1 * copies;
    Ok((sink, Ladder { nodes: counts.nodes, edges: counts.edges, self_size_bytes, written }))
}

/// What all copies of the file share.
struct Copying<'r, 'a> {
    rows: &'r Rows<'a>,
    copies: u64,
    /// Between an id and that of the next copy.
    stride: u64,
    /// Nodes of a copy, without the root.
    before_first: u64,
    /// The strings of the new file by the numbers of the old one.
    of_file: Vec<StringId>,
}

impl Copying<'_, '_> {
    /// Where a node of a copy is.
    fn place(&self, node: u64, copy: u64) -> u64 {
        if node == 0 { 0 } else { node + copy * self.before_first }
    }

    fn name(&self, name: StringId) -> StringId {
        self.of_file[name.0 as usize]
    }

    /// Writes the root, then the other nodes of each copy.
    fn nodes<W: Write>(
        &self,
        writer: &mut Writer<W>,
        ticker: &mut Ticker<'_>,
    ) -> Result<(), RewriteError> {
        for copy in 0..self.copies {
            let mut nodes = self.rows.nodes();
            let mut root = true;
            while let Some(mut node) = nodes.read()? {
                if root && copy == 0 {
                    node.edge_count *= self.copies;
                } else {
                    node.id += copy * self.stride;
                }
                if !root || copy == 0 {
                    writer.node(&Node { name: self.name(node.name), ..node })?;
                    ticker.tick();
                }
                root = false;
            }
        }
        Ok(())
    }

    /// Writes a part of the edges of each copy.
    fn edges<W: Write>(
        &self,
        part: Part,
        writer: &mut Writer<W>,
        ticker: &mut Ticker<'_>,
    ) -> Result<(), RewriteError> {
        let mut renamed = Renamed { text: Vec::new() };
        for copy in 0..self.copies {
            let mut edges = self.rows.edges();
            while let Some(edge) = edges.read()? {
                match (part, edge.from) {
                    (Part::Root, 1..) => break,
                    (Part::Rest, 0) => continue,
                    _ => {}
                }
                let name = match edge.name {
                    EdgeName::Text(name) => {
                        let add = copy * self.stride;
                        EdgeName::Text(renamed.of(writer, self.name(name), add)?)
                    }
                    index => index,
                };
                let (from, to) = (self.place(edge.from, copy), self.place(edge.to, copy));
                writer.edge(from, edge.edge_type, name, to)?;
                ticker.tick();
            }
        }
        Ok(())
    }
}

/// Which edges are written.
#[derive(Clone, Copy)]
enum Part {
    Root,
    Rest,
}

/// The largest id; bytes of the root and of all others.
fn ids_and_sizes(rows: &Rows<'_>) -> Result<(u64, (u64, u64)), RewriteError> {
    let (mut max_id, mut root, mut others) = (0, None, 0u64);
    let mut nodes = rows.nodes();
    while let Some(node) = nodes.read()? {
        max_id = node.id.max(max_id);
        if node.id > ID_MAX {
            return Err(RewriteError::Asked(format!("an id of {}: ids are below 2^32", node.id)));
        }
        match root {
            None => root = Some(node.self_size),
            Some(_) => others = others.saturating_add(node.self_size),
        }
    }
    Ok((max_id, (root.unwrap_or(0), others)))
}

/// Names that hold ids.
struct Renamed {
    text: Vec<u8>,
}

impl Renamed {
    /// The same name with the ids of a copy.
    fn of<W: Write>(
        &mut self,
        writer: &mut Writer<W>,
        name: StringId,
        add: u64,
    ) -> Result<StringId, RewriteError> {
        let text = writer.strings().bytes_of(name);
        if add == 0 || !is_weak_map_pair(text) {
            return Ok(name);
        }
        self.text.clear();
        let mut rest = text;
        while let Some(at) = rest.iter().position(|byte| *byte == b'@') {
            self.text.extend_from_slice(&rest[..=at]);
            rest = &rest[at + 1..];
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            match std::str::from_utf8(&rest[..digits])
                .ok()
                .and_then(|digits| digits.parse::<u64>().ok())
            {
                Some(id) if id <= ID_MAX => {
                    self.text.extend_from_slice((id + add).to_string().as_bytes())
                }
                _ => self.text.extend_from_slice(&rest[..digits]),
            }
            rest = &rest[digits..];
        }
        self.text.extend_from_slice(rest);
        Ok(writer.strings().intern_bytes(&self.text)?)
    }
}

/// Whether the name is "N / part of key (X @id) -> value (Y @id) pair in WeakMap (table @id)".
pub(super) fn is_weak_map_pair(text: &[u8]) -> bool {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0
        && text[digits..].starts_with(b" / part of key (")
        && text.ends_with(b")")
        && memchr::memmem::find(text, b" pair in WeakMap (table @").is_some()
}
