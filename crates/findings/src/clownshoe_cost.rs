//! What requests a few bytes over a class cost, on which allocator, and what changing them would
//! save.
//!
//! A finding is judged as a whole: the costs of its sizes are summed for each allocator. If a
//! change saves anything on the recorded allocator, the finding is told on that one. Else it is
//! told on the one of jemalloc and mimalloc where it costs most, and ranks behind findings of the
//! recorded allocator. A size that costs nothing there still belongs to the family, and is listed
//! with no saving.

use crate::clownshoe_words::{HABIT, ROUND_BYTES, confidence};
use crate::clownshoes::{Group, POWER_BYTES, Pairs, Share};
use crate::{Basis, Cause, Clownshoe, Cost, Found, Options, Saving, ShoeSize, StackShare};
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
    /// The finding of `group`, if it is worth mentioning. `sizes`: the requests of each stack for
    /// each size.
    pub(crate) fn finding(&self, group: Group, sizes: &BTreeMap<u64, Vec<Share>>) -> Option<Found> {
        let asked: Vec<(u64, Amount, Amount)> = sizes
            .iter()
            .map(|(size, shares)| {
                (
                    *size,
                    sum(shares.iter().map(|share| share.requested)),
                    sum(shares.iter().map(|share| share.at_peak)),
                )
            })
            .collect();
        let mut costs = self.costs(&asked);
        let (basis, elsewhere) = self.judged(&asked, &costs)?;
        costs.sort_by_key(|cost| (cost.basis != basis, cost.basis));
        let mut rows = self.rows(&asked, basis);
        let cause = cause(group, &rows)?;
        let saving = saving(&rows);
        let count = asked.iter().map(|size| size.1.objects).sum();
        if count < HABIT && saving.at_peak_bytes < self.options.least_at_peak(self.profile) {
            return None;
        }
        let stacks = stacks(sizes, &rows);
        rows.sort_by_key(|row| {
            std::cmp::Reverse((
                row.saving.at_peak_bytes,
                row.saving.total_bytes,
                row.requested.objects,
            ))
        });
        let size_count = rows.len() as u64;
        let shoe = Clownshoe { cause, elsewhere, sizes: rows, size_count };
        let placed = sizes
            .values()
            .flatten()
            .filter(|share| share.stack != 0)
            .map(|share| share.requested.objects)
            .sum::<u64>();
        Some(Found {
            count,
            costs,
            saving,
            confidence: confidence(&shoe.cause, basis, count, placed * 2 >= count),
            stacks,
            ..Found::draft(basis, shoe)
        })
    }

    /// The sizes on an allocator.
    fn rows(&self, asked: &[(u64, Amount, Amount)], basis: Basis) -> Vec<ShoeSize> {
        asked
            .iter()
            .filter_map(|(size, requested, at_peak)| self.size(*size, basis, *requested, *at_peak))
            .collect()
    }

    /// One size on the judged allocator.
    fn size(
        &self,
        size: u64,
        basis: Basis,
        requested: Amount,
        at_peak: Amount,
    ) -> Option<ShoeSize> {
        let recorded = self.recorded_table();
        let allocator = if let Basis::Table(allocator) = basis {
            allocator
        } else {
            recorded.unwrap_or(Allocator::Jemalloc)
        };
        let free_request = self
            .pairs
            .over(allocator, size)
            .map(|over| size - over)
            .or_else(|| self.pairs.over_power(size).map(|over| over.0))?;
        let (usable, each_saved) = match basis {
            Basis::Measured => {
                let usable = requested.usable_bytes / requested.objects.max(1);
                // No measurement has the usable size of the shorter request; a known allocator's
                // table has it.
                let free_usable =
                    recorded.map_or(free_request, |table| table.usable(free_request, 1));
                (usable, usable.saturating_sub(free_usable))
            }
            Basis::Table(allocator) => (
                allocator.usable(size, 1),
                allocator.usable(size, 1) - allocator.usable(free_request, 1),
            ),
        };
        let displaced = displaced(size, free_request, usable.saturating_sub(each_saved));
        let saved = |objects: u64| {
            objects.saturating_mul(each_saved).saturating_sub((objects as f64 * displaced) as u64)
        };
        let saving = Saving {
            at_peak_bytes: saved(at_peak.objects),
            total_bytes: saved(requested.objects),
            ..Saving::default()
        };
        Some(ShoeSize {
            request: size,
            over_bytes: size - free_request,
            usable,
            free_request,
            requested,
            at_peak,
            saving,
        })
    }

    /// Bytes that the requests waste on each allocator where they are just over a class. Measured
    /// slop counts in any case.
    fn costs(&self, sizes: &[(u64, Amount, Amount)]) -> Vec<Cost> {
        let on = |allocator: Allocator| {
            let over =
                sizes.iter().filter(|(size, ..)| self.pairs.over(allocator, *size).is_some());
            over.fold((0u64, 0u64), |(peak, total), (size, requested, at_peak)| {
                let slop = allocator.usable(*size, 1) - size;
                (
                    peak.saturating_add(at_peak.objects.saturating_mul(slop)),
                    total.saturating_add(requested.objects.saturating_mul(slop)),
                )
            })
        };
        let by_table =
            self.pairs.tables().map(|allocator| (Basis::Table(allocator), on(allocator)));
        let measured = sizes.iter().fold((0u64, 0u64), |(peak, total), (_, requested, at_peak)| {
            (
                peak.saturating_add(at_peak.slop_bytes()),
                total.saturating_add(requested.slop_bytes()),
            )
        });
        let measured = self.profile.is_measured().then_some((Basis::Measured, measured));
        let all = measured.into_iter().chain(by_table).filter(|(_, (_, total))| *total > 0);
        all.map(|(basis, (at_peak_bytes, total_bytes))| Cost { basis, at_peak_bytes, total_bytes })
            .collect()
    }

    /// The allocator to tell the finding on, if it is worth mentioning, and whether that differs
    /// from the recorded one.
    fn judged(&self, asked: &[(u64, Amount, Amount)], costs: &[Cost]) -> Option<(Basis, bool)> {
        let is_worth = |at_peak_bytes, total_bytes| {
            self.options.is_worth(self.profile, at_peak_bytes, total_bytes)
        };
        let among = |bases: &[Basis]| {
            let costs = costs.iter().rev().filter(|cost| bases.contains(&cost.basis));
            let most = costs.max_by_key(|cost| (cost.at_peak_bytes, cost.total_bytes));
            most.filter(|cost| is_worth(cost.at_peak_bytes, cost.total_bytes))
                .map(|cost| cost.basis)
        };
        if let Some(basis) = self.options.basis {
            return among(&[basis]).map(|basis| (basis, false));
        }
        // Slop that stays when the request is made shorter is the allocator's, and so is what saves
        // no more than the content loses: half of all sizes are 8 bytes over a class of glibc's,
        // where the next is 16 away.
        let saved = |basis: &Basis| {
            let rows = self.rows(asked, *basis);
            let (saving, lost) = (
                saving(&rows),
                rows.iter()
                    .map(|row| row.requested.objects.saturating_mul(row.over_bytes))
                    .sum::<u64>(),
            );
            is_worth(saving.at_peak_bytes, saving.total_bytes) && saving.total_bytes > lost
        };
        let here = among(&[Basis::Measured]).filter(saved).map(|basis| (basis, false));
        let elsewhere =
            || among(&[Basis::Table(Allocator::Jemalloc), Basis::Table(Allocator::Mimalloc)]);
        here.or_else(|| elsewhere().map(|basis| (basis, self.profile.is_measured())))
    }

    /// The table of the allocator recorded under, where there is one.
    fn recorded_table(&self) -> Option<Allocator> {
        Allocator::recorded(&self.options.recorded_under)
    }
}

fn saving(rows: &[ShoeSize]) -> Saving {
    rows.iter().fold(Saving::default(), |sum, row| Saving {
        at_peak_bytes: sum.at_peak_bytes.saturating_add(row.saving.at_peak_bytes),
        total_bytes: sum.total_bytes.saturating_add(row.saving.total_bytes),
        ..sum
    })
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
        Group::Frame(_, bytes) | Group::Site(_, bytes) => {
            Cause::ConstantHeader { bytes, round_sizes }
        }
        Group::Cluster(_) => {
            let least_bytes = rows.iter().map(surplus).min().unwrap_or(0);
            Cause::RoundPlusVarying {
                round_sizes,
                least_bytes,
                most_bytes: rows.iter().map(surplus).max().unwrap_or(0),
            }
        }
        Group::Edge(_, edge) if rows.len() > 1 => {
            let over = |row: &ShoeSize| row.request.saturating_sub(edge);
            let least_bytes = rows.iter().map(over).min().unwrap_or(0);
            Cause::RoundPlusVarying {
                round_sizes: vec![edge],
                least_bytes,
                most_bytes: rows.iter().map(over).max().unwrap_or(0),
            }
        }
        Group::Edge(..) | Group::Size(_) => alone(first.request, first.free_request),
    })
}

/// Why a size without company is so large.
fn alone(size: u64, free_request: u64) -> Cause {
    let (over, is_power) =
        (size - free_request, free_request.is_power_of_two() && free_request >= POWER_BYTES);
    // Half a power of two, and whole pages, are round too.
    let is_half =
        free_request >= POWER_BYTES && free_request.is_multiple_of(1 << (free_request.ilog2() - 1));
    if is_power && over <= 2 && free_request >= ROUND_BYTES {
        Cause::Terminator { bytes: over }
    } else if is_power || is_half || free_request.is_multiple_of(4096) {
        Cause::RoundPlusConstant { round: free_request, bytes: over }
    } else {
        Cause::Coincidence
    }
}

/// Each stack's part of the requests and of their slop over the run; `rows` are those of `sizes`,
/// in order of size.
fn stacks(sizes: &BTreeMap<u64, Vec<Share>>, rows: &[ShoeSize]) -> Vec<StackShare> {
    let mut stacks: BTreeMap<StackId, StackShare> = BTreeMap::new();
    for row in rows {
        for share in sizes.get(&row.request).into_iter().flatten() {
            let sum = stacks.entry(share.stack).or_insert(StackShare {
                stack: share.stack,
                count: 0,
                bytes: 0,
            });
            sum.count += share.requested.objects;
            sum.bytes = sum.bytes.saturating_add(
                share.requested.objects.saturating_mul(row.usable.saturating_sub(row.request)),
            );
        }
    }
    stacks.into_values().collect()
}

/// Bytes of further blocks for each block. Content that must leave a block of a round size needs
/// another block, so the same payload needs `free_request / (free_request - over)` times as many
/// blocks.
fn displaced(size: u64, free_request: u64, block_bytes: u64) -> f64 {
    let over = size - free_request;
    if over >= free_request {
        block_bytes as f64
    } else {
        block_bytes as f64 * over as f64 / (free_request - over) as f64
    }
}

fn sum(amounts: impl Iterator<Item = Amount>) -> Amount {
    amounts.fold(Amount::default(), |sum, amount| Amount {
        objects: sum.objects + amount.objects,
        bytes: sum.bytes.saturating_add(amount.bytes),
        usable_bytes: sum.usable_bytes.saturating_add(amount.usable_bytes),
    })
}
