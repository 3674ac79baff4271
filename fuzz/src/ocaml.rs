//! Operation lists on OCaml's heap: objects keep their contents wherever they are moved, what dies is
//! found, and every block and every free list is sound after each slice of the collector.
//!
//! The first byte chooses version, policy and parameters; then five bytes an operation.

use heaplab_heap::Ask;
use heaplab_heap::collected_conformance::{Operation, drive};
use heaplab_ocaml::{OCaml, spec::Spec};

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
    let operations: Vec<Operation> = rest.chunks_exact(5).take(600).map(operation).collect();
    drive(OCaml::new(spec).expect("address space"), &operations).expect("a sound heap");
}

fn operation(bytes: &[u8]) -> Operation {
    let slot = u32::from(bytes[1]);
    let number = usize::from(u16::from_le_bytes([bytes[2], bytes[3]]));
    // Small sizes often, sizes around the minor heap's largest, and some up to 1 MB.
    let size = match bytes[4] {
        0..180 => number % (1 << (3 + bytes[4] % 9)),
        180..220 => 2000 + number % 128,
        220..250 => number,
        250.. => number << 4,
    };
    match bytes[0] % 16 {
        0..=9 => Operation::Allocate { slot, size, old: bytes[4] == 7 },
        10..=13 => Operation::Die(slot),
        14 if bytes[4] < 128 => Operation::Collect(Ask::Minor),
        14 => Operation::Collect(Ask::Full),
        _ if bytes[4] < 64 => Operation::Trim,
        _ => Operation::Release(slot),
    }
}
