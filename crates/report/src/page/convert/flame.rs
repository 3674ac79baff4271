//! The stacks as one tree by function, trimmed to a size that can be drawn.
//!
//! A node's value includes its callees, so the nodes with the largest shares of any measure are a
//! connected tree. They are kept. Dropped nodes under a kept one become one node, so every sum
//! stays whole.

use super::names::Names;
use crate::page::{limits, model};
use heaplab_profile::{Profile, StackRow};
use heaplab_trace::{NO_STACK, StackId, tables::Tables};
use std::collections::HashMap;

const ROOT_FRAME: i64 = -1;
const MERGED_FRAME: i64 = -2;
/// The measures of the stacks, a column each.
#[derive(Debug, Default)]
pub(crate) struct Measures {
    columns: Vec<model::Measure>,
    /// A row a stack, ascending.
    stacks: Vec<(StackId, Vec<u64>)>,
}

impl Measures {
    /// The measures of every profile, and live bytes at each asked moment; between two moments, the
    /// added bytes.
    pub(crate) fn of(profile: &Profile) -> Measures {
        let mut measures = Measures {
            columns: Vec::new(),
            stacks: profile.stacks.iter().map(|row| (row.stack, Vec::new())).collect(),
        };
        let mut push = |key: &str, title: &str, unit: &str, value: &dyn Fn(&StackRow) -> u64| {
            measures.columns.push(model::Measure {
                title: title.into(),
                unit: unit.into(),
                key: key.into(),
            });
            for ((_, values), row) in measures.stacks.iter_mut().zip(&profile.stacks) {
                values.push(value(row));
            }
        };
        push("peak", "Live at peak, bytes", "byte", &|row| row.at_peak.bytes);
        push("peak", "Live at peak, objects", "object", &|row| row.at_peak.objects);
        push("asked", "Asked for, bytes", "byte", &|row| row.requested.bytes);
        push("asked", "Asked for, requests", "request", &|row| row.requested.objects);
        push("end", "Live at the end, bytes", "byte", &|row| row.at_end.bytes);
        push("temporary", "Temporary, requests", "request", &|row| row.temporary);
        let moments: Vec<(&str, HashMap<StackId, u64>)> = profile
            .moments
            .iter()
            .take(limits::MOMENTS)
            .map(|moment| {
                (
                    moment.name.as_str(),
                    moment.stacks.iter().map(|row| (row.stack, row.live.bytes)).collect(),
                )
            })
            .collect();
        for (name, live) in &moments {
            push("moment", &format!("Live at {name}, bytes"), "byte", &|row| {
                live.get(&row.stack).copied().unwrap_or_default()
            });
        }
        if let [(first, before), (second, after)] = moments.as_slice() {
            let of = |live: &HashMap<StackId, u64>, row: &StackRow| {
                live.get(&row.stack).copied().unwrap_or_default()
            };
            push("added", &format!("Added from {first} to {second}, bytes"), "byte", &|row| {
                of(after, row).saturating_sub(of(before, row))
            });
        }
        measures
    }
}

/// The node of the tree that holds the own values of each stack.
pub(crate) type NodeOf = HashMap<StackId, u32>;

/// The tree and the place of each stack in it; both empty if no stack was recorded.
pub(crate) fn flame(
    tables: &Tables,
    measures: &Measures,
    names: &mut Names,
    left_out: &mut Vec<String>,
) -> (Option<model::Flame>, NodeOf) {
    if measures.stacks.iter().all(|(stack, _)| *stack == NO_STACK) {
        return (None, NodeOf::new());
    }
    let mut tree = Tree::new(measures.columns.len());
    let mut places = Names::default();
    let cut = tree.fill(tables, &measures.stacks, &mut places);
    let places = places.into_rows();
    if cut > 0 {
        left_out.push(format!(
            "Flame graph: frames below level {} are counted at that level ({cut} places).",
            limits::FLAME_DEPTH
        ));
    }
    let stacks = std::mem::take(&mut tree.stacks);
    let chars = |flame: &model::Flame| flame_chars(flame, &places);
    let (mut flame, emitted) = tree.finish(&measures.columns, &chars);
    // Only places that are drawn are named.
    for frame in flame.frame.iter_mut() {
        if let Some(place) = usize::try_from(*frame).ok().and_then(|at| places.get(at)) {
            *frame = i64::from(names.add(place.clone()));
        }
    }
    let node_of = stacks.into_iter().map(|(stack, node)| (stack, emitted[node as usize])).collect();
    (Some(flame), node_of)
}

/// The tree of paths of places, the outermost first, with a value a column each.
pub fn of_paths(columns: &[model::Measure], paths: &[(Vec<u32>, Vec<u64>)]) -> model::Flame {
    let mut tree = Tree::new(columns.len());
    for (path, values) in paths {
        let mut node = 0;
        for place in path.iter().take(limits::FLAME_DEPTH) {
            node = tree.child_of(node, *place);
        }
        add(tree.row_mut(node as usize), values);
    }
    tree.finish(columns, &|_| 0).0
}

/// About how many characters a tree and its places take on the page.
fn flame_chars(flame: &model::Flame, places: &[model::Frame]) -> usize {
    let digits = |values: &Vec<u64>| -> usize {
        values.iter().map(|value| value.checked_ilog10().map_or(2, |log| log as usize + 2)).sum()
    };
    let mut is_named = vec![false; places.len()];
    for frame in &flame.frame {
        if let Some(named) = usize::try_from(*frame).ok().and_then(|at| is_named.get_mut(at)) {
            *named = true;
        }
    }
    let named = places.iter().zip(is_named).filter(|(_, named)| *named);
    let names: usize = named
        .map(|(place, _)| place.label.len() + place.module.len() + place.place.len() + 40)
        .sum();
    names + flame.parent.len() * 11 + flame.values.iter().map(digits).sum::<usize>()
}

#[derive(Debug)]
struct Tree {
    parent: Vec<u32>,
    frame: Vec<i64>,
    depth: Vec<u32>,
    /// A row a node, `columns` values each.
    values: Vec<u64>,
    columns: usize,
    child: HashMap<(u32, u32), u32>,
    /// The node of each stack.
    stacks: Vec<(StackId, u32)>,
}

impl Tree {
    fn new(columns: usize) -> Tree {
        Tree {
            parent: vec![0],
            frame: vec![ROOT_FRAME],
            depth: vec![0],
            values: vec![0; columns],
            columns,
            child: HashMap::new(),
            stacks: Vec::new(),
        }
    }

    fn row(&self, node: usize) -> &[u64] {
        &self.values[node * self.columns..(node + 1) * self.columns]
    }

    fn row_mut(&mut self, node: usize) -> &mut [u64] {
        &mut self.values[node * self.columns..(node + 1) * self.columns]
    }

    fn child_of(&mut self, parent: u32, name: u32) -> u32 {
        *self.child.entry((parent, name)).or_insert_with(|| {
            self.parent.push(parent);
            self.frame.push(i64::from(name));
            self.depth.push(self.depth[parent as usize] + 1);
            self.values.resize(self.values.len() + self.columns, 0);
            u32::try_from(self.parent.len() - 1).expect(
                "fewer nodes than inlined frames of stack nodes, which are counted in 32 bits",
            )
        })
    }

    /// Adds every stack's own values; gives how many places lay too deep.
    fn fill(
        &mut self,
        tables: &Tables,
        stacks: &[(StackId, Vec<u64>)],
        names: &mut Names,
    ) -> usize {
        let mut wanted = vec![false; tables.stacks.len()];
        for (stack, _) in stacks.iter().rev() {
            let mut node = *stack as usize;
            while node != 0 && node < wanted.len() && !wanted[node] {
                wanted[node] = true;
                let parent = tables.stacks[node].parent as usize;
                node = if parent < node { parent } else { 0 };
            }
        }
        let mut functions: HashMap<u32, u32> = HashMap::new();
        let mut at = vec![0u32; tables.stacks.len()];
        let mut cut = 0;
        for node in (1..tables.stacks.len()).filter(|node| wanted[*node]) {
            let row = tables.stacks[node];
            let mut here = if (row.parent as usize) < node { at[row.parent as usize] } else { 0 };
            let inlined: Vec<u32> = std::iter::successors(Some(row.frame), |frame| {
                tables.frames.get(*frame as usize)?.inlined_into.filter(|outer| outer > frame)
            })
            .collect();
            for frame in inlined.into_iter().rev() {
                if self.depth[here as usize] as usize >= limits::FLAME_DEPTH {
                    cut += 1;
                    break;
                }
                let name = *functions.entry(frame).or_insert_with(|| names.function(tables, frame));
                here = self.child_of(here, name);
            }
            at[node] = here;
        }
        for (stack, values) in stacks {
            let node = match at.get(*stack as usize) {
                Some(&node) if *stack != NO_STACK => node,
                _ => {
                    let name = names.add(model::Frame {
                        label: "(no stack recorded)".into(),
                        ..model::Frame::default()
                    });
                    self.child_of(0, name)
                }
            };
            add(self.row_mut(node as usize), values);
            self.stacks.push((*stack, node));
        }
        cut
    }

    /// Adds the callees' values to every node.
    fn sum(&mut self) {
        for node in (1..self.parent.len()).rev() {
            let (before, own) = self.values.split_at_mut(node * self.columns);
            let parent = self.parent[node] as usize * self.columns;
            add(&mut before[parent..parent + self.columns], &own[..self.columns]);
        }
    }

    /// The tree for the page, and the page's node for each node here. The number of nodes is halved
    /// until `chars` of the tree is at most [`limits::FLAME_CHARS`], or the number is at most
    /// [`limits::FLAME_NODES_LEAST`].
    fn finish(
        mut self,
        columns: &[model::Measure],
        chars: &dyn Fn(&model::Flame) -> usize,
    ) -> (model::Flame, Vec<u32>) {
        self.sum();
        let used = self.used();
        let mut most = limits::FLAME_NODES;
        loop {
            let kept = self.keep(most);
            let merged = used - kept.iter().filter(|kept| **kept).count();
            let (flame, emitted) = self.emit(columns, &kept, merged);
            if most <= limits::FLAME_NODES_LEAST || chars(&flame) <= limits::FLAME_CHARS {
                return (flame, emitted);
            }
            most /= 2;
        }
    }

    fn used(&self) -> usize {
        (0..self.parent.len()).filter(|node| self.row(*node).iter().any(|value| *value > 0)).count()
    }

    /// Which nodes to keep: the `most` largest by share of any measure.
    fn keep(&self, most: usize) -> Vec<bool> {
        let totals = self.row(0);
        let share = |node: usize| -> f64 {
            self.row(node)
                .iter()
                .zip(totals)
                .map(|(value, total)| if *total == 0 { 0.0 } else { *value as f64 / *total as f64 })
                .fold(0.0, f64::max)
        };
        let mut order: Vec<(f64, usize)> = (0..self.parent.len())
            .map(|node| (share(node), node))
            .filter(|(share, _)| *share > 0.0)
            .collect();
        // A parent is never smaller than its child and has a smaller number, so the kept nodes are
        // connected.
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut kept = vec![false; self.parent.len()];
        kept[0] = true;
        order.iter().take(most).for_each(|(_, node)| kept[*node] = true);
        kept
    }

    fn emit(
        &self,
        columns: &[model::Measure],
        kept: &[bool],
        merged_nodes: usize,
    ) -> (model::Flame, Vec<u32>) {
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); self.parent.len()];
        let mut merged: HashMap<u32, Vec<u64>> = HashMap::new();
        for node in 1..self.parent.len() {
            let parent = self.parent[node];
            if kept[node] {
                children[parent as usize].push(node as u32);
            } else if kept[parent as usize] {
                add(merged.entry(parent).or_insert_with(|| vec![0; self.columns]), self.row(node));
            }
        }
        let measures: Vec<usize> =
            (0..self.columns).filter(|measure| self.values[*measure] > 0).collect();
        let mut flame = model::Flame {
            measures: measures.iter().map(|measure| columns[*measure].clone()).collect(),
            values: vec![Vec::new(); measures.len()],
            merged_nodes,
            ..model::Flame::default()
        };
        let mut push = |parent: u32, frame: i64, values: &[u64]| {
            flame.parent.push(parent);
            flame.frame.push(frame);
            for (column, measure) in flame.values.iter_mut().zip(&measures) {
                column.push(values[*measure]);
            }
            (flame.parent.len() - 1) as u32
        };
        // The page's node of each node here, and of each kept node the page's node of those merged
        // under it.
        let mut emitted = vec![0u32; self.parent.len()];
        let mut merged_into: HashMap<u32, u32> = HashMap::new();
        let mut visit = vec![(0u32, 0u32)];
        while let Some((node, parent)) = visit.pop() {
            let here = push(parent, self.frame[node as usize], self.row(node as usize));
            if let Some(values) =
                merged.get(&node).filter(|values| values.iter().any(|value| *value > 0))
            {
                merged_into.insert(node, push(here, MERGED_FRAME, values));
            }
            emitted[node as usize] = here;
            visit.extend(children[node as usize].iter().map(|child| (*child, here)));
        }
        for node in (1..self.parent.len()).filter(|node| !kept[*node]) {
            let parent = self.parent[node] as usize;
            emitted[node] = if kept[parent] {
                merged_into.get(&(parent as u32)).copied().unwrap_or(emitted[parent])
            } else {
                emitted[parent]
            };
        }
        (flame, emitted)
    }
}

fn add(sum: &mut [u64], more: &[u64]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_profile::{Amount, Moment, MomentStack};
    use heaplab_trace::tables::{Frame, StackNode};

    fn frame(name: &str) -> Frame {
        Frame { function: Some(name.into()), ..Frame::default() }
    }

    fn row(stack: u32, bytes: u64) -> StackRow {
        let amount = Amount { objects: 1, bytes, usable_bytes: bytes };
        StackRow { stack, requested: amount, at_peak: amount, ..StackRow::default() }
    }

    fn measures(stacks: &[StackRow]) -> Measures {
        Measures::of(&Profile { stacks: stacks.to_vec(), ..Profile::default() })
    }

    #[test]
    fn moments_are_measures_and_so_is_what_came_between_two() {
        let (tables, stacks) = wide(2);
        let moment = |name: &str, bytes: [u64; 2]| Moment {
            name: name.into(),
            stacks: (2..)
                .zip(bytes)
                .map(|(stack, bytes)| MomentStack {
                    stack,
                    live: Amount { bytes, ..Amount::default() },
                    ..MomentStack::default()
                })
                .collect(),
            ..Moment::default()
        };
        let profile = Profile {
            stacks,
            moments: vec![moment("loaded", [10, 7]), moment("idle", [4, 9])],
            ..Profile::default()
        };
        let flame = flame(&tables, &Measures::of(&profile), &mut Names::default(), &mut Vec::new())
            .0
            .unwrap();
        let of = |title: &str| {
            flame.values[flame.measures.iter().position(|measure| measure.title == title).unwrap()]
                [0]
        };
        assert_eq!(of("Live at loaded, bytes"), 17);
        assert_eq!(of("Live at idle, bytes"), 13);
        assert_eq!(of("Added from loaded to idle, bytes"), 2, "the stack that shrank adds nothing");
    }

    /// main -> 0..n leaves, leaf i holding i + 1 bytes.
    fn wide(leaves: u32) -> (Tables, Vec<StackRow>) {
        let mut tables = Tables {
            stacks: vec![StackNode::default(), StackNode { parent: 0, frame: 0 }],
            frames: vec![frame("main")],
            ..Tables::default()
        };
        let mut rows = Vec::new();
        for leaf in 0..leaves {
            tables.frames.push(frame(&format!("leaf {leaf}")));
            tables.stacks.push(StackNode { parent: 1, frame: leaf + 1 });
            rows.push(row(leaf + 2, u64::from(leaf) + 1));
        }
        (tables, rows)
    }

    #[test]
    fn inlined_functions_are_levels_of_their_own_outermost_first() {
        let mut inlined = frame("inner");
        inlined.inlined_into = Some(1);
        let tables = Tables {
            stacks: vec![StackNode::default(), StackNode { parent: 0, frame: 0 }],
            frames: vec![inlined, frame("outer")],
            ..Tables::default()
        };
        let mut names = Names::default();
        let flame = flame(&tables, &measures(&[row(1, 7)]), &mut names, &mut Vec::new()).0.unwrap();
        let rows = names.into_rows();
        let labels: Vec<&str> =
            flame.frame.iter().skip(1).map(|frame| rows[*frame as usize].label.as_str()).collect();
        assert_eq!(labels, ["outer", "inner"]);
        assert_eq!(flame.values[0], [7, 7, 7]);
    }

    #[test]
    fn a_hundred_thousand_places_are_trimmed_and_every_byte_is_kept() {
        let (tables, rows) = wide(100_000);
        let flame =
            flame(&tables, &measures(&rows), &mut Names::default(), &mut Vec::new()).0.unwrap();
        assert!(flame.parent.len() <= 2 * limits::FLAME_NODES);
        let kept = flame.frame.iter().filter(|frame| **frame != MERGED_FRAME).count();
        assert!((limits::FLAME_NODES_LEAST..=limits::FLAME_NODES).contains(&kept), "{kept}");
        assert_eq!(flame.merged_nodes, 100_002 - kept);
        let total: u64 = (1..=100_000).sum();
        for measure in 0..flame.measures.len() {
            let mut own: Vec<i128> =
                flame.values[measure].iter().map(|value| i128::from(*value)).collect();
            for node in 1..own.len() {
                own[flame.parent[node] as usize] -= i128::from(flame.values[measure][node]);
                assert!(flame.parent[node] < node as u32);
            }
            assert!(own.iter().all(|own| *own >= 0));
        }
        assert_eq!(flame.values[0][0], total);
        assert_eq!(flame.values[0][1], total, "main holds everything");
        let drawn: u64 = (2..flame.parent.len()).map(|node| flame.values[0][node]).sum();
        assert_eq!(drawn, total, "leaves and what was merged");
    }

    #[test]
    fn very_deep_stacks_are_cut_and_said_so() {
        let mut tables = Tables { stacks: vec![StackNode::default()], ..Tables::default() };
        for level in 0..2_000 {
            tables.frames.push(frame(&format!("f{level}")));
            tables.stacks.push(StackNode { parent: level, frame: level });
        }
        let mut left_out = Vec::new();
        let flame =
            flame(&tables, &measures(&[row(2_000, 5)]), &mut Names::default(), &mut left_out)
                .0
                .unwrap();
        assert_eq!(flame.parent.len(), limits::FLAME_DEPTH + 1);
        assert_eq!(flame.values[0].last(), Some(&5));
        assert_eq!(left_out.len(), 1);
    }

    #[test]
    fn without_stacks_there_is_no_tree_and_with_some_the_rest_has_a_name() {
        assert_eq!(
            flame(
                &Tables::default(),
                &measures(&[row(0, 5)]),
                &mut Names::default(),
                &mut Vec::new()
            )
            .0,
            None
        );
        let (tables, mut rows) = wide(1);
        rows.insert(0, row(0, 5));
        let mut names = Names::default();
        let flame = flame(&tables, &measures(&rows), &mut names, &mut Vec::new()).0.unwrap();
        assert_eq!(flame.values[0][0], 6);
        assert!(names.into_rows().iter().any(|frame| frame.label == "(no stack recorded)"));
    }
}
