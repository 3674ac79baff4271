//! Splitting, merging and enlarging against a shadow model, at every committed length and in random
//! order.

use super::*;
use crate::marks;
use proptest::prelude::*;
use std::collections::BTreeMap;

const GRANULE_BYTES: usize = 64 << 10;
const GEOMETRY: Geometry = match Geometry::new(4 << 20, 1 << 10) {
    Ok(geometry) => geometry,
    Err(_) => panic!("powers of two"),
};

fn one_root() -> (Chunks, ChunkId) {
    let mut chunks = Chunks::new(GEOMETRY, GRANULE_BYTES);
    let root = chunks.add_root(0);
    (chunks, root)
}

/// HotSpot's own test of its virtual space node: a root chunk committed to every possible length is
/// split to every level. Splitting spreads the committed length over the splinters, and merging
/// restores it.
#[test]
fn split_and_merge_at_every_committed_length() {
    for granules in
        (0..=GEOMETRY.root_bytes() / GRANULE_BYTES).step_by(if cfg!(miri) { 9 } else { 1 })
    {
        for target in GEOMETRY.all().skip(1) {
            let (mut chunks, root) = one_root();
            let committed = granules * GRANULE_BYTES;
            chunks.set_committed_bytes(root, committed);
            chunks.split(root, target);
            let mut left = committed;
            for chunk in chunks.area(0) {
                // The rest of a committed granule counts as the splinter's too: they share the
                // granule.
                let expected = left.min(chunks.bytes(chunk));
                assert_eq!(
                    chunks.committed_bytes(chunk),
                    expected,
                    "{granules} granules, split to {target:?}"
                );
                left -= expected;
            }
            assert_eq!(chunks.free_chunks(), target.index());
            let merged = chunks.merge(root);
            assert_eq!(
                (merged, chunks.committed_bytes(root), chunks.free_chunks()),
                (Some(root), committed, 0)
            );
            chunks.add_free(root);
            chunks.check_deep().unwrap();
        }
    }
}

#[test]
fn a_split_leaves_one_splinter_a_level_and_reuses_pooled_headers() {
    let (mut chunks, root) = one_root();
    marks::expect("split a chunk committed beyond its middle", || {
        chunks.set_committed_bytes(root, 3 << 20);
        chunks.split(root, Level(3));
    });
    let levels: Vec<u8> = chunks.area(0).map(|chunk| chunks.level(chunk).0).collect();
    assert_eq!((levels, chunks.headers()), (vec![3, 3, 2, 1], 4));
    marks::expect("merged to a root chunk", || chunks.merge(root));
    assert_eq!((chunks.headers(), chunks.pooled_headers()), (4, 3));
    chunks.split(root, Level(1));
    assert_eq!((chunks.headers(), chunks.pooled_headers(), chunks.counts().splits), (4, 2, 2));
}

#[test]
fn a_merge_stops_at_a_buddy_that_is_in_use_or_split() {
    let (mut chunks, root) = one_root();
    chunks.split(root, Level(2));
    chunks.set_in_use(root);
    let second = chunks.take_same_or_smaller(Level(2), Level(2), 0).unwrap();
    assert_eq!(
        (chunks.offset(second), chunks.merge(second)),
        (1 << 20, None),
        "its buddy is in use"
    );
    chunks.split(second, Level(3));
    chunks.set_in_use(second);
    chunks.set_free(root);
    assert_eq!(chunks.merge(root), None, "its buddy is split");
    chunks.add_free(root);
    chunks.check_deep().unwrap();
    chunks.set_free(second);
    assert_eq!(chunks.merge(second), Some(root), "the first of two buddies survives");
    assert_eq!(chunks.counts().merges, 1);
}

#[test]
fn what_follows_an_uncommitted_end_is_forgotten() {
    let (mut chunks, root) = one_root();
    chunks.split(root, Level(1));
    let second = chunks.take_same_or_smaller(Level(1), Level(1), 0).unwrap();
    chunks.set_committed_bytes(second, GRANULE_BYTES);
    chunks.set_in_use(root);
    assert_eq!(chunks.merge(second), None, "the first half is in use");
    chunks.add_free(second);
    chunks.set_free(root);
    marks::expect(
        "merged behind an uncommitted end: the follower's committed part is forgotten",
        || chunks.merge(root),
    );
    assert_eq!(chunks.committed_bytes(root), 0);
}

#[test]
fn a_chunk_is_enlarged_only_over_its_whole_free_buddy_behind_it() {
    let (mut chunks, root) = one_root();
    chunks.split(root, Level(2));
    chunks.set_in_use(root);
    let second = chunks.take_same_or_smaller(Level(2), Level(2), 0).unwrap();
    chunks.set_in_use(second);
    assert!(!chunks.enlarge(second), "it does not lead");
    marks::expect("enlarging refused: the buddy is in use or split", || {
        assert!(!chunks.enlarge(root))
    });
    chunks.set_free(second);
    chunks.split(second, Level(4));
    chunks.add_free(second);
    assert!(!chunks.enlarge(root), "the buddy is split");
    chunks.remove_free(second);
    chunks.set_committed_bytes(second, 1);
    chunks.merge(second);
    chunks.add_free(second);
    chunks.set_committed_bytes(root, 1 << 20);
    assert!(chunks.enlarge(root));
    assert_eq!(
        (chunks.level(root), chunks.committed_bytes(root)),
        (Level(1), (1 << 20) + GRANULE_BYTES)
    );
    assert!(chunks.enlarge(root), "the root's other half is free");
    assert!(!chunks.enlarge(root), "a root chunk has no buddy");
    assert_eq!((chunks.counts().enlarged, chunks.area(0).count()), (2, 1));
    chunks.check_deep().unwrap();
}

#[test]
fn committed_chunks_are_found_first_and_the_search_ends_at_an_uncommitted_one() {
    let mut chunks = Chunks::new(GEOMETRY, GRANULE_BYTES);
    let roots: Vec<ChunkId> = (0..4).map(|nth| chunks.add_root(nth << 22)).collect();
    for (root, granules) in roots.iter().zip([0, 2, 0, 1]) {
        chunks.set_committed_bytes(*root, granules * GRANULE_BYTES);
        chunks.add_free(*root);
    }
    assert_eq!(
        chunks.free_of(Level::ROOT).collect::<Vec<_>>(),
        [roots[3], roots[1], roots[0], roots[2]]
    );
    assert_eq!(chunks.take_same_or_larger(Level(5), GRANULE_BYTES + 1), Some(roots[1]));
    assert_eq!(chunks.take_same_or_larger(Level(5), GRANULE_BYTES + 1), None);
    assert_eq!(chunks.take_same_or_larger(Level(5), 1), Some(roots[3]));
    assert_eq!(chunks.take_same_or_smaller(Level(0), Level(12), 0), Some(roots[0]));
    assert_eq!((chunks.free_chunks(), chunks.free_chunks_of(Level::ROOT)), (1, 1));
}

/// One step on a space.
#[derive(Clone, Debug)]
enum Step {
    /// Take a chunk of this level and commit part of it.
    Take(u8, usize),
    /// Give the n-th chunk back.
    Return(usize),
    /// Enlarge the n-th chunk.
    Enlarge(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let longest = if cfg!(miri) { 12 } else { 80 };
    let one = prop_oneof![
        4 => (0u8..13, 0usize..(4 << 20)).prop_map(|(level, bytes)| Step::Take(level, bytes)),
        3 => any::<usize>().prop_map(Step::Return),
        2 => any::<usize>().prop_map(Step::Enlarge),
    ];
    proptest::collection::vec(one, 0..longest)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Chunks in use never overlap, every invariant holds after each step, and everything merges to
    /// root chunks in the end.
    #[test]
    fn random_steps_keep_every_invariant(list in steps()) {
        let mut chunks = Chunks::new(GEOMETRY, GRANULE_BYTES);
        let mut live: BTreeMap<u64, (ChunkId, usize)> = BTreeMap::new();
        for step in list {
            match step {
                Step::Take(level, bytes) => {
                    let level = Level(level);
                    let found = chunks.take_same_or_larger(level, 0);
                    let chunk = found.unwrap_or_else(|| chunks.add_root((chunks.areas() as u64) << 22));
                    if chunks.level(chunk) < level {
                        chunks.split(chunk, level);
                    }
                    let bytes = bytes.min(chunks.bytes(chunk)).max(chunks.committed_bytes(chunk));
                    chunks.set_committed_bytes(chunk, bytes);
                    chunks.set_in_use(chunk);
                    chunks.set_used_bytes(chunk, bytes);
                    live.insert(chunks.offset(chunk), (chunk, chunks.bytes(chunk)));
                }
                Step::Return(nth) if !live.is_empty() => {
                    let offset = *live.keys().nth(nth % live.len()).unwrap();
                    let (chunk, _) = live.remove(&offset).unwrap();
                    chunks.set_free(chunk);
                    let merged = chunks.merge(chunk).unwrap_or(chunk);
                    chunks.add_free(merged);
                }
                Step::Enlarge(nth) if !live.is_empty() => {
                    let offset = *live.keys().nth(nth % live.len()).unwrap();
                    let (chunk, bytes) = live[&offset];
                    if chunks.enlarge(chunk) {
                        live.insert(offset, (chunk, bytes * 2));
                    }
                }
                _ => {}
            }
            chunks.check_deep().unwrap();
            let mut end = 0;
            for (offset, (chunk, bytes)) in &live {
                prop_assert!(*offset >= end && chunks.offset(*chunk) == *offset && chunks.bytes(*chunk) == *bytes);
                end = offset + *bytes as u64;
            }
        }
        for (chunk, _) in live.into_values() {
            chunks.set_free(chunk);
            let merged = chunks.merge(chunk).unwrap_or(chunk);
            chunks.add_free(merged);
        }
        chunks.check_deep().unwrap();
        prop_assert_eq!(chunks.free_chunks_of(Level::ROOT), chunks.areas());
    }
}
