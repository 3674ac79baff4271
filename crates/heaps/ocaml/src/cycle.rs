//! A cycle of the major collector: in slices as the pacing asks, or whole because the program does.
//!
//! Source: `major_gc.c` (`start_cycle`, `caml_major_collection_slice`, `caml_finish_major_cycle`),
//! `gc_ctrl.c` (requests of the program). A cycle is idle, marks, sweeps, and is idle again; the
//! next one begins with an empty minor heap. The lab records each slice, and each cycle as one
//! collection.

use crate::block::{Address, NULL};
use crate::facts::WORD_BYTES;
use crate::heap::{Full, OCaml};
use crate::log::{Phase, Slice};
use crate::pacing;
use heaplab_heap::{Collection, SpaceState, Work, World};
use std::time::Instant;

/// A cycle of the major collector.
#[derive(Debug, Default)]
pub(crate) struct Cycle {
    cause: &'static str,
    before: SpaceState,
    /// Words of the heap when it began.
    pub heap_words: usize,
    pub promoted_objects: u64,
    pub promoted_words: u64,
    /// Blocks that a compaction moved.
    pub moved: u64,
    pub moved_words: u64,
}

impl OCaml {
    /// A slice of the major collector, on its own.
    pub(crate) fn slice<W: World>(&mut self, world: &mut W) -> Result<(), Full> {
        let (heap_words, overhead) = (self.chunks.words, self.spec.space_overhead);
        let allocated_words = self.pacing.allocated_words;
        let part = self.pacing.begin(heap_words, overhead);
        let computed_work = match self.phase {
            Phase::Idle => 0,
            Phase::Mark => pacing::mark_work(part.filtered, heap_words, overhead),
            Phase::Sweep => pacing::sweep_work(part.filtered, heap_words),
        };
        self.slices.push(Slice {
            births: self.births,
            phase: self.phase,
            heap_words,
            allocated_words,
            p: part.raw,
            backlog: self.pacing.backlog,
            filtered_p: part.filtered,
            computed_work,
        });
        match self.phase {
            Phase::Idle => {
                if self.minor.at == self.minor.range.end {
                    self.start_cycle("pacing");
                }
                self.pacing.give_back(part.filtered);
            }
            Phase::Mark => self.mark(computed_work),
            Phase::Sweep => {
                self.sweep(computed_work);
                if self.phase == Phase::Idle {
                    self.compact_maybe(world, self.cycle_overhead())?;
                }
            }
        }
        self.counts.major_words += std::mem::take(&mut self.pacing.allocated_words) as u64;
        Ok(())
    }

    fn start_cycle(&mut self, cause: &'static str) {
        debug_assert!(self.marker.is_idle());
        self.marker.words = 0;
        self.cycle = Cycle {
            cause,
            before: self.space(),
            heap_words: self.chunks.words,
            ..Cycle::default()
        };
        for root in [self.program.slots, self.program.newborn, self.program.arguments] {
            if root != NULL {
                self.darken(root);
            }
        }
        self.phase = Phase::Mark;
        self.phase_has_moved();
    }

    fn mark(&mut self, work: i64) {
        if self.mark_slice(work) {
            self.init_sweep();
            self.phase = Phase::Sweep;
            self.phase_has_moved();
        }
    }

    fn sweep(&mut self, work: i64) {
        let ended = self.sweep_slice(work);
        if ended {
            self.phase = Phase::Idle;
        }
        self.phase_has_moved();
        if ended {
            self.counts.major_collections += 1;
            self.minor_requested = true;
            self.record_cycle();
        }
    }

    /// Sets the address from which new blocks are black: the lowest one while blocks are marked,
    /// the sweeper's place while it sweeps, and none between two cycles.
    pub(crate) fn phase_has_moved(&mut self) {
        self.black_from = match self.phase {
            Phase::Mark => 0,
            Phase::Sweep => self.free.shared.sweep_at,
            Phase::Idle => Address::MAX,
        };
    }

    fn record_cycle(&mut self) {
        let (alive, alive_words) = self.sweeper.alive;
        let Cycle { cause, before, promoted_objects, promoted_words, moved, moved_words, .. } =
            self.cycle;
        let bytes = |words: u64| words * WORD_BYTES as u64;
        self.collections.push(Collection {
            kind: "major".into(),
            cause: cause.into(),
            births: self.births,
            born_bytes: self.born_bytes,
            before,
            after: self.space(),
            work: Some(Work {
                marked_objects: alive,
                marked_bytes: bytes(alive_words),
                moved_objects: moved + promoted_objects,
                moved_bytes: bytes(moved_words + promoted_words),
                promoted_objects,
                promoted_bytes: bytes(promoted_words),
                ..Work::default()
            }),
            pause_ns: self.measures_pauses.then(|| std::mem::take(&mut self.pause_ns)),
            ..Collection::default()
        });
    }

    /// Ends the running cycle, or runs a whole one.
    pub(crate) fn finish_cycle(&mut self, cause: &'static str) {
        if self.phase == Phase::Idle {
            self.pacing.backlog = 0.0;
            self.start_cycle(cause);
        }
        while self.phase == Phase::Mark {
            self.mark(i64::MAX);
        }
        while self.phase == Phase::Sweep {
            self.sweep(i64::MAX);
        }
        self.counts.major_words += std::mem::take(&mut self.pacing.allocated_words) as u64;
    }

    /// `Gc.full_major`, or `Gc.compact`.
    pub(crate) fn full_major<W: World>(
        &mut self,
        world: &mut W,
        compact: bool,
    ) -> Result<(), Full> {
        if self.program.slots == NULL {
            self.begin(world)?;
        }
        let began = self.measures_pauses.then(Instant::now);
        let cause = if compact { "compact" } else { "forced" };
        let before = self.space();
        self.empty_minor_heap(world)?;
        self.finish_cycle("finish");
        self.process_pending(world)?;
        self.empty_minor_heap(world)?;
        self.finish_cycle(cause);
        self.counts.forced_major_collections += 1;
        if compact || self.free_overhead().min(999_999.0) >= self.spec.max_overhead as f64 {
            self.compact_heap(world);
        }
        self.process_pending(world)?;
        // A request ends the running cycle and then runs a whole one. That one stands for the
        // request: from the heap as the program left it to the heap as the program gets it back,
        // compacted or not.
        let after = self.space();
        if let Some(last) = self.collections.last_mut() {
            *last = Collection { cause: cause.into(), before, after, ..std::mem::take(last) };
        }
        if let Some(began) = began {
            self.pause_ns += began.elapsed().as_nanos() as u64;
        }
        Ok(())
    }

    fn space(&self) -> SpaceState {
        let (words, free) = (self.chunks.words as u64, self.free.shared.free_words as u64);
        let bytes = WORD_BYTES as u64;
        SpaceState {
            used_bytes: (words - free) * bytes,
            available_bytes: free * bytes,
            committed_bytes: words * bytes,
            waste_bytes: Some(0),
        }
    }
}
