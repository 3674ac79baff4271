//! A heap's final state, as the branches of a [`Forest`]: its reservations, arenas, chunks, blocks,
//! and the gaps between them.
//!
//! The heap lists its own parts ([`Part`]); its driver lists the live blocks. Everything committed
//! weighs its bytes, and nothing else weighs anything. So the root retains the footprint's
//! committed bytes, an arena the bytes that would go with it, and a chunk its committed part. Names
//! of vacant parts, in brackets, are rows of the Summary.
//!
//! - *Holders.* Arenas hold their chunks, because a chunk goes when its arena does. Nodes and
//!   regions of addresses refer to their chunks by weak references, which DevTools shows but which
//!   retain nothing; they hold free chunks and other vacant parts, which have no owner.
//! - *Addresses.* A reference to a part with an address is named by the address; a reference into a
//!   chunk by the offset in the chunk.
//! - *Gaps between blocks.* Less than 16 bytes behind a block are its `(rounding)`, summed up for a
//!   chunk. More is a hole of its own among the `(gaps)`: alignment, or freed memory too small for
//!   the heap to keep. The heap itself knows free blocks.
//! - *Ids.* A block's is its number in the recording. A part's comes from its kind, its owner, and
//!   its place in its reservation, which are equal in every replay: two moments can be compared. A
//!   chunk that moved from one arena to another is another chunk.

use super::calls::called;
use super::forest::{Branch, Branches, Forest, Leaf, NODE_BYTES_MAX, branch_id};
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

/// Bytes behind a block that count as a hole, from this many on.
const GAP_BYTES_MIN: usize = 16;
/// Numbers of parts are below this.
const NUMBERS: u64 = 1 << 30;

/// The input of a heap's snapshot.
#[derive(Debug)]
pub struct WalkedHeap<'a> {
    /// Stacks, frames, arenas.
    pub tables: &'a Tables,
    /// The heap's parts.
    pub parts: Vec<Part>,
    /// The live blocks and their addresses.
    pub blocks: Vec<(usize, LiveBlock)>,
    /// Row of `arenas` of each region.
    pub arenas: HashMap<Region, u32>,
    /// Objects born in the whole recording, for lasting ids.
    pub objects_born: u64,
    /// The heap's name.
    pub heap: &'a str,
    /// The moment, in words.
    pub moment: &'a str,
    /// The recording's subject.
    pub about: &'a About,
}

impl WalkedHeap<'_> {
    /// Writes the file.
    ///
    /// # Errors
    /// `out` fails, or the format cannot number all nodes.
    pub fn write(mut self, out: &mut impl Write) -> Result<Written, ExportError> {
        let root_name = format!("{}, {} at {}", self.about.program, self.heap, self.moment);
        self.blocks.sort_unstable_by_key(|(address, _)| *address);
        let (rows, leaves) = Rows::of(&self);
        write_forest(Forest::new(rows, leaves, root_name, self.objects_born), out)
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

/// The reference to a part.
#[derive(Clone, Copy)]
enum Reference {
    Word(&'static str),
    Address(usize),
    /// Offset in its chunk.
    Offset(u64),
}

/// A block among the leaves: its stack, and its offset in its chunk.
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
    /// By row, the chunks in its reservation.
    lying: HashMap<u32, Vec<u32>>,
}

impl<'a> Rows<'a> {
    fn of(heap: &WalkedHeap<'a>) -> (Rows<'a>, Vec<Leaf>) {
        let places = Places::of(&heap.parts);
        let (taken, blocks, lying) =
            (HashSet::new(), HashMap::with_capacity(heap.blocks.len()), HashMap::new());
        let mut rows = Rows { tables: heap.tables, places, rows: Vec::new(), taken, blocks, lying };
        let mut leaves = Vec::with_capacity(heap.blocks.len());
        // Rows around the next part, one a depth; the arena's region among them; and the place of
        // each chunk.
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
        rows.lay(chunks, &reserved);
        (rows, leaves)
    }

    /// Notes for each chunk, by row and address, the reservation that it lies in.
    fn lay(&mut self, chunks: Vec<(u32, usize)>, reserved: &HashMap<(usize, usize), u32>) {
        for (chunk, address) in chunks {
            let around = self.places.around(address);
            if let Some(row) = around.and_then(|range| reserved.get(&(range.start, range.end))) {
                self.lying.entry(*row).or_default().push(chunk);
            }
        }
    }

    /// The leaves of a part with blocks, in a chunk (its row, its address); returns the chunk's
    /// rounding.
    fn fill(
        &mut self,
        heap: &WalkedHeap,
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

    /// The gap between blocks: a hole, or bytes of rounding.
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

    /// The rounding of a complete chunk.
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

    /// A vacant part of the part in this row, with the address if it is a chunk.
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

    /// Rows of this many bytes: one, unless 4 GiB or more.
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
        // A chunk's name changes when it is enlarged.
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

    /// A number for this key. Of two colliding keys the later gets the next number.
    fn number(&mut self, key: [u64; 4]) -> u64 {
        let mut number = key.into_iter().fold(0, mixed) % NUMBERS;
        while !self.taken.insert(number) {
            number = (number + 1) % NUMBERS;
        }
        number
    }
}

/// One step of mixing (the finalizer of MurmurHash3): ids must be equal in every version, which the
/// standard library's hash does not promise.
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

/// Reservations: the outermost ranges, in the order of the walk, and the ranges inside of them.
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

    /// The innermost range around the address.
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

    /// The place of an address, equal in every replay.
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
        // Branches without weight lead to those with weight.
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
