//! `allocator_api2::Allocator` for `&Arena`, so that collections live in an arena: the crate's
//! `Vec` and `Box`, hashbrown's maps.
//!
//! Arenas fill downwards, so a block has the earlier one above and free memory below. Unlike in an
//! arena that fills upwards, the last block cannot grow in place. The price is a copy of its bytes;
//! no hole remains.

use super::large_blocks::ALONE_BYTES;
use super::{Arena, round_up};
use allocator_api2::alloc::{AllocError, Allocator};
use std::alloc::Layout;
use std::ptr::NonNull;

fn slice(block: NonNull<u8>, bytes: usize) -> NonNull<[u8]> {
    NonNull::slice_from_raw_parts(block, bytes)
}

// SAFETY: a block stays in place and valid until it is given back or the arena dies, which the
// borrow excludes; copies of a reference are the same allocator.
unsafe impl Allocator for &Arena {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = Arena::allocate(self, layout).map_err(|_| AllocError)?;
        Ok(slice(block, layout.size()))
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { Arena::deallocate(self, block, layout) }
    }

    /// The block with more bytes, perhaps elsewhere, and then nothing may point into the old place:
    ///
    /// - It stays where the rounding to whole words has room for the new size, and its address is
    ///   aligned as asked.
    /// - The last block allocated moves down by the missing bytes, if the arena's window has room:
    ///   its bytes are copied, no hole is left.
    /// - Any other block gets a new place; the old one is given back, for reuse by the arena.
    /// - With debugging aids it always gets a new place.
    ///
    /// ```
    /// use allocator_api2::alloc::{Allocator, Layout};
    /// use heaplab_elastic::{Growth, Space};
    /// let space = Space::default();
    /// let arena = &space.arena(Growth::STANDARD)?;
    /// let bytes = |size| Layout::from_size_align(size, 1).unwrap();
    /// let first = arena.allocate(bytes(13))?;
    /// let last = arena.allocate(bytes(16))?;
    /// // SAFETY: each block lives, with the size given, until it is grown.
    /// unsafe {
    ///     assert_eq!((&arena).grow(first, bytes(13), bytes(16)).unwrap().cast(), first, "16 bytes
    ///     were there"); let longer = (&arena).grow(last, bytes(16),
    ///     bytes(40)).unwrap().cast::<u8>(); assert_eq!(longer.addr().get(), last.addr().get() -
    ///     24, "the last block begins lower"); assert_ne!((&arena).grow(first, bytes(16),
    ///     bytes(17)).unwrap().cast(), first, "another one is copied");
    /// }
    /// # Ok::<(), heaplab_elastic::Error>(())
    /// ```
    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let head = self.head();
        let fits = round_up(new.size()) == round_up(old.size())
            && block.addr().get().is_multiple_of(new.align());
        if fits && old.size() > 0 && !head.debug() {
            // The rounding already has room for the larger size, and giving back rounds to the same
            // size.
            return Ok(slice(block, new.size()));
        }
        let last = block.as_ptr() == head.cursor.get() && old.size() > 0 && !head.debug();
        if last && let Some(moved) = self.grow_last(block, old, new) {
            return Ok(slice(moved, new.size()));
        }
        let moved = Arena::allocate(self, new).map_err(|_| AllocError)?;
        // SAFETY: both blocks hold the old size and are different ones; the old one is the caller's
        // to give back.
        unsafe {
            moved.copy_from_nonoverlapping(block, old.size());
            Arena::deallocate(self, block, old);
        }
        Ok(slice(moved, new.size()))
    }

    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise; the bytes behind the old ones are the block's.
        unsafe {
            let moved = self.grow(block, old, new)?;
            moved.cast::<u8>().add(old.size()).write_bytes(0, new.size() - old.size());
            Ok(moved)
        }
    }

    /// Shrinks a block in place. It moves only if its address lacks the asked alignment, if no byte
    /// remains, or with debugging aids. The cut-off end is given back.
    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let (before, after) = (round_up(old.size()), round_up(new.size()));
        let stays = block.addr().get().is_multiple_of(new.align()) && !self.head().debug();
        if before == after && stays {
            return Ok(slice(block, new.size()));
        }
        if stays && after > 0 {
            if before >= ALONE_BYTES {
                self.share_chunk(block);
            }
            // The cut-off end lies behind the block and is a block of its own.
            // SAFETY: the caller gives the end of the block back.
            unsafe { self.deallocate_slowly(block.add(after), before - after) };
            return Ok(slice(block, new.size()));
        }
        let moved = Arena::allocate(self, new).map_err(|_| AllocError)?;
        // SAFETY: both blocks hold the new size and are different ones; the old one is the caller's
        // to give back.
        unsafe {
            moved.copy_from_nonoverlapping(block, new.size());
            Arena::deallocate(self, block, old);
        }
        Ok(slice(moved, new.size()))
    }
}

impl Arena {
    /// Lengthens the block at the cursor: it begins lower then, and its bytes move down.
    fn grow_last(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Option<NonNull<u8>> {
        let head = self.head();
        let end = block.addr().get() + round_up(old.size());
        let at = end.wrapping_sub(round_up(new.size())) & !(new.align() - 1);
        if (at as isize) < head.floor.get().addr() as isize {
            return None;
        }
        let moved = head.cursor.get().with_addr(at);
        // SAFETY: from `at` to the block's old end is the window's free part and the block itself;
        // the two may overlap.
        unsafe { moved.copy_from(block.as_ptr(), old.size()) };
        head.cursor.set(moved);
        NonNull::new(moved)
    }
}
