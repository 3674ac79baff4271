//! Every arena library fulfils the contract.

use heaplab_arena::bump::Bumps;
use heaplab_arena::bump_walk::WalkedBumps;
use heaplab_arena::elastic::{Elastic, growth};
use heaplab_elastic::Options;
use heaplab_heap::conformance::{drive, operations, pseudo_random};
use heaplab_heap::{Block, Heap, Manual, Region, Request};
use proptest::prelude::*;

#[test]
fn bumpalo_keeps_the_contract() {
    for seed in 0..4 {
        let list = pseudo_random(seed, 1_500);
        let driven = drive(Bumps::default(), &list).unwrap();
        assert!(driven.births > 500 && driven.refused == 0, "{driven:?}");
        assert_eq!(drive(WalkedBumps::default(), &list).unwrap(), driven);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_list_passes(list in operations(200)) {
        drive(Bumps::default(), &list).unwrap();
        drive(WalkedBumps::default(), &list).unwrap();
    }

    #[test]
    fn any_list_passes_on_elastic_arenas(list in operations(200)) {
        drive(elastic(), &list).unwrap();
    }
}

fn elastic() -> Elastic {
    Elastic::new(Options::default(), ["", "hidden", "standard", "boot"].map(growth).to_vec())
        .unwrap()
}

#[test]
fn elastic_arenas_keep_the_contract() {
    for seed in 0..4 {
        let driven = drive(elastic(), &pseudo_random(seed, 1_500)).unwrap();
        assert!(driven.births > 500 && driven.refused == 0, "{driven:?}");
    }
}

#[test]
fn arenas_that_die_whole_give_everything_back() {
    let mut heap = Elastic::new(Options::default(), Vec::new()).unwrap();
    for region in 1..100 {
        for size in 1..200 {
            let block = heap
                .allocate(Request { region: Region(region), align: 8, ..Request::of(size) })
                .unwrap();
            // SAFETY: the block has these bytes.
            unsafe { block.as_ptr().write_bytes(1, size) };
        }
    }
    assert!(heap.footprint().committed_bytes > Some(99 * 199 * 100));
    for region in 1..100 {
        // SAFETY: none of its blocks is used.
        unsafe { heap.end_region(Region(region)) };
    }
    assert!(heap.trim());
    assert_eq!(heap.footprint().committed_bytes, Some(0));
    heap.check_deep().unwrap();
}

#[test]
fn a_block_that_dies_alone_is_the_next_one_of_its_size() {
    let mut heap = elastic();
    for region in [Region::MALLOC, Region(2)] {
        let request = Request { region, align: 8, ..Request::of(40) };
        let blocks: Vec<_> = (0..200).map(|_| heap.allocate(request).unwrap()).collect();
        let dead = Block::new(blocks[17], request);
        // SAFETY: the block lives and is not used afterwards.
        unsafe {
            assert_eq!(heap.usable_size(dead), Some(40));
            heap.deallocate(dead);
        }
        let more: Vec<_> = (0..200).map(|_| heap.allocate(request).unwrap()).collect();
        assert!(more.contains(&dead.address), "{region:?}");
    }
}

#[test]
fn an_arena_that_ends_gives_its_chunks_back() {
    let mut heap = Bumps::default();
    for _ in 0..1_000 {
        heap.allocate(Request { region: Region(3), ..Request::of(100) }).unwrap();
    }
    assert!(heap.footprint().committed_bytes > Some(100_000));
    // SAFETY: none of its blocks is used.
    unsafe { heap.end_region(Region(3)) };
    assert_eq!(heap.footprint().committed_bytes, Some(0));
}

#[test]
fn what_cannot_be_served_is_refused() {
    assert!(Bumps::default().allocate(Request::of(usize::MAX - 64)).is_none());
    assert!(elastic().allocate(Request::of(usize::MAX - 4)).is_none());
}
