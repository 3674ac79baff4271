//! Memory that is asked for and given back over and over.
//!
//! Two forms, as in the document. Large buffers that live shortly: each costs page faults and
//! zeroing. And state rebuilt for each item: one site asks for the same few sizes thousands of
//! times and never has more than a few alive. A program could keep and reuse both. They cost
//! requests, zeroed bytes and touched pages, not space.
//!
//! The pass counts the live objects of each site and of each function. Maxima of several stacks
//! fall at different times, so their sum would be no maximum. Tallies are therefore by site from
//! the start, and memory grows with the distinct sites. Objects without a stack have no site and
//! are skipped.

use crate::finding::{Detector, Finding, Kind, Run, evidence};
use crate::sites::{Functions, Site, Sites};
use crate::{
    Basis, Confidence, Cost, Found, Level, Options, Rank, Saving, StackShare, model::share,
};
use heaplab_profile::{Instant, Object, Profile};
use heaplab_text::words::{bytes, count, percent, plural};
use heaplab_trace::{Event, Flags, ObjectId, StackId, tables::Tables};
use serde::Serialize;
use std::collections::BTreeMap;

/// The same memory asked for and given back over and over.
pub const CHURN: Kind = Kind {
    name: "churn",
    title: "Churn",
    hint: "The same memory asked for and given back over and over",
    counts: "request",
    share_bytes: "asked for",
    total_bytes: "over the run",
};

/// Memory that comes and goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Churn {
    /// Which sort of churn.
    pub pattern: ChurnPattern,
    /// Requests of the site.
    pub requests: u64,
    /// Their bytes.
    pub requested_bytes: u64,
    /// Requests of large buffers that lived shortly.
    pub large_requests: u64,
    /// Their bytes.
    pub large_bytes: u64,
    /// Bytes of large buffers that had to be zeroed.
    pub zeroed_bytes: u64,
    /// Most objects of the site alive at once.
    pub most_live: u64,
    /// Whether that is only a bound: several sites of a function that has others, too, which were
    /// counted one by one.
    pub most_live_is_bound: bool,
    /// The sizes asked for most, with how often.
    pub sizes: Vec<(u64, u64)>,
    /// Median life of its objects, in bytes requested in between, rounded down to a power of two.
    pub median_life_bytes: u64,
}

/// Sorts of churn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChurnPattern {
    /// Large buffers that live shortly.
    LargeShortLived,
    /// The same few sizes, never many at a time: state that is rebuilt for each item.
    Rebuilt,
}

/// Sizes remembered for a site; a site with more sizes does not have "the same few".
const SIZES: usize = 4;
const LIVES: usize = 48;
/// Sizes that a title names.
const SIZES_NAMED: usize = 3;

#[derive(Clone, Debug)]
struct Tally {
    births: u64,
    bytes: u64,
    zeroed: u64,
    live: u64,
    most_live: u64,
    sizes: [(u64, u64); SIZES],
    large_short: u64,
    large_short_bytes: u64,
    large_zeroed: u64,
    lives: [u64; LIVES],
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            births: 0,
            bytes: 0,
            zeroed: 0,
            live: 0,
            most_live: 0,
            sizes: [(0, 0); SIZES],
            large_short: 0,
            large_short_bytes: 0,
            large_zeroed: 0,
            lives: [0; LIVES],
        }
    }
}

impl Tally {
    /// The few most frequent sizes, by the space-saving rule: a new size takes the place of the
    /// rarest once that has been worn down.
    #[inline]
    fn note_size(&mut self, size: u64, times: u64) {
        if let Some(known) = self.sizes.iter_mut().find(|known| known.0 == size && known.1 > 0) {
            known.1 += times;
            return;
        }
        let Some(rarest) = self.sizes.iter_mut().min_by_key(|known| known.1) else { return };
        if rarest.1 <= times {
            *rarest = (size, times - rarest.1);
        } else {
            rarest.1 -= times;
        }
    }

    fn add(&mut self, other: &Tally) {
        self.births += other.births;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.zeroed = self.zeroed.saturating_add(other.zeroed);
        self.large_short += other.large_short;
        self.large_short_bytes = self.large_short_bytes.saturating_add(other.large_short_bytes);
        self.large_zeroed = self.large_zeroed.saturating_add(other.large_zeroed);
        other
            .sizes
            .iter()
            .filter(|size| size.1 > 0)
            .for_each(|(size, times)| self.note_size(*size, *times));
        self.lives.iter_mut().zip(other.lives).for_each(|(sum, lives)| *sum += lives);
    }

    fn median_life(&self) -> u64 {
        let half = self.lives.iter().sum::<u64>().div_ceil(2);
        let mut before = 0;
        for (index, lives) in self.lives.iter().enumerate() {
            before += lives;
            if before >= half && half > 0 {
                return if index == 0 { 0 } else { 1 << (index - 1) };
            }
        }
        0
    }
}

/// A stack's part, and where the rest of its site is.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Row of `tallies`; `NONE`: nothing was born at the stack yet.
    tally: u32,
    /// Row of `functions`.
    function: u32,
    births: u64,
    bytes: u64,
}

const NONE: u32 = u32::MAX;

/// How many objects of one function are alive, and were at most.
#[derive(Clone, Copy, Debug, Default)]
struct Alive {
    live: u64,
    most_live: u64,
    /// Sites of the function at which objects were born.
    sites: usize,
}

impl Alive {
    #[inline]
    fn born(&mut self) {
        self.live += 1;
        self.most_live = self.most_live.max(self.live);
    }
}

/// Tallies births and lives by site.
#[derive(Debug)]
pub(crate) struct Churns {
    large_bytes: u64,
    short_lived_bytes: u64,
    site_frames: usize,
    /// By stack: its site.
    sites: Vec<Site>,
    /// By stack; stack ids are rows of a table in memory.
    places: Vec<Place>,
    /// By site: row of `tallies` and of `functions`.
    rows: Vec<(u32, u32)>,
    tallies: Vec<Tally>,
    functions: Vec<Alive>,
}

impl Churns {
    pub(crate) fn new(options: &Options) -> Churns {
        Churns {
            large_bytes: options.large_bytes,
            short_lived_bytes: options.short_lived_bytes,
            site_frames: options.site_frames,
            sites: Vec::new(),
            places: Vec::new(),
            rows: Vec::new(),
            tallies: Vec::new(),
            functions: Vec::new(),
        }
    }

    /// Where `stack` is counted: its rows of `tallies` and `functions`; `None` without a stack.
    #[inline]
    fn rows(&mut self, stack: StackId) -> Option<(usize, usize)> {
        if stack == 0 {
            return None;
        }
        let place = self.places.get_mut(stack as usize)?;
        if place.tally == NONE {
            let row = &mut self.rows[self.sites[stack as usize] as usize];
            if row.0 == NONE {
                row.0 = self.tallies.len() as u32;
                self.tallies.push(Tally::default());
                self.functions[row.1 as usize].sites += 1;
            }
            (place.tally, place.function) = *row;
        }
        Some((place.tally as usize, place.function as usize))
    }
}

impl Detector for Churns {
    fn begins(&mut self, tables: &Tables) {
        let (mut sites, mut functions) =
            (Sites::new(tables, self.site_frames), Functions::new(tables, self.site_frames));
        for stack in 0..tables.stacks.len() as StackId {
            let site = sites.of(stack);
            if site as usize == self.rows.len() {
                let function = functions.of(stack);
                self.rows.push((NONE, function));
                if function as usize == self.functions.len() {
                    self.functions.push(Alive::default());
                }
            }
            self.sites.push(site);
        }
        self.places =
            vec![Place { tally: NONE, function: 0, births: 0, bytes: 0 }; self.sites.len()];
    }

    #[inline]
    fn born(&mut self, _now: &Instant, event: &Event, _id: ObjectId) {
        let Some((tally, function)) = self.rows(event.stack) else { return };
        let place = &mut self.places[event.stack as usize];
        place.births += 1;
        place.bytes = place.bytes.saturating_add(event.size);
        self.functions[function].born();
        let tally = &mut self.tallies[tally];
        tally.births += 1;
        tally.bytes = tally.bytes.saturating_add(event.size);
        if event.has(Flags::ZEROED) {
            tally.zeroed = tally.zeroed.saturating_add(event.size);
        }
        tally.live += 1;
        tally.most_live = tally.most_live.max(tally.live);
        tally.note_size(event.size, 1);
    }

    #[inline]
    fn resized(
        &mut self,
        _now: &Instant,
        _event: &Event,
        _id: ObjectId,
        before: &Object,
        after: &Object,
    ) {
        if before.stack == after.stack {
            return;
        }
        if let Some((tally, function)) = self.rows(before.stack) {
            self.tallies[tally].live -= 1;
            self.functions[function].live -= 1;
        }
        if let Some((tally, function)) = self.rows(after.stack) {
            let tally = &mut self.tallies[tally];
            tally.live += 1;
            tally.most_live = tally.most_live.max(tally.live);
            self.functions[function].born();
        }
    }

    #[inline]
    fn died(&mut self, now: &Instant, _event: &Event, _id: ObjectId, object: &Object) {
        let (large, short) = (self.large_bytes, self.short_lived_bytes);
        let life =
            now.requested_bytes.saturating_sub(object.born_clock.saturating_add(object.size));
        let Some((tally, function)) = self.rows(object.stack) else { return };
        self.functions[function].live -= 1;
        let tally = &mut self.tallies[tally];
        tally.live -= 1;
        tally.lives[((64 - life.leading_zeros()) as usize).min(LIVES - 1)] += 1;
        // An object that was reallocated is the business of growth.
        if object.size >= large && life < short && object.reallocations == 0 {
            tally.large_short += 1;
            tally.large_short_bytes = tally.large_short_bytes.saturating_add(object.size);
        }
    }

    /// Each place that asks is looked at by itself; those of one function that do the same thing
    /// are its state, and one finding.
    fn finish(self, _tables: &Tables, run: &Run<'_>, _peak: u64) -> Vec<Found> {
        let Run { profile, options } = *run;
        let mut shares: BTreeMap<u32, Vec<StackShare>> = BTreeMap::new();
        for (stack, place) in self.places.iter().enumerate().filter(|(_, place)| place.births > 0) {
            let share =
                StackShare { stack: stack as StackId, count: place.births, bytes: place.bytes };
            shares.entry(place.tally).or_default().push(share);
        }
        let mut groups: BTreeMap<(u32, ChurnPattern), Group> = BTreeMap::new();
        for (row, shares) in shares {
            let tally = &self.tallies[row as usize];
            let (Some(pattern), Some(first)) = (pattern(tally, options), shares.first()) else {
                continue;
            };
            let group =
                groups.entry((self.places[first.stack as usize].function, pattern)).or_default();
            group.tally.add(tally);
            group.sum_of_most += tally.most_live;
            group.sites += 1;
            group.shares.extend(shares);
        }
        groups
            .into_iter()
            .filter(|((_, pattern), group)| is_felt(*pattern, &group.tally, profile))
            .map(|((function, pattern), group)| {
                finding(pattern, group, self.functions[function as usize], options)
            })
            .collect()
    }
}

/// The sites of one function that do the same thing.
#[derive(Default)]
struct Group {
    tally: Tally,
    sites: usize,
    /// The most alive at each site, summed: no fewer than were alive at once.
    sum_of_most: u64,
    shares: Vec<StackShare>,
}

impl Group {
    /// The most objects alive at once, and whether that is only a bound: where the function has
    /// sites that do something else, what these had alive together was not counted.
    fn most_live(&self, function: Alive) -> (u64, bool) {
        (self.sum_of_most.min(function.most_live), self.sites > 1 && self.sites < function.sites)
    }
}

fn pattern(tally: &Tally, options: &Options) -> Option<ChurnPattern> {
    let few: u64 = tally.sizes.iter().map(|size| size.1).sum();
    if tally.large_short >= 16 && tally.large_short * 2 > tally.births {
        Some(ChurnPattern::LargeShortLived)
    } else if tally.births / tally.most_live.max(1) >= options.rebuilt_times
        && few * 10 >= tally.births * 9
    {
        Some(ChurnPattern::Rebuilt)
    } else {
        None
    }
}

/// A hundredth of the run's requests or bytes: below it, keeping the memory would not be felt.
fn is_felt(pattern: ChurnPattern, tally: &Tally, profile: &Profile) -> bool {
    let felt = |part: u64, whole: u64| part > 0 && part >= whole / 100;
    let totals = &profile.totals;
    match pattern {
        ChurnPattern::LargeShortLived => felt(tally.large_short_bytes, totals.requested_bytes),
        ChurnPattern::Rebuilt => {
            felt(tally.births, totals.allocations) || felt(tally.bytes, totals.requested_bytes)
        }
    }
}

fn finding(pattern: ChurnPattern, group: Group, function: Alive, options: &Options) -> Found {
    let (most_live, most_live_is_bound) = group.most_live(function);
    let (most_live, tally, shares) = (most_live.max(1), &group.tally, group.shares);
    let again = tally.births.saturating_sub(most_live);
    let mut sizes: Vec<(u64, u64)> =
        tally.sizes.iter().copied().filter(|size| size.1 > 0).collect();
    sizes.sort_by_key(|(size, times)| (std::cmp::Reverse(*times), *size));
    let churn = Churn {
        pattern,
        requests: tally.births,
        requested_bytes: tally.bytes,
        large_requests: tally.large_short,
        large_bytes: tally.large_short_bytes,
        zeroed_bytes: tally.zeroed,
        most_live,
        most_live_is_bound,
        sizes,
        median_life_bytes: tally.median_life(),
    };
    let part = |kept: u64| (kept as f64 * (again as f64 / tally.births.max(1) as f64)) as u64;
    let saving = Saving {
        at_peak_bytes: 0,
        total_bytes: part(tally.bytes),
        copied_bytes: part(tally.zeroed),
        requests: again,
    };
    let basis = options.basis.unwrap_or(Basis::Measured);
    let level = match pattern {
        ChurnPattern::LargeShortLived => Level::High,
        ChurnPattern::Rebuilt => Level::Medium,
    };
    Found {
        count: tally.births,
        costs: vec![Cost { basis, at_peak_bytes: 0, total_bytes: saving.total_bytes }],
        saving,
        confidence: Confidence {
            level,
            reason: "every birth and death was seen; whether the memory can be kept, the code has to tell".into(),
        },
        stacks: shares,
        ..Found::draft(basis, churn)
    }
}

impl Finding for Churn {
    evidence!(CHURN);

    fn cause(&self) -> String {
        format!("churn {:?}", self.pattern)
    }

    /// Adds another site of the same function. Nobody counted how many objects were alive at both
    /// at once.
    fn absorb(&mut self, other: Box<dyn Finding>) {
        let Ok(other) = other.into_any().downcast::<Churn>() else { return };
        self.requests += other.requests;
        self.large_requests += other.large_requests;
        self.most_live += other.most_live;
        self.most_live_is_bound = true;
        self.median_life_bytes = self.median_life_bytes.max(other.median_life_bytes);
        for (sum, part) in [
            (&mut self.requested_bytes, other.requested_bytes),
            (&mut self.large_bytes, other.large_bytes),
            (&mut self.zeroed_bytes, other.zeroed_bytes),
        ] {
            *sum = sum.saturating_add(part);
        }
        for (size, times) in other.sizes.iter().copied() {
            match self.sizes.iter_mut().find(|known| known.0 == size) {
                Some(known) => known.1 += times,
                None => self.sizes.push((size, times)),
            }
        }
        self.sizes.sort_by_key(|(size, times)| (std::cmp::Reverse(*times), *size));
    }

    /// Words for the title: the bytes that come and go, never more than were there at once, and
    /// what to do.
    fn title(&self, _of: &Found) -> [String; 2] {
        let most = match (self.most_live, self.most_live_is_bound) {
            (1, _) => "one at a time".to_string(),
            (most, true) => format!("at most {} at a time", count(most)),
            (most, false) => format!("{} at a time", count(most)),
        };
        let keep = if self.most_live == 1 { "keep the block" } else { "keep the blocks" };
        let (what, times) = match self.pattern {
            ChurnPattern::LargeShortLived => {
                let mean = bytes(self.large_bytes / self.large_requests.max(1));
                (format!("buffers of {mean} on average"), self.large_requests)
            }
            ChurnPattern::Rebuilt => {
                let mut sizes: Vec<u64> =
                    self.sizes.iter().take(SIZES_NAMED).map(|size| size.0).collect();
                sizes.sort_unstable();
                let more = if self.sizes.len() > SIZES_NAMED { "; ..." } else { "" };
                let named: Vec<String> = sizes.iter().map(|size| count(*size)).collect();
                let unit = if sizes == [1] { "byte" } else { "bytes" };
                (format!("{}{more} {unit}", named.join("; ")), self.requests)
            }
        };
        [
            format!("{what} asked for {}, {most}", plural(times, "time")),
            format!("{keep} and use {} again", if self.most_live == 1 { "it" } else { "them" }),
        ]
    }

    /// Churn costs time; the bytes that go through it decide whether a user feels that.
    fn felt_bytes(&self, of: &Found) -> u64 {
        of.saving.total_bytes
    }

    fn rank(&self, _of: &Found, _run: &Run<'_>) -> Rank {
        Rank::OverRun
    }

    fn cost(&self, of: &Found) -> String {
        format!(
            "{} asked for again and again in {}.",
            bytes(of.wasted_total_bytes()),
            plural(of.saving.requests, "request")
        )
    }

    fn advice(&self, of: &Found, run: &Run<'_>) -> String {
        advice(self, of.saving.requests, run.profile.totals.allocations)
    }

    /// The counts are certain; the reader judges what follows from them.
    fn sureness(&self, _level: Level) -> &'static str {
        "Counted"
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let pattern = match self.pattern {
            ChurnPattern::LargeShortLived => "large buffers that live shortly",
            ChurnPattern::Rebuilt => "the same state built again for each item",
        };
        let sizes: Vec<String> = self
            .sizes
            .iter()
            .take(5)
            .map(|(size, times)| format!("{} B ({}×)", count(*size), count(*times)))
            .collect();
        let at_most = if self.most_live_is_bound { "at most " } else { "" };
        let mut facts = vec![
            ("Pattern", pattern.into()),
            ("Asked for", bytes(self.requested_bytes)),
            ("Most alive at once", format!("{at_most}{}", count(self.most_live))),
            ("Median life", format!("{} asked for meanwhile", bytes(self.median_life_bytes))),
            ("Sizes", sizes.join(", ")),
        ];
        if self.zeroed_bytes > 0 {
            facts.push(("Zeroed", bytes(self.zeroed_bytes)));
        }
        facts
    }
}

/// Words for what to do, of a run of so many allocations.
fn advice(churn: &Churn, again: u64, allocations: u64) -> String {
    let zeroed = if churn.zeroed_bytes > 0 {
        format!(" and {} of zeroing", bytes(churn.zeroed_bytes))
    } else {
        String::new()
    };
    match churn.pattern {
        // How many page faults that is depends on thresholds that the allocator moves while the
        // program runs (glibc's for mmap and trim).
        ChurnPattern::LargeShortLived => format!(
            "Keep {} and use {} again: {} are requested again over the run{zeroed}. Where the allocator gives such memory back to the system in between, each page of a fresh one costs a page fault.",
            match churn.most_live {
                1 => "one".to_string(),
                _ if churn.most_live_is_bound => "those that are alive at once".to_string(),
                most => count(most),
            },
            if churn.most_live == 1 { "it" } else { "them" },
            bytes(churn.large_bytes),
        ),
        ChurnPattern::Rebuilt => format!(
            "Keep {} and use {} again: {} fewer, {} of the run's{zeroed}. {}",
            match churn.most_live {
                1 => "the block".to_string(),
                _ if churn.most_live_is_bound => "the blocks that are alive at once".to_string(),
                most => format!("up to {}", plural(most, "block")),
            },
            if churn.most_live == 1 { "it" } else { "them" },
            plural(again, "request"),
            percent(share(again, allocations)),
            match churn.median_life_bytes {
                0 =>
                    "At least half of them are freed before anything else is asked for.".to_string(),
                life => format!(
                    "At least half of them are freed before another {} are asked for.",
                    bytes(life * 2)
                ),
            },
        ),
    }
}
