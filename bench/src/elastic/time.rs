//! Time: one arena filled again and again, beside bumpalo; the recordings replayed.

use super::fresh::{fill_bumpalo, fill_elastic};
use super::peers::{Blocks, Bumpalo, Counting, Elastic, Peer, Placed};
use super::workload::{Recording, Step, sizes};
use crate::sign_test::Interval;
use anyhow::Result;
use heaplab_elastic::{Growth, Options, Reclaim, Space};
use heaplab_system::{glibc::Glibc, mimalloc::Mimalloc};
use std::hint::black_box;

/// CPU time of this thread, ns, without the time of other processes.
pub fn cpu_ns() -> u64 {
    // SAFETY: a timespec of zeros is valid, and the call fills it.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Figures of pairs measured one after the other: medians, and the ratio with its limits.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Ratio {
    /// Median of ours.
    pub ours: f64,
    /// Median of the peer's.
    pub peer: f64,
    /// Median of the pairs' ratios.
    pub median: f64,
    /// Its upper 95 % limit.
    pub upper: f64,
}

impl Ratio {
    /// From at least one pair (ours, the peer's). The limit is the upper end of the sign test's
    /// interval: the true median exceeds it in at most one of forty samples, for any distribution.
    /// With fewer than six pairs it is the largest ratio.
    pub fn of(pairs: &[(f64, f64)]) -> Ratio {
        let ratios: Vec<f64> = pairs.iter().map(|(ours, peer)| ours / peer).collect();
        let middle = median(ratios.clone());
        Ratio {
            ours: median(pairs.iter().map(|pair| pair.0).collect()),
            peer: median(pairs.iter().map(|pair| pair.1).collect()),
            median: middle,
            upper: Interval::of(&ratios).map_or(middle, |interval| interval.most),
        }
    }
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A median with the ends of the sign test's interval.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Middle {
    /// The lower end.
    pub lower: f64,
    /// The median.
    pub median: f64,
    /// The upper end.
    pub upper: f64,
}

impl Middle {
    /// From at least one value; a single value is its own interval.
    pub fn of(values: Vec<f64>) -> Middle {
        let ends = Interval::of(&values);
        let median = median(values);
        Middle {
            lower: ends.map_or(median, |ends| ends.least),
            median,
            upper: ends.map_or(median, |ends| ends.most),
        }
    }
}

impl std::fmt::Display for Middle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:.3} ({:.3} to {:.3})", self.median, self.lower, self.upper)
    }
}

/// Writes the first word of a block.
#[inline(always)]
pub fn touch(block: *mut u8, value: usize) {
    // SAFETY: every block of these workloads has a word.
    unsafe { block.cast::<usize>().write(value) };
}

/// ns an allocation of one pass over `sizes`, repeated for a few milliseconds.
pub fn timed(sizes: &[u32], passes: usize, mut pass: impl FnMut()) -> f64 {
    let start = cpu_ns();
    for _ in 0..passes {
        pass();
    }
    (cpu_ns() - start) as f64 / (passes * sizes.len()) as f64
}

/// Number of fills of each placement before it is timed (bumpalo has one chunk for everything only
/// after some resets), and number of timed ones.
const WARMING: usize = 3;
const TIMED: usize = 5;

/// One arena that is filled, reset and filled again, beside bumpalo's reset. Each repetition has a
/// new space and a new `Bump`, and takes the median of several passes. The pages that the kernel
/// gives move the part outside of the cache by a tenth either way, for as long as the memory is
/// held. So passes over the same memory are not samples of their own.
pub fn reuse(count: usize, repetitions: usize) -> Result<Ratio> {
    let sizes = sizes(count, usize::MAX, 7)?;
    let passes = (200_000 / count).max(1);
    let mut pairs = Vec::new();
    for placement in 0..repetitions {
        let space = Space::new(Options { reclaim: Reclaim::AtTrim, ..Options::default() })?;
        let (mut arena, mut bump) = (space.arena(Growth::LARGE)?, bumpalo::Bump::new());
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        for pass in 0..WARMING + TIMED {
            let mut one = || {
                timed(&sizes, passes, || {
                    arena.reset();
                    fill_elastic::<0>(black_box(&arena), &sizes);
                })
            };
            let mut other = || {
                timed(&sizes, passes, || {
                    bump.reset();
                    fill_bumpalo::<0>(black_box(&bump), &sizes);
                })
            };
            // The order alternates, so that data left in the caches serves both alike.
            let pair = if (pass + placement) % 2 == 0 {
                let ours = one();
                (ours, other())
            } else {
                let peer = other();
                (one(), peer)
            };
            if pass >= WARMING {
                ours.push(pair.0);
                peer.push(pair.1);
            }
        }
        pairs.push((median(ours), median(peer)));
    }
    Ok(Ratio::of(&pairs))
}

/// Page faults of this thread so far.
pub fn faults() -> i64 {
    // SAFETY: a rusage of zeros is valid, and the call fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_minflt
    }
}

/// Number of times that a process of the whole machine waited for the kernel to move pages for a
/// huge one, or got none, since the machine's start; 0: the kernel does not tell.
fn stalls() -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let counters = text.lines().filter_map(|line| line.split_once(' '));
    let wanted =
        counters.filter(|(name, _)| ["compact_stall", "thp_fault_fallback"].contains(name));
    wanted.filter_map(|(_, count)| count.parse::<u64>().ok()).sum()
}

/// The cost of one replay.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Replayed {
    /// ns an event.
    ns: f64,
    /// Page faults.
    faults: i64,
    /// Growth of [`stalls`] during the replay.
    stalls: u64,
}

/// Replays a recording; every block's first word is written.
#[inline(never)]
fn replay<P: Peer>(peer: &mut P, recording: &Recording, blocks: &mut [*mut u8]) -> Replayed {
    let stalls_before = stalls();
    let (start, before) = (cpu_ns(), faults());
    let mut born = 0;
    for step in &recording.steps {
        match *step {
            Step::Begin(arena) => peer.begin(arena as usize),
            Step::Allocate(arena, bytes) => {
                let block = peer.allocate(arena as usize, bytes as usize);
                touch(block, born);
                blocks[born] = block;
                born += 1;
            }
            Step::Free(block) => {
                let (arena, bytes) = recording.blocks[block as usize];
                // SAFETY: the recording frees only live blocks, each once.
                unsafe { peer.free(arena as usize, blocks[block as usize], bytes as usize) };
            }
            Step::End(arena) => end(peer, recording, blocks, arena),
            Step::Purge => {}
        }
    }
    let ns = (cpu_ns() - start) as f64 / recording.steps.len() as f64;
    let faults = faults() - before;
    let stalls = stalls().saturating_sub(stalls_before);
    // Arenas that outlive the recording are not part of it.
    let ended: std::collections::HashSet<u32> = recording
        .steps
        .iter()
        .filter_map(|step| if let Step::End(arena) = step { Some(*arena) } else { None })
        .collect();
    for step in &recording.steps {
        if let Step::Begin(arena) = step
            && !ended.contains(arena)
        {
            end(peer, recording, blocks, *arena);
        }
    }
    Replayed { ns, faults, stalls }
}

fn end<P: Peer>(peer: &mut P, recording: &Recording, blocks: &[*mut u8], arena: u32) {
    if !P::REGIONS {
        for block in &recording.dying[arena as usize] {
            // SAFETY: the blocks that die with the arena are live until here.
            unsafe {
                peer.free(
                    arena as usize,
                    blocks[*block as usize],
                    recording.blocks[*block as usize].1 as usize,
                )
            };
        }
    }
    peer.end(arena as usize);
}

/// Our arenas set for speed like mimalloc: they keep their memory, in huge pages, and take few
/// chunks.
const FAST: &str = "elastic in huge pages kept until trim";
/// The same with a sequence of chunks for each kind of arena, as HotSpot has: a loader's arena of
/// class space, or its other one. A JVM knows the kind when it makes an arena. Most loaders have
/// one class or few, so most arenas take one chunk. The bound applies to this setting.
pub const FAST_KINDS: &str = "elastic in huge pages kept until trim and chunks by kind of arena";
/// In class space a class takes some 520 to 720 bytes.
const CLASS_GROWTH: Growth = Growth::new(&[768, 16 << 10, 32 << 10]);
/// The other ones.
const NON_CLASS_GROWTH: Growth = Growth::new(&[3 << 10, 16 << 10, 32 << 10]);
/// Our arenas by default: they give memory back when arenas die.
const DEFAULT: &str = "elastic by default";
/// The same, but keeping as much as churn's next cycle needs: memory that is given back at a death
/// and needed again costs two calls of the kernel.
const KEEPING: &str = "elastic by default but keeping 16 MB";
const KEPT_BYTES: usize = 16 << 20;
/// The same in pages of the basic size; the kernel must provide each.
pub const SMALL_PAGES: &str = "elastic in small pages kept until trim";

/// The driver alone, and the bytes through which it counts: about churn's peak of live bytes.
pub const COUNTING: &str = "a pointer that counts up through resident memory";
const COUNTED_BYTES: usize = 18 << 20;

/// Only the driver's loop: every block is the same one.
pub const DRIVER: &str = "the driver alone";

/// The cost that remains if arenas cost nothing: the driver's loop, the kernel's pages, and the
/// writes into blocks at our places.
pub const PLACED: &str = "no allocator and each block where elastic had it in fresh huge pages";
/// The same in pages of the basic size.
const PLACED_SMALL_PAGES: &str =
    "no allocator and each block where elastic had it in fresh small pages";

/// mimalloc without huge pages: its time where the kernel has none, and the comparison for ours in
/// small pages.
pub const MIMALLOC_SMALL_PAGES: &str = "mimalloc in small pages";

/// The heaps of a replay.
const REPLAYED: [&str; 13] = [
    FAST,
    "mimalloc",
    DEFAULT,
    SMALL_PAGES,
    "glibc",
    "bumpalo",
    COUNTING,
    MIMALLOC_SMALL_PAGES,
    PLACED,
    PLACED_SMALL_PAGES,
    DRIVER,
    KEEPING,
    FAST_KINDS,
];
/// The compared pairs of [`REPLAYED`].
const COMPARED: [(usize, usize); 17] = [
    (12, 1),
    (12, 0),
    (0, 1),
    (8, 1),
    (12, 8),
    (2, 1),
    (3, 1),
    (3, 7),
    (9, 7),
    (3, 9),
    (0, 2),
    (0, 4),
    (0, 5),
    (6, 1),
    (10, 1),
    (11, 7),
    (11, 2),
];

/// Replays of one recording, each in a fresh process.
pub struct Replays {
    /// Our setting, or the first of the pair.
    pub setting: &'static str,
    /// The heap of the comparison.
    pub peer: &'static str,
    /// ns an event.
    pub ratio: Ratio,
    /// Page faults of both.
    pub faults: (i64, i64),
}

/// A replay that waited for huge pages runs again, at most this often. Moving other processes'
/// pages takes ten times a replay's time, and hits the process that comes when free memory is in
/// pieces.
const TRIES: usize = 6;

/// One replay in a fresh process, and whether its last try still waited for huge pages.
fn undisturbed(heap: &str, name: &str) -> Result<(Replayed, bool)> {
    let mut replayed = Replayed::default();
    for _ in 0..TRIES {
        replayed = super::space::in_child(&format!("replay,{heap},{name}"))?;
        if replayed.stalls == 0 {
            return Ok((replayed, false));
        }
    }
    Ok((replayed, true))
}

/// Replays one recording on everything in [`REPLAYED`]. The order reverses each time: a heap gets
/// its predecessor's pages, and these may still be in the cache.
pub fn replays(name: &str, repetitions: usize) -> Result<Vec<Replays>> {
    let (mut faults, mut disturbed) = ([0; REPLAYED.len()], 0);
    let mut pairs: [Vec<(f64, f64)>; COMPARED.len()] = Default::default();
    for repetition in 0..repetitions {
        let mut ns = [0.0; REPLAYED.len()];
        for nth in 0..REPLAYED.len() {
            let heap = if repetition % 2 == 0 { nth } else { REPLAYED.len() - 1 - nth };
            let (replayed, waited) = undisturbed(REPLAYED[heap], name)?;
            (ns[heap], faults[heap]) = (replayed.ns, replayed.faults);
            disturbed += usize::from(waited);
        }
        for (pairs, (ours, peer)) in pairs.iter_mut().zip(COMPARED) {
            pairs.push((ns[ours], ns[peer]));
        }
    }
    if disturbed > 0 {
        println!(
            "      {disturbed} of {} replays of {name} waited for huge pages {TRIES} times",
            repetitions * REPLAYED.len()
        );
    }
    let compared = COMPARED.iter().zip(&pairs);
    let one = |(&(ours, peer), pairs): (&(usize, usize), &Vec<(f64, f64)>)| Replays {
        setting: REPLAYED[ours],
        peer: REPLAYED[peer],
        ratio: Ratio::of(pairs),
        faults: (faults[ours], faults[peer]),
    };
    Ok(compared.map(one).collect())
}

/// Makes this much of the machine's free memory ready, in whole huge pages. A virtual machine's
/// host takes back memory that was free for a while. Giving it again, or moving pages for a huge
/// one, takes ten times a replay's time. The kernel gives the memory freed last next.
fn have_memory_ready(bytes: usize) -> Result<()> {
    let mut memory = memmap2::MmapMut::map_anon(bytes)?;
    memory.advise(memmap2::Advice::HugePage)?;
    for at in (0..bytes).step_by(super::drops::PAGE_BYTES) {
        memory[at] = 1;
    }
    black_box(&memory);
    Ok(())
}

/// A heap needs less than this many times the bytes that a recording requests in all.
const READY_SHARE: usize = 2;

/// The arenas of [`FAST_KINDS`].
fn fast_by_kind(recording: &Recording) -> Elastic {
    let growth =
        recording.class.iter().map(|class| if *class { CLASS_GROWTH } else { NON_CLASS_GROWTH });
    Elastic::fast(NON_CLASS_GROWTH).knowing(growth.collect())
}

/// The word that asks a child for [`by_turns`].
pub const BY_TURNS: &str = "replay by turns";
/// Pairs for each repetition of the other rows: a pair takes as long as two replays, without a
/// process for each.
const TURNS_A_REPETITION: usize = 4;

/// Ratio of [`FAST_KINDS`] to [`FAST`], replayed by turns in one fresh process. Other influences on
/// a replay's time, from other work on the machine to the kernel's choice of pages, move both. So
/// this shows a few percent that [`replays`] cannot show.
pub fn by_turns(name: &str, repetitions: usize) -> Result<Middle> {
    super::space::in_child(&format!("{BY_TURNS},{},{name}", repetitions * TURNS_A_REPETITION))
}

/// Runs in the child process of [`by_turns`].
pub fn by_turns_child(pairs: &str, name: &str) -> Result<Middle> {
    let recording = super::workload::recording(name, true)?;
    let mut blocks = vec![std::ptr::dangling_mut(); recording.blocks.len()];
    let mut one = |elastic: &mut Elastic| replay(elastic, &recording, &mut blocks).ns;
    let mut ratios = Vec::new();
    for pair in 0..pairs.parse()? {
        let (mut kinds, mut alike) = (fast_by_kind(&recording), Elastic::fast(Growth::FAST));
        let (ours, peer) = if pair % 2 == 0 {
            let ours = one(&mut kinds);
            (ours, one(&mut alike))
        } else {
            let peer = one(&mut alike);
            (one(&mut kinds), peer)
        };
        ratios.push(ours / peer);
    }
    Ok(Middle::of(ratios))
}

/// Runs in the child process of [`replays`]: one replay on memory that the process has not touched.
pub fn replay_child(heap: &str, name: &str) -> Result<Replayed> {
    let recording = super::workload::recording(name, true)?;
    have_memory_ready(
        READY_SHARE * recording.blocks.iter().map(|(_, bytes)| *bytes as usize).sum::<usize>(),
    )?;
    // The driver's own tables are not measured.
    let mut blocks = vec![std::ptr::dangling_mut(); recording.blocks.len()];
    replay(&mut Counting::through(0), &recording, &mut blocks);
    Ok(match heap {
        FAST => replay(&mut Elastic::fast(Growth::FAST), &recording, &mut blocks),
        FAST_KINDS => replay(&mut fast_by_kind(&recording), &recording, &mut blocks),
        SMALL_PAGES => {
            replay(&mut Elastic::new(Growth::STANDARD, Reclaim::AtTrim), &recording, &mut blocks)
        }
        // The environment switches huge pages off: see `space::in_child`.
        "mimalloc" | MIMALLOC_SMALL_PAGES => replay(&mut Blocks(Mimalloc), &recording, &mut blocks),
        "glibc" => replay(&mut Blocks(Glibc), &recording, &mut blocks),
        "bumpalo" => replay(&mut Bumpalo::default(), &recording, &mut blocks),
        PLACED | PLACED_SMALL_PAGES => {
            let huge_pages = heap == PLACED;
            let small = || Elastic::new(Growth::STANDARD, Reclaim::AtTrim);
            let mut elastic = if huge_pages { fast_by_kind(&recording) } else { small() };
            replay(&mut elastic, &recording, &mut blocks);
            // Elastic keeps its memory meanwhile, so the kernel gives other pages.
            replay(&mut Placed::like(&blocks, huge_pages)?, &recording, &mut blocks.clone())
        }
        COUNTING => replay(&mut Counting::through(COUNTED_BYTES), &recording, &mut blocks),
        DRIVER => replay(&mut Counting::through(0), &recording, &mut blocks),
        KEEPING => {
            let reclaim = Reclaim::AtReturn { keep_bytes: KEPT_BYTES };
            replay(&mut Elastic::new(Growth::STANDARD, reclaim), &recording, &mut blocks)
        }
        DEFAULT => {
            replay(&mut Elastic::new(Growth::STANDARD, Reclaim::default()), &recording, &mut blocks)
        }
        _ => anyhow::bail!("replay on {heap}: expected one of {REPLAYED:?}"),
    })
}
