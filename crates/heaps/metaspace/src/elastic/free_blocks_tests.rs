//! Bins and tree against a model of their rules, on a vector's memory, under Miri too.

use super::*;
use proptest::prelude::*;

/// Memory to cut blocks from.
struct Slab {
    memory: Vec<u64>,
    next: usize,
}

impl Slab {
    fn new(words: usize) -> Slab {
        Slab { memory: vec![0; words], next: 0 }
    }

    fn cut(&mut self, words: usize) -> NonNull<u64> {
        assert!(self.next + words <= self.memory.len());
        // SAFETY: the offset lies in the vector, which does not grow.
        let block = unsafe { self.memory.as_mut_ptr().add(self.next) };
        self.next += words;
        NonNull::new(block).unwrap()
    }
}

fn add(blocks: &mut FreeBlocks, block: NonNull<u64>, words: usize) {
    // SAFETY: the tests cut every block from a slab once and do not touch it afterwards.
    unsafe { blocks.add(block, words) };
}

#[test]
fn bins_are_last_in_first_out_and_search_upward() {
    let (mut slab, mut blocks) = (Slab::new(200), FreeBlocks::default());
    let (first, second, large) = (slab.cut(5), slab.cut(5), slab.cut(33));
    for (block, words) in [(first, 5), (second, 5), (large, 33)] {
        add(&mut blocks, block, words);
    }
    assert_eq!(blocks.take(5), Some(second));
    assert_eq!(blocks.take(3), Some(first), "2 words stay attached");
    assert_eq!((blocks.blocks(), blocks.words()), (1, 33));
    assert_eq!(blocks.take(30), Some(large), "3 words go back");
    assert_eq!((blocks.blocks(), blocks.words()), (1, 3));
    assert_eq!(blocks.take(4), None);
    // SAFETY: the remainder lies in the slab.
    assert_eq!(blocks.take(2), Some(unsafe { large.add(30) }));
}

#[test]
fn a_small_request_never_looks_in_the_tree_nor_a_large_one_in_the_bins() {
    let (mut slab, mut blocks) = (Slab::new(200), FreeBlocks::default());
    let large = slab.cut(100);
    add(&mut blocks, large, 100);
    assert_eq!(blocks.take(33), None);
    assert_eq!(blocks.take(34), Some(large));
    // SAFETY: the remainder lies in the slab.
    assert_eq!(blocks.take(40), Some(unsafe { large.add(34) }), "66 words went back to the tree");
    assert_eq!((blocks.blocks(), blocks.words()), (1, 26), "26 of them to the bins");
    assert_eq!(blocks.take(34), None);
}

#[test]
fn equal_sizes_are_chained_and_the_node_goes_last() {
    let (mut slab, mut tree) = (Slab::new(400), BlockTree::default());
    let blocks: Vec<NonNull<u64>> = (0..3).map(|_| slab.cut(50)).collect();
    for block in &blocks {
        // SAFETY: as in `add`.
        unsafe { tree.add(*block, 50) };
    }
    let order: Vec<_> = std::iter::from_fn(|| tree.take(40)).map(|(block, _)| block).collect();
    assert_eq!(order, [blocks[2], blocks[1], blocks[0]]);
}

#[test]
fn a_node_with_two_children_is_replaced_by_its_successor() {
    let tree_of = |sizes: &[usize]| {
        let (mut slab, mut tree) = (Slab::new(2000), BlockTree::default());
        for words in sizes {
            // SAFETY: as in `add`.
            unsafe { tree.add(slab.cut(*words), *words) };
        }
        (slab, tree)
    };
    // The successor is the right child itself: it keeps its right branch.
    let (_slab, mut tree) = tree_of(&[100, 50, 150, 200]);
    assert_eq!(tree.take(100).map(|(_, words)| words), Some(100));
    assert_eq!(tree.shape(), [Some(150), Some(50), None, None, Some(200), None, None]);
    // The successor lies deeper: its right branch takes its place.
    let (_slab, mut tree) = tree_of(&[100, 50, 150, 120, 130]);
    assert_eq!(tree.take(90).map(|(_, words)| words), Some(100));
    assert_eq!(
        tree.shape(),
        [Some(120), Some(50), None, None, Some(150), Some(130), None, None, None]
    );
    // One child, and none.
    assert_eq!(tree.take(140).map(|(_, words)| words), Some(150));
    assert_eq!(tree.take(50).map(|(_, words)| words), Some(50));
    assert_eq!(tree.shape(), [Some(120), None, Some(130), None, None]);
}

#[test]
fn a_write_into_a_freed_block_is_found() {
    let (mut slab, mut blocks) = (Slab::new(200), FreeBlocks::default());
    let (small, large) = (slab.cut(5), slab.cut(60));
    add(&mut blocks, small, 5);
    add(&mut blocks, large, 60);
    assert_eq!(blocks.check(|_, _| ()), Ok(()));
    // SAFETY: the first word of the large block, which the tree does not look at during the write.
    unsafe { large.write(1) };
    assert!(blocks.check(|_, _| ()).unwrap_err().contains("canary whole: false"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Blocks go in and out: each taken block is the best fit, never overlaps another taken one,
    /// and counts add up.
    #[test]
    fn what_comes_out_fits_best(steps in proptest::collection::vec((any::<bool>(), 2usize..120), 0..if cfg!(miri) { 12 } else { 120 })) {
        let (mut slab, mut blocks) = (Slab::new(120 * 120), FreeBlocks::default());
        let mut model: Vec<usize> = Vec::new();
        for (give, words) in steps {
            let binned = |size: usize| size <= LARGEST_BINNED_WORDS;
            if give {
                let block = slab.cut(words);
                add(&mut blocks, block, words);
                model.push(words);
            } else {
                let best = model.iter().copied().filter(|size| *size >= words && binned(*size) == binned(words)).min();
                let taken = blocks.take(words);
                prop_assert_eq!(taken.is_some(), best.is_some());
                if let Some(best) = best {
                    model.remove(model.iter().position(|size| *size == best).unwrap());
                    if best - words > REMAINDER_KEPT_ABOVE_WORDS {
                        model.push(best - words);
                    }
                }
            }
            let mut spans: Vec<(usize, usize)> = Vec::new();
            prop_assert_eq!(blocks.check(|block, words| spans.push((block.as_ptr() as usize, words * 8))), Ok(()));
            spans.sort_unstable();
            prop_assert!(spans.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
            prop_assert_eq!((blocks.blocks(), blocks.words()), (model.len(), model.iter().sum::<usize>()));
        }
    }
}
