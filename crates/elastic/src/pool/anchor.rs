//! What keeps a space alive for its arenas: each shard counts its own, and has one count of the
//! space's `Arc` for all of them.
//!
//! A count of the `Arc` an arena would have all threads write to one word. A count that a shard
//! takes with its first arena and drops with its last is hardly better for threads that have one
//! arena at a time, so a shard keeps it until the last handle of the space is gone, too: whoever
//! comes last of the two, the shard's last arena or the last handle, drops it. Both are told by one
//! word, so that exactly one of them is the last, and who ends an arena need not look at anything
//! of the space afterwards.
//!
//! The word lies behind the shard's lock, which an arena's birth takes for the head it shares, and
//! its last chunk's return anyway: an atomic count would be one more locked instruction at each
//! birth and death, and on x86-64 that waits until every store before it has left the core, which
//! here are the first words of blocks in cold memory.

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

    /// One arena more. False: the shard holds no count; the caller, who has a handle, takes one and
    /// calls [`Anchor::hold`].
    #[inline]
    pub fn begin(&mut self) -> bool {
        self.0 += ONE;
        self.0 & ANCHORED != 0
    }

    /// The caller of [`Anchor::begin`] took a count for the shard, whose arena it has not handed
    /// out yet. False: another one was faster, and the count is to be dropped again.
    pub fn hold(&mut self) -> bool {
        let held = self.0 & ANCHORED != 0;
        self.0 |= ANCHORED;
        !held
    }

    /// One arena less. True: the caller has the shard's count now, and drops it once it has let the
    /// lock go. Otherwise the space may be gone as soon as the lock is.
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
