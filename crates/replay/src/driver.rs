//! The loop: decode an instruction, call the heap, keep the block in its slot.
//!
//! The loop must cost little beside the heap (docs/measuring.md has its cost). So it has only a
//! bounds check, an alignment check and the slot: instructions are read from mapped words in order,
//! slots are reused, and a slot's entry is prefetched while earlier instructions run. The heap's
//! own memory is never prefetched: this would do a part of the heap's work unmeasured.
//!
//! Any program is safe to run, even a damaged one: [`Table`] checks that a slot is inside the
//! table, empty before a birth and taken before anything else, and which blocks die with a region.
//! So a heap gets back only blocks that it gave.

use crate::cell::Runs;
use crate::table::Table;
use crate::touch::{Touch, touch};
use heaplab_heap::{Block, Manual, Region, Request};
use heaplab_trace::program::{Corrupt, Managed, Program, Step, decode, slot_at};
use std::ptr::NonNull;

/// Distance between the current instruction and the prefetch of a slot's entry, in words.
const PREFETCH_WORDS: usize = 32;

/// Why a replay ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The heap returned no block.
    #[error(
        "the heap returned NULL for {size} bytes aligned to {align} ({what}, word {word} of the program)"
    )]
    Refused {
        /// Word of the instruction.
        word: usize,
        /// "allocation" or "reallocation".
        what: &'static str,
        /// Bytes requested.
        size: u64,
        /// Alignment requested.
        align: u64,
    },
    /// The heap returned a misaligned block.
    #[error(
        "the heap returned {address:#x} for {size} bytes aligned to {align} (word {word} of the program)"
    )]
    Misaligned {
        /// Word of the instruction.
        word: usize,
        /// Address of the block.
        address: usize,
        /// Bytes requested.
        size: u64,
        /// Required alignment.
        align: u64,
    },
    /// The program is damaged.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The program does the impossible: it frees an empty slot, or puts two blocks in one slot.
    #[error("word {word} of the replay program: slot {slot} is {found}")]
    Slot {
        /// Word of the instruction.
        word: usize,
        /// The slot.
        slot: u32,
        /// The slot's state.
        found: &'static str,
    },
    /// A collecting heap has no room even after collecting.
    #[error("{error}, after {percent} % of the workload")]
    OutOfMemory {
        /// The share of the workload that had run.
        percent: u32,
        /// The heap's own words.
        error: String,
    },
    /// The program does the impossible with a region.
    #[error("word {word} of the replay program: region {region} {found}")]
    Region {
        /// Word of the instruction.
        word: usize,
        /// The region.
        region: u32,
        /// The region's state.
        found: String,
    },
    /// The system has no memory for the driver.
    #[error("no memory for the driver's tables: {0}")]
    Memory(String),
    /// Threads cannot replay this program.
    #[error("{0}")]
    Threads(String),
}

impl From<std::io::Error> for ReplayError {
    fn from(error: std::io::Error) -> Self {
        ReplayError::Memory(error.to_string())
    }
}

/// Runs one program on one heap, in recorded order on this thread.
pub struct Driver<'a, H> {
    program: &'a Program,
    heap: H,
    table: Table,
    at: usize,
}

impl<'a, H: Manual> Driver<'a, H> {
    /// A driver at the beginning of `program`. Writes its table here, before any measurement.
    ///
    /// # Errors
    /// The system has no memory for the table.
    pub fn new(program: &'a Program, heap: H) -> Result<Self, ReplayError> {
        Ok(Driver { program, heap, table: Table::new::<H>(program)?, at: 0 })
    }

    /// Runs the instructions before word `end`.
    pub fn run_to(&mut self, end: usize, policy: Touch) -> Result<(), ReplayError> {
        run(policy, self.program.words(), &mut self.at, end, &self.table, &mut self.heap)
    }

    /// Runs to the program's end.
    pub fn run(&mut self, policy: Touch) -> Result<(), ReplayError> {
        self.run_to(self.program.words().len(), policy)
    }

    /// Frees all live blocks, ends the live regions, and goes back to the beginning.
    pub fn rewind(&mut self) {
        self.table.release(&mut self.heap);
        self.at = 0;
    }

    /// The heap.
    pub fn heap(&mut self) -> &mut H {
        &mut self.heap
    }

    /// Address of a slot's block; `None`: the slot is empty, or out of range.
    pub fn block(&self, slot: u32) -> Option<NonNull<u8>> {
        self.table.address(slot)
    }
}

impl<H: Manual> Runs for Driver<'_, H> {
    type Heap = H;

    fn heap(&mut self) -> &mut H {
        &mut self.heap
    }

    fn pass(&mut self, touch: Touch) -> Result<(), ReplayError> {
        self.run(touch)
    }

    fn pass_with(
        &mut self,
        touch: Touch,
        mut each: impl FnMut(&mut H) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        for checkpoint in self.program.checkpoints() {
            self.run_to(checkpoint.word as usize, touch)?;
            each(&mut self.heap)?;
        }
        Ok(())
    }

    fn rewind(&mut self) {
        Driver::rewind(self);
    }

    /// CPU time: time that other processes take is not the heap's.
    fn clock() -> u64 {
        crate::system::cpu_ns()
    }
}

/// Runs the instructions of `words` from `*at` to `end`.
pub(crate) fn run<H: Manual>(
    policy: Touch,
    words: &[u32],
    at: &mut usize,
    end: usize,
    table: &Table,
    heap: &mut H,
) -> Result<(), ReplayError> {
    match policy {
        Touch::All => run_touching::<H, { Touch::ALL }>(words, at, end, table, heap),
        Touch::Known => run_touching::<H, { Touch::KNOWN }>(words, at, end, table, heap),
        Touch::None => run_touching::<H, { Touch::NONE }>(words, at, end, table, heap),
    }
}

fn run_touching<H: Manual, const POLICY: u8>(
    words: &[u32],
    at: &mut usize,
    end: usize,
    table: &Table,
    heap: &mut H,
) -> Result<(), ReplayError> {
    let words = &words[..end.min(words.len())];
    let mut next = *at;
    loop {
        let word = next;
        if let Some(ahead) = words.get(word + PREFETCH_WORDS) {
            table.prefetch::<H>(slot_at(*ahead));
        }
        let Some(step) = decode(words, &mut next)? else { break };
        match step {
            Step::Free { slot } => {
                let block = table.take::<H>(slot, word)?;
                // SAFETY: the table holds only live blocks of this heap, and this one has just left
                // it.
                unsafe { heap.deallocate(block) };
            }
            Step::Allocate { slot, size, align_log2, zeroed, region } => {
                let request = Request {
                    size: size as usize,
                    align: 1 << align_log2,
                    zeroed,
                    region: Region(region),
                };
                table.check_birth::<H>(slot, request.region, word)?;
                let address =
                    heap.allocate(request).ok_or_else(|| refused(word, "allocation", request))?;
                table.put::<H>(slot, address, request, word)?;
                check_alignment(address, request, word)?;
                // SAFETY: the heap has just given this block for this request.
                unsafe { touch::<POLICY>(address, request) };
            }
            Step::Reallocate { slot, size, align_log2, region: _ } => {
                let block = table.block::<H>(slot, word)?;
                let block = reallocate(heap, block, size as usize, 1 << align_log2, word)?;
                table.moved::<H>(slot, block, word)?;
                let request = block.request(block.size);
                check_alignment(block.address, request, word)?;
                // SAFETY: the heap has just given this block for this request.
                unsafe { touch::<POLICY>(block.address, request) };
            }
            Step::UsableSize { slot } => {
                let block = table.block::<H>(slot, word)?;
                // SAFETY: the table holds only live blocks of this heap.
                std::hint::black_box(unsafe { heap.usable_size(block) });
            }
            Step::Thread { .. } => {}
            Step::Managed(managed) => heed(table, heap, managed, word)?,
            Step::RegionBirth { region } => table.begin(heap, Region(region), word)?,
            Step::RegionDeath { region, first, members } => {
                table.end(heap, Region(region), &words[first..first + members], word)?;
            }
        }
    }
    *at = next;
    Ok(())
}

/// Gives `block`, which is in the table, a new size; returns the table's new entry. A block of a
/// sized heap keeps its alignment; if the program asks for more, the driver moves the block by
/// hand, as a program would have to.
#[inline(always)]
fn reallocate<H: Manual>(
    heap: &mut H,
    block: Block,
    size: usize,
    align: usize,
    word: usize,
) -> Result<Block, ReplayError> {
    if H::SIZED && align > block.align {
        return realign(heap, block, size, align, word);
    }
    let block = if H::SIZED { block } else { Block { align, ..block } };
    // SAFETY: the table holds only live blocks of this heap; the caller puts the new address there.
    let address = unsafe { heap.reallocate(block, size) }
        .ok_or_else(|| refused(word, "reallocation", block.request(size)))?;
    Ok(Block { address, size, ..block })
}

#[cold]
fn realign<H: Manual>(
    heap: &mut H,
    block: Block,
    size: usize,
    align: usize,
    word: usize,
) -> Result<Block, ReplayError> {
    let request = Request { align, ..block.request(size) };
    let address = heap.allocate(request).ok_or_else(|| refused(word, "reallocation", request))?;
    // SAFETY: both blocks are live and hold the smaller of both sizes. A null heap gives the same
    // block twice, so the two may overlap.
    unsafe { address.copy_from(block.address, block.size.min(size)) };
    // SAFETY: the table holds only live blocks of this heap; the caller puts the other block in
    // this one's place.
    unsafe { heap.deallocate(block) };
    Ok(Block::new(address, request))
}

#[inline(always)]
fn check_alignment(block: NonNull<u8>, request: Request, word: usize) -> Result<(), ReplayError> {
    let address = block.as_ptr() as usize;
    // Most blocks lie at multiples of 16. Without a named alignment nothing more is promised.
    if address & ((request.align - 1) | 15) == 0 {
        return Ok(());
    }
    let align = request.required_align();
    if address & (align - 1) == 0 {
        return Ok(());
    }
    Err(ReplayError::Misaligned { word, address, size: request.size as u64, align: align as u64 })
}

#[cold]
fn refused(word: usize, what: &'static str, request: Request) -> ReplayError {
    ReplayError::Refused { word, what, size: request.size as u64, align: request.align as u64 }
}

/// Handles an instruction for collecting heaps on a heap whose blocks the program frees.
#[cold]
fn heed<H: Manual>(
    table: &Table,
    heap: &mut H,
    managed: Managed,
    word: usize,
) -> Result<(), ReplayError> {
    match managed {
        Managed::Trim => {
            heap.trim();
        }
        Managed::Release { slot } => {
            let block = table.take::<H>(slot, word)?;
            // SAFETY: the table holds only live blocks of this heap, and this one has just left it.
            unsafe { heap.deallocate(block) };
        }
        Managed::Collect
        | Managed::CollectYoung
        | Managed::NextOld
        | Managed::NextHiddenClass
        | Managed::Reference { .. } => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C's promise: a block suits every type that fits in it, and none is aligned to more than 16.
    #[test]
    fn a_block_is_accepted_where_it_is_aligned_for_its_request() {
        for address in 1..=256 {
            let block = NonNull::new(std::ptr::without_provenance_mut(address)).unwrap();
            for size in 0..=40 {
                for align in [1, 2, 4, 8, 16, 32, 64] {
                    let natural = [16, 8, 4, 2].into_iter().find(|type_size| *type_size <= size);
                    let needed = if align > 1 { align } else { natural.unwrap_or(1) };
                    let request = Request { align, ..Request::of(size) };
                    let found = check_alignment(block, request, 0);
                    assert_eq!(found.is_ok(), address % needed == 0, "{address} for {request:?}");
                }
            }
        }
    }
}
