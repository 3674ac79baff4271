//! What keeps a space alive for its arenas: each shard counts its own, and has one count of the space's `Arc` for all of them.
//!
//! A count of the `Arc` an arena would have all threads write to one word. A count that a shard takes with its first arena and drops
//! with its last is hardly better for threads that have one arena at a time, so a shard keeps it until the last handle of the
//! space is gone, too: whoever comes last of the two, the shard's last arena or the last handle, drops it. Both are told by one word,
//! so that exactly one of them is the last, and who ends an arena need not look at anything of the space afterwards.

use crate::sync::AtomicUsize;
use std::sync::atomic::Ordering;

/// The shard has its count of the space.
const ANCHORED: usize = 1;
/// The last handle went at least once. Handles that are made of arenas afterwards do not take it back: they only have the shard drop
/// its count with each last arena.
const CLOSED: usize = 2;
/// Above, arenas are counted.
const ONE: usize = 4;

/// Arenas of a shard that are alive, and whether it holds a count of the space for them.
#[derive(Debug)]
pub struct Anchor(AtomicUsize);

impl Anchor {
    /// No arena, no count.
    pub fn new() -> Anchor {
        Anchor(AtomicUsize::new(0))
    }

    /// Arenas alive.
    pub fn arenas(&self) -> usize {
        self.0.load(Ordering::Relaxed) / ONE
    }

    /// One arena more. True: the shard holds no count; the caller, who has a handle, takes one and calls [`Anchor::hold`].
    #[inline]
    pub fn begin(&self) -> bool {
        self.0.fetch_add(ONE, Ordering::AcqRel) & ANCHORED == 0
    }

    /// The caller of [`Anchor::begin`] took a count for the shard, whose arena it has not handed out yet. False: another one was
    /// faster, and the count is to be dropped again.
    pub fn hold(&self) -> bool {
        self.0.fetch_or(ANCHORED, Ordering::AcqRel) & ANCHORED == 0
    }

    /// One arena less. True: the caller has the shard's count now, and drops it. Otherwise the space may be gone at any time.
    #[inline]
    pub fn end(&self) -> bool {
        self.step(|word| if word == ONE | ANCHORED | CLOSED { CLOSED } else { word - ONE })
    }

    /// The last handle goes. True: the caller has the shard's count now, and drops it.
    pub fn close(&self) -> bool {
        self.step(|word| if word == ANCHORED { CLOSED } else { word | CLOSED })
    }

    /// Changes the word; true: the shard had its count before and has it no more.
    #[inline]
    fn step(&self, next: impl Fn(usize) -> usize) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let after = next(word);
            match self.0.compare_exchange_weak(word, after, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return word & !after & ANCHORED != 0,
                Err(found) => word = found,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_last_has_the_count() {
        let anchor = Anchor::new();
        assert!(anchor.begin() && anchor.hold(), "the first arena brings the count");
        assert!(!anchor.end() && !anchor.begin(), "it stays when there is no arena, and the next one finds it");
        assert!(!anchor.close() && anchor.end(), "the last arena after the last handle drops it");
        assert!(anchor.begin() && anchor.hold() && anchor.end(), "of a handle made of another shard's arena");
        assert!(!anchor.close());
        let anchor = Anchor::new();
        assert!(!anchor.close(), "a shard without arenas never had one");
        let anchor = Anchor::new();
        assert!(anchor.begin() && anchor.begin() && anchor.hold() && !anchor.hold(), "two begin at once, one count");
        assert_eq!((anchor.arenas(), anchor.end(), anchor.end(), anchor.arenas()), (2, false, false, 0));
        assert!(anchor.close(), "the last handle after the last arena drops it");
    }
}
