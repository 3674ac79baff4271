//! Losses of old space by its strategy's rules, in sentences: free bytes that no request sees, free
//! bytes on no list, and free bytes on unswept pages.
//!
//! A full collection empties all lists, so right after it no loss shows. A heap that is watched
//! ([`V8Heap::watch_losses`]) keeps the losses from before the collection and reports them after
//! it.

use crate::check::free_by_page;
use crate::heap::V8Heap;
use crate::strategy::{Look, Step, Strategy};
use heaplab_heap::Origin;
use heaplab_text::words;

/// Most losses with a sentence each; a last sentence sums up the smaller ones.
const TOLD_MAX: usize = 5;
/// A loss below this part of the committed bytes is not reported.
const TOLD_PERMILLE: u64 = 5;

/// Free blocks of one category.
#[derive(Clone, Copy, Default)]
struct Blocks {
    count: u64,
    bytes: u64,
    pages: u64,
}

/// The losses, the largest first.
pub fn losses(heap: &V8Heap) -> Vec<String> {
    let old = &heap.parts.old;
    let strategy = &old.strategy;
    let committed = old.main_committed_bytes() as u64;
    let mut by_category = vec![Blocks::default(); strategy.categories()];
    let mut waste = Blocks::default();
    for (page, (wasted, categories)) in old.own_pages().into_iter().zip(free_by_page(old)) {
        // The next sweep of a page finds its small holes again, joined with dead neighbours.
        if !old.pages[page].unswept {
            waste.bytes += wasted;
            waste.pages += u64::from(wasted > 0);
        }
        for (category, count, bytes) in categories {
            let sum = &mut by_category[category];
            (sum.count, sum.bytes, sum.pages) =
                (sum.count + count, sum.bytes + bytes, sum.pages + 1);
        }
    }
    let added = old.new_pages();
    let mut said: Vec<(u64, String)> = Vec::new();
    if added > 0 {
        said.extend(by_category.into_iter().enumerate().filter_map(|(category, blocks)| {
            Some((blocks.bytes, unused(strategy, category, blocks, added)?))
        }));
        let unswept = unswept(heap);
        let text = format!(
            "{} on {} were never swept while {} new: a refill sweeps one page at most before it adds one.",
            words::bytes(unswept.bytes),
            words::plural(unswept.pages, "page"),
            were(added),
        );
        said.push((unswept.bytes, text));
    }
    let holes = format!(
        "{} in holes under {} bytes on {} are on no list until their pages are swept again.",
        words::bytes(waste.bytes),
        strategy.minimum_block(),
        words::plural(waste.pages, "page"),
    );
    said.push((waste.bytes, holes));
    let (_, rounding) =
        old.segregated.as_ref().map_or((0, 0), |cells| cells.free_and_waste_bytes());
    let classes = format!(
        "{} are lost to size classes: what objects leave of their cells, and cells of their spans.",
        words::bytes(rounding as u64)
    );
    said.push((rounding as u64, classes));
    said.retain(|(bytes, _)| *bytes * 1000 >= committed * TOLD_PERMILLE && *bytes > 0);
    told(said)
}

/// The sentences, those with most bytes first; beyond the limit only their sum.
fn told(mut said: Vec<(u64, String)>) -> Vec<String> {
    said.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    // One sentence on one loss would say less than the loss itself.
    let most = if said.len() > TOLD_MAX + 1 { TOLD_MAX } else { said.len() };
    let rest = said.split_off(most);
    let bytes: u64 = rest.iter().map(|(bytes, _)| bytes).sum();
    let count = rest.len();
    let sum = (count > 0).then(|| {
        format!("{} are lost in {count} smaller ways of the same kinds.", words::bytes(bytes))
    });
    said.into_iter().map(|(_, text)| text).chain(sum).collect()
}

/// Free bytes of pages that wait to be swept.
fn unswept(heap: &V8Heap) -> Blocks {
    let old = &heap.parts.old;
    let waiting = old.own_pages().into_iter().filter(|&page| old.pages[page].unswept);
    waiting.fold(Blocks::default(), |sum, page| {
        let free = old.pages.area_bytes().saturating_sub(old.pages[page].live_bytes as usize);
        Blocks { bytes: sum.bytes + free as u64, pages: sum.pages + 1, ..sum }
    })
}

/// A sentence on a category's holes that stayed free while pages were added, with the rule that
/// leaves them unused; `None`: requests look at each of them.
fn unused(strategy: &Strategy, category: usize, blocks: Blocks, added: u64) -> Option<String> {
    let Blocks { count, bytes, pages } = blocks;
    let rule = rule(strategy, category)?;
    // A single block is the one that requests look at.
    if count < 2 {
        return None;
    }
    let from = strategy.minimums[category];
    let to = strategy.minimums.get(category + 1).map(|next| next - crate::facts::WORD_BYTES);
    let sizes = match to {
        None => format!("{from} and more"),
        Some(to) if to == from => from.to_string(),
        Some(to) => format!("{from} to {to}"),
    };
    Some(format!(
        "{} in {} holes of {sizes} bytes on {} stay unused while {} new: {rule}.",
        words::bytes(bytes),
        words::count(count),
        words::plural(pages, "page"),
        were(added),
    ))
}

/// Why fitting requests may leave holes of a category unused: who looks there, and how. `None`: a
/// promoting request of the collector looks at each hole.
fn rule(strategy: &Strategy, category: usize) -> Option<String> {
    let steps: &[Step] = strategy.steps(Origin::Collector, false);
    // Request sizes that fit into every hole of the category.
    let sizes: Vec<usize> =
        (24..=strategy.minimums[category]).step_by(crate::facts::WORD_BYTES).collect();
    let looks: Vec<(usize, Look)> = sizes
        .iter()
        .filter_map(|&bytes| Some((bytes, strategy.looked_at(steps, category, bytes)?)))
        .collect();
    if looks.iter().any(|(_, look)| *look == Look::All) {
        return None;
    }
    let own = "the first hole of this category alone";
    Some(match (looks.first(), looks.last()) {
        (Some((least, _)), Some((most, _))) if looks.len() < sizes.len() => {
            let who = if least == most {
                format!("requests of {least} bytes look")
            } else {
                format!("requests of {least} to {most} bytes look")
            };
            format!("of all that fit, only {who} here, and at {own}")
        }
        (Some(_), Some(_)) => format!("a request looks at {own}"),
        _ => String::from("no request that is sure to fit looks here"),
    })
}

/// "1 page was", "1,024 pages were".
fn were(pages: u64) -> String {
    format!("{} {}", words::plural(pages, "page"), if pages == 1 { "was" } else { "were" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule_of(name: &str, bytes: usize) -> Option<String> {
        let strategies = crate::documented::all();
        let strategy = strategies.into_iter().find(|strategy| strategy.name == name).unwrap();
        rule(&strategy, strategy.category(bytes))
    }

    #[test]
    fn sizes_read_well_and_small_losses_are_one() {
        let strategy = crate::documented::find("many").unwrap();
        let blocks = Blocks { count: 9, bytes: 9_000, pages: 2 };
        let said = |category| unused(&strategy, category, blocks, 1).unwrap();
        assert!(said(0).contains(" 9 holes of 24 bytes on 2 pages "), "{}", said(0));
        assert!(said(1).contains(" 9 holes of 32 to 40 bytes on 2 pages "), "{}", said(1));
        let all = |count: u64| told((1..=count).map(|nth| (nth, format!("{nth}."))).collect());
        assert_eq!(all(6), ["6.", "5.", "4.", "3.", "2.", "1."]);
        assert_eq!(all(8)[5..], ["6 bytes are lost in 3 smaller ways of the same kinds."]);
    }

    #[test]
    fn the_rule_is_the_strategys_own() {
        assert_eq!(
            rule_of("legacy", 300).unwrap(),
            "a request looks at the first hole of this category alone"
        );
        assert_eq!(rule_of("legacy", 100_000), None, "the last category is looked at whole");
        let exact = rule_of("legacy-more-smalls", 64).unwrap();
        assert!(exact.contains("only requests of 64 bytes look here"), "{exact}");
    }
}
