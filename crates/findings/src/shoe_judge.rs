//! What requests a few bytes over a class cost, on which allocator, and what changing them would save.
//!
//! A finding is judged as a whole: the costs of its sizes are summed for each allocator, and it is told on the one where they cost
//! most. A size that costs nothing there is still of the family, and listed as saving nothing.

use crate::clownshoes::{Group, POWER_BYTES, Pairs, Share};
use crate::shoe_words::{ROUND_BYTES, advice, confidence, title};
use crate::sites::largest;
use crate::{Basis, Cause, Clownshoe, Cost, Evidence, Finding, Kind, Options, Saving, ShoeSize, StackShare};
use heaplab_profile::{Amount, Profile};
use heaplab_size_class::Allocator;
use heaplab_trace::StackId;
use std::collections::BTreeMap;

pub(crate) struct Judge<'a> {
    pub(crate) pairs: &'a Pairs,
    pub(crate) profile: &'a Profile,
    pub(crate) options: &'a Options,
}

impl Judge<'_> {
    /// What `group` comes to, where it is worth mentioning. `sizes`: what each stack asked for of each size.
    pub(crate) fn finding(&self, group: Group, sizes: &BTreeMap<u64, Vec<Share>>) -> Option<Finding> {
        let asked: Vec<(u64, Amount, Amount)> = sizes
            .iter()
            .map(|(size, shares)| (*size, sum(shares.iter().map(|share| share.requested)), sum(shares.iter().map(|share| share.at_peak))))
            .collect();
        let mut costs = self.costs(&asked);
        let basis = self.judged(&costs)?.basis;
        costs.sort_by_key(|cost| (cost.basis != basis, cost.basis));
        let mut rows: Vec<ShoeSize> =
            asked.iter().filter_map(|(size, requested, at_peak)| self.size(*size, basis, *requested, *at_peak)).collect();
        let cause = cause(group, &rows)?;
        let saving = rows.iter().fold(Saving::default(), |sum, row| Saving {
            at_peak_bytes: sum.at_peak_bytes.saturating_add(row.saving.at_peak_bytes),
            total_bytes: sum.total_bytes.saturating_add(row.saving.total_bytes),
            ..sum
        });
        let (stacks, stack_count) = largest(stacks(sizes, &rows), self.options.stacks_per_finding);
        rows.sort_by_key(|row| std::cmp::Reverse((row.saving.at_peak_bytes, row.saving.total_bytes, row.requested.objects)));
        let size_count = rows.len() as u64;
        rows.truncate(self.options.sizes_per_finding.max(1));
        let shoe = Clownshoe { cause, sizes: rows, size_count };
        let count = asked.iter().map(|size| size.1.objects).sum();
        Some(Finding {
            kind: Kind::Clownshoes,
            title: title(&shoe, count),
            advice: advice(&shoe, basis, &saving, &costs, self.recorded()),
            count,
            basis,
            costs,
            saving,
            confidence: confidence(&shoe.cause, basis),
            stacks,
            stack_count,
            evidence: Evidence::Clownshoes(shoe),
        })
    }

    /// One size on the judged allocator.
    fn size(&self, size: u64, basis: Basis, requested: Amount, at_peak: Amount) -> Option<ShoeSize> {
        let allocator = if let Basis::Table(allocator) = basis { allocator } else { Allocator::Jemalloc };
        let free_request =
            self.pairs.over(allocator, size).map(|over| size - over).or_else(|| self.pairs.over_power(size).map(|over| over.0))?;
        let (usable, each_saved) = match basis {
            Basis::Measured => {
                let usable = requested.usable_bytes / requested.objects.max(1);
                (usable, usable.saturating_sub(free_request))
            }
            Basis::Table(allocator) => (allocator.usable(size, 1), allocator.usable(size, 1) - allocator.usable(free_request, 1)),
        };
        let displaced = displaced(size, free_request, usable - each_saved);
        let saved = |objects: u64| objects.saturating_mul(each_saved).saturating_sub((objects as f64 * displaced) as u64);
        let saving = Saving { at_peak_bytes: saved(at_peak.objects), total_bytes: saved(requested.objects), ..Saving::default() };
        Some(ShoeSize { request: size, over_bytes: size - free_request, usable, free_request, requested, at_peak, saving })
    }

    /// What the requests waste, wherever they are just over a class. Measured slop counts in any case.
    fn costs(&self, sizes: &[(u64, Amount, Amount)]) -> Vec<Cost> {
        let on = |allocator: Allocator| {
            let over = sizes.iter().filter(|(size, ..)| self.pairs.over(allocator, *size).is_some());
            over.fold((0u64, 0u64), |(peak, total), (size, requested, at_peak)| {
                let slop = allocator.usable(*size, 1) - size;
                (peak.saturating_add(at_peak.objects.saturating_mul(slop)), total.saturating_add(requested.objects.saturating_mul(slop)))
            })
        };
        let by_table = Allocator::ALL.into_iter().map(|allocator| (Basis::Table(allocator), on(allocator)));
        let measured = sizes.iter().fold((0u64, 0u64), |(peak, total), (_, requested, at_peak)| {
            (peak.saturating_add(at_peak.slop_bytes()), total.saturating_add(requested.slop_bytes()))
        });
        let measured = self.profile.is_measured().then_some((Basis::Measured, measured));
        let all = measured.into_iter().chain(by_table).filter(|(_, (_, total))| *total > 0);
        all.map(|(basis, (at_peak_bytes, total_bytes))| Cost { basis, at_peak_bytes, total_bytes }).collect()
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
}

/// Why the sizes of a group are so large; `rows` in order of size. `None` of no size at all.
fn cause(group: Group, rows: &[ShoeSize]) -> Option<Cause> {
    let first = rows.first()?;
    let power = |row: &ShoeSize| 1u64 << row.request.max(1).ilog2();
    let surplus = |row: &ShoeSize| row.request - power(row);
    let mut round_sizes: Vec<u64> = rows.iter().map(power).collect();
    round_sizes.dedup();
    Some(match group {
        Group::Frame(_, bytes) | Group::Site(_, bytes) if bytes <= 2 => Cause::Terminator { bytes },
        Group::Frame(_, bytes) | Group::Site(_, bytes) => Cause::ConstantHeader { bytes, round_sizes },
        Group::Cluster(_) => {
            let least_bytes = rows.iter().map(surplus).min().unwrap_or(0);
            Cause::RoundPlusVarying { round_sizes, least_bytes, most_bytes: rows.iter().map(surplus).max().unwrap_or(0) }
        }
        Group::Edge(_, edge) if rows.len() > 1 => {
            let over = |row: &ShoeSize| row.request.saturating_sub(edge);
            let least_bytes = rows.iter().map(over).min().unwrap_or(0);
            Cause::RoundPlusVarying { round_sizes: vec![edge], least_bytes, most_bytes: rows.iter().map(over).max().unwrap_or(0) }
        }
        Group::Edge(..) | Group::Size(_) => alone(first.request, first.free_request),
    })
}

/// Why a size without company is so large.
fn alone(size: u64, free_request: u64) -> Cause {
    let (over, is_power) = (size - free_request, free_request.is_power_of_two() && free_request >= POWER_BYTES);
    // Half a power of two, and whole pages, are round too.
    let is_half = free_request >= POWER_BYTES && free_request.is_multiple_of(1 << (free_request.ilog2() - 1));
    if is_power && over <= 2 && free_request >= ROUND_BYTES {
        Cause::Terminator { bytes: over }
    } else if is_power || is_half || free_request.is_multiple_of(4096) {
        Cause::RoundPlusConstant { round: free_request, bytes: over }
    } else {
        Cause::Coincidence
    }
}

/// Each stack's part of the requests and of their slop over the run; `rows` are those of `sizes`, in order of size.
fn stacks(sizes: &BTreeMap<u64, Vec<Share>>, rows: &[ShoeSize]) -> Vec<StackShare> {
    let mut stacks: BTreeMap<StackId, StackShare> = BTreeMap::new();
    for row in rows {
        for share in sizes.get(&row.request).into_iter().flatten() {
            let sum = stacks.entry(share.stack).or_insert(StackShare { stack: share.stack, count: 0, bytes: 0 });
            sum.count += share.requested.objects;
            sum.bytes = sum.bytes.saturating_add(share.requested.objects.saturating_mul(row.usable.saturating_sub(row.request)));
        }
    }
    stacks.into_values().collect()
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
