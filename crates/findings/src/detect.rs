//! All detectors as one observer of the profile's pass.
//!
//! `lib.rs` lists them with [`detectors!`]: a new finding is a file of its own and two lines there.

use crate::churn::CHURN;
use crate::clownshoes::uses_their_slop;
use crate::finding::Run;
use crate::first_sentences::lead;
use crate::group::by_function;
use crate::growth::{GROWTH, Growth, Through};
use crate::slop::{When, by_allocator, counts};
use crate::{Basis, Detectors, Findings, Found, Options, function, nameless, rank};
use heaplab_profile::{Profile, ProfileOptions, profile};
use heaplab_size_class::Allocator;
use heaplab_text::words::count;
use heaplab_trace::tables::Tables;
use heaplab_trace::{EventSource, TraceError};
use std::collections::HashMap;

/// Each detector sees every event, without dynamic dispatch: this is the inner loop of a report.
macro_rules! detectors {
    ($($name:ident: $detector:ty),+ $(,)?) => {
        /// Watches a pass and gives its findings afterwards.
        #[derive(Debug)]
        pub(crate) struct Detectors {
            options: $crate::Options,
            /// Number of the highest peak, once the pass has ended.
            peak: u64,
            $($name: $detector,)+
        }

        impl Detectors {
            fn with(options: $crate::Options) -> Detectors {
                Detectors { $($name: <$detector>::new(&options),)+ peak: 0, options }
            }

            /// What each found, in the order of the list.
            fn found(
                self,
                tables: &heaplab_trace::tables::Tables,
                run: &$crate::Run<'_>,
            ) -> Vec<$crate::Found> {
                use $crate::finding::Detector;
                let mut found = Vec::new();
                $(found.extend(self.$name.finish(tables, run, self.peak));)+
                found
            }
        }

        impl heaplab_profile::Observer for Detectors {
            fn begins(&mut self, tables: &heaplab_trace::tables::Tables) {
                use $crate::finding::Detector;
                $(self.$name.begins(tables);)+
            }

            #[inline]
            fn born(&mut self, now: &heaplab_profile::Instant, event: &heaplab_trace::Event, id: heaplab_trace::ObjectId, _object: &heaplab_profile::Object) {
                $($crate::finding::Detector::born(&mut self.$name, now, event, id);)+
            }

            fn resized(
                &mut self,
                now: &heaplab_profile::Instant,
                event: &heaplab_trace::Event,
                id: heaplab_trace::ObjectId,
                before: &heaplab_profile::Object,
                after: &heaplab_profile::Object,
            ) {
                $($crate::finding::Detector::resized(&mut self.$name, now, event, id, before, after);)+
            }

            #[inline]
            fn died(&mut self, now: &heaplab_profile::Instant, event: &heaplab_trace::Event, id: heaplab_trace::ObjectId, object: &heaplab_profile::Object) {
                $($crate::finding::Detector::died(&mut self.$name, now, event, id, object);)+
            }

            fn survived(&mut self, now: &heaplab_profile::Instant, id: heaplab_trace::ObjectId, object: &heaplab_profile::Object) {
                $($crate::finding::Detector::survived(&mut self.$name, now, id, object);)+
            }

            fn ended(&mut self, now: &heaplab_profile::Instant) {
                self.peak = now.peak;
            }
        }
    };
}
pub(crate) use detectors;

/// Reads all events of `source` once: their profile, and the findings.
///
/// # Errors
/// As for [`profile`].
pub fn find(
    tables: &Tables,
    source: &mut dyn EventSource,
    profiled: &ProfileOptions,
    options: Options,
) -> Result<(Profile, Findings), TraceError> {
    let mut detectors = Detectors::new(options);
    let profile = profile(tables, source, profiled, &mut detectors)?;
    let findings = detectors.finish(tables, &profile);
    Ok((profile, findings))
}

impl Detectors {
    /// Begins with nothing seen.
    fn new(options: Options) -> Detectors {
        // A sanitizer's blocks tell nothing about the allocator that the program uses without the
        // sanitizer.
        let unasked = options.recorded_under_sanitizer().then_some(Basis::Table(Allocator::Glibc));
        Detectors::with(Options { basis: options.basis.or(unasked), ..options })
    }

    /// The findings; `profile` is the result of the watched pass.
    fn finish(self, tables: &Tables, profile: &Profile) -> Findings {
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
        let options = self.options.clone();
        let run = Run { profile, options: &options };
        let uses_its_slop = uses_their_slop(profile);
        let mut findings = by_function(tables, self.found(tables, &run), &options);
        let mut readers: HashMap<String, u64> = HashMap::new();
        for site in &uses_its_slop {
            *readers.entry(function::function(tables, site.stack)).or_default() +=
                site.usable_size_reads;
        }
        for finding in &mut findings {
            let reads = readers.get(&finding.function).copied().unwrap_or(0);
            finding.evidence.reads_usable_sizes(reads);
            word(tables, finding, &run);
        }
        rank::sort(&mut findings, &run);
        once(&mut findings);
        let unasked =
            if profile.is_measured() { Basis::Measured } else { Basis::Table(Allocator::Jemalloc) };
        let basis = options.basis.unwrap_or(unasked);
        Findings {
            lead: lead(tables, profile, &findings, &options),
            findings,
            uses_its_slop,
            slop: by_allocator(profile, options.asked_table()),
            counts: counts(profile, basis, When::WholeRun, options.counts_rows),
            counts_at_peak: counts(profile, basis, When::AtPeak, options.counts_rows),
            limits,
        }
    }
}

/// A buffer that is made, grown and given back again and again appears as growth and as churn. Only
/// one of the two findings stays, and names the other if that shows another side of the same
/// buffers. Doubling is the smaller change, so growth stays if it spares most of the requested
/// bytes.
fn once(findings: &mut Vec<Found>) {
    let mut at = 0;
    while at < findings.len() {
        let other = match findings[at].kind {
            kind if kind == GROWTH => CHURN,
            kind if kind == CHURN => GROWTH,
            _ => {
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
        let (growth, churn) = if other == CHURN { (at, later) } else { (later, at) };
        let spared = |finding: usize| u128::from(findings[finding].saving.total_bytes);
        let (kept, gone) =
            if spared(growth) * 4 >= spared(churn) * 3 { (growth, churn) } else { (churn, growth) };
        let title = std::mem::take(&mut findings[gone].what);
        let sentence = match (findings[growth].evidence::<Growth>(), kept == growth) {
            // Here the steps come and go: each step is a block of its own, or there is only one
            // buffer.
            (Some(of), true) if of.through == Through::AllocateCopyFree || of.chains == 1 => {
                String::new()
            }
            (_, true) => format!(
                " The same buffers come and go: {title}. Kept and reused, they would not grow again each time."
            ),
            (Some(of), false) if of.through == Through::AllocateCopyFree => {
                format!(" Seen at the same place: {title}.")
            }
            (_, false) => format!(
                " The same buffers grow as well: {title}. A buffer kept at its full size grew only once."
            ),
        };
        findings[kept].advice.push_str(&sentence);
        findings.remove(gone);
    }
}

/// Whether most of a finding comes from stacks of the other.
fn is_of(finding: &Found, other: &Found) -> bool {
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
fn word(tables: &Tables, finding: &mut Found, run: &Run<'_>) {
    let [what, todo] = finding.evidence.title(finding);
    finding.cost = finding.evidence.cost(finding);
    finding.advice = finding.evidence.advice(finding, run);
    let under = function::named_caller(tables, finding.stack())
        .map_or(String::new(), |caller| format!(" (under {caller})"));
    let place = match (finding.function.as_str(), finding.function_count) {
        ("", _) => "(no stack)".to_string(),
        (name, 0..=1) => format!("{name}{under}"),
        (name, all) => format!("{name}{under} and {} more", count(all - 1)),
    };
    finding.title = format!("{place}: {what}; {todo}");
    finding.what = what;
}
