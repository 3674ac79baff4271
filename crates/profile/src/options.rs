//! ProfileOptions of a pass.

/// The pass's results, and bounds on its tables.
#[derive(Clone, Debug)]
pub struct ProfileOptions {
    /// Most points of the timeline.
    pub timeline_points: usize,
    /// Most steps of [`crate::Profile::ranges`]; 0: no ranges are counted.
    pub range_steps: usize,
    /// Most sizes with their own row; further ones share rows, 256 to a doubling.
    pub size_limit: usize,
    /// An object is short-lived if it is freed before this many more bytes were requested.
    pub short_lived_bytes: u64,
    /// From this size on the allocator may move an object without copying it; see
    /// [`remapped_from_bytes`].
    pub remapped_from_bytes: u64,
    /// Moments for noting every stack and size.
    pub moments: Vec<MomentRequest>,
}

impl Default for ProfileOptions {
    fn default() -> Self {
        ProfileOptions {
            timeline_points: 2048,
            range_steps: 0,
            size_limit: 1 << 18,
            short_lived_bytes: 1 << 20,
            remapped_from_bytes: u64::MAX,
            moments: Vec::new(),
        }
    }
}

/// The size from which on a recorded allocator may have moved an object without copying it:
/// `u64::MAX` if it always copies.
///
/// glibc makes blocks of 128 KiB and more, headers included, separate mappings, and its realloc has
/// the kernel move them (mremap). It may later raise this bound up to 32 MiB, unrecorded; then such
/// a block may have been copied as well. An unknown allocator may be glibc.
pub fn remapped_from_bytes(allocator: &str) -> u64 {
    match allocator.split(' ').next() {
        None | Some("" | "glibc") => 128 * 1024 - 24,
        Some(_) => u64::MAX,
    }
}

/// A requested moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MomentRequest {
    /// Its name.
    pub name: String,
    /// Its point.
    pub at: At,
}

/// A point of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The passing of this row of the `marks` table.
    Mark(u32),
    /// Before the first event later than this, in ns; after the last event if none is later.
    Time(u64),
    /// After this row, from 0; after the last one if there are fewer.
    Row(u64),
}
