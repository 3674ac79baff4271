//! Numbers of the objects after a change: removed and added births shift all later ids.
//!
//! Rows about forked copies and about objects that no rule concerns may name any object ever born,
//! so every birth is remembered: 64 of them in two words, as long as none was added between them.

use hashbrown::HashMap;
use heaplab_trace::ObjectId;

const BLOCK: usize = 64;

#[derive(Debug)]
struct Block {
    /// The new id of the first birth that stayed.
    first: ObjectId,
    /// Which of the block's births stayed, each called one more than the one before.
    stayed: u64,
}

/// Old ids to new ones.
#[derive(Debug, Default)]
pub(crate) struct Renumber {
    blocks: Vec<Block>,
    /// Blocks of 64 births with added births among them: the new ids one by one, `GONE` for removed
    /// ones.
    odd: HashMap<usize, Box<[ObjectId; BLOCK]>>,
    seen: u64,
}

const GONE: ObjectId = u64::MAX;

impl Renumber {
    /// The next old id and its new one; `None`: the object no longer exists.
    pub(crate) fn born(&mut self, new: Option<ObjectId>) {
        let (block, bit) =
            ((self.seen / BLOCK as u64) as usize, (self.seen % BLOCK as u64) as usize);
        self.seen += 1;
        if block == self.blocks.len() {
            self.blocks.push(Block { first: 0, stayed: 0 });
        }
        let Some(new) = new else { return };
        let of = &mut self.blocks[block];
        if of.stayed == 0 {
            of.first = new;
        }
        let follows = of.first + u64::from(of.stayed.count_ones());
        if let Some(ids) = self.odd.get_mut(&block) {
            ids[bit] = new;
        } else if new != follows {
            let mut ids = Box::new([GONE; BLOCK]);
            let stayed = (0..bit).filter(|at| of.stayed >> at & 1 == 1);
            for (at, id) in stayed.zip(of.first..) {
                ids[at] = id;
            }
            ids[bit] = new;
            self.odd.insert(block, ids);
        }
        of.stayed |= 1 << bit;
    }

    /// The new id of an old one; `None`: the object no longer exists, or was never born.
    pub(crate) fn now(&self, old: ObjectId) -> Option<ObjectId> {
        let (block, bit) = ((old / BLOCK as u64) as usize, old % BLOCK as u64);
        let of = self.blocks.get(block)?;
        if of.stayed >> bit & 1 == 0 {
            return None;
        }
        if let Some(ids) = self.odd.get(&block) {
            return Some(ids[bit as usize]);
        }
        let before = of.stayed & ((1u64 << bit) - 1);
        Some(of.first + u64::from(before.count_ones()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_birth_is_found_again(steps in prop::collection::vec((any::<bool>(), 0..3u64), 0..500)) {
            let (mut renumber, mut next, mut truth) = (Renumber::default(), 0, Vec::new());
            for (stays, added) in steps {
                // Births are added in one place of ten.
                next += if added == 2 && truth.len() % 10 == 3 { 1 } else { 0 };
                let new = stays.then(|| { next += 1; next - 1 });
                renumber.born(new);
                truth.push(new);
            }
            for (old, new) in truth.iter().enumerate() {
                prop_assert_eq!(renumber.now(old as u64), *new);
            }
            prop_assert_eq!(renumber.now(truth.len() as u64 + 64), None);
        }
    }
}
