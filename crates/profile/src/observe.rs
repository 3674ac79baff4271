//! Looking over the pass's shoulder: whoever needs more than the profile sees every event once,
//! with the object as it was.

use heaplab_trace::tables::Tables;
use heaplab_trace::{Event, ObjectId, StackId};

/// Where the pass is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Instant {
    /// Row of the event, from 0, within the selection.
    pub row: u64,
    /// Its time.
    pub time_ns: u64,
    /// Bytes requested before it: the clock by which ages are measured.
    pub requested_bytes: u64,
    /// Number of the last peak passed, for [`crate::Tracked`].
    pub peak: u64,
}

/// A live object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Object {
    /// Bytes asked for, last.
    pub size: u64,
    /// Usable bytes measured; 0: not known.
    pub usable: u64,
    /// When it was born.
    pub born_ns: u64,
    /// Bytes requested before it was born.
    pub born_clock: u64,
    /// The stack that last sized it.
    pub stack: StackId,
    /// The thread that bore it.
    pub thread: u32,
    /// How often it was reallocated, up to the limit of the type.
    pub reallocations: u32,
    pub(crate) size_row: u32,
}

/// Sees every change of what is live, once, in order.
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
    /// The last event has passed and the survivors were named; `now` holds the number of the
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

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}
