//! The free chunks of one level: chunks with committed memory in front, the others behind.
//!
//! A search knows commit states only by this order: it walks from the front and ends at the first
//! chunk without committed memory. Chunks given back are neither sorted nor moved (an arena's death
//! must be quick): the place of insertion keeps the order. HotSpot's `FreeChunkList` does the same.

use crate::chunks::{ChunkId, Headers};

/// A list through the headers' own links.
#[derive(Clone, Copy, Debug, Default)]
pub struct FreeList {
    first: Option<ChunkId>,
    last: Option<ChunkId>,
    chunks: usize,
}

impl FreeList {
    /// Number of chunks.
    #[inline]
    pub fn len(&self) -> usize {
        self.chunks
    }

    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.chunks == 0
    }

    /// Its first chunk.
    #[inline]
    pub fn first(&self) -> Option<ChunkId> {
        self.first
    }

    /// Its last chunk.
    pub fn last(&self) -> Option<ChunkId> {
        self.last
    }

    /// Adds a chunk with committed memory in front, any other at the back.
    pub(crate) fn add(&mut self, headers: &mut Headers, chunk: ChunkId) {
        let in_front = headers[chunk].committed_bytes > 0;
        let (prev, next) = if in_front { (None, self.first) } else { (self.last, None) };
        headers[chunk].prev = prev;
        headers[chunk].next = next;
        *prev.map_or(&mut self.first, |prev| &mut headers[prev].next) = Some(chunk);
        *next.map_or(&mut self.last, |next| &mut headers[next].prev) = Some(chunk);
        self.chunks += 1;
    }

    /// Removes a chunk from anywhere in the list.
    pub(crate) fn remove(&mut self, headers: &mut Headers, chunk: ChunkId) {
        let (prev, next) = (headers[chunk].prev.take(), headers[chunk].next.take());
        *prev.map_or(&mut self.first, |prev| &mut headers[prev].next) = next;
        *next.map_or(&mut self.last, |next| &mut headers[next].prev) = prev;
        self.chunks -= 1;
    }

    /// The first chunk with at least `committed_bytes` committed, as far as the order tells.
    pub(crate) fn find(&self, headers: &Headers, committed_bytes: usize) -> Option<ChunkId> {
        let mut at = self.first;
        while let Some(chunk) = at {
            let header = &headers[chunk];
            if header.committed_bytes >= committed_bytes {
                return Some(chunk);
            }
            if header.committed_bytes == 0 {
                return None;
            }
            at = header.next;
        }
        None
    }
}
