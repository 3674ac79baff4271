//! Requests that a limit refused.

use super::{Waste, plural};
use crate::Kind;
use heaplab_jvm::Statistics;
use heaplab_text::jcmd::bytes;

/// Refused requests.
pub const REFUSED: Kind = Kind {
    name: "refused",
    title: "Refused requests",
    hint: "Requests that a limit refused: the JVM collects, and then throws OutOfMemoryError.",
    counts: "requests",
    share_bytes: "committed bytes",
    total_bytes: "committed bytes",
};

pub(super) fn refused(statistics: &Statistics) -> Option<Waste> {
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
    Some(Waste { kind: REFUSED, title, advice, bytes: 0, saving_bytes: None })
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
