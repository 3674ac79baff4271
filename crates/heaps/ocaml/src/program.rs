//! The program around the workload: the runtime's objects before the first birth, and its roots.
//!
//! The program in OCaml is `heaplab-ocamlrt`'s `driver.ml`, linked without the standard library.
//! Its arguments are the string `heaplab` in an array: two blocks of one field, born in the minor
//! heap before anything else (source: `sys.c`, `caml_sys_init`). Its data is one array of at least
//! 257 slots, large enough to be allocated directly in the major heap. The collector visits the
//! roots in this order (`roots_nat.c`): the array of slots, a block between its birth in the major
//! heap and its store, and the arguments. The program's modules have no fields, so the pacing
//! counts no incremental roots.

use crate::block::{Address, NULL};
use crate::facts::YOUNG_WORDS_MAX;

/// The program's blocks.
#[derive(Debug)]
pub(crate) struct Program {
    /// The array of slots; null before the program has begun.
    pub slots: Address,
    /// Fields of the array.
    pub count: usize,
    /// The array of arguments.
    pub arguments: Address,
    /// The argument, a string.
    pub argument: Address,
    /// A block of the major heap between its birth and its store.
    pub newborn: Address,
}

impl Program {
    pub(crate) fn new() -> Program {
        Program { slots: NULL, count: 0, arguments: NULL, argument: NULL, newborn: NULL }
    }
}

/// Fields of the array of slots for a workload.
pub fn slot_fields(slots: u32) -> usize {
    (slots as usize).max(YOUNG_WORDS_MAX + 1)
}
