//! The process's own malloc: glibc's on this system, and Rust's global allocator at the same time.
//! So a driver that measures it keeps its own data elsewhere.

use crate::Malloc;
use heaplab_heap::Footprint;
use std::ffi::{CStr, c_void};

/// glibc's malloc.
#[derive(Clone, Copy, Debug)]
pub struct Glibc;

// SAFETY: the C library's own functions.
unsafe impl Malloc for Glibc {
    #[inline(always)]
    fn malloc(&self, size: usize) -> *mut c_void {
        // SAFETY: malloc has no precondition.
        unsafe { libc::malloc(size) }
    }

    #[inline(always)]
    fn calloc(&self, size: usize) -> *mut c_void {
        // SAFETY: calloc has no precondition.
        unsafe { libc::calloc(1, size) }
    }

    fn memalign(&self, align: usize, size: usize) -> *mut c_void {
        let mut block = std::ptr::null_mut();
        // SAFETY: `block` may be written, and the trait's caller gives a valid alignment; on
        // failure it stays null.
        match unsafe { libc::posix_memalign(&mut block, align, size) } {
            0 => block,
            _ => std::ptr::null_mut(),
        }
    }

    #[inline(always)]
    unsafe fn realloc(&self, block: *mut c_void, size: usize) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { libc::realloc(block, size) }
    }

    #[inline(always)]
    unsafe fn free(&self, block: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { libc::free(block) }
    }

    #[inline(always)]
    unsafe fn usable_size(&self, block: *mut c_void) -> usize {
        // SAFETY: the caller's promise.
        unsafe { libc::malloc_usable_size(block) }
    }

    /// From `mallinfo2`: `uordblks` counts blocks with their headers, blocks in the thread cache
    /// among them.
    fn footprint(&self) -> Footprint {
        // SAFETY: it only reads the allocator's counters, under its locks.
        let info = unsafe { libc::mallinfo2() };
        Footprint {
            used_bytes: Some((info.uordblks + info.hblkhd) as u64),
            free_reusable_bytes: Some(info.fordblks as u64),
            committed_bytes: Some((info.arena + info.hblkhd) as u64),
            ..Footprint::default()
        }
    }

    fn trim(&self) -> bool {
        // SAFETY: malloc_trim has no precondition.
        unsafe { libc::malloc_trim(0) };
        true
    }

    fn version(&self) -> String {
        // SAFETY: it returns a static string.
        let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
        format!("glibc {}", version.to_string_lossy())
    }
}
