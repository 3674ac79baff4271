//! The calls to the kernel, each with its meaning for the caller; under Miri the process's
//! allocator stands in for them.
//!
//! Ranges here are already checked: whole pages inside a mapping that the caller owns.

use std::io;
use std::ptr::NonNull;

/// The kernel's page size in bytes.
pub fn page_bytes() -> usize {
    if cfg!(miri) { 4096 } else { rustix::param::page_size() }
}

#[cfg(not(miri))]
mod kernel {
    use super::*;
    use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
    use std::ffi::c_void;

    const RESERVED: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);
    const OPEN: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

    /// Aligned addresses that belong to nobody else, without memory. The mapping has one more page
    /// on both sides, which stay inaccessible. The kernel would join an open range with an open
    /// neighbour, and the two ranges' resident bytes could not be told apart; and a write over the
    /// edge faults. Also returns the number of calls that unmapped an edge.
    pub fn reserve(bytes: usize, align_bytes: usize) -> io::Result<(NonNull<u8>, u64)> {
        let page = page_bytes();
        let extra = align_bytes.saturating_sub(page);
        let all = bytes
            .checked_add(extra)
            .and_then(|sum| sum.checked_add(2 * page))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: without MAP_FIXED the kernel chooses addresses that nobody uses.
        let raw = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), all, ProtFlags::empty(), RESERVED)
        }? as *mut u8;
        let head = raw.wrapping_add(page).align_offset(align_bytes.max(page));
        let base = raw.wrapping_add(page + head);
        // The parts mapped only to find an aligned place go back, in whole pages on both sides.
        let mut unmaps = 0;
        for (start, length) in [(raw, head), (base.wrapping_add(bytes + page), extra - head)] {
            if length > 0 {
                unmaps += 1;
                // SAFETY: this part of the fresh mapping was handed to nobody.
                let unmapped = unsafe { rustix::mm::munmap(start as *mut c_void, length) };
                debug_assert!(unmapped.is_ok(), "an edge of a fresh mapping can be unmapped");
            }
        }
        Ok((NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?, unmaps))
    }

    /// # Safety
    /// `start..start + bytes` is exactly the result of [`reserve`], and nobody uses it afterwards.
    pub unsafe fn release(start: NonNull<u8>, bytes: usize, _align_bytes: usize) {
        let page = page_bytes();
        // SAFETY: the caller owns the mapping, with a page on both sides, and is done with it.
        let unmapped = unsafe {
            rustix::mm::munmap(start.as_ptr().wrapping_sub(page) as *mut c_void, bytes + 2 * page)
        };
        debug_assert!(unmapped.is_ok(), "a whole mapping can be unmapped");
    }

    /// Makes the range readable and writable; its content stays.
    ///
    /// # Safety
    /// The range lies in a mapping that the caller owns.
    pub unsafe fn open(start: *mut u8, bytes: usize) -> io::Result<()> {
        // SAFETY: the caller's promise; no reference can lie in a range that was not accessible.
        Ok(unsafe {
            rustix::mm::mprotect(
                start as *mut c_void,
                bytes,
                MprotectFlags::READ | MprotectFlags::WRITE,
            )
        }?)
    }

    /// Makes the range inaccessible; its content stays.
    ///
    /// # Safety
    /// The range lies in a mapping that the caller owns, and nobody reads or writes it afterwards.
    pub unsafe fn close(start: *mut u8, bytes: usize) -> io::Result<()> {
        // SAFETY: the caller's promise.
        Ok(unsafe { rustix::mm::mprotect(start as *mut c_void, bytes, MprotectFlags::empty()) }?)
    }

    /// Gives the range's pages back; it reads as zeroes afterwards.
    ///
    /// # Safety
    /// The range lies in a mapping that the caller owns, and nobody relies on its content.
    pub unsafe fn discard(start: *mut u8, bytes: usize) -> io::Result<()> {
        // SAFETY: the caller's promise; anonymous private pages read as zeroes after MADV_DONTNEED.
        Ok(unsafe { rustix::mm::madvise(start as *mut c_void, bytes, Advice::LinuxDontNeed) }?)
    }

    /// Puts a fresh mapping over the range, accessible or not.
    ///
    /// # Safety
    /// As for [`discard`].
    pub unsafe fn replace(start: *mut u8, bytes: usize, accessible: bool) -> io::Result<()> {
        let (protection, flags) =
            if accessible { (OPEN, MapFlags::PRIVATE) } else { (ProtFlags::empty(), RESERVED) };
        // SAFETY: the caller owns the range and relies on nothing in it; MAP_FIXED replaces nothing
        // else.
        unsafe {
            rustix::mm::mmap_anonymous(
                start as *mut c_void,
                bytes,
                protection,
                flags | MapFlags::FIXED,
            )
        }?;
        Ok(())
    }

    /// Gives the range its pages now, in one call instead of one fault a page.
    ///
    /// # Safety
    /// The range is open and lies in a mapping that the caller owns.
    pub unsafe fn populate(start: *mut u8, bytes: usize) -> io::Result<()> {
        // SAFETY: the caller's promise; populating changes no content.
        Ok(unsafe { rustix::mm::madvise(start as *mut c_void, bytes, Advice::LinuxPopulateWrite) }?)
    }

    /// Asks for huge pages in the range, or for pages of the basic size only. A kernel without huge
    /// pages refuses both.
    ///
    /// # Safety
    /// The range lies in a mapping that the caller owns.
    pub unsafe fn advise_huge_pages(start: *mut u8, bytes: usize, wanted: bool) {
        let advice = if wanted { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // SAFETY: the caller's promise; the advice changes no content.
        let _ = unsafe { rustix::mm::madvise(start as *mut c_void, bytes, advice) };
    }
}

#[cfg(miri)]
mod kernel {
    use super::*;
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    pub fn reserve(bytes: usize, align_bytes: usize) -> io::Result<(NonNull<u8>, u64)> {
        let layout = Layout::from_size_align(bytes, align_bytes.max(page_bytes()))
            .map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: the layout is not empty.
        let base =
            NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok((base, 0))
    }

    pub unsafe fn release(start: NonNull<u8>, bytes: usize, align_bytes: usize) {
        let layout =
            Layout::from_size_align(bytes, align_bytes.max(page_bytes())).expect("as reserved");
        // SAFETY: `reserve` made it with this layout.
        unsafe { dealloc(start.as_ptr(), layout) };
    }

    pub unsafe fn open(_: *mut u8, _: usize) -> io::Result<()> {
        Ok(())
    }

    pub unsafe fn close(_: *mut u8, _: usize) -> io::Result<()> {
        Ok(())
    }

    pub unsafe fn discard(start: *mut u8, bytes: usize) -> io::Result<()> {
        // SAFETY: the caller owns the range and relies on nothing in it.
        unsafe { start.write_bytes(0, bytes) };
        Ok(())
    }

    pub unsafe fn replace(start: *mut u8, bytes: usize, _: bool) -> io::Result<()> {
        // SAFETY: as for `discard`.
        unsafe { discard(start, bytes) }
    }

    pub unsafe fn populate(_: *mut u8, _: usize) -> io::Result<()> {
        Ok(())
    }

    pub unsafe fn advise_huge_pages(_: *mut u8, _: usize, _: bool) {}
}

pub(crate) use kernel::*;
