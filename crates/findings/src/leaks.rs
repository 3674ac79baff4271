//! Objects live at the end, by site, and whether they grew with the run or came once.
//!
//! An object that is live at exit is not a leak by itself: tables and caches live as long as their
//! program. A leak's survivors are born throughout the run, at a site that frees its other objects.
//! The finding says so, and how certain that is.
//!
//! The run is divided by time and by allocations. A program that computes or touches memory for
//! long before its work begins has all of that work in the last eighth of its time. Allocations
//! alone would not do either, because a table built before a long computation is most of the
//! allocations. So objects that grew with the allocations must have gone on growing to the end of
//! the time.
//!
//! A leak may hold less at the peak than at the end. Survivors never die, so those born before the
//! peak were live at the peak.

use crate::finding::{Detector, Finding, Kind, Run, evidence};
use crate::sites::Sites;
use crate::{
    Basis, Confidence, Cost, Found, Level, Options, Rank, Saving, StackShare, model::share,
};
use hashbrown::HashMap;
use heaplab_profile::{Amount, Instant, Object, Profile};
use heaplab_text::words::{bytes, count, percent, plural};
use heaplab_trace::{Event, ObjectId, StackId, tables::Tables};
use serde::Serialize;
use std::collections::BTreeMap;

/// Live at the end.
pub const LEAK: Kind = Kind {
    name: "leak",
    title: "Live at end",
    hint: "Never freed",
    counts: "object",
    share_bytes: "live at the end",
    total_bytes: "at the end",
};

/// Live at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leak {
    /// Objects and bytes still live.
    pub at_end: Amount,
    /// Objects of the site that were freed.
    pub freed: u64,
    /// How the survivors came to be.
    pub pattern: LeakPattern,
    /// Bytes of the survivors by birth, in eighths of the run.
    pub born_by_eighth: [u64; 8],
    /// By which clock these are eighths.
    pub eighths_of: LeakClock,
}

/// The clock that divides a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeakClock {
    /// By its time.
    Time,
    /// By the objects born: where time does not show the growth, or the trace has none.
    Allocations,
}

/// The history of objects that are live at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeakPattern {
    /// Survivors were born throughout: it grows with time or work.
    Growing,
    /// They were born at one time and stayed: a table or a cache, most often.
    OneOff,
}

#[derive(Clone, Copy, Debug, Default)]
struct Survivors {
    at_end: Amount,
    /// Bytes of survivors born before the peak.
    before_peak_bytes: u64,
    freed: u64,
    by_time: [u64; 8],
    by_allocations: [u64; 8],
}

/// Births remembered; more are thinned out.
const MARKS: usize = 1 << 13;

/// How many objects were born before a given one, to one in [`MARKS`] of all: ids are in order of
/// birth.
#[derive(Debug)]
struct BirthClock {
    births: u64,
    /// Every `stride`-th birth, from the first.
    marks: Vec<ObjectId>,
    stride: u64,
}

impl Default for BirthClock {
    fn default() -> Self {
        BirthClock { births: 0, marks: Vec::new(), stride: 1 }
    }
}

impl BirthClock {
    #[inline]
    fn born(&mut self, id: ObjectId) {
        if self.births.is_multiple_of(self.stride) {
            if self.marks.len() == MARKS {
                let mut index = 0;
                self.marks.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.stride *= 2;
            }
            self.marks.push(id);
        }
        self.births += 1;
    }

    fn eighth(&self, id: ObjectId) -> usize {
        let before =
            self.marks.partition_point(|mark| *mark <= id).saturating_sub(1) as u64 * self.stride;
        eighth(before, self.births)
    }
}

fn eighth(at: u64, end: u64) -> usize {
    (u128::from(at) * 8 / u128::from(end.max(1))).min(7) as usize
}

/// Sums up survivors by stack.
#[derive(Debug, Default)]
pub(crate) struct Leaks {
    stacks: HashMap<StackId, Survivors>,
    /// When the first object was born: a process that another one started does not begin at 0.
    began_ns: Option<u64>,
    births: BirthClock,
    /// Number of the last peak seen, and the clock of the request that reached it.
    peak: u64,
    peak_clock: u64,
    last_clock: u64,
    /// Whether there are times by which the run can be divided.
    is_timed: bool,
}

impl Leaks {
    pub(crate) fn new(_options: &Options) -> Leaks {
        Leaks::default()
    }

    /// Something was asked for. Only a request can reach a peak, which is then seen at what comes
    /// next.
    #[inline]
    fn requested(&mut self, now: &Instant) {
        self.see_peak(now);
        self.last_clock = now.requested_bytes;
    }

    #[inline]
    fn see_peak(&mut self, now: &Instant) {
        if now.peak != self.peak {
            (self.peak, self.peak_clock) = (now.peak, self.last_clock);
        }
    }
}

impl Detector for Leaks {
    #[inline]
    fn born(&mut self, now: &Instant, _event: &Event, id: ObjectId) {
        self.began_ns.get_or_insert(now.time_ns);
        self.births.born(id);
        self.requested(now);
    }

    fn resized(
        &mut self,
        now: &Instant,
        _event: &Event,
        _id: ObjectId,
        _before: &Object,
        _after: &Object,
    ) {
        self.requested(now);
    }

    fn survived(&mut self, now: &Instant, id: ObjectId, object: &Object) {
        self.see_peak(now);
        let began_ns = self.began_ns.unwrap_or(0);
        self.is_timed = now.time_ns > began_ns;
        let survivors = self.stacks.entry(object.stack).or_default();
        survivors.at_end.objects += 1;
        survivors.at_end.bytes += object.size;
        survivors.at_end.usable_bytes += object.usable;
        if object.born_clock <= self.peak_clock {
            survivors.before_peak_bytes += object.size;
        }
        survivors.by_time[eighth(
            object.born_ns.saturating_sub(began_ns),
            now.time_ns.saturating_sub(began_ns),
        )] += object.size;
        survivors.by_allocations[self.births.eighth(id)] += object.size;
    }

    fn finish(self, tables: &Tables, run: &Run<'_>, _peak: u64) -> Vec<Found> {
        let Run { profile, options } = *run;
        let mut sites = Sites::new(tables, options.site_frames);
        let mut by_site: BTreeMap<_, (Survivors, Vec<StackShare>)> = BTreeMap::new();
        let mut stacks: Vec<_> = self.stacks.into_iter().collect();
        stacks.sort_by_key(|(stack, _)| *stack);
        for (stack, survivors) in stacks {
            let (sum, shares) = by_site.entry(sites.of(stack)).or_default();
            sum.at_end.objects += survivors.at_end.objects;
            sum.at_end.bytes += survivors.at_end.bytes;
            sum.at_end.usable_bytes += survivors.at_end.usable_bytes;
            let (freed, at_peak) = profile
                .stack(stack)
                .map_or((0, 0), |row| (row.released.objects, row.at_peak.bytes));
            sum.freed += freed;
            // An object reallocated since the peak had another size there.
            sum.before_peak_bytes += survivors.before_peak_bytes.min(at_peak);
            sum.by_time.iter_mut().zip(survivors.by_time).for_each(|(sum, bytes)| *sum += bytes);
            sum.by_allocations
                .iter_mut()
                .zip(survivors.by_allocations)
                .for_each(|(sum, bytes)| *sum += bytes);
            shares.push(StackShare {
                stack,
                count: survivors.at_end.objects,
                bytes: survivors.at_end.bytes,
            });
        }
        let is_timed = self.is_timed;
        by_site
            .into_values()
            .filter_map(|(survivors, shares)| {
                finding(&survivors, is_timed, shares, profile, options)
            })
            .collect()
    }
}

/// Whether survivors were born throughout. At least five of the eight parts of the run left a tenth
/// of an even share, no part left more than half, the second half left half of the first half's
/// bytes, and the last quarter a quarter of an even share. Objects that came mostly at the start,
/// and ever more seldom, do not grow with the run.
fn grows(by_eighth: &[u64; 8]) -> bool {
    let sum = |parts: &[u64]| parts.iter().sum::<u64>();
    let all = sum(by_eighth);
    let parts = by_eighth.iter().filter(|bytes| **bytes > 0 && **bytes >= all / 80).count();
    let even = by_eighth.iter().all(|bytes| *bytes <= all / 2);
    let late = sum(&by_eighth[4..]) >= sum(&by_eighth[..4]) / 2 && sum(&by_eighth[6..]) >= all / 16;
    parts >= 5 && even && late
}

/// How survivors came to be, and the clock that shows it.
fn pattern(survivors: &Survivors, is_timed: bool) -> (LeakPattern, LeakClock) {
    let to_the_end = !is_timed
        || (survivors.by_time[7] > 0 && survivors.by_time[7] >= survivors.at_end.bytes / 80);
    if is_timed && grows(&survivors.by_time) {
        (LeakPattern::Growing, LeakClock::Time)
    } else if to_the_end && grows(&survivors.by_allocations) {
        (LeakPattern::Growing, LeakClock::Allocations)
    } else {
        (LeakPattern::OneOff, if is_timed { LeakClock::Time } else { LeakClock::Allocations })
    }
}

fn finding(
    survivors: &Survivors,
    is_timed: bool,
    shares: Vec<StackShare>,
    profile: &Profile,
    options: &Options,
) -> Option<Found> {
    let held = survivors.at_end;
    if !options.is_worth(profile, held.bytes, 0) {
        return None;
    }
    let (pattern, clock) = pattern(survivors, is_timed);
    let has_site = shares.iter().any(|share| share.stack != 0);
    let basis = options.basis.unwrap_or(Basis::Measured);
    let is_leak = pattern == LeakPattern::Growing && has_site;
    let at_peak_bytes = survivors.before_peak_bytes;
    let saving = Saving { at_peak_bytes, total_bytes: held.bytes, ..Saving::default() };
    let by_eighth =
        if clock == LeakClock::Time { survivors.by_time } else { survivors.by_allocations };
    let leak = Leak {
        at_end: held,
        freed: survivors.freed,
        pattern,
        born_by_eighth: by_eighth,
        eighths_of: clock,
    };
    Some(Found {
        count: held.objects,
        costs: vec![Cost { basis, at_peak_bytes, total_bytes: held.bytes }],
        saving: if is_leak { saving } else { Saving::default() },
        confidence: confidence(survivors, pattern, has_site, options),
        stacks: shares,
        ..Found::draft(basis, leak)
    })
}

impl Finding for Leak {
    evidence!(LEAK);

    fn cause(&self) -> String {
        format!("leak {:?} {:?}", self.pattern, self.eighths_of)
    }

    /// Adds another site of the same function.
    fn absorb(&mut self, other: Box<dyn Finding>) {
        let Ok(other) = other.into_any().downcast::<Leak>() else { return };
        self.at_end.objects += other.at_end.objects;
        self.at_end.bytes += other.at_end.bytes;
        self.at_end.usable_bytes += other.at_end.usable_bytes;
        self.freed += other.freed;
        self.born_by_eighth
            .iter_mut()
            .zip(other.born_by_eighth)
            .for_each(|(sum, bytes)| *sum += bytes);
    }

    /// Words for the title: bytes, and what to do.
    fn title(&self, _of: &Found) -> [String; 2] {
        let (held, objects) = (bytes(self.at_end.bytes), plural(self.at_end.objects, "object"));
        match self.pattern {
            LeakPattern::Growing => [
                format!("{held} in {objects} never freed, growing with the run"),
                "find the path that does not free".into(),
            ],
            LeakPattern::OneOff if self.freed > 0 => [
                format!(
                    "{held} still live at the end, {} of {} made",
                    count(self.at_end.objects),
                    plural(self.at_end.objects + self.freed, "object")
                ),
                "free them, or know why they stay".into(),
            ],
            LeakPattern::OneOff => [
                format!("{held} in {objects} still live at the end, none ever freed"),
                "free them, or know why they stay".into(),
            ],
        }
    }

    /// Words for what to do.
    fn advice(&self, of: &Found, _run: &Run<'_>) -> String {
        let has_site = !of.function.is_empty();
        let (held, made) = (self.at_end, self.freed + self.at_end.objects);
        let longer = match self.eighths_of {
            LeakClock::Time => "a run twice as long",
            LeakClock::Allocations => "twice the work",
        };
        match self.pattern {
            _ if !has_site => {
                "No call stack was recorded with these, so that they may come from anywhere in the program: record with stacks (--stack-depth)."
                    .to_string()
            }
            LeakPattern::Growing => format!(
                "Of {} made here, {} ({}) stayed. Look for the path that does not free; at this pace {longer} holds twice as much.",
                plural(made, "object"),
                count(held.objects),
                percent(share(held.objects, made))
            ),
            LeakPattern::OneOff => {
                "They came at one time. A table or a cache for the life of the program may stay; a recording does not say whether anything still points to the rest (LeakSanitizer and valgrind do): free those."
                    .to_string()
            }
        }
    }

    fn needed_bytes(&self, of: &Found) -> u64 {
        of.wasted_total_bytes()
    }

    fn rank(&self, of: &Found, run: &Run<'_>) -> Rank {
        let (held, has_site) = (self.needed_bytes(of), of.stack() != 0);
        let kept = run.profile.peak.live.bytes / run.options.kept_part.max(1);
        match self.pattern {
            // Without a stack nobody can be named, so nothing can be saved.
            LeakPattern::Growing if run.is_large(held) && of.saving.total_bytes > 0 => Rank::Leak,
            LeakPattern::OneOff if has_site && held >= kept.max(run.options.least_bytes) => {
                Rank::Kept
            }
            _ => Rank::OverRun,
        }
    }

    fn came_once(&self) -> bool {
        self.pattern == LeakPattern::OneOff
    }

    fn cost(&self, of: &Found) -> String {
        let (peak, total) = (of.wasted_at_peak_bytes(), of.wasted_total_bytes());
        match peak {
            _ if peak == total => format!("{} held at the end.", bytes(total)),
            0 => format!("{} held at the end, nothing of it at the peak.", bytes(total)),
            _ => format!("{} held at the end, {} of it at the peak.", bytes(total), bytes(peak)),
        }
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let pattern = match self.pattern {
            LeakPattern::Growing => "born throughout: it grows with time or work",
            LeakPattern::OneOff => "born at one time: a table or a cache, most often",
        };
        let eighths: Vec<String> = self.born_by_eighth.iter().map(|part| bytes(*part)).collect();
        let live =
            format!("{} in {}", bytes(self.at_end.bytes), plural(self.at_end.objects, "object"));
        let clock = match self.eighths_of {
            LeakClock::Time => "Born in each eighth of the run",
            LeakClock::Allocations => "Born in each eighth of the run's allocations",
        };
        vec![
            ("Pattern", pattern.into()),
            ("Live at the end", live),
            ("Freed by this site", plural(self.freed, "object")),
            (clock, eighths.join(", ")),
        ]
    }
}

fn confidence(
    survivors: &Survivors,
    pattern: LeakPattern,
    has_site: bool,
    options: &Options,
) -> Confidence {
    let (level, reason) = match pattern {
        _ if !options.ended => {
            (Level::Low, "the program was not seen to end; it may have gone on to free them")
        }
        _ if !has_site => (
            Level::Low,
            "without call stacks, what one place keeps is not told from what others free",
        ),
        LeakPattern::Growing if survivors.freed > survivors.at_end.objects => {
            (Level::High, "survivors were born throughout, and most objects of the site were freed")
        }
        LeakPattern::Growing if survivors.freed == 0 => (
            Level::Medium,
            "survivors were born throughout, but no object of the site was ever freed",
        ),
        LeakPattern::Growing => (
            Level::Medium,
            "survivors were born throughout, but few objects of the site were ever freed",
        ),
        LeakPattern::OneOff => {
            (Level::Low, "born at one time: most often a table kept for the life of the program")
        }
    };
    Confidence { level, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_births_thins_out_and_stays_true() {
        let mut clock = BirthClock::default();
        for birth in 0..100_000u64 {
            clock.born(10 + 3 * birth);
        }
        assert!(
            clock.marks.len() <= MARKS && clock.stride == 16,
            "{} marks, every {}",
            clock.marks.len(),
            clock.stride
        );
        for birth in (0..100_000u64).step_by(997) {
            let exact = birth as usize * 8 / 100_000;
            assert!(
                clock.eighth(10 + 3 * birth).abs_diff(exact) <= usize::from(birth % 12_500 < 16),
                "{birth}"
            );
        }
        assert_eq!([clock.eighth(0), clock.eighth(u64::MAX)], [0, 7]);
    }

    #[test]
    fn what_comes_ever_more_seldom_does_not_grow() {
        assert!(!grows(&[275, 339, 104, 36, 42, 0, 8, 0]));
        assert!(!grows(&[100, 100, 100, 100, 100, 100, 0, 0]));
        assert!(!grows(&[0, 0, 0, 0, 0, 0, 0, 800]));
        assert!(grows(&[100; 8]));
        assert!(grows(&[200, 150, 100, 100, 100, 0, 100, 100]));
        assert!(grows(&[0, 0, 10, 20, 30, 40, 50, 60]));
    }
}
