//! Sweeping: from the first chunk to the last, block by block.
//!
//! Source: `major_gc.c`, `sweep_slice`. White blocks go to the free set, black ones become white,
//! blue ones are where the next dead block is linked. A slice is charged the words of each block
//! that it reads the header of; what a policy merges beyond is not charged.

use crate::block::{BLACK, BLUE, NULL, WHITE, colour_of, load, store, words_of};
use crate::facts::WORD_BYTES;
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
    pub(crate) fn sweep_slice(&mut self, mut work: i64) -> bool {
        let mut at = self.free.shared.sweep_at;
        let mut end = self.chunks.chain[self.sweeper.chunk].end;
        let (mut blocks, mut words_alive) = self.sweeper.alive;
        let mut ended = false;
        while work > 0 {
            if at < end {
                let header = load(at);
                let words = words_of(header);
                work -= words as i64;
                match colour_of(header) {
                    BLACK => {
                        store(at, header & !BLACK);
                        blocks += 1;
                        words_alive += words as u64;
                        at += words * WORD_BYTES;
                    }
                    WHITE => at = self.free.merge_block(at + WORD_BYTES, end),
                    colour => {
                        debug_assert_eq!(colour, BLUE);
                        self.free.shared.merge = at + WORD_BYTES;
                        at += words * WORD_BYTES;
                    }
                }
            } else if self.sweeper.chunk + 1 < self.chunks.chain.len() {
                self.sweeper.chunk += 1;
                let chunk = &self.chunks.chain[self.sweeper.chunk];
                (at, end) = (chunk.start, chunk.end);
            } else {
                work = 0;
                ended = true;
            }
        }
        self.sweeper.alive = (blocks, words_alive);
        self.free.shared.sweep_at = if ended { NULL } else { at };
        self.free.shared.sweeping = !ended;
        ended
    }
}
