//! Size-class tables of published allocators, as data: the usable bytes of a block for each
//! requested size.
//!
//! They give the cost of a request on an allocator without running it. A table describes a *fresh*
//! heap; a measured usable size always wins over it, because glibc hands out leftovers of splits.
//! The tests compare the tables with the real libraries, size by size.
//!
//! ```
//! use heaplab_size_class::Allocator;
//!
//! assert_eq!(Allocator::Firefox2011.usable(1_048_578, 1), 2_097_152);
//! assert_eq!(Allocator::Jemalloc.usable(4_104, 1), 5_120);
//! // The largest request of the class below wastes nothing.
//! assert_eq!(Allocator::Jemalloc.class(4_104).below, Some(4_096));
//! ```

#![forbid(unsafe_code)]

mod strategy;
mod tables;

pub use strategy::{Class, Classes, Segment, Spacing, Strategy};

/// The allocators with a table, in display order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Allocator {
    /// glibc 2.26 and later, 64 bits: the minimum of a fresh heap.
    Glibc,
    /// jemalloc 5.3.1, 4 KiB pages: the version in heaplab's replays.
    Jemalloc,
    /// jemalloc 5.3.0, 4 KiB pages: the version of distributions. It differs from 32 KiB on.
    Jemalloc530,
    /// mimalloc 3.3: the version in heaplab's replays.
    Mimalloc,
    /// mimalloc 2.0, of Debian 12. It differs from 128 KiB on.
    Mimalloc2,
    /// The jemalloc of Firefox in 2011.
    Firefox2011,
    /// Mac OS X 10.8, 64 bits, with 1 GiB of memory or more. The table is checked against published
    /// sources; it was never measured here.
    Macos,
}

impl Allocator {
    /// The allocators that every report compares.
    pub const ALL: [Allocator; 6] = [
        Allocator::Glibc,
        Allocator::Jemalloc,
        Allocator::Jemalloc530,
        Allocator::Mimalloc,
        Allocator::Mimalloc2,
        Allocator::Firefox2011,
    ];
    /// Allocators that a report takes only if a user names them.
    pub const NAMED: [Allocator; 1] = [Allocator::Macos];

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Allocator::Glibc => "glibc",
            Allocator::Jemalloc => "jemalloc",
            Allocator::Jemalloc530 => "jemalloc530",
            Allocator::Mimalloc => "mimalloc",
            Allocator::Mimalloc2 => "mimalloc2",
            Allocator::Firefox2011 => "firefox2011",
            Allocator::Macos => "macos",
        }
    }

    /// The table of a recorded allocator: the first word of `allocator` in `meta.json`.
    pub fn recorded(allocator: &str) -> Option<Allocator> {
        match allocator.split(' ').next()? {
            "glibc" => Some(Allocator::Glibc),
            "jemalloc" => Some(Allocator::Jemalloc),
            "mimalloc" => Some(Allocator::Mimalloc),
            _ => None,
        }
    }

    /// The heap of a replay that is nearest to it.
    pub const fn heap(self) -> &'static str {
        match self {
            Allocator::Glibc | Allocator::Macos => "glibc",
            Allocator::Jemalloc | Allocator::Jemalloc530 | Allocator::Firefox2011 => "jemalloc",
            Allocator::Mimalloc | Allocator::Mimalloc2 => "mimalloc",
        }
    }

    /// Its name in a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Allocator::Glibc => "glibc (least usable)",
            Allocator::Jemalloc => "jemalloc 5.3.1",
            Allocator::Jemalloc530 => "jemalloc 5.3.0",
            Allocator::Mimalloc => "mimalloc 3.3",
            Allocator::Mimalloc2 => "mimalloc 2.0",
            Allocator::Firefox2011 => "Firefox's 2011 jemalloc",
            Allocator::Macos => "Mac OS X 10.8 (not measured here)",
        }
    }

    /// The allocator with this name.
    pub fn from_name(name: &str) -> Option<Allocator> {
        Self::ALL.into_iter().chain(Self::NAMED).find(|allocator| allocator.name() == name)
    }

    /// Its table.
    pub const fn strategy(self) -> &'static Strategy {
        match self {
            Allocator::Glibc => &tables::GLIBC,
            Allocator::Jemalloc => &tables::JEMALLOC_5_3_1,
            Allocator::Jemalloc530 => &tables::JEMALLOC_5_3_0,
            Allocator::Mimalloc => &tables::MIMALLOC_3_3,
            Allocator::Mimalloc2 => &tables::MIMALLOC_2_0,
            Allocator::Firefox2011 => &tables::FIREFOX_2011,
            Allocator::Macos => &tables::MACOS_10_8,
        }
    }

    /// Usable bytes of a request of `size` bytes aligned to `align` (a power of two; 0 or 1: none
    /// requested). Saturates at `u64::MAX` for requests that no allocator grants.
    pub fn usable(self, size: u64, align: u64) -> u64 {
        self.strategy().usable(size, align)
    }

    /// The class of a request of `size` bytes.
    pub fn class(self, size: u64) -> Class {
        self.strategy().class(size)
    }

    /// The classes in order of size, without end.
    pub fn classes(self) -> Classes<'static> {
        self.strategy().classes()
    }
}
