//! Arenas. This file is the part that runs at every allocation. [`grow`] runs when the window is
//! used up, and [`chunks`] takes memory from the pool and gives it back.
//!
//! Allocation goes downwards, because rounding down to an alignment is one instruction (N.
//! Fitzgerald, "Always Bump Downwards"), with one comparison: addresses are below 2^63 and sizes at
//! most 2^63 - 1, so cursor minus size, rounded down, is exact as a signed number, and being at
//! least the floor is all there is to ask.

mod allocator;
mod book;
mod chunks;
pub mod free_blocks;
mod grow;
pub mod guarded;
pub mod head;
mod large_blocks;
mod merge;
mod places;
pub mod seeds;
mod stats;

use crate::pool::shards::home;
use crate::space::{Shared, Space};
use crate::{Error, Growth};
use head::{CLOSED, Chunk, Head, Link, WORD, read_chunk};
use heaplab_buddy::marks::mark;
use seeds::Seed;
use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;

pub use places::{Place, PlaceKind};
pub use stats::ArenaStatistics;

/// Blocks that die together: dropped, all of its memory returns to its space.
///
/// An arena may be sent to another thread and dropped there; only one thread at a time can use it
/// (it is not `Sync`). Its blocks borrow it, so none outlives it. Destructors of values in it do
/// not run, unless the value is in a collection that runs them.
///
/// ```
/// use heaplab_elastic::{Growth, Space};
/// let space = Space::default();
/// let arena = space.arena(Growth::SMALL)?;
/// let word: &mut u64 = arena.alloc(5)?;
/// *word += 1;
/// let text: &str = arena.alloc_str("lives as long as the arena")?;
/// assert_eq!((*word, text.len()), (6, 26));
/// # Ok::<(), heaplab_elastic::Error>(())
/// ```
pub struct Arena {
    /// Its own head; before its first allocation, the shared one.
    head: Cell<NonNull<Head>>,
}

// SAFETY: an arena owns its chunks, and the space that it shares is behind locks and atomics.
// References to blocks borrow the arena, so none is left behind when it moves.
unsafe impl Send for Arena {}

impl Arena {
    pub(crate) fn new(space: &Space, growth: Growth) -> Result<Arena, Error> {
        let shared = &space.0;
        // A pointer from the Arc, not from a reference into it, because handles are made of the
        // pointer.
        let (pointer, shard) = (Arc::as_ptr(shared), shared.shards.number_of_home(home()));
        let mut held = shared.shards.numbered(shard).look();
        let anchored = held.anchor.begin();
        let seed = held.seeds.of(growth, pointer, shard);
        drop(held);
        let head = match shared.options.debug.any() {
            true => guarded::checked_head(seed),
            // Its first field.
            false => seed.cast(),
        };
        if !anchored {
            // The shard's count of the space, for all of its arenas. Nobody can drop the count
            // before it exists, because this arena is one of them and is not handed out yet. Until
            // then `space` is a handle.
            mark("a shard has its first arena");
            let count = shared.clone();
            if shared.shards.numbered(shard).lock().anchor.hold() {
                std::mem::forget(count);
            }
        }
        Ok(Arena { head: Cell::new(head) })
    }

    #[inline(always)]
    pub(crate) fn head(&self) -> &Head {
        // SAFETY: the head lives in the first chunk, which the arena has until it is dropped, or as
        // long as the space if it is shared. Everything that changes in it is in cells, and nothing
        // changes in a shared one.
        unsafe { self.head.get().as_ref() }
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: the arena is counted by its shard, which holds a count of the Arc while it counts
        // any.
        unsafe { &*self.head().seeded().shared }
    }

    /// The space it belongs to.
    pub fn space(&self) -> Space {
        // SAFETY: the head's pointer came from an Arc of which the arena's shard holds a count;
        // this adds one for the handle.
        Space::handle(unsafe {
            Arc::increment_strong_count(self.head().seeded().shared);
            Arc::from_raw(self.head().seeded().shared)
        })
    }

    /// An uninitialised block of this layout. It lives until the arena is dropped or reset, or the
    /// block is given back.
    ///
    /// A layout of no bytes gives an aligned address that is not a block. After an error the
    /// arena's blocks and its room for more are as before, with one exception: for a request of
    /// more than a root, empty chunks of several roots that a [`reset`](Arena::reset) kept may have
    /// gone back to the space to make room.
    ///
    /// Chunks are committed from their ends downwards, so an alignment of many pages may commit as
    /// many bytes: 1 MB for a block of 64 bytes aligned to 1 MB. Only written pages are resident.
    #[inline(always)]
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<u8>, Error> {
        let size = layout.size().wrapping_add(WORD - 1) & !(WORD - 1);
        let align = layout.align();
        let head = self.head();
        let cursor = head.cursor.get();
        let at = cursor.addr().wrapping_sub(size) & !(align - 1);
        // A size of more than 2^63 - 8 rounds up to 2^63, which as a signed number is the least
        // there is: the difference then is negative or wraps, and `at` lies beyond every floor only
        // if it were an address of 2^63 or more.
        if at as isize >= head.floor.get().addr() as isize {
            let block = cursor.with_addr(at);
            head.cursor.set(block);
            // SAFETY: it lies above the floor, which is not null.
            return Ok(unsafe { NonNull::new_unchecked(block) });
        }
        self.allocate_slowly(layout)
    }

    /// Gives a block back before the arena dies, for reuse by this arena. The last block allocated
    /// goes back to the bump window. Others wait in free lists, and allocations look there first
    /// while the lists have any. Free neighbours merge when a request finds no other room. Their
    /// pages stay committed. A block of 512 KB or more has its chunk to itself (unless it shrank,
    /// or its arena had as much committed already, as after a [`reset`](Arena::reset)). That chunk
    /// goes back to the space at once, and a trim or the reclaim policy gives its pages back.
    ///
    /// # Safety
    /// `block` came from this arena with this layout, lives, and is not used afterwards.
    #[inline]
    pub unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        let size = round_up(layout.size());
        let head = self.head();
        if block.as_ptr() == head.cursor.get() && !head.debug() {
            head.cursor.set(block.as_ptr().wrapping_add(size));
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.deallocate_slowly(block, layout.size()) };
        }
    }

    /// Moves a value into the arena. Its destructor will not run.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub fn alloc<T>(&self, value: T) -> Result<&mut T, Error> {
        let block = self.allocate(Layout::new::<T>())?.cast::<T>();
        // SAFETY: the block has the layout of T and belongs to nobody else; it lives as long as the
        // arena is borrowed.
        unsafe {
            block.write(value);
            Ok(&mut *block.as_ptr())
        }
    }

    /// Copies a slice into the arena.
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_slice_copy<T: Copy>(&self, values: &[T]) -> Result<&mut [T], Error> {
        let block = self.allocate(Layout::for_value(values))?.cast::<T>();
        // SAFETY: the block has the slice's layout, belongs to nobody else, and overlaps nothing
        // older.
        unsafe {
            ptr::copy_nonoverlapping(values.as_ptr(), block.as_ptr(), values.len());
            Ok(std::slice::from_raw_parts_mut(block.as_ptr(), values.len()))
        }
    }

    /// Copies a string into the arena.
    pub fn alloc_str(&self, text: &str) -> Result<&str, Error> {
        let bytes = self.alloc_slice_copy(text.as_bytes())?;
        // SAFETY: the bytes are those of a str.
        Ok(unsafe { std::str::from_utf8_unchecked(bytes) })
    }

    /// Ends all blocks at once. Keeps the chunks, committed as they are, for later allocations.
    ///
    /// # Panics
    /// Where debugging aids find a block that was overrun or written to after its end: nothing is
    /// reset then. While the thread unwinds already, that is all that happens; the arena keeps its
    /// blocks, and is leaked when it dies.
    pub fn reset(&mut self) {
        if self.head().debug() {
            return self.reset_checked();
        }
        let head = self.head();
        if head.is_empty() {
            return;
        }
        // The list runs from the newest chunk to the oldest, the spare list the other way, so that
        // they are used in the same order again. The chunk with the head stays current.
        let (mut spare, mut top, mut first) = (head.spare.get(), head.current.get(), None);
        while top != 0 {
            let mut chunk = self.chunk(top);
            top = chunk.other;
            if self.holds_head(&chunk) {
                first = Some(Chunk { other: 0, ..chunk });
            } else {
                if chunk.alone.take().is_some() {
                    self.shared().shards.of(chunk.top - chunk.lines).lock().forget_alone(chunk.top);
                }
                chunk.other = spare;
                self.write_chunk(&chunk);
                spare = chunk.top;
            }
        }
        let chunk = first.expect("an arena has the chunk that its head lies in");
        self.write_chunk(&chunk);
        head.spare.set(spare);
        head.current.set(chunk.top);
        head.chunks.set(1);
        head.set_reuse(false);
        head.free.clear();
        head.no_larger_free(0);
        head.cursor.set(self.head.get().as_ptr().cast());
        head.floor.set(self.true_floor(&chunk));
    }

    /// The chunk that ends at line `top`.
    fn chunk(&self, top: u32) -> Chunk {
        // SAFETY: only tops of this arena's chunks come here; their links were written when they
        // were taken.
        unsafe { read_chunk(self.shared().line_address(top), top) }
    }

    /// Rewrites a chunk's link.
    fn write_chunk(&self, chunk: &Chunk) {
        // SAFETY: the chunk is this arena's, and its link's place holds nothing else.
        unsafe { head::write_chunk(self.shared().line_address(chunk.top), chunk) };
    }

    /// Whether the arena's head lies in this chunk.
    fn holds_head(&self, chunk: &Chunk) -> bool {
        let address = |line| self.shared().line_address(line).addr();
        (address(chunk.top - chunk.lines)..address(chunk.top))
            .contains(&self.head.get().addr().get())
    }

    /// Where the committed part of a chunk begins.
    fn true_floor(&self, chunk: &Chunk) -> *mut u8 {
        self.shared().line_address(chunk.top - chunk.committed_lines())
    }

    /// Opens or closes the fast path, as debugging aids and blocks given back demand.
    fn set_floor(&self, floor: *mut u8) {
        let head = self.head();
        head.floor.set(if head.closed() { ptr::without_provenance_mut(CLOSED) } else { floor });
    }
}

/// Up to whole words. Layouts have at most 2^63 - 1 bytes.
#[inline(always)]
pub(crate) fn round_up(bytes: usize) -> usize {
    bytes.wrapping_add(WORD - 1) & !(WORD - 1)
}

/// Writes an arena's head into its first chunk, and the chunk's link.
///
/// # Safety
/// The chunk was taken with room for a head and belongs to nobody else.
#[inline]
unsafe fn write_head(shared: &Shared, seed: &Seed, chunk: &Chunk) -> NonNull<Head> {
    let end = shared.line_address(chunk.top);
    // SAFETY: the chunk is committed from its top, at least as far as this writes.
    unsafe {
        head::write_chunk(end, chunk);
        let head = end.wrapping_sub(chunk.link_bytes() + size_of::<Head>()).cast::<Head>();
        let floor = shared.line_address(chunk.top - chunk.committed_lines());
        head.write(Head::new(seed, chunk, seed.growth.learns()));
        (*head).cursor.set(head.cast());
        (*head).floor.set(floor);
        NonNull::new_unchecked(head)
    }
}

/// The end of an arena whose chunks were returned: `shard` counts it, and `idle_bytes` are the most
/// that is idle in one of its chunks' shards.
///
/// # Safety
/// The arena was counted until here. The space may be gone afterwards.
#[cold]
unsafe fn leave(pointer: *const Shared, shard: usize, idle_bytes: usize) {
    // SAFETY: the arena is still counted, so that the space lives.
    let shared = unsafe { &*pointer };
    shared.after_return(idle_bytes);
    let last = shared.shards.numbered(shard).lock().anchor.end();
    if last {
        // SAFETY: the shard's count of the Arc is this thread's now. Arenas that begin meanwhile
        // bring another one.
        drop(unsafe { Arc::from_raw(pointer) });
    }
}

impl Arena {
    /// The death of one that has nothing.
    fn drop_empty(&mut self) {
        let Seed { shared: pointer, shard, .. } = *self.head().seeded();
        // SAFETY: the arena is still counted, so that the space lives; the lock is let go before it
        // may not.
        let last = unsafe { &*pointer }.shards.numbered(shard).look().anchor.end();
        if last {
            // SAFETY: the shard's count of the Arc is this thread's now.
            drop(unsafe { Arc::from_raw(pointer) });
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let head = self.head();
        if !head.is_plain() {
            return if head.debug() { self.drop_checked() } else { self.drop_empty() };
        }
        let (current, spare) = (head.current.get(), head.spare.get());
        let Seed { shared: pointer, shard: number, .. } = *head.seeded();
        // SAFETY: the arena is still counted, so that the space lives; the head is not used any
        // more once its chunk is returned.
        let shared = unsafe { &*pointer };
        let counts = shared.shards.numbered(number);
        let mut last = false;
        let idle_bytes =
            chunks::return_chunks(shared, [current, spare], |shard, held, idle_bytes| {
                let here = std::ptr::eq(shard, counts) && !shared.may_reclaim(idle_bytes);
                last = here && held.anchor.end();
                here
            });
        match idle_bytes {
            // SAFETY: the shard's count of the Arc is this thread's now. Arenas that begin
            // meanwhile bring another one.
            None if last => drop(unsafe { Arc::from_raw(pointer) }),
            // The space may be gone.
            None => {}
            // SAFETY: the arena is still counted; nothing of the space is used afterwards.
            Some(idle_bytes) => unsafe { leave(pointer, number, idle_bytes) },
        }
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Arena").field("statistics", &self.statistics()).finish()
    }
}

const _: () = assert!(size_of::<Arena>() == 8 && size_of::<Link>() == 8);

#[cfg(test)]
#[path = "../tests/mod.rs"]
mod tests;
