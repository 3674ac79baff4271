//! The live blocks of a moment, one by one: needed by a heap snapshot, and missing in sums.
//!
//! The profile gives a moment's row (a peak's row is known only at the end); a second pass goes up
//! to this row and keeps the remaining blocks. It is the profile's own pass, so dying arenas,
//! copies of forked children and failed requests count here as they do there.

use heaplab_profile::{Amount, Moment, Object, Observer, ProfileOptions, profile};
use heaplab_trace::source::First;
use heaplab_trace::{EventSource, ObjectId, StackId, TraceError, tables::Tables};

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LiveBlock {
    /// The object.
    pub object: ObjectId,
    /// Bytes requested last.
    pub size: u64,
    /// The stack that last sized it.
    pub stack: StackId,
    /// The thread of its birth.
    pub thread: u32,
}

/// The live blocks of a moment: 24 bytes a block, in no order.
#[derive(Clone, Debug, Default)]
pub struct LiveBlocks {
    pub(crate) blocks: Vec<LiveBlock>,
}

impl LiveBlocks {
    /// Reads the events of the profile's `moment` once more, up to its row.
    ///
    /// # Errors
    /// The events cannot be read, or they are not the moment's.
    pub fn at(
        moment: &Moment,
        tables: &Tables,
        source: impl EventSource,
    ) -> Result<LiveBlocks, TraceError> {
        let mut live = LiveBlocks::default();
        // A moment before the first event has the first row's number too, and no live object.
        let rows = if moment.live.objects == 0 { 0 } else { moment.row + 1 };
        let options = ProfileOptions { timeline_points: 2, ..ProfileOptions::default() };
        profile(tables, &mut First { source, rows }, &options, &mut live)?;
        let (found, expected) = (live.amount(), (moment.live.objects, moment.live.bytes));
        if (found.objects, found.bytes) != expected {
            let what = format!(
                "{} bytes in {} objects are live here, and the profile counted {} in {}: these are not the profile's events",
                found.bytes, found.objects, expected.1, expected.0
            );
            return Err(TraceError::Order { path: "events".into(), row: moment.row, what });
        }
        Ok(live)
    }

    /// The blocks.
    pub fn blocks(&self) -> &[LiveBlock] {
        &self.blocks
    }

    /// Their number and bytes. Usable bytes are not kept.
    pub fn amount(&self) -> Amount {
        let bytes = self.blocks.iter().map(|block| block.size).sum();
        Amount { objects: self.blocks.len() as u64, bytes, usable_bytes: 0 }
    }
}

impl Observer for LiveBlocks {
    fn survived(&mut self, _now: &heaplab_profile::Instant, id: ObjectId, object: &Object) {
        let Object { size, stack, thread, .. } = *object;
        self.blocks.push(LiveBlock { object: id, size, stack, thread });
    }
}
