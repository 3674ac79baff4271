//! The program around the workload: what a runtime holds before the first birth, and its roots.
//!
//! The program in OCaml is `heaplab-ocamlrt`'s `driver.ml`, linked without the standard library:
//! its arguments are the one string `heaplab` in an array (two blocks of one field, born in the
//! minor heap before anything else; source: `sys.c`, `caml_sys_init`), its data is one array of
//! slots of at least 257 fields, so that it is allocated directly in the major heap. The roots are,
//! in the order in which the collector visits them (`roots_nat.c`): the array of slots, a block
//! that is being born in the major heap, and the arguments. The program's modules have no fields,
//! so that the incremental roots that the pacing counts are none.

use crate::block::{Address, NULL};
use crate::facts::YOUNG_WORDS_MAX;

/// The program's blocks.
#[derive(Debug)]
pub(crate) struct Program {
    /// The array of slots; nothing before the program has begun.
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
