//! Aids against memory errors: canaries, guard pages, poison, no reuse. With any of them on, every block comes through here.
//!
//! Each block is followed by a [`Tail`], and the tails are a list, so that all blocks of an arena can be looked at. The document
//! ("More improvements possible") lists buffer zones, canaries and disabled deallocation as simple, guard pages as costly but possible.

use super::head::{Chunk, WORD};
use super::{Arena, round_up};
use crate::Error;
use crate::pool::shards::home;
use heaplab_address_space::page_bytes;
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// What blocks are filled with that are gone.
pub const POISON: u8 = 0xf5;
const ALIVE: u64 = 0xca4a_21e5_b10c_a11e;
const GONE: u64 = 0xdead_b10c_dead_b10c;

/// Behind each block.
#[repr(C)]
struct Tail {
    /// [`ALIVE`] or [`GONE`], mixed with the tail's address. First, because an overrun reaches it first.
    canary: Cell<u64>,
    /// The block itself, as a pointer that may write to it.
    block: *mut u8,
    bytes: usize,
    prev: Cell<*const Tail>,
    next: Cell<*const Tail>,
}

/// In the page above a guard page.
#[repr(C)]
struct GuardNote {
    next: *const GuardNote,
    /// The guard page's offset in the reservation.
    offset: usize,
}

/// Below the head of an arena.
#[repr(C)]
pub struct DebugHead {
    last: Cell<*const Tail>,
    guards: Cell<*const GuardNote>,
}

/// What an arena's first chunk needs beside its head.
pub const HEAD_BYTES: usize = size_of::<DebugHead>();

/// A block behind which something was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the block of {bytes} bytes at {address:#x} was written beyond its end: expected {expected:#x} behind it, found {found:#x}")]
pub struct Overwritten {
    /// Where the block begins.
    pub address: usize,
    /// Its size, rounded up to words.
    pub bytes: usize,
    /// The canary.
    pub expected: u64,
    /// What is there.
    pub found: u64,
}

impl Tail {
    fn canary(&self, state: u64) -> u64 {
        state ^ ptr::from_ref(self).addr() as u64
    }

    fn check(&self) -> Result<(), Overwritten> {
        let found = self.canary.get();
        if found == self.canary(ALIVE) || found == self.canary(GONE) {
            return Ok(());
        }
        Err(Overwritten { address: self.block.addr(), bytes: self.bytes, expected: self.canary(ALIVE), found })
    }
}

impl Arena {
    /// Looks at the canaries of all blocks; `Ok` where [`Debug::canaries`](crate::Debug::canaries) is off.
    pub fn check(&self) -> Result<(), Overwritten> {
        if !self.head().debug() || !self.shared().options.debug.canaries {
            return Ok(());
        }
        self.tails().try_for_each(Tail::check)
    }

    fn debug_head(&self) -> &DebugHead {
        // SAFETY: `begin_debug` wrote it below the head, in the first chunk; all of it is cells.
        unsafe { self.head.cast::<DebugHead>().sub(1).as_ref() }
    }

    /// Writes the debug head below the head and closes the fast path.
    pub(super) fn begin_debug(&self) {
        let head = self.head();
        let place = self.head.cast::<DebugHead>().as_ptr().wrapping_sub(1);
        // SAFETY: the first chunk was taken with room for it, and nothing is allocated yet.
        unsafe { place.write(DebugHead { last: Cell::new(ptr::null()), guards: Cell::new(ptr::null()) }) };
        head.cursor.set(place.cast());
        self.set_floor(ptr::null_mut());
    }

    /// The tails, the latest first. Each is followed when the next one is asked for and not before: one that was written over may point anywhere.
    fn tails(&self) -> impl Iterator<Item = &Tail> {
        let mut at = self.debug_head().last.get();
        std::iter::from_fn(move || {
            // SAFETY: tails in the list lie in the arena's chunks and are cells, so they may be looked at while it lives; who asks
            // for one behind another has checked that one, or wants no canaries and takes its program's word.
            let tail = unsafe { at.as_ref() }?;
            at = tail.prev.get();
            Some(tail)
        })
    }

    /// Before the arena's blocks go: canaries, poison, and no page may stay inaccessible. Nothing is done where a block was
    /// overrun: a tail that was written over may say anything of where its block lies.
    pub(super) fn end_debug(&self) -> Result<(), Overwritten> {
        self.check()?;
        if self.shared().options.debug.poison {
            for tail in self.tails() {
                // SAFETY: the block lies below its tail and nobody uses it any more.
                unsafe { tail.block.write_bytes(POISON, tail.bytes) };
            }
        }
        let mut guard = self.debug_head().guards.get();
        while !guard.is_null() {
            // SAFETY: notes lie in chunks of the arena, which it still has; nobody touches the guard page.
            let opened = unsafe {
                let GuardNote { next, offset } = guard.read();
                guard = next;
                self.shared().reservation.guard(offset..offset + page_bytes(), false)
            };
            opened.expect("a guard page becomes a page again");
        }
        Ok(())
    }

    /// A block with its tail. Sizes and alignments are those of `serve`.
    pub(super) fn allocate_checked(&self, size: usize, align: usize) -> Result<NonNull<u8>, Error> {
        let with_tail = size + size_of::<Tail>();
        let guarded = self.shared().options.debug.guard_pages;
        let block = if guarded { self.allocate_guarded(with_tail, align) } else { self.serve(with_tail, align) }?;
        let place = block.as_ptr().wrapping_add(size).cast::<Tail>();
        let last = self.debug_head().last.get();
        // SAFETY: the tail lies behind the block, in memory that was taken for it.
        let tail = unsafe {
            place.write(Tail {
                canary: Cell::new(0),
                block: block.as_ptr(),
                bytes: size,
                prev: Cell::new(last),
                next: Cell::new(ptr::null()),
            });
            &*place
        };
        tail.canary.set(tail.canary(ALIVE));
        // SAFETY: as in `tails`.
        if let Some(last) = unsafe { last.as_ref() } {
            last.next.set(place);
        }
        self.debug_head().last.set(place);
        Ok(block)
    }

    /// A chunk of its own whose last page but one cannot be accessed; the block ends there, as close as its alignment allows.
    fn allocate_guarded(&self, size: usize, align: usize) -> Result<NonNull<u8>, Error> {
        let (shared, page) = (self.shared(), page_bytes());
        let slack = if align > WORD { align } else { 0 };
        let bytes = (size + slack + 2 * page).next_multiple_of(shared.shape.granule_bytes());
        let large = shared.shards.take_large(home(), bytes, bytes, &shared.reservation)?;
        let guard = large.range.end - 2 * page..large.range.end - page;
        // SAFETY: the chunk was just taken and is committed; the page is touched by nobody until `end_debug` opens it.
        if let Err(error) = unsafe { shared.reservation.guard(guard.clone(), true) } {
            let line = (large.range.start / shared.shape.line_bytes()) as u32;
            shared.shards.of(line).lock().give_large(&large);
            return Err(error.into());
        }
        let chunk = Chunk::of_large(&large, shared.shape.line_bytes());
        self.own(&chunk);
        self.insert_behind_current(&chunk);
        let base = shared.reservation.base().as_ptr();
        let note = base.wrapping_add(guard.end).cast::<GuardNote>();
        // SAFETY: the page above the guard page holds this note and, at its top, the chunk's link.
        unsafe { note.write(GuardNote { next: self.debug_head().guards.get(), offset: guard.start }) };
        self.debug_head().guards.set(note);
        let end = base.wrapping_add(guard.start);
        Ok(NonNull::new(end.with_addr((end.addr() - size) & !(align - 1))).expect("an address of the reservation"))
    }

    /// # Safety
    /// As for [`Arena::deallocate`]; `size` is rounded to words.
    pub(super) unsafe fn deallocate_checked(&self, block: NonNull<u8>, size: usize) {
        let debug = self.shared().options.debug;
        // SAFETY: the block came from `allocate_checked` with this size, so that its tail follows.
        let tail = unsafe { &*block.as_ptr().wrapping_add(size).cast::<Tail>() };
        if debug.canaries {
            let (found, gone) = (tail.canary.get(), tail.canary(GONE));
            assert!(found != gone, "the block of {size} bytes at {block:p} was given back twice");
            if let Err(overwritten) = tail.check() {
                panic!("{overwritten}");
            }
        }
        tail.canary.set(tail.canary(GONE));
        if debug.poison {
            // SAFETY: the block is the caller's no more.
            unsafe { block.as_ptr().write_bytes(POISON, size) };
        }
        if debug.no_reuse || debug.guard_pages {
            return;
        }
        let (prev, next) = (tail.prev.get(), tail.next.get());
        // SAFETY: as in `tails`.
        unsafe {
            match next.as_ref() {
                Some(next) => next.prev.set(prev),
                None => self.debug_head().last.set(prev),
            }
            if let Some(prev) = prev.as_ref() {
                prev.next.set(next);
            }
            self.put_free(block, round_up(size) + size_of::<Tail>());
        }
        self.head().set_reuse(true);
    }
}
