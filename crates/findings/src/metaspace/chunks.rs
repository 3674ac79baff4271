//! What chunks in use hold beside blocks.

use super::{Waste, plural, share};
use crate::Kind;
use heaplab_jvm::Statistics;
use heaplab_jvm::statistics::InUse;
use heaplab_text::jcmd::bytes;

/// Loaders of one class.
pub const ONE_CLASS_LOADERS: Kind = Kind {
    name: "one_class_loaders",
    title: "Loaders of one class",
    hint: "Each has arenas of its own, which one class does not fill.",
    counts: "loaders",
    share_bytes: "committed bytes",
    total_bytes: "committed bytes",
};

/// Free in chunks.
pub const FREE_IN_CHUNKS: Kind = Kind {
    name: "free_in_chunks",
    title: "Free in chunks",
    hint: "The committed rest of current chunks.",
    counts: "chunks",
    share_bytes: "committed bytes",
    total_bytes: "committed bytes",
};

/// Waste in chunks.
pub const WASTE: Kind = Kind {
    name: "waste",
    title: "Waste in chunks",
    hint: "The committed rest of retired chunks.",
    counts: "chunks",
    share_bytes: "committed bytes",
    total_bytes: "committed bytes",
};

pub(super) fn one_class(statistics: &Statistics) -> Option<Waste> {
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
    (standard + micro > 1 && unused > 0).then(|| Waste {
        kind: ONE_CLASS_LOADERS,
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

pub(super) fn free_in_chunks(statistics: &Statistics) -> Option<Waste> {
    let free = statistics.in_use().free_bytes;
    let largest = statistics.kinds.iter().max_by_key(|kind| kind.in_use.free_bytes)?;
    (free > 0).then(|| Waste {
        kind: FREE_IN_CHUNKS,
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

pub(super) fn waste(statistics: &Statistics) -> Option<Waste> {
    let waste = statistics.in_use().waste_bytes;
    (waste > 0).then(|| Waste {
        kind: WASTE,
        title: format!("{} are wasted at the ends of retired chunks ({})", bytes(waste), share(waste, statistics)),
        advice: "Only rests of two words and less stay so, or what a limit left uncommitted: nothing to do.".into(),
        bytes: waste,
        saving_bytes: None,
    })
}
