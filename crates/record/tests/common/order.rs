//! Forbidden orders of events with addresses, which `heaplab_trace`'s checker does not look at. The
//! fuzz target `spool` uses it too.

use heaplab_trace::{Event, Flags, Op};
use std::collections::{HashMap, HashSet};

/// No birth at a live address, no death at a free one, ids dense in birth order.
pub fn check_order(events: &[Event]) {
    let mut living: HashMap<(u32, u64), u64> = HashMap::new();
    let mut places: HashMap<u64, (u32, u64)> = HashMap::new();
    let mut ended: HashSet<u64> = HashSet::new();
    let mut born = 0;
    for (row, event) in events.iter().enumerate() {
        if !event.counts() {
            assert!(
                !event.has(Flags::INHERITED) || event.object < born,
                "row {row}: an inherited object that was never born"
            );
            continue;
        }
        let place = (event.process, event.address);
        match event.op {
            Op::Alloc => {
                assert_eq!(event.object, born, "row {row}: ids are dense, in birth order");
                born += 1;
                assert_eq!(
                    living.insert(place, event.object),
                    None,
                    "row {row}: born where something lives: {event:?}"
                );
                places.insert(event.object, place);
            }
            Op::Free => {
                assert_eq!(living.remove(&place), Some(event.object), "row {row}: {event:?}");
                places.remove(&event.object);
                assert!(ended.insert(event.object));
            }
            Op::Realloc => {
                let before = places.insert(event.object, place).expect("it lives");
                assert_eq!(event.has(Flags::MOVED), before != place, "row {row}");
                living.remove(&before);
                assert_eq!(
                    living.insert(place, event.object),
                    None,
                    "row {row}: moved to where something lives: {event:?}"
                );
            }
            _ => {}
        }
    }
}
