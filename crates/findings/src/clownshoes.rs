//! Requests a few bytes over a size class.
//!
//! The document's four cases have one form: somebody asked for a round size and something was added to it. A request is
//! looked at when it exceeds a class of any table, or a power of two, by a little and so wastes most of the step to the next
//! class. Those, and only those, are followed by stack and size; all others are in the counts table.
//!
//! A site whose sizes vary has some of them just over a class by chance: that is the allocator's slop and nobody's mistake. So a
//! size counts only where it stands out among the sizes of its site ([`crate::spread`]).
//!
//! The cause is inferred from company: the same surplus over several powers of two from one calling frame is a header, or, if it is
//! a byte or two, a terminator; a single round size with a surplus is just that.

use crate::shoe_words::{ROUND_BYTES, advice, confidence};
use crate::sites::{Site, Sites, innermost, largest};
use crate::spread::{Spread, Spreads};
use crate::words::{count, plural};
use crate::{Basis, Cause, Clownshoe, Cost, Evidence, Finding, Kind, Options, Saving, StackShare, UsesItsSlop};
use hashbrown::{HashMap, HashSet};
use heaplab_profile::{Amount, Instant, Profile, Tracked};
use heaplab_size_class::Allocator;
use heaplab_trace::{StackId, tables::Tables};
use std::collections::{BTreeMap, BTreeSet};

const MEMO: usize = 64 * 1024;
/// Powers of two with the same surplus that make a header certain.
const FAMILY: usize = 3;
/// Below it a size is what an object's fields come to, and no power of two that somebody chose.
const POWER_BYTES: u64 = 64;

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
    /// All sizes, suspicious or not.
    spreads: Spreads,
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
            spreads: Spreads::default(),
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
        self.spreads.add(stack, size);
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

    /// What the size is a little over.
    fn edge(&self, size: u64) -> Option<u64> {
        let tables = || Allocator::ALL.into_iter().find_map(|allocator| self.over(allocator, size));
        self.over_power(size).map(|(power, _)| power).or_else(|| tables().map(|over| size - over))
    }

    /// The findings, and the sites with slop that may use it.
    pub(crate) fn finish(mut self, tables: &Tables, profile: &Profile, options: &Options, peak: u64) -> (Vec<Finding>, Vec<UsesItsSlop>) {
        let readers: BTreeSet<StackId> = profile.stacks.iter().filter(|row| row.usable_size_reads > 0).map(|row| row.stack).collect();
        self.pairs.retain(|(stack, _), _| !readers.contains(stack));
        let families = self.keep_what_stands_out(tables, options);
        let mut by_size: BTreeMap<u64, Vec<(StackId, Amount, Amount)>> = BTreeMap::new();
        for ((stack, size), pair) in &self.pairs {
            by_size.entry(*size).or_default().push((*stack, pair.requested, pair.tracked.at_peak(peak)));
        }
        let judge = Judge { pairs: &self, tables, profile, options, families: &families };
        let findings = by_size.into_iter().filter_map(|(size, stacks)| judge.finding(size, &stacks)).collect();
        (findings, uses_their_slop(profile))
    }

    /// Leaves the sizes that stand out at their sites.
    fn keep_what_stands_out(&mut self, tables: &Tables, options: &Options) -> Families {
        let mut sites = Sites::new(tables, options.site_frames);
        let spreads = std::mem::take(&mut self.spreads).by(|stack| sites.of(stack));
        let mut times: HashMap<(Site, u64), u64> = HashMap::new();
        for ((stack, size), pair) in &self.pairs {
            *times.entry((sites.of(*stack), *size)).or_default() += pair.requested.objects;
        }
        let unknown = Spread::default();
        let spread = |site: &Site| spreads.get(site).unwrap_or(&unknown);
        times.retain(|(site, size), times| self.edge(*size).is_some_and(|edge| spread(site).stands_out(*times, edge, options)));
        self.pairs.retain(|(stack, size), _| times.contains_key(&(sites.of(*stack), *size)));
        let families = self.families(tables);
        let in_family =
            |stack: StackId, over: u64| families.get(&(innermost(tables, stack), over)).is_some_and(|powers| powers.len() >= FAMILY);
        let mut by_chance = |(stack, size): &(StackId, u64)| {
            let site = sites.of(*stack);
            let known = self.over_power(*size).is_some_and(|(_, over)| in_family(*stack, over));
            !known && spread(&site).is_one_of_many(times.get(&(site, *size)).copied().unwrap_or(0))
        };
        let gone: HashSet<(StackId, u64)> = self.pairs.keys().filter(|key| by_chance(key)).copied().collect();
        self.pairs.retain(|key, _| !gone.contains(key));
        families
    }

    /// For each calling frame and surplus: the powers of two seen with it.
    fn families(&self, tables: &Tables) -> Families {
        let mut families = Families::new();
        for (stack, size) in self.pairs.keys() {
            if let Some((power, over)) = self.over_power(*size).filter(|(power, _)| *power >= POWER_BYTES) {
                families.entry((innermost(tables, *stack), over)).or_default().insert(power);
            }
        }
        families
    }
}

type Families = HashMap<(Option<u32>, u64), BTreeSet<u64>>;

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
    families: &'a Families,
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
        let displaced = displaced(size, free_request, usable - each_saved);
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
            advice: advice(&shoe, judged.basis, &saving, &costs, self.recorded()),
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

    /// The allocator recorded under, where its usable sizes were measured.
    fn recorded(&self) -> Option<&str> {
        let name = self.options.recorded_under.as_str();
        self.profile.is_measured().then_some(if name.is_empty() { "the allocator recorded under" } else { name })
    }

    fn cause(&self, size: u64, free_request: u64, stacks: &[(StackId, Amount, Amount)]) -> Cause {
        let round = self.pairs.over_power(size).filter(|(power, _)| *power == free_request && *power >= POWER_BYTES);
        if let Some((power, over)) = round {
            let company = stacks.iter().filter_map(|stack| self.families.get(&(innermost(self.tables, stack.0), over)));
            let family = company.max_by_key(|sizes| sizes.len()).filter(|sizes| sizes.len() >= 2);
            return match family {
                _ if over <= 2 && (family.is_some() || power >= ROUND_BYTES) => Cause::Terminator { bytes: over },
                Some(sizes) => Cause::ConstantHeader { bytes: over, round_sizes: sizes.iter().copied().collect() },
                None => Cause::RoundPlusConstant { round: power, bytes: over },
            };
        }
        // Half a power of two, and whole pages, are round too.
        let page = free_request.is_multiple_of(4096);
        if page || (free_request >= POWER_BYTES && free_request.is_multiple_of(1 << (free_request.ilog2() - 1))) {
            return Cause::RoundPlusConstant { round: free_request, bytes: size - free_request };
        }
        Cause::Coincidence
    }
}

/// Bytes of further blocks that each block would need elsewhere. What moves into a block of a round size, or out of one that is made
/// shorter, has to be somewhere: the same payload then needs more blocks, `free_request / (free_request - over)` times as many.
fn displaced(size: u64, free_request: u64, block_bytes: u64) -> f64 {
    let over = size - free_request;
    if over >= free_request { block_bytes as f64 } else { block_bytes as f64 * over as f64 / (free_request - over) as f64 }
}

fn sum(amounts: impl Iterator<Item = Amount>) -> Amount {
    amounts.fold(Amount::default(), |sum, amount| Amount {
        objects: sum.objects + amount.objects,
        bytes: sum.bytes.saturating_add(amount.bytes),
        usable_bytes: sum.usable_bytes.saturating_add(amount.usable_bytes),
    })
}
