//! Plain objects by the properties they have: DevTools infers interfaces (`{id, name, tags}`) from
//! the properties of objects named "Object" and gives each the interface that describes it best.
//! Source: `inferInterfaceDefinitions`, `applyInterfaceDefinitions`.
//!
//! Engines make thousands of objects with the same properties in the same order, so that objects
//! are first reduced to shapes (sequences of property names) by one walk over their edges; the
//! rules then run once a shape. A shape is kept as the first object that has it, never as a list.

use super::names::{Known, Names};
use crate::graph::{Graph, Node};
use crate::meta::{EdgeType, NodeType};
use crate::strings::{StringId, units};
use hashbrown::{HashMap, HashTable};

/// An interface's name ends when another property would make it longer, in 16-bit units.
const NAME_UNITS_MAX: usize = 120;
/// An interface describes at least this many objects,
const OBJECTS_MIN: u32 = 2;
/// and one of so many.
const OBJECTS_SHARE: u32 = 1000;

/// An interface: a name and the properties that an object must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The shown name, `{a, b}`, in WTF-8.
    pub name: Vec<u8>,
    /// Names of properties in WTF-8, in the order of the first such object.
    pub properties: Vec<Vec<u8>>,
    /// How many objects begin with these properties.
    pub count: u32,
}

/// A sequence of properties.
#[derive(Debug)]
struct Shape {
    /// The first object that has it.
    example: Node,
    objects: u32,
    hash: u64,
}

/// The plain objects of a snapshot by shape.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    shapes: Vec<Shape>,
    objects: u32,
}

pub(super) fn mix(hash: u64, value: u32) -> u64 {
    (hash.rotate_left(23) ^ u64::from(value)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The names of an object's properties, in order.
pub(super) fn properties(graph: &Graph, node: Node) -> impl Iterator<Item = StringId> {
    let edges = graph.edges(node);
    let edges = edges.start as usize..edges.end as usize;
    let types = graph.edge_types[edges.clone()].iter();
    types
        .zip(&graph.edge_names[edges])
        .filter(|(edge_type, _)| **edge_type == EdgeType::Property.0)
        .map(|(_, name)| *name)
}

impl Shapes {
    /// Finds the shapes; `each` is told the shape of every plain object.
    pub fn of(graph: &Graph, names: &Names, mut each: impl FnMut(Node, u32)) -> Shapes {
        let mut found = Shapes::default();
        let mut table: HashTable<u32> = HashTable::new();
        for node in graph.nodes() {
            if graph.node_type(node) != NodeType::Object
                || names.known(graph.node_name(node)) != Known::Object
            {
                continue;
            }
            found.objects += 1;
            let hash = properties(graph, node).fold(0, mix);
            let shapes = &mut found.shapes;
            let same = |shape: &u32| {
                let shape = &shapes[*shape as usize];
                shape.hash == hash && properties(graph, shape.example).eq(properties(graph, node))
            };
            let shape = match table.find(hash, same) {
                Some(shape) => *shape,
                None => {
                    let new = shapes.len() as u32;
                    shapes.push(Shape { example: node, objects: 0, hash });
                    table.insert_unique(hash, new, |shape| shapes[*shape as usize].hash);
                    new
                }
            };
            shapes[shape as usize].objects += 1;
            each(node, shape);
        }
        found
    }

    /// The interfaces that enough objects have, most frequent first.
    pub fn interfaces(&self, graph: &Graph, names: &Names) -> Vec<Interface> {
        let mut properties_seen = Properties::default();
        // Keyed by the source of the interface's name; a name is only built for interfaces that
        // win.
        let mut candidates: HashMap<Vec<u64>, (u32, u32)> = HashMap::new();
        let mut order: Vec<Vec<u64>> = Vec::new();
        for (number, shape) in self.shapes.iter().enumerate() {
            let Some(key) = properties_seen.key(graph, names, shape.example) else { continue };
            match candidates.get_mut(&key) {
                Some(candidate) => candidate.1 += shape.objects,
                None => {
                    order.push(key.clone());
                    candidates.insert(key, (number as u32, shape.objects));
                }
            }
        }
        let mut winners: Vec<(u32, u32)> = order
            .iter()
            .filter_map(|key| candidates.get(key).copied())
            .filter(|(_, count)| {
                *count >= OBJECTS_MIN
                    && u64::from(*count) * u64::from(OBJECTS_SHARE) >= u64::from(self.objects)
            })
            .collect();
        winners.sort_by_key(|winner| std::cmp::Reverse(winner.1));
        winners
            .into_iter()
            .map(|(shape, count)| {
                interface(graph, names, self.shapes[shape as usize].example, count)
            })
            .collect()
    }

    /// For each shape, the interface that describes its objects best: the one with the most
    /// properties, then the first.
    pub fn best(&self, graph: &Graph, names: &Names, interfaces: &[Interface]) -> Vec<Option<u32>> {
        let matcher = Matcher::new(interfaces);
        let mut ids: HashMap<StringId, Option<u32>> = HashMap::new();
        let mut seen = Vec::new();
        let mut best = Vec::with_capacity(self.shapes.len());
        for shape in &self.shapes {
            seen.clear();
            seen.extend(properties(graph, shape.example).filter_map(|name| {
                *ids.entry(name)
                    .or_insert_with(|| matcher.properties.get(&*names.bytes(name)).copied())
            }));
            seen.sort_unstable();
            best.push(matcher.best(&seen));
        }
        best
    }
}

/// Facts about property names: the content's hash, and the length when shown.
#[derive(Default)]
struct Properties {
    seen: HashMap<StringId, (u64, usize)>,
}

impl Properties {
    /// The parts of an object's interface name, cut where the name would be. `None` without
    /// properties.
    fn key(&mut self, graph: &Graph, names: &Names, node: Node) -> Option<Vec<u64>> {
        let mut key = Vec::new();
        let mut length = 1;
        let mut any = false;
        for name in properties(graph, node).filter(|name| names.known(*name) != Known::Proto) {
            let (hash, units) = *self.seen.entry(name).or_insert_with(|| {
                let shown = shown_property(&names.bytes(name));
                (xxhash_rust::xxh3::xxh3_64(&shown), units(&shown))
            });
            if length > 1 && length + units > NAME_UNITS_MAX {
                break;
            }
            any = true;
            // A name that is still empty gets no comma, so that leading empty properties leave no
            // trace.
            if length != 1 {
                length += 2;
            }
            length += units;
            if length != 1 {
                key.push(hash);
            }
        }
        any.then_some(key)
    }
}

/// The interface that an object suggests.
fn interface(graph: &Graph, names: &Names, node: Node, count: u32) -> Interface {
    let mut interface = Interface { name: vec![b'{'], properties: Vec::new(), count };
    for name in properties(graph, node).filter(|name| names.known(*name) != Known::Proto) {
        let property = names.bytes(name);
        let shown = shown_property(&property);
        let length = units(&interface.name);
        if length > 1 && length + units(&shown) > NAME_UNITS_MAX {
            break;
        }
        if length != 1 {
            interface.name.extend(b", ");
        }
        interface.name.extend(&shown);
        interface.properties.push(property.into_owned());
    }
    interface.name.push(b'}');
    interface
}

/// A property as interfaces and objects show it: in quotes if it has confusing characters.
/// `JSON.stringify` writes lone surrogates as escapes.
pub(crate) fn shown_property(name: &[u8]) -> Vec<u8> {
    if !name.iter().any(|byte| matches!(byte, b',' | b'\'' | b'"' | b'{' | b'}')) {
        return name.to_vec();
    }
    let mut shown = vec![b'"'];
    let mut at = 0;
    while at < name.len() {
        match name[at] {
            b'"' => shown.extend(b"\\\""),
            b'\\' => shown.extend(b"\\\\"),
            8 => shown.extend(b"\\b"),
            12 => shown.extend(b"\\f"),
            b'\n' => shown.extend(b"\\n"),
            b'\r' => shown.extend(b"\\r"),
            b'\t' => shown.extend(b"\\t"),
            control if control < 0x20 => shown.extend(format!("\\u{control:04x}").bytes()),
            0xed if name.get(at + 1).is_some_and(|second| *second >= 0xa0)
                && at + 2 < name.len() =>
            {
                let unit =
                    0xd000 | u32::from(name[at + 1] & 0x3f) << 6 | u32::from(name[at + 2] & 0x3f);
                shown.extend(format!("\\u{unit:04x}").bytes());
                at += 2;
            }
            other => shown.push(other),
        }
        at += 1;
    }
    shown.push(b'"');
    shown
}

/// The interfaces as a tree of sorted properties: a step down a property more.
struct Matcher {
    properties: HashMap<Vec<u8>, u32>,
    steps: HashMap<(u32, u32), u32>,
    /// For each node of the tree, the interface that ends there, and its number of properties.
    ends: Vec<Option<(u32, u32)>>,
}

impl Matcher {
    fn new(interfaces: &[Interface]) -> Matcher {
        let mut matcher =
            Matcher { properties: HashMap::new(), steps: HashMap::new(), ends: vec![None] };
        for (number, interface) in interfaces.iter().enumerate() {
            let mut sorted = Vec::new();
            for property in &interface.properties {
                let new = matcher.properties.len() as u32;
                sorted.push(*matcher.properties.entry(property.clone()).or_insert(new));
            }
            sorted.sort_unstable();
            let mut node = 0;
            for property in &sorted {
                let new = matcher.ends.len() as u32;
                node = *matcher.steps.entry((node, *property)).or_insert(new);
                if node == new {
                    matcher.ends.push(None);
                }
            }
            matcher.ends[node as usize].get_or_insert((number as u32, sorted.len() as u32));
        }
        matcher
    }

    /// The best interface for sorted properties; a property twice can be matched twice.
    fn best(&self, properties: &[u32]) -> Option<u32> {
        let mut states = vec![0u32];
        let mut best: Option<(u32, u32)> = self.ends[0];
        for property in properties {
            for place in 0..states.len() {
                let Some(next) = self.steps.get(&(states[place], *property)) else { continue };
                if states.contains(next) {
                    continue;
                }
                states.push(*next);
                if let Some((number, length)) = self.ends[*next as usize]
                    && best.is_none_or(|(first, most)| {
                        length > most || (length == most && number < first)
                    })
                {
                    best = Some((number, length));
                }
            }
        }
        best.map(|(number, _)| number)
    }
}
