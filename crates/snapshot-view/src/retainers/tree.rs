//! The tree of an object's referrers and theirs, of a bounded size.
//!
//! The number of paths backwards grows exponentially, the number of objects does not. So each
//! object is expanded once, at its place nearest to the asked object, and only named elsewhere.
//! DevTools expands the objects that a user opens. Here the nearest levels come first, until the
//! requested number of lines is reached.

use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::{Analysis, Retaining};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// How much of the tree is made.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Levels.
    pub depth: usize,
    /// Referrers of one object.
    pub top: usize,
    /// Most lines in all; those of the first level are there even if they are more.
    pub lines: usize,
}

/// Referrers of a followed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Places in [`Tree::rows`], the nearest to a root first.
    pub rows: Range<usize>,
    /// Referrers without a row.
    pub more: usize,
}

/// The tree.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Referrers, those of one object behind each other.
    pub rows: Vec<Retaining>,
    /// For each object, the row that expands it (none for the asked object), and whether lines
    /// remained for it.
    followed: HashMap<Node, (Option<usize>, Option<Followed>)>,
    /// Objects that depth allows to follow and the number of lines does not.
    pub not_followed: usize,
}

/// How a row goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Under<'t> {
    /// With these.
    Rows(&'t Followed),
    /// The object is expanded at another place of the tree.
    Elsewhere,
    /// Not at all.
    Nothing,
}

impl Tree {
    /// Referrers of `node`.
    pub fn of(analysis: &Analysis, node: Node, limits: Limits) -> Tree {
        let retainers = analysis.backward();
        let mut tree = Tree::default();
        let mut waiting = VecDeque::from([(node, None, 0)]);
        while let Some((node, under, depth)) = waiting.pop_front() {
            if tree.followed.contains_key(&node) {
                continue;
            }
            if depth > 0 && tree.rows.len() >= limits.lines {
                tree.not_followed += 1;
                tree.followed.insert(node, (under, None));
                continue;
            }
            let mut sorted = analysis.retainers(retainers, node);
            analysis.sort_by_node_name(&mut sorted);
            let room = if depth == 0 { usize::MAX } else { limits.lines - tree.rows.len() };
            let shown = sorted.len().min(limits.top).min(room);
            let first = tree.rows.len();
            tree.rows.extend_from_slice(&sorted[..shown]);
            if depth + 1 < limits.depth {
                waiting.extend(
                    (first..tree.rows.len()).map(|row| (tree.rows[row].from, Some(row), depth + 1)),
                );
            }
            let followed = Followed { rows: first..first + shown, more: sorted.len() - shown };
            tree.followed.insert(node, (under, Some(followed)));
        }
        tree
    }

    /// Referrers of the first object.
    pub fn first(&self, node: Node) -> Followed {
        self.followed
            .get(&node)
            .and_then(|(_, followed)| followed.clone())
            .unwrap_or(Followed { rows: 0..0, more: 0 })
    }

    /// How a row goes on.
    pub fn under(&self, row: usize) -> Under<'_> {
        match self.followed.get(&self.rows[row].from) {
            None | Some((_, None)) => Under::Nothing,
            Some((under, Some(followed))) if *under == Some(row) => Under::Rows(followed),
            Some(_) => Under::Elsewhere,
        }
    }
}
