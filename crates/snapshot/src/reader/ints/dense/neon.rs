//! Usual blocks with NEON, two texts in a vector.
//!
//! As with SSE2 a text is turned round, so that the digits that end it are its lowest bytes.
//! Neighbours are multiplied by their weights and added, three times: pairs of bytes, of 16 and of
//! 32 bits.

use super::{BLOCK, Digits};
use crate::reader::blocks::{Masks, Neon};
use std::arch::aarch64::*;

impl Digits for Neon {
    #[inline(always)]
    fn commas(block: &[u8; BLOCK]) -> Option<u64> {
        // SAFETY: NEON is part of every aarch64 that Rust's targets with a standard library know;
        // the loads are within the 64 bytes of the block.
        let usual = unsafe {
            let mut usual = vdupq_n_u8(0xff);
            for lane in 0..4 {
                let text = vld1q_u8(block.as_ptr().add(16 * lane));
                let digits = vcltq_u8(vsubq_u8(text, vdupq_n_u8(b'0')), vdupq_n_u8(10));
                usual = vandq_u8(usual, vorrq_u8(digits, vceqq_u8(text, vdupq_n_u8(b','))));
            }
            vminvq_u8(usual) == 0xff
        };
        usual.then(|| Neon::equal(block, b','))
    }

    #[inline(always)]
    fn numbers(texts: &mut [u64]) {
        let (pairs, rest) = texts.as_chunks_mut::<2>();
        for pair in pairs {
            two(pair);
        }
        if let [text] = rest {
            let mut last = [*text, 0];
            two(&mut last);
            *text = last[0];
        }
    }
}

#[inline(always)]
fn two(texts: &mut [u64; 2]) {
    // SAFETY: NEON is part of every aarch64 as above; the load and the store are within the two
    // texts.
    unsafe {
        let text = vrev64q_u8(vreinterpretq_u8_u64(vld1q_u64(texts.as_ptr())));
        let values = vsubq_u8(text, vdupq_n_u8(b'0'));
        let others = vreinterpretq_u64_u8(vcgtq_u8(values, vdupq_n_u8(9)));
        let within = vbicq_u64(vsubq_u64(others, vdupq_n_u64(1)), others);
        let digits = vandq_u8(values, vreinterpretq_u8_u64(within));
        let pairs = vpaddlq_u8(vmulq_u8(digits, vreinterpretq_u8_u16(vdupq_n_u16(0x0a01))));
        let fours = vpaddlq_u16(vmulq_u16(pairs, vreinterpretq_u16_u32(vdupq_n_u32(0x0064_0001))));
        let numbers =
            vpaddlq_u32(vmulq_u32(fours, vreinterpretq_u32_u64(vdupq_n_u64(10_000 << 32 | 1))));
        vst1q_u64(texts.as_mut_ptr(), numbers);
    }
}
