//! Levels and sizes: level 0 is the root chunk, every further level half as large.
//!
//! A chunk's offset is a multiple of its size. Two chunks of one level that make up a chunk of the
//! level above are buddies; the one at the lower offset leads. HotSpot 17 has 15 levels from 16 MB
//! to 1 KB, HotSpot 16 and the document 13 from 4 MB.

/// A chunk's level: 0 is the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Level(pub u8);

impl Level {
    /// The root chunk's.
    pub const ROOT: Level = Level(0);

    /// As an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Twice as large. The root's level has none.
    #[inline]
    pub const fn larger(self) -> Option<Level> {
        match self.0.checked_sub(1) {
            Some(level) => Some(Level(level)),
            None => None,
        }
    }

    /// Half as large; the geometry may lack this level.
    #[inline]
    pub const fn smaller(self) -> Level {
        Level(self.0 + 1)
    }
}

/// Why sizes make no geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "chunks of {smallest_bytes} to {root_bytes} bytes: expected powers of two, 1 < smallest <= largest < 2^48"
)]
pub struct GeometryError {
    /// As requested.
    pub root_bytes: usize,
    /// As requested.
    pub smallest_bytes: usize,
}

/// The sizes of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    root_log2: u8,
    smallest_log2: u8,
}

impl Geometry {
    /// Chunks from `smallest_bytes` to `root_bytes`, both powers of two.
    pub const fn new(root_bytes: usize, smallest_bytes: usize) -> Result<Geometry, GeometryError> {
        let powers = root_bytes.is_power_of_two() && smallest_bytes.is_power_of_two();
        if !powers || smallest_bytes < 2 || smallest_bytes > root_bytes || root_bytes >= 1 << 48 {
            return Err(GeometryError { root_bytes, smallest_bytes });
        }
        Ok(Geometry {
            root_log2: root_bytes.trailing_zeros() as u8,
            smallest_log2: smallest_bytes.trailing_zeros() as u8,
        })
    }

    /// Bytes of a root chunk.
    #[inline]
    pub const fn root_bytes(self) -> usize {
        1 << self.root_log2
    }

    /// Bytes of the smallest chunk.
    #[inline]
    pub const fn smallest_bytes(self) -> usize {
        1 << self.smallest_log2
    }

    /// Number of levels.
    #[inline]
    pub const fn levels(self) -> usize {
        (self.root_log2 - self.smallest_log2) as usize + 1
    }

    /// The level of the smallest chunks.
    #[inline]
    pub const fn smallest(self) -> Level {
        Level(self.root_log2 - self.smallest_log2)
    }

    /// Every level, the largest first.
    pub fn all(self) -> impl DoubleEndedIterator<Item = Level> {
        (0..=self.smallest().0).map(Level)
    }

    /// Bytes of a chunk of `level`, a level of the geometry.
    #[inline]
    pub const fn bytes(self, level: Level) -> usize {
        debug_assert!(level.0 <= self.smallest().0);
        1 << (self.root_log2 - level.0)
    }

    /// The level of the smallest chunk that fits `bytes`; `None`: more than a root chunk.
    #[inline]
    pub const fn level_fitting(self, bytes: usize) -> Option<Level> {
        if bytes > self.root_bytes() {
            return None;
        }
        let bytes = if bytes < self.smallest_bytes() { self.smallest_bytes() } else { bytes };
        let log2 = usize::BITS - (bytes - 1).leading_zeros();
        Some(Level(self.root_log2 - log2 as u8))
    }

    /// Whether the chunk of `level` at `offset` is the first of its buddy pair. A root chunk has no
    /// buddy and leads.
    #[inline]
    pub const fn leads(self, offset: u64, level: Level) -> bool {
        level.0 == 0 || offset & self.bytes(level) as u64 == 0
    }

    /// Offset of the buddy of the chunk of `level` at `offset`; `None` for a root chunk.
    #[inline]
    pub const fn buddy(self, offset: u64, level: Level) -> Option<u64> {
        if level.0 == 0 { None } else { Some(offset ^ self.bytes(level) as u64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOTSPOT_17: Geometry = match Geometry::new(16 << 20, 1 << 10) {
        Ok(geometry) => geometry,
        Err(_) => panic!("powers of two"),
    };

    #[test]
    fn hotspot_has_fifteen_levels_from_sixteen_megabytes_to_one_kilobyte() {
        assert_eq!((HOTSPOT_17.levels(), HOTSPOT_17.smallest()), (15, Level(14)));
        assert_eq!(
            (HOTSPOT_17.bytes(Level::ROOT), HOTSPOT_17.bytes(Level(14))),
            (16 << 20, 1 << 10)
        );
        assert_eq!(Geometry::new(4 << 20, 1 << 10).unwrap().levels(), 13);
    }

    #[test]
    fn the_fitting_level_is_the_smallest_that_holds_it() {
        let cases =
            [(0, 14), (1, 14), (1024, 14), (1025, 13), (4096, 12), (4097, 11), (16 << 20, 0)];
        for (bytes, level) in cases {
            assert_eq!(HOTSPOT_17.level_fitting(bytes), Some(Level(level)), "{bytes}");
        }
        assert_eq!(HOTSPOT_17.level_fitting((16 << 20) + 1), None);
        assert_eq!(HOTSPOT_17.level_fitting(usize::MAX), None);
    }

    #[test]
    fn buddies_find_each_other_and_one_of_them_leads() {
        for level in HOTSPOT_17.all().skip(1) {
            let bytes = HOTSPOT_17.bytes(level) as u64;
            for offset in [0, bytes, 2 * bytes, 3 * bytes] {
                let buddy = HOTSPOT_17.buddy(offset, level).unwrap();
                assert_eq!(HOTSPOT_17.buddy(buddy, level), Some(offset));
                assert_ne!(HOTSPOT_17.leads(offset, level), HOTSPOT_17.leads(buddy, level));
                assert_eq!(HOTSPOT_17.leads(offset, level), offset < buddy);
            }
        }
        assert_eq!(
            (HOTSPOT_17.buddy(0, Level::ROOT), HOTSPOT_17.leads(16 << 20, Level::ROOT)),
            (None, true)
        );
    }

    #[test]
    fn sizes_that_are_no_powers_of_two_are_refused() {
        for (root, smallest) in [
            (0, 0),
            (3 << 20, 1 << 10),
            (1 << 20, 1000),
            (1 << 10, 1 << 20),
            (1 << 20, 1),
            (1 << 48, 1 << 10),
        ] {
            assert!(Geometry::new(root, smallest).is_err(), "{root} {smallest}");
        }
        assert_eq!(Geometry::new(1024, 1024).unwrap().levels(), 1);
    }
}
