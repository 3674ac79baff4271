//! The driver's policy of writing to blocks. A page becomes resident at its first write, so the
//! policy is part of every result about space.

use heaplab_heap::Request;
use serde::{Deserialize, Serialize};
use std::ptr::NonNull;
use std::str::FromStr;

/// The blocks that the driver writes to; decides what becomes resident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Touch {
    /// One store in every page of every block.
    All,
    /// As `All`, but blocks requested zeroed stay untouched: nothing proves that the program wrote
    /// them.
    #[default]
    Known,
    /// No block is written.
    None,
}

impl Touch {
    /// For the type parameter of the driver's loop, compiled once for each policy.
    pub const ALL: u8 = 0;
    /// The same for [`Touch::Known`].
    pub const KNOWN: u8 = 1;
    /// The same for [`Touch::None`].
    pub const NONE: u8 = 2;
}

impl FromStr for Touch {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Touch, &'static str> {
        match text {
            "all" => Ok(Touch::All),
            "known" => Ok(Touch::Known),
            "none" => Ok(Touch::None),
            _ => Err("all, known or none"),
        }
    }
}

const PAGE_BYTES: usize = 4096;

/// Writes to `block` by the policy: one byte in each page it covers.
///
/// # Safety
/// `block` is live and holds `request.size` bytes.
#[inline(always)]
pub(crate) unsafe fn touch<const POLICY: u8>(block: NonNull<u8>, request: Request) {
    if POLICY == Touch::NONE || (POLICY == Touch::KNOWN && request.zeroed) || request.size == 0 {
        return;
    }
    let last = request.size - 1;
    // SAFETY: `last` is the block's last byte. The stores are volatile: the compiler must keep them
    // although nobody reads them.
    unsafe {
        block.add(last).write_volatile(1);
        if last >= PAGE_BYTES {
            touch_pages(block, last);
        }
        block.write_volatile(1);
    }
}

/// # Safety
/// As for [`touch`]; `last` is the offset of the block's last byte.
#[inline(never)]
unsafe fn touch_pages(block: NonNull<u8>, last: usize) {
    for offset in (PAGE_BYTES..last).step_by(PAGE_BYTES) {
        // SAFETY: the offset lies before the block's last byte.
        unsafe { block.add(offset).write_volatile(1) };
    }
}
