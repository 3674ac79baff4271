//! Claims that need a workload: the document's own, generated anew, and the recording of SQLite.

use anyhow::{Context, Result};
use heaplab_findings::{Basis, CountsTable, Findings, Growth, Options, find};
use heaplab_profile::Profile;
use heaplab_size_class::Allocator;
use heaplab_study::{in_tree, replayed};
use heaplab_text::words::count;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::source::Slice;
use heaplab_trace::tables::{StackNode, Tables};
use heaplab_trace::{Event, EventSource, Op};

/// The document's ten most frequent lines, of 909,062: request and count.
const DOCUMENT_COUNTS: [(u64, u64); 10] = [
    (24, 205_920),
    (72, 66_162),
    (40, 61_772),
    (1_056, 54_386),
    (18, 48_501),
    (15, 47_668),
    (4_095, 24_938),
    (56, 24_278),
    (104, 13_064),
    (136, 12_852),
];
const DOCUMENT_REQUESTS: u64 = 909_062;

/// The document's allocations, generated again: its ten lines, and the rest as sizes that each
/// occur too rarely to be listed.
pub fn counts() -> Result<String> {
    let listed: u64 = DOCUMENT_COUNTS.iter().map(|(_, count)| count).sum();
    let rest = (0..DOCUMENT_REQUESTS - listed).map(|index| 200 + index % 512);
    let requests = DOCUMENT_COUNTS
        .iter()
        .flat_map(|(size, count)| std::iter::repeat_n(*size, *count as usize))
        .chain(rest);
    let mut workload = Workload::default();
    for size in requests {
        let object = workload.allocate(size);
        workload.free(object);
    }
    let found = workload.findings(Allocator::Firefox2011)?;
    Ok(lines(&found.counts, 4))
}

fn lines(counts: &CountsTable, most: usize) -> String {
    let line = |row: &heaplab_findings::CountsRow| {
        format!(
            "{} ({:.1}%, {:.1}%): {} -> {} ({})",
            row.count, row.percent, row.cumulative_percent, row.request, row.usable, row.slop
        )
    };
    counts.rows.iter().take(most).map(line).collect::<Vec<_>>().join("; ")
}

/// The buffer of 1 MiB, grown in the document's three ways, as the growth finding sums it up.
pub fn just_enough() -> Result<String> {
    const MIB: u64 = 1 << 20;
    let by_bytes = growth_of((1..=MIB).collect())?;
    let by_pages = growth_of((1..=256).map(|pages| pages * 4_096).collect())?;
    let cumulative =
        [by_bytes.cumulative_bytes, by_pages.cumulative_bytes, by_pages.doubling_cumulative_bytes];
    Ok(cumulative.map(count).join("; "))
}

fn growth_of(sizes: Vec<u64>) -> Result<Growth> {
    let mut workload = Workload::default();
    let buffer = workload.allocate(sizes[0]);
    for size in &sizes[1..] {
        workload.reallocate(buffer, *size);
    }
    workload.free(buffer);
    let found = workload.findings(Allocator::Firefox2011)?;
    let growth = found.findings.iter().find_map(|finding| finding.evidence::<Growth>().cloned());
    growth.context("the growth of the buffer was not found")
}

/// SQLite's blocks against the sizes that it assumes: each request less the 8 bytes for the size.
pub fn sqlite() -> Result<String> {
    const HEADER_BYTES: u64 = 8;
    let bundle = Bundle::open(&in_tree("traces/sqlite.heaplab"))?;
    let (profile, _) = analyse(
        bundle.tables(),
        &mut bundle.events(Selection::default())?,
        Allocator::Firefox2011,
    )?;
    let ratio = |allocator: Allocator| {
        let real: u64 = profile
            .sizes
            .iter()
            .map(|row| row.at_peak.objects * allocator.usable(row.request, 1))
            .sum();
        let believed: u64 = profile
            .sizes
            .iter()
            .map(|row| row.at_peak.objects * row.request.saturating_sub(HEADER_BYTES))
            .sum();
        real as f64 / believed as f64
    };
    let shown =
        [Allocator::Firefox2011, Allocator::Jemalloc, Allocator::Mimalloc, Allocator::Glibc]
            .map(|allocator| format!("{:.2}x on {}", ratio(allocator), allocator.name()));
    Ok(shown.join(", "))
}

/// Buffers that grow side by side by pages and by doubling; then nine of ten close. Measures the
/// remaining resident bytes, after a trim.
pub fn growth_fragmentation() -> Result<String> {
    let by_pages = growing_buffers(|size| size + 4_096);
    let doubling = growing_buffers(|size| size * 2);
    let heaps = ["jemalloc", "glibc", "mimalloc"];
    let left = |workload: &Workload| -> Result<Vec<f64>> {
        let results = replayed(&workload.tables(), &workload.events, &heaps, &["--space"])?;
        results
            .heaps
            .iter()
            .map(|heap| {
                let space = heap
                    .space
                    .as_ref()
                    .with_context(|| format!("{}: no space was measured", heap.heap))?;
                Ok(space.trimmed_resident_bytes.unwrap_or(space.end_resident_bytes) as f64
                    / f64::from(1 << 20))
            })
            .collect()
    };
    let (by_pages, doubling) = (left(&by_pages)?, left(&doubling)?);
    let shown: Vec<_> = heaps
        .iter()
        .zip(by_pages.iter().zip(&doubling))
        .map(|(heap, (pages, doubling))| {
            format!("{heap} {pages:.1} -> {doubling:.1} MiB ({:+.1})", doubling - pages)
        })
        .collect();
    Ok(format!("left after closing and trimming, by pages -> doubling: {}", shown.join(", ")))
}

/// 400 buffers grow in turn to between 32 and 544 KiB. Each step stands beside two small objects,
/// and one in eight of these stays. Then 360 of the buffers are freed.
fn growing_buffers(next: impl Fn(u64) -> u64) -> Workload {
    const BUFFERS: usize = 400;
    let mut random = Random(42);
    let mut workload = Workload::default();
    let mut buffers: Vec<_> = (0..BUFFERS)
        .map(|_| (workload.allocate(4_096), 4_096, 32 * 1024 + random.below(512 * 1024)))
        .collect();
    while buffers.iter().any(|(_, size, goal)| size < goal) {
        for (buffer, size, goal) in buffers.iter_mut().filter(|(_, size, goal)| size < goal) {
            *size = next(*size).min((*goal).next_multiple_of(4_096));
            workload.reallocate(*buffer, *size);
            for _ in 0..2 {
                let small = workload.allocate(16 + random.below(240));
                if random.below(8) != 0 {
                    workload.free(small);
                }
            }
        }
    }
    for (index, (buffer, ..)) in buffers.iter().enumerate() {
        if index % 10 != 0 {
            workload.free(*buffer);
        }
    }
    workload
}

/// A recycling cache saves a pair of calls for each buffer of 32 KB: the cost of such a pair on
/// today's heaps.
pub fn recycling() -> Result<String> {
    let mut workload = Workload::default();
    let mut held = std::collections::VecDeque::new();
    for _ in 0..50_000 {
        held.push_back(workload.allocate(32 * 1024));
        if held.len() > 24 {
            held.pop_front().into_iter().for_each(|buffer| workload.free(buffer));
        }
    }
    let results = replayed(
        &workload.tables(),
        &workload.events,
        &["glibc", "jemalloc", "mimalloc"],
        &["--time", "--touch", "none", "--reps", "5"],
    )?;
    let pairs: Vec<_> = results
        .heaps
        .iter()
        .filter_map(|heap| {
            heap.time
                .as_ref()
                .map(|time| format!("{} {:.0} ns", heap.heap, 2.0 * time.ns_per_event.value))
        })
        .collect();
    Ok(format!("an allocation and free of 32 KB: {}", pairs.join(", ")))
}

fn analyse(
    tables: &Tables,
    source: &mut impl EventSource,
    allocator: Allocator,
) -> Result<(Profile, Findings)> {
    let options = Options { basis: Some(Basis::Table(allocator)), ..Options::default() };
    Ok(find(tables, source, &heaplab_profile::ProfileOptions::default(), options)?)
}

/// A workload under construction: one process, one thread, one stack.
#[derive(Default)]
pub struct Workload {
    pub events: Vec<Event>,
    objects: u64,
}

impl Workload {
    pub fn allocate(&mut self, size: u64) -> u64 {
        let object = self.objects;
        self.objects += 1;
        self.push(Event { op: Op::Alloc, object, size, stack: 1, ..Event::default() });
        object
    }

    pub fn reallocate(&mut self, object: u64, size: u64) {
        self.push(Event { op: Op::Realloc, object, size, stack: 1, ..Event::default() });
    }

    fn free(&mut self, object: u64) {
        self.push(Event { op: Op::Free, object, ..Event::default() });
    }

    fn push(&mut self, event: Event) {
        self.events.push(Event { time_ns: self.events.len() as u64, ..event });
    }

    pub fn tables(&self) -> Tables {
        Tables {
            stacks: vec![StackNode::default(), StackNode { parent: 0, frame: 0 }],
            frames: vec![Default::default()],
            processes: vec![Default::default()],
            threads: vec![Default::default()],
            arenas: vec![Default::default()],
            ..Tables::default()
        }
    }

    fn findings(&self, allocator: Allocator) -> Result<Findings> {
        Ok(analyse(&self.tables(), &mut Slice(&self.events), allocator)?.1)
    }
}

/// A small generator (Knuth's MMIX constants), so that a workload is the same on every machine and
/// with every library's version.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
