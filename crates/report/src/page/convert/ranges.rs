//! Contents of each range in the page's form ([`model::Ranges`]).
//!
//! Stacks that share a node of the flame graph share its lives. If the numbers would take more than
//! [`limits::RANGES_CHARS`], steps are merged until they do not: sums stay exact, and a range is
//! chosen more coarsely.

use super::{flame::NodeOf, processes::thread_name};
use crate::Report;
use crate::page::{limits, model};
use flate2::{Compression, write::DeflateEncoder};
use heaplab_profile::{Amount, Lifetime, Ranges, SURVIVES};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;

/// The packed ranges, or `None` if the pass counted none.
pub(crate) fn ranges(
    sources: &Report<'_>,
    sizes: &model::Sizes,
    node_of: &NodeOf,
    left_out: &mut Vec<String>,
) -> Option<model::Ranges> {
    let ranges = sources.profile.ranges.as_ref().filter(|ranges| ranges.steps > 0)?;
    let threads = Threads::of(sources);
    let exact_sizes = exact_sizes(sizes);
    let mut steps = Steps::of(ranges);
    let packed = loop {
        let mut numbers = Numbers::default();
        sites(&mut numbers, ranges, &steps, node_of, &threads);
        of_sizes(&mut numbers, ranges, &steps, sizes, &exact_sizes);
        lifetimes(&mut numbers, &ranges.died_by_time, &steps);
        lifetimes(&mut numbers, &ranges.died_by_bytes, &steps);
        let packed = numbers.packed();
        if packed.len() <= limits::RANGES_CHARS || steps.count <= limits::RANGE_STEPS_LEAST {
            break packed;
        }
        steps = steps.halved();
    };
    if steps.shift > 0 {
        left_out.push(format!(
            "Ranges: steps are merged to {}, so that a range is chosen more coarsely; the sums of \
             each range are exact.",
            steps.count
        ));
    }
    Some(model::Ranges {
        first: steps.first * steps.width,
        width: steps.width,
        steps: steps.count,
        threads: threads.names,
        exact_sizes,
        packed,
    })
}

/// The threads that have numbers of their own, those that requested the most first; the rest
/// together are the last.
#[derive(Debug)]
struct Threads {
    names: Vec<String>,
    index: HashMap<u32, usize>,
}

impl Threads {
    fn of(sources: &Report<'_>) -> Threads {
        let mut rows: Vec<_> =
            sources.profile.threads.iter().filter(|row| row.requested.objects > 0).collect();
        rows.sort_by_key(|row| (Reverse(row.requested.bytes), row.thread));
        let own = rows.iter().take(limits::RANGE_THREADS).map(|row| row.thread);
        let index: HashMap<u32, usize> = own.zip(0..).collect();
        let mut names: Vec<String> = rows
            .iter()
            .take(limits::RANGE_THREADS)
            .map(|row| thread_name(sources, row.thread))
            .collect();
        if rows.len() > limits::RANGE_THREADS {
            names.push(format!("{} further threads", rows.len() - limits::RANGE_THREADS));
        }
        Threads { names, index }
    }

    fn index(&self, thread: u32) -> usize {
        self.index.get(&thread).copied().unwrap_or(limits::RANGE_THREADS)
    }
}

/// Steps of the pass, merged by powers of two.
#[derive(Clone, Copy, Debug)]
struct Steps {
    /// Number of the first step, counted from 0 of the axis.
    first: u64,
    unmerged_first: u64,
    width: u64,
    count: usize,
    unmerged_count: usize,
    shift: u32,
}

impl Steps {
    fn of(ranges: &Ranges) -> Steps {
        let first = ranges.first / ranges.width.max(1);
        Steps {
            first,
            unmerged_first: first,
            width: ranges.width,
            count: ranges.steps,
            unmerged_count: ranges.steps,
            shift: 0,
        }
    }

    fn halved(self) -> Steps {
        let shift = self.shift + 1;
        let mut steps =
            Steps { shift, width: self.width * 2, first: self.unmerged_first >> shift, ..self };
        steps.count = steps.step(self.unmerged_count as u16 - 1) as usize + 1;
        steps
    }

    fn step(&self, unmerged: u16) -> u16 {
        if unmerged == SURVIVES {
            return SURVIVES;
        }
        (((self.unmerged_first + u64::from(unmerged)) >> self.shift) - self.first) as u16
    }
}

/// The sizes at the top of the counts tables.
fn exact_sizes(sizes: &model::Sizes) -> Vec<u64> {
    let rows = |counts: &model::Counts| -> Vec<u64> {
        let rows = counts.rows.iter().filter(|row| !row.grouped).take(limits::RANGE_SIZES);
        rows.map(|row| row.request).collect()
    };
    let mut exact = rows(&sizes.whole);
    exact.extend(rows(&sizes.peak));
    exact.sort_unstable();
    exact.dedup();
    exact
}

/// Lives of one group by their steps: all and temporary ones.
type Group = BTreeMap<(u16, u16), (Amount, Amount)>;

fn add(sum: &mut Amount, more: &Amount) {
    sum.objects += more.objects;
    sum.bytes = sum.bytes.saturating_add(more.bytes);
}

fn sites(
    numbers: &mut Numbers,
    ranges: &Ranges,
    steps: &Steps,
    node_of: &NodeOf,
    threads: &Threads,
) {
    let mut groups: BTreeMap<(u32, usize), (Amount, Group)> = BTreeMap::new();
    for site in &ranges.sites {
        let node = node_of.get(&site.stack).copied().unwrap_or_default();
        let thread = threads.index(site.thread);
        let (at_peak, lives) = groups.entry((node, thread)).or_default();
        add(at_peak, &site.at_peak);
        for own in &site.lives {
            let sum = lives.entry((steps.step(own.born), steps.step(own.died))).or_default();
            add(&mut sum.0, &own.all);
            add(&mut sum.1, &own.temporary);
        }
    }
    numbers.push(groups.len() as u64);
    let mut before = 0;
    for ((node, thread), (at_peak, lives)) in groups {
        numbers.push(u64::from(node - before));
        numbers.push(thread as u64);
        numbers.push(at_peak.objects);
        numbers.push(at_peak.bytes);
        numbers.lives(&lives, true);
        before = node;
    }
}

fn of_sizes(
    numbers: &mut Numbers,
    ranges: &Ranges,
    steps: &Steps,
    sizes: &model::Sizes,
    exact_sizes: &[u64],
) {
    let mut buckets = vec![Group::new(); sizes.buckets.len()];
    let mut exact = vec![Group::new(); exact_sizes.len()];
    for row in &ranges.sizes {
        let steps = (steps.step(row.born), steps.step(row.died));
        let bucket = sizes.buckets.partition_point(|bucket| bucket.to_bytes < row.request);
        let groups = [
            buckets.get_mut(bucket),
            exact_sizes.binary_search(&row.request).ok().and_then(|at| exact.get_mut(at)),
        ];
        for group in groups.into_iter().flatten() {
            add(&mut group.entry(steps).or_default().0, &row.all);
        }
    }
    buckets.iter().chain(&exact).for_each(|group| numbers.lives(group, false));
}

fn lifetimes(numbers: &mut Numbers, of_steps: &[Vec<Lifetime>], steps: &Steps) {
    let mut merged: Vec<BTreeMap<u64, Lifetime>> = vec![BTreeMap::new(); steps.count];
    for (step, rows) in of_steps.iter().enumerate() {
        let Some(sums) = merged.get_mut(usize::from(steps.step(step as u16))) else { continue };
        for row in rows.iter().filter(|row| row.objects > 0) {
            let sum =
                sums.entry(row.from).or_insert(Lifetime { from: row.from, ..Lifetime::default() });
            sum.objects += row.objects;
            sum.bytes = sum.bytes.saturating_add(row.bytes);
        }
    }
    for rows in merged {
        numbers.push(rows.len() as u64);
        for row in rows.into_values() {
            numbers.push(row.from.checked_ilog2().map_or(0, |log| u64::from(log) + 1));
            numbers.push(row.objects);
            numbers.push(row.bytes);
        }
    }
}

/// Numbers in LEB128.
#[derive(Debug, Default)]
struct Numbers {
    bytes: Vec<u8>,
}

impl Numbers {
    fn push(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn lives(&mut self, lives: &Group, with_temporary: bool) {
        self.push(lives.len() as u64);
        let mut before = 0;
        for ((born, died), (all, temporary)) in lives {
            self.push(u64::from(born - before));
            self.push(if *died == SURVIVES { 0 } else { u64::from(died - born) + 1 });
            self.push(all.objects);
            self.push(all.bytes);
            if with_temporary {
                self.push(temporary.objects);
                if temporary.objects > 0 {
                    self.push(temporary.bytes);
                }
            }
            before = *born;
        }
    }

    fn packed(self) -> String {
        let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
        let written = deflated.write_all(&self.bytes).and_then(|()| deflated.finish());
        base64(&written.expect("a list of bytes takes whatever is written"))
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with padding, as a browser's `atob` reads it (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let of = |at: usize| chunk.get(at).map_or(0, |byte| u32::from(*byte));
        let bits = of(0) << 16 | of(1) << 8 | of(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit <= chunk.len() { DIGITS[value] as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        let texts =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (bytes, text) in texts {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn merged_steps_begin_at_multiples_of_their_width() {
        let steps = Steps::of(&Ranges { first: 7 * 4, width: 4, steps: 5, ..Ranges::default() });
        let merged = steps.halved();
        assert_eq!((merged.first, merged.width, merged.count), (3, 8, 3));
        let of: Vec<u16> = (0..5).map(|step| merged.step(step)).collect();
        assert_eq!(of, [0, 1, 1, 2, 2]);
        assert_eq!(merged.step(SURVIVES), SURVIVES);
    }
}
