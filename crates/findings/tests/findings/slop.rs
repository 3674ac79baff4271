//! Clownshoes, the counts table and slop by allocator, on SQLite's measured requests and on
//! programs with known answers.

use crate::program::Program;
use heaplab_findings::{Basis, CHURN, CLOWNSHOES, Cause, Clownshoe, Findings, Level, Options};
use heaplab_size_class::Allocator;

fn sizes(shoe: &Clownshoe) -> Vec<u64> {
    shoe.sizes.iter().map(|size| size.request).collect()
}

fn shoes(findings: &Findings) -> Vec<&Clownshoe> {
    findings.findings.iter().filter_map(|finding| finding.evidence()).collect()
}

/// SQLite's thirty most frequent requests, each a hundredth as often, all alive at the peak.
fn sqlite() -> Program {
    let mut program = Program::new();
    let inner = ["main", "sqlite3_step", "sqlite3Malloc", "sqlite3MemMalloc"];
    let stacks = [
        program.stack(&inner),
        program.stack(&["main", "sqlite3_prepare", "sqlite3Malloc", "sqlite3MemMalloc"]),
    ];
    let mut objects = Vec::new();
    for line in include_str!("data/counts_sqlite.csv").lines().skip(1) {
        let fields: Vec<u64> = line.split(',').map(|field| field.parse().unwrap_or(0)).collect();
        let (count, request, usable) = (fields[1], fields[4], fields[5]);
        objects.extend(
            (0..count.div_ceil(100))
                .map(|turn| program.malloc_usable(stacks[turn as usize % 2], request, usable)),
        );
    }
    objects.into_iter().for_each(|object| program.free(object));
    program
}

#[test]
fn sqlites_page_and_lookaside_are_found_with_their_header() {
    let (_, findings) =
        sqlite().findings(Options { recorded_under: "glibc 2.36".into(), ..Options::default() });
    let family = shoes(&findings)[0];
    assert_eq!(sizes(family)[0], 4104);
    assert!(sizes(family).contains(&1032), "{family:?}");
    assert!(
        shoes(&findings)[1..].iter().all(|shoe| shoe.first().over_bytes != 8),
        "one header, one finding"
    );
    let first = &findings.findings[0];
    assert_eq!(
        (first.kind, first.basis, first.confidence.level),
        (CLOWNSHOES, Basis::Table(Allocator::Jemalloc), Level::High)
    );
    let page = family.first();
    assert_eq!(
        (page.over_bytes, page.usable, page.free_request, page.requested.objects),
        (8, 5120, 4096, 92)
    );
    assert_eq!(first.count, family.sizes.iter().map(|size| size.requested.objects).sum::<u64>());
    assert_eq!(
        first.saving.total_bytes,
        family.sizes.iter().map(|size| size.saving.total_bytes).sum::<u64>()
    );
    let Cause::ConstantHeader { bytes: 8, round_sizes } = &family.cause else {
        panic!("{:?}", family.cause)
    };
    assert!([1024, 4096].iter().all(|size| round_sizes.contains(size)), "{round_sizes:?}");
    let firefox =
        first.costs.iter().find(|cost| cost.basis == Basis::Table(Allocator::Firefox2011)).unwrap();
    let slop = |size: &heaplab_findings::ShoeSize| {
        size.at_peak.objects * (Allocator::Firefox2011.usable(size.request, 1) - size.request)
    };
    assert_eq!(firefox.at_peak_bytes, family.sizes.iter().map(slop).sum::<u64>());
    insta::assert_snapshot!(format!("{}\n{}", first.title, first.advice), @r#"
    sqlite3_step and 1 more: 134 KiB at the peak on jemalloc 5.3.1 for 1,661 requests of 4,104; 136; 1,032 and 72 bytes, 8 bytes over powers of two; make each payload 8 bytes shorter
    Something adds 8 bytes to round sizes here. Make each payload as much shorter (4,088 bytes instead of 4,096), so that header and payload together ask for the round size. On jemalloc 5.3.1 a request is 4,104 -> 5,120 (1,016), say; it would save 134 KiB at the peak, 134 KiB over the run. On glibc 2.36, as measured, its slop is 1.44 KiB at the peak, 1.44 KiB over the run.
    "#);
}

#[test]
fn what_a_sanitizer_measures_is_no_slop_of_the_program() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "page"]);
    let objects: Vec<_> = (0..1000).map(|_| program.malloc_usable(stack, 4104, 4104)).collect();
    objects.into_iter().for_each(|object| program.free(object));
    let under = |name: &str| {
        program.findings(Options { recorded_under: name.into(), ..Options::default() }).1
    };
    let findings = under("AddressSanitizer (libasan.so.8)");
    assert_eq!(
        (findings.counts.basis, findings.counts.rows[0].usable),
        (Basis::Table(Allocator::Glibc), 4104)
    );
    assert!(
        findings.limits.iter().any(|limit| limit.contains("slop is judged by glibc")),
        "{:?}",
        findings.limits
    );
    assert_eq!(
        (under("glibc 2.36").counts.basis, under("glibc 2.36").limits.len()),
        (Basis::Measured, 0)
    );
}

#[test]
fn judged_by_the_allocator_asked_for() {
    let glibc = Options { basis: Some(Basis::Table(Allocator::Glibc)), ..Options::default() };
    let (_, findings) = sqlite().findings(glibc);
    assert!(
        shoes(&findings).iter().all(|shoe| !sizes(shoe).contains(&4104)),
        "glibc gives 4,104 for 4,104"
    );
    let firefox =
        Options { basis: Some(Basis::Table(Allocator::Firefox2011)), ..Options::default() };
    let (_, findings) = sqlite().findings(firefox);
    assert_eq!(
        (shoes(&findings)[0].first().request, shoes(&findings)[0].first().usable),
        (4104, 8192)
    );
}

#[test]
fn slop_by_allocator_is_the_sum_over_sizes() {
    let (profile, findings) = sqlite().findings(Options::default());
    assert_eq!(
        findings.slop.iter().map(|row| row.basis.name()).collect::<Vec<_>>(),
        ["measured", "glibc", "jemalloc", "jemalloc530", "mimalloc", "mimalloc2", "firefox2011"]
    );
    for row in &findings.slop {
        assert_eq!(row.at_peak_requested_bytes, profile.peak.live.bytes);
        let expected: u64 = match row.basis {
            Basis::Measured => profile.peak.live.usable_bytes,
            Basis::Table(table) => profile
                .sizes
                .iter()
                .map(|size| size.at_peak.objects * table.usable(size.request, 1))
                .sum(),
        };
        assert_eq!(row.at_peak_usable_bytes, expected, "{}", row.basis.name());
    }
    assert!(findings.slop[6].at_peak_share() > findings.slop[2].at_peak_share());
}

#[test]
fn the_counts_table_adds_up() {
    let mut program = Program::new();
    let stack = program.stack(&["main"]);
    let objects: Vec<u64> =
        [24, 24, 24, 72, 72, 1056].into_iter().map(|size| program.malloc(stack, size)).collect();
    objects.into_iter().for_each(|object| program.free(object));
    let options =
        Options { basis: Some(Basis::Table(Allocator::Firefox2011)), ..Options::default() };
    let (_, findings) = program.findings(options);
    let rows: Vec<_> = findings
        .counts
        .rows
        .iter()
        .map(|row| {
            (
                row.count,
                row.request,
                row.usable,
                row.slop,
                row.percent.round(),
                row.cumulative_percent.round(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [(3, 24, 32, 8, 50.0, 50.0), (2, 72, 80, 8, 33.0, 83.0), (1, 1056, 2048, 992, 17.0, 100.0)]
    );
}

#[test]
fn a_site_that_reads_its_usable_size_is_never_called_waste() {
    let wasteful = |reads: bool| {
        let mut program = Program::new();
        let stack = program.stack(&["main", "zmalloc"]);
        let objects: Vec<u64> =
            (0..1000).map(|_| program.malloc_usable(stack, 4104, 5120)).collect();
        if reads {
            program.usable_size(objects[0]);
        }
        objects.into_iter().for_each(|object| program.free(object));
        program.findings(Options::default()).1
    };
    assert_eq!(shoes(&wasteful(false)).len(), 1);
    let findings = wasteful(true);
    assert!(shoes(&findings).is_empty());
    assert_eq!(findings.uses_its_slop[0].requested.slop_bytes(), 1000 * (5120 - 4104));
}

#[test]
fn terminators_and_coincidences_are_told_apart() {
    let mut program = Program::new();
    let string = program.stack(&["main", "concat"]);
    let object = program.stack(&["main", "Widget::new"]);
    for _ in 0..100 {
        program.malloc(string, 1_048_578);
        program.malloc(object, 645);
    }
    let options = Options {
        basis: Some(Basis::Table(Allocator::Jemalloc)),
        least_part: 1_000_000,
        ..Options::default()
    };
    let (_, findings) = program.findings(options);
    let causes: Vec<_> =
        shoes(&findings).iter().map(|shoe| (shoe.first().request, shoe.cause.clone())).collect();
    assert!(causes.contains(&(1_048_578, Cause::Terminator { bytes: 2 })), "{causes:?}");
    assert!(causes.iter().any(|(request, _)| *request == 645), "{causes:?}");
}

#[test]
fn too_many_pairs_are_counted_without_their_stack_and_it_is_said() {
    let mut program = Program::new();
    let mut objects = Vec::new();
    for caller in 0..50 {
        let stack = program.stack(&["main", &format!("caller {caller}")]);
        objects.extend((0..100).map(|_| program.malloc(stack, 4104)));
    }
    objects.into_iter().for_each(|object| program.free(object));
    let (_, findings) = program.findings(Options { pair_limit: 10, ..Options::default() });
    assert_eq!(shoes(&findings)[0].first().requested.objects, 5000);
    assert_eq!(findings.limits.len(), 1);
    assert_eq!(shoes(&findings)[0].first().at_peak.objects, 5000);
}

#[test]
fn sizes_that_vary_are_nobodys_mistake() {
    let mut program = Program::new();
    // A duplicated line: 120 to 139 characters and their end; and one that lies over the edge
    // alone.
    let line = program.stack(&["main", "read", "duplicate"]);
    let long = program.stack(&["main", "read long", "duplicate"]);
    // Steps of 40 across 8,192, some of them more often.
    let record = program.stack(&["main", "compile", "append"]);
    // Few of each of many sizes: files, read whole.
    let file = program.stack(&["main", "load"]);
    let mut objects = Vec::new();
    for turn in 0..4000 {
        objects.push(program.malloc(line, 121 + (turn * 7) % 20));
        objects.push(program.malloc(long, 129 + (turn * 7) % 8));
        objects.push(program.malloc(record, 7224 + 40 * (turn % 32).min((turn * 3) % 31)));
    }
    for turn in 0..400 {
        objects.push(program.malloc(file, (1 << 20) + turn * 7919));
    }
    objects.into_iter().for_each(|object| program.free(object));
    let (_, findings) = program.findings(Options::default());
    assert!(shoes(&findings).is_empty(), "{:?}", shoes(&findings));
}

#[test]
fn a_fixed_size_is_found_beside_sizes_that_vary() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "handle", "xmalloc"]);
    let mut objects = Vec::new();
    for turn in 0..2000 {
        objects.push(program.malloc(stack, 1 + (turn * 37) % 3000));
        objects.push(program.malloc(stack, 4104));
        objects.push(program.malloc(stack, 1032));
    }
    objects.into_iter().for_each(|object| program.free(object));
    let (_, findings) = program.findings(Options::default());
    assert_eq!(shoes(&findings).into_iter().map(sizes).collect::<Vec<_>>(), [[4104, 1032]]);
}

#[test]
fn sizes_over_one_edge_at_one_site_are_one_finding() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "handle", "xmalloc"]);
    let other = program.stack(&["main", "load", "allocate"]);
    let mut objects = Vec::new();
    for turn in 0..2000 {
        objects.push(program.malloc(stack, 1 + (turn * 37) % 3000));
        objects.extend([4104, 4112, 4128].map(|size| program.malloc(stack, size)));
        objects.push(program.malloc(other, 4104));
    }
    objects.into_iter().for_each(|object| program.free(object));
    let (_, findings) = program.findings(Options::default());
    let found: Vec<_> =
        shoes(&findings).iter().map(|shoe| (sizes(shoe), shoe.cause.clone())).collect();
    let varying =
        Cause::RoundPlusVarying { round_sizes: vec![4096], least_bytes: 8, most_bytes: 32 };
    assert_eq!(
        found,
        [
            (vec![4104, 4112, 4128], varying),
            (vec![4104], Cause::RoundPlusConstant { round: 4096, bytes: 8 })
        ]
    );
    let count: u64 = findings
        .findings
        .iter()
        .filter(|finding| finding.kind == CLOWNSHOES)
        .map(|finding| finding.count)
        .sum();
    assert_eq!(count, 8000, "each request in one of them");
}

#[test]
fn surpluses_of_two_sites_are_two_findings() {
    let mut program = Program::new();
    // Two through one frame of the language's, and 4,104 beside the pool's blocks by chance.
    let small = program.stack(&["main", "nodes", "operator new"]);
    let other = program.stack(&["main", "widgets", "operator new"]);
    let arena = program.stack(&["main", "arena", "allocate"]);
    let pool = program.stack(&["main", "pool", "allocate"]);
    let mut objects = Vec::new();
    for _ in 0..500 {
        objects.extend(
            [(small, 72), (other, 520), (arena, 1056), (pool, 4128), (pool, 4104), (arena, 2080)]
                .map(|(at, size)| program.malloc(at, size)),
        );
    }
    objects.into_iter().for_each(|object| program.free(object));
    let (_, findings) = program.findings(Options {
        basis: Some(Basis::Table(Allocator::Firefox2011)),
        ..Options::default()
    });
    let found: Vec<_> = shoes(&findings).into_iter().map(sizes).collect();
    assert_eq!(found, [vec![4128, 2080, 1056], vec![4104], vec![520]]);
    let shares: Vec<u64> = findings.findings[0].stacks.iter().map(|share| share.count).collect();
    assert_eq!((shares, findings.findings[0].stack_count), (vec![500, 1000], 2));
    // Each request's slop once, whether or not it was live at the peak.
    for finding in &findings.findings {
        assert_eq!(
            finding.stacks.iter().map(|share| share.bytes).sum::<u64>(),
            finding.wasted_total_bytes(),
            "{}",
            finding.title
        );
    }
}

#[test]
fn a_part_that_varies_over_a_round_size_is_one_finding() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "open", "new_buffer"]);
    let objects: Vec<u64> =
        (0..700).map(|turn| program.malloc(stack, 4097 + (turn * 5) % 14)).collect();
    objects.into_iter().for_each(|object| program.free(object));
    let (_, findings) = program
        .findings(Options { basis: Some(Basis::Table(Allocator::Jemalloc)), ..Options::default() });
    let clusters: Vec<_> =
        findings.findings.iter().filter(|finding| finding.kind == CLOWNSHOES).collect();
    let [cluster] = clusters[..] else { panic!("{clusters:?}") };
    let shoe = shoes(&findings)[0];
    assert_eq!(
        shoe.cause,
        Cause::RoundPlusVarying { round_sizes: vec![4096], least_bytes: 1, most_bytes: 14 }
    );
    assert_eq!((shoe.size_count, cluster.count, cluster.confidence.level), (14, 700, Level::Low));
    insta::assert_snapshot!(format!("{}\n{}", cluster.title, cluster.advice), @r#"
    new_buffer: 695 KiB at the peak on jemalloc 5.3.1 for 700 requests, 1 to 14 bytes over 4,096; let the round size hold both
    Several sizes are asked for here just over 4,096 (4,097; 4,098; 4,099; 4,100 bytes and 10 more sizes): a round size and a part that varies, it seems. If the round part can be 14 bytes shorter, let 4,096 hold both; where it cannot, all 5,120 are paid for: use them. On jemalloc 5.3.1 a request is 4,097 -> 5,120 (1,023), say; it would save 695 KiB at the peak, 695 KiB over the run. On the allocator recorded under, as measured, its slop is 11.3 KiB at the peak, 11.3 KiB over the run.
    "#);
}

#[test]
fn advice_never_takes_a_string_its_end() {
    let mut program = Program::new();
    let name = program.stack(&["main", "duplicate"]);
    let key = program.stack(&["main", "key"]);
    let objects: Vec<u64> =
        (0..1000).flat_map(|_| [program.malloc(name, 65), program.malloc(key, 18)]).collect();
    objects.into_iter().for_each(|object| program.free(object));
    let (_, findings) = program
        .findings(Options { basis: Some(Basis::Table(Allocator::Jemalloc)), ..Options::default() });
    let causes: Vec<_> =
        shoes(&findings).iter().map(|shoe| (shoe.first().request, shoe.cause.clone())).collect();
    assert_eq!(
        causes,
        [(65, Cause::RoundPlusConstant { round: 64, bytes: 1 }), (18, Cause::Coincidence)]
    );
    assert!(findings.findings.iter().all(|finding| finding.confidence.level == Level::Low));
    insta::assert_snapshot!(findings.findings.iter().map(|finding| finding.advice.as_str()).collect::<Vec<_>>().join("\n"), @r#"
    64 bytes and 1 more are asked for. If the content can be 1 byte shorter, let 64 hold both; where it cannot, all 80 are paid for: use them. On jemalloc 5.3.1 each is 65 -> 80 (15); it would save 14.6 KiB at the peak, 14.6 KiB over the run. On the allocator recorded under, as measured, its slop is 22.5 KiB at the peak, 22.5 KiB over the run.
    If the content can be 2 bytes shorter, ask for 16; where it cannot, all 32 are paid for: use them. On jemalloc 5.3.1 each is 18 -> 32 (14); it would save 13.4 KiB at the peak, 13.4 KiB over the run. On the allocator recorded under, as measured, its slop is 21.5 KiB at the peak, 21.5 KiB over the run.
    "#);
}

#[test]
fn capacities_with_a_terminator_are_told_by_their_company() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "string", "reserve"]);
    let objects: Vec<u64> =
        (0..3000).map(|turn| program.malloc(stack, (64 << (turn % 3)) + 1)).collect();
    objects.into_iter().for_each(|object| program.free(object));
    let (_, findings) = program
        .findings(Options { basis: Some(Basis::Table(Allocator::Jemalloc)), ..Options::default() });
    let found: Vec<_> =
        shoes(&findings).iter().map(|shoe| (sizes(shoe), shoe.cause.clone())).collect();
    assert_eq!(found, [(vec![257, 129, 65], Cause::Terminator { bytes: 1 })]);
    insta::assert_snapshot!(findings.findings[0].advice, @r#"A capacity of 256 and 1 byte for a terminator, it seems: round up after adding it. 255 and the terminator ask for 256. That holds 1 byte less; where the content needs more, all 320 are paid for: make that the capacity. On jemalloc 5.3.1 a request is 257 -> 320 (63), say; it would save 106 KiB at the peak, 106 KiB over the run. On the allocator recorded under, as measured, its slop is 67.4 KiB at the peak, 67.4 KiB over the run."#);
}

/// As glibc gives: the next size of 8 over a multiple of 16.
fn on_glibc(program: &mut Program, stack: u32, size: u64) -> u64 {
    program.malloc_usable(stack, size, Allocator::Glibc.usable(size, 1))
}

fn glibc() -> Options {
    Options { recorded_under: "glibc 2.36".into(), ..Options::default() }
}

#[test]
fn what_costs_only_on_another_allocator_comes_after_what_costs_on_this_one() {
    let mut program = Program::new();
    let [page, scratch, item] = [["main", "page"], ["main", "scratch"], ["main", "item"]]
        .map(|stack| program.stack(&stack));
    let mut objects: Vec<u64> = (0..500).map(|_| on_glibc(&mut program, page, 4104)).collect();
    objects.extend((0..4000).map(|_| on_glibc(&mut program, item, 121)));
    for _ in 0..1000 {
        let buffer = on_glibc(&mut program, scratch, 2000);
        program.free(buffer);
    }
    objects.into_iter().for_each(|object| program.free(object));
    let (_, findings) = program.findings(glibc());
    let order: Vec<_> = findings
        .findings
        .iter()
        .map(|finding| (finding.kind, finding.basis, finding.is_elsewhere()))
        .collect();
    let jemalloc = Basis::Table(Allocator::Jemalloc);
    assert_eq!(
        order,
        [
            (CLOWNSHOES, Basis::Measured, false),
            (CHURN, Basis::Measured, false),
            (CLOWNSHOES, jemalloc, true)
        ]
    );
    assert_eq!(
        (shoes(&findings)[0].first().request, shoes(&findings)[0].first().free_request),
        (121, 120)
    );
    assert_eq!(shoes(&findings)[1].first().request, 4104);
    let advice = &findings.findings[2].advice;
    assert!(advice.ends_with("It costs nothing on glibc 2.36, as measured."), "{advice}");

    // An allocator that the user names judges every finding.
    let (_, findings) = program.findings(Options { basis: Some(jemalloc), ..glibc() });
    assert_eq!((shoes(&findings)[0].first().request, shoes(&findings)[0].elsewhere), (4104, false));
}

/// 65 bytes become 72 on glibc, and so do 64: the slop there is not saved by asking for less.
#[test]
fn slop_that_stays_is_not_saved() {
    let mut program = Program::new();
    let stack = program.stack(&["main", "name"]);
    let objects: Vec<u64> = (0..4000).map(|_| on_glibc(&mut program, stack, 65)).collect();
    objects.into_iter().for_each(|object| program.free(object));
    let (_, findings) = program.findings(glibc());
    assert_eq!(
        (findings.findings[0].basis, shoes(&findings)[0].elsewhere),
        (Basis::Table(Allocator::Jemalloc), true)
    );
    assert!(
        findings.findings[0]
            .costs
            .iter()
            .any(|cost| cost.basis == Basis::Measured && cost.total_bytes == 4000 * 7)
    );
}

#[test]
fn a_thousandth_of_the_peak_does_not_outrank_what_is_saved_over_the_run() {
    let mut program = Program::new();
    let [page, scratch, large] = [["main", "page"], ["main", "scratch"], ["main", "large"]]
        .map(|stack| program.stack(&stack));
    let mut objects = vec![program.malloc(large, 10 << 20)];
    objects.extend((0..20).map(|_| program.malloc_usable(page, 4104, 5120)));
    for _ in 0..1000 {
        let buffer = program.malloc(scratch, 30_000);
        program.free(buffer);
    }
    objects.into_iter().for_each(|object| program.free(object));
    let kinds = |options| {
        program.findings(options).1.findings.iter().map(|finding| finding.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(Options::default()), [CHURN, CLOWNSHOES]);
    assert_eq!(kinds(Options { peak_part: 1000, ..Options::default() }), [CLOWNSHOES, CHURN]);
}

#[test]
fn a_single_request_is_no_habit() {
    let level = |requests: u64, with_stack: bool| {
        let mut program = Program::new();
        let stack = program.stack(&["main", "buffer"]);
        for _ in 0..requests {
            program.malloc(if with_stack { stack } else { 0 }, 12_345);
        }
        let (_, findings) = program.findings(Options {
            basis: Some(Basis::Table(Allocator::Jemalloc)),
            ..Options::default()
        });
        let shoe =
            findings.findings.into_iter().find(|finding| finding.kind == CLOWNSHOES).unwrap();
        (shoe.confidence.level, shoe.confidence.reason)
    };
    let (one, reason) = level(1, true);
    assert_eq!(
        (one, reason.as_str()),
        (
            Level::Low,
            "the waste follows from the size alone; 1 request may just have the size of the content"
        )
    );
    assert_eq!([level(7, true).0, level(8, true).0], [Level::Low, Level::Medium]);
    let beside = |large: u64| {
        let mut program = Program::new();
        let stacks = [program.stack(&["main", "buffer"]), program.stack(&["main", "large"])];
        program.malloc(stacks[1], large);
        program.malloc(stacks[0], 12_345);
        shoes(
            &program
                .findings(Options {
                    basis: Some(Basis::Table(Allocator::Jemalloc)),
                    ..Options::default()
                })
                .1,
        )
        .len()
    };
    assert_eq!([beside(100_000), beside(1 << 20)], [1, 0], "felt at the peak, or not mentioned");
    let (unplaced, reason) = level(1000, false);
    assert!(unplaced == Level::Low && reason.contains("without call stacks"), "{reason}");
}
