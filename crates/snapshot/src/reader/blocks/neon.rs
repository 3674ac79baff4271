//! The masks by four comparisons of 16 bytes with NEON, part of every aarch64 that Rust knows. NEON
//! cannot gather one bit a byte. So each byte keeps the bit of its place in eight, and neighbours
//! are added until eight bytes are one.

use super::{BLOCK, Masks};
use std::arch::aarch64::*;

/// 16 bytes at a time.
pub(crate) struct Neon;

#[inline(always)]
fn by_16(block: &[u8; BLOCK], compare: impl Fn(uint8x16_t) -> uint8x16_t) -> u64 {
    const PLACES: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
    // SAFETY: NEON is part of every aarch64; the loads are of the array's 16 bytes, and within the
    // 64 of the block (lane < 4).
    unsafe {
        let places = vld1q_u8(PLACES.as_ptr());
        let lane = |lane: usize| vandq_u8(compare(vld1q_u8(block.as_ptr().add(16 * lane))), places);
        let halves = vpaddq_u8(vpaddq_u8(lane(0), lane(1)), vpaddq_u8(lane(2), lane(3)));
        vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(halves, halves)))
    }
}

impl Masks for Neon {
    #[inline(always)]
    fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
        // SAFETY: NEON is part of every aarch64.
        by_16(block, |lane| unsafe { vceqq_u8(lane, vdupq_n_u8(byte)) })
    }

    #[inline(always)]
    fn at_most(block: &[u8; BLOCK], byte: u8) -> u64 {
        // SAFETY: NEON is part of every aarch64.
        by_16(block, |lane| unsafe { vcleq_u8(lane, vdupq_n_u8(byte)) })
    }

    #[inline(always)]
    fn digits(block: &[u8; BLOCK]) -> u64 {
        // SAFETY: NEON is part of every aarch64.
        by_16(block, |lane| unsafe { vcleq_u8(vsubq_u8(lane, vdupq_n_u8(b'0')), vdupq_n_u8(9)) })
    }
}
