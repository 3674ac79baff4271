//! Blocks that memory reporters name.

use serde::Serialize;

/// The live blocks by how often reporters name them, the last time that reporters were asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DarkMatter {
    /// When that was, ns since the recording began.
    pub time_ns: u64,
    /// How often reporters were asked and named blocks.
    pub asked: u64,
    /// Whether they answered to the end.
    pub is_whole: bool,
    /// Usable bytes of all live blocks.
    pub bytes: i64,
    /// Reports that name no live block.
    pub of_nothing: i64,
    /// "Unreported", "Reported once", "Reported twice or more".
    pub lists: Vec<DarkList>,
}

/// Blocks that are named equally often.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DarkList {
    /// How often, in words.
    pub name: &'static str,
    /// Usable bytes of them all.
    pub bytes: i64,
    /// How many they are.
    pub blocks: i64,
    /// The most bytes first.
    pub groups: Vec<DarkGroup>,
}

/// Blocks with one history.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DarkGroup {
    /// Their usable bytes.
    pub bytes: i64,
    /// Of these, slop.
    pub slop_bytes: i64,
    /// How many.
    pub blocks: i64,
    /// Where they were allocated: indices into [`super::Page::frames`], innermost first.
    pub allocated: Vec<u32>,
    /// Where each reporter named them, the same way.
    pub reported: Vec<Vec<u32>>,
}
