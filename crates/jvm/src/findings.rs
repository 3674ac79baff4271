//! The largest wastes, each with its cause and what would help.
//!
//! A finding's `bytes` are committed bytes that hold no live block. Findings do not overlap but
//! where they say so: "loaders of one class" and "free in chunks" look at the same bytes from two
//! sides.

use crate::Reclaim;
use crate::display::bytes;
use crate::shadow::Shadow;
use crate::statistics::{InUse, Statistics};
use heaplab_trace::{Event, Op};
use serde::Serialize;

/// What is less than this part of what is committed is not worth a finding.
const SHARE_MIN: u64 = 200;

/// What the estimate of smaller granules neglects: a heap with those prefers other chunks from the
/// beginning.
const AS_THEY_LIE: &str = "That counts the chunks as they lie now, which would lie otherwise then, so that it is an upper estimate: heaplab replay --on metaspace:jdk17,reclaim=aggressive runs it.";

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Requests that a limit refused.
    Refused,
    /// Free chunks beside chunks in use in one granule.
    PinnedGranules,
    /// Committed granules in which nothing is in use.
    IdleGranules,
    /// Loaders that have one class.
    OneClassLoaders,
    /// The committed rest of current chunks.
    FreeInChunks,
    /// Deallocated blocks and leftovers.
    FreeBlocks,
    /// The committed rest of retired chunks.
    Waste,
    /// Requests over 40 words.
    LargeRequests,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub kind: FindingKind,
    /// In a line.
    pub title: String,
    /// Why it is so, and what would help.
    pub advice: String,
    /// Committed bytes that it is about.
    pub bytes: u64,
    /// What the change would give back, where that can be told from the recording.
    pub saving_bytes: Option<u64>,
}

/// How large requests were, over the whole recording up to the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// Non-class requests.
    pub non_class: u64,
    /// Bytes they asked for.
    pub non_class_bytes: u64,
    /// Of these, over 40 words.
    pub non_class_over_40_words: u64,
    /// Bytes those asked for.
    pub non_class_over_40_words_bytes: u64,
    /// Class-space requests.
    pub class: u64,
    /// Bytes they asked for.
    pub class_bytes: u64,
    /// The largest request.
    pub largest_bytes: u64,
}

impl Requests {
    /// Takes an allocation in an arena of class space, or not.
    pub fn note(&mut self, event: &Event, class: bool) {
        if event.op != Op::Alloc || !event.counts() {
            return;
        }
        self.largest_bytes = self.largest_bytes.max(event.size);
        if class {
            self.class += 1;
            self.class_bytes += event.size;
            return;
        }
        self.non_class += 1;
        self.non_class_bytes += event.size;
        if event.size > 40 * 8 {
            self.non_class_over_40_words += 1;
            self.non_class_over_40_words_bytes += event.size;
        }
    }
}

/// The findings: requests that `MaxMetaspaceSize` refused, then the most bytes first.
pub fn findings(statistics: &Statistics, shadow: &Shadow, requests: &Requests) -> Vec<Finding> {
    let found = [
        refused(statistics),
        pinned(statistics),
        idle(statistics, shadow),
        one_class(statistics),
        free_in_chunks(statistics),
        free_blocks(statistics),
        waste(statistics),
        large(requests),
    ];
    let is_no_waste = |kind| matches!(kind, FindingKind::LargeRequests | FindingKind::Refused);
    let counts = |finding: &Finding| {
        is_no_waste(finding.kind) || finding.bytes * SHARE_MIN >= statistics.committed_bytes()
    };
    let mut findings: Vec<Finding> = found.into_iter().flatten().filter(counts).collect();
    // What a collection cured is no trouble: it comes last, with its no bytes.
    let is_cured =
        statistics.full.is_none() && statistics.counters.commits_refused_at_threshold > 0;
    findings.sort_by_key(|finding| {
        (finding.kind != FindingKind::Refused || is_cured, std::cmp::Reverse(finding.bytes))
    });
    findings
}

fn share(part: u64, statistics: &Statistics) -> String {
    let whole = statistics.committed_bytes().max(1);
    format!("{:.0} % of what is committed", 100.0 * part as f64 / whole as f64)
}

fn plural(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

fn refused(statistics: &Statistics) -> Option<Finding> {
    let counters = &statistics.counters;
    if counters.refused == 0 {
        return None;
    }
    let requests = plural(counters.refused, "request");
    let (title, advice) = match statistics.full {
        Some(full) => (
            format!(
                "{requests} refused: MaxMetaspaceSize, {}, was reached, with {} committed, {} of it used by blocks",
                bytes(full.limit_bytes),
                bytes(full.committed_bytes),
                bytes(full.used_bytes)
            ),
            format!(
                "The JVM then collects, and where that frees too little it throws OutOfMemoryError: Metaspace. The rest, {}, was committed but free: in chunks of \
                 loaders and in free chunks, which serve only requests that fit them. If the loaders that live are meant to, -XX:MaxMetaspaceSize must be larger \
                 (with -XX:CompressedClassSpaceSize, a part of it); if not, something refers to them still: the largest are listed above.{}",
                bytes(full.committed_bytes.saturating_sub(full.used_bytes)),
                at_threshold(counters.commits_refused_at_threshold)
            ),
        ),
        None if counters.commits_refused_at_threshold > 0 => (
            format!("{requests} refused: the threshold for collecting was reached"),
            at_threshold(counters.commits_refused_at_threshold).trim_start().into(),
        ),
        None => (
            format!("{requests} refused: the recording does not say by which limit"),
            "No commit was refused, so that address space was lacking: class space is full (-XX:CompressedClassSpaceSize), or the system gave no memory.".into(),
        ),
    };
    Some(Finding { kind: FindingKind::Refused, title, advice, bytes: 0, saving_bytes: None })
}

fn at_threshold(commits: u64) -> String {
    match commits {
        0 => String::new(),
        _ => format!(
            " {} refused until the JVM had collected, which is how it raises its threshold: a larger -XX:MetaspaceSize spares these collections.",
            plural(commits, "commit")
        ),
    }
}

fn pinned(statistics: &Statistics) -> Option<Finding> {
    let pinned = &statistics.pinned;
    (pinned.free_bytes > 0).then(|| Finding {
        kind: FindingKind::PinnedGranules,
        title: format!(
            "{} of free chunks cannot be uncommitted: {} shared with {} in use ({})",
            bytes(pinned.free_bytes),
            plural(pinned.granules, "granule"),
            plural(pinned.chunks_in_use, "chunk"),
            share(pinned.free_bytes, statistics)
        ),
        advice: format!(
            "One small chunk of a loader that lives keeps its whole granule of {} committed; {} in use do that to {} here{}. Loaders that live and die \
             together would leave whole granules free: load what stays before what goes. {}",
            bytes(statistics.granule_bytes),
            bytes(pinned.in_use_bytes),
            bytes(pinned.granules * statistics.granule_bytes),
            by_whom(statistics),
            smaller_granules(statistics)
        ),
        bytes: pinned.free_bytes,
        // What no setting of this JVM gives back is no saving.
        saving_bytes: matches!(statistics.reclaim, Reclaim::Balanced | Reclaim::Unknown).then_some(pinned.free_in_quarters_bytes),
    })
}

/// The loaders that pin most.
fn by_whom(statistics: &Statistics) -> String {
    let one = |loader: &crate::statistics::Loader| {
        format!("{} ({} alone)", loader.name, plural(loader.pinned_alone, "granule"))
    };
    let shown: Vec<String> = statistics.pinning_loaders.iter().take(3).map(one).collect();
    if shown.is_empty() { String::new() } else { format!(", most of all {}", shown.join(", ")) }
}

/// What smaller granules would give back, and whether the recorded JVM has a setting for them: JDK
/// 16 to 20 do ("support was removed in 21.0", as JDK 21 itself says of the option).
fn smaller_granules(statistics: &Statistics) -> String {
    let given_back = bytes(statistics.pinned.free_in_quarters_bytes);
    match statistics.reclaim {
        Reclaim::Balanced => {
            format!(
                "Granules of a quarter of the size would give back up to {given_back}: -XX:MetaspaceReclaimPolicy=aggressive. {AS_THEY_LIE}"
            )
        }
        Reclaim::Unknown => format!(
            "Granules of a quarter of the size would give back up to {given_back}: -XX:MetaspaceReclaimPolicy=aggressive, if this is JDK 16 to 20 (21 removed it). {AS_THEY_LIE}"
        ),
        Reclaim::Aggressive => {
            String::from("The policy is already the one with the smallest granules (aggressive).")
        }
        Reclaim::None => String::from(
            "The policy none uncommits nothing: -XX:MetaspaceReclaimPolicy=balanced or aggressive does.",
        ),
        Reclaim::Removed => String::from(
            "This JVM has no setting for smaller granules (JDK 21 removed -XX:MetaspaceReclaimPolicy).",
        ),
    }
}

fn idle(statistics: &Statistics, shadow: &Shadow) -> Option<Finding> {
    let pinned = &statistics.pinned;
    let purged = if shadow.counters.purges == 0 {
        "none happened so far"
    } else {
        "the last one was before these were free"
    };
    (pinned.idle_bytes > 0).then(|| Finding {
        kind: FindingKind::IdleGranules,
        title: format!(
            "{} lie in {} in which nothing is in use ({})",
            bytes(pinned.idle_bytes),
            plural(pinned.idle_granules, "committed granule"),
            share(pinned.idle_bytes, statistics)
        ),
        advice: format!(
            "They serve the next loaders, or go back to the system at the next purge, which follows a collection that unloads classes ({purged}): jcmd PID GC.run causes one.{}",
            match statistics.reclaim {
                Reclaim::None => " With this JVM's policy, none, they never go.",
                Reclaim::Unknown => " With -XX:MetaspaceReclaimPolicy=none (JDK 16 to 20) they never go.",
                Reclaim::Balanced | Reclaim::Aggressive | Reclaim::Removed => "",
            }
        ),
        bytes: pinned.idle_bytes,
        saving_bytes: Some(pinned.idle_bytes),
    })
}

fn one_class(statistics: &Statistics) -> Option<Finding> {
    let mut loaders = [0; 2];
    let mut in_use = InUse::default();
    for kind in statistics.kinds.iter().filter(|kind| kind.of_one_class > 0) {
        if !kind.class {
            loaders[usize::from(kind.loader == "hidden" || kind.loader == "reflection")] +=
                kind.of_one_class;
        }
        in_use.add(&kind.of_one_class_in_use);
    }
    let [standard, micro] = loaders;
    let unused = in_use.free_bytes + in_use.waste_bytes;
    (standard + micro > 1 && unused > 0).then(|| Finding {
        kind: FindingKind::OneClassLoaders,
        title: format!(
            "{} of one class hold {} and use {} of it ({}; part of the free bytes in chunks)",
            plural(standard + micro, "loader"),
            bytes(in_use.committed_bytes),
            bytes(in_use.used_bytes),
            share(unused, statistics)
        ),
        advice: format!(
            "{standard} are class loaders, whose arenas begin with chunks of 4 KB and 2 KB; {micro} are hidden classes or reflection, which begin with 1 KB or 2 KB each. \
             Classes that come one to a loader (proxies, generated accessors, scripts) cost least together in one loader, or as hidden \
             classes (Lookup.defineHiddenClass without STRONG: arenas of 1 KB), or not generated anew for every use."
        ),
        bytes: unused,
        saving_bytes: None,
    })
}

fn free_in_chunks(statistics: &Statistics) -> Option<Finding> {
    let free = statistics.in_use().free_bytes;
    let largest = statistics.kinds.iter().max_by_key(|kind| kind.in_use.free_bytes)?;
    (free > 0).then(|| Finding {
        kind: FindingKind::FreeInChunks,
        title: format!("{} are free in the current chunks of {} ({})", bytes(free), plural(statistics.loaders, "loader"), share(free, statistics)),
        advice: format!(
            "Most of it, {}, waits in the {} arenas of kind {}. It is used when these loaders load more; a loader that has stopped loading keeps it until it dies. Class space holds {} of it, non-class {}.",
            bytes(largest.in_use.free_bytes),
            if largest.class { "class" } else { "non-class" },
            if largest.loader.is_empty() { "unknown" } else { &largest.loader },
            bytes(statistics.class.in_use_total.free_bytes),
            bytes(statistics.non_class.in_use_total.free_bytes)
        ),
        bytes: free,
        saving_bytes: None,
    })
}

fn free_blocks(statistics: &Statistics) -> Option<Finding> {
    let (blocks, counters) = (statistics.free_blocks(), &statistics.counters);
    (blocks.blocks > 0).then(|| Finding {
        kind: FindingKind::FreeBlocks,
        title: format!("{} given back early or left over and not used again ({})", blocks.in_words(), share(blocks.bytes, statistics)),
        advice: format!(
            "{} were given back early and {} were left over from chunks and blocks; {} of {} allocations were served from such. Blocks given back come from classes that are \
             redefined (agents, hot swapping), rewritten, or fail to load.",
            plural(counters.deallocations, "block"),
            counters.leftovers,
            counters.from_free_blocks,
            counters.allocations
        ),
        bytes: blocks.bytes,
        saving_bytes: None,
    })
}

fn waste(statistics: &Statistics) -> Option<Finding> {
    let waste = statistics.in_use().waste_bytes;
    (waste > 0).then(|| Finding {
        kind: FindingKind::Waste,
        title: format!("{} are wasted at the ends of retired chunks ({})", bytes(waste), share(waste, statistics)),
        advice: "Only rests of two words and less stay so, or what a limit left uncommitted: nothing to do.".into(),
        bytes: waste,
        saving_bytes: None,
    })
}

fn large(requests: &Requests) -> Option<Finding> {
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    (requests.non_class_over_40_words > 0).then(|| Finding {
        kind: FindingKind::LargeRequests,
        title: format!(
            "Requests over 40 words are {:.1} % of the non-class requests and {:.0} % of their bytes; the largest asked for {}",
            percent(requests.non_class_over_40_words, requests.non_class),
            percent(requests.non_class_over_40_words_bytes, requests.non_class_bytes),
            bytes(requests.largest_bytes)
        ),
        advice: "They are constant pools, methods' code and profiles: fewer, smaller generated classes help, and -XX:TieredStopAtLevel=1 does without \
                 method data where peak speed does not matter."
            .into(),
        bytes: 0,
        saving_bytes: None,
    })
}
