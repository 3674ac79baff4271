//! Facts about the blocks of an arena with debugging aids, stored apart from them. No write of the
//! program reaches the book, so its record of a block's place holds after any overrun.
//!
//! The book consists of addresses in ordered maps on the program's heap. The arena's memory has
//! only blocks, canaries and poison: no link, no list, no head.

use super::guarded::Overwritten;
use super::head::{Chunk, WORD};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What blocks are filled with that are gone.
pub const POISON: u8 = 0xf5;
const POISONED: [u8; 4096] = [POISON; 4096];
const CANARY: u64 = 0xca4a_21e5_b10c_a11e;

/// A block, by its address.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// The requested size.
    pub bytes: usize,
    /// The end of the memory taken for the block: canaries lie from the block's end to here.
    pub limit: usize,
    /// It was not given back.
    pub alive: bool,
}

/// Memory with poison: a whole dead block, or the part that later blocks left of it.
#[derive(Clone, Copy, Debug)]
struct Poisoned {
    length: usize,
    /// The dead block's beginning and requested size.
    address: usize,
    bytes: usize,
}

/// Of one arena.
#[derive(Debug, Default)]
pub struct Book {
    /// In the order in which they were taken.
    pub chunks: Vec<Chunk>,
    blocks: BTreeMap<usize, Block>,
    /// The piece from which the next block may be cut: bytes and address.
    free: BTreeSet<(usize, usize)>,
    /// Ranges that hold poison and nothing else, by address: they do not overlap each other, nor
    /// any live block.
    poisoned: BTreeMap<usize, Poisoned>,
    /// Offsets of guard pages.
    pub guards: Vec<usize>,
}

/// The memory that a book is about, as bytes. Only committed and accessible ranges are asked for.
pub trait Bytes {
    /// What is there.
    fn read(&self, range: Range<usize>) -> &[u8];
    /// Writes a canary to each address.
    fn guard(&self, range: Range<usize>);
    /// Fills it with [`POISON`].
    fn poison(&self, range: Range<usize>);
}

/// The canary's byte at an address: another one at each, so that a block that is copied over the
/// next one is found, too.
pub fn canary(address: usize) -> u8 {
    let word = CANARY ^ ((address & !(WORD - 1)) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    match word.to_ne_bytes()[address % WORD] {
        0 => 0xca,
        byte => byte,
    }
}

impl Book {
    /// The block that begins at `address`.
    pub fn block(&self, address: usize) -> Option<Block> {
        self.blocks.get(&address).copied()
    }

    /// Free memory: number of pieces, and bytes of all of them.
    pub fn free(&self) -> (usize, usize) {
        (self.free.len(), self.free.iter().map(|(bytes, _)| bytes).sum())
    }

    /// The free pieces in the order of their sizes.
    pub fn free_pieces(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.free.iter().map(|(bytes, start)| *start..start + bytes)
    }

    /// Whether any block is to be looked at or given poison.
    pub fn live(&self) -> impl Iterator<Item = (usize, Block)> + '_ {
        self.blocks
            .iter()
            .filter(|(_, block)| block.alive)
            .map(|(address, block)| (*address, *block))
    }

    /// Memory that blocks may be cut from, aligned to words.
    pub fn put_free(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.free.insert((range.len(), range.start));
        }
    }

    /// A place of `bytes` bytes, as high as possible in the smallest free piece that holds it. The
    /// place stays free.
    pub fn find(&self, bytes: usize, align: usize) -> Option<(Range<usize>, Range<usize>)> {
        self.free.range((bytes, 0)..).find_map(|&(length, start)| {
            let at = (start + length - bytes) & !(align - 1);
            (at >= start).then_some((start..start + length, at..at + bytes))
        })
    }

    /// Cuts the place out of the free piece it was found in.
    pub fn cut(&mut self, piece: Range<usize>, place: &Range<usize>) {
        self.free.remove(&(piece.len(), piece.start));
        self.put_free(piece.start..place.start);
        self.put_free(place.end..piece.end);
    }

    /// A block begins; of its memory nothing counts as poisoned any more. Refused, with nothing
    /// changed, where that was written to.
    pub fn begin(
        &mut self,
        address: usize,
        block: Block,
        bytes: &impl Bytes,
    ) -> Result<(), Overwritten> {
        let before = self
            .poisoned
            .range(..address)
            .next_back()
            .filter(|(start, poisoned)| **start + poisoned.length > address);
        let first = before.map_or(address, |(start, _)| *start);
        let touched: Vec<(usize, Poisoned)> =
            self.poisoned.range(first..block.limit).map(|(start, was)| (*start, *was)).collect();
        for (start, poisoned) in &touched {
            intact(*start, poisoned, bytes)?;
        }
        for (start, poisoned) in touched {
            self.poisoned.remove(&start);
            for rest in [start..address, block.limit..start + poisoned.length] {
                if !rest.is_empty() {
                    self.poisoned.insert(rest.start, Poisoned { length: rest.len(), ..poisoned });
                }
            }
        }
        self.blocks.insert(address, block);
        Ok(())
    }

    /// A block ends. It stays listed as gone, or is forgotten.
    pub fn end(&mut self, address: usize, forget: bool) {
        if forget {
            self.blocks.remove(&address);
        } else if let Some(block) = self.blocks.get_mut(&address) {
            block.alive = false;
        }
    }

    /// Fills the memory of a block that is gone with poison, to be looked at until a block begins
    /// there.
    pub fn poison(&mut self, address: usize, block: Block, bytes: &impl Bytes) {
        bytes.poison(address..block.limit);
        self.poisoned.insert(
            address,
            Poisoned { length: block.limit - address, address, bytes: block.bytes },
        );
    }

    /// Looks at canaries, where there are any, and at all poison.
    pub fn check(&self, canaries: bool, bytes: &impl Bytes) -> Result<(), Overwritten> {
        if canaries {
            let unpoisoned =
                self.blocks.iter().filter(|(address, _)| !self.poisoned.contains_key(address));
            for (address, block) in unpoisoned {
                check_canary(*address, block, bytes)?;
            }
        }
        self.poisoned.iter().try_for_each(|(start, poisoned)| intact(*start, poisoned, bytes))
    }

    /// Forgets all blocks and free pieces; the caller adds the chunks' memory as free again.
    /// Without `poisoned`, also forgets which memory was filled.
    pub fn clear(&mut self, poisoned: bool) {
        self.blocks.clear();
        self.free.clear();
        if !poisoned {
            self.poisoned.clear();
        }
    }
}

/// Looks behind one block.
pub fn check_canary(address: usize, block: &Block, bytes: &impl Bytes) -> Result<(), Overwritten> {
    let end = address + block.bytes;
    for (nth, found) in bytes.read(end..block.limit).iter().enumerate() {
        let expected = canary(end + nth);
        if *found != expected {
            return Err(Overwritten::BeyondEnd {
                address,
                bytes: block.bytes,
                offset: block.bytes + nth,
                expected,
                found: *found,
            });
        }
    }
    Ok(())
}

fn intact(start: usize, poisoned: &Poisoned, bytes: &impl Bytes) -> Result<(), Overwritten> {
    let Poisoned { length, address, bytes: asked_bytes } = *poisoned;
    // Piece by piece, which is a comparison of memory; byte by byte takes a hundred times as long
    // where nothing is optimized.
    let pieces = bytes.read(start..start + length).chunks(POISONED.len());
    for (nth, piece) in pieces.enumerate().filter(|(_, piece)| **piece != POISONED[..piece.len()]) {
        if let Some((at, found)) = piece.iter().enumerate().find(|(_, found)| **found != POISON) {
            let offset = start - address + nth * POISONED.len() + at;
            return Err(Overwritten::AfterFree {
                address,
                bytes: asked_bytes,
                offset,
                found: *found,
            });
        }
    }
    Ok(())
}
