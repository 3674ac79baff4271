//! Blocks bumped from chunks that are freed together: a thread's arena dies with its last block,
//! and the next block begins another.

use hashbrown::HashMap;
use heaplab_trace::ObjectId;

/// Blocks begin at multiples of this, as malloc's do.
const ALIGNMENT: u64 = 16;

/// The arenas of one rule.
#[derive(Debug)]
pub(crate) struct Arenas {
    chunk_bytes: u64,
    arenas: Vec<Arena>,
    of_thread: HashMap<(u32, u32), usize>,
}

#[derive(Debug, Default)]
struct Arena {
    chunks: Vec<ObjectId>,
    left_bytes: u64,
    live: u64,
}

impl Arenas {
    pub(crate) fn new(chunk_bytes: u64) -> Arenas {
        Arenas { chunk_bytes, arenas: Vec::new(), of_thread: HashMap::new() }
    }

    /// The arena of a process's thread.
    pub(crate) fn of(&mut self, process: u32, thread: u32) -> usize {
        let next = self.arenas.len();
        let arena = *self.of_thread.entry((process, thread)).or_insert(next);
        if arena == next {
            self.arenas.push(Arena::default());
        }
        arena
    }

    /// A block of `bytes` is born; returns the bytes of a new chunk, if it needs one.
    pub(crate) fn born(&mut self, arena: usize, bytes: u64) -> Option<u64> {
        self.arenas[arena].live += 1;
        self.takes(arena, bytes)
    }

    /// A live block moves to a place of `bytes`; its old place stays in the arena.
    pub(crate) fn takes(&mut self, arena: usize, bytes: u64) -> Option<u64> {
        let needs = rounded(bytes);
        if needs > self.chunk_bytes / 2 {
            return Some(needs);
        }
        let of = &mut self.arenas[arena];
        if of.left_bytes >= needs {
            of.left_bytes -= needs;
            return None;
        }
        of.left_bytes = self.chunk_bytes - needs;
        Some(self.chunk_bytes)
    }

    /// A chunk was made.
    pub(crate) fn made(&mut self, arena: usize, chunk: ObjectId) {
        self.arenas[arena].chunks.push(chunk);
    }

    /// A block died; returns the chunks, all of which die with the last block.
    pub(crate) fn died(&mut self, arena: usize) -> Vec<ObjectId> {
        let of = &mut self.arenas[arena];
        of.live -= 1;
        if of.live > 0 {
            return Vec::new();
        }
        of.left_bytes = 0;
        std::mem::take(&mut of.chunks)
    }
}

/// Bytes that a block takes.
pub(crate) fn rounded(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_dies_with_its_last_block() {
        let mut arenas = Arenas::new(1024);
        let arena = arenas.of(0, 7);
        assert_eq!(arenas.born(arena, 100), Some(1024));
        arenas.made(arena, 1);
        assert_eq!(arenas.born(arena, 500), None);
        assert_eq!(arenas.born(arena, 600), Some(608));
        arenas.made(arena, 2);
        assert_eq!(arenas.born(arena, 400), None);
        assert_eq!(arenas.takes(arena, 17), Some(1024));
        arenas.made(arena, 3);
        assert_eq!(arenas.of(0, 8), 1);
        assert!((0..3).all(|_| arenas.died(arena).is_empty()));
        assert_eq!(arenas.died(arena), [1, 2, 3]);
        assert_eq!(arenas.born(arena, 1), Some(1024));
    }
}
