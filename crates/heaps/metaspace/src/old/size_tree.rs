//! Free pieces by size: a binary search tree of distinct sizes, stored in the pieces themselves,
//! never balanced.
//!
//! Two users: free humongous chunks of a space, and an arena's free blocks of 11 words and more.
//! The first piece of a size is the tree's node; further ones hang behind it in order of return,
//! and the node is given out last. Source: `binaryTreeDictionary.inline.hpp`. Deviation: a node is
//! its first piece, so the two words for HotSpot's list head and size stay unused; the layout keeps
//! their place because it decides the smallest block.

use super::facts::{BLOCK_WORDS_MIN, DICTIONARY_WORDS_MIN};
use super::piece::Piece;
use heaplab_buddy::marks::mark;

/// Offsets behind the piece's own header. Two words, after TAIL, are HotSpot's size and (before it)
/// head.
const NODE: usize = 0;
const TAIL: usize = 2;
const COUNT: usize = 4;
const PARENT: usize = 5;
const LEFT: usize = 6;
const RIGHT: usize = 7;
/// Words behind the header of a piece in the tree; they decide the smallest block in a dictionary.
const TREE_WORDS: usize = 8;
const _: () = assert!(BLOCK_WORDS_MIN + TREE_WORDS == DICTIONARY_WORDS_MIN);

/// The tree of one owner.
pub(super) struct SizeTree {
    /// Words of header before the tree's own.
    header_words: usize,
    root: Option<Piece>,
    words: usize,
    count: usize,
}

impl SizeTree {
    /// An empty tree of pieces with `header_words` words of their own.
    pub fn new(header_words: usize) -> SizeTree {
        SizeTree { header_words, root: None, words: 0, count: 0 }
    }

    /// Words of all pieces.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Number of pieces.
    pub fn count(&self) -> usize {
        self.count
    }

    fn link(&self, node: Piece, which: usize) -> Option<Piece> {
        node.link(self.header_words + which)
    }

    fn set_link(&self, node: Piece, which: usize, to: Option<Piece>) {
        node.set_link(self.header_words + which, to);
    }

    fn len(&self, node: Piece) -> usize {
        node.get(self.header_words + COUNT)
    }

    fn set_len(&self, node: Piece, count: usize) {
        node.set(self.header_words + COUNT, count);
    }

    /// Makes `child` the child of `parent` on side `which`.
    fn adopt(&self, parent: Piece, which: usize, child: Option<Piece>) {
        self.set_link(parent, which, child);
        if let Some(child) = child {
            self.set_link(child, PARENT, Some(parent));
        }
    }

    /// Inserts a piece with its size set.
    pub fn insert(&mut self, piece: Piece) {
        self.words += piece.words();
        self.count += 1;
        piece.set_next(None);
        piece.set_previous(None);
        let (found, last) = self.search(piece.words());
        if let Some(node) = found {
            let tail = self.link(node, TAIL).unwrap_or(node);
            tail.set_next(Some(piece));
            piece.set_previous(Some(tail));
            self.set_link(piece, NODE, Some(node));
            self.set_link(node, TAIL, Some(piece));
            self.set_len(node, self.len(node) + 1);
            return;
        }
        for which in [PARENT, LEFT, RIGHT] {
            self.set_link(piece, which, None);
        }
        self.set_link(piece, NODE, Some(piece));
        self.set_link(piece, TAIL, Some(piece));
        self.set_len(piece, 1);
        match last {
            None => self.root = Some(piece),
            Some(parent) => {
                let side = if parent.words() < piece.words() { RIGHT } else { LEFT };
                self.adopt(parent, side, Some(piece));
            }
        }
    }

    /// The node of exactly `words`, and the last node on the way to it.
    fn search(&self, words: usize) -> (Option<Piece>, Option<Piece>) {
        let (mut at, mut last) = (self.root, None);
        while let Some(node) = at.filter(|node| node.words() != words) {
            last = Some(node);
            at = self.link(node, if node.words() < words { RIGHT } else { LEFT });
        }
        (at, last)
    }

    /// Takes a piece of the smallest size of at least `words`: the second of that size, or the node
    /// if alone.
    pub fn take(&mut self, words: usize) -> Option<Piece> {
        let (mut found, mut last) = self.search(words);
        while found.is_none() {
            // The next larger size is the nearest larger ancestor.
            let candidate = last?;
            if candidate.words() > words {
                found = Some(candidate);
            }
            last = self.link(candidate, PARENT);
        }
        let node = found?;
        let piece = node.next().unwrap_or(node);
        self.remove(piece);
        Some(piece)
    }

    /// Removes `piece`, which must be in the tree.
    pub fn remove(&mut self, piece: Piece) {
        self.words -= piece.words();
        self.count -= 1;
        let node = self.link(piece, NODE).expect("a piece in the tree names its node");
        match (piece == node, piece.next()) {
            (true, None) => self.unlink_node(node),
            (true, Some(heir)) => self.hand_over(node, heir),
            (false, next) => {
                let previous = piece.previous().expect("only the node has no predecessor");
                previous.set_next(next);
                match next {
                    Some(next) => next.set_previous(Some(previous)),
                    None => self.set_link(node, TAIL, Some(previous)),
                }
                self.set_len(node, self.len(node) - 1);
            }
        }
        piece.set_next(None);
        piece.set_previous(None);
    }

    /// Removes the node itself: the next piece of its size takes its place.
    fn hand_over(&mut self, node: Piece, heir: Piece) {
        mark("tree: node handed over");
        heir.set_previous(None);
        self.set_link(heir, TAIL, self.link(node, TAIL));
        self.set_len(heir, self.len(node) - 1);
        for side in [LEFT, RIGHT] {
            self.adopt(heir, side, self.link(node, side));
        }
        self.replace_in_parent(node, Some(heir));
        for piece in std::iter::successors(Some(heir), |piece| piece.next()) {
            self.set_link(piece, NODE, Some(heir));
        }
    }

    /// Removes a size without pieces.
    fn unlink_node(&mut self, node: Piece) {
        let (left, right) = (self.link(node, LEFT), self.link(node, RIGHT));
        let heir = match (left, right) {
            (None, only) | (only, None) => only,
            (Some(left), Some(right)) => {
                mark("tree: node with two children removed");
                let least = self.remove_least(right);
                // The right child may itself have been the smallest.
                let right = self.link(node, RIGHT);
                self.adopt(least, LEFT, Some(left));
                self.adopt(least, RIGHT, right);
                Some(least)
            }
        };
        self.replace_in_parent(node, heir);
    }

    /// Cuts the smallest node out of the subtree at `node`, which has a parent.
    fn remove_least(&mut self, node: Piece) -> Piece {
        let mut least = node;
        while let Some(left) = self.link(least, LEFT) {
            least = left;
        }
        self.replace_in_parent(least, self.link(least, RIGHT));
        least
    }

    /// Makes `heir` the child of `node`'s parent in its place.
    fn replace_in_parent(&mut self, node: Piece, heir: Option<Piece>) {
        match self.link(node, PARENT) {
            None => {
                self.root = heir;
                if let Some(heir) = heir {
                    self.set_link(heir, PARENT, None);
                }
            }
            Some(parent) => {
                let side = if self.link(parent, LEFT) == Some(node) { LEFT } else { RIGHT };
                self.adopt(parent, side, heir);
            }
        }
    }

    /// Calls `visit` with every piece; returns the first damage: order, parents, counts or sizes.
    pub fn inspect(&self, mut visit: impl FnMut(Piece)) -> Result<(), String> {
        let (mut words, mut count) = (0, 0);
        let mut open: Vec<(Piece, usize, usize)> =
            self.root.map(|root| (root, 0, usize::MAX)).into_iter().collect();
        while let Some((node, low, high)) = open.pop() {
            let size = node.words();
            if size <= low || size >= high {
                return Err(format!("{size} words between {low} and {high}"));
            }
            let mut length = 0;
            for piece in std::iter::successors(Some(node), |piece| piece.next()) {
                if piece.words() != size || self.link(piece, NODE) != Some(node) {
                    return Err(format!(
                        "{} words at {:#x} in the list of {size} words",
                        piece.words(),
                        piece.address()
                    ));
                }
                length += 1;
                words += size;
                count += 1;
                visit(piece);
                if length > self.count {
                    return Err(format!("a circle among the pieces of {size} words"));
                }
            }
            if length != self.len(node) {
                return Err(format!(
                    "{length} pieces of {size} words where {} are counted",
                    self.len(node)
                ));
            }
            for (side, low, high) in [(LEFT, low, size), (RIGHT, size, high)] {
                if let Some(child) = self.link(node, side) {
                    if self.link(child, PARENT) != Some(node) {
                        return Err(format!("the child of {size} words names another parent"));
                    }
                    open.push((child, low, high));
                }
            }
        }
        if (words, count) != (self.words, self.count) {
            return Err(format!(
                "{count} pieces with {words} words where {} with {} are counted",
                self.count, self.words
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_buddy::marks::expect;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Pieces of 16 words in a box; their size is a number written into them, not their real size.
    fn pieces(count: usize) -> (Vec<usize>, Vec<Piece>) {
        let memory = vec![0usize; 16 * count];
        let base = memory.as_ptr().expose_provenance();
        // SAFETY: each piece has 16 words of the vector to itself, and the vector is returned with
        // them.
        let pieces = (0..count).map(|index| unsafe { Piece::at(base + index * 128) }).collect();
        (memory, pieces)
    }

    proptest! {
        /// Against a map from size to pieces in order of return.
        #[test]
        fn a_tree_gives_what_a_sorted_map_gives(steps in proptest::collection::vec((0u8..3, 11usize..40), 1..200)) {
            let (_memory, free) = pieces(200);
            let mut spare = free.clone();
            let mut tree = SizeTree::new(3);
            let mut model: BTreeMap<usize, Vec<Piece>> = BTreeMap::new();
            for (what, words) in steps {
                match what {
                    0 => {
                        let piece = spare.pop().unwrap();
                        piece.set_words(words);
                        tree.insert(piece);
                        model.entry(words).or_default().push(piece);
                    }
                    1 => {
                        let size = model.range(words..).next().map(|(size, _)| *size);
                        let expected = size.map(|size| {
                            let list = model.get_mut(&size).unwrap();
                            let piece = list.remove(usize::from(list.len() > 1));
                            if list.is_empty() { model.remove(&size); }
                            piece
                        });
                        prop_assert!(tree.take(words) == expected);
                    }
                    _ => {
                        let Some((&size, list)) = model.range_mut(..=words).next_back() else { continue };
                        tree.remove(list.remove(0));
                        if list.is_empty() { model.remove(&size); }
                    }
                }
                let mut seen = 0;
                prop_assert_eq!(tree.inspect(|_| seen += 1), Ok(()));
                prop_assert_eq!(seen, model.values().map(Vec::len).sum::<usize>());
            }
        }
    }

    #[test]
    fn rare_removals_are_reached() {
        let (_memory, all) = pieces(6);
        let mut tree = SizeTree::new(3);
        for (piece, words) in all.iter().zip([20, 12, 30, 25, 40, 20]) {
            piece.set_words(words);
            tree.insert(*piece);
        }
        expect("tree: node handed over", || tree.remove(all[0]));
        assert!(expect("tree: node with two children removed", || tree.take(20)) == Some(all[5]));
        assert_eq!(tree.inspect(|_| ()), Ok(()));
    }
}
