//! The slow path: what an arena does when its window is used up.
//!
//! Order, after HotSpot: free blocks; the current chunk's uncommitted part; the current chunk
//! enlarged in place; a chunk kept by a reset; a new chunk. Deviations: enlarging adds a few lines
//! instead of doubling. A request that does not fit looks in leftovers before a new chunk is taken.
//! And if a new chunk leaves less room than the old one still has, the old one stays current, so
//! one large block does not retire a small chunk. Retired chunks are salvaged: their committed rest
//! becomes a free block.

use super::chunks::{
    COMMIT_BYTES_MAX, return_and_reclaim, small_lines, take_chunk, take_first_chunk,
};
use super::free_blocks::{BINS_BYTES, SMALLEST_BYTES};
use super::head::{AloneLink, Chunk, Head, WORD};
use super::large_blocks::ALONE_BYTES;
use super::{Arena, round_up};
use crate::Error;
use crate::pool::large::Large;
use crate::pool::shape::GRANULE_LINES;
use crate::pool::shards::home;
use heaplab_buddy::marks::mark;
use std::alloc::Layout;
use std::num::NonZero;
use std::ptr::NonNull;

/// Enlarging in place asks for the largest of: this share of the arena's lines, the next chunk by
/// policy, and this many lines.
const ENLARGE_SHARE: u32 = 16;
const ENLARGE_LINES: u32 = 2;
/// A chunk above a granule has at least this share of the arena's bytes. It is committed step by
/// step, so its size costs only addresses, and fewer chunks are retired, linked and returned.
const LARGE_SHARE: usize = 6;
/// A large chunk's committed part grows by this share of the arena's bytes, up to
/// [`COMMIT_BYTES_MAX`].
const COMMIT_SHARE: usize = 64;
/// The source that serves a request that the window cannot.
enum Next {
    Block(NonNull<u8>),
    Chunk(Chunk),
    Nothing,
}

/// A small chunk, or another one.
enum Extended {
    Longer(Chunk),
    Elsewhere(Chunk),
}

/// Most bytes that a block may take of a chunk. The end of a chunk is aligned to a line and its
/// links to words; a larger alignment may cost its size.
#[inline]
fn room_for(size: usize, align: usize) -> usize {
    size + if align > WORD { align } else { 0 }
}

impl Arena {
    #[cold]
    #[inline(never)]
    pub(super) fn allocate_slowly(&self, layout: Layout) -> Result<NonNull<u8>, Error> {
        let (size, align) = (round_up(layout.size()), layout.align().max(WORD));
        let max_bytes = self.shared().shape.reserved_bytes();
        if size > max_bytes || align > max_bytes || size + align > max_bytes {
            return Err(Error::Layout { layout, max_bytes });
        }
        let head = self.head();
        if head.is_plain() {
            return self.serve(size, align);
        }
        if head.debug() {
            self.allocate_checked(layout)
        } else {
            self.allocate_first(layout, size, align)
        }
    }

    /// The first allocation: the arena takes its first chunk, and puts its own head there.
    #[inline(never)]
    fn allocate_first(
        &self,
        layout: Layout,
        size: usize,
        align: usize,
    ) -> Result<NonNull<u8>, Error> {
        if size == 0 {
            return Ok(NonNull::without_provenance(
                NonZero::new(align).expect("an alignment is not zero"),
            ));
        }
        let (empty, seed, shared) = (self.head.get(), self.head().seeded(), self.shared());
        let together = size < ALONE_BYTES && align <= shared.shape.granule_bytes();
        let beside =
            if together { size_of::<Head>() + room_for(size, align) } else { size_of::<Head>() };
        let chunk = take_first_chunk(shared, seed.first(), beside)?;
        // SAFETY: the chunk was just taken, with room for a head.
        self.head.set(unsafe { super::write_head(shared, seed, &chunk) });
        if let Some(block) = self.bump(self.true_floor(&chunk), size, align) {
            return Ok(block);
        }
        self.allocate_slowly(layout).inspect_err(|_| {
            self.head.set(empty);
            return_and_reclaim(shared, chunk.top);
        })
    }

    /// A block from wherever there is room.
    #[inline(always)]
    fn serve(&self, size: usize, align: usize) -> Result<NonNull<u8>, Error> {
        let head = self.head();
        if head.closed() {
            if let Some(block) = self.reuse(size, align) {
                return Ok(block);
            }
            // Only where it was closed: otherwise the fast path has looked.
            if let Some(block) =
                self.bump(self.true_floor(&self.chunk(head.current.get())), size, align)
            {
                return Ok(block);
            }
            if head.reuse()
                && head.free.is_worth_merging()
                && let Some(block) = self.merge_free(size, align)
            {
                return Ok(block);
            }
        }
        if !head.reuse()
            && size > 0
            && let Some(block) = self.take_free(size, align)
        {
            mark("a leftover of a retired chunk is used");
            return Ok(block);
        }
        if head.leaves_first() {
            head.seeded().outgrown(self.shared().shape.granule_bytes());
        }
        let chunk = self.chunk(head.current.get());
        // A large block is not committed at the end of a chunk that others share, from where it
        // could not go back.
        let next =
            if size < ALONE_BYTES { self.extend(&chunk, size, align)? } else { Next::Nothing };
        match next {
            Next::Block(block) => Ok(block),
            Next::Chunk(taken) => {
                self.own(&taken);
                Ok(self.continue_in(taken, &chunk, size, align))
            }
            Next::Nothing => self.continue_elsewhere(&chunk, size, align),
        }
    }

    /// A free block, if one may be large enough.
    #[inline]
    fn take_free(&self, size: usize, align: usize) -> Option<NonNull<u8>> {
        let head = self.head();
        if !head.may_have_free(size) {
            return None;
        }
        let (block, largest) = head.free.take(size, align);
        if let Some(bytes) = largest {
            head.no_larger_free(bytes);
        }
        block
    }

    /// A block that was given back, where there are any. The last one opens the fast path again.
    fn reuse(&self, size: usize, align: usize) -> Option<NonNull<u8>> {
        let head = self.head();
        if !head.reuse() || size == 0 {
            return None;
        }
        let block = self.take_free(size, align);
        if head.free.is_empty() {
            mark("no free block is left: the fast path opens again");
            head.set_reuse(false);
            self.set_floor(self.true_floor(&self.chunk(head.current.get())));
        }
        block
    }

    /// Makes one of free neighbours, the window among them, and looks again.
    #[inline(never)]
    fn merge_free(&self, size: usize, align: usize) -> Option<NonNull<u8>> {
        mark("free neighbours become one");
        let (head, cursor) = (self.head(), self.head().cursor.get());
        let (window_bytes, largest_bytes) = head.free.merge(cursor);
        head.cursor.set(cursor.wrapping_add(window_bytes));
        head.no_larger_free(largest_bytes);
        let block = self.reuse(size, align);
        let floor = || self.true_floor(&self.chunk(head.current.get()));
        block.or_else(|| self.bump(floor(), size, align))
    }

    /// The fast path's step over the true floor.
    fn bump(&self, floor: *mut u8, size: usize, align: usize) -> Option<NonNull<u8>> {
        let cursor = self.head().cursor.get();
        let at = cursor.addr().wrapping_sub(size) & !(align - 1);
        if (at as isize) < floor.addr() as isize {
            return None;
        }
        let block = cursor.with_addr(at);
        self.head().cursor.set(block);
        NonNull::new(block)
    }

    /// Lengthens the current chunk's window downwards: by its uncommitted part, or by free lines
    /// below it.
    #[inline]
    fn extend(&self, chunk: &Chunk, size: usize, align: usize) -> Result<Next, Error> {
        let cursor = self.head().cursor.get();
        let at = cursor.addr().wrapping_sub(size) & !(align - 1);
        if (at as isize) < self.shared().reservation.base().addr().get() as isize {
            return Ok(Next::Nothing);
        }
        let missing = self.true_floor(chunk).addr() - at;
        let longer = match chunk.to_large(self.shared().shape.line_bytes()) {
            Some(large) => self.extend_large(large, chunk, missing)?,
            None => match self.extend_small(chunk, missing, room_for(size, align)) {
                Some(Extended::Longer(longer)) => Some(longer),
                Some(Extended::Elsewhere(taken)) => return Ok(Next::Chunk(taken)),
                None => None,
            },
        };
        let Some(longer) = longer else { return Ok(Next::Nothing) };
        self.write_chunk(&longer);
        let block = cursor.with_addr(at);
        self.head().cursor.set(block);
        self.set_floor(self.true_floor(&longer));
        Ok(NonNull::new(block).map_or(Next::Nothing, Next::Block))
    }

    /// By free lines below. Where there are not enough, a small chunk of `room` bytes from
    /// elsewhere is had in the same visit to the pool, if such a chunk is next and the pool has
    /// one; `None` otherwise.
    #[inline]
    fn extend_small(&self, chunk: &Chunk, missing: usize, room: usize) -> Option<Extended> {
        let (shared, head) = (self.shared(), self.head());
        let missing_lines = shared.shape.lines_for(missing) as u32;
        if missing_lines >= GRANULE_LINES {
            return None;
        }
        let policy_bytes = head.seeded().growth.chunk_bytes(head.chunks.get().into());
        let policy = shared.shape.lines_for(policy_bytes) as u32;
        let want = (head.owned_lines.get() / ENLARGE_SHARE)
            .max(policy)
            .max(ENLARGE_LINES)
            .max(missing_lines);
        let first = chunk.top - chunk.lines;
        let shard = shared.shards.of(first);
        let mut held = shard.lock();
        if let Some(lines) = held.below(first, missing_lines, want) {
            mark("a chunk is lengthened in place");
            head.owned_lines.set(head.owned_lines.get() + lines);
            return Some(Extended::Longer(Chunk { lines: chunk.lines + lines, ..*chunk }));
        }
        // Asks chunks kept by a reset before the pool, and the home shard before others.
        if head.spare.get() != 0 || !std::ptr::eq(shard, shared.shards.of_home(home())) {
            return None;
        }
        let (need, wanted) = small_lines(shared, room, self.next_bytes())?;
        // If the chunk is refused, at the limit for example, it is asked for again where idle
        // memory is given back for it.
        let lines = held.lines(need, wanted, 0, &shared.reservation).ok()?;
        Some(Extended::Elsewhere(Chunk::of_lines(lines)))
    }

    /// How large the next chunk is to be.
    #[inline]
    fn next_bytes(&self) -> usize {
        let head = self.head();
        let (shape, seed, nth) = (self.shared().shape, head.seeded(), head.chunks.get().into());
        let owned_bytes = shape.line_offset(head.owned_lines.get());
        let in_turns = seed.in_turns_bytes(nth, owned_bytes, shape.granule_bytes());
        seed.growth.wanted_bytes(nth, owned_bytes).max(in_turns)
    }

    /// By the uncommitted part of the chunk; `None` if it is too small.
    fn extend_large(
        &self,
        mut large: Large,
        chunk: &Chunk,
        missing: usize,
    ) -> Result<Option<Chunk>, Error> {
        let (shared, head) = (self.shared(), self.head());
        let shape = shared.shape;
        let left = large.range.len() - large.committed_bytes;
        if missing > left {
            return Ok(None);
        }
        let before = large.committed_bytes;
        let grown = shape.line_offset(head.owned_lines.get()).saturating_sub(left) / COMMIT_SHARE;
        let least = shape.whole_granules(missing);
        let step = least
            .max(shape.whole_granules(grown.clamp(shared.commit_bytes_min(), COMMIT_BYTES_MAX)))
            .min(left);
        shared.shards.commit_large(
            &mut large,
            before + step,
            before + least,
            &shared.reservation,
        )?;
        shared.populate(large.range.end - large.committed_bytes..large.range.end - before);
        Ok(Some(Chunk {
            other: chunk.other,
            older: chunk.older,
            ..Chunk::of_large(&large, shape.line_bytes())
        }))
    }

    /// Takes the block from a chunk kept by a reset, or from a new one.
    fn continue_elsewhere(
        &self,
        current: &Chunk,
        size: usize,
        align: usize,
    ) -> Result<NonNull<u8>, Error> {
        let (shared, head) = (self.shared(), self.head());
        let shape = shared.shape;
        let room = room_for(size, align);
        let chunk = match self.take_spare(room)? {
            Some(chunk) => chunk,
            None => {
                let alone = size >= ALONE_BYTES;
                let room = if alone { room + size_of::<AloneLink>() } else { room };
                let policy = self.next_bytes();
                let owned_bytes = shape.line_offset(head.owned_lines.get());
                let want = if policy > shape.granule_bytes() {
                    policy.max(owned_bytes / LARGE_SHARE)
                } else {
                    policy
                };
                let want = if alone { 0 } else { want };
                let mut taken = take_chunk(shared, room, want);
                // Only afterwards, so that a refused request gives kept chunks up only where that
                // could have helped.
                if room > shape.root_bytes() && self.return_spare_runs() && taken.is_err() {
                    mark("spare runs of roots went back for a block that did not fit beside them");
                    taken = take_chunk(shared, room, want);
                }
                let chunk = taken?;
                self.own(&chunk);
                if alone { self.note_alone(chunk) } else { chunk }
            }
        };
        Ok(self.continue_in(chunk, current, size, align))
    }

    /// Takes the block from the chunk just taken for it.
    #[inline]
    fn continue_in(&self, chunk: Chunk, current: &Chunk, size: usize, align: usize) -> NonNull<u8> {
        let (shared, head) = (self.shared(), self.head());
        head.chunks.set(head.chunks.get().saturating_add(1));
        let top = shared.line_address(chunk.top).wrapping_sub(chunk.link_bytes());
        let floor = self.true_floor(&chunk);
        let at = (top.addr() - size) & !(align - 1);
        debug_assert!(at >= floor.addr(), "a new chunk holds what it was taken for");
        let block = top.with_addr(at);
        if chunk.alone.is_some() {
            self.insert_behind_current(&chunk);
            return NonNull::new(block).expect("an address of the reservation");
        }
        let (old_floor, old_cursor) = (self.true_floor(current), head.cursor.get());
        // The window with more room goes on; the rest of the other is salvaged.
        let (rest, old_rest) = (self.reach(&chunk, at), self.reach(current, old_cursor.addr()));
        if rest >= old_rest {
            let top = chunk.top;
            self.write_chunk(&chunk.after(current));
            head.current.set(top);
            head.cursor.set(block);
            self.set_floor(floor);
            self.salvage(old_floor, old_cursor);
        } else {
            mark("a new chunk has less room than the current one");
            self.insert_behind_current(&chunk);
            self.salvage(floor, block);
        }
        NonNull::new(block).expect("an address of the reservation")
    }

    /// Counts a chunk as the arena's.
    fn own(&self, chunk: &Chunk) {
        let owned = &self.head().owned_lines;
        owned.set(owned.get().saturating_add(chunk.lines));
    }

    /// Links a chunk into the list, and leaves the current one current.
    fn insert_behind_current(&self, chunk: &Chunk) {
        let current = self.chunk(self.head().current.get());
        self.set_newer(current.other, chunk.top);
        self.write_chunk(&Chunk {
            other: current.other,
            alone: chunk.alone.map(|_| current.top),
            ..chunk.clone()
        });
        self.write_chunk(&Chunk { other: chunk.top, ..current });
    }

    /// Bytes left in a chunk that is used from `at` upwards, uncommitted parts included.
    fn reach(&self, chunk: &Chunk, at: usize) -> usize {
        at - self.shared().line_address(chunk.top - chunk.lines).addr()
    }

    /// The committed rest of a chunk that is current no more becomes a free block.
    fn salvage(&self, floor: *mut u8, cursor: *mut u8) {
        let bytes = cursor.addr().saturating_sub(floor.addr());
        if bytes >= SMALLEST_BYTES
            && let Some(block) = NonNull::new(floor)
        {
            // SAFETY: the range lies between floor and cursor of a chunk of this arena, committed
            // and handed to nobody.
            unsafe { self.put_free(block, bytes) };
        }
    }

    /// Adds a free block; makes bins when there are many.
    ///
    /// # Safety
    /// As for `FreeList::put`.
    unsafe fn put_free(&self, block: NonNull<u8>, bytes: usize) -> bool {
        let head = self.head();
        // SAFETY: the caller's promise.
        let kept = unsafe { head.free.put(block, bytes) };
        head.note_free(bytes);
        if head.free.wants_bins()
            && let Some(memory) = self.room_for_bins()
        {
            // SAFETY: the memory was just taken from this arena for this.
            unsafe { head.free.make_bins(memory) };
        }
        kept
    }

    /// Memory for bins, only if the window or a free block has it.
    fn room_for_bins(&self) -> Option<NonNull<u8>> {
        let head = self.head();
        let from_free = self.take_free(BINS_BYTES, WORD);
        from_free.or_else(|| {
            self.bump(self.true_floor(&self.chunk(head.current.get())), BINS_BYTES, WORD)
        })
    }

    /// Debugging aids need the requested size; without them it is rounded to words here.
    ///
    /// # Safety
    /// As for [`Arena::deallocate`], with a block of `bytes`.
    #[cold]
    pub(super) unsafe fn deallocate_slowly(&self, block: NonNull<u8>, bytes: usize) {
        let (head, size) = (self.head(), round_up(bytes));
        if head.debug() {
            return self.deallocate_checked(block, bytes);
        }
        if size == 0 {
            return;
        }
        if size >= ALONE_BYTES && self.return_alone(block) {
            return;
        }
        // SAFETY: the block is the caller's no more; blocks are whole words.
        if unsafe { self.put_free(block, size) } && !head.reuse() {
            mark("a block was given back: the fast path closes");
            head.set_reuse(true);
            self.set_floor(std::ptr::null_mut());
        } else if size < SMALLEST_BYTES {
            mark("a block too small to be kept was given back");
        }
    }
}
