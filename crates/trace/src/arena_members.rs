//! Which objects die with an arena: the one place that derives it, for every pass over events.
//!
//! Rows of an arena's death do not name its objects. A pass reports each birth, and asks at the
//! arena's death. Objects that died before their arena leave the list when its length has doubled,
//! so memory grows with the live objects and not with the events.

use crate::ObjectId;
use hashbrown::HashMap;

/// The shortest list that is looked through for the dead.
const SWEPT_MIN: usize = 1024;

/// Objects by the live arena of their birth.
#[derive(Clone, Debug, Default)]
pub struct ArenaMembers {
    arenas: HashMap<u32, Members>,
}

#[derive(Clone, Debug, Default)]
struct Members {
    objects: Vec<ObjectId>,
    /// Survivors of the last sweep.
    swept: usize,
}

impl ArenaMembers {
    /// An object is born in an arena; arena 0, malloc's, never dies. `is_live` says of an earlier
    /// object of the arena whether it is alive.
    ///
    /// ```
    /// let mut members = heaplab_trace::arena_members::ArenaMembers::default();
    /// (0..3).for_each(|object| members.born(7, object, |_| true));
    /// assert_eq!(members.died(7), [0, 1, 2]);
    /// assert!(members.died(7).is_empty());
    /// ```
    #[inline]
    pub fn born(&mut self, arena: u32, object: ObjectId, is_live: impl FnMut(ObjectId) -> bool) {
        if arena != 0 {
            self.add(arena, object, is_live);
        }
    }

    fn add(&mut self, arena: u32, object: ObjectId, mut is_live: impl FnMut(ObjectId) -> bool) {
        let Members { objects, swept } = self.arenas.entry(arena).or_default();
        if objects.len() >= SWEPT_MIN.max(2 * *swept) {
            objects.retain(|object| is_live(*object));
            *swept = objects.len();
        }
        objects.push(object);
    }

    /// The arena dies. Returns its objects in the order of birth, some of which may have died
    /// before.
    pub fn died(&mut self, arena: u32) -> Vec<ObjectId> {
        self.arenas.remove(&arena).unwrap_or_default().objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_with_the_live_objects() {
        let mut members = ArenaMembers::default();
        // Only the last hundred are alive.
        for object in 0..1_000_000 {
            members.born(1, object, |earlier| earlier + 100 >= object);
            members.born(0, object, |_| true);
        }
        let left = members.died(1);
        assert!(
            left.len() <= 2 * SWEPT_MIN && left.ends_with(&[999_998, 999_999]),
            "{}",
            left.len()
        );
        assert!(members.died(0).is_empty());
    }
}
