//! What a pass is asked for.

/// What to look for, and how much memory tables may take.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most points of the timeline.
    pub timeline_points: usize,
    /// Most sizes with a row of their own; further ones share rows, 256 to a doubling.
    pub size_limit: usize,
    /// An object is short-lived when it is freed before so many more bytes were requested.
    pub short_lived_bytes: u64,
    /// From this size on the allocator may move an object without copying it; see
    /// [`remapped_from_bytes`].
    pub remapped_from_bytes: u64,
    /// Moments at which every stack and size is noted.
    pub moments: Vec<MomentRequest>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            timeline_points: 2048,
            size_limit: 1 << 18,
            short_lived_bytes: 1 << 20,
            remapped_from_bytes: u64::MAX,
            moments: Vec::new(),
        }
    }
}

/// From which size on an allocator recorded under may have moved an object without copying it:
/// `u64::MAX` where it always copies.
///
/// glibc maps blocks of 128 KiB, headers included, by themselves, and its realloc has the kernel
/// move them (mremap). It may since have raised that bound as far as 32 MiB, so that such a block
/// may have been copied as well: nobody recorded it. An allocator whose name is not known may be
/// glibc.
pub fn remapped_from_bytes(allocator: &str) -> u64 {
    if allocator.is_empty() || allocator.starts_with("glibc") { 128 * 1024 - 24 } else { u64::MAX }
}

/// A moment asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MomentRequest {
    /// What to call it.
    pub name: String,
    /// When.
    pub at: At,
}

/// A point of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// When this row of the `marks` table passes.
    Mark(u32),
    /// Before the first event later than this, in ns; after the last one where there is none.
    Time(u64),
    /// After this row, from 0; after the last one where there is none.
    Row(u64),
}
