//! Aids against memory errors: each finds its kind of error, and no overrun makes them write to a
//! wrong place.

#[cfg(not(miri))]
use super::is_empty;
use super::{layout, small};
use crate::{Arena, Debug, Growth, Options, Overwritten, Reclaim, Space};
use allocator_api2::alloc::Allocator;
use heaplab_buddy::marks;
use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

const CANARIES: Debug =
    Debug { canaries: true, guard_pages: false, poison: false, no_reuse: false };
const POISON: Debug = Debug { canaries: false, guard_pages: false, poison: true, no_reuse: false };

fn arena(debug: Debug) -> (Space, Arena) {
    let space = Space::new(Options { debug, reclaim: Reclaim::AtTrim, ..small() }).unwrap();
    let arena = space.arena(Growth::STANDARD).unwrap();
    (space, arena)
}

fn panics(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it panics");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

fn free(arena: &Arena, block: NonNull<u8>, bytes: usize) {
    // SAFETY: tests give blocks of theirs back; the aids must find any fault in that.
    unsafe { arena.deallocate(block, layout(bytes, 8)) };
}

/// A write that goes wrong: where it lands belongs to the arena.
fn write(block: NonNull<u8>, offset: usize, bytes: &[u8]) {
    // SAFETY: tests write to chunks of their arenas, beside or after blocks of theirs.
    unsafe { block.add(offset).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
}

fn read(block: NonNull<u8>, offset: usize) -> u8 {
    // SAFETY: as for `write`.
    unsafe { block.add(offset).read() }
}

#[test]
fn a_canary_that_was_overwritten_is_found_and_named() {
    for bytes in [24, 13, 1, 5000] {
        let (_space, arena) = arena(CANARIES);
        let block = arena.allocate(layout(bytes, 8)).unwrap();
        arena.allocate(layout(24, 8)).unwrap();
        arena.check().unwrap();
        let canary = read(block, bytes);
        write(block, bytes, &[5]);
        let found = arena.check().unwrap_err();
        let address = block.addr().get();
        assert_eq!(
            found,
            Overwritten::BeyondEnd { address, bytes, offset: bytes, expected: canary, found: 5 }
        );
        let message = panics(|| free(&arena, block, bytes));
        assert!(
            message.contains(&format!(
                "the block of {bytes} bytes at {address:#x} was written beyond its end"
            )),
            "{message}"
        );
        write(block, bytes, &[canary]);
        arena.check().unwrap();
        free(&arena, block, bytes);
    }
}

#[test]
fn every_byte_beyond_every_size_is_looked_at_and_none_within() {
    for bytes in 1..=33 {
        let (_space, arena) = arena(CANARIES);
        let block = arena.allocate(layout(bytes, 8)).unwrap();
        let beyond = (bytes + 1).next_multiple_of(8).max(bytes + 8) - bytes;
        for offset in bytes..bytes + beyond {
            let canary = read(block, offset);
            write(block, offset, &[!canary]);
            let expected = Overwritten::BeyondEnd {
                address: block.addr().get(),
                bytes,
                offset,
                expected: canary,
                found: !canary,
            };
            assert_eq!(arena.check(), Err(expected), "{bytes} bytes, offset {offset}");
            write(block, offset, &[canary]);
        }
        write(block, 0, &vec![0x55; bytes]);
        arena.check().unwrap();
    }
}

#[test]
fn sizes_that_round_to_the_same_words_are_told_apart() {
    for debug in [CANARIES, POISON, Debug { no_reuse: true, ..Debug::default() }] {
        let (_space, arena) = arena(debug);
        let block = arena.allocate(layout(13, 8)).unwrap();
        let address = block.addr().get();
        for wrong in [9, 12, 14, 16] {
            let message = panics(|| free(&arena, block, wrong));
            assert_eq!(
                message,
                format!("the block of 13 bytes at {address:#x} is given back as one of {wrong}")
            );
        }
        free(&arena, block, 13);
        assert!(panics(|| free(&arena, block, 13)).contains("the block of 13 bytes"));
    }
    let (_space, arena) = arena(POISON);
    let block = arena.allocate(layout(13, 8)).unwrap();
    free(&arena, block, 13);
    let address = block.addr().get();
    for offset in [0, 12, 13, 15] {
        write(block, offset, &[1]);
        let found = arena.check().unwrap_err();
        assert_eq!(found, Overwritten::AfterFree { address, bytes: 13, offset, found: 1 });
        let named = format!(
            "the freed block of 13 bytes at {address:#x} was written to: expected 0xf5 at offset {offset}, found 0x01"
        );
        assert_eq!(found.to_string(), named);
        write(block, offset, &[0xf5]);
    }
}

#[test]
fn an_arena_that_dies_looks_at_its_canaries() {
    let (space, arena) = arena(CANARIES);
    let block = arena.allocate(layout(24, 8)).unwrap();
    let other = space.arena(Growth::STANDARD).unwrap();
    write(block, 24, &[1]);
    marks::expect("an arena with an overrun block is leaked", || panics(|| drop(arena)));
    assert!(
        space.arenas() == 2 && space.committed_bytes() > 0,
        "what was written over can be looked at"
    );
    other.allocate(layout(10_000, 8)).expect("others go on");
    drop(other);
    space.check_deep().unwrap();
}

#[test]
fn an_overrun_arena_that_dies_in_a_panic_is_leaked_too_and_the_first_panic_is_the_one_that_is_seen()
{
    let (space, arena) = arena(CANARIES);
    arena.allocate(layout(24, 8)).unwrap();
    let block = arena.allocate(layout(24, 8)).unwrap();
    write(block, 24, &[0xee; 40]);
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
    let (space, mut arena) = arena(Debug { poison: true, ..CANARIES });
    let block = arena.allocate(layout(24, 8)).unwrap();
    let canary = read(block, 24);
    write(block, 24, &[5]);
    let before = arena.statistics();
    panics(|| arena.reset());
    assert_eq!(arena.statistics(), before);
    write(block, 24, &[canary]);
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
    let (space, arena) = arena(CANARIES);
    let block = arena.allocate(layout(24, 8)).unwrap();
    write(block, 24, &[5]);
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
fn an_overrun_directs_no_poison_elsewhere() {
    for debug in [POISON, Debug { no_reuse: true, ..POISON }, Debug { canaries: true, ..POISON }] {
        let (space, arena) = arena(debug);
        let above = arena.allocate(layout(256, 8)).unwrap();
        let block = arena.allocate(layout(24, 8)).unwrap();
        let mut victim = [7u8; 64];
        let forged = [0, NonNull::from(&mut victim).addr().get() as u64, 64, 0, 0]
            .map(u64::to_ne_bytes)
            .concat();
        write(block, 24, &forged);
        if debug.canaries {
            panics(|| free(&arena, block, 24));
            panics(|| drop(arena));
        } else {
            free(&arena, block, 24);
            free(&arena, above, 256);
            drop(arena);
            assert_eq!(
                (space.arenas(), space.trim().is_ok(), space.committed_bytes()),
                (0, true, 0),
                "{debug:?}"
            );
        }
        assert_eq!(victim, [7; 64], "{debug:?}");
    }
}

#[test]
fn an_overrun_of_an_arenas_first_block_reaches_nothing_that_the_aids_rely_on() {
    let (space, arena) = arena(Debug { canaries: true, ..POISON });
    let granule = space.options().granule_bytes;
    let top = arena.allocate(layout(24, 8)).unwrap();
    // To the end of its chunk: where the head and links of other arenas are.
    write(top, 24, &vec![0xee; granule - (top.addr().get() % granule) - 24]);
    assert!(matches!(arena.check(), Err(Overwritten::BeyondEnd { offset: 24, found: 0xee, .. })));
    arena.allocate(layout(3 * granule, 8)).expect("it goes on");
    panics(|| drop(arena));
    space.arena(Growth::LARGE).unwrap().allocate(layout(3 * granule, 8)).unwrap();
    space.check_deep().unwrap();
}

#[test]
fn a_block_given_back_twice_or_as_another_is_found() {
    for debug in [
        CANARIES,
        POISON,
        Debug { no_reuse: true, ..Debug::default() },
        Debug { no_reuse: true, ..CANARIES },
    ] {
        let (_space, arena) = arena(debug);
        let block = arena.allocate(layout(64, 8)).unwrap();
        assert!(panics(|| free(&arena, block, 72)).contains("given back as one of 72"));
        free(&arena, block, 64);
        let message = panics(|| free(&arena, block, 64));
        assert!(
            message.contains("given back twice") || message.contains("was it given back before?"),
            "{message}"
        );
        let inner = arena.allocate(layout(64, 8)).unwrap();
        // SAFETY: within the block.
        let within = unsafe { inner.add(8) };
        assert!(panics(|| free(&arena, within, 8)).contains("the arena has none there"));
        free(&arena, inner, 64);
    }
}

#[test]
fn poison_fills_what_was_given_back_and_nothing_is_used_again_where_that_is_asked() {
    let (_space, arena) = arena(Debug { no_reuse: true, ..POISON });
    let block = arena.allocate(layout(64, 8)).unwrap();
    write(block, 0, &[1; 64]);
    free(&arena, block, 64);
    assert!((0..64).all(|at| read(block, at) == 0xf5));
    assert_ne!(arena.allocate(layout(64, 8)).unwrap(), block);
}

#[test]
fn an_arena_with_aids_makes_handles_of_its_space_and_dies_after_it() {
    let (first, arena) = arena(CANARIES);
    drop(first);
    let space = arena.space();
    assert_eq!(space.arenas(), 1);
    drop(space);
    arena.alloc(7u64).unwrap();
    drop(arena);
}

#[test]
fn without_no_reuse_the_same_block_serves_again() {
    for debug in [CANARIES, POISON] {
        let (_space, arena) = arena(debug);
        let block = arena.allocate(layout(64, 8)).unwrap();
        free(&arena, block, 64);
        assert_eq!(arena.allocate(layout(64, 8)).unwrap(), block);
    }
}

#[test]
fn a_write_to_a_freed_block_is_found_by_a_check_when_it_is_used_again_and_at_death() {
    for (offset, no_reuse) in [(0, false), (8, false), (63, false), (0, true), (63, true)] {
        let (space, arena) = arena(Debug { no_reuse, ..POISON });
        let block = arena.allocate(layout(64, 8)).unwrap();
        free(&arena, block, 64);
        arena.check().unwrap();
        write(block, offset, &[0x41]);
        let expected =
            Overwritten::AfterFree { address: block.addr().get(), bytes: 64, offset, found: 0x41 };
        assert_eq!(arena.check(), Err(expected.clone()));
        if !no_reuse {
            let message = marks::expect("memory that is used again was written to since", || {
                panics(|| drop(arena.allocate(layout(64, 8))))
            });
            assert_eq!(message, expected.to_string());
        }
        let message =
            marks::expect("an arena with an overrun block is leaked", || panics(|| drop(arena)));
        assert_eq!(message, expected.to_string());
        space.check_deep().unwrap();
    }
}

#[test]
fn a_part_of_a_freed_block_that_is_used_again_is_looked_at_no_more_and_the_rest_is() {
    let (_space, arena) = arena(POISON);
    let block = arena.allocate(layout(64, 8)).unwrap();
    free(&arena, block, 64);
    let upper = arena.allocate(layout(24, 8)).unwrap();
    assert_eq!(upper.addr().get(), block.addr().get() + 40);
    write(upper, 0, &[1; 24]);
    arena.check().unwrap();
    write(block, 39, &[9]);
    assert_eq!(
        arena.check(),
        Err(Overwritten::AfterFree {
            address: block.addr().get(),
            bytes: 64,
            offset: 39,
            found: 9
        })
    );
    write(block, 39, &[0xf5]);
    arena.check().unwrap();
}

#[test]
fn what_an_aligned_block_leaves_on_both_sides_of_a_freed_one_is_still_looked_at() {
    let (_space, arena) = arena(POISON);
    let block = arena.allocate(layout(304, 8)).unwrap();
    free(&arena, block, 304);
    let (start, end) = (block.addr().get(), block.addr().get() + 304);
    let inner = arena.allocate(layout(8, 128)).unwrap();
    let at = inner.addr().get();
    assert!(start < at && at + 8 < end, "{at:#x} within {start:#x}..{end:#x}");
    write(inner, 0, &[1; 8]);
    arena.check().unwrap();
    for offset in [0, at - start - 1, at + 8 - start, 303] {
        write(block, offset, &[9]);
        assert!(
            arena.check()
                == Err(Overwritten::AfterFree { address: start, bytes: 304, offset, found: 9 }),
            "the whole block is named: {:?}",
            arena.check()
        );
        write(block, offset, &[0xf5]);
    }
    arena.check().unwrap();
}

#[test]
fn poison_fills_an_arena_that_dies_or_is_reset_and_a_write_after_a_reset_is_found() {
    let (space, mut arena) = arena(POISON);
    let bytes = 3 * space.options().granule_bytes;
    let blocks = [
        (100, arena.allocate(layout(100, 8)).unwrap()),
        (bytes, arena.allocate(layout(bytes, 8)).unwrap()),
    ];
    blocks.iter().for_each(|(bytes, block)| write(*block, 0, &vec![3; *bytes]));
    arena.reset();
    assert!(
        blocks.iter().all(|(bytes, block)| (0..*bytes).all(|at| read(*block, at) == 0xf5)),
        "reset"
    );
    write(blocks[0].1, 50, &[4]);
    assert!(matches!(arena.check(), Err(Overwritten::AfterFree { offset: 50, found: 4, .. })));
    write(blocks[0].1, 50, &[0xf5]);
    let again = arena.allocate(layout(200, 8)).unwrap();
    write(again, 0, &[3; 200]);
    drop(arena);
    // Idle memory stays as it is until a trim.
    assert!((0..200).all(|at| read(again, at) == 0xf5), "dead");
    space.trim().unwrap();
    assert_eq!(space.committed_bytes(), 0);
}

#[test]
fn blocks_are_resized_with_canaries_at_their_exact_ends() {
    let (_space, arena) = arena(Debug { canaries: true, ..POISON });
    let (arena, one) = (&arena, |bytes| Layout::from_size_align(bytes, 1).unwrap());
    let block = arena.allocate(one(9)).unwrap();
    write(block, 0, b"nine byte");
    // SAFETY: each lives with the size given.
    let last = unsafe {
        let longer = (&arena).grow(block, one(9), one(15)).unwrap().cast::<u8>();
        write(longer, 9, b"longer");
        (&arena).shrink(longer, one(15), one(11)).unwrap().cast::<u8>()
    };
    assert!((0..11).all(|at| read(last, at) == b"nine bytelonger"[at]));
    arena.check().unwrap();
    write(last, 11, b"x");
    assert!(matches!(arena.check(), Err(Overwritten::BeyondEnd { bytes: 11, offset: 11, .. })));
    write(last, 11, &[crate::arena::book::canary(last.addr().get() + 11)]);
}

/// Whether a child that writes the block, and then one byte at this offset, ends by a fault.
#[cfg(not(miri))]
fn faults(block: NonNull<u8>, bytes: usize, offset: usize) -> bool {
    // SAFETY: a child that only writes and exits; its fault ends it alone.
    let status = unsafe {
        let child = libc::fork();
        assert!(child >= 0, "cannot fork");
        if child == 0 {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            block.write_bytes(1, bytes);
            block.add(offset).write_volatile(1);
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        status
    };
    let faulted = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV;
    assert!(
        faulted || libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        "wait status {status:#x}"
    );
    faulted
}

#[test]
#[cfg(not(miri))]
fn the_first_byte_beyond_a_guarded_block_faults() {
    for debug in [
        Debug { guard_pages: true, ..Debug::default() },
        Debug { guard_pages: true, canaries: true, poison: true, no_reuse: true },
    ] {
        let (space, mut arena) = arena(debug);
        for (bytes, align) in
            [(40, 8), (8, 8), (13, 1), (4096, 8), (4096, 4096), (10_000, 16), (65536, 32768)]
        {
            let block = arena.allocate(layout(bytes, align)).unwrap();
            assert!(block.addr().get().is_multiple_of(align));
            assert!(!faults(block, bytes, bytes - 1), "{bytes} bytes at {align} can be written");
            for beyond in [0, 1, 7, 39] {
                assert!(
                    faults(block, bytes, bytes + beyond),
                    "{bytes} bytes at {align}, {beyond} beyond"
                );
            }
        }
        let kept = arena.allocate(layout(40, 8)).unwrap();
        free(&arena, kept, 40);
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
}

#[test]
#[cfg(not(miri))]
fn what_alignment_leaves_before_a_guard_page_has_canaries() {
    let (_space, arena) = arena(Debug { guard_pages: true, poison: true, ..CANARIES });
    let block = arena.allocate(layout(20, 16)).unwrap();
    assert!(
        !faults(block, 20, 31) && faults(block, 20, 32),
        "twelve bytes are missing to the next multiple of 16"
    );
    let canary = read(block, 20);
    write(block, 20, &[0x33]);
    let address = block.addr().get();
    assert_eq!(
        arena.check(),
        Err(Overwritten::BeyondEnd {
            address,
            bytes: 20,
            offset: 20,
            expected: canary,
            found: 0x33
        })
    );
    write(block, 20, &[canary]);
    // SAFETY: it lives; with guard pages it stays readable.
    unsafe { arena.deallocate(block, layout(20, 16)) };
    write(block, 3, &[0x33]);
    assert_eq!(
        arena.check(),
        Err(Overwritten::AfterFree { address, bytes: 20, offset: 3, found: 0x33 })
    );
    write(block, 3, &[0xf5]);
}
