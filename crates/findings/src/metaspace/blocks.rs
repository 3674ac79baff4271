//! Blocks that are free, and requests that are large.

use super::{Waste, plural, share};
use crate::Kind;
use heaplab_jvm::{Requests, Statistics};
use heaplab_text::jcmd::bytes;

/// Free blocks.
pub const FREE_BLOCKS: Kind = Kind {
    name: "free_blocks",
    title: "Free blocks",
    hint: "Blocks given back early, and what chunks had left over.",
    counts: "blocks",
    share_bytes: "committed bytes",
    total_bytes: "committed bytes",
};

/// Large requests.
pub const LARGE_REQUESTS: Kind = Kind {
    name: "large_requests",
    title: "Large requests",
    hint: "Requests over 40 words: constant pools, methods and their profiles.",
    counts: "requests",
    share_bytes: "committed bytes",
    total_bytes: "committed bytes",
};

pub(super) fn free_blocks(statistics: &Statistics) -> Option<Waste> {
    let (blocks, counters) = (statistics.free_blocks(), &statistics.counters);
    (blocks.blocks > 0).then(|| Waste {
        kind: FREE_BLOCKS,
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

pub(super) fn large(requests: &Requests) -> Option<Waste> {
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    (requests.non_class_over_40_words > 0).then(|| Waste {
        kind: LARGE_REQUESTS,
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
