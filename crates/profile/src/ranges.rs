//! What each range of a recording holds: lives of objects by the steps in which they began and
//! ended.
//!
//! For a page on which a range is chosen. The run is divided into steps of one width. A row counts
//! the objects of one stack, thread, birth step and death step. Each question about a range from
//! one step's beginning to another's is a sum of such rows: what was asked for inside, what died
//! inside, what is live at its end, what was born inside and is still live. (memray's temporal
//! flame graphs divide lives by snapshots in the same way.) The sums are exact; only the choice of
//! a range is as coarse as a step.
//!
//! As everywhere in this crate, a reallocation ends one life and begins another.
//!
//! The length of a recording is unknown while it streams, so steps double in width when there would
//! be too many, as in [`crate::timeline`]. Both have widths that are powers of two and begin at
//! multiples of them: the beginning of a step here is one there, if the steps here are not
//! narrower.

use crate::live::IntegerMap;
use crate::{Amount, Lifetime, Tracked};
use heaplab_trace::StackId;

/// The death step of what lives at the end.
pub const SURVIVES: u16 = u16::MAX;
/// Most steps: their numbers have 16 bits, and one number means survival.
const STEPS_MAX: usize = 1 << 12;
/// Rows of lives in memory; with more, steps are merged.
const ROWS_MAX: usize = 1 << 21;
/// Steps that no limit of rows merges.
const STEPS_LEAST: usize = 16;
const LIFETIMES: usize = 65;

/// Lives by step. Step `n` begins at `first + n * width`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Ranges {
    /// Beginning of the first step, on the timeline's axis.
    pub first: u64,
    /// Width of a step, a power of two.
    pub width: u64,
    /// Number of steps, up to the last event.
    pub steps: usize,
    /// One row a stack and thread, in the order of stacks and threads.
    pub sites: Vec<Site>,
    /// Lives by requested size, in no order.
    pub sizes: Vec<SizeLives>,
    /// For each step, the lifetimes of objects that died in it, in ns: as
    /// [`crate::Lifetimes::by_time`].
    pub died_by_time: Vec<Vec<Lifetime>>,
    /// The same by bytes requested in between.
    pub died_by_bytes: Vec<Vec<Lifetime>>,
}

/// The objects that one thread requested at one stack.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Site {
    /// The stack.
    pub stack: StackId,
    /// The thread that requested.
    pub thread: u32,
    /// Those live at the peak.
    pub at_peak: Amount,
    /// Lives in the order of birth and death steps.
    pub lives: Vec<Lives>,
}

/// Objects that were requested in one step and released in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Lives {
    /// Step of the request.
    pub born: u16,
    /// Step of the release; [`SURVIVES`]: live at the end.
    pub died: u16,
    /// The objects.
    pub all: Amount,
    /// Of these, freed before their thread's next request.
    pub temporary: Amount,
}

/// Objects of one size that were requested in one step and released in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SizeLives {
    /// Requested bytes of an object: [`crate::SizeRow::request`].
    pub request: u64,
    /// Step of the request.
    pub born: u16,
    /// Step of the release; [`SURVIVES`]: live at the end.
    pub died: u16,
    /// The objects.
    pub all: Amount,
}

/// Counts lives during a pass; switched off it costs a compare an event.
#[derive(Debug)]
pub(crate) struct RangesBuilder {
    limit: usize,
    /// Position of the first event.
    begun: Option<u64>,
    /// Position of the last event; never goes back.
    now: u64,
    /// The width is 2^shift.
    shift: u32,
    /// Where the current step ends.
    until: u64,
    step: u16,
    /// First site of each stack.
    index: Vec<u32>,
    others: IntegerMap<u64, u32>,
    sites: Vec<(StackId, u32, Tracked)>,
    by_site: IntegerMap<u64, (Amount, Amount)>,
    by_size: IntegerMap<u64, (Amount, Amount)>,
    by_time: Vec<[Lifetime; LIFETIMES]>,
    by_bytes: Vec<[Lifetime; LIFETIMES]>,
}

/// A life that ends, or lasts beyond the last event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Site of the request.
    pub(crate) site: u32,
    /// Row of its size.
    pub(crate) size_row: u32,
    /// Position of the request.
    pub(crate) sized_at: u64,
    /// Requested bytes.
    pub(crate) bytes: u64,
    /// Usable bytes.
    pub(crate) usable_bytes: u64,
    /// Whether it was freed before its thread's next request.
    pub(crate) temporary: bool,
}

const NONE: u32 = u32::MAX;

fn key(row: u32, born: u16, died: u16) -> u64 {
    u64::from(row) << 32 | u64::from(born) << 16 | u64::from(died)
}

fn unkey(key: u64) -> (u32, u16, u16) {
    ((key >> 32) as u32, (key >> 16) as u16, key as u16)
}

impl RangesBuilder {
    /// At most `steps` steps; 0: nothing is counted.
    pub(crate) fn new(steps: usize, stacks: usize) -> RangesBuilder {
        RangesBuilder {
            limit: if steps == 0 { 0 } else { steps.clamp(2, STEPS_MAX) },
            begun: None,
            now: 0,
            shift: 0,
            until: 0,
            step: 0,
            index: if steps == 0 { Vec::new() } else { vec![NONE; stacks.max(1)] },
            others: IntegerMap::default(),
            sites: Vec::new(),
            by_site: IntegerMap::default(),
            by_size: IntegerMap::default(),
            by_time: Vec::new(),
            by_bytes: Vec::new(),
        }
    }

    fn is_off(&self) -> bool {
        self.limit == 0
    }

    /// The next event is at `at`. An event stamped earlier than the event before it belongs to the
    /// step of that event.
    #[inline]
    pub(crate) fn reach(&mut self, at: u64) {
        if self.is_off() {
            return;
        }
        self.now = self.now.max(at);
        if self.now >= self.until || self.begun.is_none() {
            self.open();
        }
    }

    #[cold]
    fn open(&mut self) {
        self.begun.get_or_insert(self.now);
        while self.step_of(self.now) >= self.limit as u64 {
            self.halve();
        }
        self.step = self.step_of(self.now) as u16;
        self.until = ((self.now >> self.shift) + 1).saturating_mul(1 << self.shift);
        let steps = usize::from(self.step) + 1;
        self.by_time.resize(steps, [Lifetime::default(); LIFETIMES]);
        self.by_bytes.resize(steps, [Lifetime::default(); LIFETIMES]);
    }

    fn step_of(&self, at: u64) -> u64 {
        (at >> self.shift) - (self.begun.unwrap_or(at) >> self.shift)
    }

    /// The site of a stack and a thread.
    #[inline]
    pub(crate) fn site(&mut self, stack: StackId, thread: u32) -> u32 {
        if self.is_off() {
            return 0;
        }
        let first = self.index.get(stack as usize).copied().unwrap_or(NONE);
        if first != NONE && self.sites[first as usize].1 == thread {
            return first;
        }
        self.further_site(first, stack, thread)
    }

    #[cold]
    fn further_site(&mut self, first: u32, stack: StackId, thread: u32) -> u32 {
        let next = self.sites.len() as u32;
        let site = if first == NONE {
            if let Some(index) = self.index.get_mut(stack as usize) {
                *index = next;
            }
            next
        } else {
            *self.others.entry(u64::from(stack) << 32 | u64::from(thread)).or_insert(next)
        };
        if site == next {
            self.sites.push((stack, thread, Tracked::default()));
        }
        site
    }

    /// The present position.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// An object of `site` is live from here on.
    #[inline]
    pub(crate) fn begins(&mut self, peak: u64, site: u32, bytes: u64, usable_bytes: u64) {
        if let Some((.., tracked)) = self.sites.get_mut(site as usize) {
            tracked.add(peak, bytes, usable_bytes);
        }
    }

    /// A life ends here.
    #[inline]
    pub(crate) fn ends(&mut self, peak: u64, life: &Ended) {
        if self.is_off() {
            return;
        }
        if let Some((.., tracked)) = self.sites.get_mut(life.site as usize) {
            tracked.remove(peak, life.bytes, life.usable_bytes);
        }
        self.count(life, self.step);
    }

    /// A life lasts beyond the last event.
    pub(crate) fn survives(&mut self, life: &Ended) {
        if !self.is_off() {
            self.count(life, SURVIVES);
        }
    }

    #[inline]
    fn count(&mut self, life: &Ended, died: u16) {
        let born = self.step_of(life.sized_at) as u16;
        let (all, temporary) = self.by_site.entry(key(life.site, born, died)).or_default();
        count(all, life);
        if life.temporary {
            count(temporary, life);
        }
        count(&mut self.by_size.entry(key(life.size_row, born, died)).or_default().0, life);
        if self.by_site.len() + self.by_size.len() > ROWS_MAX && self.by_time.len() > STEPS_LEAST {
            self.halve();
            self.open();
        }
    }

    /// An object died here after so many ns and so many requested bytes.
    #[inline]
    pub(crate) fn lived(&mut self, ns: u64, requested_bytes: u64, bytes: u64) {
        if self.is_off() {
            return;
        }
        let step = usize::from(self.step);
        crate::pass::note_life(&mut self.by_time[step], ns, bytes);
        crate::pass::note_life(&mut self.by_bytes[step], requested_bytes, bytes);
    }

    fn halve(&mut self) {
        let Some(begun) = self.begun else { return };
        let first = begun >> self.shift;
        self.shift += 1;
        let half = |step: u16| (((first + u64::from(step)) >> 1) - (first >> 1)) as u16;
        for map in [&mut self.by_site, &mut self.by_size] {
            let mut merged: IntegerMap<u64, (Amount, Amount)> = IntegerMap::default();
            for (of, (all, temporary)) in map.drain() {
                let (row, born, died) = unkey(of);
                let died = if died == SURVIVES { SURVIVES } else { half(died) };
                let sum = merged.entry(key(row, half(born), died)).or_default();
                add(&mut sum.0, &all);
                add(&mut sum.1, &temporary);
            }
            *map = merged;
        }
        for rows in [&mut self.by_time, &mut self.by_bytes] {
            let mut merged = Vec::new();
            for (step, row) in rows.iter().enumerate() {
                let at = usize::from(half(step as u16));
                merged.resize(at + 1, [Lifetime::default(); LIFETIMES]);
                for (sum, more) in merged[at].iter_mut().zip(row) {
                    sum.objects += more.objects;
                    sum.bytes = sum.bytes.saturating_add(more.bytes);
                }
            }
            *rows = merged;
        }
    }

    /// The ranges; `peak` is the number of the highest peak, `request_of` the size of a row of
    /// sizes. `None`: no ranges were requested.
    pub(crate) fn finish(self, peak: u64, request_of: impl Fn(u32) -> u64) -> Option<Ranges> {
        if self.is_off() {
            return None;
        }
        let mut lives: Vec<(u64, (Amount, Amount))> = self.by_site.into_iter().collect();
        lives.sort_unstable_by_key(|(key, _)| *key);
        let mut sites: Vec<Site> = self
            .sites
            .into_iter()
            .map(|(stack, thread, tracked)| Site {
                stack,
                thread,
                at_peak: tracked.at_peak(peak),
                lives: Vec::new(),
            })
            .collect();
        for (of, (all, temporary)) in lives {
            let (site, born, died) = unkey(of);
            sites[site as usize].lives.push(Lives { born, died, all, temporary });
        }
        sites.sort_by_key(|site| (site.stack, site.thread));
        let sizes = self.by_size.into_iter().map(|(of, (all, _))| {
            let (row, born, died) = unkey(of);
            SizeLives { request: request_of(row), born, died, all }
        });
        let first = self.begun.unwrap_or_default() >> self.shift;
        Some(Ranges {
            first: first << self.shift,
            width: 1 << self.shift,
            steps: self.by_time.len(),
            sites,
            sizes: sizes.collect(),
            died_by_time: self.by_time.iter().map(crate::pass::filled).collect(),
            died_by_bytes: self.by_bytes.iter().map(crate::pass::filled).collect(),
        })
    }
}

fn count(sum: &mut Amount, life: &Ended) {
    sum.objects += 1;
    sum.bytes = sum.bytes.saturating_add(life.bytes);
    sum.usable_bytes = sum.usable_bytes.saturating_add(life.usable_bytes);
}

fn add(sum: &mut Amount, more: &Amount) {
    sum.objects += more.objects;
    sum.bytes = sum.bytes.saturating_add(more.bytes);
    sum.usable_bytes = sum.usable_bytes.saturating_add(more.usable_bytes);
}
