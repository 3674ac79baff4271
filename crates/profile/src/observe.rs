//! Observing the pass: an observer sees every event once, with the object's state before it.

use heaplab_trace::tables::Tables;
use heaplab_trace::{Event, ObjectId, StackId};

/// The pass's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Instant {
    /// Row of the event, from 0, within the selection.
    pub row: u64,
    /// Its time.
    pub time_ns: u64,
    /// Bytes requested before it: the clock of ages.
    pub requested_bytes: u64,
    /// Number of the last peak passed, for [`crate::Tracked`].
    pub peak: u64,
}

/// A live object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Object {
    /// Bytes requested last.
    pub size: u64,
    /// Usable bytes measured; 0: unknown.
    pub usable: u64,
    /// Time of its birth.
    pub born_ns: u64,
    /// Bytes requested before its birth.
    pub born_clock: u64,
    /// The stack that last sized it.
    pub stack: StackId,
    /// The thread of its birth.
    pub thread: u32,
    /// Number of its reallocations, up to the limit of the type.
    pub reallocations: u32,
    pub(crate) size_row: u32,
    /// Site of [`crate::Ranges`], and the position at which it was last sized.
    pub(crate) site: u32,
    pub(crate) sized_at: u64,
}

/// Sees every change of the live objects, once, in order.
pub trait Observer {
    /// The pass begins; stacks of events are rows of `tables`.
    fn begins(&mut self, _tables: &Tables) {}
    /// `object` was born.
    fn born(&mut self, _now: &Instant, _event: &Event, _id: ObjectId, _object: &Object) {}
    /// An object was reallocated.
    fn resized(
        &mut self,
        _now: &Instant,
        _event: &Event,
        _id: ObjectId,
        _before: &Object,
        _after: &Object,
    ) {
    }
    /// An object died.
    fn died(&mut self, _now: &Instant, _event: &Event, _id: ObjectId, _object: &Object) {}
    /// An object is still live after the last event.
    fn survived(&mut self, _now: &Instant, _id: ObjectId, _object: &Object) {}
    /// The last event has passed and the survivors were reported; `now` holds the number of the
    /// highest peak.
    fn ended(&mut self, _now: &Instant) {}
    /// The program asked for the usable size of an object.
    fn usable_size_read(
        &mut self,
        _now: &Instant,
        _event: &Event,
        _id: ObjectId,
        _object: &Object,
    ) {
    }
}

/// An observer that ignores everything.
#[derive(Debug)]
pub(crate) struct NoObserver;

impl Observer for NoObserver {}
