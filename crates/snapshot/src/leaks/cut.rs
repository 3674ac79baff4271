//! Computes what cutting a leak's border steps frees.

use super::Leak;
use super::heads::Heads;
use super::steps::{Crossings, NumberedPaths};
use crate::analysis::Analysis;
use crate::columns::Bits;
use crate::graph::{Edge, Node};
use hashbrown::{HashMap, HashSet};
use std::cmp::Reverse;

/// The effect of cutting the steps of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The cut steps: references from older objects to leaked ones.
    pub references: u64,
    /// The source objects of these steps.
    pub holders: u64,
    /// Freed bytes.
    pub freed_bytes: u64,
    /// Freed bytes if the steps of `others` are cut, too.
    pub freed_with_others_bytes: u64,
    /// Other direct holders of heads of this group, one for each path, most references first.
    pub others: Vec<Holder>,
}

/// Another way over the border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// One step of the path.
    pub edge: Edge,
    /// The step's source.
    pub from: Node,
    /// Number of such steps.
    pub references: u64,
}

/// A step over the border.
struct Border {
    edge: Edge,
    from: Node,
    /// The place of the head.
    head: u32,
    /// The number of its way.
    way: u32,
    /// Whether the step repeats another: a holder's table refers to the same objects as the holder.
    repeats: bool,
}

/// All steps into the realms of heads.
pub(super) struct Borders {
    steps: Vec<Border>,
    /// From one realm to another, sorted.
    between: Vec<(u32, u32)>,
    /// Realms: of the heads, and behind them of what several hold together.
    realms: usize,
}

impl Borders {
    pub fn of(crossings: Crossings, heads: &Heads, ways: &mut NumberedPaths) -> Borders {
        let mut number = |(edge, from, head): (Edge, Node, u32)| {
            let way = ways.of_border(edge, from, heads.nodes[head as usize]);
            Border { edge, from, head, way, repeats: false }
        };
        let mut steps: Vec<Border> = crossings.borders.into_iter().map(&mut number).collect();
        let direct: HashMap<(Node, u32), u32> =
            steps.iter().map(|step| ((step.from, step.head), step.way)).collect();
        for step in &mut steps {
            let holder = ways.holder(step.from);
            if holder != step.from
                && let Some(way) = direct.get(&(holder, step.head))
            {
                (step.way, step.repeats) = (*way, true);
            }
        }
        let between = crossings.between;
        let most = between.iter().map(|(_, to)| *to as usize + 1).max().unwrap_or(0);
        Borders { steps, realms: most.max(heads.nodes.len()), between }
    }

    pub fn cut(&self, analysis: &Analysis, heads: &Heads, group: &Leak) -> Cut {
        let held = self.held_without(|way| way == group.way);
        let mut cut = Cut::default();
        let mut holders: HashSet<Node> = HashSet::new();
        let mut of_group = Bits::sparse(heads.nodes.len());
        for place in group.heads.iter().filter_map(|head| heads.place(*head)) {
            of_group.set(place);
            if !held.get(place) {
                let bytes = analysis.retained_size(heads.nodes[place as usize]);
                cut.freed_bytes = cut.freed_bytes.saturating_add(bytes);
            }
        }
        let mut others: HashMap<u32, Holder> = HashMap::new();
        for border in &self.steps {
            if border.way == group.way {
                cut.references += u64::from(!border.repeats);
                if !border.repeats {
                    holders.insert(border.from);
                }
            } else if of_group.get(border.head) {
                let first = Holder { edge: border.edge, from: border.from, references: 0 };
                others.entry(border.way).or_insert(first).references += 1;
            }
        }
        cut.holders = holders.len() as u64;
        cut.freed_with_others_bytes = if others.is_empty() {
            cut.freed_bytes
        } else {
            let held = self.held_without(|way| way == group.way || others.contains_key(&way));
            let gone = |head: &&Node| heads.place(**head).is_some_and(|place| !held.get(place));
            let gone = group.heads.iter().filter(gone);
            gone.map(|head| analysis.retained_size(*head)).fold(0, u64::saturating_add)
        };
        cut.others = others.into_values().collect();
        cut.others.sort_by_key(|holder| (Reverse(holder.references), holder.edge));
        cut
    }

    /// The steps over the border by which the group is reached, repetitions too.
    pub fn steps_of(&self, group: &Leak) -> impl Iterator<Item = Edge> {
        let way = group.way;
        self.steps.iter().filter(move |border| border.way == way).map(|border| border.edge)
    }

    /// The realms that are reached without the borders of some ways.
    fn held_without(&self, is_cut: impl Fn(u32) -> bool) -> Bits {
        let mut held = Bits::sparse(self.realms);
        let mut open: Vec<u32> = Vec::new();
        for border in self.steps.iter().filter(|border| !is_cut(border.way)) {
            if !held.replace(border.head) {
                open.push(border.head);
            }
        }
        while let Some(head) = open.pop() {
            let first = self.between.partition_point(|(from, _)| *from < head);
            let steps = self.between[first..].iter().take_while(|(from, _)| *from == head);
            for (_, to) in steps {
                if !held.replace(*to) {
                    open.push(*to);
                }
            }
        }
        held
    }
}
