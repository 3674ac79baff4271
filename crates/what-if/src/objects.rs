//! What is known of the live objects that a rule concerns.

use hashbrown::HashMap;
use heaplab_trace::ObjectId;

/// A live object of the recorded program, as the changed one has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    /// The block that it lies in; without meaning where it has none.
    pub(crate) block: ObjectId,
    /// A second block that lives as long.
    pub(crate) beside: Option<ObjectId>,
    /// Bytes that the program asks for.
    pub(crate) bytes: u64,
    /// Bytes of the block: more where it grew ahead or was made for another object.
    pub(crate) has_bytes: u64,
    /// Who decides what becomes of it.
    pub(crate) holder: Holder,
}

/// Who decides what becomes of an object. The numbers are those of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The program.
    Program,
    /// There is no such object any more: its rows go.
    Nobody,
    /// A pool keeps its block when it dies.
    Pool(usize),
    /// A cache may free it early.
    Cache(usize),
    /// It dies with an arena of this number.
    Arena(usize, usize),
}

/// By the recorded id.
pub(crate) type Objects = HashMap<ObjectId, Object>;
