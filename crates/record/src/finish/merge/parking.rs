//! Records that are impossible where they stand: the event that makes them possible is pulled
//! forward, waited for, or taken as lost.
//!
//! An open reallocation is pulled forward at the allocation that needs its old address; this is
//! always right (see [`super`]). Everything else is repair. The ring parks in
//! [`super::super::waits`] until another ring makes its record possible, for a while. After that
//! the record waits alone, as a stream of its own, while the ring goes on.

use super::super::waits::Wanted;
use super::{Action, Merge, NO_THREAD, ReallocState, Step, StreamState};
use heaplab_trace::{EventSink, TraceError};

/// Most records set aside at a time; a damaged spool may ask for any number.
const ASIDE_MAX: usize = 4096;

impl<S: EventSink> Merge<'_, S> {
    /// Ends the waits before a fork. The fork copies its parent's state so far: no ring of the
    /// parent may still wait with an older record. Returns whether one did; it is queued before the
    /// fork now.
    pub(super) fn end_waits_before(&mut self, action: Option<&Action>) -> bool {
        let Some(Action::Begin(child)) = action else { return false };
        let Some(parent) = self.images[*child].as_ref().and_then(|image| image.parent) else {
            return false;
        };
        let Some(stream) = self.waits.end_one_of(parent) else { return false };
        self.states[stream].forced = true;
        self.enqueue(stream);
        true
    }

    /// Makes room for a birth at a live address: pulls the reallocation that released it forward,
    /// or waits, or ends the object.
    #[cold]
    pub(super) fn vacate(
        &mut self,
        place: usize,
        address: u64,
        stamp: u64,
    ) -> Result<Step, TraceError> {
        let process = self.states[place].process;
        let Some(occupied) = self.pull_forward(place, address)? else { return Ok(Step::Done) };
        if self.may_park(place, occupied, false) {
            return Ok(Step::Away);
        }
        if let Some(found) = self.heap(process).remove(address) {
            // For an inherited copy, another thread of the parent may have freed the block between
            // the fork's stamp and the fork itself. No figure depends on it.
            self.counts.ended_by_reuse += u64::from(!found.inherited);
            self.dead(place, found, address, stamp)?;
        }
        Ok(Step::Done)
    }

    /// Applies the open reallocation that releases `address` for the stream, and before it the one
    /// that releases the address it takes, and so on. Returns the address that another record has
    /// to release first, if no open reallocation does.
    fn pull_forward(&mut self, place: usize, address: u64) -> Result<Option<u64>, TraceError> {
        let process = self.states[place].process;
        let mut links = Vec::new();
        let mut wanted = address;
        while self.heap(process).get(wanted).is_some() {
            let releases = |open: &usize| {
                *open != place
                    && self.states[*open].process == process
                    && self.streams[*open].current.old_address == wanted
                    && !links.contains(open)
            };
            let Some(open) = self.open_reallocs.iter().copied().find(releases) else {
                return Ok(Some(wanted));
            };
            wanted = self.streams[open].current.address;
            links.push(open);
        }
        for open in links.into_iter().rev() {
            self.open_reallocs.retain(|other| *other != open);
            self.states[open].realloc = ReallocState::Applied;
            let record = self.streams[open].current;
            // Its old address is live and its new one is free: this succeeds.
            self.reallocate(open, &record, true)?;
            if self.waits.end_stream(open) {
                self.enqueue(open);
            }
        }
        Ok(None)
    }

    /// Makes the stream wait for `address`, if waiting is allowed and another stream could help.
    #[cold]
    pub(super) fn may_park(&mut self, place: usize, address: u64, birth: bool) -> bool {
        let process = self.states[place].process;
        if self.states[place].forced || self.streams_left[process] < 2 {
            return false;
        }
        let since = self.states[place].aside_since.unwrap_or(self.streams[place].key);
        self.waits.park(place, since, Wanted { process, address, birth });
        true
    }

    /// Ends the stream's wait at `until`. A lone stream waits for a lost record. If others of its
    /// process wait too, they wait for each other: a death that came too early ended the previous
    /// life, and the death meant for that life waits for a birth behind it. So this stream's record
    /// is set aside until its address allows it, and its ring goes on.
    pub(super) fn end_wait(&mut self, place: usize, until: u64) {
        let for_each_other = self.waits.has_one_of(self.states[place].process);
        if for_each_other && self.states[place].aside_since.is_none() && self.aside < ASIDE_MAX {
            self.set_aside(place, until);
            if self.advance(place) {
                self.enqueue(place);
            }
        } else {
            self.states[place].forced = true;
            self.enqueue(place);
        }
    }

    /// Makes the stream's record a stream of its own, waiting since `since`.
    fn set_aside(&mut self, place: usize, since: u64) {
        if self.states[self.states[place].main].thread == NO_THREAD {
            self.unnamed_thread(place);
        }
        let aside = match self.spare.pop() {
            Some(spare) => spare,
            None => self.streams.len(),
        };
        let stream = self.streams[place].of_current();
        let of = &mut self.states[place];
        let realloc = std::mem::replace(&mut of.realloc, ReallocState::None);
        let (process, row, thread) =
            (of.process, of.row, self.states[self.states[place].main].thread);
        let state = StreamState {
            process,
            row,
            thread,
            announced: None,
            main: aside,
            opened: true,
            realloc,
            forced: false,
            aside_since: Some(since),
        };
        if aside == self.streams.len() {
            self.streams.push(stream);
            self.states.push(state);
        } else {
            (self.streams[aside], self.states[aside]) = (stream, state);
        }
        self.open_reallocs.iter_mut().filter(|open| **open == place).for_each(|open| *open = aside);
        self.streams_left[process] += 1;
        self.aside += 1;
        self.enqueue(aside);
    }

    /// A birth (or death) at `address` happened or became possible: all streams waiting for it try
    /// again. Waking only the first is not enough, because it may then wait for something that
    /// another makes possible.
    #[inline]
    pub(super) fn wake(&mut self, process: usize, address: u64, birth: bool) {
        while let Some(stream) = self.waits.end_for(Wanted { process, address, birth }) {
            self.enqueue(stream);
        }
    }
}
