//! Finds free blocks that lie side by side: sorts all of them by address, without memory of its
//! own.
//!
//! A merge sort of linked lists, by runs that exist already (Knuth, TAOCP 3, 5.2.4, exercise 12).
//! Blocks given back in the order of their births, or in reverse, are one run; so is the result of
//! an earlier merge in a bin. Runs wait by the power of two of their length, like the digits of a
//! binary counter.

use super::free_blocks::Node;
use std::ptr;

/// Runs have less than two to this power of blocks: there are no addresses for more.
const LEVELS: usize = 48;

/// Blocks being sorted, the highest address first.
pub struct Sorter {
    waiting: [*mut Node; LEVELS],
}

impl Sorter {
    /// None.
    pub fn new() -> Sorter {
        Sorter { waiting: [ptr::null_mut(); LEVELS] }
    }

    /// Adds the blocks of a list, which are in no other one.
    pub fn add(&mut self, mut list: *mut Node) {
        while !list.is_null() {
            let (mut run, length, rest) = next_run(list);
            let mut level = length.ilog2() as usize;
            while !self.waiting[level].is_null() {
                run = merged(std::mem::replace(&mut self.waiting[level], ptr::null_mut()), run);
                level += 1;
            }
            self.waiting[level] = run;
            list = rest;
        }
    }

    /// Calls `see` with address and bytes of merged neighbours, the highest first. A block is not
    /// looked at again after `see` got the piece that contains it.
    pub fn pieces(self, mut see: impl FnMut(usize, usize)) {
        let mut node = self.waiting.into_iter().fold(ptr::null_mut(), merged);
        let mut piece: Option<(usize, usize)> = None;
        while !node.is_null() {
            // SAFETY: a list holds free blocks, each with a node.
            let read = unsafe { node.read() };
            piece = match piece {
                Some((start, bytes)) if node.addr() + read.bytes() == start => {
                    Some((node.addr(), bytes + read.bytes()))
                }
                other => {
                    if let Some((start, bytes)) = other {
                        see(start, bytes);
                    }
                    Some((node.addr(), read.bytes()))
                }
            };
            node = read.next;
        }
        if let Some((start, bytes)) = piece {
            see(start, bytes);
        }
    }
}

/// The run that a list begins with, the highest address first; its length; and what follows it.
fn next_run(first: *mut Node) -> (*mut Node, usize, *mut Node) {
    let (mut last, mut length) = (first, 1);
    // SAFETY: a list holds free blocks, each with a node.
    let mut next = unsafe { (*first).next };
    if next.addr() > first.addr() {
        let mut run = first;
        // SAFETY: as above.
        unsafe { (*first).next = ptr::null_mut() };
        while next.addr() > run.addr() {
            // SAFETY: as above; null is no higher address.
            let rest = unsafe { std::mem::replace(&mut (*next).next, run) };
            (run, next, length) = (next, rest, length + 1);
        }
        return (run, length, next);
    }
    while !next.is_null() && next.addr() < last.addr() {
        last = next;
        length += 1;
        // SAFETY: as above.
        next = unsafe { (*next).next };
    }
    // SAFETY: as above.
    unsafe { (*last).next = ptr::null_mut() };
    (first, length, next)
}

/// Two runs as one.
fn merged(mut one: *mut Node, mut other: *mut Node) -> *mut Node {
    let mut first = ptr::null_mut();
    let mut end = &raw mut first;
    while !one.is_null() && !other.is_null() {
        if one.addr() < other.addr() {
            std::mem::swap(&mut one, &mut other);
        }
        // SAFETY: runs hold free blocks, each with a node; `end` is `first` or the link of one.
        unsafe {
            *end = one;
            end = &raw mut (*one).next;
            one = *end;
        }
    }
    // SAFETY: as above.
    unsafe { *end = if one.is_null() { other } else { one } };
    first
}

#[cfg(test)]
mod tests {
    use crate::arena::free_blocks::FreeList;
    use proptest::prelude::*;
    use std::ptr::NonNull;

    const WORDS: usize = 400;

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, ..ProptestConfig::default() })]

        /// For any blocks in any order: after a merge no two blocks touch, and the same words are
        /// free.
        #[test]
        fn neighbours_are_one_and_nothing_is_lost(
            cuts in prop::collection::vec((2usize..9, any::<bool>(), any::<u32>()), 1..90),
            window in any::<bool>(),
        ) {
            let mut memory = vec![0u64; WORDS];
            let base = memory.as_mut_ptr().cast::<u8>();
            let (mut at, mut blocks) = (8, Vec::new());
            for (words, is_free, order) in cuts {
                if at + words * 8 <= WORDS * 8 && is_free {
                    blocks.push((order, at, words * 8));
                }
                at += words * 8;
            }
            blocks.sort();
            let cursor = if window { blocks.iter().map(|block| block.1).min().unwrap_or(0) } else { 0 };
            let list = FreeList::new();
            for (_, at, bytes) in &blocks {
                // SAFETY: the memory is this test's, and blocks do not overlap.
                unsafe { list.put(NonNull::new(base.wrapping_add(*at)).unwrap(), *bytes) };
            }
            let (window_bytes, largest_bytes) = list.merge(base.wrapping_add(cursor));
            let mut merged = Vec::new();
            list.each(|(block, bytes)| merged.push((block.addr().get() - base.addr(), bytes)));
            merged.sort();
            prop_assert_eq!(merged.iter().map(|block| block.1).max().unwrap_or(0), largest_bytes);
            if window_bytes > 0 {
                merged.insert(0, (cursor, window_bytes));
            }
            prop_assert!(merged.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0));
            let words = |blocks: Vec<(usize, usize)>| -> Vec<usize> {
                blocks.into_iter().flat_map(|(at, bytes)| at / 8..(at + bytes) / 8).collect()
            };
            blocks.sort_by_key(|block| block.1);
            let put = blocks.into_iter().map(|(_, at, bytes)| (at, bytes)).collect();
            prop_assert_eq!(words(merged), words(put));
        }
    }
}
