//! Aids against memory errors: each finds what it is for.

#[cfg(not(miri))]
use super::is_empty;
use super::{layout, small};
use crate::{Arena, Debug, Growth, Options, Space};
use heaplab_buddy::marks;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn arena(debug: Debug) -> (Space, Arena) {
    let space = Space::new(Options { debug, ..small() }).unwrap();
    let arena = space.arena(Growth::STANDARD).unwrap();
    (space, arena)
}

#[test]
fn a_canary_that_was_overwritten_is_found_and_named() {
    let (_space, arena) = arena(Debug { canaries: true, ..Debug::default() });
    let block = arena.allocate(layout(24, 8)).unwrap();
    arena.allocate(layout(24, 8)).unwrap();
    arena.check().unwrap();
    // SAFETY: behind the block lies its tail, which the arena owns: the overrun of this test stays inside the arena.
    let canary = unsafe { block.add(24).cast::<u64>().replace(5) };
    let found = arena.check().unwrap_err();
    assert_eq!((found.address, found.bytes, found.found), (block.addr().get(), 24, 5));
    // SAFETY: it lives; the check panics before anything is done.
    let panicked = catch_unwind(AssertUnwindSafe(|| unsafe { arena.deallocate(block, layout(24, 8)) }));
    assert!(panicked.is_err());
    // SAFETY: as above.
    unsafe { block.add(24).cast::<u64>().write(canary) };
    arena.check().unwrap();
}

#[test]
fn an_arena_that_dies_looks_at_its_canaries() {
    let (space, arena) = arena(Debug { canaries: true, ..Debug::default() });
    let block = arena.allocate(layout(24, 8)).unwrap();
    let other = space.arena(Growth::STANDARD).unwrap();
    // SAFETY: as above.
    unsafe { block.add(24).write(1) };
    marks::expect("an arena with an overrun block is leaked", || {
        assert!(catch_unwind(AssertUnwindSafe(|| drop(arena))).is_err());
    });
    assert!(space.arenas() == 2 && space.committed_bytes() > 0, "nothing that may be damaged is handed on");
    other.allocate(layout(10_000, 8)).expect("others go on");
    drop(other);
    space.check_deep().unwrap();
}

#[test]
fn an_overrun_arena_that_dies_in_a_panic_is_leaked_too_and_the_first_panic_is_the_one_that_is_seen() {
    let (space, arena) = arena(Debug { canaries: true, ..Debug::default() });
    arena.allocate(layout(24, 8)).unwrap();
    let block = arena.allocate(layout(24, 8)).unwrap();
    // SAFETY: as above; the tail and the other block.
    unsafe { block.add(24).write_bytes(0xee, 48) };
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _dies_here = arena;
        panic!("first");
    }));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"first"));
    space.arena(Growth::STANDARD).unwrap().allocate(layout(10_000, 8)).expect("the space goes on");
    space.check_deep().unwrap();
}

#[test]
fn a_reset_that_finds_an_overrun_panics_and_changes_nothing() {
    let (space, mut arena) = arena(Debug { canaries: true, poison: true, ..Debug::default() });
    let block = arena.allocate(layout(24, 8)).unwrap();
    // SAFETY: as above.
    let canary = unsafe { block.add(24).cast::<u64>().replace(5) };
    let before = arena.statistics();
    assert!(catch_unwind(AssertUnwindSafe(|| arena.reset())).is_err());
    assert_eq!(arena.statistics(), before);
    // SAFETY: as above.
    unsafe { block.add(24).cast::<u64>().write(canary) };
    drop(arena);
    space.trim().unwrap();
    assert_eq!(space.committed_bytes(), 0);
}

#[test]
fn a_reset_that_finds_an_overrun_in_a_panic_leaves_the_first_panic_and_the_blocks() {
    struct Resets(Option<Arena>);
    impl Drop for Resets {
        fn drop(&mut self) {
            if let Some(arena) = &mut self.0 {
                let before = arena.statistics();
                arena.reset();
                assert_eq!(arena.statistics(), before, "nothing was reset");
                arena.allocate(layout(5_000, 8)).expect("it goes on");
            }
        }
    }
    let (space, arena) = arena(Debug { canaries: true, ..Debug::default() });
    let block = arena.allocate(layout(24, 8)).unwrap();
    // SAFETY: as above.
    unsafe { block.add(24).cast::<u64>().write(5) };
    let panicked = marks::expect("a reset finds an overrun block", || {
        catch_unwind(AssertUnwindSafe(move || {
            let _resets = Resets(Some(arena));
            panic!("first");
        }))
    });
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"first"));
    space.check_deep().unwrap();
}

#[test]
fn an_overrun_of_a_whole_tail_is_named_and_not_followed() {
    let (space, arena) = arena(Debug { canaries: true, poison: true, ..Debug::default() });
    let block = arena.allocate(layout(24, 8)).unwrap();
    // SAFETY: as above; the tail is five words.
    unsafe { block.add(24).write_bytes(0x11, 40) };
    assert!(catch_unwind(AssertUnwindSafe(|| drop(arena))).is_err());
    drop(space);
}

#[test]
fn a_block_given_back_twice_is_found() {
    let (_space, arena) = arena(Debug { canaries: true, no_reuse: true, ..Debug::default() });
    let block = arena.allocate(layout(64, 8)).unwrap();
    // SAFETY: it lives.
    unsafe { arena.deallocate(block, layout(64, 8)) };
    // SAFETY: with no_reuse the block stays the arena's own; the second call panics.
    let again = catch_unwind(AssertUnwindSafe(|| unsafe { arena.deallocate(block, layout(64, 8)) }));
    assert!(again.is_err());
}

#[test]
fn poison_fills_what_was_given_back_and_nothing_is_used_again_where_that_is_asked() {
    let (_space, arena) = arena(Debug { poison: true, no_reuse: true, ..Debug::default() });
    let block = arena.allocate(layout(64, 8)).unwrap();
    // SAFETY: it lives; with no_reuse it stays readable afterwards.
    unsafe {
        block.write_bytes(1, 64);
        arena.deallocate(block, layout(64, 8));
        assert!(std::slice::from_raw_parts(block.as_ptr(), 64).iter().all(|byte| *byte == 0xf5));
    }
    assert_ne!(arena.allocate(layout(64, 8)).unwrap(), block);
}

#[test]
#[cfg(not(miri))]
fn a_write_beyond_a_guarded_block_faults() {
    let (space, mut arena) = arena(Debug { guard_pages: true, ..Debug::default() });
    let block = arena.allocate(layout(40, 8)).unwrap();
    // SAFETY: a child that only writes and exits; its fault ends it alone.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            // The block, then its tail, then the page behind.
            block.write_bytes(1, 40);
            block.add(40 + 128).write_volatile(1);
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        status
    };
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "wait status {status:#x}");
    arena.reset();
    let reset = arena.statistics();
    for _ in 0..3 {
        arena.allocate(layout(40, 8)).unwrap();
        arena.reset();
    }
    assert_eq!(arena.statistics(), reset, "a reset keeps no guarded chunk");
    drop(arena);
    is_empty(&space);
}
