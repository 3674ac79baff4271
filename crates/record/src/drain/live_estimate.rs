//! An estimate of live bytes, from one address in [`SAMPLE`].

use crate::ring::Change;
use hashbrown::HashMap;

/// Live bytes are estimated from one address in this many.
const SAMPLE: u64 = 64;

/// The blocks at sampled addresses.
#[derive(Debug, Default)]
pub(super) struct LiveEstimate {
    /// Live bytes, estimated.
    pub bytes: u64,
    /// Sizes of the live blocks at sampled addresses.
    sizes: HashMap<u64, u64>,
    /// Changes of the block being written.
    changes: Vec<Change>,
}

impl LiveEstimate {
    /// A block begins: what was seen and not applied was not written.
    pub fn begin_block(&mut self) {
        self.changes.clear();
    }

    /// Keeps a change at a sampled address until the block is written.
    #[inline(always)]
    pub fn see(&mut self, change: Change) {
        if is_sampled(change.gone) || is_sampled(change.born) {
            self.changes.push(change);
        }
    }

    /// Applies the changes of the block, which `pid` wrote.
    pub fn apply_block(&mut self, pid: u32) {
        let key = |address: u64| address ^ u64::from(pid) << 48;
        for change in &self.changes {
            if is_sampled(change.gone)
                && let Some(size) = self.sizes.remove(&key(change.gone))
            {
                self.bytes = self.bytes.saturating_sub(size * SAMPLE);
            }
            if is_sampled(change.born) {
                let size = change.size.min(1 << 40);
                let before = self.sizes.insert(key(change.born), size).unwrap_or(0);
                self.bytes = (self.bytes + size * SAMPLE).saturating_sub(before * SAMPLE);
            }
        }
    }
}

#[inline(always)]
fn is_sampled(address: u64) -> bool {
    const { assert!(SAMPLE == 1 << (64 - 58)) };
    (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58 == 0 && address != 0
}
