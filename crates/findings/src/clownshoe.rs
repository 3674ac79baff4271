//! A clownshoe as evidence: sizes a few bytes over a class, for one reason.

use crate::Saving;
use crate::finding::Kind;
use heaplab_profile::Amount;
use serde::Serialize;

/// Requests a few bytes over a size class.
pub const CLOWNSHOES: Kind = Kind {
    name: "clownshoes",
    title: "Clownshoes",
    hint: "Requests a few bytes over a size class",
    counts: "request",
    share_bytes: "of slop over the run",
    total_bytes: "over the run",
};

/// Requests a few bytes over a class, for one reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Clownshoe {
    /// Why so many bytes were probably asked for.
    pub cause: Cause,
    /// Whether it costs only on another allocator than the one recorded under, as measured there.
    pub elsewhere: bool,
    /// The sizes, by bytes that a change would save; at least one, at most
    /// `Options::sizes_per_finding`.
    pub sizes: Vec<ShoeSize>,
    /// How many sizes there are in all.
    pub size_count: u64,
}

impl Clownshoe {
    /// The size that would save most.
    pub fn first(&self) -> ShoeSize {
        self.sizes.first().copied().unwrap_or_default()
    }
}

/// One size of a [`Clownshoe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct ShoeSize {
    /// Bytes asked for.
    pub request: u64,
    /// Bytes over `free_request`.
    pub over_bytes: u64,
    /// Usable bytes on the judged allocator.
    pub usable: u64,
    /// The largest request of the class below on the judged allocator: the request that costs
    /// nothing.
    pub free_request: u64,
    /// Requests of this size, with bytes and measured usable bytes.
    pub requested: Amount,
    /// Those live at the peak.
    pub at_peak: Amount,
    /// Its part of [`crate::Found::saving`].
    pub saving: Saving,
}

/// Why a request is a little larger than a round one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum Cause {
    /// Several round sizes of one calling site carry the same surplus: a header of so many bytes.
    ConstantHeader {
        /// Bytes of the header.
        bytes: u64,
        /// The round sizes with this header, smallest first.
        round_sizes: Vec<u64>,
    },
    /// One or two bytes over a round size: a string's end.
    Terminator {
        /// Bytes of the terminator.
        bytes: u64,
    },
    /// Round sizes and a part that varies: nearly all that a site asks for thereabouts lies just
    /// over them, or several sizes that stand out there do.
    RoundPlusVarying {
        /// The round sizes, smallest first.
        round_sizes: Vec<u64>,
        /// The fewest bytes added.
        least_bytes: u64,
        /// The most bytes added.
        most_bytes: u64,
    },
    /// A single round size and a constant.
    RoundPlusConstant {
        /// The round size.
        round: u64,
        /// Bytes added to it.
        bytes: u64,
    },
    /// Just over a class without a pattern.
    Coincidence,
}
