//! Columns: plain vectors, made at once at their final length.
//!
//! Most of the time of a fast reader goes into first touches of fresh memory. A column is therefore asked for as zeros (the system's
//! pages are zero already, so that nothing is written twice), and large ones ask for huge pages, which take one fault for 512.
//! Lengths come from a header and must have been bounded by the file's size before.

/// Smaller columns gain nothing.
const HUGE_FROM_BYTES: usize = 4 << 20;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A column of zeros.
pub(crate) fn zeroed<T: Zero>(len: usize) -> Vec<T> {
    let column = vec![T::ZERO; len];
    let bytes = len * size_of::<T>();
    if bytes >= HUGE_FROM_BYTES {
        advise(column.as_ptr() as usize, bytes);
    }
    column
}

/// A column of one value.
pub(crate) fn filled<T: Zero>(len: usize, value: T) -> Vec<T> {
    let mut column = zeroed(len);
    column.fill(value);
    column
}

/// Types whose zero is all zero bits, so that asking for zeros costs nothing.
pub(crate) trait Zero: Copy {
    /// All bits zero.
    const ZERO: Self;
}

macro_rules! zero {
    ($($type:ty),*) => { $(impl Zero for $type { const ZERO: Self = 0; })* };
}
zero!(u8, u32, i32, u64);

#[cfg(target_os = "linux")]
fn advise(address: usize, bytes: usize) {
    let from = address.next_multiple_of(HUGE_PAGE_BYTES);
    let to = (address + bytes) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if from < to {
        // SAFETY: the range lies within the vector's own allocation, and MADV_HUGEPAGE changes how its pages are backed, never what
        // they hold. A refusal (a kernel without huge pages) changes nothing.
        let _ = unsafe { rustix::mm::madvise(from as *mut _, to - from, rustix::mm::Advice::LinuxHugepage) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise(_address: usize, _bytes: usize) {}

/// A bit an index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub fn new(len: usize) -> Self {
        Bits { words: zeroed(len.div_ceil(64)) }
    }

    #[inline]
    pub fn get(&self, index: u32) -> bool {
        self.words[index as usize / 64] >> (index % 64) & 1 != 0
    }

    #[inline]
    pub fn set(&mut self, index: u32) {
        self.words[index as usize / 64] |= 1 << (index % 64);
    }

    /// Sets the bit and says whether it was set before.
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
        assert_eq!(filled(10, 5u8), [5; 10]);
    }

    #[test]
    fn bits_are_set_one_by_one() {
        let mut bits = Bits::new(130);
        assert!(!bits.replace(129) && bits.replace(129));
        bits.set(64);
        assert!(bits.get(64) && bits.get(129) && !bits.get(63));
    }
}
