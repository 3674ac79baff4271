//! Growth policies: how large the chunks are that an arena takes one after another, as data.
//!
//! HotSpot's idea: loaders that are known to stay small get small chunks, the boot loader one of 4
//! MB. Here a chunk of up to a granule is a run of lines of any length, and is lengthened in place
//! in small steps while its neighbour is free.

/// A sequence of chunk sizes. The last size repeats, or an eighth of the arena's bytes if that is
/// more, so an arena of any size takes few chunks and wastes little.
///
/// Sizes are kept to 4 significant bits and rounded up to those (1000 becomes 1024, 1500 becomes
/// 1536).
///
/// ```
/// use heaplab_elastic::Growth;
/// let requests = Growth::new(&[1536, 256]);
/// assert_eq!([0, 1, 2, 9].map(|nth| requests.chunk_bytes(nth)), [1536, 256, 256, 256]);
/// ```
///
/// # How to choose
/// - Nothing is known, or kinds of arenas come and go: [`Growth::LEARNED`], the default.
/// - Most arenas have a known size (a request takes 3 KB): `Growth::new(&[3072, 256])`. A first
///   chunk that holds most of them is fastest. If the chunk is too large, the surplus stays
///   committed as long as the arena lives. [`Arena::statistics`](crate::Arena::statistics) shows
///   what arenas have and use.
/// - Arenas of a few dozen bytes by the ten thousand: `Growth::new(&[128])`. Each has 56 bytes of
///   its own besides its blocks.
/// - Time matters more than memory: [`Growth::FAST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Growth {
    /// `(8 + low 3 bits) << high 5 bits`; zero after the last. The last of all may be [`LEARNS`].
    codes: [u8; 8],
}

/// Marks [`Growth::LEARNED`]; no code of a size is that small.
const LEARNS: u8 = 1;
/// Least size of the later chunks of an arena that learns, unless an eighth of its bytes is more.
const LEARNED_BYTES_MIN: usize = 128;

impl Growth {
    /// Learns from the space's arenas of this growth. Each arena that outgrows its first chunk
    /// makes later first chunks larger; each new arena makes them a little smaller. About two
    /// thirds outgrow theirs, by a few lines if there is room beside them. First chunks have 256
    /// bytes to a granule. Every shard of a space begins with 512 and learns for itself. Arenas
    /// that are born by the thousand and then filled in turns teach nothing until all have their
    /// first chunk. The space recognises them when many outgrow that chunk without a birth in
    /// between. Then their chunks become larger: the fourth and fifth as large as the arena's
    /// bytes, later ones half of that, at most a granule. If you know the size, a fixed sequence
    /// serves better.
    pub const LEARNED: Growth = {
        let mut codes = Growth::new(&[512, LEARNED_BYTES_MIN]).codes;
        codes[7] = LEARNS;
        Growth { codes }
    };
    /// For arenas of a few hundred bytes: HotSpot's micro loaders.
    pub const MICRO: Growth = Growth::new(&[512, 192]);
    /// For arenas of one to a few kilobytes: requests, small documents, class loaders.
    pub const SMALL: Growth = Growth::new(&[1536, 192]);
    /// For arenas of a few kilobytes; some become much larger.
    pub const STANDARD: Growth = Growth::new(&[1024, 512, 512, 1024, 2048, 4096, 4096, 4096]);
    /// For time rather than memory: few chunks, and the larger ones are committed as they are used.
    /// Best with [`Reclaim::AtTrim`](crate::Reclaim::AtTrim). If the kinds of arenas are known
    /// beforehand, a sequence for each kind whose first chunk holds most of its arenas is faster
    /// still (`cargo xtask bench elastic --only replay`).
    pub const FAST: Growth = Growth::new(&[1024, 2048, 16 << 10, 32 << 10]);
    /// For arenas of megabytes.
    pub const LARGE: Growth = Growth::new(&[64 << 10, 256 << 10, 1 << 20, 4 << 20]);

    /// The first sizes, one to eight. Sizes below 128 bytes become 128, sizes above 1 GB 1 GB.
    ///
    /// # Panics
    /// If the slice is empty or has more than eight sizes.
    pub const fn new(chunk_bytes: &[usize]) -> Growth {
        assert!(
            !chunk_bytes.is_empty() && chunk_bytes.len() <= 8,
            "a growth policy has one to eight chunk sizes"
        );
        let mut codes = [0; 8];
        let mut nth = 0;
        while nth < chunk_bytes.len() {
            codes[nth] = encode(chunk_bytes[nth]);
            nth += 1;
        }
        Growth { codes }
    }

    /// The size of the n-th chunk, counted from 0. Of [`Growth::LEARNED`], the first one
    /// that is taken, and the least that others have.
    pub const fn chunk_bytes(&self, nth: usize) -> usize {
        let mut last = if nth < 8 { nth } else { 7 };
        while self.codes[last] <= LEARNS {
            last -= 1;
        }
        (8 + (self.codes[last] & 7) as usize) << (self.codes[last] >> 3)
    }

    /// Whether this is [`Growth::LEARNED`].
    pub(crate) const fn learns(&self) -> bool {
        self.codes[7] == LEARNS
    }

    /// The wanted size of the n-th chunk of an arena with `owned_bytes`.
    pub(crate) fn wanted_bytes(&self, nth: usize, owned_bytes: usize) -> usize {
        let policy = self.chunk_bytes(nth);
        let repeats = nth >= 7 || self.codes[nth] <= LEARNS;
        if repeats { policy.max(owned_bytes / 8) } else { policy }
    }
}

impl Default for Growth {
    fn default() -> Growth {
        Growth::LEARNED
    }
}

const fn encode(bytes: usize) -> u8 {
    let bytes = if bytes < 128 { 128 } else { bytes };
    let bytes = if bytes > 1 << 30 { 1 << 30 } else { bytes };
    let mut shift = bytes.ilog2() - 3;
    let mut mantissa = bytes.div_ceil(1 << shift);
    if mantissa == 16 {
        mantissa = 8;
        shift += 1;
    }
    (shift as u8) << 3 | (mantissa - 8) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_kept_or_rounded_up_by_an_eighth_at_most() {
        for bytes in (0..70_000).chain([1 << 20, (1 << 30) - 1, 1 << 30]) {
            let kept = Growth::new(&[bytes]).chunk_bytes(0);
            assert!(
                kept >= bytes && (bytes < 128 || kept <= bytes + bytes / 8),
                "{bytes} became {kept}"
            );
        }
        assert_eq!(Growth::new(&[usize::MAX]).chunk_bytes(3), 1 << 30);
    }

    #[test]
    fn the_policies_are_as_they_are_described() {
        let sizes = |growth: Growth| [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|nth| growth.chunk_bytes(nth));
        assert_eq!(sizes(Growth::MICRO)[..3], [512, 192, 192]);
        assert_eq!(sizes(Growth::SMALL)[..3], [1536, 192, 192]);
        assert_eq!(sizes(Growth::STANDARD), [1024, 512, 512, 1024, 2048, 4096, 4096, 4096, 4096]);
        assert_eq!(sizes(Growth::LARGE)[..5], [64 << 10, 256 << 10, 1 << 20, 4 << 20, 4 << 20]);
        assert_eq!(Growth::default(), Growth::LEARNED);
        assert_eq!(sizes(Growth::LEARNED), [512, 128, 128, 128, 128, 128, 128, 128, 128]);
    }

    #[test]
    fn the_last_size_repeats_until_an_eighth_of_the_arena_is_more() {
        let growth = Growth::new(&[128, 1024, 256]);
        assert_eq!(
            [0, 1, 2, 3, 100].map(|nth| growth.wanted_bytes(nth, 1000)),
            [128, 1024, 256, 256, 256]
        );
        assert_eq!(
            [0, 1, 2, 3, 100].map(|nth| growth.wanted_bytes(nth, 80_000)),
            [128, 1024, 256, 10_000, 10_000]
        );
    }
}
