//! Committed granules that free chunks keep, with chunks in use or alone.

use super::{Waste, plural, share};
use crate::Kind;
use heaplab_jvm::statistics::Loader;
use heaplab_jvm::{Reclaim, Statistics};
use heaplab_text::jcmd::bytes;

/// The estimate of smaller granules neglects that such a heap would choose other chunks from the
/// beginning.
const AS_THEY_LIE: &str = "That counts the chunks as they lie now, which would lie otherwise then, so that it is an upper estimate: heaplab replay --on metaspace:jdk17,reclaim=aggressive runs it.";

/// Pinned granules.
pub const PINNED_GRANULES: Kind = Kind {
    name: "pinned_granules",
    title: "Pinned granules",
    hint: "Free chunks beside chunks in use in one granule, which cannot be uncommitted.",
    counts: "granules",
    share_bytes: "committed bytes",
    total_bytes: "committed bytes",
};

/// Idle granules.
pub const IDLE_GRANULES: Kind = Kind {
    name: "idle_granules",
    title: "Idle granules",
    hint: "Committed granules in which nothing is in use.",
    counts: "granules",
    share_bytes: "committed bytes",
    total_bytes: "committed bytes",
};

pub(super) fn pinned(statistics: &Statistics) -> Option<Waste> {
    let pinned = &statistics.pinned;
    (pinned.free_bytes > 0).then(|| Waste {
        kind: PINNED_GRANULES,
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
        // Without a setting in this JVM there is no saving.
        saving_bytes: matches!(statistics.reclaim, Reclaim::Balanced | Reclaim::Unknown).then_some(pinned.free_in_quarters_bytes),
    })
}

/// The loaders that pin most.
fn by_whom(statistics: &Statistics) -> String {
    let one = |loader: &Loader| {
        format!("{} ({} alone)", loader.name, plural(loader.pinned_alone, "granule"))
    };
    let shown: Vec<String> = statistics.pinning_loaders.iter().take(3).map(one).collect();
    if shown.is_empty() { String::new() } else { format!(", most of all {}", shown.join(", ")) }
}

/// Bytes that smaller granules would give back, and the recorded JVM's setting for them, which JDK
/// 16 to 20 have ("support was removed in 21.0", as JDK 21 itself says of the option).
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

pub(super) fn idle(statistics: &Statistics) -> Option<Waste> {
    let pinned = &statistics.pinned;
    let purged = if statistics.counters.purges == 0 {
        "none happened so far"
    } else {
        "the last one was before these were free"
    };
    (pinned.idle_bytes > 0).then(|| Waste {
        kind: IDLE_GRANULES,
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
