//! Both collectors pass the suite; collectors with one defect each fail it.

use heaplab_heap::collected_conformance::{Driven, SLOTS, drive, operations, pseudo_random};
use heaplab_heap::{
    Ask, Birth, CheckError, Collected, Collection, Footprint, Heap, Object, OutOfMemory, Place,
    Violation, World,
};
use heaplab_textbook::{MarkSweep, Options, SemiSpace};
use proptest::prelude::*;
use std::ptr::NonNull;

const SMALL: Options = Options { limit_bytes: 64 << 20, overhead_percent: 100 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn mark_sweep_conforms(list in operations(200)) {
        drive(MarkSweep::new(SMALL).unwrap(), &list).unwrap();
    }

    #[test]
    fn semi_space_conforms(list in operations(200)) {
        drive(SemiSpace::new(SMALL).unwrap(), &list).unwrap();
    }
}

#[test]
fn long_lists_are_served_and_collections_run_by_themselves() {
    let list = pseudo_random(11, 20_000);
    let swept = drive(MarkSweep::new(SMALL).unwrap(), &list).unwrap();
    let copied = drive(SemiSpace::new(SMALL).unwrap(), &list).unwrap();
    assert_eq!((swept.refused, copied.refused), (0, 0));
    let forced = 4 + list
        .iter()
        .filter(|step| {
            matches!(step, heaplab_heap::collected_conformance::Operation::Collect(Ask::Full))
        })
        .count() as u64;
    assert!(
        swept.collections > forced && copied.collections > forced,
        "{swept:?} {copied:?} of {forced} forced"
    );
    assert_eq!(swept.moved_objects, 0);
    assert!(copied.moved_objects > 1_000, "{copied:?}");
}

#[test]
fn a_limit_below_the_live_bytes_is_out_of_memory() {
    let list: Vec<_> = (0..SLOTS)
        .map(|slot| heaplab_heap::collected_conformance::Operation::Allocate {
            slot,
            size: 100_000,
            place: Place::Any,
        })
        .collect();
    let Driven { births, refused, .. } =
        drive(MarkSweep::new(Options { limit_bytes: 2 << 20, ..SMALL }).unwrap(), &list).unwrap();
    assert_eq!((births, refused), (20, 44));
    let Driven { births, refused, .. } =
        drive(SemiSpace::new(Options { limit_bytes: 4 << 20, ..SMALL }).unwrap(), &list).unwrap();
    assert_eq!((births, refused), (20, 44));
}

/// A collector's defect.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The collection misses one root: its object is swept, or stays behind.
    FreesLive,
    /// A move is not reported.
    LosesMoved,
    /// Collections do nothing.
    NeverFrees,
    /// Used bytes are off by one object.
    Miscounts,
    /// Reports an object that the program holds as reclaimed.
    ReclaimsRoot,
}

struct Broken<H> {
    heap: H,
    fault: Fault,
    collections: Vec<Collection>,
}

impl<H: Collected> Broken<H> {
    fn new(heap: H, fault: Fault) -> Self {
        Broken { heap, fault, collections: Vec::new() }
    }

    fn note(&mut self, from: usize) {
        let new = self.heap.collections()[from..].to_vec();
        self.collections.extend(new.into_iter().map(|mut collection| {
            if self.fault == Fault::Miscounts {
                collection.after.used_bytes += collection.after.committed_bytes;
            }
            collection
        }));
    }
}

/// A world that hides a part of the truth.
struct Blinkered<'a, W> {
    world: &'a mut W,
    fault: Fault,
    moves: u32,
}

impl<W: World> World for Blinkered<'_, W> {
    fn slots(&self) -> u32 {
        self.world.slots()
    }

    fn object(&self, slot: u32) -> Option<Object> {
        let hidden = self.fault == Fault::FreesLive && slot % 16 == 3;
        self.world.object(slot).filter(|_| !hidden)
    }

    fn fields(&self, slot: u32, visit: &mut dyn FnMut(u32)) {
        self.world.fields(slot, visit);
    }

    fn moved(&mut self, slot: u32, to: NonNull<u8>) {
        self.moves += 1;
        if self.fault != Fault::LosesMoved || !self.moves.is_multiple_of(5) {
            self.world.moved(slot, to);
        }
    }

    fn reclaimed(&mut self, slot: u32) {
        self.world.reclaimed(slot);
    }
}

impl<H: Collected> Heap for Broken<H> {
    fn version(&self) -> String {
        self.heap.version()
    }

    fn footprint(&self) -> Footprint {
        self.heap.footprint()
    }

    fn check(&self) -> Result<(), CheckError> {
        self.heap.check()
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        self.heap.check_deep()
    }
}

impl<H: Collected> Collected for Broken<H> {
    fn allocate<W: World>(
        &mut self,
        birth: Birth,
        world: &mut W,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        let from = self.heap.collections().len();
        let born = self.heap.allocate(birth, &mut Blinkered { world, fault: self.fault, moves: 0 });
        self.note(from);
        born
    }

    fn collect<W: World>(&mut self, ask: Ask, world: &mut W) -> Result<(), OutOfMemory> {
        if self.fault == Fault::NeverFrees {
            let used_bytes = self.heap.footprint().used_bytes.unwrap_or(0);
            let after = heaplab_heap::SpaceState {
                used_bytes,
                committed_bytes: u64::MAX / 2,
                ..Default::default()
            };
            self.collections.push(Collection { before: after, after, ..Collection::default() });
            return Ok(());
        }
        let from = self.heap.collections().len();
        let done = self.heap.collect(ask, &mut Blinkered { world, fault: self.fault, moves: 0 });
        let root =
            (0..world.slots()).find(|slot| world.object(*slot).is_some_and(|object| object.root));
        if let (Fault::ReclaimsRoot, Some(root)) = (self.fault, root) {
            world.reclaimed(root);
        }
        self.note(from);
        done
    }

    fn collections(&self) -> &[Collection] {
        &self.collections
    }
}

#[test]
fn broken_collectors_fail() {
    let list = pseudo_random(5, 4_000);
    for fault in [Fault::FreesLive, Fault::NeverFrees, Fault::Miscounts, Fault::ReclaimsRoot] {
        let found = drive(Broken::new(MarkSweep::new(SMALL).unwrap(), fault), &list);
        assert!(found.is_err(), "{fault:?} passed on mark-sweep: {found:?}");
    }
    for fault in [
        Fault::FreesLive,
        Fault::LosesMoved,
        Fault::NeverFrees,
        Fault::Miscounts,
        Fault::ReclaimsRoot,
    ] {
        let found = drive(Broken::new(SemiSpace::new(SMALL).unwrap(), fault), &list);
        assert!(found.is_err(), "{fault:?} passed on semi-space: {found:?}");
    }
    let never =
        drive(Broken::new(MarkSweep::new(SMALL).unwrap(), Fault::NeverFrees), &list).unwrap_err();
    assert!(matches!(never, Violation::Collections(_)), "{never:?}");
}
