//! A set of slot numbers, visited in rising order: the remembered set of the program's table.
//!
//! In V8 the table is one large array, whose remembered set has a bit a word and is visited by
//! address. So here, by slot number.

/// Slots whose object may be young.
#[derive(Debug, Default)]
pub struct SlotSet {
    words: Vec<u64>,
}

impl SlotSet {
    /// Adds a slot.
    #[inline]
    pub fn insert(&mut self, slot: u32) {
        let at = slot as usize / 64;
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        self.words[at] |= 1 << (slot % 64);
    }

    /// Visits all slots in rising order, and keeps those for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        for at in 0..self.words.len() {
            let mut left = self.words[at];
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                if !keep((at * 64) as u32 + bit) {
                    self.words[at] &= !(1 << bit);
                }
            }
        }
    }

    /// Bytes of the set itself.
    pub fn own_bytes(&self) -> usize {
        self.words.capacity() * 8
    }
}
