//! Ladder files: K copies of a real snapshot under one root. Every class then has exactly K times
//! the nodes, bytes and retained bytes, at the same distances. So the answers for files of any size
//! are known in advance; [`write()`] checks them.
//!
//! The copies share the root's row, whose edges are those of all copies' roots, and the strings,
//! except the names of WeakMaps' references, which contain the table's id. Ids of copy i are
//! shifted by i times a power of two. Interfaces are the same if the original has more than 1000
//! plain objects.

use anyhow::{Context, Result, ensure};
use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::summary::Summary;
use heaplab_snapshot::{Graph, Snapshot};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes the ladder of `file` to `to`, reads it back and compares.
pub fn write(file: &Path, to: &Path, copies: u32) -> Result<()> {
    let bytes = map(file)?;
    let snapshot = Snapshot::read(&bytes)?;
    let one = Summary::of(&Analysis::of(&snapshot, &Options::default()));
    write_ladder(&snapshot, to, copies)?;
    drop(snapshot);
    let bytes = map(to)?;
    let snapshot = Snapshot::read(&bytes)?;
    let many = Summary::of(&Analysis::of(&snapshot, &Options::default()));
    compare(&one, &many, u64::from(copies))
}

/// Writes the ladder without reading it back.
pub fn write_unchecked(file: &Path, to: &Path, copies: u32) -> Result<()> {
    write_ladder(&Snapshot::read(&map(file)?)?, to, copies)
}

fn write_ladder(snapshot: &Snapshot, to: &Path, copies: u32) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(to)?);
    Ladder::new(snapshot, copies)?.write(&mut out)?;
    Ok(out.flush()?)
}

fn map(path: &Path) -> Result<memmap2::Mmap> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    // SAFETY: nobody changes the file while this process reads it; if somebody truncates it, only
    // this process dies.
    Ok(unsafe { memmap2::Mmap::map(&file)? })
}

fn compare(one: &Summary, many: &Summary, copies: u64) -> Result<()> {
    let mut classes: HashMap<Vec<u8>, [u64; 4]> = HashMap::new();
    for class in &many.classes {
        classes.insert(
            class.key(),
            [class.count, class.self_size, class.retained_size, class.distance as u64],
        );
    }
    ensure!(
        one.classes.len() == many.classes.len(),
        "{} classes became {}",
        one.classes.len(),
        many.classes.len()
    );
    for class in &one.classes {
        let expected = [
            copies * class.count,
            copies * class.self_size,
            copies * class.retained_size,
            class.distance as u64,
        ];
        let key = class.key();
        ensure!(
            classes.get(&key) == Some(&expected),
            "{}: expected {expected:?}, found {:?}",
            key.escape_ascii(),
            classes.get(&key)
        );
    }
    Ok(())
}

struct Ladder<'l, 'a> {
    snapshot: &'l Snapshot<'a>,
    copies: u32,
    /// Distance between the ids of two copies.
    stride: u32,
    /// Strings that name references of WeakMaps, in order.
    renamed: Vec<u32>,
}

impl<'l, 'a> Ladder<'l, 'a> {
    fn new(snapshot: &'l Snapshot<'a>, copies: u32) -> Result<Self> {
        let graph = &snapshot.graph;
        ensure!(graph.root() == 0, "a ladder needs the root to be first");
        let largest = graph.nodes().map(|node| graph.id(node)).max().unwrap_or(0);
        let stride = largest
            .checked_add(1)
            .and_then(u32::checked_next_power_of_two)
            .context("ids too large to be moved")?;
        ensure!(
            u64::from(stride) * u64::from(copies) < 1 << 32,
            "ids of {copies} copies are beyond 2^32"
        );
        let is_pair = |id: &u32| {
            let raw = String::from_utf8_lossy(snapshot.strings.raw(*id));
            let table =
                raw.strip_suffix(')').and_then(|raw| raw.rsplit_once(" pair in WeakMap (table @"));
            table.is_some_and(|(_, table)| table.parse::<u32>().is_ok())
        };
        let renamed = (0..snapshot.strings.len() as u32).filter(is_pair).collect();
        Ok(Ladder { snapshot, copies, stride, renamed })
    }

    fn nodes_a_copy(&self) -> u64 {
        self.snapshot.graph.node_count() as u64 - 1
    }

    /// The ordinal of a node in a copy; the root is the same in all.
    fn ordinal(&self, node: u32, copy: u32) -> u64 {
        if node == 0 { 0 } else { u64::from(node) + u64::from(copy) * self.nodes_a_copy() }
    }

    fn write(&self, out: &mut impl Write) -> Result<()> {
        let graph = &self.snapshot.graph;
        let meta = &self.snapshot.header.meta;
        let list = |names: &[String]| serde_json::to_string(names);
        let node_types =
            serde_json::json!([meta.node_types, "string", "number", "number", "number", "number"]);
        let edge_types = serde_json::json!([meta.edge_types, "string_or_number", "node"]);
        write!(
            out,
            "{{\"snapshot\":{{\"meta\":{{\"node_fields\":[\"type\",\"name\",\"id\",\"self_size\",\"edge_count\",\"detachedness\"],\
             \"node_types\":{node_types},\"edge_fields\":{},\"edge_types\":{edge_types},\
             \"location_fields\":[\"object_index\",\"script_id\",\"line\",\"column\"]}},\"node_count\":{},\"edge_count\":{}}},\n\"nodes\":[",
            list(&["type", "name_or_index", "to_node"].map(str::to_owned))?,
            1 + u64::from(self.copies) * self.nodes_a_copy(),
            u64::from(self.copies) * graph.edge_count() as u64,
        )?;
        self.write_nodes(out)?;
        out.write_all(b"],\n\"edges\":[")?;
        self.write_edges(out)?;
        out.write_all(b"],\n\"locations\":[")?;
        let mut comma = Separator(false);
        for copy in 0..self.copies {
            for place in &self.snapshot.locations {
                comma.write(out)?;
                let node = 6 * self.ordinal(place.node, copy);
                write!(out, "{node},{},{},{}", place.script_id, place.line, place.column)?;
            }
        }
        out.write_all(b"],\n\"strings\":[")?;
        self.write_strings(out)?;
        out.write_all(b"]}\n")?;
        Ok(())
    }

    fn write_nodes(&self, out: &mut impl Write) -> Result<()> {
        let graph = &self.snapshot.graph;
        let types = &self.snapshot.header.meta.node_types;
        let mut comma = Separator(false);
        for copy in 0..self.copies {
            for node in graph.nodes().skip(usize::from(copy > 0)) {
                let name = self.snapshot.node_type_name(graph.node_type(node));
                let node_type =
                    types.iter().position(|known| known == name).context("a type of the file")?;
                let edges = graph.edges(node).len() as u64
                    * if node == 0 { u64::from(self.copies) } else { 1 };
                let id = graph.id(node) + copy * self.stride;
                comma.write(out)?;
                let size = graph.self_size(node);
                write!(
                    out,
                    "{node_type},{},{id},{size},{edges},{}",
                    graph.node_name(node),
                    graph.detachedness(node)
                )?;
            }
        }
        Ok(())
    }

    fn write_edges(&self, out: &mut impl Write) -> Result<()> {
        let graph: &Graph = &self.snapshot.graph;
        let types = &self.snapshot.header.meta.edge_types;
        let renamed: HashMap<u32, usize> =
            self.renamed.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        let mut comma = Separator(false);
        let mut write_node = |out: &mut dyn Write, node: u32, copy: u32| -> Result<()> {
            for edge in graph.edges(node) {
                let edge_type = graph.edge_type(edge);
                let type_name = self.snapshot.edge_type_name(edge_type);
                let number = types
                    .iter()
                    .position(|known| known == type_name)
                    .context("a type of the file")?;
                let mut name = graph.edge_name(edge);
                if let (false, true, Some(place)) =
                    (edge_type.is_indexed(), copy > 0, renamed.get(&name))
                {
                    name = (self.snapshot.strings.len()
                        + (copy as usize - 1) * self.renamed.len()
                        + place) as u32;
                }
                comma.write(out)?;
                write!(out, "{number},{name},{}", 6 * self.ordinal(graph.target(edge), copy))?;
            }
            Ok(())
        };
        for copy in 0..self.copies {
            write_node(out, 0, copy)?;
        }
        for copy in 0..self.copies {
            for node in graph.nodes().skip(1) {
                write_node(out, node, copy)?;
            }
        }
        Ok(())
    }

    fn write_strings(&self, out: &mut impl Write) -> Result<()> {
        let strings = &self.snapshot.strings;
        let mut comma = Separator(false);
        for id in 0..strings.len() as u32 {
            comma.write(out)?;
            out.write_all(b"\"")?;
            out.write_all(strings.raw(id))?;
            out.write_all(b"\"")?;
        }
        for copy in 1..self.copies {
            for id in &self.renamed {
                let raw = String::from_utf8_lossy(strings.raw(*id)).into_owned();
                let (before, table) =
                    raw.rsplit_once("(table @").context("the name of a WeakMap's reference")?;
                let table: u32 = table.trim_end_matches(')').parse()?;
                comma.write(out)?;
                // The copy's number changes the pair's number too.
                let (number, pair) = before.split_once(" / ").unwrap_or(("0", before));
                let key = pair.replacen("part of key (", &format!("part of key ({copy} "), 1);
                write!(out, "\"{number} / {key}(table @{})\"", table + copy * self.stride)?;
            }
        }
        Ok(())
    }
}

/// Writes a comma, except the first time.
struct Separator(bool);

impl Separator {
    fn write(&mut self, out: &mut (impl Write + ?Sized)) -> Result<()> {
        if std::mem::replace(&mut self.0, true) {
            out.write_all(b",")?;
        }
        Ok(())
    }
}
