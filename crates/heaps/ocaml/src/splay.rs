//! Best-fit's large free blocks: a splay tree of sizes, each with a circular list of blocks of that
//! size.
//!
//! Source: `freelist.c`, "splay trees" (Sleator and Tarjan, "Self-adjusting binary search trees",
//! 1985: simple top-down splaying; Standish's tree of lists). A search for an allocation does not
//! splay; an insertion into an existing list does. All links are words of the heap, the tree's root
//! included: a link is an address.
//!
//! Headers of free blocks, all blue and of tag 0, compare like their sizes.
//!
//! A large free block's fields: whether it is its list's node; left and right child (of nodes);
//! previous and next in its list.

use crate::block::{
    Address, BLUE, NULL, fields_at, fields_header, fields_of, header_at, load, store,
};
use crate::facts::{BEST_FIT_SMALL, WORD_BYTES};
use crate::fit::Shared;

const LEFT: usize = WORD_BYTES;
const RIGHT: usize = 2 * WORD_BYTES;
const PREVIOUS: usize = 3 * WORD_BYTES;
const NEXT: usize = 4 * WORD_BYTES;

/// The tree.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The word with the root; two words for splaying follow.
    root: Address,
    /// The smallest block, if known and alone in its list.
    pub least: Address,
}

/// Child of `node` at sizes below its own.
pub(crate) fn left(node: Address) -> Address {
    load(node + LEFT)
}

/// Child of `node` at sizes above its own.
pub(crate) fn right(node: Address) -> Address {
    load(node + RIGHT)
}

/// The next block in the list of `block`.
pub(crate) fn next(block: Address) -> Address {
    load(block + NEXT)
}

/// The previous block in the list of `block`.
pub(crate) fn previous(block: Address) -> Address {
    load(block + PREVIOUS)
}

/// Whether `block` is its list's node of the tree.
pub(crate) fn is_node(block: Address) -> bool {
    load(block) == 1
}

impl Tree {
    /// An empty tree with the word at `root` as its root; the tree also uses the two words behind.
    pub(crate) fn new(root: Address) -> Tree {
        store(root, NULL);
        Tree { root, least: NULL }
    }

    pub(crate) fn reset(&mut self) {
        store(self.root, NULL);
        self.least = NULL;
    }

    /// The root node.
    pub(crate) fn root(&self) -> Address {
        load(self.root)
    }

    /// The link to the node of this size, or the empty link at the node's place. Here and below
    /// each direction has its own loop: compilers turn a common loop into code that loads both
    /// links and keeps one.
    #[inline]
    fn search(&self, shared: &mut Shared, size: usize) -> Address {
        let wanted = fields_header(size, BLUE);
        let (mut link, mut steps) = (self.root, 0);
        let mut node = load(link);
        if node != NULL {
            steps += 1;
            let mut found = header_at(node);
            'found: while found != wanted {
                while found > wanted {
                    link = node + LEFT;
                    node = load(link);
                    if node == NULL {
                        break 'found;
                    }
                    steps += 1;
                    found = header_at(node);
                }
                while found < wanted {
                    link = node + RIGHT;
                    node = load(link);
                    if node == NULL {
                        break 'found;
                    }
                    steps += 1;
                    found = header_at(node);
                }
            }
        }
        shared.steps += steps;
        link
    }

    /// The link to the smallest node of at least `size` fields, and a size: no node lies between
    /// this size and that node. It is the next lower size that the search met.
    #[inline]
    pub(crate) fn search_best(&self, shared: &mut Shared, size: usize) -> Option<(Address, usize)> {
        let wanted = fields_header(size, BLUE);
        let (mut link, mut best, mut steps) = (self.root, NULL, 0);
        let mut lower = fields_header(BEST_FIT_SMALL, BLUE);
        let mut node = load(link);
        if node != NULL {
            steps += 1;
            let mut found = header_at(node);
            'ended: loop {
                while found > wanted {
                    best = link;
                    link = node + LEFT;
                    node = load(link);
                    if node == NULL {
                        break 'ended;
                    }
                    steps += 1;
                    found = header_at(node);
                }
                while found < wanted {
                    lower = found;
                    link = node + RIGHT;
                    node = load(link);
                    if node == NULL {
                        break 'ended;
                    }
                    steps += 1;
                    found = header_at(node);
                }
                if found == wanted {
                    (best, lower) = (link, wanted);
                    break;
                }
            }
        }
        shared.steps += steps;
        (best != NULL).then_some((best, fields_of(lower)))
    }

    /// Splays the tree at a size: the size's node, or the last node of the search, becomes the
    /// root.
    fn splay(&mut self, shared: &mut Shared, size: usize) {
        let wanted = fields_header(size, BLUE);
        let (left_top, right_top) = (self.root + WORD_BYTES, self.root + 2 * WORD_BYTES);
        let (mut left_bottom, mut right_bottom) = (left_top, right_top);
        let mut node = load(self.root);
        if node == NULL {
            return;
        }
        store(left_top, NULL);
        store(right_top, NULL);
        let mut steps = 0;
        loop {
            steps += 1;
            let found = header_at(node);
            if found == wanted {
                break;
            }
            if found > wanted {
                let mut child = left(node);
                if child == NULL {
                    break;
                }
                if header_at(child) > wanted {
                    store(node + LEFT, right(child));
                    store(child + RIGHT, node);
                    node = child;
                    child = left(node);
                    if child == NULL {
                        break;
                    }
                }
                store(right_bottom, node);
                right_bottom = node + LEFT;
                node = child;
            } else {
                let mut child = right(node);
                if child == NULL {
                    break;
                }
                if header_at(child) < wanted {
                    store(node + RIGHT, left(child));
                    store(child + LEFT, node);
                    node = child;
                    child = right(node);
                    if child == NULL {
                        break;
                    }
                }
                store(left_bottom, node);
                left_bottom = node + RIGHT;
                node = child;
            }
        }
        shared.steps += steps;
        store(left_bottom, left(node));
        store(right_bottom, right(node));
        store(node + LEFT, load(left_top));
        store(node + RIGHT, load(right_top));
        store(self.root, node);
    }

    /// Splays a subtree at its smallest node; returns this node as the root, without a left child.
    fn splay_least(&mut self, mut node: Address) -> Address {
        let right_top = self.root + 2 * WORD_BYTES;
        let mut right_bottom = right_top;
        store(right_top, NULL);
        loop {
            let mut child = left(node);
            if child == NULL {
                break;
            }
            store(node + LEFT, right(child));
            store(child + RIGHT, node);
            node = child;
            child = left(node);
            if child == NULL {
                break;
            }
            store(right_bottom, node);
            right_bottom = node + LEFT;
            node = child;
        }
        store(right_bottom, right(node));
        store(node + RIGHT, load(right_top));
        node
    }

    /// Removes the node behind `link` from the tree.
    pub(crate) fn remove_node(&mut self, link: Address) {
        let node = load(link);
        if node == self.least {
            self.least = NULL;
        }
        let (low, high) = (left(node), right(node));
        if low == NULL {
            store(link, high);
        } else if high == NULL {
            store(link, low);
        } else {
            let least = self.splay_least(high);
            store(least + LEFT, low);
            store(link, least);
        }
    }

    /// Puts a blue block into the tree: as a new node, or at the tail of the list of its size.
    #[inline]
    pub(crate) fn insert(&mut self, shared: &mut Shared, block: Address) {
        let size = fields_at(block);
        let link = self.search(shared, size);
        let node = load(link);
        if self.least != NULL {
            let least = fields_at(self.least);
            if size < least {
                self.least = block;
            } else if size == least {
                self.least = NULL;
            }
        }
        if node == NULL {
            store(block, 1);
            store(block + LEFT, NULL);
            store(block + RIGHT, NULL);
            store(block + PREVIOUS, block);
            store(block + NEXT, block);
            store(link, block);
        } else {
            let tail = previous(node);
            store(block, 0);
            store(block + PREVIOUS, tail);
            store(block + NEXT, node);
            store(tail + NEXT, block);
            store(node + PREVIOUS, block);
            self.splay(shared, size);
        }
    }

    /// Removes the block after `node` from the list of `node`, which must have more than one.
    #[inline]
    pub(crate) fn take_next(&mut self, node: Address) -> Address {
        let block = next(node);
        let after = next(block);
        store(node + NEXT, after);
        store(after + PREVIOUS, node);
        block
    }

    /// Takes any block out.
    #[inline]
    pub(crate) fn remove(&mut self, shared: &mut Shared, block: Address) {
        let (before, after) = (previous(block), next(block));
        if !is_node(block) {
            store(before + NEXT, after);
            store(after + PREVIOUS, before);
            return;
        }
        let link = self.search(shared, fields_at(block));
        if after == block {
            self.remove_node(link);
            return;
        }
        store(after + PREVIOUS, before);
        store(before + NEXT, after);
        store(link, after);
        store(after, 1);
        store(after + LEFT, left(block));
        store(after + RIGHT, right(block));
    }
}
