//! Instruction sets for reading lists. The best that the processor has is the default. A caller may
//! choose another, to measure an older machine, or to test that all sets give the same columns and
//! errors.

/// A way to find and convert numbers and strings. All give the same results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Instructions {
    /// Only instructions of Rust's target, for every processor.
    Portable,
    /// 16 bytes at a time; every x86-64 has it.
    Sse2,
    /// The same with SSSE3, SSE4.1 and the count of bits (x86-64-v2: Nehalem, Bulldozer).
    Sse4,
    /// 32 bytes at a time, with the bit instructions of the same processors (Haswell, Zen).
    Avx2,
    /// 64 bytes and eight numbers at a time: AVX-512 with VBMI2 (Ice Lake, Zen 4).
    Avx512,
    /// 16 bytes at a time; every aarch64 has it.
    Neon,
}

impl Instructions {
    /// All sets; among those of one processor, the best is last.
    pub const ALL: [Instructions; 6] = [
        Instructions::Portable,
        Instructions::Sse2,
        Instructions::Sse4,
        Instructions::Avx2,
        Instructions::Avx512,
        Instructions::Neon,
    ];

    /// The best that this processor has.
    pub fn best() -> Instructions {
        let usable =
            Instructions::ALL.into_iter().rev().find(|instructions| instructions.is_usable());
        usable.unwrap_or(Instructions::Portable)
    }

    /// Whether this processor has them.
    #[cfg(target_arch = "x86_64")]
    pub fn is_usable(self) -> bool {
        match self {
            Instructions::Portable | Instructions::Sse2 => true,
            Instructions::Sse4 => {
                std::arch::is_x86_feature_detected!("ssse3")
                    && std::arch::is_x86_feature_detected!("sse4.1")
                    && std::arch::is_x86_feature_detected!("popcnt")
            }
            Instructions::Avx2 => {
                std::arch::is_x86_feature_detected!("avx2")
                    && std::arch::is_x86_feature_detected!("bmi1")
                    && std::arch::is_x86_feature_detected!("bmi2")
                    && std::arch::is_x86_feature_detected!("lzcnt")
                    && std::arch::is_x86_feature_detected!("popcnt")
            }
            Instructions::Avx512 => super::ints::wide::usable(),
            Instructions::Neon => false,
        }
    }

    /// Whether this processor has them.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn is_usable(self) -> bool {
        self == Instructions::Portable
            || (cfg!(target_arch = "aarch64") && self == Instructions::Neon)
    }

    /// The wanted set if the processor has it, else its best.
    pub(crate) fn chosen(asked: Option<Instructions>) -> Instructions {
        asked.filter(|asked| asked.is_usable()).unwrap_or_else(Instructions::best)
    }
}
