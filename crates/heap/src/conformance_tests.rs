//! A sound heap must pass the suite, and the suite must catch each of the broken ones.

use super::*;
use crate::{CheckError, Footprint};
use proptest::prelude::*;
use std::alloc::Layout;
use std::collections::HashMap;
use std::ptr::NonNull;

/// A heap's defect.
#[derive(Clone, Copy, PartialEq)]
enum Defect {
    None,
    Misaligned,
    SameBlockTwice,
    DirtyZeroes,
    LosesContentOnRealloc,
    Miscounts,
}

/// The process's allocator with a size table, and one defect.
struct Toy {
    sizes: HashMap<usize, (Layout, usize)>,
    requested: u64,
    defect: Defect,
    last: Option<NonNull<u8>>,
}

impl Toy {
    fn new(defect: Defect) -> Toy {
        Toy { sizes: HashMap::new(), requested: 0, defect, last: None }
    }
}

impl Manual for Toy {
    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        if self.defect == Defect::SameBlockTwice
            && let Some(last) =
                self.last.filter(|last| self.sizes.contains_key(&(last.as_ptr() as usize)))
        {
            return Some(last);
        }
        let layout =
            Layout::from_size_align(request.size + 64, request.required_align().max(16)).ok()?;
        // SAFETY: the layout is not empty.
        let mut block = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
        if request.zeroed && self.defect != Defect::DirtyZeroes {
            // SAFETY: the block holds at least this many bytes.
            unsafe { block.as_ptr().write_bytes(0, request.size) };
        } else {
            // SAFETY: as above.
            unsafe { block.as_ptr().write_bytes(0xee, request.size) };
        }
        let offset = usize::from(self.defect == Defect::Misaligned);
        // SAFETY: the block has 64 bytes more than requested.
        block = unsafe { block.add(offset) };
        self.sizes.insert(block.as_ptr() as usize, (layout, request.size));
        self.requested += request.size as u64;
        self.last = Some(block);
        Some(block)
    }

    unsafe fn deallocate(&mut self, Block { address: block, .. }: Block) {
        let (layout, size) = self.sizes.remove(&(block.as_ptr() as usize)).expect("a live block");
        self.requested -= if self.defect == Defect::Miscounts { 0 } else { size as u64 };
        let offset = usize::from(self.defect == Defect::Misaligned);
        // SAFETY: `allocate` made it with this layout, `offset` bytes earlier.
        unsafe { std::alloc::dealloc(block.as_ptr().sub(offset), layout) };
    }

    unsafe fn reallocate(&mut self, block: Block, new_size: usize) -> Option<NonNull<u8>> {
        let moved = self.allocate(block.request(new_size))?;
        if self.defect != Defect::LosesContentOnRealloc {
            // SAFETY: both blocks hold the smaller of both sizes and are different ones.
            unsafe { moved.copy_from(block.address, block.size.min(new_size)) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.deallocate(block) };
        Some(moved)
    }

    unsafe fn usable_size(&self, block: Block) -> Option<usize> {
        self.sizes.get(&(block.address.as_ptr() as usize)).map(|(_, size)| *size)
    }
}

impl Heap for Toy {
    fn version(&self) -> String {
        "toy".into()
    }

    fn footprint(&self) -> Footprint {
        Footprint { requested_bytes: Some(self.requested), ..Footprint::default() }
    }

    fn check(&self) -> Result<(), CheckError> {
        Ok(())
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        Ok(())
    }
}

proptest! {
    #[test]
    fn a_sound_heap_passes(list in operations(120)) {
        drive(Toy::new(Defect::None), &list).unwrap();
    }
}

#[test]
fn a_list_from_a_seed_does_something_and_repeats() {
    let list = pseudo_random(7, 2_000);
    assert_eq!(list, pseudo_random(7, 2_000));
    let driven = drive(Toy::new(Defect::None), &list).unwrap();
    assert!(driven.births > 800 && driven.refused == 0, "{driven:?}");
}

#[test]
fn every_defect_is_caught() {
    let list = pseudo_random(1, 500);
    let found = |defect| drive(Toy::new(defect), &list).expect_err("a broken heap must not pass");
    assert!(matches!(found(Defect::Misaligned), Violation::Misaligned { .. }));
    assert!(matches!(found(Defect::SameBlockTwice), Violation::Overlap { .. }));
    assert!(matches!(found(Defect::DirtyZeroes), Violation::NotZeroed { found: 0xee, .. }));
    assert!(matches!(found(Defect::LosesContentOnRealloc), Violation::Content { found: 0xee, .. }));
    assert!(matches!(found(Defect::Miscounts), Violation::Count { .. }));
}

#[test]
fn a_write_into_a_live_block_is_caught() {
    let mut heap = Verified::new(Toy::new(Defect::None));
    let request = Request::of(100);
    let block = heap.allocate(request).unwrap();
    // SAFETY: the block is live and holds 100 bytes.
    unsafe { block.as_ptr().add(60).write(0) };
    // SAFETY: the block is live.
    unsafe { heap.deallocate(Block::new(block, request)) };
    assert!(matches!(heap.finish(), Err(Violation::Content { offset: 60, found: 0, .. })));
}
