//! Collections with unknown block starts, against the bytes that the allocator gave out. The only
//! test of its process, because the allocator counts for all threads.

use heaplab_reporter::{Measure, SizeOf};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Bytes that the allocator has given out.
fn allocated() -> usize {
    // SAFETY: asks numbers.
    let all = unsafe { libc::mallinfo2() };
    all.uordblks + all.hblkhd
}

#[test]
fn collections_without_an_address_are_near_the_truth() {
    let within = |said: usize, before: usize, share: f64| {
        let real = allocated() - before;
        let error = (said as f64 - real as f64).abs() / real as f64;
        assert!(error < share, "{said} bytes said, {real} allocated");
    };
    let before = allocated();
    let map: HashMap<u64, [u64; 9]> = (0..50_000).map(|n| (n, [n; 9])).collect();
    within(map.heap_bytes(&mut Measure::new()), before, 0.01);
    drop(map);
    let before = allocated();
    let queue: VecDeque<u64> = (0..200_000).collect();
    within(queue.heap_bytes(&mut Measure::new()), before, 0.01);
    drop(queue);
    let before = allocated();
    let tree: BTreeMap<u64, [u64; 4]> =
        (0..50_000_u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15), [n; 4])).collect();
    within(tree.heap_bytes(&mut Measure::new()), before, 0.02);
    drop(tree);
    // A tree built by single insertions has nodes that are not full.
    let (mut tree, before) = (BTreeMap::new(), allocated());
    for n in 0..50_000_u64 {
        tree.insert(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), [n; 4]);
    }
    within(tree.heap_bytes(&mut Measure::new()), before, 0.02);
}
