//! Invariants: blocks lie end to end, the free list is in address order and matches the counts.

use crate::facts::{ALIGN_BYTES, Header, State};
use crate::mark_sweep::MarkSweep;
use heaplab_heap::CheckError;

fn broken(place: impl Into<String>, expected: impl ToString, found: impl ToString) -> CheckError {
    CheckError { place: place.into(), expected: expected.to_string(), found: found.to_string() }
}

/// Every byte below `top` is in one block; returns the bytes in objects.
pub fn end_to_end(top: usize, header: impl Fn(usize) -> Header) -> Result<u64, CheckError> {
    let (mut offset, mut used) = (0_usize, 0);
    while offset < top {
        let here = header(offset);
        let left = (top - offset) as u64;
        if here.bytes == 0 || here.bytes > left || !here.bytes.is_multiple_of(ALIGN_BYTES as u64) {
            return Err(broken(
                format!("block at offset {offset}"),
                format!("a multiple of 16 up to {left}"),
                here.bytes,
            ));
        }
        if here.state == State::Marked {
            return Err(broken(
                format!("block at offset {offset}"),
                "no mark between collections",
                "a mark",
            ));
        }
        used += if here.state == State::White { here.bytes } else { 0 };
        offset += here.bytes as usize;
    }
    Ok(used)
}

/// Used and free bytes add up to all bytes below the top.
pub fn counts(heap: &MarkSweep) -> Result<(), CheckError> {
    let known = heap.used_bytes + heap.free_bytes;
    if known == heap.top as u64 {
        Ok(())
    } else {
        Err(broken("used and free bytes", heap.top, known))
    }
}

/// The free list holds every free block once, in address order.
pub fn blocks(heap: &MarkSweep) -> Result<(), CheckError> {
    let used = end_to_end(heap.top, |offset| heap.header(offset))?;
    if used != heap.used_bytes {
        return Err(broken("used bytes", used, heap.used_bytes));
    }
    let (mut here, mut last, mut free) = (heap.first_free, None, 0);
    while let Some(offset) = here {
        if last.is_some_and(|last| last >= offset) || offset >= heap.top {
            return Err(broken(
                "free list",
                "blocks in address order",
                format!("offset {offset} behind {last:?}"),
            ));
        }
        free += heap.header(offset).bytes;
        (last, here) = (Some(offset), heap.next_free(offset));
    }
    if free == heap.free_bytes {
        counts(heap)
    } else {
        Err(broken("free list", heap.free_bytes, free))
    }
}
