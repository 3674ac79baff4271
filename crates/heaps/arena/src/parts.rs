//! Elastic arenas, part by part: the library's `places` in the words of the contract.

use crate::elastic::Elastic;
use heaplab_elastic::{Place, PlaceKind};
use heaplab_heap::structure::{Part, Role, sized};

impl Elastic {
    /// The space with its unowned places, then each arena with its own.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let mut parts = vec![Part::new(0, Role::Reserved, "space", self.space().addresses())];
        parts.extend(self.space().places().into_iter().map(|place| part(place, 1)));
        for (region, arena) in self.arenas() {
            parts.push(Part::group(0, Role::Arena(Some(region)), "arena"));
            parts.extend(arena.places().into_iter().map(|place| part(place, 1)));
        }
        parts
    }
}

/// Converts a place; outermost ones, regions and chunks, have this depth. Unowned places lie in the
/// space itself, or in one of its regions.
fn part(Place { kind, addresses }: Place, depth: u8) -> Part {
    let (deeper, role, name) = match kind {
        PlaceKind::Region => (0, Role::Reserved, sized("region", addresses.len())),
        PlaceKind::Chunk { .. } => (0, Role::Chunk, sized("chunk", addresses.len())),
        PlaceKind::Blocks => (1, Role::Blocks, "blocks".into()),
        PlaceKind::Overhead => (1, Role::Vacant, "(overhead)".into()),
        PlaceKind::Free => (1, Role::Vacant, "(free)".into()),
        PlaceKind::FreeBlock => (1, Role::Vacant, "(free blocks)".into()),
        PlaceKind::FreeLines => (1, Role::Vacant, "(free lines)".into()),
        PlaceKind::Idle => (1, Role::Vacant, "(idle granules)".into()),
        PlaceKind::FreeChunk => (0, Role::Vacant, "(free chunks)".into()),
    };
    Part::new(depth + deeper, role, name, addresses)
}
