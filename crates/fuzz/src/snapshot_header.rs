//! The header of a heap snapshot, and nothing else that could be wrong: the bytes are the
//! `snapshot` object, behind them come lists of two nodes and an edge. So the fuzzer spends itself
//! on names of fields, types, counts and their order, which decide how every list is read.
//!
//! What one way into a file says of a header the others must say too: reading, finding lists,
//! validating.

use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::rows::Rows;
use heaplab_snapshot::validate::validate;
use heaplab_snapshot::{ReadOptions, Snapshot};

/// Lists for a header of seven node fields, and of as many others as find their numbers in them.
const LISTS: &[u8] =
    b",\"nodes\":[9,0,1,0,1,0,0,3,1,3,16,0,0,0],\"edges\":[2,1,7],\"trace_function_infos\":[],\"trace_tree\":[],\"samples\":[],\
\"locations\":[7,5,1,2],\"strings\":[\"\",\"Session\"]}";

/// One input.
pub fn run(data: &[u8]) {
    let file = [b"{\"snapshot\":", data, LISTS].concat();
    let read = Snapshot::read(&file);
    let report = validate(&file, &mut |_, _| ());
    assert_eq!(report.damage, read.as_ref().err().cloned());
    let located = Rows::find(&file);
    assert!(
        read.is_err()
            || located.is_ok()
            || read.as_ref().is_ok_and(|snapshot| snapshot.graph.root() != 0)
    );
    let options = ReadOptions { threads: 2, allow_duplicate_ids: true, ..ReadOptions::default() };
    match (read, Snapshot::read_with(&file, &options)) {
        (Ok(snapshot), Ok(_)) => {
            // Sizes as they are, and as DevTools keeps them.
            for exact_sizes in [false, true] {
                let analysis =
                    Analysis::of(&snapshot, &Options { exact_sizes, ..Options::default() });
                let graph = &snapshot.graph;
                let total: u64 = graph.nodes().map(|node| analysis.self_size(node)).sum();
                assert_eq!(analysis.retained_size(graph.root()), total);
            }
        }
        (Err(error), _) => assert!(error.offset as usize <= file.len()),
        (Ok(_), Err(error)) => panic!("refused with leave to share ids alone: {error}"),
    }
}
