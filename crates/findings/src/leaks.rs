//! What is live at the end, by site, and whether it grew with the run or came once.
//!
//! Live at exit is not a leak by itself: tables and caches live as long as their program. Survivors that were born throughout the
//! run, at a site whose other objects were freed, are what a leak looks like; that is said, and with how much confidence.

use crate::sites::{Sites, largest};
use crate::words::{bytes, count, percent, plural};
use crate::{Basis, Confidence, Cost, Evidence, Finding, Kind, Leak, LeakPattern, Level, Options, Saving, StackShare, model::share};
use hashbrown::HashMap;
use heaplab_profile::{Amount, Instant, Object, Profile};
use heaplab_trace::{StackId, tables::Tables};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, Default)]
struct Survivors {
    at_end: Amount,
    freed: u64,
    by_eighth: [u64; 8],
}

/// Sums up survivors by stack.
#[derive(Debug, Default)]
pub(crate) struct Leaks {
    stacks: HashMap<StackId, Survivors>,
    /// When the first object was born: a process that another one started does not begin at 0.
    began_ns: Option<u64>,
}

impl Leaks {
    #[inline]
    pub(crate) fn born(&mut self, now: &Instant) {
        self.began_ns.get_or_insert(now.time_ns);
    }

    pub(crate) fn survived(&mut self, now: &Instant, object: &Object) {
        let survivors = self.stacks.entry(object.stack).or_default();
        survivors.at_end.objects += 1;
        survivors.at_end.bytes += object.size;
        survivors.at_end.usable_bytes += object.usable;
        // Traces without time are divided by what was asked for.
        let began_ns = self.began_ns.unwrap_or(0);
        let (born, end) = if now.time_ns > began_ns {
            (object.born_ns.saturating_sub(began_ns), now.time_ns - began_ns)
        } else {
            (object.born_clock, now.requested_bytes)
        };
        let eighth = (u128::from(born) * 8 / u128::from(end.max(1))).min(7) as usize;
        survivors.by_eighth[eighth] += object.size;
    }

    pub(crate) fn finish(self, tables: &Tables, profile: &Profile, options: &Options) -> Vec<Finding> {
        let mut sites = Sites::new(tables, options.site_frames);
        let mut by_site: BTreeMap<_, (Survivors, Vec<StackShare>)> = BTreeMap::new();
        let mut stacks: Vec<_> = self.stacks.into_iter().collect();
        stacks.sort_by_key(|(stack, _)| *stack);
        for (stack, survivors) in stacks {
            let (sum, shares) = by_site.entry(sites.of(stack)).or_default();
            sum.at_end.objects += survivors.at_end.objects;
            sum.at_end.bytes += survivors.at_end.bytes;
            sum.at_end.usable_bytes += survivors.at_end.usable_bytes;
            sum.freed += profile.stack(stack).map_or(0, |row| row.released.objects);
            sum.by_eighth.iter_mut().zip(survivors.by_eighth).for_each(|(sum, bytes)| *sum += bytes);
            shares.push(StackShare { stack, count: survivors.at_end.objects, bytes: survivors.at_end.bytes });
        }
        by_site.into_values().filter_map(|(survivors, shares)| finding(&survivors, shares, profile, options)).collect()
    }
}

/// Growing: at least five of the eight parts of the run left a tenth of an even share, and no part left more than half.
fn pattern(survivors: &Survivors) -> LeakPattern {
    let all = survivors.at_end.bytes;
    let parts = survivors.by_eighth.iter().filter(|bytes| **bytes > 0 && **bytes >= all / 80).count();
    let even = survivors.by_eighth.iter().all(|bytes| *bytes <= all / 2);
    if parts >= 5 && even { LeakPattern::Growing } else { LeakPattern::OneOff }
}

fn finding(survivors: &Survivors, shares: Vec<StackShare>, profile: &Profile, options: &Options) -> Option<Finding> {
    let held = survivors.at_end;
    if !options.is_worth(profile, held.bytes, 0) {
        return None;
    }
    let pattern = pattern(survivors);
    let objects = survivors.freed + held.objects;
    let (level, reason) = match pattern {
        _ if !options.ended => (Level::Low, "the program was not seen to end; it may have gone on to free them"),
        LeakPattern::Growing if survivors.freed > held.objects => {
            (Level::High, "survivors were born throughout, and most objects of the site were freed")
        }
        LeakPattern::Growing => (Level::Medium, "survivors were born throughout, but few objects of the site were ever freed"),
        LeakPattern::OneOff => (Level::Low, "born at one time: most often a table kept for the life of the program"),
    };
    let (title, advice) = match pattern {
        LeakPattern::Growing => (
            format!("{} in {} were never freed, and grew with the run", bytes(held.bytes), plural(held.objects, "object")),
            format!(
                "Of {} this site made, {} ({}) stayed. Look for the path that does not free; at this pace a run twice as long holds twice as much.",
                plural(objects, "object"),
                count(held.objects),
                percent(share(held.objects, objects))
            ),
        ),
        LeakPattern::OneOff => (
            format!("{} in {} were still live", bytes(held.bytes), plural(held.objects, "object")),
            "They came at one time. If they are a table or a cache for the life of the program, nothing is to be done; else free them."
                .to_string(),
        ),
    };
    let (stacks, stack_count) = largest(shares, options.stacks_per_finding);
    let basis = options.basis.unwrap_or(Basis::Measured);
    let leaked = if pattern == LeakPattern::Growing { held.bytes } else { 0 };
    Some(Finding {
        kind: Kind::Leak,
        title,
        advice,
        count: held.objects,
        costs: vec![Cost { basis, at_peak_bytes: held.bytes, total_bytes: held.bytes }],
        basis,
        saving: Saving { at_peak_bytes: leaked, total_bytes: leaked, ..Saving::default() },
        confidence: Confidence { level, reason: reason.into() },
        stacks,
        stack_count,
        evidence: Evidence::Leak(Leak { at_end: held, freed: survivors.freed, pattern, born_by_eighth: survivors.by_eighth }),
    })
}
