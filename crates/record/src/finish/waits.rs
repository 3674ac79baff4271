//! Rings that wait for an event of another ring, with a deadline.
//!
//! A record that is impossible where it stands (a birth at a live address, a death at a free one)
//! parks its ring here. The ring waits until another ring makes the record possible, or until the
//! other rings are `WAIT_TICKS` further. Waiting rings are found by address alone; few wait at one
//! time, so a list in the order of the deadlines is enough.

/// Longest wait of an event, in ticks of the other rings.
const WAIT_TICKS: u64 = 1 << 21;

/// The event that a ring waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its image.
    pub process: usize,
    /// Its address.
    pub address: u64,
    /// True: a birth at the address; false: a death.
    pub birth: bool,
}

#[derive(Clone, Copy, Debug)]
struct Parked {
    stream: usize,
    wanted: Wanted,
    deadline: u64,
}

/// The waiting rings, the earliest deadline first.
#[derive(Debug, Default)]
pub struct Waits {
    parked: Vec<Parked>,
}

impl Waits {
    /// Makes `stream`, with the record `key`, wait. Equal deadlines end in the order of parking.
    pub fn park(&mut self, stream: usize, key: u64, wanted: Wanted) {
        let deadline = key.saturating_add(WAIT_TICKS);
        let at = self.parked.partition_point(|parked| parked.deadline <= deadline);
        self.parked.insert(at, Parked { stream, wanted, deadline });
    }

    /// Whether no ring waits.
    pub fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }

    /// The earliest deadline.
    pub fn deadline(&self) -> Option<u64> {
        self.parked.first().map(|parked| parked.deadline)
    }

    /// Removes the stream with the earliest deadline; returns both.
    pub fn end_first(&mut self) -> Option<(usize, u64)> {
        (!self.parked.is_empty())
            .then(|| self.parked.remove(0))
            .map(|parked| (parked.stream, parked.deadline))
    }

    /// Whether a stream of `process` waits.
    pub fn has_one_of(&self, process: usize) -> bool {
        self.parked.iter().any(|parked| parked.wanted.process == process)
    }

    /// Removes a stream of `process`, the earliest deadline first.
    pub fn end_one_of(&mut self, process: usize) -> Option<usize> {
        self.end(|parked| parked.wanted.process == process)
    }

    /// Removes the stream that waits for `happened`, the earliest deadline first.
    #[inline]
    pub fn end_for(&mut self, happened: Wanted) -> Option<usize> {
        if self.parked.is_empty() {
            return None;
        }
        self.end(|parked| parked.wanted == happened)
    }

    /// Removes `stream`; returns whether it waited.
    pub fn end_stream(&mut self, stream: usize) -> bool {
        self.end(|parked| parked.stream == stream).is_some()
    }

    fn end(&mut self, which: impl Fn(&Parked) -> bool) -> Option<usize> {
        let at = self.parked.iter().position(which)?;
        Some(self.parked.remove(at).stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Wanted = Wanted { process: 1, address: 0x10, birth: true };

    #[test]
    fn who_waits_is_woken_by_what_it_waits_for_alone() {
        let mut waits = Waits::default();
        waits.park(7, 0, HERE);
        for other in [
            Wanted { process: 2, ..HERE },
            Wanted { address: 0x20, ..HERE },
            Wanted { birth: false, ..HERE },
        ] {
            assert_eq!(waits.end_for(other), None, "{other:?}");
        }
        assert_eq!(
            (waits.end_for(HERE), waits.end_for(HERE), waits.deadline()),
            (Some(7), None, None)
        );
    }

    #[test]
    fn waits_end_by_deadline_and_equal_ones_in_order() {
        let mut waits = Waits::default();
        for (stream, key) in [(1, 30), (2, 10), (3, 10), (4, u64::MAX)] {
            waits.park(stream, key, HERE);
        }
        assert_eq!(waits.deadline(), Some(10 + WAIT_TICKS));
        let ended: Vec<(usize, u64)> = std::iter::from_fn(|| waits.end_first()).collect();
        assert_eq!(
            ended,
            [(2, 10 + WAIT_TICKS), (3, 10 + WAIT_TICKS), (1, 30 + WAIT_TICKS), (4, u64::MAX)]
        );
    }

    #[test]
    fn a_fork_ends_the_waits_of_its_parent_alone() {
        let mut waits = Waits::default();
        waits.park(1, 0, Wanted { process: 5, ..HERE });
        waits.park(2, 1, HERE);
        waits.park(3, 2, HERE);
        assert_eq!(
            [waits.end_one_of(1), waits.end_one_of(1), waits.end_one_of(1)],
            [Some(2), Some(3), None]
        );
        assert_eq!(waits.end_first(), Some((1, WAIT_TICKS)));
    }
}
