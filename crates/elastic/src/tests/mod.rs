//! Arenas as a user sees them: HotSpot's list of tests as far as it concerns a library, and what is this crate's own.

mod blocks;
mod debugging;
mod limits;
mod model;
mod report;
mod threads;

use crate::{Options, Reclaim, Space};
use std::alloc::Layout;

/// A small space that gives memory back only when it is told to.
fn space() -> Space {
    Space::new(Options { reclaim: Reclaim::AtTrim, ..small() }).unwrap()
}

/// Options of a small space; Miri's stand-in for the kernel gives all of it at once.
fn small() -> Options {
    let granule_bytes = Options::default().granule_bytes;
    let granules = if cfg!(miri) { 1024 } else { 65536 };
    Options { reserve_bytes: granule_bytes * granules, root_bytes: granule_bytes * 256, ..Options::default() }
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// Everything that was committed is gone when nothing is left.
fn is_empty(space: &Space) {
    space.trim().unwrap();
    space.check_deep().unwrap();
    assert_eq!((space.arenas(), space.committed_bytes(), space.idle_bytes()), (0, 0, 0));
}
