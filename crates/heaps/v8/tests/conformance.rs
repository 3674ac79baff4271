//! Lists of operations that every collected heap survives, on every strategy, version and mode.

use heaplab_heap::Ask;
use heaplab_heap::collected_conformance::{Operation, drive, operations, pseudo_random};
use heaplab_heap::witness::{Objects, Witness, check_after_full};
use heaplab_heap::{Birth, Collected, Origin, Place};
use heaplab_v8::own::OwnPage;
use heaplab_v8::{Spec, V8Heap};
use proptest::prelude::*;

const NAMES: [&str; 15] = [
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
    "many,sweeping=whole,maps=emptiest-first,compact=always,semi_space=512k",
    "many-origin,sweeping=whole,limit=8m,semi_space=512k,version=8.1",
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

/// Found by fuzzing.
#[test]
fn new_space_begins_where_nothing_lies() {
    let born = |slot, size| Operation::Allocate { slot, size, place: Place::Any };
    let list = [
        born(34, 25_970),
        Operation::Collect(Ask::Minor),
        born(28, 27_817),
        born(58, 46_384),
        born(19, 131_050),
        born(13, 131_039),
        Operation::Collect(Ask::Full),
        Operation::Collect(Ask::Minor),
        Operation::Collect(Ask::Full),
        born(15, 6),
    ];
    for name in NAMES {
        drive(heap(name), &list).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Found by fuzzing: a dead remembered array object keeps its elements alive; they move while their
/// slot holds another object.
#[test]
fn what_died_moves_without_the_slot() {
    let born = |slot, size| Operation::Allocate { slot, size, place: Place::Any };
    let mut list = vec![born(15, 131_052), born(14, 131_042), born(4, 131_033)];
    for then in [born(4, 27), Operation::Die(4)] {
        list.extend([then, Operation::Collect(Ask::Minor)]);
        for name in NAMES {
            drive(heap(name), &list).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        list.truncate(3);
    }
}

/// Found by fuzzing: near its limit a heap has no room to empty all pages. The pages that stay are
/// swept, and nothing on them is lost.
#[test]
fn pages_that_cannot_be_emptied_stay() {
    let born = |slot, size, place| Operation::Allocate { slot, size, place };
    let mut list: Vec<Operation> = (0..28).map(|slot| born(slot, 100_000, Place::Old)).collect();
    list.extend((0..28).filter(|slot| slot % 4 != 0).map(Operation::Die));
    list.push(Operation::Collect(Ask::Full));
    list.extend((28..60).map(|slot| born(slot, 3_000, Place::Old)));
    list.push(Operation::Collect(Ask::Full));
    for shape in ["array", "plain"] {
        let name = format!("many,shape={shape},compact=always,limit=4m,semi_space=512k");
        let driven = drive(heap(&name), &list).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((driven.births, driven.refused), (60, 0), "{name}: {driven:?}");
        assert!(driven.collections >= 6, "{name}: it went on to the end: {driven:?}");
    }
}

/// The figures leave out the base's pages, but their holes are waste, or serve the workload once a
/// compaction has moved the base's objects.
#[test]
fn a_small_heap_on_a_base_with_holes_is_sound() {
    for compact in ["never", "always"] {
        let mut spec = Spec::parse(&format!("fast-alloc,compact={compact}")).unwrap();
        let live_bytes = spec.version.area_bytes as u32 - 2_000;
        let objects = vec![(0, 2_000), (4_000, live_bytes - 2_000)];
        spec.base = Some(vec![OwnPage { objects, live_bytes, ..OwnPage::default() }]);
        let mut heap = V8Heap::new(spec).unwrap();
        let mut world = Witness::new(1);
        let birth =
            Birth { slot: 0, size: 64, align: 1, origin: Origin::Generated, place: Place::Any };
        let address = heap.allocate(birth, &mut world).unwrap();
        world.born(0, address, birth.size);
        heap.stored(0, None, Some(address));
        for _ in 0..3 {
            heap.collect(Ask::Full, &mut world).unwrap();
            world.settle();
            check_after_full(&heap, &world).unwrap_or_else(|error| panic!("{compact}: {error}"));
        }
    }
}

#[test]
fn a_limit_below_what_lives_is_told_with_what_lives() {
    for limit in ["1m", "2m"] {
        let mut heap = heap(&format!("many,limit={limit},semi_space=512k"));
        let mut world = Witness::new(60);
        let mut born_bytes = 0;
        let refused = (0..60).find_map(|slot| {
            let birth = Birth {
                slot,
                size: 100_000,
                align: 1,
                origin: Origin::Generated,
                place: Place::Any,
            };
            match heap.allocate(birth, &mut world) {
                Err(error) => Some(error),
                Ok(address) => {
                    world.born(slot, address, birth.size);
                    heap.stored(slot, None, Some(address));
                    born_bytes += birth.size as u64;
                    None
                }
            }
        });
        let live = refused.expect("6 MB do not fit").live_bytes;
        assert!((born_bytes..born_bytes + 60 * 64).contains(&live), "{live} of {born_bytes}");
    }
}
