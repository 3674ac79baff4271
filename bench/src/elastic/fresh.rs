//! A new arena each time, on memory that the kernel must first provide, beside a new `Bump`; and
//! the kernel's time for a page.
//!
//! Nearly all of this time is page faults, and a fault's time varies by a third with the place of
//! the code that causes it. With the same number of faults, on the same physical pages, a copy of
//! bumpalo's loop takes 44 to 58 ns an allocation. The faster copies have the faulting store as the
//! last instruction of its cache line (on an AMD EPYC under KVM, whose counters do not show a
//! cause; the range is printed). The rest of the binary decides this place. So each pair runs
//! copies of both loops at different places and compares the sums.

use super::peers::{trim_system, words};
use super::time::{Ratio, cpu_ns, faults, median, timed, touch};
use super::workload::sizes;
use anyhow::Result;
use bumpalo::Bump;
use heaplab_elastic::{Arena, Growth, Options, Reclaim, Space};
use std::hint::black_box;

/// Moves the code behind it to the start of a cache line, and on by this many instructions without
/// effect.
macro_rules! placed {
    ($nops:ident) => {
        // SAFETY: nothing is read or written.
        unsafe { std::arch::asm!(".balign 64", ".rept {nops}", "nop", ".endr", nops = const $nops, options(nomem, nostack, preserves_flags)) }
    };
}

#[inline(never)]
pub fn fill_elastic<const NOPS: usize>(arena: &Arena, sizes: &[u32]) {
    placed!(NOPS);
    for (nth, size) in sizes.iter().enumerate() {
        touch(arena.allocate(words(*size as usize)).expect("memory").as_ptr(), nth);
    }
}

#[inline(never)]
pub fn fill_bumpalo<const NOPS: usize>(bump: &Bump, sizes: &[u32]) {
    placed!(NOPS);
    for (nth, size) in sizes.iter().enumerate() {
        touch(bump.alloc_layout(words(*size as usize)).as_ptr(), nth);
    }
}

type Fills = (fn(&Arena, &[u32]), fn(&Bump, &[u32]));

fn fills<const NOPS: usize>() -> Fills {
    (fill_elastic::<NOPS>, fill_bumpalo::<NOPS>)
}

/// Loops begin at multiples of 16 bytes: each of the four places in a cache line occurs twice.
const PLACEMENTS: usize = 8;

fn placements() -> [Fills; PLACEMENTS] {
    [
        fills::<0>(),
        fills::<16>(),
        fills::<32>(),
        fills::<48>(),
        fills::<64>(),
        fills::<80>(),
        fills::<96>(),
        fills::<112>(),
    ]
}

/// The measurement.
#[derive(Debug, serde::Serialize)]
pub struct Fresh {
    /// The ratio of the sums over all placements, as ns an allocation.
    pub ratio: Ratio,
    /// Medians by placement, ours and the peer's.
    pub placed_ns: Vec<(f64, f64)>,
    /// Page faults of one pass, ours and the peer's; pages populated in one call count too.
    pub faults: (i64, i64),
}

impl Fresh {
    /// The least and the most over the placements, ours and the peer's.
    pub fn spread(&self) -> String {
        let ends = |of: fn(&(f64, f64)) -> f64| {
            let all = || self.placed_ns.iter().map(of);
            format!(
                "{:.1} to {:.1}",
                all().fold(f64::INFINITY, f64::min),
                all().fold(0.0, f64::max)
            )
        };
        format!("{} and {}", ends(|pair| pair.0), ends(|pair| pair.1))
    }
}

/// ns an allocation, and page faults.
fn counted(sizes: &[u32], pass: impl FnMut()) -> (f64, i64) {
    let before = faults();
    let ns = timed(sizes, 1, pass);
    (ns, faults() - before)
}

fn ours(space: &Space, fill: fn(&Arena, &[u32]), sizes: &[u32]) -> Result<(f64, i64)> {
    let mut arena = None;
    let measured = counted(sizes, || {
        let fresh = space.arena(Growth::LARGE).expect("memory");
        fill(black_box(&fresh), sizes);
        arena = Some(fresh);
    });
    drop(arena);
    space.trim()?;
    Ok(measured)
}

fn peer(fill: fn(&Bump, &[u32]), sizes: &[u32]) -> (f64, i64) {
    let mut bump = None;
    let measured = counted(sizes, || {
        let fresh = Bump::new();
        fill(black_box(&fresh), sizes);
        bump = Some(fresh);
    });
    drop(bump);
    trim_system();
    measured
}

/// `count` blocks with their first word written, in a new arena and in a new `Bump`.
pub fn fresh(count: usize, huge_pages: bool, repetitions: usize) -> Result<Fresh> {
    let sizes = sizes(count, usize::MAX, 7)?;
    let space = Space::new(Options { reclaim: Reclaim::AtTrim, huge_pages, ..Options::default() })?;
    let (mut pairs, mut placed) = (Vec::new(), vec![(Vec::new(), Vec::new()); PLACEMENTS]);
    let mut faults = (0, 0);
    for repetition in 0..repetitions {
        let mut sum = (0.0, 0.0);
        for (nth, (fill_ours, fill_peer)) in placements().into_iter().enumerate() {
            // The order alternates, so that pages left behind serve both alike.
            let (one, other) = if (repetition + nth) % 2 == 0 {
                let one = ours(&space, fill_ours, &sizes)?;
                (one, peer(fill_peer, &sizes))
            } else {
                let other = peer(fill_peer, &sizes);
                (ours(&space, fill_ours, &sizes)?, other)
            };
            sum = (sum.0 + one.0, sum.1 + other.0);
            placed[nth].0.push(one.0);
            placed[nth].1.push(other.0);
            faults = (one.1, other.1);
        }
        pairs.push((sum.0 / PLACEMENTS as f64, sum.1 / PLACEMENTS as f64));
    }
    let placed_ns = placed.into_iter().map(|(ours, peer)| (median(ours), median(peer))).collect();
    Ok(Fresh { ratio: Ratio::of(&pairs), placed_ns, faults })
}

/// CPU time of a page of the basic size, ns: at its first touch, or populated in calls of this many
/// bytes and then touched. The least of five rounds.
pub fn page_ns(populated_bytes: Option<usize>) -> Result<f64> {
    const BYTES: usize = 32 << 20;
    let mut least = f64::INFINITY;
    for _ in 0..5 {
        let mut memory = memmap2::MmapMut::map_anon(BYTES)?;
        memory.advise(memmap2::Advice::NoHugePage)?;
        let (page, start) = (super::drops::PAGE_BYTES, cpu_ns());
        for part in (0..BYTES).step_by(populated_bytes.unwrap_or(BYTES)) {
            if let Some(bytes) = populated_bytes {
                memory.advise_range(memmap2::Advice::PopulateWrite, part, bytes)?;
            }
            for at in (part..BYTES.min(part + populated_bytes.unwrap_or(BYTES))).step_by(page) {
                memory[at] = 1;
            }
        }
        black_box(&memory);
        least = least.min((cpu_ns() - start) as f64 / (BYTES / page) as f64);
    }
    Ok(least)
}

/// CPU time of a huge page's first touch, ns: the median of 16 pages, three times; `None`: the
/// kernel gives none.
pub fn huge_page_ns() -> Result<Option<f64>> {
    const BYTES: usize = 2 << 20;
    const PAGES: usize = 16;
    let mut taken = Vec::new();
    for _ in 0..3 {
        let mut memory = memmap2::MmapMut::map_anon((PAGES + 1) * BYTES)?;
        memory.advise(memmap2::Advice::HugePage)?;
        let first = memory.as_ptr().align_offset(BYTES);
        let faults_before = faults();
        for page in 0..PAGES {
            let start = cpu_ns();
            memory[first + page * BYTES] = 1;
            taken.push((cpu_ns() - start) as f64);
            // If these bytes existed already, or the page was not huge, each of them takes a second
            // fault.
            memory[first + page * BYTES + BYTES / 2] = 1;
        }
        if faults() - faults_before >= 2 * PAGES as i64 {
            return Ok(None);
        }
        black_box(&memory);
    }
    Ok(Some(median(taken)))
}
