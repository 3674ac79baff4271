//! A cache with a limit of live bytes, which frees its oldest objects.

use hashbrown::HashMap;
use heaplab_trace::ObjectId;
use std::collections::VecDeque;

/// The live objects, oldest first.
#[derive(Debug)]
pub(crate) struct Cache {
    most_bytes: u64,
    live_bytes: u64,
    bytes: HashMap<ObjectId, u64>,
    /// Those that died meanwhile are still there, and are passed over.
    order: VecDeque<ObjectId>,
}

impl Cache {
    pub(crate) fn new(most_bytes: u64) -> Cache {
        Cache { most_bytes, live_bytes: 0, bytes: HashMap::new(), order: VecDeque::new() }
    }

    /// The object, new or resized, needs `bytes`: returns the oldest other object, which has to go
    /// first; `None`: there is room, or no other object.
    pub(crate) fn too_old(&mut self, object: ObjectId, bytes: u64) -> Option<ObjectId> {
        let own = self.bytes.get(&object).copied().unwrap_or(0);
        if (self.live_bytes - own).saturating_add(bytes) <= self.most_bytes {
            return None;
        }
        let at =
            self.order.iter().position(|old| *old != object && self.bytes.contains_key(old))?;
        let old = self.order.remove(at)?;
        self.remove(old);
        Some(old)
    }

    /// The object is live with so many bytes.
    pub(crate) fn put(&mut self, object: ObjectId, bytes: u64) {
        self.live_bytes += bytes;
        match self.bytes.insert(object, bytes) {
            Some(before) => self.live_bytes -= before,
            None => self.order.push_back(object),
        }
        if self.order.len() > 64 + 2 * self.bytes.len() {
            let bytes = &self.bytes;
            self.order.retain(|object| bytes.contains_key(object));
        }
    }

    /// The object is dead.
    pub(crate) fn remove(&mut self, object: ObjectId) {
        self.live_bytes -= self.bytes.remove(&object).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first_and_nothing_goes_for_itself() {
        let mut cache = Cache::new(100);
        assert_eq!(cache.too_old(0, 200), None);
        cache.put(0, 60);
        cache.put(1, 40);
        assert_eq!(cache.too_old(2, 1), Some(0));
        assert_eq!(cache.too_old(2, 1), None);
        cache.put(2, 1);
        cache.remove(1);
        assert_eq!(cache.too_old(2, 100), None);
        cache.put(2, 100);
        assert_eq!((cache.live_bytes, cache.too_old(2, 400)), (100, None));
        for object in 3..1000 {
            cache.put(object, 0);
            cache.remove(object);
        }
        assert!(cache.order.len() < 100);
    }
}
