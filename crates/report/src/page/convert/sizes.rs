//! Requests by size, and the rounding of each allocator's size classes.

use crate::page::{limits, model};
use heaplab_findings::{Basis, Findings, SlopRow};
use heaplab_profile::{Amount, Profile, SizeRow};
use heaplab_trace::bundle::Meta;
use std::{cmp::Reverse, collections::BTreeMap};

/// Sizes up to this share one bucket: no allocator distinguishes them.
const SMALLEST_BUCKET: u64 = 8;

pub(crate) fn sizes(profile: &Profile) -> model::Sizes {
    model::Sizes {
        buckets: buckets(&profile.sizes),
        whole: counts(profile, |row| row.requested),
        peak: counts(profile, |row| row.at_peak),
    }
}

/// Buckets end at powers of two, so that a request of a round size is in the bucket that it fills.
fn buckets(sizes: &[SizeRow]) -> Vec<model::SizeBucket> {
    let mut buckets: BTreeMap<u64, model::SizeBucket> = BTreeMap::new();
    for row in sizes {
        let to_bytes =
            row.request.max(SMALLEST_BUCKET).checked_next_power_of_two().unwrap_or(u64::MAX);
        let from_bytes = if to_bytes == SMALLEST_BUCKET { 0 } else { to_bytes / 2 + 1 };
        let bucket = buckets.entry(to_bytes).or_insert(model::SizeBucket {
            from_bytes,
            to_bytes,
            ..model::SizeBucket::default()
        });
        bucket.count += row.requested.objects;
        bucket.bytes += row.requested.bytes;
        bucket.peak_count += row.at_peak.objects;
        bucket.peak_bytes += row.at_peak.bytes;
    }
    let (Some(first), Some(last)) =
        (buckets.keys().next().copied(), buckets.keys().last().copied())
    else {
        return Vec::new();
    };
    let mut to_bytes = first;
    while to_bytes < last {
        let next = to_bytes.saturating_mul(2);
        buckets.entry(next).or_insert(model::SizeBucket {
            from_bytes: to_bytes + 1,
            to_bytes: next,
            ..model::SizeBucket::default()
        });
        to_bytes = next;
    }
    buckets.into_values().collect()
}

fn counts(profile: &Profile, amount: impl Fn(&SizeRow) -> Amount) -> model::Counts {
    let mut rows: Vec<(&SizeRow, Amount)> = profile
        .sizes
        .iter()
        .map(|row| (row, amount(row)))
        .filter(|(_, amount)| amount.objects > 0)
        .collect();
    rows.sort_by_key(|(row, amount)| (Reverse(amount.objects), row.request));
    let measured = profile.is_measured();
    model::Counts {
        total_count: rows.iter().map(|(_, amount)| amount.objects).sum(),
        total_bytes: rows.iter().map(|(_, amount)| amount.bytes).sum(),
        rows_left_out: rows.len().saturating_sub(limits::COUNT_ROWS),
        rows: rows
            .iter()
            .take(limits::COUNT_ROWS)
            .map(|(row, amount)| model::Count {
                request: row.request,
                grouped: row.grouped,
                usable: (row.usable_max_bytes > 0)
                    .then_some((row.usable_min_bytes, row.usable_max_bytes)),
                count: amount.objects,
                bytes: amount.bytes,
                slop_bytes: measured.then(|| amount.slop_bytes()),
            })
            .collect(),
    }
}

pub(crate) fn slop(meta: &Meta, profile: &Profile, findings: &Findings) -> Vec<model::Slop> {
    findings.slop.iter().map(|row| slop_of(meta, profile, row)).collect()
}

/// How the page names an allocator.
pub(crate) fn allocator_name(meta_allocator: &str, basis: Basis) -> String {
    match basis {
        Basis::Measured if !meta_allocator.is_empty() => format!("{meta_allocator} (measured)"),
        other => other.title().to_owned(),
    }
}

fn slop_of(meta: &Meta, profile: &Profile, row: &SlopRow) -> model::Slop {
    let mut classes = classes(profile, row.basis);
    classes.sort_by_key(|class| {
        (Reverse(class.peak_slop_bytes), Reverse(class.slop_bytes), class.class_bytes)
    });
    let left_out = classes.split_off(classes.len().min(limits::SLOP_CLASSES));
    model::Slop {
        allocator: allocator_name(&meta.allocator, row.basis),
        measured: row.basis == Basis::Measured,
        whole: model::SlopSum {
            requested_bytes: row.total_requested_bytes,
            usable_bytes: row.total_usable_bytes,
        },
        peak: model::SlopSum {
            requested_bytes: row.at_peak_requested_bytes,
            usable_bytes: row.at_peak_usable_bytes,
        },
        peak_header_bytes: row.at_peak_header_bytes,
        classes,
        classes_left_out: left_out.len(),
        left_out_slop_bytes: left_out.iter().map(|class| class.slop_bytes).sum(),
        left_out_peak_slop_bytes: left_out.iter().map(|class| class.peak_slop_bytes).sum(),
    }
}

/// Slop by size class; by the largest usable size where it was measured.
fn classes(profile: &Profile, basis: Basis) -> Vec<model::SlopClass> {
    let mut classes: BTreeMap<u64, model::SlopClass> = BTreeMap::new();
    for row in &profile.sizes {
        let class_bytes = match basis {
            Basis::Measured => row.usable_max_bytes,
            Basis::Table(allocator) => allocator
                .usable(row.request, 1u64.checked_shl(u32::from(row.align_log2_max)).unwrap_or(1)),
        };
        let slop = |amount: &Amount| match basis {
            Basis::Measured => amount.slop_bytes(),
            Basis::Table(_) => {
                (class_bytes.saturating_mul(amount.objects)).saturating_sub(amount.bytes)
            }
        };
        let class = classes
            .entry(class_bytes)
            .or_insert(model::SlopClass { class_bytes, ..model::SlopClass::default() });
        class.count += row.requested.objects;
        class.slop_bytes += slop(&row.requested);
        class.peak_count += row.at_peak.objects;
        class.peak_slop_bytes += slop(&row.at_peak);
    }
    classes
        .into_values()
        .filter(|class| class.slop_bytes > 0 || class.peak_slop_bytes > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_size_class::Allocator;

    fn row(request: u64, count: u64) -> SizeRow {
        let requested =
            Amount { objects: count, bytes: request * count, usable_bytes: (request + 8) * count };
        SizeRow {
            request,
            requested,
            at_peak: requested,
            usable_min_bytes: request + 8,
            usable_max_bytes: request + 8,
            ..SizeRow::default()
        }
    }

    fn profile(sizes: Vec<SizeRow>) -> Profile {
        let mut profile = Profile { sizes, ..Profile::default() };
        profile.totals.requests = profile.sizes.iter().map(|row| row.requested.objects).sum();
        profile
    }

    #[test]
    fn round_sizes_fill_their_bucket_and_gaps_are_shown() {
        let buckets = buckets(&[
            row(0, 1),
            row(8, 1),
            row(9, 1),
            row(64, 2),
            row(65, 3),
            row(u64::MAX / 2, 0),
        ]);
        let shown: Vec<_> = buckets
            .iter()
            .take(5)
            .map(|bucket| (bucket.from_bytes, bucket.to_bytes, bucket.count))
            .collect();
        assert_eq!(shown, [(0, 8, 2), (9, 16, 1), (17, 32, 0), (33, 64, 2), (65, 128, 3)]);
        assert_eq!(buckets.len(), 61);
    }

    #[test]
    fn counts_are_bounded_and_total_all() {
        let profile = profile((1..=1_000).map(|size| row(size, size)).collect());
        let sizes = sizes(&profile);
        assert_eq!(sizes.whole.rows.len(), limits::COUNT_ROWS);
        assert_eq!(sizes.whole.rows_left_out, 1_000 - limits::COUNT_ROWS);
        assert_eq!(sizes.whole.total_count, 500_500);
        assert_eq!(
            sizes.whole.rows[0],
            model::Count {
                request: 1_000,
                grouped: false,
                usable: Some((1_008, 1_008)),
                count: 1_000,
                bytes: 1_000_000,
                slop_bytes: Some(8_000)
            }
        );
        assert_eq!(sizes.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 500_500);
    }

    #[test]
    fn classes_of_a_table_hold_the_documents_example() {
        let classes = classes(
            &profile(vec![row(1_048_578, 1), row(4_104, 10)]),
            Basis::Table(Allocator::Firefox2011),
        );
        let shown: Vec<_> =
            classes.iter().map(|class| (class.class_bytes, class.slop_bytes)).collect();
        assert_eq!(shown, [(8_192, 40_880), (2_097_152, 1_048_574)]);
    }
}
