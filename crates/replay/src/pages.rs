//! The driver's own memory, outside of every heap: anonymous pages that grow by `mremap` and are
//! written when obtained. They weigh the same before the first event as after the last.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

/// Types with an all-zero value and without a drop.
///
/// # Safety
/// Both must be true.
pub unsafe trait Zeroable {}

// SAFETY: integers; zero is a value.
unsafe impl Zeroable for u32 {}
// SAFETY: integers; zero is a value.
unsafe impl Zeroable for u64 {}
// SAFETY: an atomic integer has the representation of its integer.
unsafe impl Zeroable for std::sync::atomic::AtomicU32 {}
// SAFETY: as above.
unsafe impl Zeroable for std::sync::atomic::AtomicU64 {}
// SAFETY: an atomic pointer has the representation of a pointer; null is a value.
unsafe impl<T> Zeroable for std::sync::atomic::AtomicPtr<T> {}

/// A growable array in pages of its own.
pub struct Pages<T: Zeroable> {
    start: NonNull<T>,
    length: usize,
    mapped_bytes: usize,
    holds: PhantomData<T>,
}

// SAFETY: it owns its pages as a vector does.
unsafe impl<T: Zeroable + Send> Send for Pages<T> {}
// SAFETY: shared access gives only `&[T]`.
unsafe impl<T: Zeroable + Sync> Sync for Pages<T> {}

const FIRST_BYTES: usize = 1 << 16;

impl<T: Zeroable> Pages<T> {
    /// No elements and no pages.
    pub const fn new() -> Self {
        assert!(!std::mem::needs_drop::<T>());
        Pages { start: NonNull::dangling(), length: 0, mapped_bytes: 0, holds: PhantomData }
    }

    /// `length` zeroes.
    pub fn zeroed(length: usize) -> std::io::Result<Self> {
        let mut pages = Self::new();
        pages.reserve(length)?;
        pages.length = length;
        Ok(pages)
    }

    fn reserve(&mut self, length: usize) -> std::io::Result<()> {
        let bytes = length.checked_mul(size_of::<T>()).ok_or(std::io::ErrorKind::OutOfMemory)?;
        if bytes <= self.mapped_bytes {
            return Ok(());
        }
        let grown = bytes.max(self.mapped_bytes * 2).next_multiple_of(FIRST_BYTES);
        // SAFETY: the call makes a new mapping, or enlarges the one that this array alone owns; the
        // result is checked.
        let start = unsafe {
            if self.mapped_bytes == 0 {
                let (access, flags) =
                    (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
                libc::mmap(std::ptr::null_mut(), grown, access, flags | libc::MAP_POPULATE, -1, 0)
            } else {
                libc::mremap(
                    self.start.as_ptr().cast(),
                    self.mapped_bytes,
                    grown,
                    libc::MREMAP_MAYMOVE,
                )
            }
        };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let Some(start) = NonNull::new(start.cast::<T>()) else {
            return Err(std::io::ErrorKind::OutOfMemory.into());
        };
        // SAFETY: the bytes behind the old length are mapped, writable, and hold no element.
        unsafe {
            start.cast::<u8>().add(self.mapped_bytes).write_bytes(0, grown - self.mapped_bytes)
        };
        (self.start, self.mapped_bytes) = (start, grown);
        Ok(())
    }

    /// Appends.
    pub fn push(&mut self, value: T) -> std::io::Result<()> {
        self.reserve(self.length + 1)?;
        // SAFETY: `reserve` made room for this element.
        unsafe { self.start.add(self.length).write(value) };
        self.length += 1;
        Ok(())
    }

    /// Appends copies.
    pub fn extend(&mut self, values: &[T]) -> std::io::Result<()>
    where
        T: Copy,
    {
        self.reserve(self.length + values.len())?;
        // SAFETY: `reserve` made room, and the array owns the pages alone.
        unsafe {
            self.start
                .add(self.length)
                .as_ptr()
                .copy_from_nonoverlapping(values.as_ptr(), values.len())
        };
        self.length += values.len();
        Ok(())
    }

    /// The elements, mutable.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: this many elements are initialised, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl<T: Zeroable> Default for Pages<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Zeroable> Deref for Pages<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: this many elements are initialised.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl<T: Zeroable> Drop for Pages<T> {
    fn drop(&mut self) {
        if self.mapped_bytes != 0 {
            // SAFETY: these pages are this array's own and nothing refers to them any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.mapped_bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_grow_and_keep_what_they_hold() {
        let mut pages = Pages::new();
        for number in 0..200_000_u64 {
            pages.push(number).unwrap();
        }
        pages.extend(&[7, 8]).unwrap();
        assert_eq!(pages.len(), 200_002);
        assert!(
            pages.iter().take(200_000).enumerate().all(|(index, number)| index as u64 == *number)
        );
        assert!(Pages::<u64>::zeroed(100_000).unwrap().iter().all(|number| *number == 0));
    }
}
