//! What old space loses by its strategy's rules, in words: free bytes that no request sees, and free
//! bytes that no list has.

use crate::check::free_by_page;
use crate::heap::V8Heap;

/// What is less than this part of what is committed is not told.
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
    let is_told = |bytes: u64| bytes * 1000 >= committed * TOLD_PERMILLE && bytes > 0;
    let mut by_category = vec![Blocks::default(); strategy.categories()];
    let mut waste = Blocks::default();
    for (wasted, categories) in free_by_page(old) {
        waste.bytes += wasted;
        waste.pages += u64::from(wasted > 0);
        for (category, count, bytes) in categories {
            let sum = &mut by_category[category];
            (sum.count, sum.bytes, sum.pages) =
                (sum.count + count, sum.bytes + bytes, sum.pages + 1);
        }
    }
    let added = old.new_pages();
    let mut said: Vec<(u64, String)> = Vec::new();
    for (category, Blocks { count, bytes, pages }) in by_category.into_iter().enumerate() {
        // One block is the one that is looked at.
        if added == 0 || count < 2 || !is_told(bytes) || strategy.looks_at_all(category) {
            continue;
        }
        let from = strategy.minimums[category];
        let to = strategy.minimums.get(category + 1).map_or(String::from("and more"), |next| {
            format!("to {}", next - crate::facts::WORD_BYTES)
        });
        let text = format!(
            "{} in {count} holes of {from} {to} bytes on {} stay unused while {} new: a request looks at the first hole of this category alone.",
            text(bytes),
            plural(pages, "page", "pages"),
            plural(added, "page was", "pages were"),
        );
        said.push((bytes, text));
    }
    if is_told(waste.bytes) {
        let text = format!(
            "{} in holes under {} bytes on {} are on no list until their pages are swept again.",
            text(waste.bytes),
            strategy.minimum_block(),
            plural(waste.pages, "page", "pages"),
        );
        said.push((waste.bytes, text));
    }
    let (_, rounding) =
        old.segregated.as_ref().map_or((0, 0), |cells| cells.free_and_waste_bytes());
    if is_told(rounding as u64) {
        let text = format!(
            "{} are lost to size classes: what objects leave of their cells, and cells of their spans.",
            text(rounding as u64)
        );
        said.push((rounding as u64, text));
    }
    said.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    said.into_iter().map(|(_, text)| text).collect()
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Bytes with three digits or so.
fn text(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}
