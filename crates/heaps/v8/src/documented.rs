//! Strategies that never shipped: rows of the same plain data.
//!
//! Source: the document compares some forty variants by name and describes most in one sentence.
//! Where it gives no table, boundaries are reconstructed from the counts that it names ("100
//! categories", "36th category = 2k-3k"); such a row's summary says "reconstructed". Variants are
//! left out that find the same node in another way (a table of non-empty categories, a loop instead
//! of a formula): they place every object alike.

use crate::segregated::Segregation;
use crate::strategy::{
    Bound, Condition, Guarantee, Look, PageOrder, Steal, Step, Strategy, Switch, When, released,
    step,
};

/// Bytes that the fast path leaves over, so that a linear area of 2 KB remains beside the object.
pub(crate) const ROOM_2K_BYTES: usize = 1920;
/// The same for 256 bytes.
const ROOM_256_BYTES: usize = 128;
/// Usable bytes of a page of 256 KiB, as V8 7.8 to 8.4 have it.
pub(crate) const PAGE_AREA_BYTES: usize = 261_856;

/// The document's names of strategies, without `FreeList`, and the row that places every object
/// alike. They differ at most in how they find the same node.
pub const NAMES: [(&str, &str); 30] = [
    ("Legacy", "legacy"),
    ("FastAlloc", "fast-alloc"),
    ("Many", "many-46"),
    ("ManyCached", "many-cached"),
    ("ManyCachedFastPath", "many-fast-path"),
    ("ManyCachedOrigin", "many-origin"),
    ("FullPages", "single-page"),
    ("SinglePage", "single-page"),
    ("LegacySlowPath", "legacy-slow"),
    ("LegacySlowPathRetry", "legacy-retry"),
    ("LegacyMoreSmalls", "legacy-more-smalls"),
    ("LegacyMoreSmallsSlowPath", "legacy-more-smalls-slow"),
    ("ManyFastPath", "many-46-fast-path"),
    ("ManyCachedFastPath256", "many-46-fast-path-256"),
    ("ManyOrigin", "many-46-origin"),
    ("HalfMany", "many"),
    ("HalfManyFastPath", "many-fast-path"),
    ("HalfManyCachedFastPath", "many-fast-path"),
    ("HalfSmallMany", "half-small-many"),
    ("HalfSmallManyFastPath", "half-small-many-fast-path"),
    ("HalfSmallManyCachedFastPath", "half-small-many-fast-path"),
    ("ManyMore", "many-more"),
    ("ManyMoreLoopSelect", "many-more"),
    ("ManyMoreLoopSelectLarge", "many-more"),
    ("ManyMoreFastPath", "many-more-fast-path"),
    ("ManyMoreFastPathNoCache", "many-more-fast-path"),
    ("ManyMore2k", "many-more-2k"),
    ("ManyMore2kFastPath", "many-more-2k-fast-path"),
    ("ManyMore2kFastPathNoCache", "many-more-2k-fast-path"),
    ("ManyMore2kWholeRegion", "many-more-2k-region"),
];

/// The strategy of a name, ours or the document's, under this name.
pub fn find(name: &str) -> Option<Strategy> {
    let theirs = name.strip_prefix("FreeList").unwrap_or(name);
    let ours = NAMES.iter().find(|(known, _)| *known == theirs).map_or(name, |(_, ours)| ours);
    let found = all().into_iter().find(|strategy| strategy.name == ours)?;
    Some(Strategy { name: name.into(), ..found })
}

/// Every strategy by name: those that V8 shipped, then the document's.
pub fn all() -> Vec<Strategy> {
    released().into_iter().chain(documented()).chain(future()).collect()
}

/// From the request's own category upward, the first node of each; then every node of the last.
pub(crate) fn precise() -> Vec<Step> {
    vec![
        step(When::Always, Bound::Own, Bound::Last, false, Look::Top),
        step(When::Always, Bound::Last, Bound::Last, true, Look::All),
    ]
}

/// From the request's own category upward, every node: misses nothing that fits.
pub(crate) fn exhaustive() -> Vec<Step> {
    vec![step(When::Always, Bound::Own, Bound::Last, true, Look::All)]
}

/// First categories that leave `room_bytes` over, as V8's fast path does; then, for tiny requests,
/// small categories; then the precise search.
pub(crate) fn fast_path(minimums: &[usize], room_bytes: usize) -> Vec<Step> {
    let from = |bytes: usize| {
        minimums.iter().position(|minimum| *minimum >= bytes).unwrap_or(minimums.len() - 1)
    };
    let floor = if room_bytes >= ROOM_2K_BYTES { 2048 } else { 256 };
    let room = Bound::Room { floor: from(floor), room_bytes };
    vec![
        step(When::Always, room, Bound::Last, true, Look::Top),
        step(
            When::UpTo(128),
            Bound::Category(from(256)),
            Bound::Category(from(floor)),
            false,
            Look::Top,
        ),
        step(When::Always, Bound::Last, Bound::Last, true, Look::All),
        step(When::Always, Bound::Own, room, false, Look::Top),
    ]
}

/// Legacy's search with other categories: categories that surely have room, from `floor` on; then
/// every node of the last one; then the request's own category.
fn roomy(floor: usize) -> Vec<Step> {
    let room = Bound::Room { floor, room_bytes: 8 };
    vec![
        step(When::Always, room, Bound::Last, false, Look::Top),
        step(When::Always, Bound::Last, Bound::Last, true, Look::All),
        step(When::Below(room), Bound::Own, Bound::Own, true, Look::Top),
    ]
}

/// From the largest category down to the own one.
pub(crate) fn largest_first() -> Vec<Step> {
    vec![Step {
        when: When::Always,
        from: Bound::Last,
        to: Bound::Own,
        inclusive: true,
        down: true,
        look: Look::Top,
    }]
}

/// 24 to 256 by 8, as 64-bit V8 aligns objects.
fn precise_smalls() -> Vec<usize> {
    (3..=32).map(|words| words * 8).collect()
}

/// 384, 512, 768, 1024, ... 65,536: two categories for each doubling.
fn two_a_doubling() -> Vec<usize> {
    (8..16).flat_map(|log2| [(1 << log2) * 3 / 2, 1 << (log2 + 1)]).collect()
}

pub(crate) fn many(
    name: &str,
    summary: &'static str,
    minimums: Vec<usize>,
    mutator: Vec<Step>,
    collector: Vec<Step>,
) -> Strategy {
    Strategy {
        name: name.into(),
        summary,
        minimums,
        generated: mutator.clone(),
        runtime: mutator,
        collector,
        guarantee: Guarantee::CategoryMinimum,
        steal: Steal::NextAbove,
        order: PageOrder::LinkedLast,
        switch: None,
        segregated: None,
        by_words: Vec::new(),
    }
}

/// V8's fast path, and its precise search while a condition holds.
fn switching(name: &str, summary: &'static str, when: Condition) -> Strategy {
    let shipped = released().into_iter().find(|one| one.name == "many-fast-path");
    let fast = shipped.map(|one| (one.minimums, one.generated)).unwrap_or_default();
    let switch = Some(Switch { when, steps: precise() });
    Strategy { switch, ..many(name, summary, fast.0, fast.1.clone(), fast.1) }
}

/// Spans of size classes. The categories are unused: no block is on a list.
fn segregated(name: &str, summary: &'static str, design: Segregation) -> Strategy {
    Strategy { segregated: Some(design), ..many(name, summary, vec![24], precise(), precise()) }
}

/// The document's rows.
fn documented() -> Vec<Strategy> {
    let seed: Vec<usize> = precise_smalls().into_iter().chain(two_a_doubling()).collect();
    let half_small: Vec<usize> =
        std::iter::once(24).chain((2..=16).map(|at| at * 16)).chain(two_a_doubling()).collect();
    let middle = || (2..=8).map(|at| at * 256);
    let more_1k: Vec<usize> =
        precise_smalls().into_iter().chain(middle()).chain((3..=64).map(|at| at * 1024)).collect();
    let more_2k: Vec<usize> =
        precise_smalls().into_iter().chain(middle()).chain((2..=32).map(|at| at * 2048)).collect();
    let whole_region: Vec<usize> =
        more_2k.iter().copied().chain((33..=63).map(|at| at * 2048)).collect();
    let more_smalls: Vec<usize> =
        precise_smalls().into_iter().chain([2048, 16_384, 65_536]).collect();
    let own = |name, summary, minimums: &Vec<usize>| {
        many(name, summary, minimums.clone(), precise(), precise())
    };
    let fast = |name, summary, minimums: &Vec<usize>, room| {
        many(name, summary, minimums.clone(), fast_path(minimums, room), fast_path(minimums, room))
    };
    let legacy = |name: &str, summary, minimums: Vec<usize>, search: Vec<Step>| Strategy {
        guarantee: Guarantee::CategoryBelow { last_whole: true },
        steal: Steal::LargestFirst,
        ..many(name, summary, minimums, search.clone(), search)
    };
    let shipped = released();
    let legacy_minimums = || shipped[0].minimums.clone();
    vec![
        legacy(
            "single-page",
            "reuses only whole pages (FullPages)",
            vec![PAGE_AREA_BYTES],
            exhaustive(),
        ),
        legacy(
            "no-tiny",
            "legacy without its two smallest categories: smaller blocks are waste",
            vec![256, 2048, 16_384, 65_536],
            roomy(0),
        ),
        legacy(
            "legacy-retry",
            "legacy's categories, the request's own first, each searched to its end",
            legacy_minimums(),
            exhaustive(),
        ),
        Strategy {
            steal: Steal::LargestFirst,
            ..own(
                "legacy-slow",
                "legacy's categories, the request's own first, the first block of each",
                &shipped[0].minimums,
            )
        },
        legacy(
            "legacy-more-smalls",
            "legacy's large categories and one for each small size (reconstructed)",
            more_smalls.clone(),
            roomy(30),
        ),
        own(
            "legacy-more-smalls-slow",
            "the same, the request's own category first (reconstructed)",
            &more_smalls,
        ),
        own("many-46", "46 categories, two for each doubling from 256: the document's Many", &seed),
        fast("many-46-fast-path", "the same with 1,920 bytes to spare first", &seed, ROOM_2K_BYTES),
        fast(
            "many-46-fast-path-256",
            "the same with 128 bytes to spare first (reconstructed)",
            &seed,
            ROOM_256_BYTES,
        ),
        many(
            "many-46-origin",
            "many-46-fast-path for the program, many-46 for the collector",
            seed.clone(),
            fast_path(&seed, ROOM_2K_BYTES),
            precise(),
        ),
        own("half-small-many", "32 categories: half as many small ones", &half_small),
        fast(
            "half-small-many-fast-path",
            "the same with 1,920 bytes to spare first",
            &half_small,
            ROOM_2K_BYTES,
        ),
        own("many-more", "99 categories, one for each KB above 2 KB", &more_1k),
        fast(
            "many-more-fast-path",
            "the same with 1,920 bytes to spare first",
            &more_1k,
            ROOM_2K_BYTES,
        ),
        own("many-more-2k", "68 categories, one for each 2 KB above 2 KB", &more_2k),
        fast(
            "many-more-2k-fast-path",
            "the same with 1,920 bytes to spare first",
            &more_2k,
            ROOM_2K_BYTES,
        ),
        own("many-more-2k-region", "the same up to 126 KB (reconstructed)", &whole_region),
        Strategy {
            order: PageOrder::FullestFirst,
            ..own("many-fullest", "many, the fullest pages first", &shipped[2].minimums)
        },
        Strategy {
            order: PageOrder::EmptiestFirst,
            ..own("many-emptiest", "many, the emptiest pages first", &shipped[2].minimums)
        },
    ]
}

/// Designs that the document leaves to the future: size classes on small pages, and strategies that
/// switch by the program's behaviour.
fn future() -> Vec<Strategy> {
    vec![
        switching(
            "many-pressure",
            "many-fast-path, but many while more than half of the limit is committed",
            Condition::Pressure(50),
        ),
        switching(
            "many-feedback",
            "many-fast-path, but many while old space takes less in a cycle than its live bytes",
            Condition::FewAllocations(100),
        ),
        segregated(
            "segregated",
            "a span for each size class, Go's classes on pages of 8 KiB; nothing moves",
            Segregation::go(),
        ),
        segregated(
            "segregated-4k",
            "the same on pages of 4 KiB, as SpiderMonkey's arenas; one object above 4 KiB a span",
            Segregation::small(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_document() {
        let counts: Vec<(String, usize)> = all()
            .into_iter()
            .map(|strategy| (strategy.name.clone(), strategy.categories()))
            .collect();
        let count = |name: &str| counts.iter().find(|(known, _)| known == name).unwrap().1;
        assert_eq!(
            (count("many-46"), count("many-more"), count("many-more-2k"), count("half-small-many")),
            (46, 99, 68, 32)
        );
        assert_eq!((count("many"), count("no-tiny"), count("single-page")), (24, 4, 1));
        for strategy in all() {
            assert!(strategy.minimums.is_sorted_by(|a, b| a < b), "{}", strategy.name);
            assert!(
                strategy.minimums.iter().all(|minimum| minimum.is_multiple_of(8) && *minimum >= 24),
                "{}",
                strategy.name
            );
        }
        for (theirs, ours) in NAMES {
            let (found, row) = (find(theirs).unwrap(), find(ours).unwrap());
            assert_eq!(Strategy { name: ours.into(), ..found }, row, "{theirs}");
        }
        assert_eq!(find("FreeListHalfMany").unwrap().minimums, find("many").unwrap().minimums);
        assert_eq!(find("FreeList"), None);
        let mut names: Vec<&String> = counts.iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), counts.len());
    }
}
