//! What an arena keeps in its own chunks: a head in the first one, a link at the top of each.
//!
//! ```text
//! low                                                              high address
//! | free, uncommitted | free, committed | blocks ... | Head* | LargeLink* | Link |
//!                     ^ floor           ^ cursor       * first chunk  * large chunks
//! ```
//! Head and link of a small first chunk fill one cache line of 64 bytes, so that an arena costs its handle (8 bytes) and
//! that line. HotSpot keeps chunk headers outside, to be able to uncommit chunks that are in use by nobody; here a chunk
//! that nobody uses has no header at all, the pool's bit masks know it.

use super::free_blocks::FreeList;
use crate::Growth;
use crate::pool::large::Large;
use crate::space::Shared;
use heaplab_buddy::ChunkId;
use std::cell::Cell;

/// All blocks are multiples of this and aligned to it at least.
pub const WORD: usize = 8;

/// The arena itself. Handles point to it; it lies in the arena's first chunk.
#[repr(C)]
pub struct Head {
    /// Blocks lie above, free memory below.
    pub cursor: Cell<*mut u8>,
    /// The lowest address the fast path may hand out; [`CLOSED`] while every allocation must take the slow path.
    pub floor: Cell<*mut u8>,
    /// The space, of which the shard with this head holds a count.
    pub shared: *const Shared,
    /// Free blocks: leftovers of retired chunks, and what was given back.
    pub free: FreeList,
    pub growth: Growth,
    /// The line at which the current chunk ends; its link lies directly below.
    pub current: Cell<u32>,
    /// The same of the first chunk kept by a reset, linked from oldest to newest; 0: none.
    pub spare: Cell<u32>,
    /// Lines of all chunks, spare ones included.
    pub owned_lines: Cell<u32>,
    /// Chunks taken since the arena began or was reset; saturates, because only the first eight matter.
    pub chunks: Cell<u16>,
    /// Whether blocks were given back that the fast path must not overtake.
    pub reuse: Cell<bool>,
    /// Whether the space's debugging aids close the fast path for good.
    pub debug: Cell<bool>,
}

const _: () = assert!(size_of::<Head>() + size_of::<Link>() == 64 && align_of::<Head>() == WORD);

/// A floor that no cursor reaches.
pub const CLOSED: usize = isize::MAX as usize;

/// At the top of every chunk.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The line at which the next older chunk ends (in the spare list: the next newer one); 0: none.
    pub other: u32,
    /// Lines of the chunk; the highest bit says that a [`LargeLink`] lies below.
    tagged_lines: u32,
}

/// Below the link of a chunk of whole granules.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LargeLink {
    chunk: ChunkId,
    /// Lines that are committed, counted from the top.
    committed_lines: u32,
}

const LARGE: u32 = 1 << 31;

/// A chunk as its link describes it.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The line at which it ends.
    pub top: u32,
    /// Its lines.
    pub lines: u32,
    /// Of a large chunk, its header and committed lines.
    pub large: Option<(ChunkId, u32)>,
    /// The chunk it is linked to; 0: none.
    pub other: u32,
}

impl Chunk {
    /// Of a large chunk that the pool handed out.
    pub fn of_large(large: &Large, line_bytes: usize) -> Chunk {
        let line = |offset: usize| (offset / line_bytes) as u32;
        Chunk {
            top: line(large.range.end),
            lines: line(large.range.len()),
            large: Some((large.chunk, line(large.committed_bytes))),
            other: 0,
        }
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
        if self.large.is_some() { size_of::<Link>() + size_of::<LargeLink>() } else { size_of::<Link>() }
    }
}

/// Reads the link of the chunk that ends at line `top`, at address `end`.
///
/// # Safety
/// Such a chunk exists, its link was written, and nobody writes it meanwhile.
pub unsafe fn read_chunk(end: *mut u8, top: u32) -> Chunk {
    // SAFETY: the link lies below the chunk's end, aligned because lines are multiples of 8 bytes.
    let link = unsafe { end.cast::<Link>().sub(1).read() };
    let large = (link.tagged_lines & LARGE != 0).then(|| {
        // SAFETY: a tagged link has its large link directly below.
        let large = unsafe { end.cast::<Link>().sub(1).cast::<LargeLink>().sub(1).read() };
        (large.chunk, large.committed_lines)
    });
    Chunk { top, lines: link.tagged_lines & !LARGE, large, other: link.other }
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
        if let Some((chunk, committed_lines)) = chunk.large {
            link.cast::<LargeLink>().sub(1).write(LargeLink { chunk, committed_lines });
        }
    }
}
