//! Lists of operations that every collected heap survives, with each policy and version, and small
//! heaps.

use heaplab_heap::collected_conformance::{drive, operations, pseudo_random};
use heaplab_ocaml::{OCaml, spec::Spec};
use proptest::prelude::*;

const NAMES: [&str; 7] = [
    "best-fit,s=4k,o=20",
    "next-fit,s=4k,o=320",
    "first-fit,s=4k,o=80",
    "best-fit,s=8k,O=10,i=64k",
    "next-fit,s=4k,O=0,w=9",
    "first-fit,s=32k,O=10,h=1m",
    "best-fit,s=4k,limit=4m",
];

fn heap(name: &str) -> OCaml {
    OCaml::new(Spec::parse(name).unwrap()).unwrap()
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
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_list_is_survived(name in 0..NAMES.len(), list in operations(400)) {
        drive(heap(NAMES[name]), &list).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}
