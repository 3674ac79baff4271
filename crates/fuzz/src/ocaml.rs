//! Operation lists on OCaml's heap: objects keep their contents wherever they are moved, what dies
//! is found, and every block and every free list is sound after each slice of the collector.
//!
//! The first byte chooses version, policy and parameters; then five bytes an operation.

use crate::operations::operations;
use heaplab_heap::collected_conformance::drive;
use heaplab_ocaml::{OCaml, spec::Spec};

/// The largest block that is born in the minor heap (`Max_young_wosize`, in bytes).
const LARGEST_YOUNG_BYTES: usize = 2048;
/// Small minor heaps and limits, so that few births make a collector work.
const SPECS: [&str; 12] = [
    "best-fit,s=4k",
    "next-fit,s=4k",
    "first-fit,s=4k",
    "best-fit,s=4k,o=20,O=10,i=61440",
    "next-fit,s=4k,o=320,O=0,w=9",
    "first-fit,s=4k,o=40,O=10,i=61440",
    "best-fit,s=4k,limit=4m",
    "next-fit,s=4k,limit=3m,O=0",
    "first-fit,s=8k,limit=6m,i=1k",
    "best-fit,s=4k,o=1,version=4.12,O=5",
    "best-fit,s=4k,O=0,version=4.14",
    "next-fit,s=4k,O=5,version=4.14,h=1m",
];

/// One input.
pub fn run(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let spec = Spec::parse(SPECS[usize::from(*choice) % SPECS.len()]).expect("a known name");
    let operations = operations(rest, LARGEST_YOUNG_BYTES);
    drive(OCaml::new(spec).expect("address space"), &operations).expect("a sound heap");
}
