//! Division of resident memory: the parts of any mappings add up, with any claims and blocks.

use super::*;
use crate::finish::address_map::Live;
use proptest::prelude::*;

const PAGE: u64 = 4096;

fn row(start: u64, pages: u64, stretches: Vec<u32>, facts: u8) -> AnonymousRow {
    let present =
        |(place, pages): (usize, &u32)| if place % 2 == 1 { u64::from(*pages) } else { 0 };
    let resident = match stretches.is_empty() {
        true => pages,
        false => stretches.iter().enumerate().map(present).sum(),
    };
    let (start, end) = (start * PAGE, (start + pages) * PAGE);
    AnonymousRow { start, end, bytes: resident * PAGE, facts, stretches, ..AnonymousRow::default() }
}

fn moment(anonymous: Vec<AnonymousRow>) -> ResidenceMoment {
    ResidenceMoment {
        counter: 0,
        key: (1, 0),
        files: Vec::new(),
        anonymous,
        account: Account::default(),
    }
}

fn bytes(parts: &Parts, kind: ResidentKind, stack: u32) -> u64 {
    let of = |((of, _, from), figures): (&Key, &Figures)| {
        (*of == kind && *from == stack).then_some(figures.bytes)
    };
    parts.by_key.iter().filter_map(of).sum()
}

#[test]
fn blocks_come_first_and_the_rest_goes_to_whom_the_evidence_names() {
    let mut residence = Residence::default();
    residence.claims.claim(100 * PAGE, 110 * PAGE, Owner::Program(7));
    residence.claims.claim(110 * PAGE, 112 * PAGE, Owner::Allocator);
    let mut heap = LiveHeap::default();
    // In a mapping without a caller: three pages, the second is absent.
    heap.insert(120 * PAGE + 16, Live { object: 0, size: 2 * PAGE + 100 });
    // In the program's own mapping: an allocator that it brought along.
    heap.insert(101 * PAGE, Live { object: 1, size: 1000 });
    let moment = moment(vec![
        row(100, 15, Vec::new(), 0),
        row(120, 10, vec![0, 1, 1, 3, 5], 0),
        row(200, 4, Vec::new(), facts::STACK),
        row(300, 4, Vec::new(), facts::RECORDERS),
        row(400, 4, Vec::new(), 0),
    ]);
    let parts = residence.divide(&moment, &heap);
    let of = |kind, stack| bytes(&parts, kind, stack);
    assert_eq!(of(ResidentKind::Blocks, 0), 1000 + PAGE - 16 + 116);
    assert_eq!(of(ResidentKind::Mapped, 7), 10 * PAGE - 1000);
    let unclaimed = 3 * PAGE;
    assert_eq!(of(ResidentKind::Allocator, 0), 2 * PAGE + 4 * PAGE - (PAGE - 16 + 116));
    assert_eq!(of(ResidentKind::Stack, 0), 4 * PAGE);
    assert_eq!(of(ResidentKind::Recorder, 0), 4 * PAGE);
    assert_eq!(of(ResidentKind::Unknown, 0), 4 * PAGE + unclaimed);
    // A mapping that held blocks stays the allocator's once they are freed.
    let later = residence.divide(&moment, &LiveHeap::default());
    assert_eq!(bytes(&later, ResidentKind::Allocator, 0), 2 * PAGE + 4 * PAGE);
}

#[test]
fn a_runtime_names_its_ranges_and_gives_its_own_figures() {
    let mut residence = Residence::default();
    residence.claims.claim(100 * PAGE, 120 * PAGE, Owner::Program(7));
    residence.claims.claim(200 * PAGE, 210 * PAGE, Owner::Allocator);
    let region = |start: u64, end: u64, name: &str| Region {
        start: start * PAGE,
        end: end * PAGE,
        name: name.into(),
    };
    // The kernel has joined the heap with its table; the last range was given back.
    let mut moment = moment(vec![
        row(100, 15, Vec::new(), 0),
        row(150, 4, Vec::new(), 0),
        row(200, 10, Vec::new(), 0),
    ]);
    moment.account.regions = vec![
        region(100, 108, "JVM: Java Heap"),
        region(110, 120, "JVM: GC"),
        region(150, 154, jvm::THREAD_STACK),
        region(200, 210, "JVM: Code"),
    ];
    let category = |name: &str, committed: u64, reserved: u64| Category {
        name: name.into(),
        reserved_bytes: reserved * PAGE,
        committed_bytes: committed * PAGE,
    };
    moment.account.categories = vec![
        category("JVM: Java Heap", 6, 8),
        category("JVM: GC", 9, 10),
        category(jvm::THREAD_STACK, 4, 4),
        category("JVM: Code", 1, 10),
    ];
    let parts = residence.divide(&moment, &LiveHeap::default());
    let of = |kind, name: &str, stack| {
        let figures = parts.by_key.get(&(kind, name.into(), stack)).copied().unwrap_or_default();
        [figures.bytes, figures.committed_bytes, figures.reserved_bytes].map(|bytes| bytes / PAGE)
    };
    assert_eq!(of(ResidentKind::Mapped, "JVM: Java Heap", 7), [8, 6, 8]);
    assert_eq!(of(ResidentKind::Mapped, "JVM: GC", 7), [5, 9, 10]);
    assert_eq!(of(ResidentKind::Mapped, "", 7), [2, 0, 0]);
    assert_eq!(of(ResidentKind::Stack, jvm::THREAD_STACK, 0), [4, 4, 4]);
    assert_eq!(of(ResidentKind::Allocator, "", 0), [10, 0, 0]);
    assert_eq!(parts.by_key.len(), 5);
}

proptest! {
    #[test]
    fn parts_add_up(
        rows in prop::collection::vec((0_u64..5, 1_u64..20, prop::collection::vec(0_u32..5, 0..8), 0_u8..16, 0_u64..3), 0..8),
        claims in prop::collection::vec((0_u64..200, 1_u64..40, 0_u32..3), 0..10),
        blocks in prop::collection::vec((0_u64..1200, 1_u64..9000), 0..60),
        regions in prop::collection::vec((0_u64..200, 1_u64..40), 0..6),
    ) {
        let mut at = 1;
        let mut anonymous = Vec::new();
        for (gap, pages, stretches, facts, huge) in rows {
            let mut row = row(at + gap, pages, Vec::new(), facts);
            // As the kernel may say it, and as it may not: the bytes need not fit the stretches.
            let present: u64 = stretches.iter().skip(1).step_by(2).map(|pages| u64::from(*pages)).sum();
            row.bytes = if stretches.is_empty() { pages / 2 * PAGE } else { present.min(pages) * PAGE };
            row.stretches = stretches;
            row.huge_bytes = (huge * PAGE).min(row.bytes);
            at += gap + pages;
            anonymous.push(row);
        }
        let mut residence = Residence::default();
        for (start, pages, owner) in claims {
            let owner = if owner == 0 { Owner::Allocator } else { Owner::Program(owner) };
            residence.claims.claim(start * PAGE, (start + pages) * PAGE, owner);
        }
        let mut heap = LiveHeap::default();
        for (object, (address, size)) in blocks.into_iter().enumerate() {
            heap.insert_if_free(PAGE + address * 512, Live { object: object as u64, size });
        }
        let mut moment = moment(anonymous);
        moment.account.regions.extend(regions.into_iter().map(|(start, pages)| Region {
            start: start * PAGE,
            end: (start + pages) * PAGE,
            name: "JVM: Code".into(),
        }));
        let parts = residence.divide(&moment, &heap);
        let sums = parts.by_key.values().fold((0, 0), |sum, part| (sum.0 + part.bytes, sum.1 + part.huge_bytes));
        let huge: u64 = moment.anonymous.iter().map(|row| row.huge_bytes).sum();
        prop_assert_eq!(sums, (moment.bytes(), huge));
    }

    #[test]
    fn the_largest_moment_stays(sizes in prop::collection::vec(0_u64..1000, 1..400)) {
        let moments = sizes.iter().map(|pages| moment(vec![row(1, *pages, Vec::new(), 0)])).collect();
        let kept = thin(moments);
        prop_assert!(kept.len() <= MOMENTS_MAX);
        prop_assert_eq!(kept.iter().map(ResidenceMoment::bytes).max(), sizes.iter().max().map(|pages| pages * PAGE));
    }
}
