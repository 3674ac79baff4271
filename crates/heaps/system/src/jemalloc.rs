//! jemalloc, built from its crate with a prefix so that it lives beside the system's malloc.

use crate::Malloc;
use heaplab_heap::Footprint;
use std::ffi::{CStr, c_char, c_void};
use tikv_jemalloc_sys as sys;

/// jemalloc 5.3 as its crate builds it, with statistics.
#[derive(Clone, Copy, Debug)]
pub struct Jemalloc;

/// Reads one counter; `None` if this build lacks the name.
fn read<T: Copy + Default>(name: &CStr) -> Option<T> {
    let mut value = T::default();
    let mut length = size_of::<T>();
    // SAFETY: the name ends with a zero, and `value` has room for `length` bytes.
    let failed = unsafe {
        sys::mallctl(name.as_ptr(), (&raw mut value).cast(), &mut length, std::ptr::null_mut(), 0)
    };
    (failed == 0 && length == size_of::<T>()).then_some(value)
}

/// Makes jemalloc refresh its counters; otherwise they are those of the last epoch.
fn refresh() {
    let mut epoch = 1_u64;
    // SAFETY: "epoch" takes a u64, the type of `epoch`.
    unsafe {
        let new: *mut c_void = (&raw mut epoch).cast();
        sys::mallctl(
            c"epoch".as_ptr(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            new,
            size_of::<u64>(),
        );
    }
}

// SAFETY: jemalloc's implementations of the C functions.
unsafe impl Malloc for Jemalloc {
    #[inline(always)]
    fn malloc(&self, size: usize) -> *mut c_void {
        // SAFETY: malloc has no precondition.
        unsafe { sys::malloc(size) }
    }

    #[inline(always)]
    fn calloc(&self, size: usize) -> *mut c_void {
        // SAFETY: calloc has no precondition.
        unsafe { sys::calloc(1, size) }
    }

    fn memalign(&self, align: usize, size: usize) -> *mut c_void {
        let mut block = std::ptr::null_mut();
        // SAFETY: `block` may be written, and the trait's caller gives a valid alignment; on
        // failure it stays null.
        match unsafe { sys::posix_memalign(&mut block, align, size) } {
            0 => block,
            _ => std::ptr::null_mut(),
        }
    }

    #[inline(always)]
    unsafe fn realloc(&self, block: *mut c_void, size: usize) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { sys::realloc(block, size) }
    }

    #[inline(always)]
    unsafe fn free(&self, block: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { sys::free(block) }
    }

    #[inline(always)]
    unsafe fn usable_size(&self, block: *mut c_void) -> usize {
        // SAFETY: the caller's promise.
        unsafe { sys::malloc_usable_size(block) }
    }

    /// `stats.allocated` (rounded up to size classes), `active`, `mapped`, `resident` (an upper
    /// bound, jemalloc's manual says).
    fn footprint(&self) -> Footprint {
        refresh();
        let read = |name: &CStr| read::<usize>(name).map(|bytes| bytes as u64);
        Footprint {
            used_bytes: read(c"stats.allocated"),
            active_bytes: read(c"stats.active"),
            committed_bytes: read(c"stats.mapped"),
            resident_bytes: read(c"stats.resident"),
            ..Footprint::default()
        }
    }

    /// Flushes this thread's cache and purges every arena.
    fn trim(&self) -> bool {
        let call = |name: *const c_char| {
            // SAFETY: these names take and return nothing.
            unsafe {
                sys::mallctl(
                    name,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                    0,
                )
            }
        };
        call(c"thread.tcache.flush".as_ptr());
        // 4096 is MALLCTL_ARENAS_ALL.
        call(c"arena.4096.purge".as_ptr()) == 0
    }

    fn version(&self) -> String {
        let Some(version) = read::<usize>(c"version") else { return String::from("jemalloc") };
        // SAFETY: "version" returns a pointer to a static string.
        let version = unsafe { CStr::from_ptr(version as *const c_char) }.to_string_lossy();
        format!("jemalloc {}", version.split('-').next().unwrap_or(&version))
    }
}
