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
    /// Moments at which every stack and size is noted.
    pub moments: Vec<MomentRequest>,
}

impl Default for Options {
    fn default() -> Self {
        Options { timeline_points: 2048, size_limit: 1 << 18, short_lived_bytes: 1 << 20, moments: Vec::new() }
    }
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
