//! A heap as it stands, as the branches of a [`Forest`]: what it reserved, its arenas, their
//! chunks, the blocks in these, and what lies between.
//!
//! The heap says itself what it is made of ([`Part`]); who drove it says which blocks live where.
//! Everything that is committed weighs what it has, and nothing else weighs anything, so that the
//! root retains what the heap's footprint says is committed, an arena what would go with it, and a
//! chunk what of it is committed. Names of vacant parts, in brackets, are rows of the Summary.
//!
//! - *Who holds what.* Arenas hold their chunks, because a chunk goes when its arena does. Nodes
//!   and regions of addresses refer to the chunks that lie in them by weak references, which
//!   DevTools shows and retains nothing by; free chunks and other vacant parts, which nobody has,
//!   they hold.
//! - *Addresses.* A reference to what has an address is called so; to what lies in a chunk, by how
//!   far into it.
//! - *What lies between blocks.* Less than 16 bytes behind a block are its `(rounding)`, summed up
//!   for a chunk; more is a hole of its own among the `(gaps)`: alignment, or what was given back
//!   and is too small for the heap to keep. Free blocks the heap knows itself.
//! - *Ids.* A block's is its number in the recording. A part's comes from what it is, whose, and
//!   where in its reservation it lies, which is the same in every replay, so that two moments can
//!   be compared; a chunk that went from one arena to another is another.

use super::calls::called;
use super::forest::{Branch, Branches, Forest, Leaf, NODE_BYTES_MAX, branch_id, leaf_id};
use super::{Written, write_forest};
use crate::{About, ExportError, LiveBlock};
use heaplab_heap::{Part, Region, Role};
use heaplab_snapshot::write::node_type;
use heaplab_trace::NO_STACK;
use heaplab_trace::tables::Tables;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::ops::Range;

/// Bytes behind a block from which on they are a hole.
const GAP_BYTES_MIN: usize = 16;
/// Numbers of parts are below this.
const NUMBERS: u64 = 1 << 30;

/// What a heap snapshot of a heap is made from.
#[derive(Debug)]
pub struct StandingHeap<'a> {
    /// Stacks, frames, arenas.
    pub tables: &'a Tables,
    /// What the heap is made of.
    pub parts: Vec<Part>,
    /// The blocks that live, and where.
    pub blocks: Vec<(usize, LiveBlock)>,
    /// Row of `arenas` of each region.
    pub arenas: HashMap<Region, u32>,
    /// Objects that the recording knows over its whole length, for ids that last.
    pub objects_born: u64,
    /// The heap, as it is named.
    pub heap: &'a str,
    /// When that is, in words.
    pub moment: &'a str,
    /// What the recording is of.
    pub about: &'a About,
}

impl StandingHeap<'_> {
    /// Writes the file.
    ///
    /// # Errors
    /// `out` fails, or there are more nodes than the format can number.
    pub fn write(mut self, out: &mut impl Write) -> Result<Written, ExportError> {
        let root_name = format!("{}, {} at {}", self.about.program, self.heap, self.moment);
        self.blocks.sort_unstable_by_key(|(address, _)| *address);
        let (rows, leaves) = Rows::of(&self);
        let ids_last = rows.ids_last(&leaves, self.objects_born);
        write_forest(Forest::new(rows, leaves, root_name, ids_last), out)
    }
}

/// A branch.
struct Row {
    parent: Option<u32>,
    name: Cow<'static, str>,
    reference: Reference,
    /// Half of its id.
    number: u64,
    bytes: u64,
}

/// What leads to a part.
#[derive(Clone, Copy)]
enum Reference {
    Word(&'static str),
    Address(usize),
    /// So far into its chunk.
    Offset(u64),
}

/// A block among the leaves: its stack, and how far into its chunk it lies.
#[derive(Clone, Copy)]
struct Block {
    stack: u32,
    offset: u64,
}

struct Rows<'a> {
    tables: &'a Tables,
    places: Places,
    rows: Vec<Row>,
    taken: HashSet<u64>,
    blocks: HashMap<u64, Block>,
    /// By row, the chunks that lie in what it reserved.
    lying: HashMap<u32, Vec<u32>>,
}

impl<'a> Rows<'a> {
    fn of(heap: &StandingHeap<'a>) -> (Rows<'a>, Vec<Leaf>) {
        let places = Places::of(&heap.parts);
        let (taken, blocks, lying) =
            (HashSet::new(), HashMap::with_capacity(heap.blocks.len()), HashMap::new());
        let mut rows = Rows { tables: heap.tables, places, rows: Vec::new(), taken, blocks, lying };
        let mut leaves = Vec::with_capacity(heap.blocks.len());
        // Rows around the part that comes next, one a depth; the region of the arena among them;
        // and where each chunk lies.
        let mut around: Vec<u32> = Vec::new();
        let mut region = None;
        let (mut reserved, mut chunks) = (HashMap::new(), Vec::new());
        let mut rounding: Option<(u32, Range<usize>, u64)> = None;
        for part in &heap.parts {
            around.truncate(part.depth.into());
            let parent = around.last().copied();
            if !matches!(part.role, Role::Blocks | Role::Vacant) {
                rows.finish_chunk(region, &mut rounding);
            }
            match part.role {
                Role::Blocks => {
                    let Some(chunk) = parent else { continue };
                    let (_, range, rest) =
                        rounding.get_or_insert((chunk, part.addresses.clone(), 0));
                    *rest += rows.fill(heap, (chunk, range.start), region, part, &mut leaves);
                }
                Role::Vacant => {
                    let chunk = rounding.as_ref().map(|(_, range, _)| range.start);
                    rows.vacant((parent, chunk), region, part.name.clone(), part.addresses.clone());
                }
                Role::Arena(of) => {
                    region = of;
                    let row = of.and_then(|of| heap.arenas.get(&of).copied());
                    around.push(rows.push(
                        parent,
                        arena_name(heap.tables, of, row, &part.name).into(),
                        Reference::Word("arena"),
                        part,
                        row.map(u64::from),
                    ));
                }
                Role::Group => {
                    region = None;
                    around.push(rows.push(
                        parent,
                        part.name.clone(),
                        Reference::Word("part"),
                        part,
                        None,
                    ));
                }
                Role::Reserved | Role::Chunk => {
                    let reference = Reference::Address(part.addresses.start);
                    let whose = region
                        .filter(|_| part.role == Role::Chunk)
                        .map(|region| u64::from(region.0));
                    let row = rows.push(parent, part.name.clone(), reference, part, whose);
                    match part.role {
                        Role::Chunk => {
                            rounding = Some((row, part.addresses.clone(), 0));
                            chunks.push((row, part.addresses.start));
                        }
                        _ => {
                            region = None;
                            reserved.insert((part.addresses.start, part.addresses.end), row);
                        }
                    }
                    around.push(row);
                }
            }
        }
        rows.finish_chunk(region, &mut rounding);
        for (chunk, address) in chunks {
            if let Some(row) = rows
                .places
                .around(address)
                .and_then(|range| reserved.get(&(range.start, range.end)))
            {
                rows.lying.entry(*row).or_default().push(chunk);
            }
        }
        (rows, leaves)
    }

    /// The leaves of a part with blocks, which lies in a chunk (its row, its address); returns what
    /// rounds them up.
    fn fill(
        &mut self,
        heap: &StandingHeap,
        chunk: (u32, usize),
        region: Option<Region>,
        part: &Part,
        leaves: &mut Vec<Leaf>,
    ) -> u64 {
        let (mut at, mut rounding) = (part.addresses.start, 0);
        let first = heap.blocks.partition_point(|(address, _)| *address < at);
        let here =
            heap.blocks[first..].iter().take_while(|(address, _)| *address < part.addresses.end);
        for (address, block) in here {
            rounding += self.between(chunk, region, at..*address);
            self.blocks.insert(
                block.object,
                Block { stack: block.stack, offset: (address - chunk.1) as u64 },
            );
            leaves.extend(Leaf::parts(chunk.0, block.object, block.size));
            at = address.saturating_add(block.size as usize).min(part.addresses.end);
        }
        rounding + self.between(chunk, region, at..part.addresses.end)
    }

    /// What lies between blocks: a hole, or so many bytes of rounding.
    fn between(
        &mut self,
        (chunk, address): (u32, usize),
        region: Option<Region>,
        range: Range<usize>,
    ) -> u64 {
        if range.len() < GAP_BYTES_MIN {
            return range.len() as u64;
        }
        self.vacant((Some(chunk), Some(address)), region, "(gaps)".into(), range);
        0
    }

    /// The rounding of a chunk that is complete.
    fn finish_chunk(
        &mut self,
        region: Option<Region>,
        rounding: &mut Option<(u32, Range<usize>, u64)>,
    ) {
        let Some((chunk, range, bytes)) = rounding.take().filter(|(_, _, bytes)| *bytes > 0) else {
            return;
        };
        self.weigh(
            Some(chunk),
            region,
            ("(rounding)".into(), Reference::Word("rounding")),
            range.start,
            bytes,
        );
    }

    /// A vacant part of what has this row, and this address where it is a chunk.
    fn vacant(
        &mut self,
        (parent, chunk): (Option<u32>, Option<usize>),
        region: Option<Region>,
        name: Cow<'static, str>,
        range: Range<usize>,
    ) {
        let reference = chunk.map_or(Reference::Address(range.start), |chunk| {
            Reference::Offset(range.start.saturating_sub(chunk) as u64)
        });
        self.weigh(parent, region, (name, reference), range.start, range.len() as u64);
    }

    /// Rows of so many bytes: one, unless they are 4 GiB or more.
    fn weigh(
        &mut self,
        parent: Option<u32>,
        region: Option<Region>,
        (name, reference): (Cow<'static, str>, Reference),
        address: usize,
        bytes: u64,
    ) {
        for leaf in Leaf::parts(0, 0, bytes) {
            let key = [
                text_key(&name),
                region.map_or(0, |region| 1 + u64::from(region.0)),
                self.places.key(address),
                leaf.part.into(),
            ];
            let number = self.number(key);
            self.rows.push(Row { parent, name: name.clone(), reference, number, bytes: leaf.size });
        }
    }

    fn push(
        &mut self,
        parent: Option<u32>,
        name: Cow<'static, str>,
        reference: Reference,
        part: &Part,
        whose: Option<u64>,
    ) -> u32 {
        let place =
            if part.addresses.is_empty() { 0 } else { self.places.key(part.addresses.start) };
        // The name of a chunk changes when it is enlarged.
        let kind = match part.role {
            Role::Chunk => 1,
            Role::Reserved => 2 + u64::from(part.depth),
            _ => text_key(&name),
        };
        let number =
            self.number([kind, whose.map_or(0, |whose| whose + 1), place, parent.map_or(0, |_| 1)]);
        self.rows.push(Row { parent, name, reference, number, bytes: 0 });
        self.rows.len() as u32 - 1
    }

    /// A number for what has this key. Of two that fall together the later one gets the next.
    fn number(&mut self, key: [u64; 4]) -> u64 {
        let mut number = key.into_iter().fold(0, mixed) % NUMBERS;
        while !self.taken.insert(number) {
            number = (number + 1) % NUMBERS;
        }
        number
    }

    fn ids_last(&self, leaves: &[Leaf], objects_born: u64) -> bool {
        let born = leaves
            .iter()
            .map(|leaf| leaf.object.saturating_add(1))
            .max()
            .unwrap_or(0)
            .max(objects_born);
        let parts = leaves.iter().filter(|leaf| leaf.part > 0).count() as u64;
        leaf_id(born) <= u64::from(u32::MAX)
            && self.ids_end().saturating_add(2 * parts) <= u64::from(u32::MAX)
    }
}

/// One step of mixing (the finalizer of MurmurHash3): ids must be the same in every version, which
/// the standard library's hash does not promise.
fn mixed(state: u64, word: u64) -> u64 {
    let mut mixed = state.rotate_left(23) ^ word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

fn text_key(text: &str) -> u64 {
    text.bytes().fold(text.len() as u64, |state, byte| mixed(state, byte.into()))
}

fn arena_name(tables: &Tables, region: Option<Region>, row: Option<u32>, name: &str) -> String {
    let known = row.and_then(|row| tables.arenas.get(row as usize));
    match (region, known) {
        (Some(Region::MALLOC), _) => format!("{name} of what has no arena"),
        (_, Some(arena)) if !arena.loader.is_empty() && !arena.kind.is_empty() => {
            format!("{}, {}", arena.loader, arena.kind)
        }
        (_, Some(arena)) if !arena.loader.is_empty() => arena.loader.clone(),
        (_, Some(arena)) if !arena.kind.is_empty() => {
            format!("{} arena {}", arena.kind, row.unwrap_or(0))
        }
        _ => row.map_or_else(|| name.to_owned(), |row| format!("{name} {row}")),
    }
}

/// What is reserved: the ranges that lie in no other, by their order in the walk, and those that
/// lie in one of them.
struct Places {
    /// By address, each with its number.
    outer: Vec<(Range<usize>, u64)>,
    inner: Vec<Range<usize>>,
}

impl Places {
    fn of(parts: &[Part]) -> Places {
        let mut outer: Vec<(Range<usize>, u64)> = Vec::new();
        let mut inner: Vec<Range<usize>> = Vec::new();
        for part in parts.iter().filter(|part| part.role == Role::Reserved) {
            let range = part.addresses.clone();
            match outer.last() {
                Some((last, _)) if last.contains(&range.start) => inner.push(range),
                _ => outer.push((range, outer.len() as u64)),
            }
        }
        outer.sort_unstable_by_key(|(range, _)| range.start);
        inner.sort_unstable_by_key(|range| range.start);
        Places { outer, inner }
    }

    /// The innermost range that has the address.
    fn around(&self, address: usize) -> Option<Range<usize>> {
        let inner = self
            .inner
            .partition_point(|range| range.start <= address)
            .checked_sub(1)
            .map(|at| &self.inner[at]);
        inner
            .filter(|range| range.contains(&address))
            .cloned()
            .or_else(|| Some(self.outer_of(address)?.0.clone()))
    }

    fn outer_of(&self, address: usize) -> Option<&(Range<usize>, u64)> {
        let at = self.outer.partition_point(|(range, _)| range.start <= address).checked_sub(1)?;
        self.outer.get(at).filter(|(range, _)| range.contains(&address))
    }

    /// Where an address lies, as it is the same in every replay.
    fn key(&self, address: usize) -> u64 {
        self.outer_of(address)
            .map_or(u64::MAX, |(range, number)| mixed(*number, (address - range.start) as u64))
    }
}

impl Branches for Rows<'_> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn parent(&self, branch: u32) -> Option<u32> {
        self.rows[branch as usize].parent
    }

    fn describe(&self, branch: u32) -> Branch {
        let row = &self.rows[branch as usize];
        // What weighs nothing leads to what does.
        let node_type = if row.bytes == 0 { node_type::CODE } else { node_type::NATIVE };
        Branch { node_type, id: branch_id(row.number), self_size: row.bytes }
    }

    fn name(&self, branch: u32) -> String {
        self.rows[branch as usize].name.to_string()
    }

    fn reference(&self, branch: u32) -> String {
        match self.rows[branch as usize].reference {
            Reference::Word(word) => word.into(),
            Reference::Address(address) => format!("{address:#x}"),
            Reference::Offset(offset) => offset.to_string(),
        }
    }

    fn index(&self, branch: u32) -> Option<u64> {
        match self.rows[branch as usize].reference {
            Reference::Offset(offset) => Some(offset.min(u32::MAX.into())),
            Reference::Word(_) | Reference::Address(_) => None,
        }
    }

    fn beside(&self, branch: u32) -> &[u32] {
        self.lying.get(&branch).map_or(&[], Vec::as_slice)
    }

    fn leaf_kind(&self, leaf: &Leaf) -> u32 {
        self.blocks.get(&leaf.object).map_or(NO_STACK, |block| block.stack)
    }

    fn leaf_index(&self, leaf: &Leaf, _nth: u64) -> u64 {
        let offset = self.blocks.get(&leaf.object).map_or(0, |block| block.offset);
        (offset + u64::from(leaf.part) * NODE_BYTES_MAX).min(u32::MAX.into())
    }

    fn leaf_name(&self, stack: u32) -> String {
        let frames: Vec<u32> =
            self.tables.frames_of(stack).take(Tables::WRAPPERS_MAX + 1).collect();
        called(self.tables, &frames)
    }

    fn ids_end(&self) -> u64 {
        branch_id(NUMBERS)
    }
}
