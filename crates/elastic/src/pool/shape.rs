//! The geometry of a space: lines, granules, regions, roots, and how their numbers turn into each
//! other.
//!
//! ```text
//! root     16 MB   a part of the reservation; the largest chunk, level 0 of the buddy tree
//! region   256 KB  64 granules; a buddy chunk that is handed out granule by granule
//! granule  4 KB    64 lines; the unit of committing and giving back (at least a page)
//! line     64 B    the unit of small chunks
//! ```
//! HotSpot's smallest chunk is 1 KB and its granule 16 or 64 KB, so that up to 64 chunks pin a
//! granule together; here a granule is a page wherever it can be, and small chunks are runs of
//! lines of any length instead of powers of two.

use heaplab_buddy::Geometry;
use std::ops::Range;

/// Lines a granule has, one bit each.
pub const GRANULE_LINES: u32 = 64;
/// Granules a region has, one bit each.
pub const REGION_GRANULES: u32 = 64;

/// Sizes of a space, all powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub(super) granule_log2: u32,
    /// Chunks of the buddy tree, from a root down to two granules.
    pub geometry: Geometry,
    /// Whole roots that are reserved.
    pub roots: usize,
}

impl Shape {
    /// A space of `roots` roots of `root_bytes` in granules of `granule_bytes`; the caller has
    /// checked them.
    pub fn new(granule_bytes: usize, root_bytes: usize, roots: usize) -> Option<Shape> {
        let smallest = granule_bytes.checked_mul(2)?;
        let lines =
            root_bytes.checked_mul(roots)? / (granule_bytes / GRANULE_LINES as usize).max(1);
        let fits = granule_bytes >= 64 * 8
            && root_bytes >= granule_bytes * REGION_GRANULES as usize
            && lines < 1 << 31;
        let geometry = Geometry::new(root_bytes, smallest)
            .ok()
            .filter(|_| fits && granule_bytes.is_power_of_two() && roots > 0)?;
        Some(Shape { granule_log2: granule_bytes.trailing_zeros(), geometry, roots })
    }

    /// The same with so many roots.
    pub fn with_roots(self, roots: usize) -> Shape {
        Shape { roots, ..self }
    }

    /// Bytes of a granule.
    #[inline]
    pub fn granule_bytes(&self) -> usize {
        1 << self.granule_log2
    }

    /// Bytes of a line.
    #[inline]
    pub fn line_bytes(&self) -> usize {
        1 << self.line_log2()
    }

    /// Its logarithm. Everything here is a power of two, and a division takes several times as long
    /// as a shift.
    #[inline]
    pub fn line_log2(&self) -> u32 {
        self.granule_log2 - GRANULE_LINES.trailing_zeros()
    }

    /// Up to whole granules.
    #[inline]
    pub fn whole_granules(&self, bytes: usize) -> usize {
        (bytes + self.granule_bytes() - 1) & !(self.granule_bytes() - 1)
    }

    /// Bytes of a region.
    #[inline]
    pub fn region_bytes(&self) -> usize {
        self.granule_bytes() * REGION_GRANULES as usize
    }

    /// Bytes of a root.
    #[inline]
    pub fn root_bytes(&self) -> usize {
        self.geometry.root_bytes()
    }

    /// Bytes of everything.
    pub fn reserved_bytes(&self) -> usize {
        self.root_bytes() * self.roots
    }

    /// Where a line begins.
    #[inline]
    pub fn line_offset(&self, line: u32) -> usize {
        (line as usize) << self.line_log2()
    }

    /// Lines that hold `bytes`.
    #[inline]
    pub fn lines_for(&self, bytes: usize) -> usize {
        (bytes >> self.line_log2()) + usize::from(bytes & (self.line_bytes() - 1) != 0)
    }

    /// The bytes of `count` granules from `granule` on.
    pub fn granules(&self, granule: u32, count: u32) -> Range<usize> {
        let start = granule as usize * self.granule_bytes();
        start..start + count as usize * self.granule_bytes()
    }
}
