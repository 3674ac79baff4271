//! The metaspace part by part: spaces, their nodes with free chunks, arenas with their chunks and
//! blocks. The words are those of `jcmd VM.metaspace`.
//!
//! The nodes' masks tell the committed memory. A chunk smaller than a granule may lie in a
//! committed one that it does not count as its own: the memory beyond its commit line is then
//! `(rest of a granule)`, paid for by a neighbour.

use super::arena::Arena;
use super::facts::WORD_BYTES;
use super::heap::{CLASS, ElasticMetaspace};
use super::space::Space;
use heaplab_buddy::ChunkId;
use heaplab_heap::Region;
use heaplab_heap::structure::{Part, Role, push_blocks, sized};
use std::collections::HashMap;
use std::ops::Range;

impl ElasticMetaspace {
    /// The parts in the order of a walk.
    pub(super) fn parts(&self) -> Vec<Part> {
        let regions: HashMap<usize, Region> =
            self.regions().map(|(region, arena)| (arena, region)).collect();
        let mut parts = Vec::new();
        for (at, space) in self.spaces.iter().enumerate() {
            parts.push(Part::group(
                0,
                Role::Group,
                if at == CLASS { "class space" } else { "non-class space" },
            ));
            push_nodes(&mut parts, space);
            if let Some(guard) = self.guard.filter(|_| at == CLASS) {
                push_vacant(&mut parts, 1, "(first chunk)", space, guard, 0);
            }
            for (number, arena) in self.arenas.iter().enumerate() {
                let Some(arena) = arena else { continue };
                if (arena.plan().class && self.spaces.len() > CLASS) == (at == CLASS) {
                    parts.push(Part::group(
                        1,
                        Role::Arena(regions.get(&number).copied()),
                        format!("{} arena", arena.plan().loader.name()),
                    ));
                    push_chunks(&mut parts, space, arena);
                }
            }
        }
        parts
    }
}

fn addresses(space: &Space, chunk: ChunkId) -> Range<usize> {
    let start = space.address(chunk).as_ptr() as usize;
    start..start + space.chunks().bytes(chunk)
}

/// The committed memory of a chunk by the mask, from its byte `from` on.
fn push_vacant(
    parts: &mut Vec<Part>,
    depth: u8,
    name: &'static str,
    space: &Space,
    chunk: ChunkId,
    from: usize,
) {
    let Range { start, end } = addresses(space, chunk);
    let Some((node, offset)) =
        space.nodes().iter().find_map(|node| Some((node, node.offset_of(start)?)))
    else {
        return;
    };
    let committed = node
        .mask()
        .stretches(offset + from, end - start - from)
        .filter(|(_, _, committed)| *committed);
    let base = start - offset;
    // A granule may be larger than the chunk.
    let range = |(at, bytes, _): (usize, usize, bool)| {
        (base + at).max(start + from)..(base + at + bytes).min(end)
    };
    parts.extend(committed.map(|stretch| Part::new(depth, Role::Vacant, name, range(stretch))));
}

fn push_nodes(parts: &mut Vec<Part>, space: &Space) {
    let levels = space.settings().geometry.all();
    let mut free: Vec<(usize, ChunkId)> = levels
        .flat_map(|level| space.chunks().free_of(level))
        .map(|chunk| (addresses(space, chunk).start, chunk))
        .collect();
    free.sort_unstable_by_key(|(address, _)| *address);
    for node in space.nodes() {
        let node = node.memory().addresses();
        let name = sized("node", node.len());
        let here = free.partition_point(|(address, _)| *address < node.start)
            ..free.partition_point(|(address, _)| *address < node.end);
        parts.push(Part::new(1, Role::Reserved, name, node));
        for (_, chunk) in &free[here] {
            push_vacant(parts, 2, "(free chunks)", space, *chunk, 0);
        }
    }
}

fn push_chunks(parts: &mut Vec<Part>, space: &Space, arena: &Arena) {
    let mut free_blocks: Vec<Range<usize>> = Vec::new();
    if let Some(blocks) = arena.blocks() {
        // `check_deep` judges whether they are sound.
        let _ = blocks.check(|block, words| {
            free_blocks.push(block.as_ptr() as usize..block.as_ptr() as usize + words * WORD_BYTES)
        });
    }
    free_blocks.sort_unstable_by_key(|range| range.start);
    for chunk in arena.each_chunk(space) {
        let range = addresses(space, chunk);
        let (used, committed) =
            (space.chunks().used_bytes(chunk), space.chunks().committed_bytes(chunk));
        parts.push(Part::new(2, Role::Chunk, sized("chunk", range.len()), range.clone()));
        push_blocks(parts, 3, range.start..range.start + used, &free_blocks, "(free blocks)");
        let left = range.start + used..range.start + committed;
        if !left.is_empty() {
            let name = if arena.current() == Some(chunk) { "(free)" } else { "(waste)" };
            parts.push(Part::new(3, Role::Vacant, name, left));
        }
        if committed < range.len() {
            push_vacant(parts, 3, "(rest of a granule)", space, chunk, committed);
        }
    }
}
