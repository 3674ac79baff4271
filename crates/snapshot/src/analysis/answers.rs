//! What an analysis computed, apart from its snapshot: what an index keeps.

use super::attachment::Attachment;
use super::classes::{Class, Classification};
use super::dominators::Tree;
use super::names::Names;
use super::retained::Retained;
use super::shapes::Interface;
use super::{Analysis, Sizes};
use crate::columns::Column;
use crate::graph::Node;
use crate::snapshot::Snapshot;
use crate::strings::StringId;
use std::borrow::Cow;
use std::sync::OnceLock;

/// The columns and lists of an [`Analysis`].
#[derive(Debug)]
pub(crate) struct Answers<'a> {
    /// Own sizes, by node.
    pub sizes: Column<'a, u32>,
    /// Own sizes of 2^32 and more, by ascending node.
    pub large_sizes: Vec<(Node, u64)>,
    /// As the bits of an `i32`, by node.
    pub distances: Column<'a, u32>,
    /// The dominator tree.
    pub tree: Tree<'a>,
    /// What nodes retain.
    pub retained: Retained<'a>,
    /// The index of its class, by node.
    pub class_of: Column<'a, u32>,
    /// Attachment by node, or empty.
    pub states: Column<'a, u8>,
    /// Nodes with another name than in the file, ascending.
    pub renamed: Vec<(Node, StringId)>,
    /// Names behind those of the file.
    pub added_names: Vec<Vec<u8>>,
    /// The classes.
    pub classes: Vec<Class>,
    /// The interfaces of plain objects.
    pub interfaces: Vec<Interface>,
}

impl<'s, 'a> Analysis<'s, 'a> {
    /// Everything that was computed.
    pub(crate) fn answers(&self) -> Answers<'_> {
        let mut large_sizes: Vec<_> =
            self.sizes.large.iter().map(|(node, size)| (*node, *size)).collect();
        large_sizes.sort_unstable();
        let mut renamed: Vec<_> =
            self.attachment.renamed.iter().map(|(node, name)| (*node, *name)).collect();
        renamed.sort_unstable();
        Answers {
            sizes: lent(&self.sizes.low),
            large_sizes,
            distances: lent(&self.distances),
            tree: Tree {
                vertex: lent(&self.tree.vertex),
                dominator: lent(&self.tree.dominator),
                number: lent(&self.tree.number),
            },
            retained: Retained { low: lent(&self.retained.low), high: lent(&self.retained.high) },
            class_of: lent(&self.classes.class_of),
            states: lent(&self.attachment.states),
            renamed,
            added_names: self.names.added().to_vec(),
            classes: self.classes.classes.clone(),
            interfaces: self.classes.interfaces.clone(),
        }
    }

    /// The analysis that gave these answers about the snapshot.
    pub(crate) fn of_answers(
        snapshot: &'s Snapshot<'a>,
        answers: &Answers<'a>,
    ) -> Analysis<'s, 'a> {
        let mut names = Names::new(&snapshot.strings);
        for name in &answers.added_names {
            names.add(name.clone());
        }
        Analysis {
            snapshot,
            names,
            attachment: Attachment {
                states: answers.states.clone(),
                renamed: answers.renamed.iter().copied().collect(),
            },
            sizes: Sizes {
                low: answers.sizes.clone(),
                large: answers.large_sizes.iter().copied().collect(),
            },
            distances: answers.distances.clone(),
            tree: answers.tree.clone(),
            retained: answers.retained.clone(),
            classes: Classification {
                class_of: answers.class_of.clone(),
                classes: answers.classes.clone(),
                interfaces: answers.interfaces.clone(),
            },
            concatenated: OnceLock::new(),
            backward: OnceLock::new(),
            subtrees: OnceLock::new(),
            numbered: OnceLock::new(),
            duplicates: OnceLock::new(),
            scripts: OnceLock::new(),
        }
    }
}

fn lent<'c, T: Clone>(column: &'c Column<'_, T>) -> Column<'c, T> {
    Cow::Borrowed(column)
}
