//! Columns: plain vectors, made at once at their final length.
//!
//! Most of the time of a fast reader goes into first touches of fresh memory. A column is therefore
//! asked for as zeros (the system's pages are zero already, so that nothing is written twice), and
//! large ones get their pages in one call (`populate`). Lengths come from a header and must have
//! been bounded by the file's size before.

mod populate;

use std::borrow::Cow;

/// A column that is done: made here, or lent by an index.
pub(crate) type Column<'a, T> = Cow<'a, [T]>;

/// A column of zeros.
pub(crate) fn zeroed<T: Zero>(len: usize) -> Vec<T> {
    let mut column = vec![T::ZERO; len];
    populate::populate(&mut column);
    column
}

/// Columns that are done with, for others to be made of: clearing memory that the process has is
/// cheaper than having the kernel find and clear more.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    narrow: Vec<Vec<u32>>,
}

impl Pool {
    /// A column of zeros to keep: the smallest that is large enough and no more than twice too
    /// large.
    pub fn take(&mut self, len: usize) -> Vec<u32> {
        take(&mut self.narrow, len, 2 * len + 64)
    }

    /// A column of zeros to give back soon: of any size.
    pub fn take_for_a_while(&mut self, len: usize) -> Vec<u32> {
        take(&mut self.narrow, len, usize::MAX)
    }

    pub fn give(&mut self, column: Vec<u32>) {
        self.narrow.push(column);
    }

    pub fn merge(&mut self, other: Pool) {
        self.narrow.extend(other.narrow);
    }
}

fn take<T: Zero>(columns: &mut Vec<Vec<T>>, len: usize, most: usize) -> Vec<T> {
    let fits = |column: &Vec<T>| (len..=most).contains(&column.capacity());
    let best = (0..columns.len())
        .filter(|place| fits(&columns[*place]))
        .min_by_key(|place| columns[*place].capacity());
    match best {
        Some(place) => {
            let mut column = columns.swap_remove(place);
            column.clear();
            column.resize(len, T::ZERO);
            column
        }
        None => zeroed(len),
    }
}

/// Types whose zero has only zero bits, so that zeroed memory needs no writes.
pub(crate) trait Zero: Copy {
    /// All bits zero.
    const ZERO: Self;
}

macro_rules! zero {
    ($($type:ty),*) => { $(impl Zero for $type { const ZERO: Self = 0; })* };
}
zero!(u8, u32, i32, u64);

/// A bit an index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub fn new(len: usize) -> Self {
        Bits { words: zeroed(len.div_ceil(64)) }
    }

    /// Zeroed bits, not populated: the caller touches few of their pages.
    pub fn sparse(len: usize) -> Self {
        Bits { words: vec![0; len.div_ceil(64)] }
    }

    #[inline]
    pub fn get(&self, index: u32) -> bool {
        self.words[index as usize / 64] >> (index % 64) & 1 != 0
    }

    #[inline]
    pub fn set(&mut self, index: u32) {
        self.words[index as usize / 64] |= 1 << (index % 64);
    }

    #[inline]
    pub fn clear(&mut self, index: u32) {
        self.words[index as usize / 64] &= !(1 << (index % 64));
    }

    /// Sets the bit, and returns whether it was set before.
    #[inline]
    pub fn replace(&mut self, index: u32) -> bool {
        let word = &mut self.words[index as usize / 64];
        let was = *word >> (index % 64) & 1 != 0;
        *word |= 1 << (index % 64);
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_columns_are_zero_and_whole() {
        let mut column = zeroed::<u32>(3_000_001);
        assert!(column.iter().all(|value| *value == 0));
        column[3_000_000] = 7;
    }

    #[test]
    fn pools_give_zeros_of_the_right_length() {
        let mut pool = Pool::default();
        pool.give(vec![7; 100]);
        pool.give(vec![7; 1000]);
        assert_eq!(pool.take(90), [0; 90]);
        assert_eq!(pool.take(90), [0; 90]);
        assert_eq!(pool.take_for_a_while(90).capacity(), 1000);
    }

    #[test]
    fn bits_are_set_one_by_one() {
        let mut bits = Bits::new(130);
        assert!(!bits.replace(129) && bits.replace(129));
        bits.set(64);
        assert!(bits.get(64) && bits.get(129) && !bits.get(63));
        bits.clear(64);
        assert!(bits.get(129) && !bits.get(64));
    }
}
