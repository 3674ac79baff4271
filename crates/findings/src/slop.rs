//! The document's counts table, and requested against usable bytes on every allocator.
//!
//! Both use the profile's sizes: the usable size of a request depends on its size alone. (Aligned
//! requests are counted by size too; the few that cost more for their alignment are in the measured
//! row.)

use crate::{Basis, CountsRow, CountsTable, SlopRow, model::share};
use heaplab_profile::{Amount, Profile, SizeRow};
use heaplab_size_class::Allocator;

/// Which requests a table counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// All of the run.
    WholeRun,
    /// Those of the objects live at the peak.
    AtPeak,
}

impl When {
    fn of(self, row: &SizeRow) -> Amount {
        if self == When::WholeRun { row.requested } else { row.at_peak }
    }
}

/// Requests with counts and usable sizes, the most frequent first, at most `most` rows.
pub fn counts(profile: &Profile, basis: Basis, when: When, most: usize) -> CountsTable {
    let mut rows: Vec<(u64, &SizeRow)> = profile
        .sizes
        .iter()
        .map(|row| (when.of(row).objects, row))
        .filter(|(count, _)| *count > 0)
        .collect();
    rows.sort_by(|(a, x), (b, y)| b.cmp(a).then(x.request.cmp(&y.request)));
    let requests: u64 = rows.iter().map(|(count, _)| count).sum();
    let lines = rows.len() as u64;
    let mut before = 0;
    let rows = rows.into_iter().take(most).map(|(count, row)| {
        before += count;
        let usable = match basis {
            Basis::Measured => row.usable_min_bytes.max(row.request),
            Basis::Table(allocator) => allocator.usable(row.request, 1),
        };
        CountsRow {
            request: row.request,
            usable,
            slop: usable - row.request,
            count,
            percent: 100.0 * share(count, requests),
            cumulative_percent: 100.0 * share(before, requests),
        }
    });
    CountsTable { basis, requests, lines, rows: rows.collect() }
}

/// Requested against usable bytes: measured, where everything was, and by every table, the one
/// `asked` for last.
pub fn by_allocator(profile: &Profile, asked: Option<Allocator>) -> Vec<SlopRow> {
    let measured = profile.is_measured().then_some(Basis::Measured);
    let tables = Allocator::ALL.into_iter().chain(asked).map(Basis::Table);
    let bases = measured.into_iter().chain(tables);
    bases.map(|basis| slop(profile, basis)).collect()
}

fn slop(profile: &Profile, basis: Basis) -> SlopRow {
    let sum = |when: When| {
        let amounts = profile.sizes.iter().map(move |row| (row, when.of(row)));
        amounts.fold((Amount::default(), 0u64), |(sum, usable), (row, amount)| {
            let each = |allocator: Allocator| {
                // The sizes of a grouped row differ by less than half a percent: their mean stands
                // for them.
                let size = if row.grouped {
                    amount.bytes.checked_div(amount.objects).unwrap_or(0)
                } else {
                    row.request
                };
                amount.objects.saturating_mul(allocator.usable(size, 1))
            };
            let here = match basis {
                Basis::Measured => amount.usable_bytes,
                Basis::Table(allocator) => each(allocator),
            };
            let objects = sum.objects + amount.objects;
            (
                Amount { objects, bytes: sum.bytes.saturating_add(amount.bytes), usable_bytes: 0 },
                usable.saturating_add(here),
            )
        })
    };
    let (peak, peak_usable) = sum(When::AtPeak);
    let (total, total_usable) = sum(When::WholeRun);
    let header = match basis {
        Basis::Measured => 0,
        Basis::Table(allocator) => allocator.strategy().header_bytes,
    };
    SlopRow {
        basis,
        at_peak_requested_bytes: peak.bytes,
        at_peak_usable_bytes: peak_usable,
        at_peak_header_bytes: peak.objects.saturating_mul(header),
        total_requested_bytes: total.bytes,
        total_usable_bytes: total_usable,
    }
}
