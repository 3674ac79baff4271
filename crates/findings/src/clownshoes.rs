//! Requests a few bytes over a size class.
//!
//! The document's four cases have one form: somebody asked for a round size and something was added to it. A request is
//! looked at when it exceeds a class of any table, or a power of two, by a little and so wastes most of the step to the next
//! class. Those, and only those, are counted by stack and size; all others are in the counts table.
//!
//! The cause is inferred from company: the same surplus over several powers of two from one calling frame is a header; one or
//! two bytes are a terminator; a single round size with a surplus is just that.

use crate::sites::{innermost, largest};
use crate::words::{bytes, count, plural};
use crate::{Basis, Cause, Clownshoe, Confidence, Cost, Evidence, Finding, Kind, Level, Options, Saving, StackShare, UsesItsSlop};
use hashbrown::HashMap;
use heaplab_profile::{Amount, Instant, Profile, Tracked};
use heaplab_size_class::Allocator;
use heaplab_trace::{StackId, tables::Tables};
use std::collections::{BTreeMap, BTreeSet};

const MEMO: usize = 64 * 1024;

#[derive(Debug, Default)]
struct Pair {
    requested: Amount,
    tracked: Tracked,
}

/// Counts suspicious requests by stack and size.
#[derive(Debug)]
pub(crate) struct Pairs {
    over_max_bytes: u64,
    over_max_part: u64,
    over_max_share: u64,
    limit: usize,
    /// Per size: 0 not looked at, 1 not suspicious, 2 suspicious.
    memo: Vec<u8>,
    pairs: HashMap<(StackId, u64), Pair>,
    /// Requests whose stack was not told apart.
    pub(crate) overflowed: u64,
}

impl Pairs {
    pub(crate) fn new(options: &Options) -> Pairs {
        Pairs {
            over_max_bytes: options.over_max_bytes,
            over_max_part: options.over_max_part.max(1),
            over_max_share: options.over_max_share.max(1),
            limit: options.pair_limit,
            memo: vec![0; MEMO],
            pairs: HashMap::new(),
            overflowed: 0,
        }
    }

    /// Bytes by which `size` is a little over the class below on a table.
    fn over(&self, allocator: Allocator, size: u64) -> Option<u64> {
        let class = allocator.class(size);
        let below = class.below?;
        self.little(size - below, below, class.usable - allocator.usable(below, 1)).then_some(size - below)
    }

    fn little(&self, over: u64, round: u64, step: u64) -> bool {
        let parts = over.saturating_mul(self.over_max_part) <= step && over.saturating_mul(self.over_max_share) <= round;
        over > 0 && over <= self.over_max_bytes && parts
    }

    fn over_power(&self, size: u64) -> Option<(u64, u64)> {
        let power = 1u64 << size.checked_ilog2()?;
        self.little(size - power, power, power).then_some((power, size - power))
    }

    #[inline]
    fn is_suspicious(&mut self, size: u64) -> bool {
        match self.memo.get(size as usize).filter(|_| size < MEMO as u64) {
            Some(0) => {
                let suspicious = self.look(size);
                self.memo[size as usize] = if suspicious { 2 } else { 1 };
                suspicious
            }
            Some(known) => *known == 2,
            None => self.look(size),
        }
    }

    fn look(&self, size: u64) -> bool {
        self.over_power(size).is_some() || Allocator::ALL.into_iter().any(|allocator| self.over(allocator, size).is_some())
    }

    #[inline]
    pub(crate) fn add(&mut self, now: &Instant, stack: StackId, size: u64, usable: u64) {
        if !self.is_suspicious(size) {
            return;
        }
        let full = self.pairs.len() >= self.limit;
        let mut key = (stack, size);
        if full && !self.pairs.contains_key(&key) {
            // Without its stack, or, when even the sizes are too many, not at all.
            self.overflowed += 1;
            key = (0, size);
            if self.pairs.len() >= 2 * self.limit && !self.pairs.contains_key(&key) {
                return;
            }
        }
        let pair = self.pairs.entry(key).or_default();
        pair.requested.objects += 1;
        pair.requested.bytes = pair.requested.bytes.saturating_add(size);
        pair.requested.usable_bytes = pair.requested.usable_bytes.saturating_add(usable);
        pair.tracked.add(now.peak, size, usable);
    }

    /// Pairs are never forgotten and none is made after the limit was reached, so an object leaves the pair that it was added to.
    #[inline]
    pub(crate) fn remove(&mut self, now: &Instant, stack: StackId, size: u64, usable: u64) {
        if !self.is_suspicious(size) {
            return;
        }
        let key = if self.pairs.contains_key(&(stack, size)) { (stack, size) } else { (0, size) };
        if let Some(pair) = self.pairs.get_mut(&key) {
            pair.tracked.remove(now.peak, size, usable);
        }
    }

    /// The findings, and the sites with slop that may use it.
    pub(crate) fn finish(self, tables: &Tables, profile: &Profile, options: &Options, peak: u64) -> (Vec<Finding>, Vec<UsesItsSlop>) {
        let readers: BTreeSet<StackId> = profile.stacks.iter().filter(|row| row.usable_size_reads > 0).map(|row| row.stack).collect();
        let families = self.families(tables, &readers);
        let mut by_size: BTreeMap<u64, Vec<(StackId, Amount, Amount)>> = BTreeMap::new();
        for ((stack, size), pair) in &self.pairs {
            if !readers.contains(stack) {
                by_size.entry(*size).or_default().push((*stack, pair.requested, pair.tracked.at_peak(peak)));
            }
        }
        let judge = Judge { pairs: &self, tables, profile, options, families: &families };
        let findings = by_size.into_iter().filter_map(|(size, stacks)| judge.finding(size, &stacks)).collect();
        (findings, uses_their_slop(profile))
    }

    /// For each calling frame and surplus: the powers of two seen with it.
    fn families(&self, tables: &Tables, readers: &BTreeSet<StackId>) -> HashMap<(Option<u32>, u64), BTreeSet<u64>> {
        let mut families: HashMap<_, BTreeSet<u64>> = HashMap::new();
        for (stack, size) in self.pairs.keys().filter(|(stack, _)| !readers.contains(stack)) {
            if let Some((power, over)) = self.over_power(*size) {
                families.entry((innermost(tables, *stack), over)).or_default().insert(power);
            }
        }
        families
    }
}

fn uses_their_slop(profile: &Profile) -> Vec<UsesItsSlop> {
    let mut readers: Vec<UsesItsSlop> = profile
        .stacks
        .iter()
        .filter(|row| row.usable_size_reads > 0)
        .map(|row| UsesItsSlop {
            stack: row.stack,
            usable_size_reads: row.usable_size_reads,
            requested: row.requested,
            at_peak: row.at_peak,
        })
        .collect();
    readers.sort_by_key(|site| std::cmp::Reverse((site.requested.slop_bytes(), site.requested.bytes)));
    readers
}

struct Judge<'a> {
    pairs: &'a Pairs,
    tables: &'a Tables,
    profile: &'a Profile,
    options: &'a Options,
    families: &'a HashMap<(Option<u32>, u64), BTreeSet<u64>>,
}

impl Judge<'_> {
    fn finding(&self, size: u64, stacks: &[(StackId, Amount, Amount)]) -> Option<Finding> {
        let requested = sum(stacks.iter().map(|stack| stack.1));
        let at_peak = sum(stacks.iter().map(|stack| stack.2));
        let mut costs = self.costs(size, &requested, &at_peak);
        let judged = self.judged(&costs)?;
        costs.sort_by_key(|cost| (cost.basis != judged.basis, cost.basis));
        let allocator = if let Basis::Table(allocator) = judged.basis { allocator } else { Allocator::Jemalloc };
        let free_request =
            self.pairs.over(allocator, size).map(|over| size - over).or_else(|| self.pairs.over_power(size).map(|over| over.0))?;
        let (usable, each_saved) = match judged.basis {
            Basis::Measured => {
                let usable = requested.usable_bytes / requested.objects.max(1);
                (usable, usable.saturating_sub(free_request))
            }
            Basis::Table(allocator) => (allocator.usable(size, 1), allocator.usable(size, 1) - allocator.usable(free_request, 1)),
        };
        let cause = self.cause(size, free_request, stacks);
        let displaced = displaced(&cause, size, free_request, usable - each_saved);
        let saved = |objects: u64| objects.saturating_mul(each_saved).saturating_sub((objects as f64 * displaced) as u64);
        let saving = Saving { at_peak_bytes: saved(at_peak.objects), total_bytes: saved(requested.objects), ..Saving::default() };
        let shoe = Clownshoe { request: size, over_bytes: size - free_request, usable, free_request, cause, requested, at_peak };
        let shares = stacks.iter().map(|(stack, requested, at_peak)| StackShare {
            stack: *stack,
            count: requested.objects,
            bytes: (at_peak.objects + requested.objects).saturating_mul(usable - size),
        });
        let (stacks, stack_count) = largest(shares.collect(), self.options.stacks_per_finding);
        Some(Finding {
            kind: Kind::Clownshoes,
            title: format!("{}-byte requests lie {} over {}", count(size), plural(shoe.over_bytes, "byte"), count(free_request)),
            advice: self.advice(&shoe, judged.basis, &saving, &costs),
            count: requested.objects,
            basis: judged.basis,
            costs,
            saving,
            confidence: confidence(&shoe.cause, judged.basis),
            stacks,
            stack_count,
            evidence: Evidence::Clownshoes(shoe),
        })
    }

    /// What the requests waste, wherever they are just over a class. Measured slop counts in any case.
    fn costs(&self, size: u64, requested: &Amount, at_peak: &Amount) -> Vec<Cost> {
        let by_table = Allocator::ALL.into_iter().filter(|allocator| self.pairs.over(*allocator, size).is_some()).map(|allocator| {
            let slop = allocator.usable(size, 1) - size;
            Cost {
                basis: Basis::Table(allocator),
                at_peak_bytes: at_peak.objects.saturating_mul(slop),
                total_bytes: requested.objects.saturating_mul(slop),
            }
        });
        let measured = Cost { basis: Basis::Measured, at_peak_bytes: at_peak.slop_bytes(), total_bytes: requested.slop_bytes() };
        let measured = self.profile.is_measured().then_some(measured);
        measured.into_iter().chain(by_table).filter(|cost| cost.total_bytes > 0).collect()
    }

    /// The cost to rank by, where it is worth mentioning.
    fn judged(&self, costs: &[Cost]) -> Option<Cost> {
        let usual = [Basis::Measured, Basis::Table(Allocator::Jemalloc), Basis::Table(Allocator::Mimalloc)];
        let asked = |basis: Basis| self.options.basis.map_or_else(|| usual.contains(&basis), |asked| asked == basis);
        let judged = costs.iter().rev().filter(|cost| asked(cost.basis)).max_by_key(|cost| (cost.at_peak_bytes, cost.total_bytes))?;
        self.options.is_worth(self.profile, judged.at_peak_bytes, judged.total_bytes).then_some(*judged)
    }

    fn cause(&self, size: u64, free_request: u64, stacks: &[(StackId, Amount, Amount)]) -> Cause {
        let round = self.pairs.over_power(size).filter(|(power, _)| *power == free_request);
        if let Some((_, over @ 1..=2)) = round {
            return Cause::Terminator { bytes: over };
        }
        if let Some((power, over)) = round {
            let company = stacks.iter().filter_map(|stack| self.families.get(&(innermost(self.tables, stack.0), over)));
            if let Some(sizes) = company.max_by_key(|sizes| sizes.len()).filter(|sizes| sizes.len() >= 2) {
                return Cause::ConstantHeader { bytes: over, round_sizes: sizes.iter().copied().collect() };
            }
            return Cause::RoundPlusConstant { round: power, bytes: over };
        }
        // Half a power of two, and whole pages, are round too.
        let page = free_request.is_multiple_of(4096);
        if page || (free_request >= 64 && free_request.is_multiple_of(1 << (free_request.ilog2() - 1))) {
            return Cause::RoundPlusConstant { round: free_request, bytes: size - free_request };
        }
        Cause::Coincidence
    }

    fn advice(&self, shoe: &Clownshoe, basis: Basis, saving: &Saving, costs: &[Cost]) -> String {
        let free = count(shoe.free_request);
        let what = match &shoe.cause {
            Cause::ConstantHeader { bytes: header, round_sizes } => {
                let others = round_sizes.iter().map(|round| round + header).filter(|size| *size != shoe.request);
                let mut examples: Vec<String> = others.map(count).collect();
                examples.drain(..examples.len().saturating_sub(3));
                format!(
                    "Something adds {header} bytes to round sizes here ({} bytes are asked for too). Make the payload {} bytes, so that header and payload ask for {free}",
                    examples.join("; "),
                    count(shoe.free_request.saturating_sub(*header))
                )
            }
            Cause::Terminator { bytes: end } => {
                format!("Round up after adding the {} of the terminator: ask for {free}", plural(*end, "byte"))
            }
            Cause::RoundPlusConstant { round, bytes: over } => {
                format!("{} bytes and {} more are asked for. Let {free} hold both", count(*round), count(*over))
            }
            Cause::Coincidence => format!("If {} can be spared, ask for {free}", plural(shoe.over_bytes, "byte")),
        };
        let each = format!("{} -> {} ({})", count(shoe.request), count(shoe.usable), count(shoe.usable - shoe.request));
        let saves = if saving.at_peak_bytes > 0 {
            format!("{} at the peak, {} over the run", bytes(saving.at_peak_bytes), bytes(saving.total_bytes))
        } else {
            format!("{} over the run, nothing at the peak", bytes(saving.total_bytes))
        };
        let mut text = format!("{what}. On {} each is {each}; it would save {saves}.", basis.title());
        let recorded_costs = costs.iter().any(|cost| cost.basis == Basis::Measured);
        if basis != Basis::Measured && self.profile.is_measured() {
            let recorded =
                if self.options.recorded_under.is_empty() { "the allocator recorded under" } else { &self.options.recorded_under };
            let measured = costs.iter().find(|cost| cost.basis == Basis::Measured);
            match measured.filter(|_| recorded_costs) {
                Some(cost) => text.push_str(&format!(" Measured on {recorded}, its slop is {} over the run.", bytes(cost.total_bytes))),
                None => text.push_str(&format!(" It costs nothing on {recorded}.")),
            }
        }
        text
    }
}

/// Bytes of further blocks that each block would need elsewhere. A header that moves into a block of a round size takes the place of
/// payload: the same payload then needs more blocks, `free_request / (free_request - header)` times as many.
fn displaced(cause: &Cause, size: u64, free_request: u64, block_bytes: u64) -> f64 {
    let over = size - free_request;
    match cause {
        Cause::Coincidence => 0.0,
        _ if over >= free_request => block_bytes as f64,
        _ => block_bytes as f64 * over as f64 / (free_request - over) as f64,
    }
}

fn confidence(cause: &Cause, basis: Basis) -> Confidence {
    let counted = if basis == Basis::Measured { "the waste is measured" } else { "the waste follows from the size alone" };
    let (level, why) = match cause {
        Cause::ConstantHeader { round_sizes, .. } if round_sizes.len() >= 3 => {
            (Level::High, format!("{} powers of two carry the same surplus here", round_sizes.len()))
        }
        Cause::ConstantHeader { .. } => (Level::Medium, "two powers of two carry the same surplus here".into()),
        Cause::Terminator { .. } => (Level::Medium, "a surplus of one or two bytes is most often a terminator".into()),
        Cause::RoundPlusConstant { .. } => (Level::Medium, "a round size and a constant is inferred from one size".into()),
        Cause::Coincidence => (Level::Low, "there is no pattern that tells why".into()),
    };
    Confidence { level, reason: format!("{counted}; {why}") }
}

fn sum(amounts: impl Iterator<Item = Amount>) -> Amount {
    amounts.fold(Amount::default(), |sum, amount| Amount {
        objects: sum.objects + amount.objects,
        bytes: sum.bytes.saturating_add(amount.bytes),
        usable_bytes: sum.usable_bytes.saturating_add(amount.usable_bytes),
    })
}
