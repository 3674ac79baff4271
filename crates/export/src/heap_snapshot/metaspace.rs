//! A JVM's metaspace, as the branches of a [`Forest`]: loaders hold their arenas, arenas their
//! chunks, and a chunk its live blocks and the rest of its committed memory.
//!
//! Retained bytes then are committed bytes: a chunk's retained size is its committed part, an
//! arena's and a loader's the sum, and the root's the metaspace's committed bytes. The Summary has
//! the kinds of blocks, and beside them the other parts of chunks: `(rounding)` of requests,
//! `(free blocks)` that were given back, `(free)` in current chunks, `(waste)` in retired ones, and
//! `(free chunks)`. The words are those of `jcmd VM.metaspace`.

use super::forest::{Branch, Branches, Forest, Leaf, branch_id};
use super::{Written, write_forest};
use crate::{About, ExportError};
use heaplab_jvm::ChunkOp;
use heaplab_jvm::shadow::{Chunk, LiveArena, Owner, Shadow};
use heaplab_jvm::statistics::in_granules;
use heaplab_snapshot::write::node_type;
use heaplab_trace::tables::Tables;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;

/// Ids of a chunk: its own and those of its parts besides blocks.
const IDS_A_CHUNK: u64 = 4;
/// The smallest chunk: free ones get their ids by address.
const CHUNK_BYTES_MIN: u64 = 1 << 10;

/// The input of a metaspace's heap snapshot.
#[derive(Debug)]
pub struct MetaspaceSnapshot<'a> {
    /// Arenas, their chunks, and the kinds of blocks.
    pub tables: &'a Tables,
    /// The metaspace's state.
    pub shadow: &'a Shadow,
    /// The JVM: row of `processes`.
    pub process: u32,
    /// Objects born in the whole recording, for lasting ids.
    pub objects_born: u64,
    /// The moment, in words.
    pub moment: &'a str,
    /// The recording's subject.
    pub about: &'a About,
}

impl MetaspaceSnapshot<'_> {
    /// Writes the file.
    ///
    /// # Errors
    /// `out` fails, or the format cannot number all nodes.
    pub fn write(&self, out: &mut impl Write) -> Result<Written, ExportError> {
        let (loaders, leaves) = Loaders::of(self);
        let root_name = format!("{}, metaspace at {}", self.about.program, self.moment);
        write_forest(Forest::new(loaders, leaves, root_name, self.objects_born), out)
    }
}

/// The kind of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Loader(u32),
    Arena(u32),
    Chunk {
        address: u64,
        bytes: u64,
    },
    Rounding,
    FreeBlocks,
    Free,
    Waste,
    FreeChunks,
    FreeChunk {
        address: u64,
    },
    /// Committed memory outside of arenas' chunks: JDK 17 with CDS keeps the first 1 KB of class
    /// space. Blocks there belong directly to their arena.
    Others,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    parent: Option<u32>,
    kind: Kind,
    /// Half of its id.
    number: u64,
    bytes: u64,
}

struct Loaders<'a> {
    tables: &'a Tables,
    rows: Vec<Row>,
    /// The kind of each block: its stack.
    stacks: HashMap<u64, u32>,
    numbers: Numbers,
}

/// The used part of a chunk: bytes requested for its live blocks, and bytes of its free blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    blocks: u64,
    free_blocks: u64,
}

impl<'a> Loaders<'a> {
    fn of(snapshot: &MetaspaceSnapshot<'a>) -> (Loaders<'a>, Vec<Leaf>) {
        let (tables, shadow) = (snapshot.tables, snapshot.shadow);
        let mut loaders = Loaders {
            tables,
            rows: Vec::new(),
            stacks: HashMap::new(),
            numbers: Numbers::of(snapshot),
        };
        let taken = taken(shadow);
        let mut by_loader: BTreeMap<u32, Vec<(u32, &LiveArena)>> = BTreeMap::new();
        for (row, arena) in &shadow.arenas {
            by_loader.entry(loader_of(tables, *row)).or_default().push((*row, arena));
        }
        let mut branches = HashMap::new();
        let mut arenas = HashMap::new();
        for (loader, of_loader) in by_loader {
            let at_loader =
                loaders.push(None, Kind::Loader(loader), loaders.numbers.loader(loader), 0);
            for (row, arena) in of_loader {
                let at_arena =
                    loaders.push(Some(at_loader), Kind::Arena(row), loaders.numbers.arena(row), 0);
                arenas.insert(row, at_arena);
                for (index, base) in arena.chunks.iter().enumerate() {
                    if let Some(chunk) = shadow.chunks.get(base) {
                        let taken = taken.get(base).copied().unwrap_or_default();
                        let at_chunk = loaders.chunk(
                            at_arena,
                            (row, *base),
                            chunk,
                            index + 1 == arena.chunks.len(),
                            taken,
                        );
                        branches.insert(*base, at_chunk);
                    }
                }
            }
        }
        loaders.free_chunks(shadow);
        let mut leaves = Vec::new();
        for block in shadow.blocks() {
            let in_chunk =
                chunk_of(shadow, block.arena, block.address).and_then(|base| branches.get(&base));
            if let Some(branch) = in_chunk.or_else(|| arenas.get(&block.arena)) {
                loaders.stacks.insert(block.object, block.stack);
                leaves.extend(Leaf::parts(*branch, block.object, block.size));
            }
        }
        let known = loaders
            .rows
            .iter()
            .map(|row| row.bytes)
            .chain(leaves.iter().map(|leaf| leaf.size))
            .fold(0, u64::saturating_add);
        let others = shadow.committed_bytes().saturating_sub(known);
        if others > 0 {
            loaders.push(None, Kind::Others, loaders.numbers.others(), others);
        }
        (loaders, leaves)
    }

    fn push(&mut self, parent: Option<u32>, kind: Kind, number: u64, bytes: u64) -> u32 {
        self.rows.push(Row { parent, kind, number, bytes });
        self.rows.len() as u32 - 1
    }

    /// A chunk, and its committed memory outside of live blocks.
    fn chunk(
        &mut self,
        arena: u32,
        (row, base): (u32, u64),
        chunk: &Chunk,
        is_current: bool,
        taken: Taken,
    ) -> u32 {
        let number = self.numbers.chunk(row, base);
        let at =
            self.push(Some(arena), Kind::Chunk { address: base, bytes: chunk.bytes }, number, 0);
        let rounding =
            chunk.used_bytes.saturating_sub(taken.blocks.saturating_add(taken.free_blocks));
        let rest = chunk.committed_bytes.saturating_sub(chunk.used_bytes);
        let parts = [
            (Kind::Rounding, rounding),
            (Kind::FreeBlocks, taken.free_blocks),
            (if is_current { Kind::Free } else { Kind::Waste }, rest),
        ];
        for (index, (kind, bytes)) in
            parts.into_iter().enumerate().filter(|(_, (_, bytes))| *bytes > 0)
        {
            self.push(Some(at), kind, number.saturating_add(1 + index as u64), bytes);
        }
        at
    }

    fn free_chunks(&mut self, shadow: &Shadow) {
        let mut all = None;
        for (base, chunk) in shadow.chunks.iter().filter(|(_, chunk)| chunk.owner == Owner::Free) {
            let bytes = in_granules(shadow, *base, chunk.bytes);
            if bytes > 0 {
                let at = *all.get_or_insert_with(|| {
                    let row = Row {
                        parent: None,
                        kind: Kind::FreeChunks,
                        number: self.numbers.free_chunks(),
                        bytes: 0,
                    };
                    self.rows.push(row);
                    self.rows.len() as u32 - 1
                });
                let number = self.numbers.free_chunk(*base);
                self.push(Some(at), Kind::FreeChunk { address: *base }, number, bytes);
            }
        }
    }
}

impl Branches for Loaders<'_> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn parent(&self, branch: u32) -> Option<u32> {
        self.rows[branch as usize].parent
    }

    fn describe(&self, branch: u32) -> Branch {
        let row = self.rows[branch as usize];
        // Branches without weight lead to those with weight.
        let node_type = if row.bytes == 0 { node_type::CODE } else { node_type::NATIVE };
        Branch { node_type, id: branch_id(row.number), self_size: row.bytes }
    }

    fn name(&self, branch: u32) -> String {
        let arena = |row: u32| self.tables.arenas.get(row as usize);
        match self.rows[branch as usize].kind {
            Kind::Loader(row) => {
                let name =
                    arena(row).map(|arena| arena.loader.clone()).filter(|name| !name.is_empty());
                name.unwrap_or_else(|| format!("arena {row}"))
            }
            Kind::Arena(row) => {
                arena(row).map_or_else(|| "arena".into(), |arena| format!("{} arena", arena.kind))
            }
            Kind::Chunk { bytes, .. } => format!("chunk of {} KB", bytes >> 10),
            Kind::Rounding => "(rounding)".into(),
            Kind::FreeBlocks => "(free blocks)".into(),
            Kind::Free => "(free)".into(),
            Kind::Waste => "(waste)".into(),
            Kind::FreeChunks | Kind::FreeChunk { .. } => "(free chunks)".into(),
            Kind::Others => "(others)".into(),
        }
    }

    fn reference(&self, branch: u32) -> String {
        match self.rows[branch as usize].kind {
            Kind::Loader(_) => "loader".into(),
            Kind::Arena(_) => "arena".into(),
            Kind::Chunk { address, .. } | Kind::FreeChunk { address } => format!("{address:#x}"),
            _ => "committed".into(),
        }
    }

    fn leaf_kind(&self, leaf: &Leaf) -> u32 {
        self.stacks.get(&leaf.object).copied().unwrap_or(0)
    }

    fn leaf_name(&self, stack: u32) -> String {
        self.tables
            .frames_of(stack)
            .next()
            .map_or_else(|| "block".into(), |frame| self.tables.frame_label(frame))
    }

    fn numbers_last(&self) -> bool {
        self.rows.iter().all(|row| row.number < self.numbers.end)
    }

    fn ids_end(&self) -> u64 {
        branch_id(self.numbers.end)
    }
}

/// Numbers that are equal in every file of a recording: of arenas by row, of a chunk in use by the
/// row of its taking (an arena takes a place once), of free chunks by address.
struct Numbers {
    arenas: u64,
    /// Rows of `chunks` in which an arena takes a chunk: arena, address.
    takes: HashMap<(u32, u64), u64>,
    chunks: u64,
    /// Reserved address space: address, bytes, and the number of its first place.
    nodes: Vec<(u64, u64, u64)>,
    end: u64,
}

impl Numbers {
    fn of(snapshot: &MetaspaceSnapshot) -> Numbers {
        let tables = snapshot.tables;
        let mut takes = HashMap::new();
        for (row, chunk) in
            tables.chunks.iter().enumerate().filter(|(_, chunk)| chunk.process == snapshot.process)
        {
            if ChunkOp::of(chunk) == Some(ChunkOp::Take) {
                takes.entry((chunk.arena, chunk.address)).or_insert(row as u64);
            }
        }
        let (arenas, chunks) = (tables.arenas.len() as u64, tables.chunks.len() as u64);
        let mut end = 2 + 2 * arenas + IDS_A_CHUNK * chunks;
        let mut nodes = Vec::new();
        for node in tables.chunks.iter().filter(|chunk| chunk.process == snapshot.process) {
            if matches!(ChunkOp::of(node), Some(ChunkOp::Node | ChunkOp::NodeApart)) {
                nodes.push((node.address, node.bytes, end));
                end = end.saturating_add(node.bytes / CHUNK_BYTES_MIN);
            }
        }
        Numbers { arenas, takes, chunks, nodes, end }
    }

    fn others(&self) -> u64 {
        0
    }

    fn free_chunks(&self) -> u64 {
        1
    }

    fn loader(&self, row: u32) -> u64 {
        2 + u64::from(row)
    }

    fn arena(&self, row: u32) -> u64 {
        2 + self.arenas + u64::from(row)
    }

    /// `u64::MAX` if the recording lacks its taking.
    fn chunk(&self, arena: u32, base: u64) -> u64 {
        let row = self.takes.get(&(arena, base)).filter(|row| **row < self.chunks);
        row.map_or(u64::MAX, |row| 2 + 2 * self.arenas + IDS_A_CHUNK * row)
    }

    fn free_chunk(&self, base: u64) -> u64 {
        let node = self.nodes.iter().find(|(from, bytes, _)| base >= *from && base - from < *bytes);
        node.map_or(u64::MAX, |(from, _, first)| first + (base - from) / CHUNK_BYTES_MIN)
    }
}

/// The arena that represents its loader: the first of its two.
fn loader_of(tables: &Tables, row: u32) -> u32 {
    tables
        .arenas
        .get(row as usize)
        .and_then(|arena| arena.partner)
        .map_or(row, |partner| partner.min(row))
}

/// Base of the arena's chunk around an address.
fn chunk_of(shadow: &Shadow, arena: u32, address: u64) -> Option<u64> {
    let (base, chunk) = shadow.chunks.range(..=address).next_back()?;
    (address - base < chunk.bytes && chunk.owner == Owner::Arena(arena)).then_some(*base)
}

fn taken(shadow: &Shadow) -> HashMap<u64, Taken> {
    let mut taken: HashMap<u64, Taken> = HashMap::new();
    for block in shadow.blocks() {
        if let Some(base) = chunk_of(shadow, block.arena, block.address) {
            let taken = taken.entry(base).or_default();
            taken.blocks = taken.blocks.saturating_add(block.size);
        }
    }
    for (row, arena) in &shadow.arenas {
        for (address, bytes) in &arena.free_blocks {
            if let Some(base) = chunk_of(shadow, *row, *address) {
                let taken = taken.entry(base).or_default();
                taken.free_blocks = taken.free_blocks.saturating_add(*bytes);
            }
        }
    }
    taken
}
