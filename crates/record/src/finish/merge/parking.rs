//! What is impossible where it stands: what could have made it possible is pulled forward, or waited for, or taken as lost.
//!
//! An open reallocation is pulled forward at the allocation that needs its old address, which is always right (see [`super`]). All else
//! is repair: the ring parks in [`super::super::waits`] until another ring makes its record possible, for a while.

use super::super::waits::Wanted;
use super::{Action, Merge, ReallocState, Step};
use heaplab_trace::{EventSink, TraceError};

impl<S: EventSink> Merge<'_, S> {
    /// A fork copies what its parent had done by then, so that no ring of the parent may still wait with something older.
    /// Whether one did; it is queued before the fork now.
    pub(super) fn end_waits_before(&mut self, action: Option<&Action>) -> bool {
        let Some(Action::Begin(child)) = action else { return false };
        let Some(parent) = self.images[*child].as_ref().and_then(|image| image.parent) else { return false };
        let Some(stream) = self.waits.end_one_of(parent) else { return false };
        self.states[stream].forced = true;
        self.enqueue(stream);
        true
    }

    /// Something lives where a birth is to be: pulls the reallocation forward that released it, or waits, or ends it.
    #[cold]
    pub(super) fn vacate(&mut self, place: usize, address: u64, stamp: u64) -> Result<Step, TraceError> {
        let process = self.states[place].process;
        let releases =
            |open: &usize| *open != place && self.states[*open].process == process && self.streams[*open].current.old_address == address;
        if let Some(at) = self.open_reallocs.iter().position(releases) {
            let open = self.open_reallocs.swap_remove(at);
            self.states[open].realloc = ReallocState::Applied;
            let record = self.streams[open].current;
            // It is out of the list, so that this ends; it may not wait, because somebody waits for it.
            let forced = std::mem::replace(&mut self.states[open].forced, true);
            self.reallocate(open, &record, true)?;
            self.states[open].forced = forced;
        }
        if self.heap(process).get(address).is_none() {
            return Ok(Step::Done);
        }
        if self.may_park(place, address, false) {
            return Ok(Step::Away);
        }
        if let Some(found) = self.heap(process).remove(address) {
            self.counts.ended_by_reuse += 1;
            self.dead(place, found, address, stamp)?;
        }
        Ok(Step::Done)
    }

    /// Makes the stream wait for `address`, where it may wait and somebody could make it true.
    #[cold]
    pub(super) fn may_park(&mut self, place: usize, address: u64, birth: bool) -> bool {
        let process = self.states[place].process;
        if self.states[place].forced || self.streams_left[process] < 2 {
            return false;
        }
        self.waits.park(place, self.streams[place].key, Wanted { process, address, birth });
        true
    }

    /// Something was born (or died) at `address`: whoever waited for it goes on.
    #[inline]
    pub(super) fn wake(&mut self, process: usize, address: u64, birth: bool) {
        if let Some(stream) = self.waits.end_for(Wanted { process, address, birth }) {
            self.enqueue(stream);
        }
    }
}
