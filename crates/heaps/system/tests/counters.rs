//! Allocators' own counters. In a process of its own: other tests would allocate and free in the
//! same heaps.

use heaplab_heap::{Block, Heap, Manual, Request};
use heaplab_system::glibc::Glibc;
use heaplab_system::jemalloc::Jemalloc;
use heaplab_system::mimalloc::Mimalloc;
use heaplab_system::{Malloc, System};

/// Holding 16 MiB must show in the allocator's counters.
fn sees_what_it_holds<M: Malloc>(malloc: M) {
    let mut heap = System(malloc);
    let before = heap.footprint();
    let blocks: Vec<_> = (0..4096).map(|_| heap.allocate(Request::of(4096)).unwrap()).collect();
    let after = heap.footprint();
    for (before, after) in
        [(before.used_bytes, after.used_bytes), (before.active_bytes, after.active_bytes)]
    {
        let (Some(before), Some(after)) = (before, after) else { continue };
        assert!(after - before >= 16 << 20, "{}: {before} then {after}", malloc.version());
    }
    assert!(after.committed_bytes.unwrap() >= 16 << 20);
    for block in blocks {
        // SAFETY: each is live and freed once.
        unsafe { heap.deallocate(Block::at(block)) };
    }
    assert!(heap.trim());
}

#[test]
fn counters_see_what_is_held() {
    sees_what_it_holds(Glibc);
    sees_what_it_holds(Jemalloc);
    sees_what_it_holds(Mimalloc);
}
