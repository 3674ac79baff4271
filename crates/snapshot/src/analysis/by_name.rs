//! Nodes in the order of their names.
//!
//! Most callers want the first few of millions, so only those are kept. Each source of names builds
//! its name once, compares it with the last kept name, and forgets it. A name that comes too late
//! once always comes too late, because the kept names only get better. A caller that wants all gets
//! a rank for each name, and nodes are sorted by rank.

use super::Analysis;
use super::name_sources::{Source, Sources};
use super::same_names::SameNames;
use crate::columns::Bits;
use crate::graph::Node;
use crate::strings::to_text;
use hashbrown::HashSet;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

impl Analysis<'_, '_> {
    /// So many `places` in `nodes` as come `first` by name ([`Analysis::name`], by characters),
    /// those of the same name in the order of `nodes`.
    pub fn first_by_name(&self, nodes: &[Node], first: usize, descending: bool) -> Vec<u32> {
        match (first, descending) {
            (first, _) if first >= nodes.len() => self.all_by_name(nodes, descending),
            (first, false) => self.few_by_name(nodes, first, |name| name),
            (first, true) => self.few_by_name(nodes, first, Reverse),
        }
    }

    /// `key` gives names their order.
    fn few_by_name<'n, K: Ord>(
        &'n self,
        nodes: &[Node],
        first: usize,
        key: impl Fn(Cow<'n, str>) -> K,
    ) -> Vec<u32> {
        let mut late = Late::new(self);
        let mut kept: BinaryHeap<(K, u32, Source)> = BinaryHeap::new();
        for (place, node) in (0..).zip(nodes) {
            let source = late.sources.of_node(*node);
            if late.is(source) {
                continue;
            }
            let name = key(to_text(late.sources.name(source)));
            let full = kept.len() == first;
            if full && kept.peek().is_none_or(|last| (&name, place) > (&last.0, last.1)) {
                late.set(source);
                continue;
            }
            if full && let Some((_, _, source)) = kept.pop() {
                late.set(source);
            }
            kept.push((name, place, source));
        }
        kept.into_sorted_vec().into_iter().map(|(_, place, _)| place).collect()
    }

    fn all_by_name(&self, nodes: &[Node], descending: bool) -> Vec<u32> {
        let mut same = SameNames::new(self);
        let numbers: Vec<u32> = nodes.iter().map(|node| same.number(*node)).collect();
        let names: Vec<Cow<str>> = same.names().map(to_text).collect();
        let mut order: Vec<u32> = (0..names.len() as u32).collect();
        order.sort_unstable_by_key(|number| &names[*number as usize]);
        // Names that differ only in what is not Unicode are shown alike, and count as one.
        let (mut ranks, mut rank) = (vec![0u32; names.len()], 0);
        for (at, number) in order.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| &names[order[before] as usize]);
            rank += u32::from(before.is_some_and(|before| *before != names[*number as usize]));
            ranks[*number as usize] = rank;
        }
        let key = |number: u32| {
            if descending { rank - ranks[number as usize] } else { ranks[number as usize] }
        };
        let mut keyed: Vec<(u32, u32)> = numbers.into_iter().map(key).zip(0..).collect();
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, place)| place).collect()
    }
}

/// Sources whose names sort behind all kept names.
struct Late<'n, 's, 'a> {
    sources: Sources<'n, 's, 'a>,
    numbers: Bits,
    others: HashSet<Source>,
}

impl<'n, 's, 'a> Late<'n, 's, 'a> {
    fn new(analysis: &'n Analysis<'s, 'a>) -> Self {
        let sources = Sources::new(analysis);
        Late { numbers: Bits::sparse(sources.len()), sources, others: HashSet::new() }
    }

    #[inline]
    fn is(&self, source: Source) -> bool {
        match source {
            Source::String(id) | Source::Number(id) => self.numbers.get(id),
            other => self.others.contains(&other),
        }
    }

    fn set(&mut self, source: Source) {
        match source {
            Source::String(id) | Source::Number(id) => self.numbers.set(id),
            other => drop(self.others.insert(other)),
        }
    }
}
