//! The default growth: first chunks become as large as arenas turn out to be.

use super::{is_empty, layout, space};
use crate::{Arena, Growth, Space};

/// Begins `count` arenas and fills each with blocks of `bytes`.
fn filled(space: &Space, count: usize, blocks: usize, bytes: usize) -> Vec<Arena> {
    let one = |_| {
        let arena = space.arena(Growth::default()).unwrap();
        for _ in 0..blocks {
            arena.allocate(layout(bytes, 8)).unwrap();
        }
        arena
    };
    (0..count).map(one).collect()
}

fn owned_bytes(arenas: &[Arena]) -> usize {
    arenas.iter().map(|arena| arena.statistics().owned_bytes).sum::<usize>() / arenas.len()
}

#[test]
fn arenas_of_three_small_blocks_take_little_more_than_those() {
    let space = space();
    let arenas = filled(&space, if cfg!(miri) { 60 } else { 5000 }, 3, 72);
    // 216 bytes of blocks, 56 of head and link; lines have 64.
    let owned = owned_bytes(&arenas[arenas.len() / 2..]);
    assert!(owned <= 384, "{owned} bytes an arena");
    drop(arenas);
    is_empty(&space);
}

#[test]
fn larger_arenas_soon_begin_with_larger_chunks() {
    let space = space();
    let count = if cfg!(miri) { 120 } else { 2000 };
    let first_bytes = |blocks: usize| {
        drop(filled(&space, count, blocks, 80));
        let next = filled(&space, 1, 1, 8);
        next[0].statistics().owned_bytes
    };
    let (small, large, small_again) = (first_bytes(3), first_bytes(20), first_bytes(3));
    assert!((1024..=20 * 80 + 256).contains(&large), "{large}");
    assert!(small <= 384 && small_again <= 384, "{small}, {small_again}");
    is_empty(&space);
}

#[test]
fn one_large_arena_among_many_small_ones_changes_little() {
    let space = space();
    let mut arenas = Vec::new();
    for _ in 0..if cfg!(miri) { 5 } else { 200 } {
        arenas.extend(filled(&space, 9, 3, 72));
        drop(filled(&space, 1, 1000, 72));
    }
    let owned = owned_bytes(&arenas);
    assert!(owned <= 448, "{owned} bytes an arena");
    drop(arenas);
    is_empty(&space);
}

/// All arenas begin before one is full, so their size is unknown. The later chunks are large enough
/// that pages are free when most arenas are dead.
#[test]
fn arenas_filled_in_turns_share_few_pages() {
    let space = space();
    let count = if cfg!(miri) { 60 } else { 2000 };
    let mut arenas: Vec<Option<Arena>> = (0..count).map(|_| None).collect();
    for _ in 0..20 {
        for arena in &mut arenas {
            let arena = arena.get_or_insert_with(|| space.arena(Growth::default()).unwrap());
            arena.allocate(layout(104, 8)).unwrap();
        }
    }
    let filled = space.committed_bytes();
    for (number, arena) in arenas.iter_mut().enumerate() {
        if !((number as u32).wrapping_mul(0x9e37_79b1) >> 16).is_multiple_of(10) {
            *arena = None;
        }
    }
    space.trim().unwrap();
    let left = space.committed_bytes();
    assert!(filled <= count * 20 * 104 * 8 / 5, "{filled}");
    assert!(cfg!(miri) || left * 100 <= filled * 65, "{left} of {filled}");
    drop(arenas);
    is_empty(&space);
}

/// Arenas that stay tiny pay little for what arenas that grow in turns gain.
#[test]
fn tiny_arenas_filled_in_turns_take_little_again() {
    let space = space();
    let count = if cfg!(miri) { 60 } else { 5000 };
    let mut arenas: Vec<Arena> = Vec::new();
    for round in 0..3 {
        for number in 0..count {
            if round == 0 {
                arenas.push(space.arena(Growth::default()).unwrap());
            }
            arenas[number].allocate(layout(16 + (number * 7 + round * 5) % 15 * 8, 8)).unwrap();
        }
    }
    // 216 bytes of blocks and 56 of its own; 256 again for every arena would be 480 and more.
    let owned = owned_bytes(&arenas);
    assert!(owned <= 384, "{owned} bytes an arena");
    drop(arenas);
    is_empty(&space);
}
