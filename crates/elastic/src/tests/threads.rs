//! Many arenas and many threads: HotSpot's stress tests, with marked blocks.

use super::{is_empty, layout, small};
#[cfg(not(miri))]
use crate::CommitLimit;
use crate::{Arena, Growth, Options, Reclaim, Space};
#[cfg(not(miri))]
use heaplab_buddy::marks::passed;
use std::ptr::NonNull;
#[cfg(not(miri))]
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
#[cfg(not(miri))]
use std::time::{Duration, Instant};

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

/// An arena whose blocks all hold their mark.
struct Marked {
    arena: Arena,
    blocks: Vec<(NonNull<u8>, usize, u8)>,
}

impl Marked {
    fn new(space: &Space, growth: Growth) -> Marked {
        Marked { arena: space.arena(growth).unwrap(), blocks: Vec::new() }
    }

    fn allocate(&mut self, bytes: usize, mark: u8) {
        let block = self.arena.allocate(layout(bytes, 8)).unwrap();
        // SAFETY: the block has this size.
        unsafe { block.write_bytes(mark, bytes) };
        self.blocks.push((block, bytes, mark));
    }

    fn deallocate(&mut self, nth: usize) {
        let block = self.blocks.swap_remove(nth);
        Marked::check(block);
        // SAFETY: it lives and has left the list.
        unsafe { self.arena.deallocate(block.0, layout(block.1, 8)) };
    }

    fn check((block, bytes, mark): (NonNull<u8>, usize, u8)) {
        // SAFETY: the block lives and was written.
        let held = unsafe { std::slice::from_raw_parts(block.as_ptr(), bytes) };
        assert!(held.iter().all(|byte| *byte == mark), "a block of {bytes} bytes changed");
    }
}

// SAFETY: the blocks are the arena's, which moves with them.
unsafe impl Send for Marked {}

impl Drop for Marked {
    fn drop(&mut self) {
        self.blocks.drain(..).for_each(Marked::check);
    }
}

#[test]
fn thirty_two_arenas_through_ten_thousand_steps() {
    let steps = if cfg!(miri) { 300 } else { 10_000 };
    for (arenas, reclaim) in [(32, Reclaim::AtReturn { keep_bytes: 0 }), (32, Reclaim::AtTrim), (1, Reclaim::AtTrim)] {
        let space = Space::new(Options { reclaim, ..small() }).unwrap();
        let mut random = Random(7);
        let mut slots: Vec<Option<Marked>> = (0..arenas).map(|_| None).collect();
        for step in 0..steps {
            let at = random.below(arenas);
            let Some(marked) = &mut slots[at] else {
                slots[at] = Some(Marked::new(&space, [Growth::MICRO, Growth::SMALL, Growth::STANDARD][step % 3]));
                continue;
            };
            match random.below(100) {
                0 => slots[at] = None,
                1..=15 if !marked.blocks.is_empty() => marked.deallocate(random.below(marked.blocks.len())),
                _ => {
                    let bytes = if random.below(50) == 0 { random.below(20_000) } else { random.below(600) };
                    marked.allocate(1 + bytes, step as u8);
                }
            }
            if step % 512 == 0 {
                space.check_deep().unwrap();
            }
        }
        slots.clear();
        is_empty(&space);
    }
}

#[test]
fn many_threads_with_three_profiles_of_sizes() {
    let (threads, steps) = if cfg!(miri) { (2, 60) } else { (8, 4_000) };
    let space = Space::new(Options { reclaim: Reclaim::AtReturn { keep_bytes: 64 << 10 }, ..small() }).unwrap();
    for words in [2048, 512, 32] {
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let space = &space;
                scope.spawn(move || {
                    let mut random = Random(thread);
                    let mut marked = Marked::new(space, Growth::STANDARD);
                    for step in 0..steps {
                        match random.below(200) {
                            0 => marked = Marked::new(space, Growth::SMALL),
                            1..=30 if !marked.blocks.is_empty() => marked.deallocate(random.below(marked.blocks.len())),
                            // Some sizes are rare, so that the space of all threads stays small.
                            _ if marked.blocks.len() > 60 => marked = Marked::new(space, Growth::STANDARD),
                            _ => marked.allocate(8 * (1 + random.below(words)), step as u8),
                        }
                    }
                    // The last one dies on another thread.
                    std::thread::spawn(move || drop(marked)).join().unwrap();
                });
            }
        });
        space.check_deep().unwrap();
    }
    is_empty(&space);
}

#[test]
#[cfg(not(miri))]
fn the_background_gives_idle_memory_back_and_ends_with_its_space() {
    let reclaim = Reclaim::Background { interval: Duration::from_millis(5), keep_bytes: 0 };
    let space = Space::new(Options { reclaim, ..small() }).unwrap();
    let arenas: Vec<_> = (0..50).map(|_| space.arena(Growth::new(&[4096])).unwrap()).collect();
    drop(arenas);
    let start = Instant::now();
    while space.committed_bytes() > 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "{} bytes are still committed", space.committed_bytes());
        std::thread::sleep(Duration::from_millis(5));
    }
    space.check_deep().unwrap();
}

#[test]
#[cfg(not(miri))]
fn a_background_without_an_interval_rests_a_millisecond() {
    for interval in [Duration::ZERO, Duration::from_nanos(1)] {
        let reclaim = Reclaim::Background { interval, keep_bytes: 7 };
        let space = Space::new(Options { reclaim, ..small() }).unwrap();
        let kept = Reclaim::Background { interval: Duration::from_millis(1), keep_bytes: 7 };
        assert_eq!(space.options().reclaim, kept);
    }
}

#[test]
#[cfg(not(miri))]
fn memory_that_another_thread_is_giving_back_is_waited_for_at_the_limit() {
    const BYTES: usize = 4 << 20;
    let waited = "at the commit limit or out of addresses: what another thread gives back is waited for";
    // Room for one block, so that each needs the pages of the one before.
    let limit = Arc::new(CommitLimit::new(BYTES + (128 << 10)));
    let space = Space::new(Options { reclaim: Reclaim::AtTrim, limit: Some(limit), ..small() }).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                space.trim().unwrap();
            }
        });
        let asking = scope.spawn(|| {
            let (start, before) = (Instant::now(), passed(waited));
            let mut blocks = 0;
            while blocks < 50 || (cfg!(debug_assertions) && passed(waited) < before + 5 && start.elapsed() < Duration::from_secs(60)) {
                let arena = space.arena(Growth::MICRO).unwrap_or_else(|error| panic!("arena {blocks}: {error}"));
                let block = arena.allocate(layout(BYTES, 8)).unwrap_or_else(|error| panic!("block {blocks}: {error}"));
                // SAFETY: the block has this size.
                unsafe { block.write_bytes(1, BYTES) };
                blocks += 1;
                drop(arena);
                // Until the other thread has claimed the block, and no longer: the pages are on their way then.
                while space.idle_bytes() > BYTES / 2 {
                    std::thread::yield_now();
                }
            }
            passed(waited) - before
        });
        let waits = asking.join();
        done.store(true, Ordering::Relaxed);
        assert!(waits.expect("no block is refused") > 0 || !cfg!(debug_assertions), "nobody had to wait");
    });
    is_empty(&space);
}
