//! The rows that a query finds.

use super::condition::Condition;
use super::object::Objects;
use super::plan::{Field, Plan};
use crate::Node;
use crate::analysis::{Analysis, Numbered, SameNames};
use crate::columns::Bits;
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
        let nodes = || analysis.snapshot().graph.nodes().filter(|node| chosen(*node));
        let condition = plan.condition.as_ref().map(|text| Condition::new(&objects, text));
        let found = condition.map(|condition| condition.holding(nodes()));
        let mut answer = Answer { objects, plan, rows: Rows::Objects(Vec::new()), found: 0 };
        answer.rows = match (plan.group.is_empty(), found) {
            (true, found) => Rows::Objects(found.unwrap_or_else(|| nodes().collect())),
            (false, None) => Rows::Groups(answer.grouped(chosen)),
            (false, Some(found)) => {
                let mut is_found = Bits::new(analysis.snapshot().graph.node_count());
                found.iter().for_each(|node| is_found.set(*node));
                Rows::Groups(answer.grouped(|node| is_found.get(node)))
            }
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

    /// The groups of the objects that are `chosen`.
    fn grouped(&self, chosen: impl Fn(Node) -> bool) -> Vec<Group> {
        let mut keys = Keys::of(&self.objects);
        if let Some(dense) = keys.dense(&self.plan.group) {
            let count = dense.iter().map(DenseKey::width).product();
            // For a single key, the match stands outside the loop over objects.
            return match &dense[..] {
                [DenseKey::Name(names)] => self.groups(chosen, |node| names.number(node), count),
                [key @ DenseKey::Class(..)] => self.groups(chosen, |node| key.of(node), count),
                keys => {
                    let join =
                        |node, before, key: &DenseKey| before * key.width() as u32 + key.of(node);
                    let group_of =
                        |node| keys.iter().fold(0, |before, key| join(node, before, key));
                    self.groups(chosen, group_of, count)
                }
            };
        }
        let graph = &self.objects.analysis.snapshot().graph;
        let mut group_of = vec![0; graph.node_count()];
        let mut count = 1;
        for field in &self.plan.group {
            let width = match field {
                Field::Class => keys.classes.count,
                Field::Type => keys.types.count,
                _ => Numbers::TABLE_MAX,
            };
            let mut numbers = Numbers::of_keys_below(width);
            keys.each(graph.nodes().filter(|node| chosen(*node)), *field, |node, key| {
                let group = &mut group_of[node as usize];
                *group = numbers.of(*group, key);
            });
            count = numbers.len as usize;
        }
        self.groups(chosen, |node| group_of[node as usize], count)
    }

    /// Groups in the order of their first objects; `group_of` is below `count`.
    fn groups(
        &self,
        chosen: impl Fn(Node) -> bool,
        group_of: impl Fn(Node) -> u32,
        count: usize,
    ) -> Vec<Group> {
        let analysis = self.objects.analysis;
        let mut groups = vec![Group::EMPTY; count];
        for node in analysis.snapshot().graph.nodes().filter(|node| chosen(*node)) {
            let group = &mut groups[group_of(node) as usize];
            if group.objects == 0 {
                group.first = node;
            }
            group.objects += 1;
            group.shallow_bytes += analysis.self_size(node);
            group.distance = group.distance.min(analysis.distance(node));
        }
        let retained =
            analysis.retained_by_groups(|node| chosen(node).then(|| group_of(node)), groups.len());
        for (group, retained) in groups.iter_mut().zip(retained) {
            group.retained_bytes = retained;
        }
        groups.retain(|group| group.objects > 0);
        groups.sort_unstable_by_key(|group| group.first);
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
        First::of(most, descending, |add| {
            keys.each(nodes.iter().copied(), field, |_, key| add(key))
        })
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
    classes: Ranks,
    types: Ranks,
}

impl<'q, 's, 'a> Keys<'q, 's, 'a> {
    fn of(objects: &'q Objects<'q, 's, 'a>) -> Self {
        let snapshot = objects.analysis.snapshot();
        let types: Vec<&str> =
            (0..=u8::MAX).map(|number| snapshot.node_type_name(NodeType(number))).collect();
        Keys {
            objects,
            names: SameNames::new(objects.analysis),
            classes: Ranks::of(&objects.class_names),
            types: Ranks::of(&types),
        }
    }

    /// Keys that number the groups without a table; `None`: a field has none, or the groups would
    /// be too many.
    fn dense(&self, fields: &[Field]) -> Option<Vec<DenseKey<'_, 's, 'a>>> {
        let analysis = self.objects.analysis;
        let key = |field: &Field| match field {
            Field::Class => Some(DenseKey::Class(&self.classes, analysis)),
            Field::Type => Some(DenseKey::Type(&self.types, analysis)),
            Field::Name => analysis.numbered().map(DenseKey::Name),
            _ => None,
        };
        let keys: Vec<DenseKey> = fields.iter().map(key).collect::<Option<_>>()?;
        let count = keys.iter().try_fold(1usize, |all, key| all.checked_mul(key.width()));
        (keys.len() == 1 || count? <= Numbers::TABLE_MAX).then_some(keys)
    }

    /// Calls `each` with every node in turn and its key.
    fn each(
        &mut self,
        nodes: impl Iterator<Item = Node>,
        field: Field,
        mut each: impl FnMut(Node, i64),
    ) {
        let Keys { objects, names, classes, types } = self;
        let (classes, types) =
            (DenseKey::Class(classes, objects.analysis), DenseKey::Type(types, objects.analysis));
        match field {
            Field::Name => nodes.for_each(|node| each(node, names.number(node).into())),
            Field::Class => nodes.for_each(|node| each(node, classes.of(node).into())),
            Field::Type => nodes.for_each(|node| each(node, types.of(node).into())),
            _ => nodes.for_each(|node| each(node, objects.number(node, field).unwrap_or_default())),
        }
    }
}

/// A field as numbers below a width.
enum DenseKey<'k, 's, 'a> {
    Class(&'k Ranks, &'k Analysis<'s, 'a>),
    Type(&'k Ranks, &'k Analysis<'s, 'a>),
    Name(&'k Numbered),
}

impl DenseKey<'_, '_, '_> {
    fn width(&self) -> usize {
        match self {
            DenseKey::Class(ranks, _) | DenseKey::Type(ranks, _) => ranks.count,
            DenseKey::Name(names) => names.len(),
        }
    }

    #[inline]
    fn of(&self, node: Node) -> u32 {
        match self {
            DenseKey::Class(ranks, analysis) => ranks.of[analysis.class_of(node) as usize],
            DenseKey::Type(ranks, analysis) => {
                ranks.of[usize::from(analysis.snapshot().graph.node_type(node).0)]
            }
            DenseKey::Name(names) => names.number(node),
        }
    }
}

/// The place of each text in their order; equal texts have the same.
struct Ranks {
    of: Vec<u32>,
    /// Different texts.
    count: usize,
}

impl Ranks {
    fn of(texts: &[impl AsRef<str>]) -> Ranks {
        let mut order: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        order.sort_unstable();
        order.dedup();
        let rank = |text: &str| order.partition_point(|other| *other < text) as u32;
        Ranks { of: texts.iter().map(|text| rank(text.as_ref())).collect(), count: order.len() }
    }
}
