//! A node: a reserved range of addresses, committed from its start, cut into chunks from its start.
//!
//! Source: `metaspace/virtualSpaceNode.hpp`. Committed memory is never given back; the whole node
//! is unmapped when it drops.

use super::chunk::Chunk;
use super::facts::WORD;
use super::occupancy::OccupancyMap;
use super::piece::Piece;
use heaplab_address_space::{Commitment, Faults, Reservation, ReservationOptions};
use heaplab_buddy::marks::mark;
use std::sync::Arc;

/// Nodes begin at a multiple of this, plus an offset: the largest alignment of any chunk.
const ALIGN_BYTES: usize = 64 << 10;

/// A range of addresses with chunks in it.
pub(super) struct Node {
    memory: Reservation,
    /// Number of nodes of its space mapped before it.
    pub serial: usize,
    /// First address; `memory` begins up to 64 KB before.
    pub base: usize,
    pub reserved_words: usize,
    pub committed_words: usize,
    /// Everything below is chunks.
    pub top: usize,
    /// Chunks in arenas.
    pub chunks_in_use: usize,
    pub map: OccupancyMap,
}

impl Node {
    /// Reserves a node with its base `offset_bytes` (whole pages) above a multiple of 64 KB.
    /// `None`: the system refuses.
    pub fn reserve(
        serial: usize,
        words: usize,
        offset_bytes: usize,
        faults: Option<Arc<Faults>>,
    ) -> Option<Node> {
        let offset_bytes = offset_bytes % ALIGN_BYTES;
        let options = ReservationOptions {
            commitment: Commitment::Replace,
            align_bytes: ALIGN_BYTES,
            faults,
            ..ReservationOptions::default()
        };
        let memory = Reservation::new(words * WORD + offset_bytes, &options).ok()?;
        let base = memory.base().as_ptr().expose_provenance() + offset_bytes;
        Some(Node {
            memory,
            serial,
            base,
            reserved_words: words,
            committed_words: 0,
            top: base,
            chunks_in_use: 0,
            map: OccupancyMap::new(base, words),
        })
    }

    /// Commits `wanted` more words, or as many as possible, but no fewer than `least`.
    pub fn commit(&mut self, least: usize, wanted: usize) -> bool {
        let left = self.reserved_words - self.committed_words;
        if left < least {
            return false;
        }
        let words = wanted.min(left);
        let offset = self.committed_end() - self.memory.base().as_ptr() as usize;
        if self.memory.commit(offset..offset + words * WORD).is_err() {
            mark("node: commit failed");
            return false;
        }
        self.committed_words += words;
        true
    }

    /// One past the last committed byte.
    pub fn committed_end(&self) -> usize {
        self.base + self.committed_words * WORD
    }

    /// Committed words not cut into chunks yet.
    pub fn uncut_words(&self) -> usize {
        (self.committed_end() - self.top) / WORD
    }

    /// The chunk that starts at `address`.
    pub fn chunk_at(&self, address: usize) -> Chunk {
        assert!(self.map.starts_at(address), "no chunk starts at {address:#x}");
        // SAFETY: the map says that a chunk starts here, and a chunk's header is committed while
        // its node is mapped.
        Chunk(unsafe { Piece::at(address) })
    }

    /// Its chunks, by address.
    pub fn chunks(&self) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        let mut at = self.base;
        while at < self.top {
            let chunk = self.chunk_at(at);
            at = chunk.end();
            chunks.push(chunk);
        }
        chunks
    }
}
