//! Words for a request a few bytes over a class: the probable cause, the advice, the certainty.
//!
//! Advice never leads to a buffer that is too small: it names the bytes that a change takes from
//! the content, and the size of the block if the content cannot be shorter.

use crate::clownshoe::CLOWNSHOES;
use crate::finding::{Finding, Run, evidence};
use crate::{
    Basis, Cause, Clownshoe, Confidence, Cost, Found, Level, Options, Rank, Saving, ShoeSize,
};
use heaplab_profile::Amount;
use heaplab_size_class::Allocator;
use heaplab_text::words::{bytes, count, plural};

/// From this size on, a round one is somebody's choice rather than chance.
pub(crate) const ROUND_BYTES: u64 = 1024;

/// Sizes that a title or an advice names; the rest are counted.
const NAMED: usize = 4;

impl Finding for Clownshoe {
    evidence!(CLOWNSHOES);

    fn cause(&self) -> String {
        let cause = match &self.cause {
            Cause::ConstantHeader { bytes, .. } => format!("header {bytes}"),
            Cause::Terminator { bytes } => format!("terminator {bytes}"),
            Cause::RoundPlusVarying { .. } | Cause::RoundPlusConstant { .. } => "round".into(),
            Cause::Coincidence => "coincidence".into(),
        };
        format!("clownshoes {} {cause}", self.elsewhere)
    }

    /// Takes in other sizes of the same function.
    fn absorb(&mut self, other: Box<dyn Finding>) {
        let Ok(other) = other.into_any().downcast::<Clownshoe>() else { return };
        let Clownshoe { sizes, cause: of_other, .. } = *other;
        for size in sizes {
            match self.sizes.iter_mut().find(|known| known.request == size.request) {
                Some(known) => {
                    add(&mut known.requested, size.requested);
                    add(&mut known.at_peak, size.at_peak);
                    known.saving.at_peak_bytes += size.saving.at_peak_bytes;
                    known.saving.total_bytes += size.saving.total_bytes;
                }
                None => self.sizes.push(size),
            }
        }
        self.size_count = self.sizes.len() as u64;
        let cause = match (&self.cause, &of_other) {
            (
                Cause::ConstantHeader { bytes, round_sizes },
                Cause::ConstantHeader { round_sizes: others, .. },
            ) => Cause::ConstantHeader { bytes: *bytes, round_sizes: union(round_sizes, others) },
            (Cause::Terminator { .. } | Cause::Coincidence, _) => return,
            (cause, other) => match (varying(cause), varying(other)) {
                (Some((rounds, least, most)), Some((others, other_least, other_most))) => {
                    Cause::RoundPlusVarying {
                        round_sizes: union(&rounds, &others),
                        least_bytes: least.min(other_least),
                        most_bytes: most.max(other_most),
                    }
                }
                _ => return,
            },
        };
        self.cause = cause;
    }

    /// Keeps the sizes that would save most.
    fn shorten(&mut self, options: &Options) {
        self.sizes.sort_by_key(|size| {
            let saving = size.saving;
            let order = (saving.at_peak_bytes, saving.total_bytes, size.requested.objects);
            (std::cmp::Reverse(order), size.request)
        });
        self.sizes.truncate(options.sizes_per_finding.max(1));
    }

    fn title(&self, of: &Found) -> [String; 2] {
        let (requests, basis, saving) = (of.count, of.basis, &of.saving);
        let first = self.first();
        let saved = if saving.at_peak_bytes > 0 {
            format!("{} at the peak", bytes(saving.at_peak_bytes))
        } else {
            format!("{} over the run", bytes(saving.total_bytes))
        };
        let on = match basis {
            Basis::Measured => String::new(),
            Basis::Table(allocator) => format!(" on {}", allocator.title()),
        };
        let over = plural(first.over_bytes, "byte");
        let sizes = match &self.cause {
            Cause::RoundPlusVarying { round_sizes, least_bytes, most_bytes } => format!(
                "{}, {} over {}",
                plural(requests, "request"),
                if least_bytes == most_bytes {
                    plural(*most_bytes, "byte")
                } else {
                    format!("{} to {}", count(*least_bytes), plural(*most_bytes, "byte"))
                },
                few(round_sizes)
            ),
            _ if self.size_count <= 1 => format!(
                "{}-byte requests, {over} over {}",
                count(first.request),
                count(first.free_request)
            ),
            Cause::Coincidence => {
                format!("{} of {}, just over a class", plural(requests, "request"), asked(self))
            }
            _ => format!(
                "{} of {}, {over} over powers of two",
                plural(requests, "request"),
                asked(self)
            ),
        };
        let free = count(first.free_request);
        let todo = match &self.cause {
            Cause::ConstantHeader { bytes, .. } => {
                format!("make each payload {} shorter", plural(*bytes, "byte"))
            }
            Cause::Terminator { .. } => "round up after adding the terminator".into(),
            _ if self.size_count <= 1 => {
                format!("ask for {free} or use all {}", count(first.usable))
            }
            Cause::Coincidence => "ask for the class below or use all of the next".into(),
            _ => "let the round size hold both".into(),
        };
        [format!("{saved}{on} for {sizes}"), todo]
    }

    fn felt_bytes(&self, of: &Found) -> u64 {
        if self.elsewhere { of.wasted_at_peak_bytes() } else { of.saving.at_peak_bytes }
    }

    fn rank(&self, of: &Found, run: &Run<'_>) -> Rank {
        match of.saving.at_peak_bytes {
            _ if self.elsewhere => Rank::Elsewhere,
            saved if run.is_large(saved) => Rank::AtPeak,
            _ => Rank::OverRun,
        }
    }

    fn cost(&self, of: &Found) -> String {
        let requests = plural(of.count, "request");
        let (peak, total) = (bytes(of.wasted_at_peak_bytes()), bytes(of.wasted_total_bytes()));
        let name = of.basis.title();
        let sum = match of.basis {
            _ if self.elsewhere => format!(
                "On {name} it would waste {peak} at the peak, {total} over the run in {requests}; {}.",
                as_recorded(of)
            ),
            Basis::Measured => format!(
                "{peak} of slop at the peak, {total} over the run in {requests}, as measured."
            ),
            Basis::Table(_) => {
                format!("{peak} of slop at the peak, {total} over the run in {requests} on {name}.")
            }
        };
        let others = others(of, self.elsewhere);
        if others.is_empty() {
            sum
        } else {
            format!("{sum} Elsewhere at the peak: {}.", others.join(", "))
        }
    }

    fn advice(&self, of: &Found, run: &Run<'_>) -> String {
        advice(self, of.basis, &of.saving, &of.costs, run.options.recorded(run.profile))
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        facts(self)
    }

    fn sizes(&self) -> (&[ShoeSize], u64) {
        (&self.sizes, self.size_count)
    }
}

/// The cost, on the recorded allocator, of a finding told on another one.
fn as_recorded(of: &Found) -> String {
    match of.costs.iter().find(|cost| cost.basis == Basis::Measured) {
        Some(cost) => {
            format!("as recorded {} and {}", bytes(cost.at_peak_bytes), bytes(cost.total_bytes))
        }
        None => "as recorded nothing".into(),
    }
}

/// The peak's cost on the allocators that were not judged by; a version that costs what its sibling
/// costs is left out.
fn others(found: &Found, elsewhere: bool) -> Vec<String> {
    let of =
        |basis| found.costs.iter().find(|cost| cost.basis == basis).map(|cost| cost.at_peak_bytes);
    let same = |basis| match basis {
        Basis::Table(Allocator::Jemalloc530) => of(basis) == of(Basis::Table(Allocator::Jemalloc)),
        Basis::Table(Allocator::Mimalloc2) => of(basis) == of(Basis::Table(Allocator::Mimalloc)),
        _ => false,
    };
    let told = |basis| basis == found.basis || (elsewhere && basis == Basis::Measured);
    let others = found
        .costs
        .iter()
        .filter(|cost| !told(cost.basis) && cost.at_peak_bytes > 0 && !same(cost.basis));
    others.map(|cost| format!("{} {}", cost.basis.name(), bytes(cost.at_peak_bytes))).collect()
}

fn facts(shoe: &Clownshoe) -> Vec<(&'static str, String)> {
    let rounds = |sizes: &[u64]| {
        let words: Vec<String> = sizes.iter().take(6).map(|size| count(*size)).collect();
        format!("{}{}", words.join("; "), if sizes.len() > 6 { "; ..." } else { "" })
    };
    let cause = match &shoe.cause {
        Cause::ConstantHeader { bytes, round_sizes } => {
            format!("a header of {bytes} bytes, seen on {}", rounds(round_sizes))
        }
        Cause::Terminator { bytes } => format!("a terminator of {bytes} bytes"),
        Cause::RoundPlusVarying { round_sizes, least_bytes, most_bytes } => {
            format!("{} and a part of {least_bytes} to {most_bytes} bytes", rounds(round_sizes))
        }
        Cause::RoundPlusConstant { round, bytes } => {
            format!("{} and a constant {bytes}", count(*round))
        }
        Cause::Coincidence => "no pattern: perhaps coincidence".into(),
    };
    let mut facts = vec![("Probable cause", cause)];
    if shoe.size_count <= 1 {
        let size = shoe.first();
        let slop = size.usable.saturating_sub(size.request);
        let becomes =
            format!("{} → {} B ({} B slop)", count(size.request), count(size.usable), count(slop));
        let free = format!("{} B", count(size.free_request));
        facts.insert(0, ("Request becomes", becomes));
        facts.insert(1, ("Request that costs nothing", free));
        facts.push(("Live at peak", count(size.at_peak.objects)));
    } else if shoe.size_count > shoe.sizes.len() as u64 {
        let all = count(shoe.size_count);
        facts.push(("Sizes", format!("{all}, of which those that would save most are listed")));
    }
    facts
}

fn add(sum: &mut Amount, part: Amount) {
    sum.objects += part.objects;
    sum.bytes = sum.bytes.saturating_add(part.bytes);
    sum.usable_bytes = sum.usable_bytes.saturating_add(part.usable_bytes);
}

/// Round sizes and the least and most bytes over them, where the cause has them.
fn varying(cause: &Cause) -> Option<(Vec<u64>, u64, u64)> {
    match cause {
        Cause::RoundPlusVarying { round_sizes, least_bytes, most_bytes } => {
            Some((round_sizes.clone(), *least_bytes, *most_bytes))
        }
        Cause::RoundPlusConstant { round, bytes } => Some((vec![*round], *bytes, *bytes)),
        _ => None,
    }
}

fn union(some: &[u64], others: &[u64]) -> Vec<u64> {
    let all: std::collections::BTreeSet<u64> = some.iter().chain(others).copied().collect();
    all.into_iter().collect()
}

/// The sizes, of many the first.
fn few(sizes: &[u64]) -> String {
    match sizes.get(..NAMED) {
        Some(first) if sizes.len() > NAMED => {
            let words: Vec<String> = first.iter().map(|size| count(*size)).collect();
            format!("{} and {} more", words.join("; "), sizes.len() - NAMED)
        }
        _ => listed(sizes),
    }
}

/// `4,104; 1,032; 520; 72 bytes and 3 more sizes`.
fn asked(shoe: &Clownshoe) -> String {
    let more = shoe.size_count.saturating_sub(NAMED as u64);
    let named: Vec<u64> = shoe.sizes.iter().take(NAMED).map(|size| size.request).collect();
    match more {
        0 => format!("{} bytes", listed(&named)),
        _ => format!(
            "{} bytes and {}",
            named.iter().map(|size| count(*size)).collect::<Vec<_>>().join("; "),
            plural(more, "more size")
        ),
    }
}

/// `4,104; 1,032 and 72`: a comma would be taken for a number's.
fn listed(sizes: &[u64]) -> String {
    let mut words: Vec<String> = sizes.iter().map(|size| count(*size)).collect();
    let last = words.pop().unwrap_or_default();
    if words.is_empty() { last } else { format!("{} and {last}", words.join("; ")) }
}

/// What to do about `shoe`. `recorded`: the allocator recorded under, where usable sizes were
/// measured.
fn advice(
    shoe: &Clownshoe,
    basis: Basis,
    saving: &Saving,
    costs: &[Cost],
    recorded: Option<&str>,
) -> String {
    let first = shoe.first();
    let each = format!(
        "{} -> {} ({})",
        count(first.request),
        count(first.usable),
        count(first.usable.saturating_sub(first.request))
    );
    let each = if shoe.size_count > 1 {
        format!("a request is {each}, say")
    } else {
        format!("each is {each}")
    };
    let saves = if saving.at_peak_bytes > 0 {
        format!(
            "{} at the peak, {} over the run",
            bytes(saving.at_peak_bytes),
            bytes(saving.total_bytes)
        )
    } else {
        format!("{} over the run, nothing at the peak", bytes(saving.total_bytes))
    };
    let on = recorded.filter(|_| basis == Basis::Measured).unwrap_or(basis.title());
    let mut text = format!("{}. On {on} {each}; it would save {saves}.", what(shoe));
    if let (false, Some(recorded)) = (basis == Basis::Measured, recorded) {
        match costs.iter().find(|cost| cost.basis == Basis::Measured) {
            Some(cost) => text.push_str(&format!(
                " On {recorded}, as measured, its slop is {} at the peak, {} over the run.",
                bytes(cost.at_peak_bytes),
                bytes(cost.total_bytes)
            )),
            None => text.push_str(&format!(" It costs nothing on {recorded}, as measured.")),
        }
    }
    text
}

fn what(shoe: &Clownshoe) -> String {
    let first = shoe.first();
    let (free, usable, over) =
        (count(first.free_request), count(first.usable), plural(first.over_bytes, "byte"));
    let anyway = format!("where it cannot, all {usable} are paid for: use them");
    match &shoe.cause {
        Cause::ConstantHeader { bytes: header, .. } => format!(
            "Something adds {} to round sizes here. Make each payload as much shorter ({} bytes instead of {free}), so that header and payload together ask for the round size",
            plural(*header, "byte"),
            count(first.free_request.saturating_sub(*header))
        ),
        Cause::Terminator { bytes: end } => format!(
            "A capacity of {} and {} for a terminator, it seems: round up after adding it. {} and the terminator ask for {free}. That holds {over} less; where the content needs \
             more, all {usable} are paid for: make that the capacity",
            count(first.request.saturating_sub(*end)),
            plural(*end, "byte"),
            count(first.free_request.saturating_sub(*end)),
        ),
        Cause::RoundPlusVarying { most_bytes, .. } => format!(
            "Several sizes are asked for here just over {free} ({}): a round size and a part that varies, it seems. If the round part can be {} shorter, \
             let {free} hold both; {anyway}",
            asked(shoe),
            plural(*most_bytes, "byte"),
        ),
        Cause::RoundPlusConstant { round, bytes: over } => format!(
            "{} bytes and {} more are asked for. If the content can be {} shorter, let {free} hold both; {anyway}",
            count(*round),
            count(*over),
            plural(*over, "byte"),
        ),
        Cause::Coincidence => {
            format!("If the content can be {over} shorter, ask for {free}; {anyway}")
        }
    }
}

/// Fewer requests than this are no habit, and worth mentioning only where they are felt at the
/// peak.
pub(crate) const HABIT: u64 = 8;

/// The certainty of a cause. `requests`: of all sizes; `has_site`: most of them have a stack.
pub(crate) fn confidence(cause: &Cause, basis: Basis, requests: u64, has_site: bool) -> Confidence {
    let counted = if basis == Basis::Measured {
        "the waste is measured"
    } else {
        "the waste follows from the size alone"
    };
    let (level, why) = match cause {
        _ if !has_site => (Level::Low, "without call stacks, what one place asks for is not told from what others do".into()),
        _ if requests < HABIT => (Level::Low, format!("{} may just have the size of the content", plural(requests, "request"))),
        Cause::ConstantHeader { round_sizes, .. } if round_sizes.len() >= 3 => {
            (Level::High, format!("{} powers of two carry the same surplus here", round_sizes.len()))
        }
        Cause::ConstantHeader { .. } => (Level::Medium, "two powers of two carry the same surplus here".into()),
        Cause::Terminator { .. } => (Level::Medium, "a surplus of one or two bytes is most often a terminator".into()),
        Cause::RoundPlusVarying { .. } => (Level::Low, "varying sizes may be those of the contents".into()),
        Cause::RoundPlusConstant { round, .. } if *round >= ROUND_BYTES => {
            (Level::Medium, "always the same size, a round one and a constant; that it is so is inferred from this size alone".into())
        }
        Cause::RoundPlusConstant { .. } => (Level::Low, "so small a size may just be that of the content".into()),
        Cause::Coincidence => (Level::Low, "no pattern explains the size".into()),
    };
    Confidence { level, reason: format!("{counted}; {why}") }
}
