//! The real allocators keep every promise of the contract, and report their names.

use heaplab_heap::conformance::{drive, operations, pseudo_random};
use heaplab_heap::{Manual, Request};
use heaplab_system::glibc::Glibc;
use heaplab_system::jemalloc::Jemalloc;
use heaplab_system::library::{Library, LibraryError};
use heaplab_system::mimalloc::Mimalloc;
use heaplab_system::{Malloc, System};
use proptest::prelude::*;
use std::path::Path;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn glibc_conforms(list in operations(150)) {
        drive(System(Glibc), &list).unwrap();
    }

    #[test]
    fn jemalloc_conforms(list in operations(150)) {
        drive(System(Jemalloc), &list).unwrap();
    }

    #[test]
    fn mimalloc_conforms(list in operations(150)) {
        drive(System(Mimalloc), &list).unwrap();
    }
}

#[test]
fn a_long_list_is_served_by_every_allocator() {
    let list = pseudo_random(11, 3_000);
    for driven in [
        drive(System(Glibc), &list),
        drive(System(Jemalloc), &list),
        drive(System(Mimalloc), &list),
    ] {
        assert_eq!(driven.unwrap().refused, 0);
    }
}

#[test]
fn versions_name_their_allocator() {
    assert!(Glibc.version().starts_with("glibc 2."), "{}", Glibc.version());
    assert!(Jemalloc.version().starts_with("jemalloc 5.3"), "{}", Jemalloc.version());
    assert!(Mimalloc.version().starts_with("mimalloc 3."), "{}", Mimalloc.version());
}

#[test]
fn an_impossible_request_is_refused_and_not_a_crash() {
    assert_eq!(System(Glibc).allocate(Request::of(1 << 62)), None);
    assert_eq!(System(Jemalloc).allocate(Request::of(1 << 62)), None);
    assert_eq!(System(Mimalloc).allocate(Request::of(1 << 62)), None);
}

#[test]
fn libraries_that_are_no_allocators_are_refused() {
    let missing = Library::load(Path::new("/nonexistent/libnone.so")).unwrap_err();
    assert!(matches!(missing, LibraryError::Load { .. }), "{missing}");
    // The maths library depends on the C library; the C library's malloc must not pass for its own.
    let borrowed = Library::load(Path::new("libm.so.6")).unwrap_err();
    let LibraryError::Function { function: "malloc", found: Some(file), .. } = &borrowed else {
        panic!("{borrowed}")
    };
    assert!(file.contains("libc"), "{borrowed}");
}
