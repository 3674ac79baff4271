//! Options of a space.

use crate::Error;
use crate::pool::shape::{GRANULE_LINES, Shape};
use heaplab_address_space::{CommitLimit, Faults, page_bytes};
use std::sync::Arc;
use std::time::Duration;

/// When memory that no arena uses goes back to the kernel.
///
/// Giving memory back costs a system call for each contiguous range, and a page fault a page when
/// it is used again. Keeping it costs memory. Under [`Reclaim::AtReturn`] a dying arena makes the
/// calls itself. [`Reclaim::Background`] is for programs that cannot wait, [`Reclaim::AtTrim`] for
/// programs that know the right moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// At an arena's death, once more than `keep_bytes` are idle; down to half of that.
    AtReturn {
        /// Idle bytes that may stay committed. If arenas die by the thousand and others soon take
        /// their place, a replay takes less than half the time when this covers the returning
        /// memory (`cargo xtask bench elastic --only replay`).
        keep_bytes: usize,
    },
    /// Only when [`Space::trim`](crate::Space::trim) is called.
    AtTrim,
    /// By a thread of the space, which wakes up every `interval` and leaves `keep_bytes`. A forked
    /// child starts its own thread when the first arena dies in it. If it cannot, each death gives
    /// back the excess over `keep_bytes`.
    Background {
        /// How long memory may lie idle, about; less than a millisecond becomes one.
        interval: Duration,
        /// Idle bytes that may stay committed.
        keep_bytes: usize,
    },
}

/// The background's shortest interval: with none it would never rest.
pub(crate) const INTERVAL_MIN: Duration = Duration::from_millis(1);

impl Default for Reclaim {
    fn default() -> Reclaim {
        Reclaim::AtReturn { keep_bytes: 256 << 10 }
    }
}

/// Aids against memory errors, all off by default. Any of them closes an arena's fast path. Then
/// each allocation is checked, and the checks keep their books apart from the blocks, so no overrun
/// misleads them. Off, they cost nothing.
///
/// An error that they find is a panic that names the block and its requested size. They look when a
/// block is given back (overrun, given back twice, or with another size, even by one byte), when
/// its memory is used again, and when the arena is reset or dies. An arena that dies with an error
/// keeps its memory for good, for inspection. [`Arena::check`](crate::Arena::check) looks at any
/// time and returns the error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debug {
    /// Known bytes behind each block, from its last byte on: eight at least; with guard pages those
    /// that its alignment leaves.
    pub canaries: bool,
    /// An inaccessible page behind each block, which has a chunk of its own: a write beyond its end
    /// faults at once. The block ends directly at that page if its size is a multiple of its
    /// alignment, as every Rust type's is. Otherwise the bytes up to the next multiple stay
    /// writable, and canaries find such a write later.
    pub guard_pages: bool,
    /// Blocks are filled with `0xf5` when they are given back, or their arena dies or is reset; and
    /// looked at again, until something new lies there: a write to a block that is gone is found,
    /// with where it was.
    pub poison: bool,
    /// Nothing given back is used again while its arena lives.
    pub no_reuse: bool,
}

impl Debug {
    /// Whether any is on.
    pub(crate) fn any(&self) -> bool {
        self.canaries || self.guard_pages || self.poison || self.no_reuse
    }
}

/// Options of a space. Start from [`Options::default`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Address space to reserve, rounded up to whole roots; it takes no memory until it is used. If
    /// the system refuses the size, that is an error, except for the default,
    /// [`Options::RESERVE_BYTES`]. The space divides it among shards, one a processor and at most
    /// eight, unless it has less than 16 roots. The first shard has at least seven eighths, and so
    /// much is the largest possible block. Limit: less than 2^31 64ths of a granule, which is 128
    /// GB with one of 4 KB, and in proportion with a larger one. Default: 64 GB, or as much as the
    /// system grants.
    pub reserve_bytes: usize,
    /// The largest buddy chunk, a power of two of at least 64 granules. Larger blocks take several.
    /// Default 16 MB.
    pub root_bytes: usize,
    /// The unit of committing and giving back, a power of two of at least a page. Small chunks are
    /// made of 64ths of it, so a larger granule makes fewer system calls and wastes more. Default:
    /// a page.
    pub granule_bytes: usize,
    /// When idle memory goes back.
    pub reclaim: Reclaim,
    /// Limit of committed bytes. Share one between spaces, or keep it to change it later. Before
    /// the space refuses a request, it gives its own idle memory back, but not that of other spaces
    /// with the same limit: use [`Reclaim::AtReturn`] with little to keep there, or
    /// [`trim`](crate::Space::trim) them and ask again. Default: no limit.
    pub limit: Option<Arc<CommitLimit>>,
    /// Ask the kernel for huge pages: several times faster to fill at first, but it then gives 2 MB
    /// for a byte, so that more is resident than committed until a trim splits them. mimalloc asks
    /// for them by default. Default: no.
    pub huge_pages: bool,
    /// Aids against memory errors.
    pub debug: Debug,
    /// Faults for tests.
    pub faults: Option<Arc<Faults>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            reserve_bytes: Options::RESERVE_BYTES,
            root_bytes: (16 << 20).max(page_bytes() * 256),
            granule_bytes: page_bytes(),
            reclaim: Reclaim::default(),
            limit: None,
            huge_pages: false,
            debug: Debug::default(),
            faults: None,
        }
    }
}

impl Options {
    /// The default of [`Options::reserve_bytes`], 64 GB, which stands for as much as the system
    /// grants. If the system refuses that many addresses (`ulimit -v`, valgrind), the space
    /// reserves half as many, and half again, until it gets them. It then leaves half of those to
    /// the rest of the program, but keeps at least a root.
    /// [`Report::reserved_bytes`](crate::Report::reserved_bytes) shows the result.
    pub const RESERVE_BYTES: usize = 64 << 30;

    /// The geometry these options ask for.
    pub(crate) fn shape(&self) -> Result<Shape, Error> {
        let wrong =
            |what, found, expected: &str| Error::Options { what, found, expected: expected.into() };
        if !self.granule_bytes.is_power_of_two() || self.granule_bytes < page_bytes() {
            return Err(wrong(
                "granule_bytes",
                self.granule_bytes,
                "a power of two of at least a page",
            ));
        }
        let least = self.granule_bytes.saturating_mul(64);
        if !self.root_bytes.is_power_of_two()
            || self.root_bytes < least
            || self.root_bytes > 1 << 40
        {
            return Err(wrong(
                "root_bytes",
                self.root_bytes,
                "a power of two of at least 64 granules and at most 1 TB",
            ));
        }
        // Lines are numbered with 31 bits, so that this much is too much.
        let too_many_bytes = (self.granule_bytes / GRANULE_LINES as usize).saturating_mul(1 << 31);
        let most_bytes = (too_many_bytes - 1) / self.root_bytes * self.root_bytes;
        if most_bytes == 0 {
            let expected = format!(
                "at most {} with a granule of {} bytes; a larger granule allows more",
                too_many_bytes / 2,
                self.granule_bytes
            );
            return Err(wrong("root_bytes", self.root_bytes, &expected));
        }
        if self.reserve_bytes == 0 || self.reserve_bytes > most_bytes {
            let expected = format!(
                "1 to {most_bytes} with a granule of {} bytes and roots of {}; a larger granule allows more",
                self.granule_bytes, self.root_bytes
            );
            return Err(wrong("reserve_bytes", self.reserve_bytes, &expected));
        }
        let roots = self.reserve_bytes.div_ceil(self.root_bytes);
        Ok(Shape::new(self.granule_bytes, self.root_bytes, roots)
            .expect("what a shape needs was checked"))
    }
}
