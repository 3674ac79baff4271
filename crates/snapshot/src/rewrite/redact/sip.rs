//! SipHash-2-4 with a 128-bit key: what stands for a string cannot be computed, nor guessed and checked, without the key.
//!
//! Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012); the tests are theirs.

/// The hash of `text` under `key`.
pub(super) fn hash(key: [u64; 2], text: &[u8]) -> u64 {
    let mut state =
        [key[0] ^ 0x736f_6d65_7073_6575, key[1] ^ 0x646f_7261_6e64_6f6d, key[0] ^ 0x6c79_6765_6e65_7261, key[1] ^ 0x7465_6462_7974_6573];
    let mut pieces = text.chunks_exact(8);
    for piece in &mut pieces {
        absorb(&mut state, u64::from_le_bytes(piece.try_into().unwrap_or_default()));
    }
    let mut last = [0; 8];
    last[..pieces.remainder().len()].copy_from_slice(pieces.remainder());
    absorb(&mut state, u64::from_le_bytes(last) | (text.len() as u64) << 56);
    state[2] ^= 0xff;
    for _ in 0..4 {
        round(&mut state);
    }
    state.into_iter().fold(0, |all, word| all ^ word)
}

fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    round(state);
    state[0] ^= word;
}

fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_authors_vectors() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let text: Vec<u8> = (0..15).collect();
        // The paper's example, and the first rows of its table.
        assert_eq!(super::hash(key, &text), 0xa129_ca61_49be_45e5);
        assert_eq!(super::hash(key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(super::hash(key, &text[..1]), 0x74f8_39c5_93dc_67fd);
        assert_eq!(super::hash(key, &text[..8]), 0x93f5_f579_9a93_2462);
    }
}
