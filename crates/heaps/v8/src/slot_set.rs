//! A set of slot numbers, visited in rising order: the remembered set of the program's table.
//!
//! In V8 the table is one large array. Its remembered set has a bit a word and is visited by
//! address. So this set is visited by slot number.

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

    /// Takes a slot out.
    pub fn remove(&mut self, slot: u32) {
        if let Some(word) = self.words.get_mut(slot as usize / 64) {
            *word &= !(1 << (slot % 64));
        }
    }

    /// Words of 64 slots each.
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// A bit for each slot of a word, from the lowest on.
    pub fn word(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or(0)
    }
}
