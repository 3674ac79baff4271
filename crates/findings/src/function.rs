//! The function that a person would name for a stack: the innermost one that is not the allocation
//! itself.

use crate::StackShare;
use heaplab_trace::{
    StackId,
    tables::{Tables, bare_name},
};
use std::collections::BTreeMap;

/// Names longer than this are cut: those of templates may have thousands of characters.
const NAME_CHARS: usize = 60;

/// The name, without arguments; empty: no stack.
pub(crate) fn function(tables: &Tables, stack: StackId) -> String {
    let frames: Vec<u32> = tables.frames_of(stack).take(Tables::WRAPPERS_MAX + 1).collect();
    let named = frames.get(tables.site(&frames)).map(|frame| tables.frame_label(*frame));
    named.map_or(String::new(), |name| cut(bare_name(&name)))
}

/// For a stack whose own function has no name, the nearest caller with a name.
pub(crate) fn named_caller(tables: &Tables, stack: StackId) -> Option<String> {
    let frames: Vec<u32> = tables.frames_of(stack).collect();
    let name = |frame: &u32| tables.frames.get(*frame as usize)?.function.as_deref();
    let mut outwards = frames.iter().skip(tables.site(&frames));
    if name(outwards.next()?).is_some() {
        return None;
    }
    let caller = outwards.find_map(name).map(bare_name)?;
    // The functions that call main tell nothing.
    (!caller.starts_with("__libc_start") && caller != "_start").then(|| cut(caller))
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
    fn long_names_are_cut() {
        assert_eq!(cut(&"é".repeat(61)), format!("{}...", "é".repeat(60)));
    }
}
