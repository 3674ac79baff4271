//! The passes of a generator: the walk that numbers and counts, and the two that write.

use super::borrowed_texts::Lent;
use super::counts::EdgeCounts;
use super::identity::ROUND;
use super::line_ends::{Positions, Scripts};
use super::numbering::Numbering;
use super::{
    Description, EdgeSink, Embedder, GenerateError, Generator, NameSink, PROGRESS_OBJECTS,
    Position, Profile, Progress, Step,
};
use crate::names::{StringId, StringsFull, StringsStorage};
use crate::write::{EdgeName, Node, Writer};
use std::io::Write;
use std::time::Instant;

/// Where a node stands in the source.
pub(super) struct Place {
    pub(super) node: u32,
    pub(super) script: u32,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// The results of the first phase that the second needs.
pub(super) struct Walked {
    pub(super) identity: Numbering,
    /// None where objects were not numbered yet when they were walked: then they are counted again.
    edge_counts: Option<EdgeCounts>,
    pub(super) edges: u64,
    pub(super) locations: Vec<Place>,
    pub(super) scripts: Scripts,
}

impl Walked {
    /// Besides the identity map.
    pub(super) fn kept_bytes(&self) -> usize {
        self.edge_counts.as_ref().map_or(0, EdgeCounts::memory_bytes)
            + self.locations.len() * size_of::<Place>()
    }
}

/// References wait here until there are enough to look up together.
const PENDING: usize = 4 * ROUND;

impl Generator<'_> {
    /// Generation.
    pub(super) fn walk(
        &mut self,
        embedder: &mut impl Embedder,
        strings: &mut StringsStorage,
        profile: &mut Profile,
    ) -> Result<Walked, GenerateError> {
        let start = Instant::now();
        let scripts = self.prepare_scripts(embedder, profile);
        profile.line_ends_time = start.elapsed();

        let start = Instant::now();
        let hint = embedder.object_count_hint().min(u32::MAX as usize);
        let by_address = embedder.numbered_by_address();
        let mut identity = Numbering::new(embedder.root(), by_address, hint);
        let mut too_many = false;
        embedder.objects(&mut |object| too_many |= !identity.add(object));
        let edge_counts = (!by_address).then(|| EdgeCounts::with_capacity(hint));
        let mut walked = Walked { identity, edge_counts, edges: 0, locations: Vec::new(), scripts };
        let follow = !embedder.names_all_objects();
        let mut discovery = Discovery {
            pending: Vec::with_capacity(PENDING),
            found: vec![0; PENDING],
            too_many,
            follow,
        };
        let last = embedder.last();
        let mut last_ordinal = None;
        for ordinal in 0.. {
            let Some(object) = discovery.next(embedder, &mut walked.identity) else { break };
            if Some(object) == last {
                last_ordinal = Some(ordinal);
                walked.edge_counts.iter_mut().for_each(|counts| counts.push(0));
                continue;
            }
            self.walk_object(ordinal, object, embedder, &mut walked, &mut discovery)?;
            if self.options.names_in_generation {
                let mut names = Named { strings, lent: None, full: None };
                embedder.describe(object, &mut names);
                embedder.references(object, &mut names);
                names.full.map_or(Ok(()), Err)?;
            }
            if ordinal.is_multiple_of(PROGRESS_OBJECTS) {
                (self.progress)(Progress {
                    step: Step::Walk,
                    done: ordinal as u64,
                    of: walked.identity.len() as u64,
                });
            }
        }
        if let (Some(ordinal), Some(object)) = (last_ordinal, last) {
            let mut count = 0u64;
            embedder.targets(object, &mut |_| count += 1);
            let small = u32::try_from(count).map_err(|_| GenerateError::TooMany)?;
            walked.edge_counts.iter_mut().for_each(|counts| counts.set(ordinal, small));
            walked.edges += count;
        }
        if discovery.too_many {
            return Err(GenerateError::TooMany);
        }
        walked.identity.number();
        profile.walk_time = start.elapsed();
        (profile.nodes, profile.edges) = (walked.identity.len() as u64, walked.edges);
        profile.identity_bytes = walked.identity.memory_bytes();
        Ok(walked)
    }

    /// Line ends, unless each function is to look for its own.
    fn prepare_scripts(&self, embedder: &impl Embedder, profile: &mut Profile) -> Scripts {
        let mut scripts = Scripts::new(self.options.positions);
        if self.options.positions == Positions::OncePerScript {
            for script in embedder.scripts() {
                if let Some(source) = embedder.script_source(script) {
                    scripts.prepare(script, source);
                    profile.scripts += 1;
                }
            }
        }
        scripts
    }

    /// One object of the walk: its references are counted and met; its place is found if its
    /// ordinal is known.
    fn walk_object(
        &mut self,
        ordinal: usize,
        object: u64,
        embedder: &mut impl Embedder,
        walked: &mut Walked,
        discovery: &mut Discovery,
    ) -> Result<(), GenerateError> {
        let mut count = 0u64;
        embedder.targets(object, &mut |target| {
            count += 1;
            discovery.meet(target, &mut walked.identity);
        });
        let small = u32::try_from(count).map_err(|_| GenerateError::TooMany)?;
        walked.edges += count;
        if let Some(counts) = &mut walked.edge_counts {
            counts.push(small);
            locate(ordinal, object, embedder, &mut walked.scripts, &mut walked.locations);
        }
        Ok(())
    }

    /// Serialization, nodes.
    pub(super) fn write_nodes<W: Write>(
        &mut self,
        embedder: &mut impl Embedder,
        walked: &mut Walked,
        lent: Option<&Lent>,
        writer: &mut Writer<W>,
    ) -> Result<(), GenerateError> {
        let mut text = Vec::new();
        let Walked { identity, edge_counts, locations, scripts, .. } = walked;
        let mut counted = edge_counts.as_ref().map(EdgeCounts::iter);
        for (ordinal, object) in identity.objects().enumerate() {
            let edge_count = match &mut counted {
                Some(counted) => u64::from(counted.next().unwrap_or(0)),
                None => {
                    locate(ordinal, object, embedder, scripts, locations);
                    let mut count = 0;
                    embedder.targets(object, &mut |_| count += 1);
                    count
                }
            };
            let lent = lent.map(|lent| Lookup { lent, identity, text: &mut text });
            let mut names = Named { strings: writer.strings(), lent, full: None };
            let Description { node_type, name, id, self_size, trace_node_id, detachedness } =
                embedder.describe(object, &mut names);
            names.full.map_or(Ok(()), Err)?;
            writer.node(&Node {
                node_type,
                name,
                id,
                self_size,
                edge_count,
                trace_node_id,
                detachedness,
            })?;
            self.tell(Step::Nodes, ordinal, identity);
        }
        Ok(())
    }

    /// Serialization, edges.
    pub(super) fn write_edges<W: Write>(
        &mut self,
        embedder: &mut impl Embedder,
        walked: &Walked,
        lent: Option<&Lent>,
        writer: &mut Writer<W>,
    ) -> Result<(), GenerateError> {
        let mut text = Vec::new();
        let mut edges = Edges {
            writer,
            lent: lent.map(|lent| Lookup { lent, identity: &walked.identity, text: &mut text }),
            identity: &walked.identity,
            from: 0,
            count: 0,
            rows: Vec::with_capacity(PENDING),
            targets: Vec::with_capacity(PENDING),
            found: vec![0; PENDING],
            failed: None,
        };
        let mut counted = walked.edge_counts.as_ref().map(EdgeCounts::iter);
        for (ordinal, object) in walked.identity.objects().enumerate() {
            (edges.from, edges.count) = (ordinal as u32, 0);
            embedder.references(object, &mut edges);
            let second = edges.count;
            if let Some(failed) = edges.failed.take() {
                return Err(failed);
            }
            // Where counts were not kept, the writer finds that the sum is another.
            if let Some(first) = counted.as_mut().and_then(Iterator::next)
                && u64::from(first) != second
            {
                return Err(GenerateError::References { ordinal, first, second });
            }
            self.tell(Step::Edges, ordinal, &walked.identity);
        }
        edges.write_rows();
        edges.failed.map_or(Ok(()), Err)
    }

    fn tell(&mut self, step: Step, ordinal: usize, identity: &Numbering) {
        if ordinal.is_multiple_of(PROGRESS_OBJECTS) {
            (self.progress)(Progress { step, done: ordinal as u64, of: identity.len() as u64 });
        }
    }
}

/// Where an object stands in the source, if it stands there.
fn locate(
    ordinal: usize,
    object: u64,
    embedder: &mut impl Embedder,
    scripts: &mut Scripts,
    locations: &mut Vec<Place>,
) {
    if let Some(position) = embedder.position(object) {
        locations.extend(place(embedder, scripts, ordinal as u32, position));
    }
}

/// A position as the file has it; those in unknown scripts are left out.
fn place(
    embedder: &impl Embedder,
    scripts: &mut Scripts,
    node: u32,
    position: Position,
) -> Option<Place> {
    let (script, line, column) = match position {
        Position::Place { script, line, column } => (script, line, column),
        Position::Offset { script, offset } => {
            let (line, column) =
                scripts.resolve(script, offset, || embedder.script_source(script))?;
            (script, line, column)
        }
    };
    let number = |number: u64| u32::try_from(number).ok();
    Some(Place { node, script: number(script)?, line: number(line)?, column: number(column)? })
}

/// Objects that references lead to, before they are numbered.
struct Discovery {
    pending: Vec<u64>,
    found: Vec<u32>,
    too_many: bool,
    /// Whether there may be objects that are not numbered yet.
    follow: bool,
}

impl Discovery {
    #[inline]
    fn meet(&mut self, target: u64, identity: &mut Numbering) {
        if !self.follow {
            return;
        }
        self.pending.push(target);
        if self.pending.len() == PENDING {
            self.resolve(identity);
        }
    }

    /// Adds those that are new, in the order in which they were met.
    fn resolve(&mut self, identity: &mut Numbering) {
        self.too_many |= !identity.add_all(&self.pending, &mut self.found[..self.pending.len()]);
        self.pending.clear();
    }

    /// The next object to be walked, if any is left.
    fn next(&mut self, embedder: &mut impl Embedder, identity: &mut Numbering) -> Option<u64> {
        loop {
            if let Some(object) = identity.next_to_walk() {
                return Some(object);
            }
            if self.pending.is_empty() {
                let unmet = if self.follow {
                    embedder.unmet(&|object| identity.contains(object))
                } else {
                    None
                };
                self.pending.push(unmet?);
            }
            self.resolve(identity);
        }
    }
}

/// Texts that the heap's objects lend, to be looked for before a name is copied.
struct Lookup<'a> {
    lent: &'a Lent,
    identity: &'a Numbering,
    text: &'a mut Vec<u8>,
}

impl Lookup<'_> {
    fn find(&mut self, text: &[u8]) -> Option<StringId> {
        self.lent.find(text, self.identity, self.text)
    }
}

/// Names alone.
struct Named<'a> {
    strings: &'a mut StringsStorage,
    lent: Option<Lookup<'a>>,
    full: Option<StringsFull>,
}

impl NameSink for Named<'_> {
    fn intern(&mut self, text: &[u8]) -> StringId {
        if let Some(number) = self.lent.as_mut().and_then(|lent| lent.find(text)) {
            return number;
        }
        self.strings.intern_bytes(text).unwrap_or_else(|full| {
            self.full = Some(full);
            StringId(0)
        })
    }
}

impl EdgeSink for Named<'_> {
    fn edge(&mut self, _edge_type: u8, _name: EdgeName, _target: u64) {}
}

/// Edges on their way into the file.
struct Edges<'a, W> {
    writer: &'a mut Writer<W>,
    lent: Option<Lookup<'a>>,
    identity: &'a Numbering,
    from: u32,
    count: u64,
    rows: Vec<(u32, u8, EdgeName)>,
    targets: Vec<u64>,
    found: Vec<u32>,
    failed: Option<GenerateError>,
}

impl<W: Write> Edges<'_, W> {
    fn write_rows(&mut self) {
        if self.failed.is_some() {
            return;
        }
        self.identity.find_all(&self.targets, &mut self.found[..self.targets.len()]);
        for ((from, edge_type, name), to) in self.rows.iter().zip(&self.found) {
            let written = if *to == u32::MAX {
                Err(GenerateError::Unmet { ordinal: *from as usize })
            } else {
                self.writer
                    .edge(u64::from(*from), *edge_type, *name, u64::from(*to))
                    .map_err(Into::into)
            };
            if let Err(error) = written {
                self.failed = Some(error);
                break;
            }
        }
        self.rows.clear();
        self.targets.clear();
    }
}

impl<W: Write> NameSink for Edges<'_, W> {
    fn intern(&mut self, text: &[u8]) -> StringId {
        if let Some(number) = self.lent.as_mut().and_then(|lent| lent.find(text)) {
            return number;
        }
        self.writer.strings().intern_bytes(text).unwrap_or_else(|full| {
            self.failed = Some(full.into());
            StringId(0)
        })
    }
}

impl<W: Write> EdgeSink for Edges<'_, W> {
    #[inline]
    fn edge(&mut self, edge_type: u8, name: EdgeName, target: u64) {
        self.count += 1;
        // A failed writer takes no more; an embedder that does not end would fill memory otherwise.
        if self.failed.is_none() {
            self.rows.push((self.from, edge_type, name));
            self.targets.push(target);
            if self.rows.len() == PENDING {
                self.write_rows();
            }
        }
    }
}
