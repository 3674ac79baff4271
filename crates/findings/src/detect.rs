//! All detectors as one observer of the profile's pass.

use crate::churn::Churns;
use crate::clownshoes::Pairs;
use crate::group::by_function;
use crate::growth::Growths;
use crate::lead::lead;
use crate::leaks::Leaks;
use crate::slop::{When, by_allocator, counts};
use crate::words::count;
use crate::{Basis, Evidence, Finding, Findings, Kind, Options, Through, function, nameless, rank};
use heaplab_profile::{Instant, Object, Observer, Profile};
use heaplab_size_class::Allocator;
use heaplab_trace::{Event, ObjectId, tables::Tables};
use std::collections::HashMap;

/// Watches a pass and says afterwards what it found.
#[derive(Debug)]
pub struct Detectors {
    options: Options,
    pairs: Pairs,
    growths: Growths,
    churns: Churns,
    leaks: Leaks,
    /// Number of the highest peak, once the pass has ended.
    peak: u64,
}

impl Detectors {
    /// Begins with nothing seen.
    pub fn new(options: Options) -> Detectors {
        // What a sanitizer says of its own blocks tells nothing of the allocator that the program
        // runs on without the sanitizer.
        let unasked = options.recorded_under_sanitizer().then_some(Basis::Table(Allocator::Glibc));
        let options = Options { basis: options.basis.or(unasked), ..options };
        Detectors {
            pairs: Pairs::new(&options),
            growths: Growths::new(&options),
            churns: Churns::new(&options),
            leaks: Leaks::default(),
            peak: 0,
            options,
        }
    }

    /// What was found, `profile` being the result of the pass that was watched.
    pub fn finish(self, tables: &Tables, profile: &Profile) -> Findings {
        let options = &self.options;
        let mut limits = Vec::new();
        if options.recorded_under_sanitizer() {
            let basis = options.basis.unwrap_or(Basis::Measured).title();
            limits.push(format!(
                "Recorded under {}, which reports usable sizes equal to requests and pads every block: slop is judged by {basis}, and resident memory includes the sanitizer's. Record a build without the sanitizer.",
                options.recorded_under
            ));
        }
        if self.pairs.overflowed > 0 {
            limits.push(format!(
                "More than {} pairs of stack and size: {} suspicious requests were counted without their stack.",
                count(options.pair_limit as u64),
                count(self.pairs.overflowed)
            ));
        }
        if profile.totals.grouped_requests > 0 {
            limits.push(format!(
                "Too many distinct sizes for a row each: {} requests share rows with sizes at most 0.4 % apart.",
                count(profile.totals.grouped_requests)
            ));
        }
        if !profile.stacks.is_empty() && profile.stacks.iter().all(|row| row.stack == 0) {
            limits.push("No call stacks were recorded: churn was not looked for, and nothing could be told apart by place.".into());
        }
        limits.extend(nameless::hint(tables, profile, options));
        let (mut findings, uses_its_slop) = self.pairs.finish(tables, profile, options, self.peak);
        findings.extend(self.growths.finish(tables, profile, options));
        findings.extend(self.churns.finish(profile, options));
        findings.extend(self.leaks.finish(tables, profile, options));
        let mut findings = by_function(tables, findings, options);
        let mut readers: HashMap<String, u64> = HashMap::new();
        for site in &uses_its_slop {
            *readers.entry(function::function(tables, site.stack)).or_default() +=
                site.usable_size_reads;
        }
        for finding in &mut findings {
            if let Evidence::Growth(growth) = &mut finding.evidence {
                growth.usable_size_reads = readers.get(&finding.function).copied().unwrap_or(0);
            }
            word(finding, profile, options);
        }
        rank::sort(&mut findings, profile, options);
        once(&mut findings);
        let unasked =
            if profile.is_measured() { Basis::Measured } else { Basis::Table(Allocator::Jemalloc) };
        let basis = options.basis.unwrap_or(unasked);
        Findings {
            lead: lead(tables, profile, &findings, options),
            findings,
            uses_its_slop,
            slop: by_allocator(profile),
            counts: counts(profile, basis, When::WholeRun, options.counts_rows),
            counts_at_peak: counts(profile, basis, When::AtPeak, options.counts_rows),
            limits,
        }
    }
}

/// A buffer that is made anew, grown and given back over and over is found as growth and as churn.
/// It is one buffer: of the two one stays, and names the other where that is another side of the
/// same buffers. Doubling is the lesser change, so growth stays where that spares most of what is
/// asked for.
fn once(findings: &mut Vec<Finding>) {
    let mut at = 0;
    while at < findings.len() {
        let other = match findings[at].kind {
            Kind::Growth => Kind::Churn,
            Kind::Churn => Kind::Growth,
            Kind::Clownshoes | Kind::Leak => {
                at += 1;
                continue;
            }
        };
        let same = |later: &usize| {
            findings[*later].kind == other && is_of(&findings[*later], &findings[at])
        };
        let Some(later) = (at + 1..findings.len()).find(same) else {
            at += 1;
            continue;
        };
        let (growth, churn) = if other == Kind::Churn { (at, later) } else { (later, at) };
        let spared = |finding: usize| u128::from(findings[finding].saving.total_bytes);
        let (kept, gone) =
            if spared(growth) * 4 >= spared(churn) * 3 { (growth, churn) } else { (churn, growth) };
        let title = std::mem::take(&mut findings[gone].what);
        let sentence = match (&findings[growth].evidence, kept == growth) {
            // What comes and goes here are the steps: each is a block of its own, or there is one
            // buffer.
            (Evidence::Growth(of), true)
                if of.through == Through::AllocateCopyFree || of.chains == 1 =>
            {
                String::new()
            }
            (_, true) => format!(
                " The same buffers come and go: {title}. Kept and used again they would not grow anew each time."
            ),
            (Evidence::Growth(of), false) if of.through == Through::AllocateCopyFree => {
                format!(" Seen at the same place: {title}.")
            }
            (_, false) => format!(
                " The same buffers grow as well: {title}. What is kept at its full size has done so once."
            ),
        };
        findings[kept].advice.push_str(&sentence);
        findings.remove(gone);
    }
}

/// Whether most of a finding comes from stacks of the other.
fn is_of(finding: &Finding, other: &Finding) -> bool {
    let in_other = |stack| other.stacks.iter().any(|share| share.stack == stack);
    let bytes = |shared: bool| {
        finding
            .stacks
            .iter()
            .filter(|share| !shared || in_other(share.stack))
            .map(|share| share.bytes)
            .sum::<u64>()
    };
    bytes(true) > 0 && bytes(true) >= bytes(false) / 2
}

/// Makes the words, once all that belongs together is one finding.
fn word(finding: &mut Finding, profile: &Profile, options: &Options) {
    let level = finding.confidence.level;
    let recorded = options.recorded(profile);
    let [what, todo] = match &finding.evidence {
        Evidence::Clownshoes(shoe) => shoe.title(finding.count, finding.basis, &finding.saving),
        Evidence::Growth(growth) => growth.title(&finding.saving, level),
        Evidence::Churn(churn) => churn.title(),
        Evidence::Leak(leak) => leak.title(),
    };
    finding.advice = match &finding.evidence {
        Evidence::Clownshoes(shoe) => crate::shoe_words::advice(
            shoe,
            finding.basis,
            &finding.saving,
            &finding.costs,
            recorded,
        ),
        Evidence::Growth(growth) => growth.advice(level),
        Evidence::Churn(churn) => {
            crate::churn::advice(churn, finding.saving.requests, profile.totals.allocations)
        }
        Evidence::Leak(leak) => leak.advice(!finding.function.is_empty()),
    };
    let place = match (finding.function.as_str(), finding.function_count) {
        ("", _) => "(no stack)".to_string(),
        (name, 0..=1) => name.to_string(),
        (name, all) => format!("{name} and {} more", count(all - 1)),
    };
    finding.title = format!("{place}: {what}; {todo}");
    finding.what = what;
}

impl Observer for Detectors {
    fn begins(&mut self, tables: &Tables) {
        self.churns.begins(tables);
    }

    #[inline]
    fn born(&mut self, now: &Instant, event: &Event, id: ObjectId, _object: &Object) {
        self.pairs.add(now, event.stack, event.size, event.usable);
        self.growths.born(now, event, id);
        self.churns.born(event);
        self.leaks.born(now, id);
    }

    fn resized(
        &mut self,
        now: &Instant,
        event: &Event,
        id: ObjectId,
        before: &Object,
        after: &Object,
    ) {
        self.pairs.remove(now, before.stack, before.size, before.usable);
        self.pairs.add(now, after.stack, after.size, after.usable);
        self.growths.resized(event, id, before, after);
        self.churns.resized(before, after);
        self.leaks.requested(now);
    }

    #[inline]
    fn died(&mut self, now: &Instant, event: &Event, id: ObjectId, object: &Object) {
        self.pairs.remove(now, object.stack, object.size, object.usable);
        self.growths.died(now, event, id, object);
        self.churns.died(now, object);
    }

    fn survived(&mut self, now: &Instant, id: ObjectId, object: &Object) {
        self.leaks.survived(now, id, object);
    }

    fn ended(&mut self, now: &Instant) {
        self.peak = now.peak;
    }
}
