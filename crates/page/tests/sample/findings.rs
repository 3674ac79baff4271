//! Findings of the made-up recording, one of each sort that has figures of its own.

use heaplab_findings::*;
use heaplab_profile::{Amount, Profile};
use heaplab_size_class::Allocator;

pub fn findings(profile: &Profile) -> Findings {
    let cost = |basis, at_peak_bytes, total_bytes| Cost { basis, at_peak_bytes, total_bytes };
    let share = |stack: u32, count, bytes| StackShare { stack, count, bytes };
    let table = Basis::Table;
    let mut list = vec![Finding {
        kind: Kind::Clownshoes,
        title: "4,104-byte requests lie 8 bytes over 4,096".into(),
        advice: "Ask for 4,096 bytes: take the 8-byte header out of the page's size, so that header and data fit together. That saves 1,016 bytes a request on jemalloc and mimalloc.".into(),
        count: 1500,
        costs: vec![cost(table(Allocator::Jemalloc), 1_524_000, 1_524_000), cost(table(Allocator::Mimalloc), 1_524_000, 1_524_000), cost(table(Allocator::Firefox2011), 6_132_000, 6_132_000)],
        basis: table(Allocator::Jemalloc),
        saving: Saving { at_peak_bytes: 1_524_000, total_bytes: 1_524_000, copied_bytes: 0, requests: 0 },
        confidence: Confidence { level: Level::High, reason: "every request was counted, and one site carries the same 8 bytes on two round sizes".into() },
        stacks: vec![share(6, 1500, 1_524_000)],
        stack_count: 1,
        evidence: Evidence::Clownshoes(Clownshoe { request: 4104, over_bytes: 8, usable: 5120, free_request: 4096, cause: Cause::ConstantHeader { bytes: 8, round_sizes: vec![1024, 4096] }, requested: Amount::default(), at_peak: Amount { objects: 1500, bytes: 6_156_000, usable_bytes: 0 } }),
    }];
    list.push(Finding {
        kind: Kind::Growth,
        title: "A buffer grows by 640 bytes at a time, 149 times".into(),
        advice: "Double the buffer when it is full.".into(),
        count: 1,
        costs: vec![cost(Basis::Measured, 0, 7_400_000)],
        basis: Basis::Measured,
        saving: Saving { at_peak_bytes: 0, total_bytes: 7_200_000, copied_bytes: 7_000_000, requests: 144 },
        confidence: Confidence { level: Level::Medium, reason: "followed by identity; moves were recorded".into() },
        stacks: vec![share(12, 1, 7_400_000), share(9, 1, 100)],
        stack_count: 2,
        evidence: Evidence::Growth(Growth {
            strategy: GrowthStrategy::Linear { step_bytes: 640 },
            through: Through::Realloc,
            chains: 1,
            steps: 149,
            cumulative_bytes: 7_800_000,
            copied_upper_bytes: 7_700_000,
            copied_moved_bytes: 7_700_000,
            doubling_cumulative_bytes: 200_000,
            doubling_copied_bytes: 100_000,
            doubling_steps: 5,
            sample: vec![4096, 4160, 4800, 5440, 99_000, 99_640],
            sample_gap: Some((4, 143)),
        }),
    });
    list.push(Finding {
        kind: Kind::Leak,
        title: "Session::open: 100 objects of 520 bytes are never freed".into(),
        advice: "Close sessions when their connection ends; they are born throughout the run.".into(),
        count: 100,
        costs: vec![cost(Basis::Measured, 0, 52_000)],
        basis: Basis::Measured,
        saving: Saving { at_peak_bytes: 0, total_bytes: 52_000, copied_bytes: 0, requests: 0 },
        confidence: Confidence { level: Level::Low, reason: "a program may keep what it uses to its end".into() },
        stacks: vec![],
        stack_count: 0,
        evidence: Evidence::Leak(Leak {
            at_end: Amount { objects: 100, bytes: 52_000, usable_bytes: 52_800 },
            freed: 0,
            pattern: LeakPattern::Growing,
            born_by_eighth: [0, 0, 8_000, 9_000, 9_000, 9_000, 9_000, 8_000],
        }),
    });
    Findings { findings: list, slop: slop(profile), ..Findings::default() }
}

fn slop(profile: &Profile) -> Vec<SlopRow> {
    let mut slop = Vec::new();
    for basis in std::iter::once(Basis::Measured).chain(Allocator::ALL.into_iter().map(Basis::Table)) {
        let usable = |row: &heaplab_profile::SizeRow, amount: &Amount| match basis {
            Basis::Measured => amount.usable_bytes,
            Basis::Table(allocator) => allocator.usable(row.request, 1) * amount.objects,
        };
        slop.push(SlopRow {
            basis,
            at_peak_requested_bytes: profile.peak.live.bytes,
            at_peak_usable_bytes: profile.sizes.iter().map(|row| usable(row, &row.at_peak)).sum(),
            at_peak_header_bytes: 0,
            total_requested_bytes: profile.totals.requested_bytes,
            total_usable_bytes: profile.sizes.iter().map(|row| usable(row, &row.requested)).sum(),
        });
    }
    slop
}
