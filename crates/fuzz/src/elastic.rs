//! Lists of operations on elastic arenas, from bytes: four bytes an operation, after one that
//! chooses policy, debugging aids and how many addresses there are.

use heaplab_elastic::operations::{self, Operation, Setting};
use heaplab_elastic::{Debug, Reclaim};

/// One input.
pub fn run(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let reclaim = match choice & 3 {
        0 => Reclaim::AtReturn { keep_bytes: 0 },
        1 => Reclaim::AtReturn { keep_bytes: 64 << 10 },
        _ => Reclaim::AtTrim,
    };
    let aid = |bit: u8| choice & 4 != 0 && choice >> bit & 1 == 1;
    let debug = Debug { canaries: aid(3), guard_pages: aid(4), poison: aid(5), no_reuse: aid(6) };
    let operations: Vec<Operation> = rest.chunks_exact(4).take(400).map(operation).collect();
    let roots = if choice >> 7 == 1 { 3 } else { 64 };
    operations::run(&operations, Setting { reclaim, debug, roots });
}

/// The first byte says what, the second which arena, the others how much.
fn operation(bytes: &[u8]) -> Operation {
    let (arena, small, shape) = (bytes[1], usize::from(bytes[2]), bytes[3]);
    // Sizes of every order of magnitude, and their neighbours.
    let size = (small << (shape % 14)).wrapping_add(usize::from(shape >> 6)).saturating_sub(1);
    match bytes[0] % 32 {
        0..=2 => Operation::Begin(arena),
        3..=17 => Operation::Allocate(arena, size, shape >> 4),
        18..=22 => Operation::Deallocate(arena, small),
        23..=25 => Operation::Resize(arena, small, size, shape >> 4),
        26 => Operation::Reset(arena),
        27 => Operation::End(arena),
        28 => Operation::Trim,
        29 => Operation::FailCommit(bytes[2] % 8),
        30 => Operation::FailUncommit(bytes[2] % 8),
        _ => Operation::Limit(u16::from_le_bytes([bytes[2], bytes[3] & 15])),
    }
}
