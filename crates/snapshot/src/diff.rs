//! What changed between snapshots of one process: DevTools' Comparison of two, and what grows in
//! each of a series.
//!
//! Source: `aggregatesForDiff`, `calculateSnapshotDiff`. Classes are matched by key, objects within
//! a class by id: the same id is the same object even if its size or content changed, and an object
//! that was renamed is a deletion and an addition. Plain objects of the older snapshot are grouped
//! by the interfaces of the newer one. Classes of one key that overwrite each other (see
//! [`Class::shadowed`]) are compared as DevTools sees them.

use crate::analysis::{Analysis, Class, Interface};
use crate::graph::Node;
use hashbrown::HashMap;

/// What changed in a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassDiff {
    /// See [`Class::key`].
    pub key: Vec<u8>,
    /// The class's name, in WTF-8.
    pub name: Vec<u8>,
    /// Objects of the newer snapshot that the older does not have, by id.
    pub added: Vec<Node>,
    /// Objects of the older snapshot that the newer does not have, by id.
    pub removed: Vec<Node>,
    /// Own bytes of the added objects.
    pub added_size: u64,
    /// Own bytes of the removed objects.
    pub removed_size: u64,
}

impl ClassDiff {
    /// More objects than before; negative if fewer.
    pub fn count_delta(&self) -> i64 {
        self.added.len() as i64 - self.removed.len() as i64
    }

    /// More bytes than before; negative if fewer.
    pub fn size_delta(&self) -> i64 {
        self.added_size as i64 - self.removed_size as i64
    }
}

/// The comparison of `newer` against `older`: classes in which something was added or removed,
/// those of the older first.
pub fn compare(older: &Analysis, newer: &Analysis) -> Vec<ClassDiff> {
    let (class_of, classes) = older.regrouped(newer.interfaces());
    let before = Members::of(older, &class_of, &classes);
    let after_class_of: Vec<u32> =
        newer.snapshot().graph.nodes().map(|node| newer.class_of(node)).collect();
    let after = Members::of(newer, &after_class_of, newer.classes());
    drop((class_of, after_class_of));
    let mut by_key: HashMap<Vec<u8>, u32> =
        newer.shown_classes().map(|(number, class)| (class.key(), number)).collect();
    let mut diffs = Vec::new();
    for (number, class) in
        (0u32..).zip(&classes).filter(|(_, class)| class.count > 0 && !class.shadowed)
    {
        let key = class.key();
        let other = by_key.remove(&key);
        let mut diff = merge(
            (older, before.of_class(number)),
            (newer, other.map_or(&[], |other| after.of_class(other))),
        );
        diff.name = match other {
            Some(other) => newer.classes()[other as usize].name.clone(),
            // DevTools asks the last object, after it has gone back to the older snapshot's own
            // interfaces.
            None => {
                let last = before.of_class(number).last().copied().unwrap_or(0);
                older.classes()[older.class_of(last) as usize].name.clone()
            }
        };
        diff.key = key;
        diffs.push(diff);
    }
    for (number, class) in
        newer.shown_classes().filter(|(number, class)| by_key.get(&class.key()) == Some(number))
    {
        let mut diff = merge((older, &[]), (newer, after.of_class(number)));
        (diff.key, diff.name) = (class.key(), class.name.clone());
        diffs.push(diff);
    }
    diffs.retain(|diff| !diff.added.is_empty() || !diff.removed.is_empty());
    diffs
}

/// The nodes with a size, grouped by class, each group by id.
struct Members {
    first: Vec<u32>,
    nodes: Vec<Node>,
}

impl Members {
    fn of(analysis: &Analysis, class_of: &[u32], classes: &[Class]) -> Members {
        let graph = &analysis.snapshot().graph;
        let mut first = vec![0u32; classes.len() + 1];
        let counted = || graph.nodes().filter(|node| analysis.self_size(*node) != 0);
        for node in counted() {
            first[class_of[node as usize] as usize] += 1;
        }
        let mut end = 0;
        for slot in &mut first {
            end += *slot;
            *slot = end;
        }
        let mut nodes = vec![0; end as usize];
        for node in counted().rev() {
            let slot = &mut first[class_of[node as usize] as usize];
            *slot -= 1;
            nodes[*slot as usize] = node;
        }
        for range in first.windows(2) {
            nodes[range[0] as usize..range[1] as usize].sort_by_key(|node| graph.id(*node));
        }
        Members { first, nodes }
    }

    fn of_class(&self, class: u32) -> &[Node] {
        &self.nodes[self.first[class as usize] as usize..self.first[class as usize + 1] as usize]
    }
}

/// Two lists by id.
fn merge((older, before): (&Analysis, &[Node]), (newer, after): (&Analysis, &[Node])) -> ClassDiff {
    let mut diff = ClassDiff::default();
    let (mut from, mut to) = (0, 0);
    loop {
        let old = before.get(from).map(|node| older.snapshot().graph.id(*node));
        let new = after.get(to).map(|node| newer.snapshot().graph.id(*node));
        match (old, new) {
            (None, None) => return diff,
            (Some(old), Some(new)) if old == new => {
                from += 1;
                to += 1;
            }
            (Some(old), new) if new.is_none_or(|new| old < new) => {
                diff.removed.push(before[from]);
                diff.removed_size += older.self_size(before[from]);
                from += 1;
            }
            _ => {
                diff.added.push(after[to]);
                diff.added_size += newer.self_size(after[to]);
                to += 1;
            }
        }
    }
}

/// The classes of one snapshot of a series: the only data kept of it.
#[derive(Clone, Debug, Default)]
pub struct Point {
    classes: HashMap<Vec<u8>, (u64, u64)>,
}

impl Point {
    /// Groups plain objects by `interfaces`, which must be the same for the whole series: those of
    /// its last snapshot, say.
    pub fn of(analysis: &Analysis, interfaces: &[Interface]) -> Point {
        let (_, classes) = analysis.regrouped(interfaces);
        let shown = classes.iter().filter(|class| class.count > 0 && !class.shadowed);
        Point {
            classes: shown.map(|class| (class.key(), (class.count, class.self_size))).collect(),
        }
    }
}

/// A class over a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// See [`Class::key`].
    pub key: Vec<u8>,
    /// Objects in each snapshot.
    pub counts: Vec<u64>,
    /// Their own sizes, bytes.
    pub sizes: Vec<u64>,
}

impl Growth {
    /// From the first snapshot to the last, bytes.
    pub fn bytes(&self) -> u64 {
        self.sizes
            .last()
            .copied()
            .unwrap_or(0)
            .saturating_sub(self.sizes.first().copied().unwrap_or(0))
    }
}

/// The classes that have more objects in each snapshot than in the one before, those that grew by
/// most bytes first.
pub fn growing(series: &[Point]) -> Vec<Growth> {
    let Some((last, _)) = series.split_last() else { return Vec::new() };
    let of = |key: &[u8]| Growth {
        key: key.to_vec(),
        counts: series
            .iter()
            .map(|point| point.classes.get(key).map_or(0, |class| class.0))
            .collect(),
        sizes: series
            .iter()
            .map(|point| point.classes.get(key).map_or(0, |class| class.1))
            .collect(),
    };
    let mut growing: Vec<Growth> = last
        .classes
        .keys()
        .map(|key| of(key))
        .filter(|class| class.counts.is_sorted_by(|a, b| a < b))
        .collect();
    growing.sort_by(|a, b| b.bytes().cmp(&a.bytes()).then_with(|| a.key.cmp(&b.key)));
    if series.len() < 2 { Vec::new() } else { growing }
}
