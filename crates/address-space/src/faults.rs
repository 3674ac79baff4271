//! Faults that a test places: the n-th call of a kind fails as if the kernel had refused it.
//!
//! Counting places the faults: run a workload once and count its calls, then run it again for every
//! n with the n-th call failing, and check after each run that nothing was lost. A heap in
//! production has no `Faults`; it pays one test of a pointer on calls that go to the kernel anyway.

use std::sync::atomic::{AtomicU64, Ordering};

/// A kind of call that can fail on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Reservation::new`](crate::Reservation::new).
    Reserve,
    /// [`Reservation::commit`](crate::Reservation::commit) and its kin.
    Commit,
    /// [`Reservation::uncommit`](crate::Reservation::uncommit) and its kin.
    Uncommit,
    /// [`Reservation::populate`](crate::Reservation::populate).
    Populate,
}

#[derive(Debug)]
struct Plan {
    calls: AtomicU64,
    /// The first failing call, counted from 0.
    first: AtomicU64,
    /// Number of failing calls from there.
    length: AtomicU64,
}

/// The failing calls. Share it with [`ReservationOptions`](crate::ReservationOptions) and change it
/// while the heap runs.
#[derive(Debug)]
pub struct Faults([Plan; 4]);

impl Default for Faults {
    fn default() -> Faults {
        Faults([(); 4].map(|()| Plan {
            calls: AtomicU64::new(0),
            first: AtomicU64::new(u64::MAX),
            length: AtomicU64::new(0),
        }))
    }
}

impl Faults {
    /// No call fails yet.
    pub fn new() -> Faults {
        Faults::default()
    }

    /// Number of `call`s made, failures included.
    pub fn calls(&self, call: Call) -> u64 {
        self.0[call as usize].calls.load(Ordering::Relaxed)
    }

    /// Makes the n-th future `call` (0: the next one) and the `length - 1` after it fail.
    pub fn fail(&self, call: Call, nth: u64, length: u64) {
        let plan = &self.0[call as usize];
        plan.length.store(length, Ordering::Relaxed);
        plan.first.store(plan.calls.load(Ordering::Relaxed).saturating_add(nth), Ordering::Relaxed);
    }

    /// Makes no call fail any more.
    pub fn clear(&self) {
        for plan in &self.0 {
            plan.length.store(0, Ordering::Relaxed);
        }
    }

    /// Counts the call; returns whether it must fail.
    pub(crate) fn strikes(&self, call: Call) -> bool {
        let plan = &self.0[call as usize];
        let number = plan.calls.fetch_add(1, Ordering::Relaxed);
        let first = plan.first.load(Ordering::Relaxed);
        number >= first && number - first < plan.length.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_from_when_the_fault_was_placed() {
        let faults = Faults::new();
        assert!(!faults.strikes(Call::Commit));
        faults.fail(Call::Commit, 1, 2);
        let struck = [(); 5].map(|()| faults.strikes(Call::Commit));
        assert_eq!(struck, [false, true, true, false, false]);
        assert_eq!((faults.calls(Call::Commit), faults.calls(Call::Uncommit)), (6, 0));
        faults.fail(Call::Commit, 0, u64::MAX);
        faults.clear();
        assert!(!faults.strikes(Call::Commit));
    }
}
