//! The old metaspace part by part: spaces, their nodes with unowned parts, arenas with their chunks
//! and blocks.

use super::arena::Arena;
use super::chunk::Chunk;
use super::facts::{HEADER_WORDS, WORD};
use super::heap::Heap11;
use super::node::Node;
use super::strategy::Space;
use heaplab_heap::Region;
use heaplab_heap::structure::{Part, Role, push_blocks, sized};
use std::ops::Range;

impl Heap11 {
    /// The parts in the order of a walk.
    pub(super) fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for pool in &self.metaspace().pools {
            let is_class = pool.space == Space::Class;
            parts.push(Part::group(
                0,
                Role::Group,
                if is_class { "class space" } else { "non-class space" },
            ));
            pool.mapped().for_each(|node| push_node(&mut parts, node));
            for (region, arena) in self.living().filter(|(_, arena)| arena.space == pool.space) {
                push_arena(&mut parts, region, arena);
            }
        }
        parts
    }
}

fn vacant(depth: u8, name: &'static str, addresses: Range<usize>) -> Option<Part> {
    (!addresses.is_empty()).then(|| Part::new(depth, Role::Vacant, name, addresses))
}

/// A node, its free chunks with their headers, and its uncut committed part.
fn push_node(parts: &mut Vec<Part>, node: &Node) {
    let bytes = node.reserved_words * WORD;
    parts.push(Part::new(1, Role::Reserved, sized("node", bytes), node.base..node.base + bytes));
    for chunk in node.chunks().into_iter().filter(|chunk| chunk.is_free()) {
        let start = chunk.address();
        parts.extend(vacant(2, "(chunk headers)", start..start + HEADER_WORDS * WORD));
        parts.extend(vacant(2, "(free chunks)", start + HEADER_WORDS * WORD..chunk.end()));
    }
    parts.extend(vacant(2, "(in no chunk yet)", node.top..node.committed_end()));
}

fn push_arena(parts: &mut Vec<Part>, region: Option<Region>, arena: &Arena) {
    parts.push(Part::group(1, Role::Arena(region), format!("{} arena", arena.loader.name())));
    let mut free_blocks: Vec<Range<usize>> = Vec::new();
    if let Some(blocks) = arena.blocks() {
        // `check_deep` judges whether they are sound.
        let _ = blocks.inspect(|address, words| free_blocks.push(address..address + words * WORD));
    }
    free_blocks.sort_unstable_by_key(|range| range.start);
    for chunk in arena.chunks() {
        push_chunk(parts, chunk, arena.current() == Some(chunk), &free_blocks);
    }
}

fn push_chunk(parts: &mut Vec<Part>, chunk: Chunk, is_current: bool, free_blocks: &[Range<usize>]) {
    let (start, end) = (chunk.address(), chunk.end());
    let first = start + HEADER_WORDS * WORD;
    parts.push(Part::new(
        2,
        Role::Chunk,
        sized(&format!("{} chunk", chunk.kind().name()), end - start),
        start..end,
    ));
    parts.extend(vacant(3, "(chunk headers)", start..first));
    push_blocks(parts, 3, first..chunk.top(), free_blocks, "(free blocks)");
    parts.extend(vacant(3, if is_current { "(free)" } else { "(waste)" }, chunk.top()..end));
}
