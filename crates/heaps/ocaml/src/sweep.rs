//! Sweeping: from the first chunk to the last, block by block.
//!
//! Source: `major_gc.c`, `sweep_slice`. White blocks go to the free set, black ones become white,
//! blue ones are where the next dead block is linked. A slice is charged the words of each block
//! that it reads the header of; what a policy merges beyond is not charged.

use crate::block::{BLACK, BLUE, NULL, WHITE, colour_of, load, store, words_of};
use crate::chunk::Chunk;
use crate::facts::WORD_BYTES;
use crate::fit::{Fit, Policies, Shared};
use crate::heap::OCaml;

/// Where the sweeper is.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    /// The chunk's number in the chain.
    pub chunk: usize,
    /// Blocks that were found alive in this cycle, and their words.
    pub alive: (u64, u64),
}

impl OCaml {
    /// Marking has ended.
    pub(crate) fn init_sweep(&mut self) {
        self.free.init_merge();
        self.free.shared.sweeping = true;
        self.free.shared.sweep_at = self.chunks.chain[0].start;
        self.sweeper = Sweeper::default();
        self.free_words_at_sweep = self.free.shared.free_words;
    }

    /// Sweeps `work` words. Returns true where the last chunk has ended.
    #[inline(never)]
    pub(crate) fn sweep_slice(&mut self, work: i64) -> bool {
        let (shared, chain) = (&mut self.free.shared, &self.chunks.chain[..]);
        match &mut self.free.fit {
            Fit::Next(fit) => self.sweeper.slice(fit, shared, chain, work),
            Fit::First(fit) => self.sweeper.slice(fit, shared, chain, work),
            Fit::Best(fit) => self.sweeper.slice(fit, shared, chain, work),
        }
    }
}

impl Sweeper {
    #[inline(always)]
    fn slice(
        &mut self,
        fit: &mut impl Policies,
        shared: &mut Shared,
        chain: &[Chunk],
        mut work: i64,
    ) -> bool {
        let mut at = shared.sweep_at;
        let mut end = chain[self.chunk].end;
        // Blocks and, from bit 32 on, their words: there are less than 2^32 of either.
        let mut alive = 0_u64;
        let mut ended = false;
        while work > 0 {
            if at < end {
                let header = load(at);
                let words = words_of(header);
                work -= words as i64;
                match colour_of(header) {
                    BLACK => {
                        store(at, header & !BLACK);
                        alive += (words as u64) << 32 | 1;
                        at += words * WORD_BYTES;
                    }
                    WHITE => at = fit.merge_block(shared, at + WORD_BYTES, header, end),
                    colour => {
                        debug_assert_eq!(colour, BLUE);
                        shared.merge = at + WORD_BYTES;
                        at += words * WORD_BYTES;
                    }
                }
            } else if let Some(chunk) = chain.get(self.chunk + 1) {
                self.chunk += 1;
                (at, end) = (chunk.start, chunk.end);
            } else {
                work = 0;
                ended = true;
            }
        }
        self.alive.0 += alive & u64::from(u32::MAX);
        self.alive.1 += alive >> 32;
        shared.sweep_at = if ended { NULL } else { at };
        shared.sweeping = !ended;
        ended
    }
}
