//! Lists of operations that every collected heap survives, on every strategy, version and mode.

use heaplab_heap::collected_conformance::{drive, operations, pseudo_random};
use heaplab_v8::{Spec, V8Heap};
use proptest::prelude::*;

const NAMES: [&str; 13] = [
    "legacy,version=7.9,compact=never,semi_space=512k",
    "fast-alloc,version=8.1,compact=never,semi_space=512k",
    "many,version=7.8,compact=always,semi_space=512k",
    "many-cached,version=7.9,compact=regular,semi_space=512k",
    "many-fast-path,version=8.4,compact=always,semi_space=1m",
    "many-origin,version=8.4,compact=regular,semi_space=1m",
    "many,version=7.9,compact=always,shape=plain,semi_space=512k",
    "many-origin,shape=plain,compact=never",
    "many,limit=8m,semi_space=512k",
    "many-origin,tasks=3,semi_space=512k",
    "segregated,semi_space=512k",
    "segregated,shape=plain,limit=16m,semi_space=512k,tasks=8",
    "segregated-4k,semi_space=512k,version=8.4",
];

fn heap(name: &str) -> V8Heap {
    V8Heap::new(Spec::parse(name).unwrap()).unwrap()
}

#[test]
fn long_lists_are_survived() {
    for (seed, name) in NAMES.iter().enumerate() {
        let driven = drive(heap(name), &pseudo_random(seed as u64, 6_000))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            driven.births > 1_000 && driven.collections > 10 && driven.moved_objects > 100,
            "{name}: {driven:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_list_is_survived(name in 0..NAMES.len(), list in operations(400)) {
        drive(heap(NAMES[name]), &list).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}

#[test]
fn every_strategy_survives_in_every_mode() {
    for (seed, strategy) in heaplab_v8::documented::all().into_iter().enumerate() {
        for compact in ["never", "regular", "always"] {
            let name = format!("{},compact={compact},semi_space=512k", strategy.name);
            let driven = drive(heap(&name), &pseudo_random(seed as u64, 2_000))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(driven.births > 500 && driven.collections > 3, "{name}: {driven:?}");
        }
    }
}
