//! What a heap has to answer so that a snapshot can be made of it.

use super::OwnTexts;
use crate::names::StringId;
use crate::write::{EdgeName, Layout, edge_type};

/// What an object is, without its edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Number of its type in the layout.
    pub node_type: u8,
    /// Its class or content.
    pub name: StringId,
    /// What it is called across snapshots: the same object must keep it, another must not get it.
    /// V8 gives odd numbers to objects of its heap.
    pub id: u64,
    /// Bytes of its own.
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
/// Objects are 64-bit handles: addresses, indices, whatever names an object while the walk goes on.
/// The walk begins at [`Embedder::root`] and at what [`Embedder::objects`] names, and follows
/// references; each object becomes one node, in the order in which it was met.
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
    /// in any order. They are then numbered by address, and what is kept of each object is less
    /// than a byte instead of 15; [`Embedder::targets`] and [`Embedder::position`] are asked in the
    /// second phase, the former once more than otherwise.
    fn numbered_by_address(&self) -> bool {
        false
    }

    /// The object that holds what nobody refers to, if there is one. It must be reached from the
    /// root; its references are asked for when all else has been walked.
    fn last(&mut self) -> Option<u64> {
        None
    }

    /// First pass, when all that was met has been walked: another object that was not `met`. It is
    /// walked, and this is asked again; the references of [`Embedder::last`] are to lead to all of
    /// them.
    fn unmet(&mut self, _met: &dyn Fn(u64) -> bool) -> Option<u64> {
        None
    }

    /// About how many objects there are, to make room at once.
    fn object_count_hint(&self) -> usize {
        0
    }

    /// First pass: where an object's references lead. What it gives must agree with
    /// [`Embedder::references`].
    fn targets(&mut self, object: u64, visit: &mut impl FnMut(u64));

    /// Second pass: what an object is.
    fn describe(&mut self, object: u64, names: &mut impl NameSink) -> Description;

    /// Second pass: an object's references with their names.
    fn references(&mut self, object: u64, edges: &mut impl EdgeSink);

    /// Reads the texts that objects are themselves (a string what it says), where they live as long
    /// as the snapshot is being made. They are not copied: a name that [`Embedder::describe`] or
    /// [`Embedder::references`] gives is looked for among them first. Most heaps lend none.
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
