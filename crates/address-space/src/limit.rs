//! A commit limit that several reservations may share, as HotSpot's class and non-class space share
//! one limiter.

use crate::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Committed bytes, and the most allowed.
#[derive(Debug)]
pub struct CommitLimit {
    committed_bytes: AtomicUsize,
    limit_bytes: AtomicUsize,
}

impl CommitLimit {
    /// At most `limit_bytes` at a time.
    pub const fn new(limit_bytes: usize) -> CommitLimit {
        CommitLimit {
            committed_bytes: AtomicUsize::new(0),
            limit_bytes: AtomicUsize::new(limit_bytes),
        }
    }

    /// No limit but the machine's memory.
    pub const fn none() -> CommitLimit {
        CommitLimit::new(usize::MAX)
    }

    /// The limit.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Changes the limit. Bytes committed beyond a lower limit stay, and new ones are refused until
    /// they fit.
    pub fn set_limit_bytes(&self, limit_bytes: usize) {
        self.limit_bytes.store(limit_bytes, Ordering::Relaxed);
    }

    /// Bytes committed under this limit.
    pub fn committed_bytes(&self) -> usize {
        self.committed_bytes.load(Ordering::Relaxed)
    }

    /// Counts `bytes` as committed if they fit.
    pub fn charge(&self, bytes: usize) -> Result<(), Error> {
        let limit_bytes = self.limit_bytes();
        let fits = |committed: usize| {
            committed.checked_add(bytes).filter(|sum| *sum <= limit_bytes || bytes == 0)
        };
        match self.committed_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(()),
            Err(committed_bytes) => {
                Err(Error::LimitReached { asked_bytes: bytes, committed_bytes, limit_bytes })
            }
        }
    }

    /// Takes back charged bytes.
    pub fn release(&self, bytes: usize) {
        let before = self.committed_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "{bytes} bytes released of {before} committed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let limit = CommitLimit::new(100);
        limit.charge(60).unwrap();
        let error = limit.charge(41).unwrap_err();
        assert!(
            matches!(
                error,
                Error::LimitReached { asked_bytes: 41, committed_bytes: 60, limit_bytes: 100 }
            ),
            "{error}"
        );
        limit.charge(40).unwrap();
        assert!(limit.charge(usize::MAX).is_err(), "a sum that overflows is over the limit");
        limit.release(100);
        assert_eq!(limit.committed_bytes(), 0);
    }

    #[test]
    fn a_limit_lowered_below_what_is_committed_still_takes_nothing_more() {
        let limit = CommitLimit::none();
        limit.charge(10).unwrap();
        limit.set_limit_bytes(5);
        assert!(limit.charge(1).is_err());
        assert!(limit.charge(0).is_ok());
        limit.release(6);
        assert!(limit.charge(1).is_ok());
    }
}
