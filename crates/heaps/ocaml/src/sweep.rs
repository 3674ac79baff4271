//! Sweeping: from the first chunk to the last, block by block.
//!
//! Source: `major_gc.c`, `sweep_slice`. A white block goes to the free set, a black one becomes
//! white, a blue one becomes the place for linking the next dead block. A slice pays the words of
//! each block whose header it reads; further merges of a policy are free.

use crate::block::{BLACK, BLUE, NULL, WHITE, colour_of, load, store, words_of};
use crate::chunk::Chunk;
use crate::facts::WORD_BYTES;
use crate::fit::{Fit, Policies, Shared};
use crate::heap::OCaml;

/// More than any heap has.
const WORK_WORDS_MAX: usize = 1 << 50;

/// The sweeper's place.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    /// The chunk's index in the chain.
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

    /// Sweeps `work` words. Returns whether the last chunk has ended.
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
        work: i64,
    ) -> bool {
        let mut at = shared.sweep_at;
        let mut end = chain[self.chunk].end;
        // Work is a distance: a block is swept if it begins before `stop`.
        let mut stop = at + (work.max(0) as usize).min(WORK_WORDS_MAX) * WORD_BYTES;
        // Bytes swept from `at` on, and the free ones among them.
        let (mut alive, mut begun, mut swept_bytes, mut free_bytes) = (0, at, 0, 0);
        let ended = loop {
            let mut bound = stop.min(end);
            'blocks: loop {
                let header = loop {
                    if at >= bound {
                        break 'blocks;
                    }
                    let header = load(at);
                    if colour_of(header) != BLACK {
                        break header;
                    }
                    store(at, header & !BLACK);
                    alive += 1;
                    at += words_of(header) * WORD_BYTES;
                };
                let mut next = at + words_of(header) * WORD_BYTES;
                if colour_of(header) == WHITE {
                    let merged = fit.merge_block(shared, at + WORD_BYTES, header, end);
                    stop += merged - next;
                    bound = stop.min(end);
                    next = merged;
                } else {
                    debug_assert_eq!(colour_of(header), BLUE);
                    shared.merge = at + WORD_BYTES;
                }
                free_bytes += next - at;
                at = next;
            }
            if at >= stop {
                break false;
            }
            let Some(chunk) = chain.get(self.chunk + 1) else { break true };
            self.chunk += 1;
            swept_bytes += at - begun;
            (stop, at, end) = (chunk.start + (stop - at), chunk.start, chunk.end);
            begun = at;
        };
        swept_bytes += at - begun;
        self.alive.0 += alive;
        self.alive.1 += ((swept_bytes - free_bytes) / WORD_BYTES) as u64;
        shared.sweep_at = if ended { NULL } else { at };
        shared.sweeping = !ended;
        ended
    }
}
