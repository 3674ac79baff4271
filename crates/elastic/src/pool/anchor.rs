//! Keeps a space alive for its arenas: each shard counts its own arenas, and holds one count of the
//! space's `Arc` for all of them.
//!
//! With a count of the `Arc` for each arena, all threads would write to one word. A count that a
//! shard takes with its first arena and drops with its last is hardly better for threads that have
//! one arena at a time. So a shard also keeps it until the last handle of the space is gone. The
//! last of the two, the shard's last arena or the last handle, drops it. One word tells both, so
//! exactly one of them is the last, and ending an arena touches nothing of the space afterwards.
//!
//! The word lies behind the shard's lock. An arena's birth takes that lock anyway, for the shared
//! head, and so does the return of its last chunk. An atomic count would be one more locked
//! instruction at each birth and death. On x86-64 it would wait until every earlier store has left
//! the core, and here those are the first words of blocks in cold memory.

/// The shard has its count of the space.
const ANCHORED: usize = 1;
/// The last handle went at least once. Handles that are made of arenas afterwards do not take it
/// back: they only have the shard drop its count with each last arena.
const CLOSED: usize = 2;
/// Above, arenas are counted.
const ONE: usize = 4;

/// Arenas of a shard that are alive, and whether it holds a count of the space for them.
#[derive(Debug, Default)]
pub struct Anchor(usize);

impl Anchor {
    /// Arenas alive.
    pub fn arenas(&self) -> usize {
        self.0 / ONE
    }

    /// Adds an arena. False: the shard holds no count; the caller, who has a handle, takes one and
    /// calls [`Anchor::hold`].
    #[inline]
    pub fn begin(&mut self) -> bool {
        self.0 += ONE;
        self.0 & ANCHORED != 0
    }

    /// After [`Anchor::begin`], the caller took a count for the shard, and has not handed its arena
    /// out yet. False: another caller was faster, and this count must be dropped.
    pub fn hold(&mut self) -> bool {
        let held = self.0 & ANCHORED != 0;
        self.0 |= ANCHORED;
        !held
    }

    /// Removes an arena. True: the caller now has the shard's count, and drops it after releasing
    /// the lock. Otherwise the space may be gone as soon as the lock is released.
    #[inline]
    pub fn end(&mut self) -> bool {
        let last = self.0 == ONE | ANCHORED | CLOSED;
        self.0 = if last { CLOSED } else { self.0 - ONE };
        last
    }

    /// The last handle goes. True: the caller has the shard's count now, and drops it.
    pub fn close(&mut self) -> bool {
        let last = self.0 == ANCHORED;
        self.0 = if last { CLOSED } else { self.0 | CLOSED };
        last
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_last_has_the_count() {
        let mut anchor = Anchor::default();
        assert!(!anchor.begin() && anchor.hold(), "the first arena brings the count");
        assert!(
            !anchor.end() && anchor.begin(),
            "it stays when there is no arena, and the next one finds it"
        );
        assert!(!anchor.close() && anchor.end(), "the last arena after the last handle drops it");
        assert!(
            !anchor.begin() && anchor.hold() && anchor.end(),
            "of a handle made of another shard's arena"
        );
        assert!(!anchor.close());
        let mut anchor = Anchor::default();
        assert!(!anchor.close(), "a shard without arenas never had one");
        let mut anchor = Anchor::default();
        assert!(
            !anchor.begin() && !anchor.begin() && anchor.hold() && !anchor.hold(),
            "two begin at once, one count"
        );
        assert_eq!(
            (anchor.arenas(), anchor.end(), anchor.end(), anchor.arenas()),
            (2, false, false, 0)
        );
        assert!(anchor.close(), "the last handle after the last arena drops it");
    }
}
