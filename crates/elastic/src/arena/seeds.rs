//! What arenas share until they allocate: one head for all arenas of a shard that grow alike and
//! have nothing yet.
//!
//! Such a head has a cursor of zero and a floor that no cursor reaches, so that the first
//! allocation takes the slow path without a test of its own; the arena then gets a chunk and a head
//! of its own in it ([`Arena::allocate_first`](super::Arena)). An arena that is born and not used
//! is its handle, and a count in its shard. Nobody writes to a shared head.

use super::head::Head;
use crate::Growth;
use crate::space::Shared;
use std::ptr::NonNull;

/// Of one shard, by growth. Their number is that of different growths that arenas were born with.
#[derive(Debug, Default)]
pub struct Seeds(Vec<(Growth, NonNull<Head>)>);

// SAFETY: the heads belong to the shard, behind its lock; arenas only read them.
unsafe impl Send for Seeds {}

impl Seeds {
    /// The head of arenas that grow like this, in the shard of this number.
    #[inline]
    pub fn of(&mut self, growth: Growth, shared: *const Shared, shard: usize) -> NonNull<Head> {
        match self.0.first() {
            Some((first, head)) if *first == growth => *head,
            _ => self.other(growth, shared, shard),
        }
    }

    #[inline(never)]
    fn other(&mut self, growth: Growth, shared: *const Shared, shard: usize) -> NonNull<Head> {
        match self.0.binary_search_by_key(&growth, |seed| seed.0) {
            Ok(at) => self.0[at].1,
            Err(at) => {
                let head = NonNull::from(Box::leak(Box::new(Head::seed(shared, growth, shard))));
                self.0.insert(at, (growth, head));
                head
            }
        }
    }

    /// Bytes of all of them.
    pub fn table_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(Growth, NonNull<Head>)>() + self.0.len() * size_of::<Head>()
    }
}

impl Drop for Seeds {
    fn drop(&mut self) {
        for (_, head) in self.0.drain(..) {
            // SAFETY: `of` leaked the box, and the space goes: there is no arena left.
            drop(unsafe { Box::from_raw(head.as_ptr()) });
        }
    }
}
