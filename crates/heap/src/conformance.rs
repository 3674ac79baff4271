//! Lists of operations that any heap must survive: blocks do not overlap, keep their contents, are
//! aligned, are zeroed on request, and the heap's counts add up.
//!
//! A heap's tests call [`drive`] with lists from `operations` (feature `proptest`, which shrinks
//! them) or with [`pseudo_random`] ones; a fuzz target brings its own lists.

use crate::{Block, Heap, Manual, Region, Request, Verified, Violation, structure};

/// One step. Indices count from the oldest live block and wrap around: every list is a legal
/// program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Allocate.
    Allocate {
        /// Bytes.
        size: usize,
        /// log2 of the alignment; 0: none requested.
        align_log2: u8,
        /// Request zeroed memory.
        zeroed: bool,
        /// 0: malloc; others: an arena, which begins at its first use.
        region: u8,
    },
    /// Free the n-th live block.
    Free(usize),
    /// Give the n-th live block a new size.
    Reallocate(usize, usize),
    /// End an arena with all its blocks.
    EndRegion(u8),
    /// Give memory back to the system.
    Trim,
}

/// Counts of a list's steps, which show a test that the list did something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Driven {
    /// Blocks allocated.
    pub births: u64,
    /// Requests that the heap refused, which is allowed.
    pub refused: u64,
}

/// Runs `operations` on `heap`, frees the rest, and returns the first broken promise. Runs the
/// heap's cheap check after every step, and the deep one at the end of the list and again after
/// everything is freed. Walks a walkable heap every few steps: its parts must satisfy
/// [`structure::check`].
///
/// # Errors
/// The first broken promise.
pub fn drive<H: Manual>(heap: H, operations: &[Operation]) -> Result<Driven, Violation> {
    let mut heap = Verified::new(heap);
    let mut live: Vec<Block> = Vec::new();
    let mut begun = [false; 256];
    let mut driven = Driven::default();
    for (nth, operation) in operations.iter().enumerate() {
        step(&mut heap, &mut live, &mut begun, &mut driven, *operation);
        heap.check()?;
        // A walk takes time in proportion to the heap.
        if nth % 8 == 7 || live.is_empty() {
            walk(heap.heap(), &live)?;
        }
        if let Some(violation) = heap.violation() {
            return Err(violation.clone());
        }
    }
    heap.finish()?;
    for block in live {
        // SAFETY: every entry of `live` is a block that was neither freed nor moved since.
        unsafe { heap.deallocate(block) };
    }
    heap.finish()?;
    walk(heap.heap(), &[])?;
    Ok(driven)
}

fn walk<H: Manual>(heap: &H, live: &[Block]) -> Result<(), Violation> {
    let Some(parts) = heap.walk() else { return Ok(()) };
    let blocks = live.iter().map(|block| (block.address.addr().get(), block.size));
    Ok(structure::check(&parts, &heap.footprint(), blocks)?)
}

fn step<H: Manual>(
    heap: &mut Verified<H>,
    live: &mut Vec<Block>,
    begun: &mut [bool; 256],
    driven: &mut Driven,
    operation: Operation,
) {
    match operation {
        Operation::Allocate { size, align_log2, zeroed, region } => {
            if region != 0 && !std::mem::replace(&mut begun[usize::from(region)], true) {
                heap.begin_region(Region(region.into()));
            }
            let request = Request {
                size,
                align: 1 << align_log2.min(16),
                zeroed,
                region: Region(region.into()),
            };
            match heap.allocate(request) {
                Some(address) => {
                    driven.births += 1;
                    live.push(Block::new(address, request));
                }
                None => driven.refused += 1,
            }
        }
        Operation::Free(nth) if !live.is_empty() => {
            let block = live.remove(nth % live.len());
            // SAFETY: the block was live and has left the list.
            unsafe { heap.deallocate(block) };
        }
        Operation::Reallocate(nth, size) if !live.is_empty() => {
            let nth = nth % live.len();
            // SAFETY: the block is live; the list gets its new address below.
            match unsafe { heap.reallocate(live[nth], size) } {
                Some(address) => live[nth] = Block { address, size, ..live[nth] },
                None => driven.refused += 1,
            }
        }
        Operation::EndRegion(region) if region != 0 && begun[usize::from(region)] => {
            begun[usize::from(region)] = false;
            let region = Region(region.into());
            for dying in live.extract_if(.., |block| block.region == region) {
                if !H::REGIONS {
                    // SAFETY: the block was live and has left the list.
                    unsafe { heap.deallocate(dying) };
                }
            }
            // SAFETY: the region's blocks have left the list.
            unsafe { heap.end_region(region) };
        }
        Operation::Trim => {
            heap.trim();
        }
        Operation::Free(_) | Operation::Reallocate(..) | Operation::EndRegion(_) => {}
    }
}

/// splitmix64 (Steele, Lea and Flood 2014): random enough for a list, without a dependency.
pub(crate) fn splitmix(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A list that depends only on `seed`: small and large sizes, size-class boundaries, alignments,
/// zeroed blocks, growth, and arenas.
pub fn pseudo_random(seed: u64, length: usize) -> Vec<Operation> {
    let mut next = splitmix(seed);
    let mut operations = Vec::with_capacity(length);
    for _ in 0..length {
        let (dice, shape, value) = (next() % 100, next() % 10, next());
        let size = match shape {
            0..=5 => value % 512,
            6..=7 => value % 9_000,
            8 => (1 << (value % 18)) + (value >> 40) % 3,
            _ => value % 600_000,
        } as usize;
        operations.push(match dice {
            0..=47 => Operation::Allocate {
                size,
                align_log2: if value.is_multiple_of(8) { (value >> 8) as u8 % 13 } else { 0 },
                zeroed: value.is_multiple_of(5),
                region: if value.is_multiple_of(6) { (value >> 16) as u8 % 4 } else { 0 },
            },
            48..=83 => Operation::Free(value as usize),
            84..=96 => Operation::Reallocate(value as usize, size),
            97..=98 => Operation::EndRegion((value % 4) as u8),
            _ => Operation::Trim,
        });
    }
    operations
}

/// Operation lists for property tests; they shrink to the shortest list that still breaks a heap.
#[cfg(any(feature = "proptest", test))]
pub fn operations(longest: usize) -> impl proptest::strategy::Strategy<Value = Vec<Operation>> {
    use proptest::prelude::*;
    let size = || prop_oneof![6 => 0usize..600, 2 => 0usize..20_000, 1 => 0usize..600_000];
    let one = prop_oneof![
        6 => (size(), prop_oneof![4 => Just(0u8), 1 => 0u8..13], any::<bool>(), prop_oneof![3 => Just(0u8), 1 => 1u8..4])
            .prop_map(|(size, align_log2, zeroed, region)| Operation::Allocate { size, align_log2, zeroed, region }),
        4 => any::<usize>().prop_map(Operation::Free),
        2 => (any::<usize>(), size()).prop_map(|(nth, size)| Operation::Reallocate(nth, size)),
        1 => (1u8..4).prop_map(Operation::EndRegion),
        1 => Just(Operation::Trim),
    ];
    proptest::collection::vec(one, 0..longest)
}

#[cfg(test)]
#[path = "conformance_tests.rs"]
mod tests;
