//! The rows that a query finds.

use super::object::Objects;
use super::plan::{Field, Plan};
use crate::Node;
use crate::analysis::{Analysis, SameNames};
use hashbrown::HashMap;

pub use super::object::Cell;

/// The rows that a query found.
pub struct Answer<'q, 's, 'a> {
    objects: Objects<'q, 's, 'a>,
    plan: &'q Plan,
    rows: Rows,
    /// Rows before `top`.
    pub found: usize,
}

/// Objects, or groups of objects.
enum Rows {
    /// Cells are made when they are asked for: names are long.
    Objects(Vec<Node>),
    Groups(Vec<Group>),
}

/// Its keys are those of any of its objects, and are made when they are asked for.
#[derive(Default)]
struct Group {
    nodes: Vec<Node>,
    retained_bytes: u64,
}

impl<'q, 's, 'a> Answer<'q, 's, 'a> {
    /// Runs the query on the objects that are `chosen`.
    pub fn of(
        analysis: &'q Analysis<'s, 'a>,
        plan: &'q Plan,
        chosen: impl Fn(Node) -> bool,
    ) -> Answer<'q, 's, 'a> {
        let objects = Objects::of(analysis);
        let fits = |node: &Node| {
            plan.condition.as_ref().is_none_or(|condition| objects.fits(*node, condition))
        };
        let nodes = analysis.snapshot().graph.nodes().filter(|node| chosen(*node));
        let nodes: Vec<Node> = nodes.filter(fits).collect();
        let mut answer = Answer { objects, plan, rows: Rows::Objects(Vec::new()), found: 0 };
        answer.rows = if plan.group.is_empty() {
            Rows::Objects(nodes)
        } else {
            Rows::Groups(answer.grouped(nodes))
        };
        answer.found = answer.row_count();
        answer.sort();
        answer
    }

    /// The columns.
    pub fn fields(&self) -> Vec<Field> {
        self.plan.columns()
    }

    /// Rows.
    pub fn row_count(&self) -> usize {
        match &self.rows {
            Rows::Objects(nodes) => nodes.len(),
            Rows::Groups(groups) => groups.len(),
        }
    }

    /// One field of a row.
    pub fn cell(&self, row: usize, field: Field) -> Cell {
        match &self.rows {
            Rows::Objects(nodes) => self.objects.field(nodes[row], field),
            Rows::Groups(groups) => self.of_group(&groups[row], field),
        }
    }

    fn of_group(&self, group: &Group, field: Field) -> Cell {
        if self.plan.group.contains(&field) {
            return self.objects.field(group.nodes[0], field);
        }
        Cell::Number(match field {
            Field::Count => group.nodes.len() as i64,
            Field::Shallow => {
                group.nodes.iter().map(|node| self.objects.analysis.self_size(*node)).sum::<u64>()
                    as i64
            }
            Field::Retained => group.retained_bytes as i64,
            _ => group
                .nodes
                .iter()
                .map(|node| self.objects.analysis.distance(*node))
                .min()
                .unwrap_or(0)
                .into(),
        })
    }

    fn grouped(&self, nodes: Vec<Node>) -> Vec<Group> {
        const NONE: u32 = u32::MAX;
        let mut places: HashMap<Vec<i64>, u32> = HashMap::new();
        let mut key: Vec<i64> = Vec::new();
        let mut keys = Keys::of(self);
        let mut group_of = vec![NONE; self.objects.analysis.snapshot().graph.node_count()];
        let mut groups: Vec<Group> = Vec::new();
        for node in nodes {
            key.clear();
            key.extend(self.plan.group.iter().map(|field| keys.of_node(node, *field)));
            let known = places.get(&key).copied();
            let place = known.unwrap_or_else(|| {
                groups.push(Group::default());
                places.insert(key.clone(), groups.len() as u32 - 1);
                groups.len() as u32 - 1
            });
            group_of[node as usize] = place;
            groups[place as usize].nodes.push(node);
        }
        let retained = self.objects.analysis.retained_by_groups(
            |node| Some(group_of[node as usize]).filter(|group| *group != NONE),
            groups.len(),
        );
        for (group, retained) in groups.iter_mut().zip(retained) {
            group.retained_bytes = retained;
        }
        groups
    }

    /// Sorts the rows and keeps those that are asked for.
    fn sort(&mut self) {
        let most = self.plan.top.unwrap_or(usize::MAX).min(self.row_count());
        // Default order: objects as in the file, groups by retained size.
        let grouped = matches!(self.rows, Rows::Groups(_));
        let order = match self.plan.sort.or(grouped.then_some((Field::Retained, true))) {
            Some((field, descending)) => self.first(field, descending, most),
            None => (0..most as u32).collect(),
        };
        match &mut self.rows {
            Rows::Objects(nodes) => {
                *nodes = order.into_iter().map(|row| nodes[row as usize]).collect()
            }
            Rows::Groups(groups) => {
                let take = |row: u32| std::mem::take(&mut groups[row as usize]);
                *groups = order.into_iter().map(take).collect();
            }
        }
    }

    /// The first `most` rows; equal rows keep their order. Sorting builds no names
    /// ([`Analysis::first_by_name`]); other texts are ranked.
    fn first(&self, field: Field, descending: bool, most: usize) -> Vec<u32> {
        if field == Field::Name {
            return match &self.rows {
                Rows::Objects(nodes) => {
                    self.objects.analysis.first_by_name(nodes, most, descending)
                }
                Rows::Groups(groups) => {
                    let heads: Vec<Node> = groups.iter().map(|group| group.nodes[0]).collect();
                    self.objects.analysis.first_by_name(&heads, most, descending)
                }
            };
        }
        let mut keys = Keys::of(self);
        let mut keyed: Vec<(i64, u32)> = (0..self.row_count())
            .map(|row| (self.key(row, field, &mut keys), row as u32))
            .collect();
        if field.is_text() {
            let ranks = keys.ranks(field);
            keyed.iter_mut().for_each(|(key, _)| *key = ranks[*key as usize]);
        }
        if descending {
            keyed.iter_mut().for_each(|(key, _)| *key = !*key);
        }
        if most < keyed.len() {
            keyed.select_nth_unstable(most);
            keyed.truncate(most);
        }
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, row)| row).collect()
    }

    /// A number for a row's field; see [`Keys`] for texts.
    fn key(&self, row: usize, field: Field, keys: &mut Keys<'_, 'q, 's, 'a>) -> i64 {
        match &self.rows {
            Rows::Objects(nodes) => keys.of_node(nodes[row], field),
            Rows::Groups(groups) if self.plan.group.contains(&field) => {
                keys.of_node(groups[row].nodes[0], field)
            }
            Rows::Groups(groups) => match self.of_group(&groups[row], field) {
                Cell::Number(number) => number,
                Cell::Text(_) => 0,
            },
        }
    }
}

/// Keys of groups: numbers, even for texts.
struct Keys<'k, 'q, 's, 'a> {
    answer: &'k Answer<'q, 's, 'a>,
    names: SameNames<'q, 's, 'a>,
    /// For each class, the first class of the same name.
    classes: Vec<i64>,
    types: Vec<&'k str>,
}

impl<'k, 'q, 's, 'a> Keys<'k, 'q, 's, 'a> {
    fn of(answer: &'k Answer<'q, 's, 'a>) -> Self {
        let mut first: HashMap<&str, i64> = HashMap::new();
        let classes = (0..)
            .zip(&answer.objects.class_names)
            .map(|(class, name)| *first.entry(name).or_insert(class))
            .collect();
        Keys { answer, names: SameNames::new(answer.objects.analysis), classes, types: Vec::new() }
    }

    /// The order of a field's texts, by their numbers.
    fn ranks(&self, field: Field) -> Vec<i64> {
        let texts: Vec<&str> = match field {
            Field::Class => self.answer.objects.class_names.iter().map(String::as_str).collect(),
            _ => self.types.clone(),
        };
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|number| texts[*number]);
        let mut ranks = vec![0; texts.len()];
        (0..).zip(order).for_each(|(rank, number)| ranks[number] = rank);
        ranks
    }

    fn of_node(&mut self, node: Node, field: Field) -> i64 {
        let analysis = self.answer.objects.analysis;
        match field {
            Field::Name => self.names.number(node).into(),
            Field::Class => self.classes[analysis.class_of(node) as usize],
            Field::Type => {
                let snapshot = analysis.snapshot();
                let name = snapshot.node_type_name(snapshot.graph.node_type(node));
                let known = self.types.iter().position(|known| *known == name);
                known.unwrap_or_else(|| {
                    self.types.push(name);
                    self.types.len() - 1
                }) as i64
            }
            _ => match self.answer.objects.field(node, field) {
                Cell::Number(number) => number,
                Cell::Text(_) => 0,
            },
        }
    }
}
