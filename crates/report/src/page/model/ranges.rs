//! Contents of each range of the run, packed: lives by the steps of their beginnings and ends.

use serde::Serialize;

/// Step `n` begins at `first + n * width` on the timeline's axis; a range runs from one step's
/// beginning to another's.
///
/// `packed` is base64 of a raw deflate stream of numbers in LEB128. A *life* is: the step of the
/// request less that of the life before it in its group (the first: less 0), the step of the
/// release less that of the request plus 1 (0: live at the end), objects, bytes. In this order:
///
/// 1. number of sites; of each: its node of the flame graph less that of the site before it, the
///    index of its thread, objects and bytes at the peak, number of lives, and the lives, each
///    followed by its temporary objects and, if there are any, their bytes;
/// 2. for the buckets of sizes, in the page's order: number of lives, and the lives;
/// 3. for [`Ranges::exact_sizes`], in their order: the same;
/// 4. lifetimes in ns: for each step the number of rows, and of each row the base-2 logarithm of
///    its `from` plus 1 (0: from 0), objects, bytes;
/// 5. lifetimes in bytes: the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ranges {
    /// Where the first step begins.
    pub first: u64,
    /// Width of a step.
    pub width: u64,
    /// Number of steps.
    pub steps: usize,
    /// Threads that requested, by name.
    pub threads: Vec<String>,
    /// Requested sizes with lives of their own: those that the counts tables begin with.
    pub exact_sizes: Vec<u64>,
    /// The numbers.
    pub packed: String,
}
