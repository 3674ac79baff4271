//! More reports than are taken, in a process of their own: they leave its heap in pieces.

use heaplab_reporter::{Kind, Units, collect, register};

#[test]
fn a_reporter_of_a_million_paths_does_not_hide_what_the_allocator_says() {
    let _many = register(|sink| {
        (0..(1 << 20) + 7).for_each(|_| sink.report("tab", Kind::Other, Units::Count, 1, ""));
    });
    let collected = collect();
    let count = |path: &str| collected.reports.iter().filter(|of| of.path == path).count();
    assert_eq!((count("tab"), count("resident"), count("heap-allocated")), (1 << 20, 1, 1));
    assert_eq!(collected.errors, ["7 reports beyond 1048576 are left out"]);
}
