//! The rows that a query finds.

use super::condition::Condition;
use super::object::Objects;
use super::plan::{Field, Plan};
use crate::Node;
use crate::analysis::{Analysis, SameNames};
use crate::meta::NodeType;
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

/// Objects with equal keys.
#[derive(Clone, Copy)]
struct Group {
    /// Has the keys of all; they are made when they are asked for.
    first: Node,
    objects: u64,
    shallow_bytes: u64,
    retained_bytes: u64,
    /// The least of its objects.
    distance: i32,
}

impl<'q, 's, 'a> Answer<'q, 's, 'a> {
    /// Runs the query on the objects that are `chosen`.
    pub fn of(
        analysis: &'q Analysis<'s, 'a>,
        plan: &'q Plan,
        chosen: impl Fn(Node) -> bool,
    ) -> Answer<'q, 's, 'a> {
        let objects = Objects::of(analysis);
        let nodes = analysis.snapshot().graph.nodes().filter(|node| chosen(*node));
        let nodes = match &plan.condition {
            Some(condition) => Condition::new(&objects, condition).holding(nodes),
            None => nodes.collect(),
        };
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
            return self.objects.field(group.first, field);
        }
        Cell::Number(match field {
            Field::Count => group.objects as i64,
            Field::Shallow => group.shallow_bytes as i64,
            Field::Retained => group.retained_bytes as i64,
            _ => group.distance.into(),
        })
    }

    fn grouped(&self, nodes: Vec<Node>) -> Vec<Group> {
        const NONE: u32 = u32::MAX;
        let analysis = self.objects.analysis;
        let mut keys = Keys::of(&self.objects);
        let mut group_of = vec![NONE; analysis.snapshot().graph.node_count()];
        nodes.iter().for_each(|node| group_of[*node as usize] = 0);
        let mut count = usize::from(!nodes.is_empty());
        for field in &self.plan.group {
            let width = match field {
                Field::Class => keys.classes.len(),
                Field::Type => keys.types.len(),
                _ => Numbers::TABLE_MAX,
            };
            let mut numbers = Numbers::of_keys_below(width);
            keys.each(&nodes, *field, |node, key| {
                let group = &mut group_of[node as usize];
                *group = numbers.of(*group, key);
            });
            count = numbers.len as usize;
        }
        let mut groups = vec![Group::EMPTY; count];
        for node in nodes {
            let group = &mut groups[group_of[node as usize] as usize];
            if group.objects == 0 {
                group.first = node;
            }
            group.objects += 1;
            group.shallow_bytes += analysis.self_size(node);
            group.distance = group.distance.min(analysis.distance(node));
        }
        let retained = analysis.retained_by_groups(
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
            Some((field, descending)) if most > 0 => self.first(field, descending, most),
            _ => (0..most as u32).collect(),
        };
        match &mut self.rows {
            Rows::Objects(nodes) => {
                *nodes = order.into_iter().map(|row| nodes[row as usize]).collect()
            }
            Rows::Groups(groups) => {
                *groups = order.into_iter().map(|row| groups[row as usize]).collect()
            }
        }
    }

    /// The first `most` rows; equal rows keep their order. Sorting builds no names
    /// ([`Analysis::first_by_name`]).
    fn first(&self, field: Field, descending: bool, most: usize) -> Vec<u32> {
        let analysis = self.objects.analysis;
        let heads: Vec<Node>;
        let nodes = match &self.rows {
            Rows::Objects(nodes) => nodes,
            Rows::Groups(groups) if field.is_text() => {
                heads = groups.iter().map(|group| group.first).collect();
                &heads
            }
            Rows::Groups(groups) => {
                let number = |group| match self.of_group(group, field) {
                    Cell::Number(number) => number,
                    Cell::Text(_) => 0,
                };
                return First::of(most, descending, |add| groups.iter().map(number).for_each(add));
            }
        };
        if field == Field::Name {
            return analysis.first_by_name(nodes, most, descending);
        }
        let mut keys = Keys::of(&self.objects);
        First::of(most, descending, |add| keys.each(nodes, field, |_, key| add(key)))
    }
}

/// The first rows by a key. Keeps at most twice as many rows as the caller wants.
struct First {
    most: usize,
    descending: bool,
    kept: Vec<(i64, u32)>,
    /// A row behind this one is none of the first.
    last: Option<(i64, u32)>,
    rows: u32,
}

impl First {
    /// The first `most` rows; `each` calls its argument with the key of every row.
    fn of(most: usize, descending: bool, each: impl FnOnce(&mut dyn FnMut(i64))) -> Vec<u32> {
        let mut first = First { most, descending, kept: Vec::new(), last: None, rows: 0 };
        each(&mut |key| first.add(key));
        first.kept.sort_unstable();
        first.kept.truncate(most);
        first.kept.into_iter().map(|(_, row)| row).collect()
    }

    #[inline]
    fn add(&mut self, key: i64) {
        let row = (if self.descending { !key } else { key }, self.rows);
        self.rows += 1;
        if self.last.is_some_and(|last| row > last) {
            return;
        }
        self.kept.push(row);
        if self.kept.len() >= self.most.saturating_mul(2) {
            self.last = Some(*self.kept.select_nth_unstable(self.most - 1).1);
            self.kept.truncate(self.most);
        }
    }
}

impl Group {
    const EMPTY: Group =
        Group { first: 0, objects: 0, shallow_bytes: 0, retained_bytes: 0, distance: i32::MAX };
}

/// Numbers, in the order of their first use, for pairs of a number and a key.
struct Numbers {
    /// Keys below this have a place in the table.
    width: usize,
    /// By number and key; one more than the result, or 0.
    table: Vec<u32>,
    others: HashMap<(u32, i64), u32>,
    len: u32,
}

impl Numbers {
    /// Entries of the table: 4 MB.
    const TABLE_MAX: usize = 1 << 20;

    fn of_keys_below(width: usize) -> Numbers {
        Numbers { width, table: Vec::new(), others: HashMap::new(), len: 0 }
    }

    #[inline]
    fn of(&mut self, before: u32, key: i64) -> u32 {
        let place = usize::try_from(key)
            .ok()
            .filter(|key| *key < self.width)
            .map(|key| (before as usize).saturating_mul(self.width).saturating_add(key))
            .filter(|place| *place < Self::TABLE_MAX);
        let known = match place {
            Some(place) => {
                if self.table.len() <= place {
                    self.table.resize((place + 1).next_power_of_two(), 0);
                }
                &mut self.table[place]
            }
            None => self.others.entry((before, key)).or_insert(0),
        };
        if *known == 0 {
            self.len += 1;
            *known = self.len;
        }
        *known - 1
    }
}

/// Fields as numbers: those of texts are equal, and ordered, as the texts are, except that names
/// have no order.
struct Keys<'q, 's, 'a> {
    objects: &'q Objects<'q, 's, 'a>,
    names: SameNames<'q, 's, 'a>,
    classes: Vec<i64>,
    types: Vec<i64>,
}

impl<'q, 's, 'a> Keys<'q, 's, 'a> {
    fn of(objects: &'q Objects<'q, 's, 'a>) -> Self {
        let snapshot = objects.analysis.snapshot();
        let types: Vec<&str> =
            (0..=u8::MAX).map(|number| snapshot.node_type_name(NodeType(number))).collect();
        Keys {
            objects,
            names: SameNames::new(objects.analysis),
            classes: ranks(&objects.class_names),
            types: ranks(&types),
        }
    }

    /// Calls `each` with every node in turn and its key.
    fn each(&mut self, nodes: &[Node], field: Field, mut each: impl FnMut(Node, i64)) {
        let Keys { objects, names, classes, types } = self;
        let analysis = objects.analysis;
        let graph = &analysis.snapshot().graph;
        let nodes = nodes.iter().copied();
        match field {
            Field::Name => nodes.for_each(|node| each(node, names.number(node).into())),
            Field::Class => {
                nodes.for_each(|node| each(node, classes[analysis.class_of(node) as usize]))
            }
            Field::Type => {
                nodes.for_each(|node| each(node, types[usize::from(graph.node_type(node).0)]))
            }
            _ => nodes.for_each(|node| each(node, objects.number(node, field).unwrap_or_default())),
        }
    }
}

/// The place of each text in their order; equal texts have the same.
fn ranks(texts: &[impl AsRef<str>]) -> Vec<i64> {
    let mut order: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    order.sort_unstable();
    order.dedup();
    let rank = |text: &str| order.partition_point(|other| *other < text) as i64;
    texts.iter().map(|text| rank(text.as_ref())).collect()
}
