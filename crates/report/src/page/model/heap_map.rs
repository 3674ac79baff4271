//! A heap as its pages: which bytes are live, free and lost, at one moment.

use super::ReplayCollections;
use serde::Serialize;

/// A heap that ran the workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeapPages {
    /// The heap's name, with parameters.
    pub heap: String,
    /// Its collections; `None`: it does not collect.
    pub collections: Option<ReplayCollections>,
    /// Its pages at some moments, the last one shown first.
    pub moments: Vec<HeapMap>,
}

/// A heap at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeapMap {
    /// When: "after collection 7 (mark-sweep, forced)".
    pub moment: String,
    /// Objects born before; `None`: at the end.
    pub births: Option<u64>,
    /// Notable losses in words, the largest first.
    pub words: Vec<String>,
    /// Free bytes by the heap's own name for them, most bytes first.
    pub free: Vec<FreeKind>,
    /// Spaces or arenas, in the order of the heap's walk.
    pub spaces: Vec<MappedSpace>,
    /// Bytes of a cell of a page's strip in pages of the usual size.
    pub cells: usize,
}

/// Vacant bytes of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FreeKind {
    /// As the heap calls them.
    pub name: String,
    /// How many pieces.
    pub pieces: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The largest piece.
    pub largest_bytes: u64,
}

/// A space of the heap.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MappedSpace {
    /// As the heap calls it.
    pub name: String,
    /// Its pages that are drawn, by address.
    pub pages: Vec<MappedPage>,
    /// Pages that are not drawn.
    pub more_pages: u64,
    /// Bytes of all pages, live and vacant.
    pub live_bytes: u64,
    /// Vacant bytes of all pages.
    pub vacant_bytes: u64,
}

/// A page, chunk or node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MappedPage {
    /// As the heap calls it.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes in blocks.
    pub live_bytes: u64,
    /// Vacant bytes by [`HeapMap::free`]'s index.
    pub vacant: Vec<(usize, u64)>,
    /// One letter a cell: `l` live, `w` waste or header, else the digit or letter of the kind that
    /// most bytes of the cell are.
    pub strip: String,
}
