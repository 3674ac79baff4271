//! The major heap's chunks: real memory, chained in the runtime's order.
//!
//! Source: `memory.c` (`caml_alloc_for_heap`, `caml_add_to_heap`, `caml_shrink_heap`). The chain is
//! in address order with one exception: the chunk into which a second compaction moves everything
//! comes first, at any address. Deviation: a table here replaces the header that the runtime keeps
//! in front of each chunk.

use crate::block::{Address, NULL};
use crate::facts::{MINOR_WORDS_MAX, PAGE_BYTES, RESERVED_BYTES, WORD_BYTES};
use crate::fit::CONTROL_WORDS;
use crate::placement::{Place, Placement};
use crate::strategy::Strategy;
use heaplab_address_space::{CommitLimit, Commitment, Error, Reservation, ReservationOptions};
use std::ops::Range;
use std::sync::Arc;

/// One chunk.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub start: Address,
    pub end: Address,
    /// Words that a compaction has filled.
    pub compacted: usize,
    /// First and last block to look at again after an overflow of the mark stack; first after last:
    /// none.
    pub redarken: (Address, Address),
    /// Fields of the first of these blocks that need no further look (4.14).
    pub redarken_from: usize,
    place: Place,
}

impl Chunk {
    pub(crate) fn words(&self) -> usize {
        (self.end - self.start) / WORD_BYTES
    }
}

/// All chunks, and the memory of the chunks and the minor heap.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// In the order of the chain.
    pub chain: Vec<Chunk>,
    /// The heap's words in all chunks.
    pub words: usize,
    pub words_max: usize,
    /// Words for list heads, at the lowest address.
    pub control: Address,
    /// The minor heap.
    pub minor: Range<Address>,
    /// Addresses of chunks and of the runtime's other blocks.
    pub placement: Placement,
    space: Reservation,
    pub limit: Arc<CommitLimit>,
}

impl Chunks {
    /// The words for list heads and a minor heap of `minor_words`, without a chunk. The first chunk
    /// will have `first_words`.
    pub(crate) fn new(
        minor_words: usize,
        first_words: usize,
        limit_bytes: Option<usize>,
        strategy: &'static Strategy,
    ) -> Result<Chunks, Error> {
        debug_assert!(minor_words <= MINOR_WORDS_MAX);
        let limit = Arc::new(CommitLimit::new(limit_bytes.unwrap_or(RESERVED_BYTES)));
        let options = ReservationOptions {
            commitment: Commitment::Protect,
            limit: Some(Arc::clone(&limit)),
            ..ReservationOptions::default()
        };
        let space = Reservation::new(RESERVED_BYTES, &options)?;
        let base = space.base().as_ptr() as Address;
        let page = PAGE_BYTES.max(heaplab_address_space::page_bytes());
        let control_bytes = (CONTROL_WORDS * WORD_BYTES).next_multiple_of(page);
        let minor = base + control_bytes..base + control_bytes + minor_words * WORD_BYTES;
        let used = (minor.end - base).next_multiple_of(page);
        space.commit(0..used)?;
        let placement = Placement::new(
            base + used..base + space.reserved_bytes(),
            minor_words * WORD_BYTES,
            (first_words * WORD_BYTES).next_multiple_of(PAGE_BYTES),
            strategy,
        );
        Ok(Chunks {
            chain: Vec::new(),
            words: 0,
            words_max: 0,
            control: base,
            minor,
            placement,
            space,
            limit,
        })
    }

    /// Takes memory for a chunk of `words` words, rounded up to a page, from the system; does not
    /// chain it.
    pub(crate) fn obtain(&mut self, words: usize) -> Option<Chunk> {
        let bytes = words.checked_mul(WORD_BYTES)?.checked_next_multiple_of(PAGE_BYTES)?;
        if bytes > RESERVED_BYTES {
            return None;
        }
        let place = self.placement.place(bytes)?;
        if self.space.commit(self.offsets(&place.words)).is_err() {
            self.placement.release(&place);
            return None;
        }
        Some(Chunk {
            start: place.words.start,
            end: place.words.end,
            compacted: 0,
            redarken: (place.words.end, NULL),
            redarken_from: 0,
            place,
        })
    }

    /// Chains a chunk by its address; returns its index in the chain.
    pub(crate) fn add(&mut self, chunk: Chunk) -> usize {
        let nth = self
            .chain
            .iter()
            .position(|other| other.start >= chunk.start)
            .unwrap_or(self.chain.len());
        self.chain_at(nth, chunk);
        nth
    }

    /// Chains a chunk before all others, at any address.
    pub(crate) fn add_first(&mut self, chunk: Chunk) {
        self.chain_at(0, chunk);
    }

    fn chain_at(&mut self, nth: usize, chunk: Chunk) {
        self.placement.chained(&chunk.place);
        self.words += chunk.words();
        self.words_max = self.words_max.max(self.words);
        self.chain.insert(nth, chunk);
    }

    /// Gives the `nth` chunk of the chain back to the system.
    pub(crate) fn remove(&mut self, nth: usize) {
        let chunk = self.chain.remove(nth);
        self.words -= chunk.words();
        self.placement.release(&chunk.place);
        // SAFETY: the chunk has left the chain, and a compaction has moved every block out of it.
        let returned = unsafe { self.space.uncommit(self.offsets(&chunk.place.words)) };
        // The kernel refuses only if the process has too many mappings; the pages then stay
        // committed.
        debug_assert!(returned.is_ok(), "{returned:?}");
    }

    /// The chunk that contains an address.
    pub(crate) fn find(&self, at: Address) -> Option<usize> {
        self.chain.iter().position(|chunk| (chunk.start..chunk.end).contains(&at))
    }

    pub(crate) fn committed_bytes(&self) -> usize {
        self.space.committed_bytes()
    }

    pub(crate) fn resident_bytes(&self) -> Option<usize> {
        self.space.usage().ok().map(|usage| usage.resident_bytes)
    }

    fn offsets(&self, range: &Range<Address>) -> Range<usize> {
        let base = self.space.base().as_ptr() as Address;
        range.start - base..range.end - base
    }
}
