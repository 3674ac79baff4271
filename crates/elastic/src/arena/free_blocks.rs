//! Free blocks of an arena: leftovers of retired chunks, and blocks that were given back.
//!
//! Most arenas have a few leftovers and nothing else (leftovers outnumber deallocations 13 to 50
//! times in recordings of real class loaders). So the free blocks begin as a short list, searched
//! to its end. The ninth block turns the list into bins: one for each size up to 32 words, above
//! that two for each power of two. A bit mask leads upwards through the bins, so a block is found
//! in constant time if there is one. HotSpot searches upwards within its 32 bins only and keeps
//! larger blocks in a tree.
//!
//! Free neighbours merge late ([`super::merge`]); HotSpot's do not merge. Blocks have no header
//! that would tell a free neighbour from a used one. So all free blocks are sorted by address when
//! none of them holds a request and enough were added to make that worth its cost.
//!
//! Blocks hold their own links, hence 16 bytes at least; smaller ones are lost until the arena
//! dies.

use super::head::WORD;
use super::merge::Sorter;
use heaplab_buddy::marks::mark;
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// The smallest block that is kept.
pub const SMALLEST_BYTES: usize = size_of::<Node>();
const LIST_BLOCKS: usize = 8;
const EXACT_BINS: usize = 33;
const BINS: usize = 64;
/// How many blocks of a bin of unequal sizes are looked at before a larger bin is taken.
const LOOKS: usize = 8;

/// A free block.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Node {
    pub next: *mut Node,
    /// In whole words. The low bits say how many blocks follow in the list at most, counted up to
    /// [`LIST_BLOCKS`] - 1, so that nobody walks the list to learn that it is short. Blocks that
    /// were there at the last merge do not count.
    tagged_bytes: usize,
}

const FOLLOWING: usize = WORD - 1;
const _: () = assert!(LIST_BLOCKS - 1 == FOLLOWING);

impl Node {
    pub fn bytes(&self) -> usize {
        self.tagged_bytes & !FOLLOWING
    }

    fn following(&self) -> usize {
        self.tagged_bytes & FOLLOWING
    }
}

/// All of an arena's free blocks: null, a list, or (tagged) bins that lie in the arena themselves.
#[repr(transparent)]
pub struct FreeList(Cell<*mut u8>);

#[repr(C)]
struct Bins {
    present: u64,
    /// Blocks put here since the last merge, and how many that one left.
    put: u32,
    merged: u32,
    heads: [*mut Node; BINS],
}

impl Bins {
    const EMPTY: Bins = Bins { present: 0, put: 0, merged: 0, heads: [ptr::null_mut(); BINS] };
}

/// Bytes that bins take.
pub const BINS_BYTES: usize = size_of::<Bins>();

/// A piece of memory: where and how much.
pub type Piece = (NonNull<u8>, usize);

impl FreeList {
    pub const fn new() -> FreeList {
        FreeList(Cell::new(ptr::null_mut()))
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        match self.bins() {
            // SAFETY: bins live as long as the arena that has them.
            Some(bins) => unsafe { (*bins).present == 0 },
            None => self.0.get().is_null(),
        }
    }

    /// Forgets every block, and the bins.
    pub fn clear(&self) {
        self.0.set(ptr::null_mut());
    }

    #[inline]
    fn bins(&self) -> Option<*mut Bins> {
        let tagged = self.0.get();
        (tagged.addr() & 1 == 1).then(|| tagged.wrapping_sub(1).cast())
    }

    /// Bytes of the bins, which lie in the arena.
    pub fn table_bytes(&self) -> usize {
        if self.bins().is_some() { BINS_BYTES } else { 0 }
    }

    /// Where the bins lie.
    pub fn table(&self) -> Option<NonNull<u8>> {
        self.bins().and_then(|bins| NonNull::new(bins.cast()))
    }

    /// Whether the list is long enough to be worth bins.
    pub fn wants_bins(&self) -> bool {
        // Blocks may have been taken out of the middle, so the first one's count is an upper bound.
        self.bins().is_none()
            && self.list().next().is_some_and(|(_, first)| first.following() == FOLLOWING)
            && self.list().nth(LIST_BLOCKS - 1).is_some()
    }

    fn list(&self) -> impl Iterator<Item = (*mut Node, Node)> + use<> {
        walk(self.0.get().cast())
    }

    /// Moves the list into bins made of `memory`.
    ///
    /// # Safety
    /// `memory` has [`BINS_BYTES`] bytes, aligned to a word, that belong only to the arena while it
    /// lives.
    pub unsafe fn make_bins(&self, memory: NonNull<u8>) {
        mark("a list of free blocks becomes bins");
        // The whole list: it grows beyond the searched length while there is no room for bins.
        let list = self.list();
        let bins = memory.cast::<Bins>().as_ptr();
        // SAFETY: the caller's promise.
        unsafe { bins.write(Bins::EMPTY) };
        self.0.set(bins.cast::<u8>().wrapping_add(1));
        for (node, read) in list {
            let (block, bytes) = piece(node, read.bytes());
            // SAFETY: the block was in the list, so it is free and large enough; the walk has read
            // its link already.
            unsafe { self.put(block, bytes) };
        }
    }

    /// Adds a block; returns false if it is too small to keep.
    ///
    /// # Safety
    /// The block belongs to the arena, nobody uses it, it is committed, aligned to a word and a
    /// multiple of words.
    pub unsafe fn put(&self, block: NonNull<u8>, bytes: usize) -> bool {
        if bytes < SMALLEST_BYTES {
            return false;
        }
        let node = block.cast::<Node>().as_ptr();
        // SAFETY: bins live as long as the arena that has them; the first block of a list is a
        // node.
        let (head, following): (*mut *mut Node, usize) = unsafe {
            match self.bins() {
                Some(bins) => {
                    let bin = bin_of(bytes);
                    (*bins).present |= 1 << bin;
                    (*bins).put = (*bins).put.wrapping_add(1);
                    (&raw mut (*bins).heads[bin], 0)
                }
                None => {
                    let first = self.0.get().cast::<Node>();
                    (
                        self.0.as_ptr().cast(),
                        first.as_ref().map_or(0, |first| (first.following() + 1).min(FOLLOWING)),
                    )
                }
            }
        };
        // SAFETY: the block is free, aligned and large enough for a node; `head` is the list's or a
        // bin's.
        unsafe {
            node.write(Node { next: *head, tagged_bytes: bytes | following });
            *head = node;
        }
        true
    }

    /// Takes a block that holds `bytes` aligned to `align`, at least a word each, and puts the
    /// rests on both sides back. If no block fits and all were looked at, the second value is the
    /// size of the largest.
    pub fn take(&self, bytes: usize, align: usize) -> (Option<NonNull<u8>>, Option<usize>) {
        let found = match self.bins() {
            Some(bins) => take_binned(bins, bytes, align).ok_or(None),
            None => take_fitting(self.0.as_ptr().cast(), bytes, align, LIST_BLOCKS + 1),
        };
        match found {
            Ok((block, found)) => (self.cut(block, found, bytes, align), None),
            Err(largest) => (None, largest),
        }
    }

    /// The part that is asked for of a block that was just taken from its list.
    fn cut(
        &self,
        block: NonNull<u8>,
        found: usize,
        bytes: usize,
        align: usize,
    ) -> Option<NonNull<u8>> {
        // Placed as high as the alignment allows, so that the rest is in front and in one piece.
        let end = block.addr().get() + found;
        let at = (end - bytes) & !(align - 1);
        let chosen = block.as_ptr().wrapping_add(at - block.addr().get());
        // SAFETY: both rests are parts of a free block that is no longer in a list.
        unsafe {
            self.put(block, at - block.addr().get());
            let behind = NonNull::new_unchecked(chosen.wrapping_add(bytes));
            self.put(behind, end - at - bytes);
        }
        NonNull::new(chosen)
    }

    /// Whether so many blocks were added since the last merge that sorting all of them costs little
    /// for each.
    pub fn is_worth_merging(&self) -> bool {
        match self.bins() {
            // SAFETY: bins live as long as the arena that has them.
            Some(bins) => unsafe { (*bins).put as usize >= LIST_BLOCKS + (*bins).merged as usize },
            None => self.list().next().is_some_and(|(_, first)| first.following() == FOLLOWING),
        }
    }

    /// Merges neighbours. The block directly above `cursor` leaves the list. Returns its bytes, and
    /// those of the largest block that stays.
    pub fn merge(&self, cursor: *mut u8) -> (usize, usize) {
        let mut sorter = Sorter::new();
        match self.bins() {
            Some(bins) => {
                // SAFETY: bins live as long as the arena that has them.
                let heads = unsafe { bins.replace(Bins::EMPTY) }.heads;
                heads.into_iter().for_each(|head| sorter.add(head));
            }
            None => sorter.add(self.0.replace(ptr::null_mut()).cast()),
        }
        let (mut window_bytes, mut largest_bytes, mut left) = (0, 0, 0);
        sorter.pieces(|start, bytes| {
            if start == cursor.addr() {
                window_bytes = bytes;
                return;
            }
            // From the cursor: the pointer of a block that was given back may be good for that
            // block only.
            let block = NonNull::new(cursor.with_addr(start)).expect("a block's address");
            // SAFETY: the piece is made of free blocks that are in no list any more.
            unsafe { self.put(block, bytes) };
            largest_bytes = bytes.max(largest_bytes);
            left += 1;
        });
        // SAFETY: bins live as long as the arena that has them, and the first block of a list is a
        // node.
        unsafe {
            match self.bins() {
                Some(bins) => ((*bins).put, (*bins).merged) = (0, left),
                None => {
                    if let Some(first) = self.0.get().cast::<Node>().as_mut() {
                        first.tagged_bytes = first.bytes();
                    }
                }
            }
        }
        (window_bytes, largest_bytes)
    }

    /// Every free block.
    pub fn each(&self, mut see: impl FnMut(Piece)) {
        match self.bins() {
            Some(bins) => {
                // SAFETY: bins live as long as their arena; nobody changes them during the walk.
                let heads = unsafe { (*bins).heads };
                heads
                    .into_iter()
                    .flat_map(walk)
                    .for_each(|(node, read)| see(piece(node, read.bytes())));
            }
            None => self.list().for_each(|(node, read)| see(piece(node, read.bytes()))),
        }
    }
}

fn piece(node: *mut Node, bytes: usize) -> Piece {
    (NonNull::new(node.cast()).expect("a node of a list"), bytes)
}

fn walk(first: *mut Node) -> impl Iterator<Item = (*mut Node, Node)> {
    let read = |node: *mut Node| {
        // SAFETY: a list holds free blocks of the arena, each with a node written when it was put
        // there.
        (!node.is_null()).then(|| (node, unsafe { node.read() }))
    };
    std::iter::successors(read(first), move |(_, node)| read(node.next))
}

/// The bin of a size: exact up to 32 words, then two a power of two.
fn bin_of(bytes: usize) -> usize {
    let words = bytes / WORD;
    if words < EXACT_BINS {
        return words;
    }
    let log2 = words.ilog2() as usize;
    let half = words >> (log2 - 1) & 1;
    (EXACT_BINS + (log2 - 5) * 2 + half).min(BINS - 1)
}

/// Whether a free block can hold `bytes` at this alignment, so that each rest can be kept. One that
/// cannot would be lost, and part its neighbours for good.
fn holds(node: *mut Node, found: usize, bytes: usize, align: usize) -> bool {
    if found < bytes {
        return false;
    }
    let end = node.addr() + found;
    let at = (end - bytes) & !(align - 1);
    let is_kept = |rest: usize| rest == 0 || rest >= SMALLEST_BYTES;
    at >= node.addr() && is_kept(at - node.addr()) && is_kept(end - at - bytes)
}

/// Takes the first of at most `looks` blocks that holds the request from the list at `head`. If the
/// list has no more, the error has the size of the largest block seen.
fn take_fitting(
    mut head: *mut *mut Node,
    bytes: usize,
    align: usize,
    looks: usize,
) -> Result<Piece, Option<usize>> {
    let mut largest = 0;
    for _ in 0..looks {
        // SAFETY: `head` is the list's or a bin's, or the link of a free block.
        let node = unsafe { *head };
        if node.is_null() {
            return Err(Some(largest));
        }
        // SAFETY: as in `walk`.
        let read = unsafe { node.read() };
        let (next, found) = (read.next, read.bytes());
        if holds(node, found, bytes, align) {
            // SAFETY: as for `head` above.
            unsafe { *head = next };
            return Ok(piece(node, found));
        }
        largest = largest.max(found);
        // SAFETY: the node is a free block of the list.
        head = unsafe { &raw mut (*node).next };
    }
    Err(None)
}

fn take_binned(bins: *mut Bins, bytes: usize, align: usize) -> Option<Piece> {
    let first = bin_of(bytes);
    // SAFETY: bins live as long as the arena that has them.
    let mut left = unsafe { (*bins).present } & (u64::MAX << first);
    while left != 0 {
        let bin = left.trailing_zeros() as usize;
        left &= left - 1;
        // SAFETY: as above.
        let head = unsafe { &raw mut (*bins).heads[bin] };
        let found = take_fitting(head, bytes, align, LOOKS).ok();
        // SAFETY: as above.
        unsafe {
            if (*head).is_null() {
                (*bins).present &= !(1 << bin);
            }
        }
        if found.is_some() {
            return found;
        }
    }
    None
}
