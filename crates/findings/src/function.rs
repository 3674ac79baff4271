//! The function that a person would name for a stack: the innermost one that is not the allocation
//! itself.

use crate::StackShare;
use heaplab_trace::{StackId, tables::Tables};
use std::collections::BTreeMap;

/// Names longer than this are cut: those of templates may have thousands of characters.
const NAME_CHARS: usize = 60;

/// The name, without arguments; empty: no stack.
pub(crate) fn function(tables: &Tables, stack: StackId) -> String {
    let frames: Vec<u32> = tables.frames_of(stack).take(Tables::WRAPPERS_MAX + 1).collect();
    let named = frames.get(tables.wrappers(&frames)).map(|frame| tables.frame_label(*frame));
    named.map_or(String::new(), |name| cut(without_arguments(&name)))
}

/// The function with the largest share, and how many others there are.
pub(crate) fn largest(tables: &Tables, shares: &[StackShare]) -> (String, usize) {
    let mut functions: BTreeMap<String, u64> = BTreeMap::new();
    for share in shares {
        let bytes = functions.entry(function(tables, share.stack)).or_default();
        *bytes = bytes.saturating_add(share.bytes.max(1));
    }
    let others = functions.len().saturating_sub(1);
    let most = functions.into_iter().rev().max_by_key(|(_, bytes)| *bytes);
    (most.map_or(String::new(), |(name, _)| name), others)
}

/// `a::b(int)::{lambda()#1}` keeps what names it; `a::b(int, char) const` is `a::b`.
fn without_arguments(name: &str) -> &str {
    let end = name.strip_suffix(" const").unwrap_or(name);
    if !end.ends_with(')') {
        return name;
    }
    let mut depth = 0;
    for (at, letter) in end.char_indices().rev() {
        match letter {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { name } else { &end[..at] };
        }
    }
    name
}

fn cut(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS) {
        Some((at, _)) => format!("{}...", &name[..at]),
        None => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_arguments_and_nothing_else() {
        for (name, short) in [
            ("pcache1Alloc", "pcache1Alloc"),
            ("a::b(int, char (*)(int)) const", "a::b"),
            ("(anonymous namespace)::load(char const*)", "(anonymous namespace)::load"),
            ("a::b(int)::{lambda()#1}", "a::b(int)::{lambda()#1}"),
            ("<T as Into<U>>::into", "<T as Into<U>>::into"),
            ("libz.so.1+0x1f", "libz.so.1+0x1f"),
            ("(nothing)", "(nothing)"),
            ("unbalanced)", "unbalanced)"),
        ] {
            assert_eq!(without_arguments(name), short);
        }
        assert_eq!(cut(&"é".repeat(61)), format!("{}...", "é".repeat(60)));
    }
}
