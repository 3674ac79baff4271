//! An arena's own data in its chunks: a head in the first one, a link at the top of each.
//!
//! ```text
//! low                                                              high address
//! | free, uncommitted | free, committed | blocks ... | Head* | AloneLink* | LargeLink* | Link |
//!                     ^ floor           ^ cursor       * first chunk      * large chunks
//! ```
//! Head and link of a small first chunk take 56 bytes. So an arena costs its handle (8 bytes) and
//! those, in one cache line. HotSpot keeps chunk headers outside, to uncommit chunks that nobody
//! uses. Here an unused chunk has no header at all; the pool's bit masks know it.

use super::free_blocks::FreeList;
use super::seeds::Seed;
use crate::pool::Lines;
use crate::pool::large::Large;
use heaplab_buddy::ChunkId;
use std::cell::Cell;

/// All blocks are multiples of a word and aligned to it at least.
pub const WORD: usize = 8;

/// The arena itself. Handles point to it. It lies in the arena's first chunk, which the first
/// allocation takes.
#[repr(C)]
pub struct Head {
    /// Blocks lie above, free memory below.
    pub cursor: Cell<*mut u8>,
    /// The lowest address the fast path may hand out; [`CLOSED`] while every allocation must take
    /// the slow path.
    pub floor: Cell<*mut u8>,
    /// Data shared with other arenas of the shard, which holds a count of the space.
    pub seed: *const Seed,
    /// Free blocks: leftovers of retired chunks, and blocks given back.
    pub free: FreeList,
    /// The line at which the current chunk ends; its link lies directly below.
    pub current: Cell<u32>,
    /// The same of the first chunk kept by a reset, linked from oldest to newest; 0: none.
    pub spare: Cell<u32>,
    /// Lines of all chunks, spare ones included.
    pub owned_lines: Cell<u32>,
    /// No free block has more words than this, so lists of blocks out of the cache are not walked
    /// in vain; [`ANY`]: unknown.
    pub largest_words: Cell<u16>,
    /// Chunks taken since the arena began or was reset; saturates, because only the first eight
    /// matter.
    pub chunks: Cell<u8>,
    /// What closes the fast path, [`REUSE`], [`DEBUG`], [`EMPTY`]; and [`LEARNS`].
    flags: Cell<u8>,
}

/// Blocks were given back that the fast path must not overtake.
const REUSE: u8 = 1;
/// The space's debugging aids close the fast path for good.
const DEBUG: u8 = 2;
/// The arena has allocated nothing and has no chunk. It shares this head with all such arenas
/// ([`super::seeds`]).
const EMPTY: u8 = 4;
/// The arena is within its first chunk, and tells its seed when it outgrows it.
const LEARNS: u8 = 8;
/// Free blocks may have any size.
const ANY: u16 = u16::MAX;

impl Head {
    /// The head of an arena with one empty chunk; `learns`: the arena reports its growth.
    #[inline]
    pub fn new(seed: *const Seed, first: &Chunk, learns: bool) -> Head {
        let head = Head::without_chunk(seed, if learns { LEARNS } else { 0 });
        head.current.set(first.top);
        head.owned_lines.set(first.lines);
        head.chunks.set(1);
        head
    }

    /// The head of all arenas that have allocated nothing; its seed is set once the seed has its
    /// place.
    pub fn seed() -> Head {
        Head::without_chunk(std::ptr::null(), EMPTY)
    }

    /// The head of an arena with debugging aids, whose chunks are in its book.
    pub fn checked(seed: *const Seed) -> Head {
        Head::without_chunk(seed, DEBUG)
    }

    #[inline]
    fn without_chunk(seed: *const Seed, flags: u8) -> Head {
        let nowhere = std::ptr::null_mut();
        Head {
            cursor: Cell::new(nowhere),
            floor: Cell::new(std::ptr::without_provenance_mut(CLOSED)),
            seed,
            free: FreeList::new(),
            current: Cell::new(0),
            spare: Cell::new(0),
            owned_lines: Cell::new(0),
            largest_words: Cell::new(0),
            chunks: Cell::new(0),
            flags: Cell::new(flags),
        }
    }

    /// Data shared with other arenas of the shard.
    #[inline]
    pub fn seeded(&self) -> &Seed {
        // SAFETY: seeds live as long as their space, which lives as long as an arena that is
        // counted.
        unsafe { &*self.seed }
    }

    /// Whether the arena leaves its first chunk now, and that is of interest; once true.
    #[inline]
    pub fn leaves_first(&self) -> bool {
        let flags = self.flags.get();
        self.flags.set(flags & !LEARNS);
        flags & LEARNS != 0
    }

    /// Whether every allocation must take the slow path.
    #[inline]
    pub fn closed(&self) -> bool {
        self.flags.get() & (REUSE | DEBUG | EMPTY) != 0
    }

    /// Whether the arena has allocated nothing yet; its head is not its own then.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.flags.get() & EMPTY != 0
    }

    /// Neither of the two that keep books apart from the arena's memory.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.flags.get() & (DEBUG | EMPTY) == 0
    }

    /// Whether debugging aids are on.
    #[inline]
    pub fn debug(&self) -> bool {
        self.flags.get() & DEBUG != 0
    }

    /// Whether blocks were given back and wait for the next request.
    #[inline]
    pub fn reuse(&self) -> bool {
        self.flags.get() & REUSE != 0
    }

    /// See [`Head::reuse`].
    pub fn set_reuse(&self, reuse: bool) {
        self.flags.set(self.flags.get() & !REUSE | if reuse { REUSE } else { 0 });
    }

    /// Whether a free block may have so many bytes.
    #[inline]
    pub fn may_have_free(&self, bytes: usize) -> bool {
        let words = self.largest_words.get();
        words == ANY || bytes <= usize::from(words) * WORD
    }

    /// There is a free block of so many bytes now.
    pub fn note_free(&self, bytes: usize) {
        let words = (bytes / WORD).min(ANY.into()) as u16;
        self.largest_words.set(self.largest_words.get().max(words));
    }

    /// No free block has more bytes than this.
    pub fn no_larger_free(&self, bytes: usize) {
        self.largest_words.set((bytes / WORD).min(ANY.into()) as u16);
    }
}

const _: () = assert!(size_of::<Head>() + size_of::<Link>() == 56 && align_of::<Head>() == WORD);

/// A floor that no cursor reaches.
pub const CLOSED: usize = isize::MAX as usize;

/// At the top of every chunk.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The line at which the next older chunk ends (in the spare list: the next newer one); 0:
    /// none.
    pub other: u32,
    /// Lines of the chunk; the highest bit says that a [`LargeLink`] lies below.
    tagged_lines: u32,
}

/// Below the link of a chunk of whole granules.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LargeLink {
    chunk: ChunkId,
    /// Committed lines, counted from the top; the highest bit says that the chunk has one block and
    /// nothing else.
    tagged_committed_lines: u32,
    /// See [`Chunk::older`].
    older: [u32; 2],
}

/// Below that one where the chunk has one block and nothing else.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AloneLink {
    /// The line at which the chunk that links to this one ends, so that this one can be unlinked.
    newer: u32,
    unused: u32,
}

const LARGE: u32 = 1 << 31;
const ALONE: u32 = 1 << 31;

/// A chunk as its link describes it.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The line at which it ends.
    pub top: u32,
    /// Its lines.
    pub lines: u32,
    /// Of a large chunk, its header and committed lines.
    pub large: Option<(ChunkId, u32)>,
    /// The line at which the next chunk of the list ends; 0: none.
    pub other: u32,
    /// For a chunk that was taken for one large block and goes back with it: the chunk that links
    /// to it.
    pub alone: Option<u32>,
    /// For a large chunk, where the chunks after `other` in the list ended when this one became
    /// current; 0: nowhere. Their links can be fetched before the ones between are there. Those
    /// chunks may be gone since; nothing else relies on this.
    pub older: [u32; 2],
}

impl Chunk {
    /// Of a large chunk that the pool handed out.
    pub fn of_large(large: &Large, line_bytes: usize) -> Chunk {
        // Lines are powers of two, and a division takes several times as long.
        let line = |offset: usize| (offset >> line_bytes.trailing_zeros()) as u32;
        Chunk {
            top: line(large.range.end),
            lines: line(large.range.len()),
            large: Some((large.chunk, line(large.committed_bytes))),
            other: 0,
            alone: None,
            older: [0; 2],
        }
    }

    /// A small one of the lines that the pool handed out.
    #[inline]
    pub fn of_lines(Lines { first, count }: Lines) -> Chunk {
        Chunk {
            top: first + count,
            lines: count,
            large: None,
            other: 0,
            alone: None,
            older: [0; 2],
        }
    }

    /// This one as the current one after another.
    #[inline]
    pub fn after(self, current: &Chunk) -> Chunk {
        Chunk { other: current.top, older: [current.other, current.older[0]], ..self }
    }

    /// The pool's view of a large chunk.
    pub fn to_large(&self, line_bytes: usize) -> Option<Large> {
        let (chunk, committed_lines) = self.large?;
        let end = self.top as usize * line_bytes;
        let committed_bytes = committed_lines as usize * line_bytes;
        Some(Large { range: end - self.lines as usize * line_bytes..end, committed_bytes, chunk })
    }

    /// Lines from the top that may be touched.
    pub fn committed_lines(&self) -> u32 {
        self.large.map_or(self.lines, |(_, committed)| committed)
    }

    /// Bytes that its links take.
    pub fn link_bytes(&self) -> usize {
        let large = if self.large.is_some() { size_of::<LargeLink>() } else { 0 };
        let alone = if self.alone.is_some() { size_of::<AloneLink>() } else { 0 };
        size_of::<Link>() + large + alone
    }
}

/// Reads the link of the chunk that ends at line `top`, at address `end`.
///
/// # Safety
/// The chunk exists, its link was written, and nobody writes it meanwhile.
pub unsafe fn read_chunk(end: *mut u8, top: u32) -> Chunk {
    // SAFETY: the link lies below the chunk's end, aligned because lines are multiples of 8 bytes.
    let link = unsafe { end.cast::<Link>().sub(1).read() };
    let lines = link.tagged_lines & !LARGE;
    if link.tagged_lines & LARGE == 0 {
        return Chunk { top, lines, large: None, other: link.other, alone: None, older: [0; 2] };
    }
    // SAFETY: a tagged link has its large link directly below.
    let large = unsafe { end.cast::<Link>().sub(1).cast::<LargeLink>().sub(1) };
    // SAFETY: as above.
    let LargeLink { chunk, tagged_committed_lines: tagged, older } = unsafe { large.read() };
    // SAFETY: and below a large link that is tagged itself lies the third.
    let alone =
        (tagged & ALONE != 0).then(|| unsafe { large.cast::<AloneLink>().sub(1).read() }.newer);
    Chunk { top, lines, large: Some((chunk, tagged & !ALONE)), other: link.other, alone, older }
}

/// Writes the link of a chunk that ends at address `end`.
///
/// # Safety
/// The chunk's top is committed, belongs to the caller, and holds nothing else there.
pub unsafe fn write_chunk(end: *mut u8, chunk: &Chunk) {
    let tag = if chunk.large.is_some() { LARGE } else { 0 };
    // SAFETY: as the caller promises; aligned as in `read_chunk`.
    unsafe {
        let link = end.cast::<Link>().sub(1);
        link.write(Link { other: chunk.other, tagged_lines: chunk.lines | tag });
        if let Some((id, committed_lines)) = chunk.large {
            let tagged_committed_lines =
                committed_lines | if chunk.alone.is_some() { ALONE } else { 0 };
            let large = link.cast::<LargeLink>().sub(1);
            large.write(LargeLink { chunk: id, tagged_committed_lines, older: chunk.older });
            if let Some(newer) = chunk.alone {
                large.cast::<AloneLink>().sub(1).write(AloneLink { newer, unused: 0 });
            }
        }
    }
}
