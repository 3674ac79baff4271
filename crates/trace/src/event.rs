//! The event model: one row of a workload.
//!
//! A plain struct, not an enum: events travel in batches between a columnar file and passes that
//! look at two or three fields; a struct of integers suits both. Fields that an operation does not
//! use are zero.
//!
//! # Identity
//! An object keeps its id through reallocation, so a growth chain is the rows of one id. Ids are
//! dense and in birth order over the whole bundle: the n-th `Alloc` row (failed ones excepted)
//! makes object n.
//!
//! # Processes
//! An object belongs to the process that allocated it. After a fork the child holds a copy; when
//! the child frees or reallocates its copy, the row carries [`Flags::INHERITED`]: the row ends only
//! the copy, and passes over live bytes skip it. (A reallocation of an inherited object is an
//! inherited free followed by a birth.)

/// The n-th object born in the bundle, from 0.
pub type ObjectId = u64;
/// Row of the `stacks` table; [`NO_STACK`] without a recorded stack.
pub type StackId = u32;
/// No stack was recorded for this event.
pub const NO_STACK: StackId = 0;

/// Death rule: the program freed the object at its `Free` row.
pub const FREED_BY_PROGRAM: &str = "freed by the program";
/// Death rule: a collection noticed the death; the object became unreachable some time before.
pub const NOTICED_AT_COLLECTION: &str = "noticed at a collection";
/// Death rule: at a `Free` row the program let go; the object lives while `Reference` rows keep it
/// reachable.
pub const BY_REACHABILITY: &str = "by reachability";

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Op {
    /// An object was born: `object`, `size`, `usable`, `align_log2`, `flags`, `family`, `stack`.
    /// With [`Flags::FAILED`] nothing was born and `object` is 0.
    #[default]
    Alloc = 0,
    /// An object died: `object`. For collected heaps, `collection` is the collection that noticed.
    Free = 1,
    /// An object got a new `size`, `usable` and, with [`Flags::MOVED`], a new `address`. With
    /// [`Flags::FAILED`] it is as before.
    Realloc = 2,
    /// The program asked for the usable size of `object` (and may use all of it).
    UsableSizeRead = 3,
    /// `arena` was born; `object` is its row in the `arenas` table.
    ArenaBirth = 4,
    /// `arena` died with all its objects.
    ArenaDeath = 5,
    /// `object` was promoted to the old generation.
    Promote = 6,
    /// Collection number `collection` began.
    CollectBegin = 7,
    /// Collection number `collection` ended.
    CollectEnd = 8,
    /// Field `field` of `object` now refers to object `target` (`u64::MAX`: cleared).
    Reference = 9,
    /// A phase began: `object` is its row in the `marks` table.
    Mark = 10,
    /// The program asked for a full collection.
    Collect = 11,
    /// The program asked for a collection of the young generation.
    CollectYoung = 12,
    /// The program asked the heap to give memory back to the system.
    Trim = 13,
    /// A memory reporter named `object`, at `stack`. With [`Flags::FAILED`] it named no live block.
    Report = 14,
}

impl Op {
    /// Every operation, in the order of its number.
    pub const ALL: [Op; 15] = [
        Op::Alloc,
        Op::Free,
        Op::Realloc,
        Op::UsableSizeRead,
        Op::ArenaBirth,
        Op::ArenaDeath,
        Op::Promote,
        Op::CollectBegin,
        Op::CollectEnd,
        Op::Reference,
        Op::Mark,
        Op::Collect,
        Op::CollectYoung,
        Op::Trim,
        Op::Report,
    ];

    /// The operation of this number, if any.
    pub fn from_number(number: u8) -> Option<Op> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Properties of one event, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// Zeroed memory was requested (calloc).
    pub const ZEROED: Flags = Flags(1);
    /// The reallocation moved the object.
    pub const MOVED: Flags = Flags(2);
    /// The request failed; nothing changed.
    pub const FAILED: Flags = Flags(4);
    /// The row concerns a forked child's copy of its parent's object.
    pub const INHERITED: Flags = Flags(8);
    /// The object was born in the old generation.
    pub const DIRECT_TO_OLD: Flags = Flags(16);
    /// All defined bits.
    pub const KNOWN: Flags = Flags(31);

    /// Whether every bit of `other` is set.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both sets.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The interface of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Family {
    /// malloc, calloc, realloc, reallocarray, free.
    #[default]
    Malloc = 0,
    /// aligned_alloc, posix_memalign, memalign, valloc, pvalloc.
    Aligned = 1,
    /// C++ operator new and delete, if distinguishable from malloc.
    New = 2,
    /// A managed heap's mutator.
    Managed = 3,
    /// An arena (metaspace, pool).
    Arena = 4,
}

impl Family {
    /// The family of this number, if any.
    pub fn from_number(number: u8) -> Option<Family> {
        [Family::Malloc, Family::Aligned, Family::New, Family::Managed, Family::Arena]
            .get(usize::from(number))
            .copied()
    }
}

/// For collected heaps: how an object came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Origin {
    /// Allocated by the mutator.
    #[default]
    Normal = 0,
    /// Read back from a serialised form.
    Marshalled = 1,
    /// A custom block with memory outside of the heap.
    Custom = 2,
    /// The hidden class of other objects (V8: their map).
    HiddenClass = 3,
}

impl Origin {
    /// The origin of this number, if any.
    pub fn from_number(number: u8) -> Option<Origin> {
        [Origin::Normal, Origin::Marshalled, Origin::Custom, Origin::HiddenClass]
            .get(usize::from(number))
            .copied()
    }
}

/// One row of a workload. Fields that the operation does not use are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Event {
    /// The kind.
    pub op: Op,
    /// Its properties.
    pub flags: Flags,
    /// The interface.
    pub family: Family,
    /// For collected heaps: how the object came to be.
    pub origin: Origin,
    /// log2 of the requested alignment; 0: none requested.
    pub align_log2: u8,
    /// Row of the `processes` table.
    pub process: u32,
    /// Row of the `threads` table.
    pub thread: u32,
    /// Row of the `stacks` table, or [`NO_STACK`].
    pub stack: StackId,
    /// Row of the `arenas` table; 0: the malloc arena that never dies.
    pub arena: u32,
    /// Number of the collection (CollectBegin, CollectEnd; Free: the one that noticed the death;
    /// Promote: the one that promoted).
    pub collection: u32,
    /// Reference: index of the field in its object.
    pub field: u32,
    /// The object, or the row of the table that the operation names.
    pub object: ObjectId,
    /// Bytes requested.
    pub size: u64,
    /// Usable bytes by the recorded allocator; 0: unknown.
    pub usable: u64,
    /// Nanoseconds since the recording began. Rows, not times, give the order.
    pub time_ns: u64,
    /// The block's address; 0: not recorded.
    pub address: u64,
    /// Reference: the object referred to; `u64::MAX`: none.
    pub target: ObjectId,
}

impl Event {
    /// Whether `flag` is set.
    pub const fn has(&self, flag: Flags) -> bool {
        self.flags.contains(flag)
    }

    /// Whether this row changes its owner's live bytes: neither failed nor about a forked copy.
    pub const fn counts(&self) -> bool {
        self.flags.0 & (Flags::FAILED.0 | Flags::INHERITED.0) == 0
    }
}

/// The mark at which memory reporters are asked.
pub const REPORTERS_ASKED: &str = "heaplab: reporters asked";
/// The mark at which they have answered.
pub const REPORTERS_ANSWERED: &str = "heaplab: reporters answered";
