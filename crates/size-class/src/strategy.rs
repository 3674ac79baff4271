//! A size-class table as plain data, and queries on it.
//!
//! A table is a list of segments, each with its own spacing. A class is described by its largest
//! request and its usable bytes. These are equal everywhere except in glibc's mapped chunks, which
//! lose eight unusable bytes.

const PAGE: u64 = 4096;

/// An allocator's rounding of requests.
#[derive(Debug)]
pub struct Strategy {
    /// From the smallest to the largest; the last one is unbounded.
    pub segments: &'static [Segment],
    /// Bytes that the allocator keeps before or after each block. They are not slop, because nobody
    /// may use them; reports show them separately.
    pub header_bytes: u64,
    /// Alignment that every block of at least this size has anyway.
    pub natural_align: u64,
    /// Blocks from this size on are made of whole pages. The allocator aligns them by moving their
    /// start: an alignment costs no rounding, but a request aligned to more than a page gets at
    /// least this size. 0: no such rule; sizes are rounded up to the alignment (the least that any
    /// allocator must give).
    pub page_aligned_least: u64,
}

/// Requests up to a limit, with one rounding.
#[derive(Debug)]
pub struct Segment {
    /// Largest request of the segment.
    pub largest_request: u64,
    /// The rounding here.
    pub spacing: Spacing,
}

/// The rounding of a segment's requests.
#[derive(Debug)]
pub enum Spacing {
    /// Up to the next of these.
    Listed(&'static [u64]),
    /// Requests up to `k * step - before` get `k * step - lost` usable bytes, for whole `k`.
    Every {
        /// Distance of classes.
        step: u64,
        /// Distance of a class's largest request below the multiple of `step`.
        before: u64,
        /// Distance of the usable size below the multiple of `step`.
        lost: u64,
    },
    /// To evenly spaced classes in each doubling; their number is a power of two.
    PerDoubling(u64),
}

/// A size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Largest request of the class below; `None`: the smallest class.
    pub below: Option<u64>,
    /// Largest request of this class.
    pub largest_request: u64,
    /// Usable bytes.
    pub usable: u64,
}

impl Spacing {
    /// Largest request and usable bytes of the class of `size`.
    fn class(&self, size: u64) -> (u64, u64) {
        match *self {
            Spacing::Listed(classes) => {
                let class =
                    classes[classes.partition_point(|class| *class < size).min(classes.len() - 1)];
                (class, class)
            }
            Spacing::Every { step, before, lost } => {
                match size
                    .checked_add(before)
                    .and_then(|gross| gross.checked_next_multiple_of(step))
                {
                    Some(gross) => (gross - before, gross - lost),
                    None => (u64::MAX, u64::MAX),
                }
            }
            Spacing::PerDoubling(classes) => {
                let step = (1u64 << (size - 1).ilog2()) / classes;
                let class = size.checked_next_multiple_of(step).unwrap_or(u64::MAX);
                (class, class)
            }
        }
    }
}

impl Strategy {
    fn segment(&self, size: u64) -> usize {
        self.segments
            .partition_point(|segment| segment.largest_request < size)
            .min(self.segments.len() - 1)
    }

    /// The class of a request of `size` bytes.
    pub fn class(&self, size: u64) -> Class {
        let index = self.segment(size);
        let (largest_request, usable) = self.segments[index].spacing.class(size);
        let below = self.below(index, size);
        Class {
            below,
            largest_request: largest_request.min(self.segments[index].largest_request),
            usable,
        }
    }

    /// Usable bytes alone, for the hot path.
    fn usable_of(&self, size: u64) -> u64 {
        self.segments[self.segment(size)].spacing.class(size).1
    }

    fn below(&self, index: usize, size: u64) -> Option<u64> {
        let floor = index.checked_sub(1).map(|before| self.segments[before].largest_request);
        let within = match self.segments[index].spacing {
            Spacing::Listed(classes) => classes
                .partition_point(|class| *class < size)
                .checked_sub(1)
                .map(|index| classes[index]),
            Spacing::Every { step, before, .. } => (size.saturating_add(before).div_ceil(step) - 1)
                .checked_mul(step)
                .and_then(|gross| gross.checked_sub(before)),
            Spacing::PerDoubling(classes) => {
                let step = (1u64 << (size - 1).ilog2()) / classes;
                Some((size - 1) / step * step)
            }
        };
        match (within.filter(|below| *below > 0), floor) {
            (Some(within), Some(floor)) => Some(within.max(floor)),
            (within, floor) => within.or(floor),
        }
    }

    /// Usable bytes of a request; see [`crate::Allocator::usable`].
    pub fn usable(&self, size: u64, align: u64) -> u64 {
        if align <= self.natural_align {
            return self.usable_of(size);
        }
        let rounded = size.max(1).checked_next_multiple_of(align).unwrap_or(u64::MAX);
        let usable = self.usable_of(rounded);
        if self.page_aligned_least == 0 || (align <= PAGE && usable < self.page_aligned_least) {
            return usable;
        }
        self.usable_of(size.max(self.page_aligned_least))
    }

    /// The classes in order of size, without end.
    pub fn classes(&self) -> Classes<'_> {
        Classes { strategy: self, next: Some(0) }
    }
}

/// The classes of a table, from the smallest.
#[derive(Debug)]
pub struct Classes<'a> {
    strategy: &'a Strategy,
    next: Option<u64>,
}

impl Iterator for Classes<'_> {
    type Item = Class;

    fn next(&mut self) -> Option<Class> {
        let class = self.strategy.class(self.next?);
        self.next = class.largest_request.checked_add(1);
        Some(class)
    }
}
