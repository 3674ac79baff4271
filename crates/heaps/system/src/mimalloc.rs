//! mimalloc, built from its crate.

use crate::Malloc;
use heaplab_heap::Footprint;
use libmimalloc_sys as sys;
use std::ffi::c_void;

/// mimalloc as its crate builds it.
#[derive(Clone, Copy, Debug)]
pub struct Mimalloc;

// SAFETY: mimalloc's implementations of the C functions.
unsafe impl Malloc for Mimalloc {
    #[inline(always)]
    fn malloc(&self, size: usize) -> *mut c_void {
        // SAFETY: malloc has no precondition.
        unsafe { sys::mi_malloc(size) }
    }

    #[inline(always)]
    fn calloc(&self, size: usize) -> *mut c_void {
        // SAFETY: calloc has no precondition.
        unsafe { sys::mi_zalloc(size) }
    }

    fn memalign(&self, align: usize, size: usize) -> *mut c_void {
        // SAFETY: the trait's caller gives a valid alignment.
        unsafe { sys::mi_malloc_aligned(size, align) }
    }

    #[inline(always)]
    unsafe fn realloc(&self, block: *mut c_void, size: usize) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { sys::mi_realloc(block, size) }
    }

    #[inline(always)]
    unsafe fn free(&self, block: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { sys::mi_free(block) }
    }

    #[inline(always)]
    unsafe fn usable_size(&self, block: *mut c_void) -> usize {
        // SAFETY: the caller's promise.
        unsafe { sys::mi_usable_size(block) }
    }

    /// Committed by mimalloc's account: readable and writable. mimalloc commits whole arenas at
    /// once if the system overcommits; so this is far above the resident bytes.
    fn footprint(&self) -> Footprint {
        let mut committed = 0;
        let none = std::ptr::null_mut();
        // SAFETY: every out-parameter may be null, and `committed` may be written.
        unsafe { sys::mi_process_info(none, none, none, none, none, &mut committed, none, none) };
        Footprint { committed_bytes: Some(committed as u64), ..Footprint::default() }
    }

    fn trim(&self) -> bool {
        // SAFETY: no precondition.
        unsafe { sys::mi_collect(true) };
        true
    }

    fn version(&self) -> String {
        // SAFETY: no precondition.
        let version = unsafe { sys::mi_version() };
        // Major, two digits minor, two digits patch; before 2.x it was one digit minor.
        let (major, minor, patch) = if version >= 10_000 {
            (version / 10_000, version / 100 % 100, version % 100)
        } else {
            (version / 100, version / 10 % 10, version % 10)
        };
        format!("mimalloc {major}.{minor}.{patch}")
    }
}
