//! Operation lists against the shadow model. Few in each run of the tests; for a hunt,
//! `PROPTEST_CASES=20000 cargo test --release -p heaplab-elastic --config
//! profile.release.debug-assertions=true --lib model`.

use crate::operations::{Operation, Setting, run};
use crate::{Debug, Reclaim};
use proptest::prelude::*;
use std::time::Duration;

fn operations(longest: usize) -> impl Strategy<Value = Vec<Operation>> {
    let size = || prop_oneof![8 => 0usize..300, 3 => 0usize..5_000, 1 => 0usize..if cfg!(miri) { 9_000 } else { 100_000 }, 1 => 0usize..if cfg!(miri) { 20_000 } else { 3_000_000 }];
    let align = || prop_oneof![4 => 0u8..4, 1 => 0u8..14];
    let one = prop_oneof![
        3 => any::<u8>().prop_map(Operation::Begin),
        24 => (any::<u8>(), size(), align()).prop_map(|(a, s, g)| Operation::Allocate(a, s, g)),
        7 => (any::<u8>(), any::<usize>()).prop_map(|(a, n)| Operation::Deallocate(a, n)),
        3 => (any::<u8>(), any::<usize>(), size(), align()).prop_map(|(a, n, s, g)| Operation::Resize(a, n, s, g)),
        1 => any::<u8>().prop_map(Operation::Reset),
        2 => any::<u8>().prop_map(Operation::End),
        1 => Just(Operation::Trim),
        1 => (0u8..4).prop_map(Operation::FailCommit),
        1 => (0u8..2).prop_map(Operation::FailUncommit),
        1 => prop_oneof![Just(0u16), 0u16..2000].prop_map(Operation::Limit),
    ];
    proptest::collection::vec(one, 0..longest)
}

fn reclaims() -> impl Strategy<Value = Reclaim> {
    prop_oneof![
        Just(Reclaim::AtReturn { keep_bytes: 0 }),
        Just(Reclaim::AtReturn { keep_bytes: 64 << 10 }),
        Just(Reclaim::AtTrim),
        Just(Reclaim::Background { interval: Duration::from_secs(3600), keep_bytes: 0 }),
    ]
}

/// Few addresses, which run out, and enough of them.
fn roots() -> impl Strategy<Value = usize> {
    prop_oneof![1usize..6, Just(64)]
}

fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    asked.unwrap_or(if cfg!(miri) { 2 } else { 192 })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_list_of_operations_keeps_every_promise(
        list in operations(if cfg!(miri) { 40 } else { 160 }), reclaim in reclaims(), roots in roots(),
    ) {
        run(&list, Setting { reclaim, roots, ..Setting::default() });
    }

    #[test]
    fn any_list_keeps_them_with_every_debugging_aid(
        list in operations(if cfg!(miri) { 20 } else { 60 }), reclaim in reclaims(), roots in roots(),
        canaries: bool, guard_pages: bool, poison: bool, no_reuse: bool,
    ) {
        run(&list, Setting { reclaim, roots, debug: Debug { canaries, guard_pages: guard_pages && !cfg!(miri), poison, no_reuse } });
    }
}
