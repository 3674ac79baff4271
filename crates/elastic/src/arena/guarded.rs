//! Aids against memory errors: canaries, guard pages, poison, no reuse. With any of them on, every
//! block comes through here.
//!
//! Such an arena is another allocator. Its head and all facts about its blocks lie apart
//! ([`Book`]): an overrun that changed a block's recorded place would make the aids write there.
//! Blocks are cut from chunks, the smallest free piece first. With guard pages each block has a
//! chunk of its own. The document ("More improvements possible") lists buffer zones, canaries and
//! disabled deallocation as simple, guard pages as costly but possible.

use super::book::{Block, Book, Bytes, POISON, canary, check_canary};
use super::head::{Chunk, Head, WORD};
use super::seeds::Seed;
use super::{Arena, ArenaStatistics, chunks, round_up};
use crate::Error;
use crate::pool::shards::home;
use crate::space::Shared;
use heaplab_address_space::page_bytes;
use heaplab_buddy::marks::mark;
use std::alloc::Layout;
use std::cell::RefCell;
use std::ops::Range;
use std::ptr::{self, NonNull};

/// A write that went where it should not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Overwritten {
    /// Beyond a block's end.
    #[error(
        "the block of {bytes} bytes at {address:#x} was written beyond its end: expected {expected:#04x} at offset {offset}, found {found:#04x}"
    )]
    BeyondEnd {
        /// Where the block begins.
        address: usize,
        /// Its size.
        bytes: usize,
        /// The first changed byte, counted from the block's beginning.
        offset: usize,
        /// The canary.
        expected: u8,
        /// The byte found.
        found: u8,
    },
    /// To a block that had been given back, or had ended with a reset.
    #[error(
        "the freed block of {bytes} bytes at {address:#x} was written to: expected 0xf5 at offset {offset}, found {found:#04x}"
    )]
    AfterFree {
        /// Where the freed block began.
        address: usize,
        /// The requested size.
        bytes: usize,
        /// The first changed byte, counted from the block's beginning. It lies behind the block's
        /// end if it is in the canaries or the alignment's gap.
        offset: usize,
        /// The byte found.
        found: u8,
    },
}

/// Behind the handle of an arena with debugging aids.
#[repr(C)]
pub struct Checked {
    head: Head,
    book: RefCell<Book>,
}

/// A head apart from the arena's memory, with a book, for an arena that has nothing.
pub fn checked_head(seed: NonNull<Seed>) -> NonNull<Head> {
    let head = Head::checked(seed.as_ptr());
    NonNull::from(Box::leak(Box::new(Checked { head, book: RefCell::default() }))).cast()
}

/// Addresses of a chunk's committed part.
fn memory_of(shared: &Shared, chunk: &Chunk) -> Range<usize> {
    shared.line_address(chunk.top - chunk.committed_lines()).addr()
        ..shared.line_address(chunk.top).addr()
}

impl Bytes for Shared {
    fn read(&self, range: Range<usize>) -> &[u8] {
        let start = self.reservation.base().as_ptr().with_addr(range.start);
        // SAFETY: ranges of a book are committed parts of its arena's chunks, outside of guard
        // pages, in canaries or poison, to which nobody has a reference; the arena is not shared
        // with other threads.
        unsafe { std::slice::from_raw_parts(start, range.len()) }
    }

    fn guard(&self, range: Range<usize>) {
        let start = self.reservation.base().as_ptr().with_addr(range.start);
        for nth in 0..range.len() {
            // SAFETY: as for `read`.
            unsafe { start.add(nth).write(canary(range.start + nth)) };
        }
    }

    fn poison(&self, range: Range<usize>) {
        // SAFETY: as for `read`; the block is its user's no more.
        unsafe {
            self.reservation.base().as_ptr().with_addr(range.start).write_bytes(POISON, range.len())
        };
    }
}

impl Arena {
    /// Looks for writes beyond blocks (with [`Debug::canaries`](crate::Debug::canaries)) and to
    /// blocks that were given back (with [`Debug::poison`](crate::Debug::poison)); `Ok` where both
    /// are off.
    pub fn check(&self) -> Result<(), Overwritten> {
        if !self.head().debug() {
            return Ok(());
        }
        self.book().borrow().check(self.shared().options.debug.canaries, self.shared())
    }

    /// The book of an arena with debugging aids.
    fn book(&self) -> &RefCell<Book> {
        debug_assert!(self.head().debug());
        // SAFETY: `checked_head` made the head of every arena with debugging aids, and it lives as
        // long as the handle.
        unsafe { &self.head.get().cast::<Checked>().as_ref().book }
    }

    /// A block of this layout; the book keeps its size to the byte.
    ///
    /// # Panics
    /// If the block's memory had been given back and was written to since.
    pub(super) fn allocate_checked(&self, layout: Layout) -> Result<NonNull<u8>, Error> {
        let (shared, debug) = (self.shared(), self.shared().options.debug);
        if layout.size() == 0 {
            return Ok(NonNull::new(ptr::without_provenance_mut(layout.align().max(WORD)))
                .expect("an alignment is not zero"));
        }
        let mut book = self.book().borrow_mut();
        let (address, limit) = if debug.guard_pages {
            self.guarded_place(&mut book, layout)?
        } else {
            let bytes = round_up(layout.size() + if debug.canaries { WORD } else { 0 });
            let (piece, place) = self.place(&mut book, bytes, layout.align().max(WORD))?;
            let block = Block { bytes: layout.size(), limit: place.end, alive: true };
            if let Err(overwritten) = book.begin(place.start, block, shared) {
                mark("memory that is used again was written to since");
                panic!("{overwritten}");
            }
            book.cut(piece, &place);
            (place.start, place.end)
        };
        if debug.canaries {
            shared.guard(address + layout.size()..limit);
        }
        Ok(NonNull::new(shared.reservation.base().as_ptr().with_addr(address))
            .expect("an address of the reservation"))
    }

    /// A free place, if necessary in a new chunk.
    fn place(
        &self,
        book: &mut Book,
        bytes: usize,
        align: usize,
    ) -> Result<(Range<usize>, Range<usize>), Error> {
        if let Some(found) = book.find(bytes, align) {
            return Ok(found);
        }
        let shared = self.shared();
        let owned_bytes =
            book.chunks.iter().map(|chunk| chunk.lines as usize * shared.shape.line_bytes()).sum();
        let want = self
            .head()
            .seeded()
            .growth
            .wanted_bytes(book.chunks.len(), owned_bytes)
            .min(shared.shape.granule_bytes());
        let room = bytes + if align > WORD { align } else { 0 };
        let chunk = chunks::take_chunk(shared, room, want)?;
        book.put_free(memory_of(shared, &chunk));
        book.chunks.push(chunk);
        Ok(book.find(bytes, align).expect("a new chunk holds what it was taken for"))
    }

    /// A block in a chunk of its own, with an inaccessible page behind it. The block ends at that
    /// page, or as close as its alignment allows.
    fn guarded_place(&self, book: &mut Book, layout: Layout) -> Result<(usize, usize), Error> {
        let (shared, page) = (self.shared(), page_bytes());
        let bytes = shared.shape.whole_granules(layout.size() + layout.align() - 1 + page);
        let large = shared.shards.take_large(home(), bytes, bytes, &shared.reservation)?;
        let base = shared.reservation.base().addr().get();
        // As high as possible; the page is the chunk's last one unless the block is aligned to more
        // than a page.
        let address = (base + large.range.end - page - layout.size()) & !(layout.align() - 1);
        let limit = (address + layout.size()).next_multiple_of(page);
        let guard = limit - base..limit - base + page;
        // SAFETY: the chunk was just taken and is committed; nobody touches the page until it is
        // opened again.
        if let Err(error) = unsafe { shared.reservation.guard(guard.clone(), true) } {
            let line = (large.range.start / shared.shape.line_bytes()) as u32;
            shared.shards.of(line).lock().give_large(&large);
            return Err(error.into());
        }
        book.chunks.push(Chunk::of_large(&large, shared.shape.line_bytes()));
        book.guards.push(guard.start);
        let begun = book.begin(address, Block { bytes: layout.size(), limit, alive: true }, shared);
        begun.expect("nothing in a new chunk is poisoned");
        Ok((address, limit))
    }

    /// Ends a block, after a look behind it.
    ///
    /// # Panics
    /// If the block was overrun, was given back before, or has another size, even by one byte.
    pub(super) fn deallocate_checked(&self, block: NonNull<u8>, bytes: usize) {
        let (shared, debug) = (self.shared(), self.shared().options.debug);
        if bytes == 0 {
            return;
        }
        let address = block.addr().get();
        let mut book = self.book().borrow_mut();
        let found = book.block(address).unwrap_or_else(|| {
            panic!("the block of {bytes} bytes at {address:#x} is given back, but the arena has none there: was it given back before?")
        });
        assert!(
            found.alive,
            "the block of {} bytes at {address:#x} was given back twice",
            found.bytes
        );
        assert!(
            found.bytes == bytes,
            "the block of {} bytes at {address:#x} is given back as one of {bytes}",
            found.bytes
        );
        if debug.canaries
            && let Err(overwritten) = check_canary(address, &found, shared)
        {
            panic!("{overwritten}");
        }
        let reused = !debug.no_reuse && !debug.guard_pages;
        book.end(address, reused);
        if debug.poison {
            book.poison(address, found, shared);
        }
        if reused {
            book.put_free(address..found.limit);
        }
    }

    /// Before all blocks go: a last look, poison, and no page may stay inaccessible. Nothing is
    /// done where something was written over.
    fn end_blocks(&self, book: &mut Book) -> Result<(), Overwritten> {
        let (shared, debug) = (self.shared(), self.shared().options.debug);
        book.check(debug.canaries, shared)?;
        if debug.poison {
            let live: Vec<(usize, Block)> = book.live().collect();
            live.into_iter().for_each(|(address, block)| book.poison(address, block, shared));
        }
        for offset in book.guards.drain(..) {
            // SAFETY: it is a guard page of a chunk of this arena, which nobody touches.
            let opened = unsafe { shared.reservation.guard(offset..offset + page_bytes(), false) };
            opened.expect("a guard page becomes a page again");
        }
        Ok(())
    }

    /// [`Arena::reset`].
    pub(super) fn reset_checked(&mut self) {
        let (shared, mut book) = (self.shared(), self.book().borrow_mut());
        if let Err(overwritten) = self.end_blocks(&mut book) {
            mark("a reset finds an overrun block");
            // A second panic would abort, and hide the first one.
            assert!(std::thread::panicking(), "{overwritten}");
            return;
        }
        let guarded = shared.options.debug.guard_pages;
        book.clear(!guarded);
        if guarded {
            // With guard pages, each block has a chunk of its own, and the arena uses none again.
            shared.after_return(give_back(shared, book.chunks.drain(..)));
        }
        let memory: Vec<Range<usize>> =
            book.chunks.iter().map(|chunk| memory_of(shared, chunk)).collect();
        memory.into_iter().for_each(|memory| book.put_free(memory));
    }

    /// The arena's death: its handle is not used afterwards.
    pub(super) fn drop_checked(&mut self) {
        let Seed { shared: pointer, shard, .. } = *self.head().seeded();
        // SAFETY: the arena is still counted, so that the space lives.
        let shared = unsafe { &*pointer };
        let ended = self.end_blocks(&mut self.book().borrow_mut());
        if let Err(overwritten) = ended {
            // The arena keeps its memory, with the blocks and the overwritten bytes, for
            // inspection.
            mark("an arena with an overrun block is leaked");
            assert!(std::thread::panicking(), "{overwritten}");
            return;
        }
        // SAFETY: `checked_head` leaked the box for this handle, and nobody borrows any of it any
        // more.
        let checked = unsafe { Box::from_raw(self.head.get().cast::<Checked>().as_ptr()) };
        let chunks = checked.book.into_inner().chunks;
        let idle_bytes = give_back(shared, chunks.into_iter());
        // SAFETY: nothing of the space is used afterwards, and the arena counts as alive until
        // here.
        unsafe { super::leave(pointer, shard, idle_bytes) };
    }

    /// [`Arena::places`]: chunks, each with its committed part, and free pieces of all of them.
    pub(super) fn chunks_and_free_checked(&self) -> (Vec<Chunk>, Vec<Range<usize>>) {
        let book = self.book().borrow();
        (book.chunks.clone(), book.free_pieces().collect())
    }

    /// [`Arena::statistics`]: all that is free counts as free blocks.
    pub(super) fn statistics_checked(&self) -> ArenaStatistics {
        let (book, line_bytes) = (self.book().borrow(), self.shared().shape.line_bytes());
        let lines = |of: fn(&Chunk) -> u32| {
            book.chunks.iter().map(|chunk| of(chunk) as usize * line_bytes).sum::<usize>()
        };
        let (deallocated_blocks, deallocated_bytes) = book.free();
        let committed_bytes = lines(Chunk::committed_lines);
        ArenaStatistics {
            chunks: book.chunks.len(),
            owned_bytes: lines(|chunk| chunk.lines),
            committed_bytes,
            used_bytes: committed_bytes - deallocated_bytes,
            deallocated_bytes,
            deallocated_blocks,
            ..ArenaStatistics::default()
        }
    }
}

/// Returns chunks; the result is the most bytes that are then idle in one of their shards.
fn give_back(shared: &Shared, chunks: impl Iterator<Item = Chunk>) -> usize {
    let give = |chunk: Chunk| {
        let mut held = shared.shards.of(chunk.top - chunk.lines).lock();
        chunks::give(&mut held, &chunk, shared);
        held.idle_bytes()
    };
    chunks.map(give).max().unwrap_or(0)
}
