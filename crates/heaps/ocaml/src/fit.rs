//! The free set: one of three policies, and the state that the sweeper and all policies share.
//!
//! Source: `freelist.c`, the part common to all policies. The runtime calls its policy through
//! function pointers. Here a pointer leads to the policy's allocation, a sweep is compiled for each
//! policy, and each other operation is one `match`.

use crate::best_fit::BestFit;
use crate::block::{Address, NULL};
use crate::facts::BEST_FIT_SMALL;
use crate::first_fit::FirstFit;
use crate::next_fit::NextFit;
use crate::spec::Policy;
use std::num::NonZero;

/// State that the policies share with the sweeper.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Words of the free set, with headers and without fragments.
    pub free_words: usize,
    /// The last free block before the sweeper (`caml_fl_merge`), or null.
    pub merge: Address,
    /// The sweeper is at work.
    pub sweeping: bool,
    /// The place where the sweeper continues (`caml_gc_sweep_hp`).
    pub sweep_at: Address,
    /// Blocks looked at by all searches for a free block.
    pub steps: u64,
}

/// The address of a header cut off a free block, not written yet.
pub(crate) type Cut = NonZero<Address>;

/// A policy's work at each allocation and each dead block.
pub(crate) trait Policies {
    /// Takes a block of `fields` fields from the free set; `None`: no free block is large enough.
    fn allocate(&mut self, shared: &mut Shared, fields: usize) -> Option<Cut>;

    /// Puts the dead block at `block`, with header `header`, into the free set, merged with its
    /// neighbours; returns the address of the next header.
    fn merge_block(
        &mut self,
        shared: &mut Shared,
        block: Address,
        header: usize,
        chunk_end: Address,
    ) -> Address;
}

/// A policy's own structures.
#[derive(Debug)]
pub(crate) enum Fit {
    /// Address order, from where the last search ended.
    Next(NextFit),
    /// Address order, from the start, with a table of record sizes.
    First(FirstFit),
    /// Exact lists and a splay tree.
    Best(BestFit),
}

/// The free set.
#[derive(Debug)]
pub(crate) struct FreeSet {
    pub fit: Fit,
    pub shared: Shared,
    /// The policy's [`Policies::allocate`].
    allocate: fn(&mut FreeSet, usize) -> Option<Cut>,
}

/// Words for the heads of lists, at the start of the heap's memory: links are addresses of words,
/// heads included.
pub(crate) const CONTROL_WORDS: usize = 4 + BEST_FIT_SMALL + 1 + 3;

impl FreeSet {
    /// An empty free set whose heads lie at `control`, below every chunk.
    pub(crate) fn new(policy: Policy, control: Address) -> FreeSet {
        type Allocate = fn(&mut FreeSet, usize) -> Option<Cut>;
        let (fit, allocate): (Fit, Allocate) = match policy {
            Policy::NextFit => {
                (Fit::Next(NextFit::new(control)), |set, fields| match &mut set.fit {
                    Fit::Next(fit) => fit.allocate(&mut set.shared, fields),
                    _ => None,
                })
            }
            Policy::FirstFit => {
                (Fit::First(FirstFit::new(control)), |set, fields| match &mut set.fit {
                    Fit::First(fit) => fit.allocate(&mut set.shared, fields),
                    _ => None,
                })
            }
            Policy::BestFit => {
                (Fit::Best(BestFit::new(control)), |set, fields| match &mut set.fit {
                    Fit::Best(fit) => fit.allocate(&mut set.shared, fields),
                    _ => None,
                })
            }
        };
        let shared =
            Shared { free_words: 0, merge: NULL, sweeping: false, sweep_at: NULL, steps: 0 };
        FreeSet { fit, shared, allocate }
    }

    /// Takes a block of `fields` fields from the free set. Calls the policy's function through a
    /// pointer, the shortest way, as the runtime does.
    #[inline(always)]
    pub(crate) fn allocate(&mut self, fields: usize) -> Option<Cut> {
        (self.allocate)(self, fields)
    }

    /// A sweep begins.
    pub(crate) fn init_merge(&mut self) {
        match &mut self.fit {
            Fit::Next(fit) => fit.init_merge(&mut self.shared),
            Fit::First(fit) => fit.init_merge(&mut self.shared),
            Fit::Best(fit) => fit.init_merge(&mut self.shared),
        }
    }

    /// Puts the blue block of a new chunk into the free set, right after a search without success.
    pub(crate) fn add_block(&mut self, block: Address) {
        match &mut self.fit {
            Fit::Next(fit) => fit.add_block(&mut self.shared, block),
            Fit::First(fit) => fit.add_block(&mut self.shared, block),
            Fit::Best(fit) => fit.add_block(&mut self.shared, block),
        }
    }

    /// Makes `words` words at `at` a free block of the free set. Calls come in address order, after
    /// an `init_merge`.
    pub(crate) fn make_free(&mut self, at: Address, words: usize) {
        match &mut self.fit {
            Fit::Next(fit) => fit.make_free(&mut self.shared, at, words),
            Fit::First(fit) => fit.make_free(&mut self.shared, at, words),
            Fit::Best(fit) => fit.make_free(&mut self.shared, at, words),
        }
    }

    /// Forgets all free blocks, all of them blue then: a compaction begins.
    pub(crate) fn reset(&mut self) {
        match &mut self.fit {
            Fit::Next(fit) => fit.reset(),
            Fit::First(fit) => fit.reset(),
            Fit::Best(fit) => fit.reset(),
        }
        self.shared.free_words = 0;
    }
}
