//! Second pass: the events.

use super::super::facts::{BLOCK_WORDS_MIN, HEADER_WORDS, WORD};
use super::super::recording::{Event, Place, Source};
use super::super::strategy::Space;
use super::Converted;
use super::lines::{Line, Record};
use super::owners::{Owners, Tenancy};
use crate::plan::LoaderKind;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// An arena during the writing of events.
#[derive(Clone, Copy)]
struct Filling {
    tenancy: usize,
    /// Words of the chunk handed out so far, header included.
    top: usize,
    last_thread: u64,
}

/// The second pass.
pub(super) struct Writer {
    owners: Owners,
    pub out: Converted,
    arenas: Vec<Option<Filling>>,
    requests: usize,
    /// Requests by tenancy and offset, for blocks given back later.
    placed: HashMap<(usize, usize), usize>,
    /// Bases of mapped nodes, with their number and space.
    nodes: BTreeMap<usize, (Space, usize)>,
    born: [usize; 2],
}

impl Writer {
    pub fn new(owners: Owners) -> Writer {
        let out = Converted { chunks: owners.tenancies.len(), ..Converted::default() };
        let arenas = vec![None; owners.births.len()];
        Writer {
            owners,
            out,
            arenas,
            requests: 0,
            placed: HashMap::new(),
            nodes: BTreeMap::new(),
            born: [0; 2],
        }
    }

    fn place(&self, tenancy: usize) -> Place {
        let Tenancy { base, words, .. } = self.owners.tenancies[tenancy];
        let (node_base, number) = self
            .nodes
            .range(..=base)
            .next_back()
            .map_or((base, 0), |(node, (_, number))| (*node, *number));
        Place { node: number, kilobyte: (base - node_base) / 1024, words }
    }

    fn request(
        &mut self,
        arena: usize,
        tenancy: usize,
        offset: usize,
        words: usize,
        source: Source,
    ) {
        self.placed.insert((tenancy, offset), self.requests);
        self.requests += 1;
        self.out.events.push(Event::Allocate { arena, words, source });
    }

    /// Hands out everything in the arena's current chunk up to `top`: blocks given back later one
    /// by one, the rest as one.
    fn fill(&mut self, arena: usize, top: usize) {
        let Some(filling) = self.arenas[arena].filter(|filling| filling.top < top) else { return };
        let cuts: Vec<(usize, usize)> = self.owners.tenancies[filling.tenancy]
            .cuts
            .range(filling.top..top)
            .map(|(offset, words)| (*offset, *words))
            .collect();
        let mut at = filling.top;
        for (offset, words) in cuts {
            if offset > at {
                self.request(arena, filling.tenancy, at, offset - at, Source::Chunk);
            }
            self.request(arena, filling.tenancy, offset, words, Source::Chunk);
            at = offset + words;
        }
        if top > at {
            self.request(arena, filling.tenancy, at, top - at, Source::Chunk);
            at = top;
        }
        self.arenas[arena] = Some(Filling { top: at, ..filling });
    }

    fn guess(&mut self, space: Space, words: usize, used: usize, thread: u64) -> Option<usize> {
        self.out.guessed += 1;
        let candidates = self
            .arenas
            .iter()
            .enumerate()
            .filter_map(|(arena, filling)| filling.map(|filling| (arena, filling)));
        // A dying arena names all its chunks then, so this chunk belongs to an undying arena.
        let fits = |(arena, filling): &(usize, Filling)| {
            let tenancy = &self.owners.tenancies[filling.tenancy];
            !self.owners.mortal.contains(arena)
                && tenancy.space == space
                && tenancy.words == words
                && filling.top <= used
        };
        candidates
            .filter(fits)
            .max_by_key(|(_, filling)| (filling.last_thread == thread, filling.tenancy))
            .map(|(arena, _)| arena)
    }

    fn node(&mut self, base: usize, end: usize) {
        let space = self.owners.space_of(base);
        let number = self.born[space as usize];
        self.born[space as usize] += 1;
        self.nodes.insert(base, (space, number));
        self.out.events.push(Event::Node {
            space,
            offset_bytes: base % (64 << 10),
            words: end.saturating_sub(base) / WORD,
        });
    }

    fn birth(&mut self, arena: usize, tenancy: usize, thread: u64) {
        let (space, words) = self.owners.births[arena];
        let loader = match words {
            _ if words == space.first_chunk_words(LoaderKind::Boot) => LoaderKind::Boot,
            _ if words == space.first_chunk_words(LoaderKind::Reflection) => LoaderKind::Reflection,
            _ => LoaderKind::Standard,
        };
        let chunk = self.place(tenancy);
        self.out.events.push(Event::Birth { arena, space, loader, chunk });
        self.arenas[arena] = Some(Filling { tenancy, top: HEADER_WORDS, last_thread: thread });
    }

    fn grow(
        &mut self,
        tenancy: usize,
        words: usize,
        used: usize,
        left: usize,
        thread: u64,
    ) -> Option<()> {
        let Tenancy { arena, space, words: chunk_words, after, .. } =
            self.owners.tenancies[tenancy];
        // A guess about the chunk before this one holds for this one too.
        let arena = match arena.or_else(|| self.owners.tenancies[after?].arena) {
            Some(arena) => arena,
            None => self.guess(space, used + left, used, thread)?,
        };
        self.owners.tenancies[tenancy].arena = Some(arena);
        let words = words.max(BLOCK_WORDS_MIN);
        self.fill(arena, used);
        let place = self.place(tenancy);
        self.request(arena, tenancy, HEADER_WORDS, words, Source::NewChunk(place));
        let beside = chunk_words > space.medium_words() && used + left > 0;
        if !beside {
            self.arenas[arena] =
                Some(Filling { tenancy, top: HEADER_WORDS + words, last_thread: thread });
        }
        Some(())
    }

    fn reuse(&mut self, tenancy: usize, offset: usize, words: usize) -> Option<()> {
        let arena = self.owners.tenancies[tenancy].arena?;
        let place = self.place(tenancy);
        self.request(
            arena,
            tenancy,
            offset,
            words,
            Source::FreeBlock { node: place.node, word: place.kilobyte * 128 + offset },
        );
        Some(())
    }

    fn give_back(&mut self, tenancy: usize, offset: usize, words: usize) -> Option<()> {
        let arena = self.owners.tenancies[tenancy].arena?;
        if self.arenas[arena]?.tenancy == tenancy && self.arenas[arena]?.top < offset + words {
            self.fill(arena, offset + words);
        }
        let request = *self.placed.get(&(tenancy, offset))?;
        self.out.events.push(Event::Deallocate { arena, request });
        Some(())
    }
}

/// A request that waits for a chunk: its words, those used in the current chunk, those left.
type Asked = (usize, usize, usize);

/// The state of the second pass.
#[derive(Default)]
pub(super) struct Reading {
    tenancies: usize,
    births: usize,
    managers: HashMap<usize, usize>,
    live: BTreeMap<usize, usize>,
    /// By thread: arenas born and still without a chunk, and a request that waits for a chunk.
    pending: HashMap<u64, (VecDeque<usize>, Option<Asked>)>,
    node_objects: HashMap<usize, usize>,
    node_object: Option<usize>,
    /// A purge is due: arenas have died since the last one.
    deaths: bool,
    unmapped: Vec<usize>,
}

impl Reading {
    /// HotSpot purges at the end of the pause in which arenas died.
    pub fn purge(&mut self, writer: &mut Writer) {
        if std::mem::take(&mut self.deaths) {
            writer.out.events.push(Event::Purge { nodes: std::mem::take(&mut self.unmapped) });
        }
    }

    /// The chunk around `address`, and the words from its base.
    fn place(&self, writer: &Writer, address: usize) -> Result<(usize, usize), &'static str> {
        let (_, tenancy) =
            self.live.range(..=address).next_back().ok_or("a block lies in no chunk")?;
        Ok((*tenancy, (address - writer.owners.tenancies[*tenancy].base) / WORD))
    }

    pub fn step(&mut self, writer: &mut Writer, record: &Record) -> Result<(), &'static str> {
        let pending = self.pending.entry(record.thread).or_default();
        match record.line {
            Line::NodeIs(object) => self.node_object = Some(object),
            Line::NodeAt { base, end } => {
                writer.node(base, end);
                if let Some(object) = self.node_object.take() {
                    self.node_objects.insert(object, base);
                }
            }
            Line::ClassSpace { .. } => {}
            Line::Birth(manager) => {
                self.managers.insert(manager, self.births);
                pending.0.push_back(self.births);
                self.births += 1;
            }
            Line::Grow { words, used, left } => pending.1 = Some((words, used, left)),
            Line::Added { base, .. } => {
                let tenancy = self.tenancies;
                let (born, grow) = (pending.0.pop_front(), pending.1.take());
                self.tenancies += 1;
                self.live.insert(base, tenancy);
                self.purge(writer);
                match (born, grow) {
                    (Some(arena), _) => writer.birth(arena, tenancy, record.thread),
                    (None, Some((words, used, left))) => {
                        writer
                            .grow(tenancy, words, used, left, record.thread)
                            .ok_or("no arena has a chunk that this one could follow")?;
                    }
                    (None, None) => return Err("a chunk is added, but nobody asked for it"),
                }
            }
            Line::GivenBack { base, words, .. } => {
                let (tenancy, offset) = self.place(writer, base)?;
                writer
                    .give_back(tenancy, offset, words)
                    .ok_or("a block is returned that was never handed out")?;
            }
            Line::Reused { base, words } => {
                let (tenancy, offset) = self.place(writer, base)?;
                writer
                    .reuse(tenancy, offset, words)
                    .ok_or("a free block serves a request, but its arena is unknown")?;
            }
            Line::Retired { .. } | Line::Block { .. } => {}
            Line::Death(manager) => {
                let arena =
                    self.managers.remove(&manager).ok_or("an arena dies that was never born")?;
                writer.out.events.push(Event::Death { arena });
                self.deaths = true;
            }
            Line::Returned(base) => {
                self.live.remove(&base);
            }
            Line::Unmapped(object) => {
                let base = self
                    .node_objects
                    .remove(&object)
                    .ok_or("a node is unmapped that was never mapped")?;
                let (_, number) =
                    writer.nodes.remove(&base).ok_or("a node is unmapped that was never mapped")?;
                self.unmapped.push(number);
            }
        }
        Ok(())
    }
}
