//! Buffers that grow by too little.
//!
//! A realloc chain is followed by identity. A buffer that grows by hand (allocate more, copy, free
//! the old one) is recognised by its events ([`Successors`]): a larger block from the same stack
//! and thread, and soon the free of the smaller one. Messages that become longer, one at a time,
//! look the same. So a buffer recognised by its events is called likely only if it grew large in
//! many steps, each followed by the free at once.
//!
//! Copied bytes are given as far as they are known. The recording has realloc's moves; glibc may
//! have moved large blocks without copying; a copy by hand leaves no event. The upper bound assumes
//! that every step copies everything. Growth by the good factor or more is left out.

use crate::chain::{Chain, Move};
use crate::finding::{Detector, Finding, Kind, Run, evidence};
use crate::sites::Sites;
use crate::{Basis, Confidence, Cost, Found, Level, Options, Rank, Saving, StackShare};
use hashbrown::HashMap;
use heaplab_profile::{Instant, Object, Profile};
use heaplab_text::words::{bytes, copied, count, plural};
use heaplab_trace::successors::{Block, Successors};
use heaplab_trace::{Event, Flags, ObjectId, Op, StackId, tables::Tables};
use serde::Serialize;
use std::collections::BTreeMap;

/// Buffers that grow by too little.
pub const GROWTH: Kind = Kind {
    name: "growth",
    title: "Growth",
    hint: "Buffers that grow by too little",
    counts: "chain",
    share_bytes: "beyond doubling",
    total_bytes: "over the run",
};

/// Buffers that grow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// How, in the longest chain.
    pub strategy: GrowthStrategy,
    /// Through what: realloc, or allocate-copy-free as inferred.
    pub through: Through,
    /// Chains, each a buffer that grew at least `Options::growth_steps` times.
    pub chains: u64,
    /// Times that they grew.
    pub steps: u64,
    /// Bytes asked for cumulatively.
    pub cumulative_bytes: u64,
    /// Bytes copied if every step copied all that was there: an upper bound.
    pub copied_upper_bytes: u64,
    /// Bytes copied by the steps that are known to have moved. `None` if moves are unknown, and for
    /// buffers grown by hand, whose copying leaves no event.
    pub copied_moved_bytes: Option<u64>,
    /// Bytes that steps moved and that may not have been copied, by `Options::remapped_from_bytes`.
    pub remapped_bytes: u64,
    /// Bytes asked for cumulatively if they had doubled.
    pub doubling_cumulative_bytes: u64,
    /// Bytes copied (upper bound) if they had doubled.
    pub doubling_copied_bytes: u64,
    /// Steps if they had doubled.
    pub doubling_steps: u64,
    /// Sizes of the longest chain: the first ones, and after `sample_gap` left out the last ones.
    pub sample: Vec<u64>,
    /// The index in `sample` of a gap, and the number of sizes left out there.
    pub sample_gap: Option<(usize, u64)>,
    /// Times that the longest chain grew.
    pub longest_steps: u64,
    /// How often the same function asked how much of its blocks it may use.
    pub usable_size_reads: u64,
}

impl Growth {
    /// The copied bytes as far as they are known: `158 KiB`, `at least 158 KiB`, `at most 940 MiB`.
    pub fn copied(&self) -> String {
        match self.copied_moved_bytes {
            Some(bytes) => copied(bytes, self.remapped_bytes),
            None => format!("at most {}", bytes(self.copied_upper_bytes)),
        }
    }
}

/// How a buffer grows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "strategy", rename_all = "snake_case")]
pub enum GrowthStrategy {
    /// To the needed size: steps of varying or of tiny size.
    JustEnough {
        /// Mean step in bytes.
        mean_step_bytes: f64,
    },
    /// By a constant step.
    Linear {
        /// The step.
        step_bytes: u64,
    },
    /// By a constant factor.
    Exponential {
        /// The factor.
        factor: f64,
    },
    /// Neither fits.
    Irregular,
}

/// The calls by which a buffer grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Through {
    /// realloc: followed by identity.
    Realloc,
    /// A larger block from the same stack, then a free of the smaller one: inferred.
    AllocateCopyFree,
}

/// So many steps in a row are no accident.
const MANY_STEPS: u64 = 32;

#[derive(Clone, Debug)]
struct Sum {
    growth: Growth,
    copied_moved: u64,
    longest: Chain,
}

/// Follows buffers.
#[derive(Debug)]
pub(crate) struct Growths {
    least_steps: u64,
    good_factor: f64,
    remapped_from: u64,
    chains: HashMap<ObjectId, (Chain, StackId)>,
    successors: Successors,
    sums: HashMap<(StackId, Through), Sum>,
}

impl Growths {
    pub(crate) fn new(options: &Options) -> Growths {
        Growths {
            least_steps: u64::from(options.growth_steps),
            good_factor: options.good_factor,
            remapped_from: options.remapped_from_bytes,
            chains: HashMap::new(),
            successors: Successors::default(),
            sums: HashMap::new(),
        }
    }

    /// A finished chain: adds it to its stack, if it is a chain and its growth was too slow.
    fn end(&mut self, chain: Chain, stack: StackId) {
        if chain.steps < self.least_steps {
            return;
        }
        let strategy = chain.strategy();
        if matches!(strategy, GrowthStrategy::Exponential { factor } if factor >= self.good_factor)
        {
            return;
        }
        let doubling = chain.doubling();
        let empty = || Sum {
            growth: nothing(chain.through, strategy),
            copied_moved: 0,
            longest: chain.clone(),
        };
        let sum = self.sums.entry((stack, chain.through)).or_insert_with(empty);
        let growth = &mut sum.growth;
        growth.chains += 1;
        growth.steps += chain.steps;
        growth.cumulative_bytes = growth.cumulative_bytes.saturating_add(chain.cumulative);
        growth.copied_upper_bytes = growth.copied_upper_bytes.saturating_add(chain.copied_upper);
        growth.remapped_bytes = growth.remapped_bytes.saturating_add(chain.remapped);
        sum.copied_moved = sum.copied_moved.saturating_add(chain.copied_moved);
        growth.doubling_cumulative_bytes =
            growth.doubling_cumulative_bytes.saturating_add(doubling.cumulative);
        growth.doubling_copied_bytes = growth.doubling_copied_bytes.saturating_add(doubling.copied);
        growth.doubling_steps += doubling.steps;
        if chain.copied_upper > sum.longest.copied_upper {
            growth.strategy = strategy;
            sum.longest = chain;
        }
    }
}

impl Detector for Growths {
    #[inline]
    fn born(&mut self, now: &Instant, event: &Event, id: ObjectId) {
        let block = Block { object: id, size: event.size, stack: event.stack };
        self.successors.born(now.row, event.thread, block);
    }

    fn resized(
        &mut self,
        now: &Instant,
        event: &Event,
        id: ObjectId,
        before: &Object,
        after: &Object,
    ) {
        let block = Block { object: id, size: before.size, stack: before.stack };
        self.successors.resized(now.row, event.thread, block);
        if after.size <= before.size {
            // What shrinks has ended its growth.
            if after.size < before.size
                && let Some((chain, stack)) = self.chains.remove(&id)
            {
                self.end(chain, stack);
            }
            return;
        }
        if before.size == 0 {
            return;
        }
        let (chain, stack) = self
            .chains
            .entry(id)
            .or_insert_with(|| (Chain::new(Through::Realloc, before.size), event.stack));
        let moved = match event.has(Flags::MOVED) {
            true if before.size < self.remapped_from => Move::Copied,
            true => Move::Remapped,
            false => Move::NotSeen,
        };
        chain.grow(after.size, moved);
        *stack = event.stack;
    }

    #[inline]
    fn died(&mut self, now: &Instant, event: &Event, id: ObjectId, object: &Object) {
        let block = Block { object: id, size: object.size, stack: object.stack };
        let successor = match event.op {
            Op::Free => self.successors.died(now.row, event.thread, block),
            _ => None,
        };
        let chain = if self.chains.is_empty() { None } else { self.chains.remove(&id) };
        match (successor, chain) {
            (Some(next), chain) => {
                let mut by_hand = Chain::new(Through::AllocateCopyFree, object.size);
                match chain {
                    Some((chain, _)) if chain.through == by_hand.through => by_hand = chain,
                    Some((chain, stack)) => self.end(chain, stack),
                    None => {}
                }
                by_hand.grow_by_hand(next.size, next.at_once);
                self.chains.insert(next.object, (by_hand, object.stack));
            }
            (None, Some((chain, stack))) => self.end(chain, stack),
            (None, None) => {}
        }
    }

    fn finish(mut self, tables: &Tables, run: &Run<'_>, _peak: u64) -> Vec<Found> {
        let Run { profile, options } = *run;
        for (_, (chain, stack)) in std::mem::take(&mut self.chains) {
            self.end(chain, stack);
        }
        let mut sites = Sites::new(tables, options.site_frames);
        let mut by_site: BTreeMap<_, (Sum, Vec<StackShare>)> = BTreeMap::new();
        let successors = &self.successors;
        let mut sums: Vec<_> = self
            .sums
            .into_iter()
            .filter(|((stack, through), _)| {
                *through == Through::Realloc || successors.grows(*stack)
            })
            .collect();
        sums.sort_by_key(|((stack, through), _)| (*stack, *through));
        for ((stack, through), sum) in sums {
            let share = StackShare { stack, count: sum.growth.chains, bytes: excess(&sum.growth) };
            match by_site.entry((sites.of(stack), through)) {
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert((sum, vec![share]));
                }
                std::collections::btree_map::Entry::Occupied(mut entry) => {
                    let (all, shares) = entry.get_mut();
                    merge(all, sum);
                    shares.push(share);
                }
            }
        }
        by_site
            .into_values()
            .filter_map(|(sum, shares)| finding(sum, shares, profile, options))
            .collect()
    }
}

fn nothing(through: Through, strategy: GrowthStrategy) -> Growth {
    Growth {
        strategy,
        through,
        chains: 0,
        steps: 0,
        cumulative_bytes: 0,
        copied_upper_bytes: 0,
        copied_moved_bytes: None,
        remapped_bytes: 0,
        doubling_cumulative_bytes: 0,
        doubling_copied_bytes: 0,
        doubling_steps: 0,
        sample: Vec::new(),
        sample_gap: None,
        longest_steps: 0,
        usable_size_reads: 0,
    }
}

fn merge(all: &mut Sum, sum: Sum) {
    let (a, b) = (&mut all.growth, &sum.growth);
    a.chains += b.chains;
    a.steps += b.steps;
    a.cumulative_bytes = a.cumulative_bytes.saturating_add(b.cumulative_bytes);
    a.copied_upper_bytes = a.copied_upper_bytes.saturating_add(b.copied_upper_bytes);
    a.remapped_bytes = a.remapped_bytes.saturating_add(b.remapped_bytes);
    all.copied_moved = all.copied_moved.saturating_add(sum.copied_moved);
    a.doubling_cumulative_bytes =
        a.doubling_cumulative_bytes.saturating_add(b.doubling_cumulative_bytes);
    a.doubling_copied_bytes = a.doubling_copied_bytes.saturating_add(b.doubling_copied_bytes);
    a.doubling_steps += b.doubling_steps;
    if sum.longest.copied_upper > all.longest.copied_upper {
        a.strategy = b.strategy;
        all.longest = sum.longest;
    }
}

/// Bytes asked for beyond what doubling would have asked for.
fn excess(growth: &Growth) -> u64 {
    growth.cumulative_bytes.saturating_sub(growth.doubling_cumulative_bytes)
}

fn finding(
    sum: Sum,
    shares: Vec<StackShare>,
    profile: &Profile,
    options: &Options,
) -> Option<Found> {
    let mut growth = sum.growth;
    let wasted = excess(&growth);
    if !options.is_worth(profile, 0, wasted) {
        return None;
    }
    (growth.sample, growth.sample_gap) = sum.longest.sample();
    growth.copied_moved_bytes =
        (growth.through == Through::Realloc && options.moves_known).then_some(sum.copied_moved);
    let saving = Saving {
        at_peak_bytes: 0,
        total_bytes: wasted,
        copied_bytes: growth
            .copied_moved_bytes
            .map_or(0, |copied| copied.saturating_sub(growth.doubling_copied_bytes)),
        requests: growth.steps.saturating_sub(growth.doubling_steps),
    };
    growth.longest_steps = sum.longest.steps;
    let basis = options.basis.unwrap_or(Basis::Measured);
    let (count, confidence) = (growth.chains, confidence(&growth, &sum.longest, options));
    Some(Found {
        count,
        costs: vec![Cost { basis, at_peak_bytes: 0, total_bytes: wasted }],
        saving,
        confidence,
        stacks: shares,
        ..Found::draft(basis, growth)
    })
}

/// No event marks a buffer that grows by hand: messages that become longer, each made before the
/// last one is freed, leave the same events. Few of those become large in many steps, and are the
/// only work of their thread.
fn confidence(growth: &Growth, longest: &Chain, options: &Options) -> Confidence {
    let at_once = longest.prompt_steps * 10 >= longest.steps * 9;
    match growth.through {
        Through::Realloc => Confidence { level: Level::High, reason: "each chain is one object, reallocated".into() },
        Through::AllocateCopyFree if longest.steps >= MANY_STEPS && longest.last() >= options.large_bytes && at_once => Confidence {
            level: Level::Medium,
            reason: format!(
                "inferred: {} times in a row a larger block from the same stack, and at once the free of the smaller one; that it was copied is not seen",
                count(longest.steps)
            ),
        },
        Through::AllocateCopyFree => Confidence {
            level: Level::Low,
            reason: "a larger block from the same stack and then the free of the smaller one look like one buffer; objects that only become larger look the same"
                .into(),
        },
    }
}

impl Finding for Growth {
    evidence!(GROWTH);

    fn cause(&self) -> String {
        format!("growth {:?}", self.through)
    }

    /// Adds another site of the same function.
    fn absorb(&mut self, other: Box<dyn Finding>) {
        let Ok(other) = other.into_any().downcast::<Growth>() else { return };
        let other = *other;
        let last = |growth: &Growth| growth.sample.last().copied().unwrap_or(0);
        if (last(&other), other.longest_steps) > (last(self), self.longest_steps) {
            (self.strategy, self.longest_steps) = (other.strategy, other.longest_steps);
            (self.sample, self.sample_gap) = (other.sample, other.sample_gap);
        }
        self.chains += other.chains;
        self.steps += other.steps;
        self.doubling_steps += other.doubling_steps;
        self.copied_moved_bytes =
            self.copied_moved_bytes.zip(other.copied_moved_bytes).map(|(a, b)| a.saturating_add(b));
        for (sum, part) in [
            (&mut self.cumulative_bytes, other.cumulative_bytes),
            (&mut self.copied_upper_bytes, other.copied_upper_bytes),
            (&mut self.remapped_bytes, other.remapped_bytes),
            (&mut self.doubling_cumulative_bytes, other.doubling_cumulative_bytes),
            (&mut self.doubling_copied_bytes, other.doubling_copied_bytes),
        ] {
            *sum = sum.saturating_add(part);
        }
    }

    /// Words for the title: bytes, and what to do.
    fn title(&self, of: &Found) -> [String; 2] {
        let (saving, level) = (&of.saving, of.confidence.level);
        let how = match self.strategy {
            GrowthStrategy::JustEnough { mean_step_bytes } => {
                format!("by about {} at a time", plural(mean_step_bytes.round() as u64, "byte"))
            }
            GrowthStrategy::Linear { step_bytes } => {
                format!("in steps of {}", plural(step_bytes, "byte"))
            }
            GrowthStrategy::Exponential { factor } => format!("by a factor of {factor:.2}"),
            GrowthStrategy::Irregular => "without a pattern".into(),
        };
        let grew = if level == Level::Low { "may have grown" } else { "grew" };
        let last = bytes(self.sample.last().copied().unwrap_or(0));
        let (beyond, buffers) = (bytes(saving.total_bytes), plural(self.chains, "buffer"));
        [
            format!("{beyond} asked for beyond doubling: {buffers} {grew} {how} to {last}"),
            match self.usable_size_reads {
                0 => "double the capacity".into(),
                _ => "look at what it makes of the usable size that it reads".into(),
            },
        ]
    }

    /// Words for what to do.
    fn advice(&self, of: &Found, _run: &Run<'_>) -> String {
        let advice = advice(self, of.confidence.level);
        match self.usable_size_reads {
            0 => advice,
            reads => format!(
                "The same function reads the usable size of its blocks ({}), so it has a policy of its own: it may use what the allocator gives beyond each request, and that is not called waste here. {advice}",
                plural(reads, "time")
            ),
        }
    }

    /// Growth costs time; the bytes that go through it decide whether a user feels that.
    fn felt_bytes(&self, of: &Found) -> u64 {
        of.saving.total_bytes
    }

    fn rank(&self, _of: &Found, _run: &Run<'_>) -> Rank {
        Rank::OverRun
    }

    fn cost(&self, of: &Found) -> String {
        let beyond = bytes(of.wasted_total_bytes());
        format!("{beyond} asked for beyond what doubling asks for; {} copied.", self.copied())
    }

    fn reads_usable_sizes(&mut self, reads: u64) {
        self.usable_size_reads = reads;
    }

    fn notes(&self) -> Vec<String> {
        let mut sizes: Vec<String> = self.sample.iter().map(|size| count(*size)).collect();
        if let Some((after, left_out)) = self.sample_gap {
            sizes.insert(after.min(sizes.len()), format!("... ({} more) ...", count(left_out)));
        }
        vec![format!("Sizes: {}", sizes.join(" "))]
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let strategy = match self.strategy {
            GrowthStrategy::JustEnough { mean_step_bytes } => {
                format!("just enough, about {mean_step_bytes:.0} B a step")
            }
            GrowthStrategy::Linear { step_bytes } => {
                format!("linear, {} a step", bytes(step_bytes))
            }
            GrowthStrategy::Exponential { factor } => format!("exponential, {factor:.3}×"),
            GrowthStrategy::Irregular => "irregular".into(),
        };
        let through = match self.through {
            Through::Realloc => "realloc",
            Through::AllocateCopyFree => "allocate, copy, free (inferred)",
        };
        let beside = |now: String, doubling: String| format!("{now} (doubling: {doubling})");
        vec![
            ("Growth", strategy),
            ("Through", through.into()),
            ("Steps", beside(count(self.steps), count(self.doubling_steps))),
            (
                "Asked for cumulatively",
                beside(bytes(self.cumulative_bytes), bytes(self.doubling_cumulative_bytes)),
            ),
            (
                "Copied",
                beside(self.copied(), format!("at most {}", bytes(self.doubling_copied_bytes))),
            ),
            ("Longest chain, bytes", sample(self)),
        ]
    }
}

fn sample(growth: &Growth) -> String {
    let mut out = String::new();
    for (index, size) in growth.sample.iter().enumerate() {
        match growth.sample_gap {
            Some((after, left_out)) if after == index => {
                out.push_str(&format!(" → … {} more … → ", count(left_out)));
            }
            _ if index > 0 => out.push_str(" → "),
            _ => {}
        }
        out.push_str(&count(*size));
    }
    out
}

fn advice(growth: &Growth, level: Level) -> String {
    let double = match (level, growth.chains) {
        (Level::Low, 1) => "If this is one buffer, double its capacity instead",
        (Level::Low, _) => "If each is one buffer, double its capacity instead",
        _ => "Double the capacity instead",
    };
    format!(
        "{double}: {} instead of {}, {} instead of {} asked for{}. A doubled buffer is up to half empty: shrink it once it is complete where that matters.",
        count(growth.doubling_steps),
        plural(growth.steps, "request"),
        bytes(growth.doubling_cumulative_bytes),
        bytes(growth.cumulative_bytes),
        copies(growth),
    )
}

/// Bytes that doubling would copy, beside the bytes copied now. Only mentioned if doubling would
/// copy less, as far as is known: buffers that hardly ever moved might copy more if each doubling
/// moved.
fn copies(growth: &Growth) -> String {
    let (copied, doubling) = (growth.copied(), bytes(growth.doubling_copied_bytes));
    let why = match (growth.through, growth.copied_moved_bytes) {
        (Through::AllocateCopyFree, _) => " (if all was copied each time)",
        (Through::Realloc, None) => " (if each moved: this recording does not say)",
        (Through::Realloc, Some(_)) if growth.remapped_bytes > 0 => {
            " (blocks of 128 KiB and more that moved may have been remapped instead)"
        }
        (Through::Realloc, Some(_)) => "",
    };
    match growth.copied_moved_bytes {
        Some(known) if known <= growth.doubling_copied_bytes => {
            format!("; moves copied {copied}{why}")
        }
        _ => format!(", at most {doubling} instead of {copied} copied{why}"),
    }
}
