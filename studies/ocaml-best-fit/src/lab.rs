//! The lab: OCaml's heap with both policies on workloads like the programs', with counts instead of
//! times.
//!
//! Space is the pages that ever contained an object. Time is the collector's work in words, as in
//! the document's model: each cycle marks the live words and sweeps the heap; the free blocks that
//! searches look at are added. No compaction runs in these workloads, so a touched page stays
//! touched.

use crate::OVERHEADS;
use anyhow::{Result, ensure};
use heaplab_curve::compare::{Fitted, fit_exact, space_at_equal_time, time_at_equal_space};
use heaplab_curve::fit::{Curve, Point};
use heaplab_curve::results::{CurveResult, Ratio};
use heaplab_heap::{Birth, Collected, Object, Origin, Place, World};
use heaplab_ocaml::spec::Spec;
use heaplab_ocaml::{Counters, OCaml};
use heaplab_ocamlrt::{Driver, OCamlError, Step};
use std::collections::HashSet;
use std::ptr::NonNull;

/// A small minor heap: with the default one these workloads saturate the pacing, and `o` has no
/// effect.
const MINOR: &str = "s=16k";
const POLICIES: [&str; 2] = ["next-fit", "best-fit"];
const PAGE_BYTES: usize = 4096;
const MIB: f64 = 1_048_576.0;

/// A generator with a stated sequence (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * u128::from(bound)) >> 64) as u64
    }

    /// Bytes of a string of strcache.
    fn string(&mut self) -> usize {
        let bytes = match self.below(100) {
            0..50 => 8 + self.below(56),
            50..85 => 64 + self.below(448),
            85..98 => 512 + self.below(3584),
            _ => 4096 + self.below(28_672),
        };
        // A string ends with a byte that tells the unused bytes of its last word.
        bytes as usize + 1
    }
}

/// Random replacement in a cache of strings, as in strcache.
fn cache(slots: u32, births: usize) -> Vec<Step> {
    let mut random = Random(42);
    let birth =
        |_| Step::Birth { slot: random.below(u64::from(slots)) as u32, size: random.string() };
    (0..births).map(birth).collect()
}

/// The same in a growing cache: the number of slots is an eighth of the births so far.
fn growing(births: usize) -> Vec<Step> {
    let mut random = Random(42);
    let birth = |nth: usize| Step::Birth {
        slot: random.below(nth as u64 / 8 + 1) as u32,
        size: random.string(),
    };
    (0..births).map(birth).collect()
}

fn slots(steps: &[Step]) -> u32 {
    let slot = |step: &Step| match step {
        Step::Birth { slot, .. } | Step::Death { slot } => slot + 1,
        _ => 0,
    };
    steps.iter().map(slot).max().unwrap_or_default()
}

/// The counts of a run.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub counters: Counters,
    placement: u64,
    /// Pages of the major heap that contained an object.
    touched_bytes: f64,
    /// Million words marked and swept, and free blocks looked at.
    work: f64,
}

impl Counted {
    pub fn top_bytes(&self) -> f64 {
        self.counters.top_heap_words as f64 * 8.0
    }

    pub fn touched_bytes(&self) -> f64 {
        self.touched_bytes
    }

    fn point(&self) -> Point {
        let words = self.counters.major_words as f64;
        let garbage = Some(words / self.counters.major_collections as f64);
        Point { time: self.work, space: self.touched_bytes / MIB, garbage }
    }
}

/// The workload's objects, and the pages that contained them.
struct Table {
    objects: Vec<Option<Object>>,
    touched: HashSet<usize>,
}

impl Table {
    /// Notes that an object lies here from now on, with its header before it.
    fn touch(&mut self, address: NonNull<u8>, bytes: usize) {
        let first = (address.as_ptr() as usize - 8) / PAGE_BYTES;
        let last = (address.as_ptr() as usize + bytes.max(1) - 1) / PAGE_BYTES;
        self.touched.extend(first..=last);
    }
}

impl World for Table {
    fn slots(&self) -> u32 {
        self.objects.len() as u32
    }

    fn object(&self, slot: u32) -> Option<Object> {
        self.objects[slot as usize]
    }

    fn fields(&self, _: u32, _: &mut dyn FnMut(u32)) {}

    fn moved(&mut self, slot: u32, to: NonNull<u8>) {
        let Some(object) = &mut self.objects[slot as usize] else { return };
        object.address = to;
        let size = object.size;
        self.touch(to, size);
    }

    fn reclaimed(&mut self, _: u32) {}
}

/// Runs a workload in heaplab's heap.
fn run(spec: Spec, steps: &[Step]) -> Result<Counted> {
    let mut heap = OCaml::new(spec)?;
    let objects = vec![None; slots(steps) as usize];
    let mut table = Table { objects, touched: HashSet::new() };
    for step in steps {
        let &Step::Birth { slot, size } = step else { continue };
        let birth = Birth { slot, size, align: 1, origin: Origin::Generated, place: Place::Any };
        let address = heap.allocate(birth, &mut table)?;
        let object = Object { address, size, root: true };
        let before = table.objects[slot as usize].replace(object);
        if heap.locate(address).0.is_some() {
            table.touch(address, size);
        }
        heap.stored(slot, before.map(|object| object.address), Some(address));
        heap.safepoint(&mut table)?;
    }
    let counters = heap.counters();
    ensure!(counters.compactions == 0, "{spec:?}: a compaction gave pages back");
    let cycles = heap.collections().iter();
    let words = cycles
        .map(|one| (one.work.unwrap_or_default().marked_bytes + one.after.committed_bytes) / 8);
    let work = (words.sum::<u64>() + heap.search_steps()) as f64 / 1e6;
    let touched_bytes = (table.touched.len() * PAGE_BYTES) as f64;
    Ok(Counted { counters, placement: heap.placement(), touched_bytes, work })
}

fn spec(policy: &str, overhead: usize) -> Result<Spec> {
    Ok(Spec::parse(&format!("{policy},o={overhead},{MINOR}"))?)
}

/// Both policies over the document's range.
pub fn curves() -> Result<[Vec<Counted>; 2]> {
    let steps = cache(4_000, 100_000);
    let of = |policy: usize| -> Result<Vec<Counted>> {
        let run = |overhead| run(spec(POLICIES[policy], overhead)?, &steps);
        OVERHEADS.into_iter().map(run).collect()
    };
    Ok([of(0)?, of(1)?])
}

/// Points of next-fit that are dominated by a point of best-fit.
pub fn dominates() -> Result<String> {
    let [next, best] = curves()?;
    let dominated = |points: &[Counted], by: &[Counted]| {
        let below = |point: &&Counted| {
            by.iter().any(|one| one.touched_bytes < point.touched_bytes && one.work < point.work)
        };
        format!("{} of {}", points.iter().filter(below).count(), points.len())
    };
    Ok(format!("next-fit's {}; best-fit's {}", dominated(&next, &best), dominated(&best, &next)))
}

/// Ratios of best-fit to next-fit at equal o.
pub fn further_along() -> Result<String> {
    let [next, best] = curves()?;
    let ratio = |of: fn(&Counted) -> f64| {
        range(next.iter().zip(&best).map(|(next, best)| of(best) / of(next)))
    };
    Ok(format!(
        "touched {}, cycles {}, work {}",
        ratio(|run| run.touched_bytes),
        ratio(|run| run.counters.major_collections as f64),
        ratio(|run| run.work)
    ))
}

/// This many values, each a twentieth larger than the previous one.
pub fn growing_by_a_twentieth(least: usize, count: usize) -> Vec<usize> {
    std::iter::successors(Some(least), |value| Some(value + value / 20)).take(count).collect()
}

/// The growing workload over its births, with next-fit and best-fit.
pub fn grown() -> Result<Vec<(usize, [Counted; 2])>> {
    let runs = growing_by_a_twentieth(40_000, 16).into_iter().map(|births| {
        let steps = growing(births);
        let [next, best] = POLICIES.map(|policy| run(spec(policy, 80)?, &steps));
        Ok((births, [next?, best?]))
    });
    runs.collect()
}

/// Steps of a twentieth that do not change top_heap_words.
pub fn quantised() -> Result<String> {
    let grown = grown()?;
    let [next, best] = [0, 1].map(|policy: usize| {
        hidden(&grown.iter().map(|(_, both)| both[policy].top_bytes()).collect::<Vec<_>>())
    });
    Ok(format!("steps of 5 % that leave top_heap_words as it is: next-fit {next}, best-fit {best}"))
}

/// Ratio of touched pages to the heap's.
pub fn resident() -> Result<String> {
    let grown = grown()?;
    let [next, best] = [0, 1].map(|policy: usize| {
        range(grown.iter().map(|(_, both)| both[policy].touched_bytes / both[policy].top_bytes()))
    });
    let saved = |of: fn(&Counted) -> f64| {
        let sum = |policy: usize| grown.iter().map(|(_, both)| of(&both[policy])).sum::<f64>();
        sum(1) / sum(0)
    };
    Ok(format!(
        "touched / top heap over 16 runs: next-fit {next}, best-fit {best}; best-fit / next-fit: top heap {:.2}, touched {:.2}",
        saved(Counted::top_bytes),
        saved(Counted::touched_bytes)
    ))
}

/// The fits of both policies.
pub fn fits() -> Result<[(Fitted, CurveResult); 2]> {
    Ok(curves()?.map(|runs| fit_exact(runs.iter().map(Counted::point).collect())))
}

/// Ratios of both policies' parameters.
pub fn model() -> Result<String> {
    let fits = fits()?;
    let curves = fits.each_ref().map(|(fitted, _)| fitted.curve.whole);
    let off = fits.each_ref().map(|(_, result)| result.residuals);
    Ok(format!("best-fit / next-fit: {}", parameters(curves, off)))
}

/// Ratios of best-fit to next-fit at equal work, and at equal space.
pub fn equal_time() -> Result<String> {
    let [(next, _), (best, _)] = fits()?;
    Ok(format!(
        "best-fit / next-fit: space at equal work {}, work at equal space {}",
        ratio(space_at_equal_time(&next, &best)),
        ratio(time_at_equal_space(&next, &best))
    ))
}

/// Compares every cell of the curves and of the growing workload with the real runtime; `None`:
/// there is no OCaml 4.
pub fn as_the_real_one() -> Result<Option<String>> {
    let driver = match Driver::build() {
        Err(OCamlError::Missing | OCamlError::Version(_)) => return Ok(None),
        driver => driver?,
    };
    let mut workloads = vec![(cache(4_000, 100_000), OVERHEADS.to_vec())];
    let births = growing_by_a_twentieth(40_000, 16);
    workloads.extend(births.into_iter().map(|births| (growing(births), vec![80])));
    let (mut cells, mut equal) = (0, 0);
    for (steps, overheads) in workloads {
        for (policy, overhead) in
            POLICIES.iter().flat_map(|policy| overheads.iter().map(move |one| (policy, *one)))
        {
            let text = format!("{policy},o={overhead},{MINOR},version={}", driver.version());
            let spec = Spec::parse(&text)?;
            let ours = run(spec, &steps)?;
            let theirs = driver.run(&spec, slots(&steps), steps.iter().copied(), false)?.end;
            cells += 1;
            let same = (ours.counters, ours.placement) == (theirs.counters, theirs.placement);
            equal += usize::from(same);
        }
    }
    Ok(Some(format!("{equal} of {cells} cells equal: all counters, and where each object lies")))
}

/// The least and the most of some ratios.
pub fn range(ratios: impl Iterator<Item = f64>) -> String {
    let (least, most) = ratios.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), ratio| {
        (least.min(ratio), most.max(ratio))
    });
    format!("{least:.2} to {most:.2}")
}

/// Number of values equal to the previous run's.
pub fn hidden(values: &[f64]) -> String {
    let same = values.windows(2).filter(|pair| pair[0] == pair[1]).count();
    format!("{same} of {}", values.len().saturating_sub(1))
}

/// The parameters of best-fit's curve relative to those of next-fit's, and the distances of points
/// from both, in time and in space.
pub fn parameters(curves: [Option<Curve>; 2], off: [(f64, f64); 2]) -> String {
    let [Some(next), Some(best)] = curves else { return "no curve fits".into() };
    let off = off.map(|(time, space)| format!("{:.1} % and {:.1} %", time * 100.0, space * 100.0));
    format!(
        "a {:.2}, b {:.2}, c {:.2}; time and space off the curve by {}, and {}",
        best.a / next.a,
        best.b / next.b,
        best.c / next.c,
        off[0],
        off[1]
    )
}

/// A ratio at equal time or space, or why there is none.
pub fn ratio(ratio: Result<Ratio, &'static str>) -> String {
    match ratio {
        Ok(ratio) => {
            let by = if ratio.method == "points" { " by points" } else { "" };
            format!("{:.2}{by}", ratio.mean.value)
        }
        Err(reason) => format!("none ({reason})"),
    }
}
