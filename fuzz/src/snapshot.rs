//! A whole heap snapshot: any bytes, read with one thread and with two, analysed, every view asked
//! for.

use heaplab_snapshot::analysis::{Analysis, Filter, Options, PathLimits};
use heaplab_snapshot::index::{Key, Summary};
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
    let (summary, key) = (Summary::of(&analysis), Key::of(data));
    assert_eq!(Summary::from_index(&summary.to_index(&key), &key).as_ref(), Ok(&summary));
}
