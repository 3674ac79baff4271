//! `Generator`: a snapshot of any heap that answers an [`Embedder`]'s questions.
//!
//! Source: "Speeding up V8 heap snapshots" (2023) and V8's `HeapSnapshotGenerator`. Two phases:
//! *generation* (walk the heap) and *serialization* (write the file), with separate times and
//! counts ([`Profile`]). Line ends are computed before the walk.
//!
//! Deviation: V8 keeps entries, edges and names of the whole heap between the phases, 12 times the
//! heap at its peak. Here the heap is walked twice. Generation numbers the objects
//! ([`IdentityMap`]) and counts their edges, because a node's `edge_count` precedes all edges in
//! the file. Serialization walks again and writes rows as they come. Between the phases an object
//! costs one byte besides the identity map, and 16 more if it has a place in the source; if the
//! order of nodes does not matter, less than a byte in all ([`Embedder::numbered_by_address`]). So
//! names are asked for in the second phase. [`GeneratorOptions::names_in_generation`] asks in the
//! first phase too, as V8 does, so that times can be compared phase by phase. V8 copies every name;
//! here string objects may lend their texts ([`Embedder::own_texts`]).

mod borrowed_texts;
mod counts;
mod embedder;
mod identity;
mod ids;
mod line_ends;
mod numbering;
mod pages;
mod passes;
mod profile;

pub use borrowed_texts::OwnTexts;
pub use embedder::{Description, EdgeSink, Embedder, NameSink, Position};
pub use identity::IdentityMap;
pub use ids::ObjectIds;
pub use line_ends::{LineEnds, Positions};
pub use profile::Profile;

use crate::names::{Hash, StringsFull, StringsStorage};
use crate::write::{Counts, WriteError, Writer};
use borrowed_texts::Lent;
use std::io::Write;
use std::time::Instant;

/// How a snapshot is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct GeneratorOptions {
    /// Hash of the strings' table.
    pub hash: Hash,
    /// When line ends are computed.
    pub positions: Positions,
    /// Whether names are asked for in the first phase too, as V8 does. Then all are copied, as in
    /// V8, even lent ones.
    pub names_in_generation: bool,
}

/// Why a snapshot was not written.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Too many strings.
    #[error(transparent)]
    Strings(#[from] StringsFull),
    /// More objects, or references of one object, than 32 bits can number.
    #[error("more than 4,294,967,293 objects, or references of one object")]
    TooMany,
    /// The heap changed between the phases, or the embedder answered otherwise.
    #[error(
        "object {ordinal} had {first} references in the first pass and {second} in the second: the heap may not change while it is walked"
    )]
    References {
        /// Its ordinal.
        ordinal: usize,
        /// Counted in the first pass.
        first: u32,
        /// Counted in the second.
        second: u64,
    },
    /// A reference leads to an object that the first pass did not meet.
    #[error(
        "object {ordinal} refers in the second pass to an object that the first did not meet: the heap may not change while it is walked"
    )]
    Unmet {
        /// Its ordinal.
        ordinal: usize,
    },
}

/// How far a generator has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it does.
    pub step: Step,
    /// Objects done.
    pub done: u64,
    /// Of so many known.
    pub of: u64,
}

/// The passes of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Generation.
    Walk,
    /// Serialization: nodes.
    Nodes,
    /// Serialization: edges.
    Edges,
}

/// How many objects pass between two calls of the progress function.
const PROGRESS_OBJECTS: usize = 1 << 16;

/// Makes snapshots.
pub struct Generator<'a> {
    options: GeneratorOptions,
    progress: &'a mut dyn FnMut(Progress),
}

/// A snapshot of the embedder's heap, without progress.
pub fn generate<W: Write>(
    embedder: &mut impl Embedder,
    sink: W,
    options: GeneratorOptions,
) -> Result<(W, Profile), GenerateError> {
    Generator::new(options, &mut |_| ()).run(embedder, sink)
}

impl Generator<'_> {
    /// Reports the progress to `progress` now and then.
    pub fn new(options: GeneratorOptions, progress: &mut dyn FnMut(Progress)) -> Generator<'_> {
        Generator { options, progress }
    }

    /// Both phases.
    pub fn run<W: Write>(
        mut self,
        embedder: &mut impl Embedder,
        sink: W,
    ) -> Result<(W, Profile), GenerateError> {
        let mut profile = Profile::default();
        let mut strings = StringsStorage::new(self.options.hash);
        let mut walked = self.walk(embedder, &mut strings, &mut profile)?;
        profile.generation_names = strings.counters();
        strings.reset_counters();

        let counts =
            Counts { nodes: walked.identity.len() as u64, edges: walked.edges, trace_functions: 0 };
        let start = Instant::now();
        let lent = embedder
            .own_texts()
            .filter(|_| !self.options.names_in_generation)
            .map(|texts| Lent::new(texts, &walked.identity));
        if let Some(lent) = &lent {
            strings = StringsStorage::with_lent(self.options.hash, lent.len());
        }
        let mut writer = Writer::with_strings(sink, embedder.layout(), counts, strings)?;
        self.write_nodes(embedder, &mut walked, lent.as_ref(), &mut writer)?;
        let nodes_end = Instant::now();
        profile.nodes_time = nodes_end - start;
        (profile.source_bytes, profile.locations) =
            (walked.scripts.scanned_bytes, walked.locations.len());
        profile.kept_bytes = walked.kept_bytes();
        self.write_edges(embedder, &walked, lent.as_ref(), &mut writer)?;
        profile.edges_time = nodes_end.elapsed();
        let edges_end = Instant::now();
        for place in &walked.locations {
            writer.location(
                u64::from(place.node),
                u64::from(place.script),
                u64::from(place.line),
                u64::from(place.column),
            )?;
        }
        profile.serialization_names = writer.strings().counters();
        profile.strings_bytes =
            writer.strings().memory_bytes() + lent.as_ref().map_or(0, Lent::memory_bytes);
        let (sink, written) = match &lent {
            Some(lent) => writer.finish_lent(&mut lent.reader(&walked.identity))?,
            None => writer.finish()?,
        };
        profile.rest_time = edges_end.elapsed();
        profile.file_bytes = written.bytes;
        profile.strings = written.strings;
        Ok((sink, profile))
    }
}

#[cfg(test)]
mod tests;
