//! Operation lists on the metaspace, elastic and old: blocks keep their contents, counts add up,
//! every invariant holds.
//!
//! The first byte chooses generation, policy and limit; then five bytes an operation.

use heaplab_heap::conformance::{Operation, drive};
use heaplab_metaspace::elastic::ElasticMetaspace;
use heaplab_metaspace::old::{Heap11, Options11};
use heaplab_metaspace::plan::{ArenaPlan, LoaderKind, Plan};
use heaplab_metaspace::spec::{Generation, Spec};

const SPECS: [&str; 10] = [
    "jdk16,class_space=16m",
    "jdk17,class_space=16m",
    "jdk17,reclaim=aggressive,class_space=16m",
    "jdk17,reclaim=none,class_space=16m",
    "jdk18,class_space=16m",
    "jdk17,limit=1m,class_space=16m",
    "jdk18,reclaim=aggressive,limit=300k,class_space=16m",
    "jdk16,reclaim=none,limit=2m,class_space=16m",
    "jdk11,class_space=16m",
    "jdk11,limit=6m,class_space=16m",
];

/// One input.
pub fn run(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let spec = Spec::parse(SPECS[usize::from(*choice) % SPECS.len()]).expect("a known name");
    let loaders = LoaderKind::ALL.map(|(loader, _)| loader);
    let plan = (0..8)
        .map(|region| ArenaPlan { class: region % 2 == 1, loader: loaders[region / 2] })
        .collect();
    let operations: Vec<Operation> = rest.chunks_exact(5).take(400).map(operation).collect();
    let plan = Plan::new(plan);
    let driven = match spec.generation {
        Generation::Jdk11 => drive(Heap11::new(Options11::from(&spec), plan), &operations),
        _ => drive(ElasticMetaspace::new(spec, plan).expect("address space"), &operations),
    };
    driven.expect("a sound heap");
}

fn operation(bytes: &[u8]) -> Operation {
    let (kind, region) = (bytes[0] % 16, bytes[1] % 8);
    let number = usize::from(u16::from_le_bytes([bytes[2], bytes[3]]));
    // Small sizes often, and some up to 4 MB.
    let size = if bytes[4] > 250 { number << 6 } else { number % (1 << (4 + bytes[4] % 10)) };
    match kind {
        0..=8 => Operation::Allocate {
            size,
            align_log2: if bytes[4].is_multiple_of(8) { 0 } else { 3 },
            zeroed: kind == 8,
            region,
        },
        9..=12 => Operation::Free(number),
        13 => Operation::Reallocate(number, size),
        14 => Operation::EndRegion(region),
        _ => Operation::Trim,
    }
}
