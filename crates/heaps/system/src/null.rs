//! The heap that does nothing: a replay on it costs only the driver's own work.
//!
//! Every block is the same memory: a window as long as the program's largest block, made of one
//! small piece of shared memory mapped again and again. A driver's stores to it hit the cache, and
//! its pages are never anonymous memory; so the window weighs nothing in the space that is
//! subtracted from other heaps.

use heaplab_heap::{Block, CheckError, Footprint, Heap, Manual, Request};
use std::ptr::NonNull;

/// Bytes of the shared piece: within the second-level cache, and few maps for large windows.
const PIECE_BYTES: usize = 256 * 1024;
/// A process may have 65,530 maps by default; this leaves room for everything else.
const PIECES_MAX: usize = 60_000;

/// Gives the same block for every request.
#[derive(Clone, Copy, Debug)]
pub struct Null {
    window: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the window is never unmapped and nothing reads it; stores of several threads have no
// meaning.
unsafe impl Send for Null {}

impl Null {
    /// A null heap for blocks of up to `block_size_max` bytes. Larger requests fail as in a real
    /// heap.
    pub fn new(block_size_max: u64) -> std::io::Result<Null> {
        let pieces = (block_size_max as usize).div_ceil(PIECE_BYTES).clamp(1, PIECES_MAX);
        let bytes = pieces * PIECE_BYTES;
        let error = std::io::Error::last_os_error;
        // SAFETY: plain system calls; every result is checked, and the fixed maps lie inside the
        // reservation just made.
        unsafe {
            let file = libc::memfd_create(c"heaplab-null".as_ptr(), libc::MFD_CLOEXEC);
            if file < 0 || libc::ftruncate(file, PIECE_BYTES as libc::off_t) != 0 {
                return Err(error());
            }
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let window = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0);
            if window == libc::MAP_FAILED {
                return Err(error());
            }
            for piece in 0..pieces {
                let at = window.byte_add(piece * PIECE_BYTES);
                let (access, flags) = (
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE,
                );
                if libc::mmap(at, PIECE_BYTES, access, flags, file, 0) == libc::MAP_FAILED {
                    return Err(error());
                }
            }
            libc::close(file);
            let window = NonNull::new(window.cast()).ok_or_else(error)?;
            Ok(Null { window, bytes })
        }
    }
}

impl Manual for Null {
    const SIZED: bool = false;

    #[inline(always)]
    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        (request.size <= self.bytes).then_some(self.window)
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, _block: Block) {}

    #[inline(always)]
    unsafe fn reallocate(&mut self, _block: Block, new_size: usize) -> Option<NonNull<u8>> {
        (new_size <= self.bytes).then_some(self.window)
    }

    #[inline(always)]
    unsafe fn usable_size(&self, _block: Block) -> Option<usize> {
        None
    }
}

impl Heap for Null {
    fn version(&self) -> String {
        String::new()
    }

    fn footprint(&self) -> Footprint {
        Footprint { committed_bytes: Some(0), ..Footprint::default() }
    }

    fn check(&self) -> Result<(), CheckError> {
        Ok(())
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_as_large_as_the_largest_may_be_written_end_to_end() {
        let mut heap = Null::new(3 * PIECE_BYTES as u64 + 5).unwrap();
        let size = 3 * PIECE_BYTES + 5;
        let block = heap.allocate(Request::of(size)).unwrap();
        // SAFETY: the window holds this many bytes.
        unsafe { block.write_bytes(7, size) };
        assert_eq!(heap.allocate(Request::of(5 * PIECE_BYTES)), None);
    }
}
