//! All instruction sets give the same columns and errors: on real files, on generated ones with
//! numbers of every length, and on damaged ones.

mod heaps;

use flate2::read::GzDecoder;
use heaplab_snapshot::{Instructions, ReadError, ReadOptions, Snapshot};
use heaps::Heap;
use proptest::prelude::*;
use std::io::Read;

fn read(
    bytes: &[u8],
    instructions: Instructions,
    threads: usize,
) -> Result<Snapshot<'_>, ReadError> {
    assert!(instructions.is_usable());
    Snapshot::read_with(
        bytes,
        &ReadOptions { instructions: Some(instructions), threads, ..ReadOptions::default() },
    )
}

/// Reads with all that this processor has, and compares everything that was read.
fn same_by_all(bytes: &[u8]) -> Result<Snapshot<'_>, ReadError> {
    let portable = read(bytes, Instructions::Portable, 1);
    for instructions in
        Instructions::ALL.into_iter().filter(|instructions| instructions.is_usable())
    {
        for threads in if instructions == Instructions::best() { 1..=2 } else { 1..=1 } {
            // Not `assert_eq`: the message would be the whole file.
            assert!(
                read(bytes, instructions, threads) == portable,
                "{instructions:?} with {threads} threads reads something else"
            );
        }
    }
    portable
}

#[test]
fn real_files_are_the_same() {
    assert!(Instructions::best().is_usable());
    println!(
        "this processor's: {:?}",
        Instructions::ALL.map(|instructions| (instructions, instructions.is_usable()))
    );
    let files: [&[u8]; 3] = [
        include_bytes!("devtools/chromium-dom.heapsnapshot.gz"),
        include_bytes!("devtools/node12-weak.heapsnapshot.gz"),
        include_bytes!("devtools/node24-tracking.heapsnapshot.gz"),
    ];
    for file in files {
        let mut bytes = Vec::new();
        GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
        assert!(same_by_all(&bytes).unwrap().graph.node_count() > 1000);
        // Cut within each list.
        for share in [10, 35, 60, 85, 99] {
            assert!(same_by_all(&bytes[..bytes.len() * share / 100]).is_err());
        }
    }
}

/// A heap whose numbers have 1 to 20 digits.
fn heap(sizes: &[u64]) -> Heap {
    let mut heap = Heap::new();
    let nodes: Vec<usize> = sizes
        .iter()
        .map(|size| heap.node("object", &format!("Class{}", size % 7), *size))
        .collect();
    for (place, node) in nodes.iter().enumerate() {
        heap.edge("property", 0, &format!("p{place}"), *node);
        heap.edge(
            "element",
            *node,
            &(sizes[place] as u32).to_string(),
            nodes[sizes[place] as usize % nodes.len()],
        );
    }
    heap
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn numbers_of_every_length_are_the_same(
        sizes in prop::collection::vec((0u32..64, any::<u64>()).prop_map(|(bits, value)| value >> bits), 1..60),
    ) {
        let file = heap(&sizes).file();
        for file in [file.replace(", ", ","), file] {
            let snapshot = same_by_all(file.as_bytes()).unwrap();
            let read: Vec<u64> = snapshot.graph.nodes().skip(1).map(|node| snapshot.graph.self_size(node)).collect();
            prop_assert_eq!(&read, &sizes);
        }
    }

    #[test]
    fn damage_is_refused_at_the_same_byte(
        sizes in prop::collection::vec((0u32..64, any::<u64>()).prop_map(|(bits, value)| value >> bits), 20..40),
        at in any::<prop::sample::Index>(),
        bytes in "[0-9,\"\\]\\[\\\\ -]{0,20}",
        gone in 0usize..20,
    ) {
        let mut file = heap(&sizes).file().replace(", ", ",").into_bytes();
        let at = at.index(file.len());
        file.splice(at..(at + gone).min(file.len()), bytes.into_bytes());
        // Most are refused, some damage leaves a good file; either way all say the same.
        let _ = same_by_all(&file);
    }
}
