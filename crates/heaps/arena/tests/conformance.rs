//! Every arena library keeps the contract.

use heaplab_arena::bump::Bumps;
use heaplab_arena::elastic::{Alone, Elastic, growth};
use heaplab_arena::walked::WalkedBumps;
use heaplab_elastic::Options;
use heaplab_heap::conformance::{drive, drive_structured, operations, pseudo_random};
use heaplab_heap::{Allocating, Region, Request};
use proptest::prelude::*;

#[test]
fn bumpalo_keeps_the_contract() {
    for seed in 0..4 {
        let list = pseudo_random(seed, 1_500);
        let driven = drive(Bumps::default(), &list).unwrap();
        assert!(driven.births > 500 && driven.refused == 0, "{driven:?}");
        assert_eq!(drive_structured(WalkedBumps::default(), &list).unwrap(), driven);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_list_passes(list in operations(200)) {
        drive(Bumps::default(), &list).unwrap();
        drive_structured(WalkedBumps::default(), &list).unwrap();
    }

    #[test]
    fn any_list_passes_on_elastic_arenas(list in operations(200)) {
        drive_structured(elastic(), &list).unwrap();
    }
}

fn elastic() -> Elastic {
    Elastic::new(Options::default(), ["", "hidden", "standard", "boot"].map(growth).to_vec()).unwrap()
}

#[test]
fn elastic_arenas_keep_the_contract() {
    for seed in 0..4 {
        let driven = drive_structured(elastic(), &pseudo_random(seed, 1_500)).unwrap();
        assert!(driven.births > 500 && driven.refused == 0, "{driven:?}");
    }
}

#[test]
fn arenas_that_die_whole_need_no_table_and_give_everything_back() {
    let mut heap = Elastic::whole_arenas(Options::default(), Vec::new()).unwrap();
    for region in 1..100 {
        for size in 1..200 {
            let block = heap.allocate(Request { region: Region(region), align: 8, ..Request::of(size) }).unwrap();
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
fn of_blocks_that_die_alone_only_those_are_known_in_every_pass() {
    let mut alone = Alone::default();
    for _ in 0..200 {
        let birth = alone.birth();
        if birth % 10 == 3 {
            alone.know(birth);
        }
    }
    let mut heap = Elastic::knowing(Options::default(), Vec::new(), alone).unwrap();
    for pass in 0..3 {
        for birth in 0..200 {
            let request = Request { region: Region(1), align: 8, ..Request::of(40) };
            let block = heap.allocate(request).unwrap();
            // SAFETY: the block lives; moved, it is the one that is freed.
            unsafe {
                assert_eq!(heap.usable_size(block), (birth % 10 == 3).then_some(40), "pass {pass}, birth {birth}");
                block.write_bytes(7, 40);
                if birth % 10 == 3 {
                    let moved = heap.reallocate(block, Request { size: 80, ..request }).unwrap();
                    assert_eq!((moved.add(39).read(), heap.usable_size(moved)), (7, Some(80)));
                    heap.deallocate(moved);
                    assert_eq!(heap.usable_size(moved), None);
                }
            }
        }
        // SAFETY: none of its blocks is used.
        unsafe { heap.end_region(Region(1)) };
    }
    heap.trim();
    assert_eq!(heap.footprint().committed_bytes, Some(0));
}

#[test]
fn blocks_of_no_arena_are_known_in_any_case() {
    let mut alone = Alone::default();
    let births = [alone.birth(), alone.birth()];
    alone.know(births[0]);
    let mut heap = Elastic::knowing(Options::default(), Vec::new(), alone).unwrap();
    for _ in births {
        let block = heap.allocate(Request { align: 8, ..Request::of(24) }).unwrap();
        // SAFETY: it lives.
        unsafe {
            assert_eq!(heap.usable_size(block), Some(24));
            heap.deallocate(block);
        }
    }
}

#[test]
fn what_lies_where_a_known_block_of_a_dead_arena_lay_is_not_known() {
    let mut alone = Alone::default();
    for birth in 0..2_000 {
        alone.birth();
        // The first thousand, and one behind them in what will be the same line.
        if birth <= 1_000 {
            alone.know(birth);
        }
    }
    let mut heap = Elastic::knowing(Options::default(), Vec::new(), alone).unwrap();
    let request = |region| Request { region: Region(region), align: 8, ..Request::of(8) };
    let first: Vec<_> = (0..1_000).map(|_| heap.allocate(request(1)).unwrap()).collect();
    // SAFETY: none of its blocks is used.
    unsafe { heap.end_region(Region(1)) };
    let known = heap.allocate(request(2)).unwrap();
    let second: Vec<_> = (0..999).map(|_| heap.allocate(request(2)).unwrap()).collect();
    assert!(second.iter().any(|block| first.contains(block)), "the second arena has the memory of the first");
    // SAFETY: all of them live.
    let sizes: Vec<_> = unsafe { second.iter().map(|block| heap.usable_size(*block)).collect() };
    // SAFETY: it lives.
    assert_eq!(unsafe { heap.usable_size(known) }, Some(8));
    assert_eq!(sizes.iter().flatten().count(), 0, "of blocks that nobody knows");
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
