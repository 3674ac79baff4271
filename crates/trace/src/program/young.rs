//! When objects that died young die in a replay.
//!
//! A generational runtime notices the death of a young object at its next minor collection, so its
//! row only tells that the object died between its birth and that collection. Replayed as it
//! stands, the object lives until the *recorded* collection, and a heap with minor collections at
//! other moments promotes it: for a map of numbers in OCaml, three times the words that the program
//! promoted. Most objects die soon after their birth. So a replay lets an object that was never
//! promoted die at its birth, and promotes what the program promoted, to 1 %
//! (docs/recording-ocaml.md).
//!
//! Recordings that tell no promotions are left as they are.

use crate::{Event, EventSource, Flags, ObjectId, Op, TraceError};

/// Objects whose death was noticed before they were promoted: a bit an object of the recording.
#[derive(Debug, Default)]
pub(super) struct DiedYoung(Vec<u64>);

impl DiedYoung {
    /// Reads a whole recording, of all processes.
    pub(super) fn read(source: &mut impl EventSource) -> Result<DiedYoung, TraceError> {
        let (mut births, mut promotions) = (0, 0_u64);
        let (mut old, mut died) = (DiedYoung::default(), DiedYoung::default());
        // Of an object that dies twice each row stays, so that the compiler refuses the recording.
        let mut again = DiedYoung::default();
        source.for_each(|event| {
            // Ids are dense in birth order: one that is not yet born belongs to a damaged file.
            let is_known = event.object < births;
            match event.op {
                Op::Alloc if event.object == births && !event.has(Flags::FAILED) => {
                    births += 1;
                    if event.has(Flags::DIRECT_TO_OLD) {
                        old.insert(event.object);
                    }
                }
                Op::Promote if is_known => {
                    promotions += 1;
                    old.insert(event.object);
                }
                Op::Free if is_known && died.contains(event.object) => again.insert(event.object),
                Op::Free if is_known && !old.contains(event.object) => died.insert(event.object),
                _ => {}
            }
            Ok(())
        })?;
        if promotions == 0 {
            return Ok(DiedYoung::default());
        }
        died.0.iter_mut().zip(&again.0).for_each(|(word, again)| *word &= !again);
        Ok(died)
    }

    fn insert(&mut self, object: ObjectId) {
        let word = (object / 64) as usize;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (object % 64);
    }

    fn contains(&self, object: ObjectId) -> bool {
        self.0.get((object / 64) as usize).is_some_and(|word| word >> (object % 64) & 1 != 0)
    }
}

/// A recording whose objects die at their birth if they died young.
pub(super) struct AtBirth<'a, S> {
    pub source: S,
    pub young: &'a DiedYoung,
}

impl<S: EventSource> EventSource for AtBirth<'_, S> {
    fn next_batch(&mut self, batch: &mut Vec<Event>) -> Result<(), TraceError> {
        // A batch of nothing but such deaths is empty, and not the end.
        loop {
            self.source.next_batch(batch)?;
            if batch.is_empty() || self.young.0.is_empty() {
                return Ok(());
            }
            let mut moved = Vec::with_capacity(batch.len() + batch.len() / 4);
            for event in batch.iter() {
                let died_young = self.young.contains(event.object);
                match event.op {
                    Op::Free if died_young => {}
                    Op::Alloc if died_young && !event.has(Flags::FAILED) => {
                        let (op, object, time_ns) = (Op::Free, event.object, event.time_ns);
                        let (process, thread, family) = (event.process, event.thread, event.family);
                        let death = Event {
                            op,
                            object,
                            time_ns,
                            process,
                            thread,
                            family,
                            ..Event::default()
                        };
                        moved.extend([*event, death]);
                    }
                    _ => moved.push(*event),
                }
            }
            *batch = moved;
            if !batch.is_empty() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Slice;

    fn event(op: Op, object: u64) -> Event {
        Event { op, object, ..Event::default() }
    }

    fn at_birth(events: &[Event]) -> Vec<(Op, u64)> {
        let young = DiedYoung::read(&mut Slice(events)).unwrap();
        let mut rows = Vec::new();
        let mut source = AtBirth { source: Slice(events), young: &young };
        let mut note = |event: &Event| rows.push((event.op, event.object));
        source
            .for_each(|event| {
                note(event);
                Ok(())
            })
            .unwrap();
        rows
    }

    #[test]
    fn what_was_never_promoted_dies_at_its_birth() {
        use Op::{Alloc, Free, Promote};
        let old = Event { flags: Flags::DIRECT_TO_OLD, ..event(Alloc, 2) };
        let events = [
            event(Alloc, 0),
            event(Alloc, 1),
            old,
            event(Alloc, 3),
            event(Promote, 1),
            event(Free, 0),
            event(Alloc, 4),
            event(Free, 1),
            event(Free, 2),
        ];
        assert_eq!(
            at_birth(&events),
            [
                (Alloc, 0),
                (Free, 0),
                (Alloc, 1),
                (Alloc, 2),
                (Alloc, 3),
                (Promote, 1),
                (Alloc, 4),
                (Free, 1),
                (Free, 2)
            ]
        );
    }

    #[test]
    fn without_promotions_deaths_stay_where_they_were_noticed() {
        let events = [event(Op::Alloc, 0), event(Op::Alloc, 1), event(Op::Free, 0)];
        let rows: Vec<_> = events.iter().map(|event| (event.op, event.object)).collect();
        assert_eq!(at_birth(&events), rows);
    }

    #[test]
    fn an_object_that_dies_twice_is_left_to_the_compiler() {
        let events = [
            event(Op::Alloc, 0),
            event(Op::Alloc, 1),
            event(Op::Promote, 0),
            event(Op::Free, 1),
            event(Op::Free, 1),
        ];
        let rows: Vec<_> = events.iter().map(|event| (event.op, event.object)).collect();
        assert_eq!(at_birth(&events), rows);
    }

    #[test]
    fn objects_that_a_damaged_file_names_take_no_memory() {
        let events = [event(Op::Alloc, 0), event(Op::Promote, 0), event(Op::Free, 1 << 60)];
        assert!(DiedYoung::read(&mut Slice(&events)).unwrap().0.is_empty());
    }
}
