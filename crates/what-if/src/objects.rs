//! The live objects that a rule concerns.

use hashbrown::HashMap;
use heaplab_trace::ObjectId;

/// A live object of the recorded program, as the changed one has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    /// The block that holds the object; meaningless if it has none.
    pub(crate) block: ObjectId,
    /// A second block that lives as long.
    pub(crate) beside: Option<ObjectId>,
    /// Bytes that the program asks for.
    pub(crate) bytes: u64,
    /// Bytes of the block: more where it grew ahead or was made for another object.
    pub(crate) has_bytes: u64,
    /// The rule that the object follows.
    pub(crate) holder: Holder,
}

/// The rule that an object follows. The numbers are those of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The program.
    Program,
    /// The object no longer exists, and its rows disappear.
    Nobody,
    /// Nobody: this rule does not ask for it.
    Dropped(usize),
    /// A pool keeps its block when it dies.
    Pool(usize),
    /// A cache may free it early.
    Cache(usize),
    /// It dies with an arena of this number.
    Arena(usize, usize),
}

/// By the recorded id.
pub(crate) type Objects = HashMap<ObjectId, Object>;
