//! Lists of operations on a collected heap, as bytes: five an operation.

use heaplab_heap::collected_conformance::Operation;
use heaplab_heap::{Ask, Place};

/// Operations of one input.
const OPERATIONS_MAX: usize = 600;

/// The operations that `bytes` are. Many sizes lie around `edge`, where a heap changes its ways.
pub fn operations(bytes: &[u8], edge: usize) -> Vec<Operation> {
    bytes.chunks_exact(5).take(OPERATIONS_MAX).map(|five| operation(five, edge)).collect()
}

fn operation(bytes: &[u8], edge: usize) -> Operation {
    let slot = u32::from(bytes[1]);
    let number = usize::from(u16::from_le_bytes([bytes[2], bytes[3]]));
    // Small sizes often, sizes around the edge, and some up to 1 MB.
    let size = match bytes[4] {
        0..180 => number % (1 << (3 + bytes[4] % 9)),
        180..220 => edge - 48 + number % 128,
        220..250 => number,
        250.. => number << 4,
    };
    match bytes[0] % 16 {
        0..=9 => {
            let place = match bytes[4] {
                7 => Place::Old,
                8..24 => Place::HiddenClass,
                _ => Place::Any,
            };
            Operation::Allocate { slot, size, place }
        }
        10..=13 => Operation::Die(slot),
        14 if bytes[4] < 128 => Operation::Collect(Ask::Minor),
        14 => Operation::Collect(Ask::Full),
        _ if bytes[4] < 64 => Operation::Trim,
        _ => Operation::Release(slot),
    }
}
