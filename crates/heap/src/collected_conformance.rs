//! Lists of operations that any collected heap must survive: no live object is lost or overlapped,
//! contents survive moves, a full collection finds the dead, and the heap's counts add up.
//!
//! A heap's tests call [`drive`] with lists from [`pseudo_random`], or from `operations` (feature
//! `proptest`), which shrink.

use crate::witness::{Objects, Witness, check_after_full};
use crate::{Ask, Birth, Collected, Origin, Place, Violation, World};

/// Slots of every list's world.
pub const SLOTS: u32 = 64;

/// One step. Slots wrap around: every list is a legal program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A birth in `slot`; replaces the slot's object.
    Allocate {
        /// The slot.
        slot: u32,
        /// Bytes.
        size: usize,
        /// The place of the birth.
        place: Place,
    },
    /// The object in the slot dies.
    Die(u32),
    /// The program lets go of the object in the slot; others may still refer to it.
    Release(u32),
    /// A field of one slot's object refers to another slot's object.
    Refer(u32, u32, u32),
    /// The program asks for a collection.
    Collect(Ask),
    /// The heap gives memory back.
    Trim,
}

/// Counts of a list's steps, which show a test that the list did something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Driven {
    /// Objects born.
    pub births: u64,
    /// Births that the heap refused.
    pub refused: u64,
    /// Collections that ran.
    pub collections: u64,
    /// Objects that the heap moved.
    pub moved_objects: u64,
}

/// Runs `operations`, then lets everything die and collects. A heap that then uses more bytes than
/// before the first birth keeps dead objects. A heap that [has ended](Collected::has_ended) for
/// want of room has kept its promises until then.
///
/// # Errors
/// The first broken promise.
pub fn drive<H: Collected>(mut heap: H, operations: &[Operation]) -> Result<Driven, Violation> {
    let mut witness = Witness::new(SLOTS);
    let mut driven = Driven::default();
    let empty = used_after_full(&mut heap, &mut witness)?;
    for operation in operations {
        let activity = heap.activity();
        let done = step(&mut heap, &mut witness, &mut driven, *operation);
        if heap.has_ended() {
            return Ok(driven);
        }
        done?;
        if heap.activity() > activity {
            witness.settle();
            heap.check_deep()?;
        } else {
            heap.check()?;
        }
        if let Some(violation) = witness.violation() {
            return Err(violation.clone());
        }
    }
    (0..SLOTS).for_each(|slot| {
        let before = witness.object(slot).map(|object| object.address);
        witness.died(slot);
        heap.stored(slot, before, None);
    });
    let used = used_after_full(&mut heap, &mut witness);
    if heap.has_ended() {
        return Ok(driven);
    }
    let used = used?;
    if used > empty {
        return Err(Violation::Collections(format!(
            "{used} bytes are used when everything is dead, {empty} before the first birth"
        )));
    }
    driven.collections = heap.collections().len() as u64;
    driven.moved_objects =
        heap.collections().iter().filter_map(|one| one.work).map(|work| work.moved_objects).sum();
    Ok(driven)
}

/// Bytes used after two forced full collections: the second one may count objects that the first
/// one released.
fn used_after_full<H: Collected>(heap: &mut H, witness: &mut Witness) -> Result<u64, Violation> {
    for _ in 0..2 {
        full(heap, witness)?;
    }
    Ok(heap.collections().last().map_or(0, |last| last.after.used_bytes))
}

fn full<H: Collected>(heap: &mut H, witness: &mut Witness) -> Result<(), Violation> {
    let collected = heap.collect(Ask::Full, witness);
    collected
        .map_err(|error| Violation::Collections(format!("a forced collection failed: {error}")))?;
    witness.settle();
    witness.violation().map_or(Ok(()), |violation| Err(violation.clone()))?;
    check_after_full(heap, witness)
}

fn step<H: Collected>(
    heap: &mut H,
    witness: &mut Witness,
    driven: &mut Driven,
    operation: Operation,
) -> Result<(), Violation> {
    let address = |witness: &Witness, slot: u32| witness.object(slot).map(|object| object.address);
    match operation {
        Operation::Allocate { slot, size, place } => {
            let slot = slot % SLOTS;
            let birth = Birth { slot, size, align: 1, origin: Origin::Generated, place };
            let Ok(born) = heap.allocate(birth, witness) else {
                driven.refused += 1;
                return Ok(());
            };
            driven.births += 1;
            let before = address(witness, slot);
            witness.born(slot, born, heap.body_bytes(&birth));
            heap.stored(slot, before, Some(born));
        }
        Operation::Die(slot) => {
            let slot = slot % SLOTS;
            let before = address(witness, slot);
            witness.died(slot);
            heap.stored(slot, before, None);
        }
        Operation::Release(slot) => witness.released(slot % SLOTS),
        Operation::Refer(from, field, to) => {
            let (from, to) = (from % SLOTS, to % SLOTS);
            // A program can only store objects that it can reach.
            let held = |slot: u32| witness.object(slot).is_some_and(|object| object.root);
            if held(from) && held(to) {
                witness.referred(from, field % 4, Some(to));
                heap.linked(from, to);
            }
        }
        Operation::Collect(Ask::Full) => full(heap, witness)?,
        Operation::Collect(Ask::Minor) => drop(heap.collect(Ask::Minor, witness)),
        Operation::Trim => drop(heap.trim()),
    }
    Ok(())
}

/// A list that depends only on `seed`: small and large sizes, deaths in several orders, references,
/// forced collections.
pub fn pseudo_random(seed: u64, length: usize) -> Vec<Operation> {
    let mut next = crate::conformance::splitmix(seed);
    (0..length)
        .map(|_| {
            let (dice, shape, value) = (next() % 100, next() % 20, next());
            let slot = (value >> 32) as u32 % SLOTS;
            match dice {
                0..=69 => {
                    let size = match shape {
                        0..=14 => value % 300,
                        15..=18 => value % 5_000,
                        _ => value % 300_000,
                    };
                    let place = match value % 64 {
                        0 => Place::Old,
                        1..=8 => Place::HiddenClass,
                        _ => Place::Any,
                    };
                    Operation::Allocate { slot, size: size as usize, place }
                }
                70..=87 => Operation::Die(slot),
                88..=93 => Operation::Refer(slot, value as u32 % 4, (value >> 8) as u32 % SLOTS),
                94..=96 => Operation::Release(slot),
                97 => Operation::Collect(Ask::Minor),
                98 => Operation::Collect(Ask::Full),
                _ => Operation::Trim,
            }
        })
        .collect()
}

/// Operation lists for property tests; they shrink to the shortest list that still breaks a heap.
#[cfg(any(feature = "proptest", test))]
pub fn operations(longest: usize) -> impl proptest::strategy::Strategy<Value = Vec<Operation>> {
    use proptest::prelude::*;
    let slot = || 0..SLOTS;
    let place =
        prop_oneof![40 => Just(Place::Any), 1 => Just(Place::Old), 6 => Just(Place::HiddenClass)];
    let one = prop_oneof![
        12 => (slot(), prop_oneof![8 => 0usize..300, 3 => 0usize..5_000, 1 => 0usize..300_000], place)
            .prop_map(|(slot, size, place)| Operation::Allocate { slot, size, place }),
        4 => slot().prop_map(Operation::Die),
        1 => slot().prop_map(Operation::Release),
        2 => (slot(), 0u32..4, slot()).prop_map(|(from, field, to)| Operation::Refer(from, field, to)),
        1 => prop_oneof![Just(Operation::Collect(Ask::Minor)), Just(Operation::Collect(Ask::Full)), Just(Operation::Trim)],
    ];
    proptest::collection::vec(one, 0..longest)
}
