//! The table of heaps. A new family is one line in it.

use crate::output::Misasked;
use anyhow::Result;
use heaplab_arena::Arenas;
use heaplab_experiment::HeapCell;
use heaplab_heap::FamilyError;
use heaplab_metaspace::Metaspaces;
use heaplab_replay::{Families, Of, Selected};
use heaplab_system::Allocators;
use heaplab_textbook::Textbook;

/// Every family.
pub const FAMILIES: Families = Families(&[&Of(Allocators), &Of(Metaspaces), &Of(Arenas), &Of(Textbook)]);

/// How parameters follow a heap's name.
pub const SYNTAX: &str = "Parameters follow a heap's name: NAME:PARAMETER=VALUE,PARAMETER=VALUE. A comma and a colon mean the same, \
                          and a variant comes first: metaspace:jdk17,limit=64m.";

/// Space cells of a heap whose space depends on time, and of all with threads, whose order differs from run to run: enough to show by how much.
const SPACE_CELLS: u32 = 3;

/// A heap of any family, with its parameters, as asked for.
pub type Heap = Box<dyn Selected>;

/// What the user typed is wrong, or what the heap needs is not there.
pub fn misasked(error: FamilyError) -> anyhow::Error {
    match error {
        FamilyError::Wrong(what) => Misasked(what).into(),
        FamilyError::Failed(what) => anyhow::anyhow!(what),
    }
}

/// The heaps of a list such as `glibc,jemalloc:narenas=1,dirty_decay_ms=0,mimalloc`.
pub fn parse_list(list: &str) -> Result<Vec<Heap>> {
    FAMILIES.parse_list(list).map_err(misasked)
}

/// A heap as a cell of an experiment, which runs `threads` at once or one.
pub fn cell(heap: &dyn Selected, threads: bool) -> HeapCell {
    let traits = heap.traits();
    let space_cells = if traits.space_depends_on_time || threads { SPACE_CELLS } else { 1 };
    let (environment, without_huge_pages) = (traits.environment, traits.without_huge_pages);
    HeapCell { name: heap.to_string(), environment, space_cells, without_huge_pages }
}

#[cfg(test)]
mod tests;
