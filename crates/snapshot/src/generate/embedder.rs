//! What a heap must answer so that a snapshot of it can be written.

use super::OwnTexts;
use crate::names::StringId;
use crate::write::{EdgeName, Layout, edge_type};

/// An object without its edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Number of its type in the layout.
    pub node_type: u8,
    /// Its class or content.
    pub name: StringId,
    /// The object's id across snapshots: the same object must keep it, and no other may get it. V8
    /// gives odd numbers to objects of its heap.
    pub id: u64,
    /// The object's own bytes.
    pub self_size: u64,
    /// Where it was allocated (a node of the trace tree), or 0.
    pub trace_node_id: u64,
    /// 0 unknown, 1 attached, 2 detached.
    pub detachedness: u8,
}

/// Where an object stands in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Bytes into a script: line and column are found from its line ends.
    Offset {
        /// The script.
        script: u64,
        /// Bytes before it.
        offset: u64,
    },
    /// Known already.
    Place {
        /// The script.
        script: u64,
        /// From 0.
        line: u64,
        /// From 0.
        column: u64,
    },
}

/// Takes strings.
pub trait NameSink {
    /// The number of a string (UTF-8 in which surrogates may stand alone). That there are too many
    /// is found later.
    fn intern(&mut self, text: &[u8]) -> StringId;
}

/// Takes the references of one object, in their order.
pub trait EdgeSink: NameSink {
    /// A reference.
    fn edge(&mut self, edge_type: u8, name: EdgeName, target: u64);

    /// A reference by an index.
    fn element(&mut self, index: u64, target: u64) {
        self.edge(edge_type::ELEMENT, EdgeName::Index(index), target);
    }

    /// A reference by a name.
    fn named(&mut self, edge_type: u8, name: &[u8], target: u64) {
        let name = self.intern(name);
        self.edge(edge_type, EdgeName::Text(name), target);
    }
}

/// A heap that can be walked twice with the same answers.
///
/// Objects are 64-bit handles: addresses, indices, any number that names an object during the walk.
/// The walk begins at [`Embedder::root`] and at the objects of [`Embedder::objects`], and follows
/// references. Each object becomes one node, in the order of the walk.
///
/// Nothing may change between the passes: the second must give each object the references of the
/// first, in number and order.
pub trait Embedder {
    /// The root: the file's first node.
    fn root(&mut self) -> u64;

    /// Names objects that the root may not reach. Most heaps need none.
    fn objects(&mut self, _add: &mut dyn FnMut(u64)) {}

    /// Whether [`Embedder::objects`] names every object, as heaps that can be walked from end to
    /// end do. References are then not followed in the first pass, only counted.
    fn names_all_objects(&self) -> bool {
        false
    }

    /// Whether handles are addresses of objects in memory, and the nodes after the root may stand
    /// in any order. Then objects are numbered by address, and each costs less than a byte of
    /// memory instead of 15. The second phase calls [`Embedder::targets`] once more than otherwise,
    /// and [`Embedder::position`].
    fn numbered_by_address(&self) -> bool {
        false
    }

    /// The object that holds the objects to which nothing else refers, if the heap has one. The
    /// root must reach it. Its references are asked for after the walk of all other objects.
    fn last(&mut self) -> Option<u64> {
        None
    }

    /// First pass, after the walk of all met objects: another object that is not `met`, which is
    /// walked next. Called until it returns `None`. The references of [`Embedder::last`] must lead
    /// to all of these objects.
    fn unmet(&mut self, _met: &dyn Fn(u64) -> bool) -> Option<u64> {
        None
    }

    /// About how many objects there are, to make room at once.
    fn object_count_hint(&self) -> usize {
        0
    }

    /// First pass: the targets of an object's references. They must agree with
    /// [`Embedder::references`].
    fn targets(&mut self, object: u64, visit: &mut impl FnMut(u64));

    /// Second pass: describes an object.
    fn describe(&mut self, object: u64, names: &mut impl NameSink) -> Description;

    /// Second pass: an object's references with their names.
    fn references(&mut self, object: u64, edges: &mut impl EdgeSink);

    /// Reads the texts of objects that are their own name (strings), if those texts live until the
    /// snapshot is finished. They are not copied: a name from [`Embedder::describe`] or
    /// [`Embedder::references`] is looked up among them first. Most heaps lend none.
    ///
    /// Numbers of strings in the file are then others than without, not in the order in which names
    /// were given.
    fn own_texts(&self) -> Option<Box<dyn OwnTexts>> {
        None
    }

    /// First pass: where an object stands in the source.
    fn position(&mut self, _object: u64) -> Option<Position> {
        None
    }

    /// Scripts that [`Position::Offset`] refers to.
    fn scripts(&self) -> Vec<u64> {
        Vec::new()
    }

    /// A script's text.
    fn script_source(&self, _script: u64) -> Option<&[u8]> {
        None
    }

    /// Columns and types of the file.
    fn layout(&self) -> Layout {
        Layout::node_24()
    }
}
