//! xoshiro256** 1.0 (Blackman, Vigna 2018), seeded by splitmix64 as its authors advise. Written
//! here because the numbers may never change: a bundle's name contains its seed.

/// The generator.
#[derive(Clone, Debug)]
pub struct Random([u64; 4]);

impl Random {
    /// The numbers of `seed`.
    pub fn new(seed: u64) -> Random {
        let mut state = seed;
        Random([(); 4].map(|()| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `limit`, which is not 0. Probabilities are equal to within 2^-64 x limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// True in `parts` of a million cases.
    pub fn chance(&mut self, parts: u64) -> bool {
        self.below(1_000_000) < parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_authors() {
        // xoshiro256** from the state 1, 2, 3, 4: the reference implementation's first numbers.
        let mut random = Random([1, 2, 3, 4]);
        let first: Vec<u64> = (0..4).map(|_| random.bits()).collect();
        assert_eq!(first, [11520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
        // splitmix64 from 0.
        assert_eq!(Random::new(0).0[0], 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn chances_are_met() {
        let mut random = Random::new(3);
        let hits = (0..1_000_000).filter(|_| random.chance(250_000)).count();
        assert!((248_000..252_000).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| random.below(7) < 7) && (0..1000).all(|_| random.below(1) == 0));
    }
}
