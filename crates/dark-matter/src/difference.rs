//! The lists of one recording less those of an earlier one, as `dmd.py` compares two files.

use crate::{Blocks, DarkMatter, Group, List, SortBy};
use std::collections::BTreeMap;

impl DarkMatter {
    /// What has changed since `before`, which a person calls `name`. Groups are the same if their
    /// stacks are; equal ones are left out.
    #[must_use]
    pub fn since(self, before: DarkMatter, name: &str) -> DarkMatter {
        let mut of_nothing = BTreeMap::new();
        for (sign, list) in [(1, self.of_nothing), (-1, before.of_nothing)] {
            for (times, stack) in list {
                *of_nothing.entry(stack).or_default() += sign * times;
            }
        }
        let of_nothing = of_nothing.into_iter().map(|(stack, times)| (times, stack));
        DarkMatter {
            since: Some(name.into()),
            is_whole: self.is_whole && before.is_whole,
            live: less(self.live, before.live),
            unreported: list(self.unreported, before.unreported),
            once: list(self.once, before.once),
            twice: list(self.twice, before.twice),
            of_nothing: of_nothing.filter(|(times, _)| *times != 0).collect(),
            ..self
        }
        .sorted_by(SortBy::Usable)
    }
}

fn list(now: List, before: List) -> List {
    let blocks = less(now.blocks, before.blocks);
    let mut groups: BTreeMap<(Vec<String>, Vec<Vec<String>>), Blocks> = BTreeMap::new();
    for (is_now, list) in [(true, now), (false, before)] {
        for Group { blocks, allocated_at, reported_at } in list.groups {
            let change = if is_now { blocks } else { less(Blocks::default(), blocks) };
            groups.entry((allocated_at, reported_at)).or_default().add(change);
        }
    }
    let groups = groups.into_iter().filter(|(_, blocks)| *blocks != Blocks::default());
    let group = |((allocated_at, reported_at), blocks)| Group { blocks, allocated_at, reported_at };
    List { blocks, groups: groups.map(group).collect() }
}

fn less(now: Blocks, before: Blocks) -> Blocks {
    Blocks {
        count: now.count - before.count,
        usable_bytes: now.usable_bytes.saturating_sub(before.usable_bytes),
        slop_bytes: now.slop_bytes.saturating_sub(before.slop_bytes),
    }
}
