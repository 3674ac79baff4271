//! An index beside a snapshot: everything that reading and analysing it gave, so that the second
//! question of a file costs neither.
//!
//! The columns of graph and analysis lie in it as they lie in memory. Who maps an index has them
//! at once, and the system may drop their pages at any time. Strings stay in the snapshot, which is
//! therefore needed, too. An object costs 47 bytes, a reference 9, a string 8; with sums of 4 GiB
//! and more, an object costs 51. Not kept are the retainers of objects: they would cost 4 bytes an
//! object and a reference, and are made from the columns in a fraction of the time of reading.
//!
//! An index is never believed. Its key has the hash of all of the snapshot's bytes, its last bytes
//! are the hash of all of its own, and what it says is held to what a reader would have refused
//! (`check`), so that an index that somebody made up gives wrong answers at worst. What is wrong is
//! an [`IndexError`], and the index is to be written anew.
//!
//! Format, version 5: a head (`index/layout.rs` has its fields), sections, each from a multiple of
//! 8, and the hash. Numbers are in the byte order of the machine: on another one the version is not
//! 5. Versions 1 to 4 kept the rows of a summary alone.

mod check;
mod layout;
mod texts;

use crate::analysis::{Analysis, Answers, Options, RULES_VERSION, Retained, Tree};
use crate::graph::Graph;
use crate::reader::{ReadOptions, header};
use crate::snapshot::{Location, Sample, Snapshot, TraceFunction, TraceNode, Traces};
use crate::strings::Strings;
use layout::{Sections, Writer};
use std::io::{self, Write};
use texts::Texts;
use zerocopy::IntoBytes;

/// The version of the format.
const VERSION: u32 = 5;

/// Why an index cannot be used. The caller must rebuild it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The file is not an index, was cut, or was damaged.
    #[error("the index is damaged: expected {expected}; rebuild it")]
    Damaged {
        /// What should be there.
        expected: &'static str,
    },
    /// It was written by another version of heaplab.
    #[error("the index has version {found}, expected {VERSION}; rebuild it")]
    Version {
        /// Its version.
        found: u32,
    },
    /// The rules of analysis have changed since: its answers may not be those of today.
    #[error(
        "the index was made by version {found} of the rules of analysis, expected {RULES_VERSION}; rebuild it"
    )]
    Rules {
        /// Their version.
        found: u32,
    },
    /// It belongs to another file, to this one before it changed, or to other options.
    #[error(
        "the index belongs to another file, to this one before it changed, or to other options; rebuild it"
    )]
    Stale,
}

/// The key of the answers about a file: all of its bytes, and the options that change answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The file's length.
    pub file_bytes: u64,
    /// Its hash, which takes as long as reading memory does.
    pub content_hash: u128,
    /// [`ReadOptions::allow_duplicate_ids`].
    pub allow_duplicate_ids: bool,
    /// [`Options::exact_sizes`].
    pub exact_sizes: bool,
}

impl Key {
    /// The key of a file with these bytes, hashed by as many threads as read it.
    pub fn of(bytes: &[u8], read: &ReadOptions, options: &Options) -> Key {
        Key {
            file_bytes: bytes.len() as u64,
            content_hash: layout::hash(bytes, read.threads),
            allow_duplicate_ids: read.allow_duplicate_ids,
            exact_sizes: options.exact_sizes,
        }
    }
}

/// A snapshot and the answers about it, from an index.
#[derive(Debug)]
pub struct Indexed<'a> {
    snapshot: Snapshot<'a>,
    answers: Answers<'a>,
}

impl<'a> Indexed<'a> {
    /// Takes an index of the file with that key. `index` begins at a multiple of 8, as what is
    /// mapped does; `threads` look at it.
    pub fn open(
        index: &'a [u8],
        file: &'a [u8],
        key: &Key,
        threads: usize,
    ) -> Result<Indexed<'a>, IndexError> {
        let sections = layout::open(index, key, threads)?;
        let expected = "columns of the lengths that its head says";
        let indexed = Self::of(sections, file).ok_or(IndexError::Damaged { expected })?;
        check::check(&indexed.snapshot, &indexed.answers, file.len())
            .map_err(|expected| IndexError::Damaged { expected })?;
        Ok(indexed)
    }

    /// The snapshot.
    pub fn snapshot(&self) -> &Snapshot<'a> {
        &self.snapshot
    }

    /// Its analysis.
    pub fn analysis(&self) -> Analysis<'_, 'a> {
        Analysis::of_answers(&self.snapshot, &self.answers)
    }

    /// Takes the sections in the order in which [`write()`] writes them.
    fn of(mut sections: Sections<'a>, file: &'a [u8]) -> Option<Indexed<'a>> {
        let header = header(file).ok()?;
        let graph = Graph {
            node_types: sections.column()?,
            node_names: sections.column()?,
            ids: sections.column()?,
            self_sizes: sections.column()?,
            first_edges: sections.column()?,
            detachedness: sections.column()?,
            trace_nodes: sections.column()?,
            edge_types: sections.column()?,
            edge_names: sections.column()?,
            edge_targets: sections.column()?,
            large_sizes: sizes(&mut sections)?,
            root: u32::try_from(header.root_index / header.meta.node_fields.len() as u64).ok()?,
        };
        let strings = Strings::of_starts(file, sections.column()?);
        let snapshot = Snapshot {
            graph,
            strings,
            locations: sections.rows(|[node, script_id, line, column]: [u32; 4]| {
                Some(Location { node, script_id, line, column })
            })?,
            samples: sections.rows(|[timestamp_us, last_assigned_id]: [u64; 2]| {
                Some(Sample { timestamp_us, last_assigned_id })
            })?,
            traces: Traces {
                functions: sections.rows(trace_function)?,
                nodes: sections.rows(trace_node)?,
            },
            header,
        };
        let (sizes_low, large_sizes) = (sections.column()?, sizes(&mut sections)?);
        let distances = sections.column()?;
        let tree = Tree {
            vertex: sections.column()?,
            dominator: sections.column()?,
            number: sections.column()?,
        };
        let retained = Retained { low: sections.column()?, high: sections.column()? };
        let (class_of, states) = (sections.column()?, sections.column()?);
        let renamed = sections.rows(|[node, name]: [u32; 2]| Some((node, name)))?;
        let Texts { added_names, classes, interfaces } = Texts::read(sections.bytes()?)?;
        let answers = Answers {
            sizes: sizes_low,
            large_sizes,
            distances,
            tree,
            retained,
            class_of,
            states,
            renamed,
            added_names,
            classes,
            interfaces,
        };
        Some(Indexed { snapshot, answers })
    }
}

/// Writes the index of an analysed file with that key. The analysis must have found its interfaces
/// itself ([`Options::interfaces`]).
pub fn write(analysis: &Analysis, key: &Key, out: &mut dyn Write) -> io::Result<()> {
    let Snapshot { graph, strings, locations, samples, traces, .. } = analysis.snapshot();
    let answers = analysis.answers();
    let large = |sizes: &[(u32, u64)]| -> Vec<[u64; 2]> {
        sizes.iter().map(|(node, size)| [u64::from(*node), *size]).collect()
    };
    let (graph_sizes, own_sizes) = (large(&graph.large_sizes), large(&answers.large_sizes));
    let locations: Vec<_> = locations
        .iter()
        .map(|place| [place.node, place.script_id, place.line, place.column])
        .collect();
    let samples: Vec<_> =
        samples.iter().map(|sample| [sample.timestamp_us, sample.last_assigned_id]).collect();
    let functions: Vec<_> = traces.functions.iter().map(of_trace_function).collect();
    let nodes: Vec<_> = traces.nodes.iter().map(of_trace_node).collect();
    let renamed: Vec<_> = answers.renamed.iter().map(|(node, name)| [*node, *name]).collect();
    let texts = Texts::write(&answers);
    let sections: [&[u8]; layout::SECTIONS] = [
        graph.node_types.as_bytes(),
        graph.node_names.as_bytes(),
        graph.ids.as_bytes(),
        graph.self_sizes.as_bytes(),
        graph.first_edges.as_bytes(),
        graph.detachedness.as_bytes(),
        graph.trace_nodes.as_bytes(),
        graph.edge_types.as_bytes(),
        graph.edge_names.as_bytes(),
        graph.edge_targets.as_bytes(),
        graph_sizes.as_bytes(),
        strings.starts().as_bytes(),
        locations.as_bytes(),
        samples.as_bytes(),
        functions.as_bytes(),
        nodes.as_bytes(),
        answers.sizes.as_bytes(),
        own_sizes.as_bytes(),
        answers.distances.as_bytes(),
        answers.tree.vertex.as_bytes(),
        answers.tree.dominator.as_bytes(),
        answers.tree.number.as_bytes(),
        answers.retained.low.as_bytes(),
        answers.retained.high.as_bytes(),
        answers.class_of.as_bytes(),
        answers.states.as_bytes(),
        renamed.as_bytes(),
        &texts,
    ];
    Writer::new(out).write(key, &sections)
}

fn sizes(sections: &mut Sections) -> Option<Vec<(u32, u64)>> {
    sections.rows(|[node, size]: [u64; 2]| Some((u32::try_from(node).ok()?, size)))
}

fn of_trace_function(function: &TraceFunction) -> [u64; 6] {
    let TraceFunction { function_id, name, script_name, script_id, line, column } = *function;
    [function_id, name.into(), script_name.into(), script_id, line, column]
}

fn trace_function(row: [u64; 6]) -> Option<TraceFunction> {
    let [function_id, name, script_name, script_id, line, column] = row;
    let (name, script_name) = (u32::try_from(name).ok()?, u32::try_from(script_name).ok()?);
    Some(TraceFunction { function_id, name, script_name, script_id, line, column })
}

/// 0 is no parent.
fn of_trace_node(node: &TraceNode) -> [u64; 5] {
    let TraceNode { id, function, count, size_bytes, parent } = *node;
    let parent = parent.map_or(0, |parent| u64::from(parent) + 1);
    [id, function.into(), count, size_bytes, parent]
}

fn trace_node(row: [u64; 5]) -> Option<TraceNode> {
    let [id, function, count, size_bytes, parent] = row;
    let parent = parent.checked_sub(1).map(u32::try_from).transpose().ok()?;
    Some(TraceNode { id, function: u32::try_from(function).ok()?, count, size_bytes, parent })
}
