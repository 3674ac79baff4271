//! Classes: the groups of DevTools' Summary. Source: `calculateObjectNames`, `classKeyInternal`,
//! `buildAggregates`.
//!
//! Objects and native nodes are grouped by name (`<tag ...>` cut to `<tag>`), other types have a
//! group each. Plain objects are grouped by interface. Objects with a known place of their
//! constructor are grouped by that place too, because many constructors share a name. A native
//! node's place (Chromium knows that of a custom element) does not count. Nodes without a size have
//! a class, but count in no group.
//!
//! DevTools first keys groups by the *number* of the name's string and later by its characters. Two
//! groups with the same characters then overwrite each other (an object named "Function" and the
//! functions). The group that DevTools shows is kept, the other is marked ([`Class::shadowed`]).

use super::names::Names;
use super::shapes::{Interface, Shapes};
use crate::columns::{self, Column, Pool};
use crate::graph::{Graph, Node};
use crate::meta::NodeType;
use crate::snapshot::{Location, Snapshot};
use crate::strings::StringId;
use hashbrown::HashMap;

/// A group of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name, in WTF-8.
    pub name: Vec<u8>,
    /// Where the constructor stands: script, line, column.
    pub place: Option<(u32, u32, u32)>,
    /// Nodes with a size.
    pub count: u64,
    /// Their own sizes, bytes.
    pub self_size: u64,
    /// Bytes that the death of all of them would free: retained sizes of the nodes that no other of
    /// the class dominates.
    pub retained_size: u64,
    /// The least distance in the class.
    pub distance: i32,
    /// Whether DevTools loses it to another class of the same key.
    pub shadowed: bool,
}

impl Class {
    /// Its name as text: a lone surrogate, which no text has, is written as its escape.
    pub fn text(&self) -> String {
        crate::strings::to_text(std::borrow::Cow::Borrowed(&self.name)).into_owned()
    }

    /// What identifies the class across snapshots, in WTF-8: `script,line,column,name` or `,name`.
    pub fn key(&self) -> Vec<u8> {
        key(self.place, &self.name)
    }
}

fn key(place: Option<(u32, u32, u32)>, name: &[u8]) -> Vec<u8> {
    let place =
        place.map_or(String::new(), |(script, line, column)| format!("{script},{line},{column}"));
    [place.as_bytes(), b",", name].concat()
}

/// The class of each node, and the classes in the order of their first node.
#[derive(Debug, Default)]
pub(crate) struct Classification<'a> {
    pub class_of: Column<'a, u32>,
    pub classes: Vec<Class>,
    pub interfaces: Vec<Interface>,
}

/// Groups all nodes. `class_of` initially holds the shape of each plain object; `foreign`
/// interfaces of another snapshot replace this one's.
pub(crate) fn classify<'a>(
    snapshot: &Snapshot<'a>,
    names: &mut Names<'_, 'a>,
    renamed: &HashMap<Node, StringId>,
    foreign: Option<&[Interface]>,
    pool: &mut Pool,
) -> Classification<'static> {
    let graph = &snapshot.graph;
    let mut class_of = pool.take(graph.node_count());
    let shapes = Shapes::of(graph, names, |node, shape| class_of[node as usize] = shape + 1);
    let interfaces = foreign.map_or_else(|| shapes.interfaces(graph, names), <[Interface]>::to_vec);
    let best = shapes.best(graph, names, &interfaces);
    drop(shapes);
    let interface_names: Vec<StringId> = interface_names(names, &interfaces);
    let mut grouping = Grouping {
        snapshot,
        names,
        by_name: columns::zeroed(snapshot.strings.len()),
        added: HashMap::new(),
        added_names: HashMap::new(),
        by_type: HashMap::new(),
        by_place: HashMap::new(),
        by_key: HashMap::new(),
        classes: Vec::new(),
    };
    let mut places = Places::of(graph, &snapshot.locations);
    for node in graph.nodes() {
        let shape = class_of[node as usize];
        let interface = if shape == 0 { None } else { best[shape as usize - 1] };
        let raw_name = if renamed.is_empty() {
            graph.node_name(node)
        } else {
            *renamed.get(&node).unwrap_or(&graph.node_name(node))
        };
        let by_interface = interface.map(|interface| interface_names[interface as usize]);
        class_of[node as usize] =
            grouping.class(graph.node_type(node), raw_name, by_interface, places.of_node(node));
    }
    Classification { class_of: class_of.into(), classes: grouping.classes, interfaces }
}

/// A string for each interface's name; the same name is the same string.
fn interface_names(names: &mut Names, interfaces: &[Interface]) -> Vec<StringId> {
    let mut seen: HashMap<&[u8], StringId> = HashMap::new();
    interfaces
        .iter()
        .map(|interface| {
            *seen.entry(&interface.name).or_insert_with(|| names.add(interface.name.clone()))
        })
        .collect()
}

struct Grouping<'c, 'n, 's, 'a> {
    snapshot: &'c Snapshot<'a>,
    names: &'n mut Names<'s, 'a>,
    /// For each string of the file, one more than the class of objects and native nodes with that
    /// name.
    by_name: Vec<u32>,
    /// The same for strings that were added.
    added: HashMap<StringId, u32>,
    /// Names that the grouping added, by their characters: equal names are one string.
    added_names: HashMap<Vec<u8>, StringId>,
    by_type: HashMap<NodeType, u32>,
    by_place: HashMap<(u32, u32, u32, StringId), u32>,
    by_key: HashMap<Vec<u8>, u32>,
    classes: Vec<Class>,
}

impl Grouping<'_, '_, '_, '_> {
    #[inline]
    fn class(
        &mut self,
        node_type: NodeType,
        name: StringId,
        interface: Option<StringId>,
        place: Option<Location>,
    ) -> u32 {
        if !matches!(node_type, NodeType::Object | NodeType::Native) {
            return match self.by_type.get(&node_type) {
                Some(class) => *class,
                None => self.type_class(node_type),
            };
        }
        let place = place.filter(|_| node_type == NodeType::Object);
        if let Some(Location { script_id, line, column, .. }) = place {
            let string = interface.unwrap_or_else(|| self.class_name(name));
            return match self.by_place.get(&(script_id, line, column, string)) {
                Some(class) => *class,
                None => self.place_class((script_id, line, column), string),
            };
        }
        let string = interface.unwrap_or(name);
        match self.by_name.get(string as usize) {
            Some(0) => self.named_class(string),
            Some(class) => class - 1,
            None => match self.added.get(&string) {
                Some(class) => *class,
                None => self.named_class(string),
            },
        }
    }

    fn new_class(&mut self, name: Vec<u8>, place: Option<(u32, u32, u32)>) -> u32 {
        self.classes.push(Class {
            name,
            place,
            count: 0,
            self_size: 0,
            retained_size: 0,
            distance: 0,
            shadowed: false,
        });
        self.classes.len() as u32 - 1
    }

    #[cold]
    fn type_class(&mut self, node_type: NodeType) -> u32 {
        let name = match node_type {
            NodeType::Hidden => "(system)".to_owned(),
            NodeType::Code => "(compiled code)".to_owned(),
            NodeType::Closure => "Function".to_owned(),
            NodeType::RegExp => "RegExp".to_owned(),
            other => format!("({})", self.snapshot.node_type_name(other)),
        };
        let string = self.added_name(name.into_bytes());
        let class = self.class_of_string(string);
        self.by_type.insert(node_type, class);
        class
    }

    #[cold]
    fn named_class(&mut self, name: StringId) -> u32 {
        let string = self.class_name(name);
        let class = self.class_of_string(string);
        match self.by_name.get_mut(name as usize) {
            Some(slot) => *slot = class + 1,
            None => {
                self.added.insert(name, class);
            }
        }
        class
    }

    /// The class named by that very string, not by another with the same characters.
    fn class_of_string(&mut self, string: StringId) -> u32 {
        let known = match self.by_name.get(string as usize) {
            Some(slot) => slot.checked_sub(1),
            None => self.added.get(&string).copied(),
        };
        if let Some(class) = known {
            return class;
        }
        let name = self.names.bytes(string).into_owned();
        let class = self.new_class(name, None);
        if string as usize >= self.by_name.len() {
            self.added.insert(string, class);
        }
        class
    }

    #[cold]
    fn place_class(&mut self, place: (u32, u32, u32), string: StringId) -> u32 {
        let name = self.names.bytes(string).into_owned();
        let key = key(Some(place), &name);
        let class = match self.by_key.get(&key) {
            Some(class) => *class,
            None => {
                let class = self.new_class(name, Some(place));
                self.by_key.insert(key, class);
                class
            }
        };
        self.by_place.insert((place.0, place.1, place.2, string), class);
        class
    }

    fn added_name(&mut self, name: Vec<u8>) -> StringId {
        let names = &mut *self.names;
        *self.added_names.entry(name.clone()).or_insert_with(|| names.add(name))
    }

    /// The string that names the class of objects with that name.
    fn class_name(&mut self, name: StringId) -> StringId {
        let bytes = self.names.bytes(name);
        let tag_from = match &*bytes {
            [b'<', ..] => 0,
            detached if detached.starts_with(b"Detached <") => 10,
            _ => return name,
        };
        let mut tag = bytes.into_owned();
        if let Some(space) = tag[tag_from..].iter().position(|byte| *byte == b' ') {
            tag.truncate(tag_from + space);
            tag.push(b'>');
        }
        self.added_name(tag)
    }
}

/// Places of nodes, in the order of nodes: of all where the file has them in that order, of objects
/// alone where they have to be sorted.
struct Places<'l> {
    locations: std::borrow::Cow<'l, [Location]>,
    next: usize,
}

impl<'l> Places<'l> {
    fn of(graph: &Graph, locations: &'l [Location]) -> Self {
        let sorted = locations.is_sorted_by_key(|location| location.node);
        let locations = if sorted {
            std::borrow::Cow::Borrowed(locations)
        } else {
            let mut objects: Vec<Location> = locations
                .iter()
                .copied()
                .filter(|location| graph.node_type(location.node) == NodeType::Object)
                .collect();
            objects.sort_by_key(|location| location.node);
            std::borrow::Cow::Owned(objects)
        };
        Places { locations, next: 0 }
    }

    /// Where the node's constructor stands; nodes must be asked for in order. The last of several
    /// places counts.
    #[inline]
    fn of_node(&mut self, node: Node) -> Option<Location> {
        let mut found = None;
        while let Some(location) =
            self.locations.get(self.next).filter(|location| location.node <= node)
        {
            if location.node == node {
                found = Some(*location);
            }
            self.next += 1;
        }
        found
    }
}

/// Classes being counted.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub classes: Vec<Class>,
    /// When each class first got a node with a size: what decides which of two overwrites the
    /// other.
    counted: Vec<Node>,
}

impl Counting {
    /// Classes before anything is counted.
    pub fn new(classes: Vec<Class>) -> Self {
        Counting { counted: vec![Node::MAX; classes.len()], classes }
    }

    /// Adds a node with a size to its class.
    #[inline]
    pub fn count(&mut self, class_of: &[u32], node: Node, self_size: u64, distance: i32) {
        let number = class_of[node as usize] as usize;
        let class = &mut self.classes[number];
        if class.count == 0 {
            class.distance = distance;
            self.counted[number] = node;
        }
        class.count += 1;
        class.self_size = class.self_size.saturating_add(self_size);
        class.distance = class.distance.min(distance);
    }

    /// Marks classes that another one overwrites in DevTools.
    pub fn mark_shadowed(&mut self) {
        let mut last: HashMap<&[u8], usize> = HashMap::new();
        let mut shadowed = Vec::new();
        let named = |class: &&Class| class.place.is_none() && class.count > 0;
        for (number, class) in self.classes.iter().enumerate().filter(|(_, class)| named(class)) {
            if let Some(other) = last.insert(&class.name, number) {
                let loser = if self.counted[other] < self.counted[number] { other } else { number };
                shadowed.push(loser);
                last.insert(&class.name, if loser == other { number } else { other });
            }
        }
        drop(last);
        for class in shadowed {
            self.classes[class].shadowed = true;
        }
    }
}
