//! Larger freed blocks: a search tree of distinct sizes, unbalanced, with blocks of one size
//! chained behind their node.
//!
//! The tree runs through the blocks themselves. The chains decide which block a request gets (the
//! newest after the node itself, the node last), and this decides the remainders. So insertion and
//! removal are exactly those of HotSpot 17's `BlockTree`: no balancing, and the successor replaces
//! a node with two children. HotSpot's nodes have a parent and a canary; here a removal walks down
//! from the root and needs no parent.

use std::ptr::NonNull;

type Link = Option<NonNull<Node>>;

/// The content of a block in the tree. It fits: blocks here have at least 34 words.
#[repr(C)]
struct Node {
    canary: u64,
    words: usize,
    /// Blocks of the same size.
    next: Link,
    left: Link,
    right: Link,
}

/// Proves to a later reader that nobody wrote into a freed block.
const CANARY: u64 = u64::from_le_bytes(*b"freeblok");

/// The tree.
#[derive(Debug, Default)]
pub struct BlockTree {
    root: Link,
    blocks: usize,
    words: usize,
}

impl BlockTree {
    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Their words.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Keeps a block of more than 33 words.
    ///
    /// # Safety
    /// The block is writable, aligned to a word, and nobody else uses it until it is taken.
    pub unsafe fn add(&mut self, block: NonNull<u64>, words: usize) {
        let new: NonNull<Node> = block.cast();
        // SAFETY: the block has room for a `Node` and is ours.
        unsafe { new.write(Node { canary: CANARY, words, next: None, left: None, right: None }) };
        self.blocks += 1;
        self.words += words;
        let mut link = &mut self.root;
        while let Some(mut node) = *link {
            // SAFETY: a node in the tree holds what `add` wrote; only one reference to it lives at
            // a time.
            let node = unsafe { node.as_mut() };
            if node.words == words {
                // SAFETY: the new block is ours and no other reference to it lives.
                unsafe { (*new.as_ptr()).next = node.next };
                node.next = Some(new);
                return;
            }
            link = if words > node.words { &mut node.right } else { &mut node.left };
        }
        *link = Some(new);
    }

    /// Takes the smallest block of at least `words`; returns its size too.
    pub fn take(&mut self, words: usize) -> Option<(NonNull<u64>, usize)> {
        let mut link: *mut Link = &mut self.root;
        let mut best: Option<*mut Link> = None;
        // SAFETY: `link` is the root or a link inside a node of the tree, and the tree's nodes hold
        // what `add` wrote; nothing else refers to them during the walk.
        while let Some(mut node) = unsafe { *link } {
            // SAFETY: as above.
            let node = unsafe { node.as_mut() };
            if node.words >= words {
                best = Some(link);
                if node.words == words {
                    break;
                }
                link = &mut node.left;
            } else {
                link = &mut node.right;
            }
        }
        let best = best?;
        // SAFETY: as above; the link holds a node, because the walk looked at it.
        let (mut node, size) = unsafe {
            let node = (*best)?;
            (node, node.as_ref().words)
        };
        // SAFETY: as above.
        let block = match unsafe { node.as_ref() }.next {
            Some(chained) => {
                // SAFETY: as above; the chained block is a node too.
                unsafe { node.as_mut().next = chained.as_ref().next };
                chained
            }
            None => {
                // SAFETY: as above.
                unsafe { *best = without(node) };
                node
            }
        };
        self.blocks -= 1;
        self.words -= size;
        Some((block.cast(), size))
    }

    /// Every block with its size, whether its canary is whole, and the sizes allowed by its place
    /// in the tree.
    pub fn each(&self, mut visit: impl FnMut(NonNull<u64>, usize, bool, (usize, usize))) {
        let mut waiting = vec![(self.root, (0, usize::MAX))];
        while let Some((link, (low, high))) = waiting.pop() {
            let Some(node) = link else { continue };
            // SAFETY: a node in the tree holds what `add` wrote, because nobody else uses it.
            let content = unsafe { node.as_ref() };
            let mut at = Some(node);
            while let Some(block) = at {
                // SAFETY: as above.
                let chained = unsafe { block.as_ref() };
                let own = if block == node { (low, high) } else { (content.words, content.words) };
                visit(block.cast(), chained.words, chained.canary == CANARY, own);
                at = chained.next;
            }
            waiting.push((content.left, (low, content.words.saturating_sub(1))));
            waiting.push((content.right, (content.words + 1, high)));
        }
    }

    /// The tree's shape: sizes in preorder, `None` for a missing child. For tests.
    #[cfg(test)]
    pub fn shape(&self) -> Vec<Option<usize>> {
        fn walk(link: Link, out: &mut Vec<Option<usize>>) {
            // SAFETY: as in `each`.
            let node = link.map(|node| unsafe { node.as_ref() });
            out.push(node.map(|node| node.words));
            if let Some(node) = node {
                walk(node.left, out);
                walk(node.right, out);
            }
        }
        let mut out = Vec::new();
        walk(self.root, &mut out);
        out
    }
}

/// The replacement of `node` in the tree after its removal.
///
/// # Safety
/// `node` and everything below it are nodes of a tree, and no reference to any of them lives.
unsafe fn without(node: NonNull<Node>) -> Link {
    // SAFETY: the caller's promise.
    let (left, right) = unsafe { (node.as_ref().left, node.as_ref().right) };
    let (Some(_), Some(mut at)) = (left, right) else { return left.or(right) };
    // The successor: the leftmost node of the right branch.
    let mut parent: Link = None;
    // SAFETY: `at` is a node of the tree throughout.
    while let Some(smaller) = unsafe { at.as_ref() }.left {
        parent = Some(at);
        at = smaller;
    }
    // SAFETY: `at` and `parent` are two different nodes of the tree, and no reference to them
    // lives.
    unsafe {
        if let Some(mut parent) = parent {
            parent.as_mut().left = at.as_ref().right;
            at.as_mut().right = right;
        }
        at.as_mut().left = left;
    }
    Some(at)
}
