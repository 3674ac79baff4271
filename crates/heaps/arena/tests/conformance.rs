//! Every arena library keeps the contract.

use heaplab_arena::bump::Bumps;
use heaplab_heap::conformance::{drive, operations, pseudo_random};
use heaplab_heap::{Allocating, Region, Request};
use proptest::prelude::*;

#[test]
fn bumpalo_keeps_the_contract() {
    for seed in 0..4 {
        let driven = drive(Bumps::default(), &pseudo_random(seed, 1_500)).unwrap();
        assert!(driven.births > 500 && driven.refused == 0, "{driven:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_list_passes(list in operations(200)) {
        drive(Bumps::default(), &list).unwrap();
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
}
