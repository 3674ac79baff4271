//! A wrapper that shows a heap's mistakes at once: it fills every block with a pattern of its own,
//! and checks the pattern when the block is freed, reallocated, or its region ends.
//!
//! The wrapper's own records lie in the process's malloc, so measurements through it mean nothing;
//! `heaplab replay --verify` and the conformance lists use it.

use crate::{Block, CheckError, Footprint, Heap, Manual, Part, Region, Request};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ptr::NonNull;

/// A promise that a heap broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The block does not have the requested alignment.
    #[error("block of {size} bytes at {address:#x} is not aligned to {align}")]
    Misaligned {
        /// Its address.
        address: usize,
        /// Bytes requested.
        size: usize,
        /// The alignment it must have.
        align: usize,
    },
    /// Two live blocks share bytes.
    #[error(
        "block of {size} bytes at {address:#x} overlaps the live block of {other_size} bytes at {other:#x}"
    )]
    Overlap {
        /// Address of the new block.
        address: usize,
        /// Its requested bytes.
        size: usize,
        /// Address of the live block.
        other: usize,
        /// Its requested bytes.
        other_size: usize,
    },
    /// A block requested zeroed has other bytes.
    #[error(
        "block of {size} bytes at {address:#x} was asked for zeroed and holds {found:#x} at offset {offset}"
    )]
    NotZeroed {
        /// Its address.
        address: usize,
        /// Bytes requested.
        size: usize,
        /// Offset of the first other byte.
        offset: usize,
        /// That byte.
        found: u8,
    },
    /// A live block lost its content.
    #[error(
        "block of {size} bytes at {address:#x} lost its content: {found:#x} instead of {expected:#x} at offset {offset}"
    )]
    Content {
        /// Its address.
        address: usize,
        /// Bytes requested.
        size: usize,
        /// Offset of the first lost byte.
        offset: usize,
        /// The byte written.
        expected: u8,
        /// The byte found.
        found: u8,
    },
    /// The usable size is less than requested.
    #[error("block at {address:#x} has {usable} usable bytes of {size} requested")]
    Usable {
        /// Its address.
        address: usize,
        /// Bytes requested.
        size: usize,
        /// The heap's usable size.
        usable: usize,
    },
    /// The heap's own count of live requested bytes is wrong.
    #[error("the heap counts {counted} requested bytes live, the program has {live}")]
    Count {
        /// The heap's count.
        counted: u64,
        /// The program's count.
        live: u64,
    },
    /// A collector reclaimed an object that the program holds.
    #[error(
        "the heap reclaimed the object of {size} bytes at {address:#x}, which the program holds"
    )]
    FreedLive {
        /// Its old address.
        address: usize,
        /// Bytes requested.
        size: usize,
    },
    /// A collector's report of its collections cannot be true.
    #[error("the heap's collections: {0}")]
    Collections(String),
    /// A broken invariant found by the heap itself.
    #[error("the heap's own check: {0}")]
    Check(#[from] CheckError),
}

/// The offset of the first byte that is not `byte`.
pub(crate) fn first_other(content: &[u8], byte: u8) -> Option<usize> {
    // All bytes equal the first one if each byte equals its predecessor. This is one comparison of
    // memory: unoptimised builds, and builds that instrument each comparison (fuzzing), need the
    // speed.
    let (first, rest) = content.split_first()?;
    if *first == byte && *rest == content[..rest.len()] {
        return None;
    }
    content.iter().position(|found| *found != byte)
}

/// A live block under observation.
struct Watched {
    request: Request,
    pattern: u8,
}

/// A heap under observation. Keeps the first violation ([`Verified::violation`]) and goes on
/// driving the heap.
pub struct Verified<H> {
    heap: H,
    /// Live blocks by address; only neighbours in it can overlap.
    live: BTreeMap<usize, Watched>,
    /// The live blocks of each region.
    regions: HashMap<Region, BTreeSet<usize>>,
    live_bytes: u64,
    births: u64,
    violation: Option<Violation>,
}

impl<H: Manual> Verified<H> {
    /// Watches `heap`, which must have no live block yet.
    pub fn new(heap: H) -> Self {
        Verified {
            heap,
            live: BTreeMap::new(),
            regions: HashMap::new(),
            live_bytes: 0,
            births: 0,
            violation: None,
        }
    }

    /// The heap itself.
    pub fn heap(&self) -> &H {
        &self.heap
    }

    /// The first broken promise, if any.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Checks every live block, the heap's counts and its deep check; returns the first violation
    /// of all.
    pub fn finish(&mut self) -> Result<(), Violation> {
        let blocks: Vec<usize> = self.live.keys().copied().collect();
        for address in blocks {
            self.inspect(address);
        }
        if let Some(counted) =
            self.heap.footprint().requested_bytes.filter(|counted| *counted != self.live_bytes)
        {
            self.note(Violation::Count { counted, live: self.live_bytes });
        }
        if let Err(error) = self.heap.check_deep() {
            self.note(error.into());
        }
        self.violation.clone().map_or(Ok(()), Err)
    }

    fn note(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    /// Checks the live block at `address` against its pattern.
    fn inspect(&mut self, address: usize) {
        let Some(block) = self.live.get(&address) else { return };
        let (size, expected) = (block.request.size, block.pattern);
        // SAFETY: the block is live and holds `size` bytes, all written by `adopt`.
        let content = unsafe { std::slice::from_raw_parts(address as *const u8, size) };
        if let Some(offset) = first_other(content, expected) {
            let found = content[offset];
            self.note(Violation::Content { address, size, offset, expected, found });
        }
    }

    /// Records a new block and fills it. A block that overlaps a live one is neither recorded nor
    /// written.
    fn adopt(&mut self, block: NonNull<u8>, request: Request) {
        let (address, size) = (block.as_ptr() as usize, request.size);
        if let Some((other, other_size)) = self.live_overlap(address, size) {
            self.note(Violation::Overlap { address, size, other, other_size });
            return;
        }
        let align = request.required_align();
        if !address.is_multiple_of(align) {
            self.note(Violation::Misaligned { address, size, align });
        }
        // SAFETY: the heap has just returned this block and nobody has freed it.
        if let Some(usable) = unsafe { self.heap.usable_size(Block::new(block, request)) }
            .filter(|usable| *usable < size)
        {
            self.note(Violation::Usable { address, size, usable });
        }
        self.births += 1;
        // Neighbouring births get different patterns, and none is zero, the content of a fresh
        // page.
        let pattern = (self.births.wrapping_mul(37) % 255) as u8 + 1;
        // SAFETY: the heap has just given `size` bytes here and they overlap no other live block.
        unsafe { block.as_ptr().write_bytes(pattern, size) };
        self.live.insert(address, Watched { request, pattern });
        if request.region != Region::MALLOC {
            self.regions.entry(request.region).or_default().insert(address);
        }
        self.live_bytes += size as u64;
    }

    fn forget(&mut self, address: usize) -> Option<Watched> {
        let block = self.live.remove(&address)?;
        self.live_bytes -= block.request.size as u64;
        if let Some(members) = self.regions.get_mut(&block.request.region) {
            members.remove(&address);
        }
        Some(block)
    }
}

impl<H: Manual> Manual for Verified<H> {
    const REGIONS: bool = H::REGIONS;
    const SIZED: bool = H::SIZED;

    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        let block = self.heap.allocate(request)?;
        if request.zeroed && self.live_overlap(block.as_ptr() as usize, request.size).is_none() {
            // SAFETY: the heap has just given `size` bytes, readable because the program asked for
            // zeroes.
            let content = unsafe { std::slice::from_raw_parts(block.as_ptr(), request.size) };
            if let Some(offset) = first_other(content, 0) {
                let (address, found) = (block.as_ptr() as usize, content[offset]);
                self.note(Violation::NotZeroed { address, size: request.size, offset, found });
            }
        }
        self.adopt(block, request);
        Some(block)
    }

    unsafe fn deallocate(&mut self, block: Block) {
        let address = block.address.addr().get();
        self.inspect(address);
        // A block that overlapped another was never adopted; freeing it would free the other.
        if self.forget(address).is_some() {
            // SAFETY: the caller's promise.
            unsafe { self.heap.deallocate(block) };
        }
    }

    unsafe fn reallocate(&mut self, block: Block, new_size: usize) -> Option<NonNull<u8>> {
        let address = block.address.addr().get();
        self.inspect(address);
        // SAFETY: the caller's promise.
        let moved = unsafe { self.heap.reallocate(block, new_size) }?;
        let Some(old) = self.forget(address) else { return Some(moved) };
        let kept = old.request.size.min(new_size);
        if self.live_overlap(moved.as_ptr() as usize, new_size).is_none() {
            // SAFETY: the heap has just given at least `kept` bytes here, with the old block's
            // content.
            let content = unsafe { std::slice::from_raw_parts(moved.as_ptr(), kept) };
            if let Some(offset) = first_other(content, old.pattern) {
                let (address, found) = (moved.as_ptr() as usize, content[offset]);
                self.note(Violation::Content {
                    address,
                    size: new_size,
                    offset,
                    expected: old.pattern,
                    found,
                });
            }
        }
        self.adopt(moved, Request { region: old.request.region, ..block.request(new_size) });
        Some(moved)
    }

    unsafe fn usable_size(&self, block: Block) -> Option<usize> {
        // SAFETY: the caller's promise.
        unsafe { self.heap.usable_size(block) }
    }

    fn begin_region(&mut self, region: Region) {
        self.heap.begin_region(region);
    }

    unsafe fn end_region(&mut self, region: Region) {
        for address in self.regions.remove(&region).unwrap_or_default() {
            self.inspect(address);
            self.forget(address);
        }
        // SAFETY: the caller's promise.
        unsafe { self.heap.end_region(region) };
    }
}

impl<H: Manual> Heap for Verified<H> {
    fn version(&self) -> String {
        self.heap.version()
    }

    fn footprint(&self) -> Footprint {
        self.heap.footprint()
    }

    fn trim(&mut self) -> bool {
        self.heap.trim()
    }

    fn check(&self) -> Result<(), CheckError> {
        self.heap.check()
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        self.heap.check_deep()
    }

    fn walk(&self) -> Option<Vec<Part>> {
        self.heap.walk()
    }
}

impl<H> Verified<H> {
    /// A live block (address and size) that shares bytes with this range. A block of no bytes
    /// counts as one byte: it has a distinct address, and a heap that gives this address twice
    /// would free it twice.
    fn live_overlap(&self, address: usize, size: usize) -> Option<(usize, usize)> {
        let (other, live) = self.live.range(..address.saturating_add(size.max(1))).next_back()?;
        (*other + live.request.size.max(1) > address).then_some((*other, live.request.size))
    }
}

#[cfg(test)]
mod tests {
    use super::first_other;

    #[test]
    fn the_first_other_byte_is_found_wherever_it_is() {
        assert_eq!(first_other(&[], 7), None);
        for bytes in 1..20 {
            assert_eq!(first_other(&vec![7; bytes], 7), None);
            assert_eq!(first_other(&vec![8; bytes], 7), Some(0));
            for other in 0..bytes {
                let mut content = vec![7; bytes];
                content[other..].fill(0);
                assert_eq!(first_other(&content, 7), Some(other));
                content[other..].fill(7);
                content[other] = 0;
                assert_eq!(first_other(&content, 7), Some(other));
            }
        }
    }
}
