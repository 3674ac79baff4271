//! The rows of the changed workload: births get ids in order, and sizes that the program never
//! asked for get the usable bytes that the same size had elsewhere in the recording, where it had
//! any.

use hashbrown::HashMap;
use heaplab_trace::{Event, EventSink, Flags, ObjectId, Op, TraceError};

/// Sizes whose usable bytes are remembered.
const SIZES_MAX: usize = 1 << 16;

/// Gives rows, and counts them.
#[derive(Debug, Default)]
pub(crate) struct Written {
    born: ObjectId,
    usable: HashMap<u64, u64>,
}

impl Written {
    /// Learns the recorded allocator's usable size for a request.
    pub(crate) fn learn(&mut self, recorded: &Event) {
        if recorded.usable == 0
            || (self.usable.len() >= SIZES_MAX && !self.usable.contains_key(&recorded.size))
        {
            return;
        }
        let usable = self.usable.entry(recorded.size).or_insert(recorded.usable);
        *usable = recorded.usable.min(*usable);
    }

    /// The request of `now` for `bytes`.
    fn request(&self, now: &Event, bytes: u64) -> Event {
        let usable = if bytes == now.size && matches!(now.op, Op::Alloc | Op::Realloc) {
            now.usable
        } else {
            self.usable.get(&bytes).copied().unwrap_or(0)
        };
        Event { size: bytes, usable, address: 0, ..*now }
    }

    /// A block is born in place of the request in `now`, or because of it.
    pub(crate) fn birth(
        &mut self,
        now: &Event,
        bytes: u64,
        sink: &mut impl EventSink,
    ) -> Result<ObjectId, TraceError> {
        let object = self.born;
        self.born += 1;
        let flags = if now.op == Op::Alloc { now.flags } else { Flags::default() };
        sink.push(&Event { op: Op::Alloc, object, flags, ..self.request(now, bytes) })?;
        Ok(object)
    }

    /// The block has another size.
    pub(crate) fn resize(
        &mut self,
        now: &Event,
        object: ObjectId,
        bytes: u64,
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        sink.push(&Event { op: Op::Realloc, object, ..self.request(now, bytes) })
    }

    /// The block dies at the time of `now`, for any event.
    pub(crate) fn death(
        &mut self,
        now: &Event,
        object: ObjectId,
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        let Event { process, thread, time_ns, .. } = *now;
        let (stack, collection) =
            if now.op == Op::Free { (now.stack, now.collection) } else { (0, 0) };
        let free = Event { op: Op::Free, object, process, thread, time_ns, ..Event::default() };
        sink.push(&Event { stack, collection, ..free })
    }

    /// The row unchanged, with the object's new number.
    pub(crate) fn row(
        &mut self,
        now: &Event,
        object: ObjectId,
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        sink.push(&Event { object, address: 0, ..*now })
    }
}
