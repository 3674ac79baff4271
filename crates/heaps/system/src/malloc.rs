//! A C allocator as a heap. Only the functions differ between allocators. Each request maps to the
//! function that the program called: a plain one to `malloc`, a zeroed one to `calloc`, an aligned
//! one to `posix_memalign`.

use heaplab_heap::{Block, CheckError, Footprint, Heap, Manual, Request};
use std::ffi::c_void;
use std::ptr::NonNull;

/// The functions of a C allocator. All are safe to call from any thread.
///
/// # Safety
/// The functions behave as the C standard and POSIX require of their names.
pub unsafe trait Malloc: Copy + Send + 'static {
    /// `malloc(size)`.
    fn malloc(&self, size: usize) -> *mut c_void;
    /// `calloc(1, size)`.
    fn calloc(&self, size: usize) -> *mut c_void;
    /// `posix_memalign`, or null; `align` is a power of two and at least that of a pointer.
    fn memalign(&self, align: usize, size: usize) -> *mut c_void;
    /// `realloc(block, size)`.
    ///
    /// # Safety
    /// `block` is live and from this allocator; `size` is not zero.
    unsafe fn realloc(&self, block: *mut c_void, size: usize) -> *mut c_void;
    /// `free(block)`.
    ///
    /// # Safety
    /// `block` is live and from this allocator.
    unsafe fn free(&self, block: *mut c_void);
    /// `malloc_usable_size(block)`.
    ///
    /// # Safety
    /// `block` is live and from this allocator.
    unsafe fn usable_size(&self, block: *mut c_void) -> usize;
    /// The allocator's counters.
    fn footprint(&self) -> Footprint;
    /// Gives memory back; false: the allocator has no such call.
    fn trim(&self) -> bool;
    /// Its own name and version text.
    fn version(&self) -> String;
}

/// A C allocator as a heap; one copy a thread.
#[derive(Clone, Copy, Debug)]
pub struct System<M>(pub M);

impl<M: Malloc> System<M> {
    #[cold]
    fn reallocate_aligned(&mut self, block: Block, new_size: usize) -> Option<NonNull<u8>> {
        // realloc does not keep an alignment; a program has to do the same.
        let moved = self.allocate_aligned(block.request(new_size))?;
        let block = block.address;
        // SAFETY: the caller of `reallocate` promises that the block is live.
        let held = unsafe { self.0.usable_size(block.as_ptr().cast()) };
        // SAFETY: both blocks are live, different, and hold at least the smaller of both sizes.
        unsafe { moved.copy_from_nonoverlapping(block, held.min(new_size)) };
        // SAFETY: the caller's promise; the content has moved.
        unsafe { self.0.free(block.as_ptr().cast()) };
        Some(moved)
    }

    #[cold]
    fn allocate_aligned(&self, request: Request) -> Option<NonNull<u8>> {
        let block = NonNull::new(
            self.0.memalign(request.align.max(size_of::<usize>()), request.size).cast::<u8>(),
        )?;
        if request.zeroed {
            // SAFETY: the allocator has just given `size` bytes here.
            unsafe { block.write_bytes(0, request.size) };
        }
        Some(block)
    }
}

impl<M: Malloc> Manual for System<M> {
    const SIZED: bool = false;

    #[inline(always)]
    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        if request.align > 1 {
            return self.allocate_aligned(request);
        }
        let block =
            if request.zeroed { self.0.calloc(request.size) } else { self.0.malloc(request.size) };
        NonNull::new(block.cast())
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: Block) {
        // SAFETY: the caller's promise.
        unsafe { self.0.free(block.address.as_ptr().cast()) };
    }

    #[inline(always)]
    unsafe fn reallocate(&mut self, block: Block, new_size: usize) -> Option<NonNull<u8>> {
        if block.align > 1 {
            return self.reallocate_aligned(block, new_size);
        }
        // SAFETY: the caller's promise; no size is zero, which would free the block in some
        // allocators.
        NonNull::new(
            unsafe { self.0.realloc(block.address.as_ptr().cast(), new_size.max(1)) }.cast(),
        )
    }

    #[inline(always)]
    unsafe fn usable_size(&self, block: Block) -> Option<usize> {
        // SAFETY: the caller's promise.
        Some(unsafe { self.0.usable_size(block.address.as_ptr().cast()) })
    }
}

impl<M: Malloc> Heap for System<M> {
    fn version(&self) -> String {
        self.0.version()
    }

    fn footprint(&self) -> Footprint {
        self.0.footprint()
    }

    fn trim(&mut self) -> bool {
        self.0.trim()
    }

    /// A foreign allocator cannot be inspected.
    fn check(&self) -> Result<(), CheckError> {
        Ok(())
    }

    /// A foreign allocator cannot be inspected; it aborts by itself when it finds damage.
    fn check_deep(&self) -> Result<(), CheckError> {
        Ok(())
    }
}
