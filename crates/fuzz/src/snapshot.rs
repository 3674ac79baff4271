//! A whole heap snapshot: any bytes, read with one thread and with two, analysed, every view asked
//! for.

use heaplab_snapshot::analysis::{Analysis, Filter, Options, PathLimits};
use heaplab_snapshot::index::{self, Indexed, Key};
use heaplab_snapshot::summary::Summary;
use heaplab_snapshot::{ReadOptions, Retainers, Snapshot, diff};

/// One input.
pub fn run(data: &[u8]) {
    let one = Snapshot::read(data);
    let two = Snapshot::read_with(data, &ReadOptions { threads: 2, ..ReadOptions::default() });
    let snapshot = match (one, two) {
        (Ok(snapshot), Ok(_)) => snapshot,
        (Err(one), Err(two)) => {
            assert!(one == two && one.offset as usize <= data.len());
            return;
        }
        (one, two) => panic!("one thread: {:?}, two: {:?}", one.err(), two.err()),
    };
    let analysis = Analysis::of(&snapshot, &Options::default());
    let graph = &snapshot.graph;
    let total: u64 = graph.nodes().map(|node| analysis.self_size(node)).sum();
    assert_eq!(analysis.retained_size(graph.root()), total);
    // With sizes as they are, where DevTools keeps 32 bits of each: an input may have sizes up to
    // 2^64.
    let exact = Analysis::of(&snapshot, &Options { exact_sizes: true, ..Options::default() });
    let total = graph.nodes().fold(0u64, |sum, node| sum.saturating_add(exact.self_size(node)));
    assert!(exact.retained_size(graph.root()) == total || total == u64::MAX);
    let backward = Retainers::of(graph);
    for node in graph.nodes().take(50) {
        analysis.name(node);
        let mut retainers = analysis.retainers(&backward, node);
        analysis.sort_by_edge_name(&mut retainers);
        analysis.sort_by_node_name(&mut retainers);
        analysis.shortest_path(&backward, node);
        analysis.retaining_paths(&backward, node, PathLimits::default());
        assert_eq!(analysis.dominator_chain(node).last(), Some(&graph.root()));
    }
    analysis.duplicate_strings();
    analysis.allocation_sites();
    analysis.sample_sizes();
    analysis.filtered_classes(Filter::RetainedByContexts);
    analysis.filtered_classes(Filter::SharedByNativeContexts);
    assert!(diff::compare(&analysis, &analysis).is_empty());
    let key = Key::of(data, &ReadOptions::default(), &Options::default());
    let mut out = Vec::new();
    index::write(&analysis, &key, &mut out).expect("memory takes what is written");
    // Behind a multiple of 8, which what is mapped begins at.
    let mut room = vec![0u8; out.len() + 8];
    let from = room.as_ptr().align_offset(8);
    room[from..from + out.len()].copy_from_slice(&out);
    let indexed = Indexed::open(&room[from..from + out.len()], data, &key, 2).expect("its index");
    assert!(*indexed.snapshot() == snapshot);
    assert_eq!(Summary::of(&indexed.analysis()), Summary::of(&analysis));
}
