//! The figures that a study reads from a heap: work by source, and the order of pages.

use heaplab_heap::witness::{Objects, Witness};
use heaplab_heap::{Ask, Birth, Collected, Origin, Place, World};
use heaplab_v8::page::NONE;
use heaplab_v8::space::MAIN;
use heaplab_v8::{Spec, V8Heap};

const SLOTS: u32 = 6_000;

/// Births of 400 bytes into slots in a mixed order, most of them dying, and full collections.
fn run(name: &str) -> V8Heap {
    let mut heap = V8Heap::new(Spec::parse(name).unwrap()).unwrap();
    let mut world = Witness::new(SLOTS);
    for round in 0..12u32 {
        for nth in 0..SLOTS / 2 {
            let slot = (nth * 7919 + round * 31) % SLOTS;
            let before = world.object(slot).map(|object| object.address);
            if (nth + round) % 5 > 1 {
                world.died(slot);
                heap.stored(slot, before, None);
                continue;
            }
            let size = 400 + (nth % 3) as usize * 200;
            let birth =
                Birth { slot, size, align: 1, origin: Origin::Generated, place: Place::Any };
            let address = heap.allocate(birth, &mut world).unwrap();
            let before = world.object(slot).map(|object| object.address);
            world.born(slot, address, size);
            heap.stored(slot, before, Some(address));
        }
        heap.collect(Ask::Full, &mut world).unwrap();
        world.settle();
        assert_eq!(world.violation(), None, "{name}");
    }
    heap
}

#[test]
fn work_is_counted_by_who_asked() {
    let heap = run("many,shape=plain,semi_space=512k,compact=always");
    let counts = heap.counts();
    assert!(counts.scavenges.refills > 0 && counts.full.refills > 0, "{counts:?}");
    assert!(counts.full.evacuated_pages > 0 && counts.scavenges.evacuated_pages == 0, "{counts:?}");
    let moved: u64 = heap
        .collections()
        .iter()
        .filter(|one| one.kind != "scavenge")
        .filter_map(|one| Some(one.work?.moved_bytes))
        .sum();
    assert!((1..=moved).contains(&counts.full.evacuated_bytes), "{counts:?}, {moved}");
    for of in [counts.scavenges, counts.full] {
        assert!(of.found <= of.searches && of.searches >= of.refills, "{of:?}");
    }
    assert_eq!(run("many,shape=plain,compact=never").counts().full.evacuated_bytes, 0);
}

#[test]
fn pages_are_ordered_by_how_full_they_are() {
    let free = |name: &str| {
        let heap = run(&format!("{name},shape=plain,compact=never,semi_space=512k"));
        let list = &heap.old().spaces[MAIN].free;
        let bytes = |page: u32| heap.old().pages[page].allocated_bytes;
        let category = (0..heap.old().strategy.categories()).rev().find(|&at| {
            let top = list.top(at);
            top != NONE && heap.old().pages[top].categories[at].next != NONE
        });
        let category = category.expect("a category with two pages");
        let mut page = list.top(category);
        let mut filled = Vec::new();
        while page != NONE {
            filled.push(bytes(page));
            page = heap.old().pages[page].categories[category].next;
        }
        filled
    };
    let (fullest, emptiest) = (free("many-fullest"), free("many-emptiest"));
    assert!(fullest.len() > 1 && fullest.is_sorted_by(|a, b| a >= b), "{fullest:?}");
    assert!(emptiest.len() > 1 && emptiest.is_sorted(), "{emptiest:?}");
}
