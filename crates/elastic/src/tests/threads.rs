//! Many arenas and many threads: HotSpot's stress tests, with marked blocks.

use super::{begun, is_empty, layout, reset, small};
#[cfg(not(miri))]
use crate::CommitLimit;
use crate::operations::are_all;
use crate::pool::reclaim::By;
use crate::pool::shards::{Shards, set_home};
use crate::{Arena, Growth, Options, Reclaim, Space};
use heaplab_buddy::marks;
#[cfg(not(miri))]
use heaplab_buddy::marks::passed;
use std::ptr::NonNull;
use std::sync::Arc;
#[cfg(not(miri))]
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(miri))]
use std::sync::mpsc::channel;
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

/// An arena whose blocks are each filled with a mark of their own.
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
        assert!(are_all(held, mark), "a block of {bytes} bytes changed");
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
    let steps = if cfg!(miri) { 40 } else { 10_000 };
    for (arenas, reclaim) in
        [(32, Reclaim::AtReturn { keep_bytes: 0 }), (32, Reclaim::AtTrim), (1, Reclaim::AtTrim)]
    {
        let space = Space::new(Options { reclaim, ..small() }).unwrap();
        let mut random = Random(7);
        let mut slots: Vec<Option<Marked>> = (0..arenas).map(|_| None).collect();
        for step in 0..steps {
            let at = random.below(arenas);
            let Some(marked) = &mut slots[at] else {
                slots[at] = Some(Marked::new(
                    &space,
                    [Growth::MICRO, Growth::SMALL, Growth::STANDARD][step % 3],
                ));
                continue;
            };
            match random.below(100) {
                0 => slots[at] = None,
                1..=15 if !marked.blocks.is_empty() => {
                    marked.deallocate(random.below(marked.blocks.len()))
                }
                _ => {
                    let bytes = if random.below(50) == 0 {
                        random.below(20_000)
                    } else {
                        random.below(600)
                    };
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
    let (threads, steps) = if cfg!(miri) { (2, 15) } else { (8, 4_000) };
    let space =
        Space::new(Options { reclaim: Reclaim::AtReturn { keep_bytes: 64 << 10 }, ..small() })
            .unwrap();
    for words in if cfg!(miri) { [64, 32, 8] } else { [2048, 512, 32] } {
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let space = &space;
                scope.spawn(move || {
                    let mut random = Random(thread);
                    let mut marked = Marked::new(space, Growth::STANDARD);
                    for step in 0..steps {
                        match random.below(200) {
                            0 => marked = Marked::new(space, Growth::SMALL),
                            1..=30 if !marked.blocks.is_empty() => {
                                marked.deallocate(random.below(marked.blocks.len()))
                            }
                            // Some sizes are rare, so that the space of all threads stays small.
                            _ if marked.blocks.len() > 60 => {
                                marked = Marked::new(space, Growth::STANDARD)
                            }
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

/// A small space with this number of shards, on any machine.
fn sharded(count: usize, options: Options) -> Space {
    Space::with_shards(options, |shape| Shards::new(shape, count)).unwrap()
}

#[test]
fn arenas_made_in_one_thread_grow_and_die_in_another() {
    let (threads, arenas, most_bytes) = if cfg!(miri) { (2, 2, 300) } else { (4, 200, 3000) };
    for reclaim in [Reclaim::AtTrim, Reclaim::AtReturn { keep_bytes: 64 << 10 }] {
        let space = sharded(threads, Options { reclaim, ..small() });
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..threads).map(|_| std::sync::mpsc::channel::<Marked>()).unzip();
        std::thread::scope(|scope| {
            for (thread, inbox) in receivers.into_iter().enumerate() {
                let (space, outbox) = (space.clone(), senders[(thread + 1) % threads].clone());
                scope.spawn(move || {
                    set_home(thread);
                    let mut random = Random(thread as u64);
                    for _ in 0..arenas {
                        let mut marked =
                            Marked::new(&space, [Growth::SMALL, Growth::STANDARD][random.below(2)]);
                        (0..10).for_each(|_| {
                            marked.allocate(1 + random.below(most_bytes), thread as u8)
                        });
                        outbox.send(marked).unwrap();
                        let mut other = inbox.recv().unwrap();
                        (0..10).for_each(|_| {
                            other.allocate(1 + random.below(most_bytes), thread as u8)
                        });
                    }
                });
            }
        });
        is_empty(&space);
        let begun = space
            .0
            .shards
            .all()
            .iter()
            .filter(|shard| shard.lock().counts().chunks_taken > 0)
            .count();
        // Miri's space has roots for one shard.
        assert_eq!(
            begun,
            if cfg!(miri) { 1 } else { threads },
            "each thread took from a shard of its own"
        );
    }
}

#[test]
#[cfg_attr(miri, ignore = "the space that Miri gives has roots for one shard")]
fn the_last_arena_of_several_shards_ends_the_space() {
    let space = sharded(3, small());
    let alive = Arc::downgrade(&space.0);
    let begin = |home| {
        set_home(home);
        space.arena(Growth::MICRO).unwrap()
    };
    let mut arenas: Vec<Arena> =
        (0..3).map(|home| marks::expect("a shard has its first arena", || begin(home))).collect();
    arenas.extend((3..6).map(begin));
    assert_eq!((Arc::strong_count(&space.0), space.arenas()), (1 + 3, 6), "one count a shard");
    drop(space);
    std::thread::scope(|scope| {
        arenas.into_iter().for_each(|arena| {
            drop(scope.spawn(move || {
                // A handle made of an arena outlives it.
                let space = arena.space();
                drop(arena);
                space.arena(Growth::MICRO).unwrap();
            }))
        })
    });
    assert!(alive.upgrade().is_none(), "a space without handles and arenas is gone");
}

#[test]
fn a_shard_keeps_its_count_between_arenas_until_the_last_handle_goes() {
    let space = sharded(2, small());
    let (alive, strong) = (Arc::downgrade(&space.0), |space: &Space| Arc::strong_count(&space.0));
    for _ in 0..3 {
        set_home(0);
        drop(space.arena(Growth::MICRO).unwrap());
        assert_eq!((strong(&space), space.arenas()), (2, 0), "the shard's stays without an arena");
    }
    let other = space.clone();
    drop(space);
    assert_eq!(strong(&other), 2, "a handle is left");
    let arena = other.arena(Growth::MICRO).unwrap();
    drop(other);
    let again = arena.space();
    drop((again, arena));
    assert!(alive.upgrade().is_none(), "neither handles nor arenas are left");
}

#[test]
fn at_the_limit_another_shards_hole_and_idle_memory_serve() {
    let granule = Options::default().granule_bytes;
    let limit = Some(Arc::new(crate::CommitLimit::new(granule)));
    let space = sharded(2, Options { limit, reclaim: Reclaim::AtTrim, ..small() });
    set_home(0);
    let first = reset(&space, Growth::MICRO);
    set_home(1);
    let second = begun(&space, Growth::MICRO).expect("the rest of the other shard's only page");
    assert!(matches!(
        space.arena(Growth::new(&[granule])).and_then(|arena| arena.allocate(layout(granule, 8))),
        Err(crate::Error::LimitReached { .. })
    ));
    drop((first, second));
    assert_eq!(space.idle_bytes(), granule);
    let third = begun(&space, Growth::new(&[granule])).expect("the other shard's idle page");
    assert_eq!((space.idle_bytes(), third.statistics().owned_bytes), (0, granule));
    drop(third);
    // Idle memory of the wrong shape is given back from any shard.
    let large = begun(&space, Growth::new(&[2 * granule])).expect("the page, given back first");
    drop(large);
    is_empty(&space);
}

#[test]
#[cfg(not(miri))]
fn a_shard_without_roots_left_asks_the_others() {
    let root = small().root_bytes;
    let space =
        sharded(2, Options { reserve_bytes: 16 * root, reclaim: Reclaim::AtTrim, ..small() });
    set_home(1);
    // A root each with the arena's links, and one of them holds the heads.
    let arenas: Vec<Arena> = (0..15).map(|_| reset(&space, Growth::MICRO)).collect();
    for arena in &arenas {
        arena.allocate(layout(root - 4096, 8)).expect("a root of either shard");
    }
    let refused =
        marks::expect("a shard has no room", || arenas[0].allocate(layout(root - 4096, 8)));
    assert!(
        matches!(refused, Err(crate::Error::AddressSpace { reserved_bytes, .. }) if reserved_bytes == 16 * root),
        "{refused:?}"
    );
    drop(arenas);
    is_empty(&space);
}

#[test]
#[cfg(not(miri))]
fn the_policy_is_about_what_all_shards_have_idle() {
    let keep_bytes = 64 * Options::default().granule_bytes;
    let space = sharded(2, Options { reclaim: Reclaim::AtReturn { keep_bytes }, ..small() });
    let pages = |home, count: usize| -> Vec<Arena> {
        set_home(home);
        (0..count)
            .map(|_| reset(&space, Growth::new(&[Options::default().granule_bytes])))
            .collect()
    };
    let (first, second) = (pages(0, 40), pages(1, 40));
    drop(first);
    assert_eq!(space.idle_bytes(), keep_bytes / 64 * 40, "less than may be kept");
    drop(second);
    assert!(space.idle_bytes() <= keep_bytes, "{} bytes are idle", space.idle_bytes());
    space.check_deep().unwrap();
}

#[test]
#[cfg(not(miri))]
fn the_background_gives_idle_memory_back_and_ends_with_its_space() {
    let reclaim = Reclaim::Background { interval: Duration::from_millis(5), keep_bytes: 0 };
    let space = Space::new(Options { reclaim, ..small() }).unwrap();
    let arenas: Vec<_> = (0..50).map(|_| reset(&space, Growth::new(&[4096]))).collect();
    drop(arenas);
    let start = Instant::now();
    while space.committed_bytes() > 0 {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{} bytes are still committed",
            space.committed_bytes()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    space.check_deep().unwrap();
}

#[test]
#[cfg(not(miri))]
fn the_background_leaves_what_may_be_kept() {
    let granule = small().granule_bytes;
    let keep_bytes = 65 * granule;
    let reclaim = Reclaim::Background { interval: Duration::from_millis(1), keep_bytes };
    let space = sharded(1, Options { reclaim, ..small() });
    for round in 0..20 {
        // Large chunks of 32 granules each, which go back one by one, and a granule for the arenas'
        // heads.
        let arenas: Vec<Arena> = (0..4).map(|_| reset(&space, Growth::MICRO)).collect();
        for arena in &arenas {
            arena.allocate(layout(31 * granule, 8)).unwrap();
        }
        drop(arenas);
        let start = Instant::now();
        while space.idle_bytes() > keep_bytes {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "{} bytes are still idle",
                space.idle_bytes()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(space.idle_bytes(), keep_bytes, "round {round}");
    }
    is_empty(&space);
}

#[test]
#[cfg(not(miri))]
fn what_other_shards_have_idle_counts_when_one_gives_back() {
    let granule = small().granule_bytes;
    let space =
        sharded(2, Options { reclaim: Reclaim::AtReturn { keep_bytes: usize::MAX }, ..small() });
    for home in [0, 1] {
        set_home(home);
        let arena = reset(&space, Growth::MICRO);
        arena.allocate(layout(31 * granule, 8)).unwrap();
    }
    assert_eq!(space.idle_bytes(), 66 * granule);
    // One shard's chunk goes back; the rest in both shards is below the bound.
    assert_eq!(
        (space.0.reclaim(By::Trim, 40 * granule).unwrap(), space.idle_bytes()),
        (32 * granule, 34 * granule)
    );
    is_empty(&space);
}

#[test]
#[cfg(not(miri))]
fn at_return_idle_memory_goes_down_to_half_of_what_may_be_kept() {
    let granule = small().granule_bytes;
    let space =
        sharded(1, Options { reclaim: Reclaim::AtReturn { keep_bytes: 130 * granule }, ..small() });
    let mut arenas: Vec<Arena> = (0..5).map(|_| reset(&space, Growth::MICRO)).collect();
    for arena in &arenas {
        arena.allocate(layout(31 * granule, 8)).unwrap();
    }
    for left in [4, 3, 2, 1] {
        arenas.pop();
        assert_eq!(space.idle_bytes(), (5 - left) * 32 * granule, "not more than may be kept");
    }
    arenas.pop();
    // 161 granules; one chunk after the other until not more than 65 are left.
    assert_eq!(space.idle_bytes(), 65 * granule);
    is_empty(&space);
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

/// Bytes of the block that fits.
#[cfg(not(miri))]
const BYTES: usize = 4 << 20;

/// A space with room for one large block, so that each needs the pages of the one before.
#[cfg(not(miri))]
fn with_room_for_one() -> Space {
    let limit = Arc::new(CommitLimit::new(BYTES + (128 << 10)));
    Space::new(Options { reclaim: Reclaim::AtTrim, limit: Some(limit), ..small() }).unwrap()
}

/// Pins this thread to the first processor that it may use.
#[cfg(not(miri))]
fn stay_on_one_processor() {
    // SAFETY: a set of processors of zeros is valid; the calls read and write it within its size.
    unsafe {
        let mut may: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&may), &raw mut may), 0);
        let first = (0..libc::CPU_SETSIZE as usize)
            .find(|cpu| libc::CPU_ISSET(*cpu, &may))
            .expect("there is one");
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(first, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &raw const one), 0);
    }
}

#[test]
#[cfg(not(miri))]
fn no_block_is_refused_while_another_thread_gives_back() {
    asks_while_another_gives_back(|| ());
}

/// The reclaiming thread does nothing else, and has the processor whenever it does not wait.
#[test]
#[cfg(not(miri))]
fn no_block_is_refused_where_both_threads_have_one_processor() {
    asks_while_another_gives_back(stay_on_one_processor);
}

#[cfg(not(miri))]
fn asks_while_another_gives_back(begin: fn()) {
    let space = with_room_for_one();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begin();
            while !done.load(Ordering::Relaxed) {
                space.trim().unwrap();
            }
        });
        let asking = scope.spawn(|| {
            begin();
            for nth in 0..50 {
                let arena = space
                    .arena(Growth::MICRO)
                    .unwrap_or_else(|error| panic!("arena {nth}: {error}"));
                let block = arena
                    .allocate(layout(BYTES, 8))
                    .unwrap_or_else(|error| panic!("block {nth}: {error}"));
                // SAFETY: the block has this size.
                unsafe { block.write_bytes(1, BYTES) };
                drop(arena);
                // Until the other thread has claimed the block, and no longer: the pages are on
                // their way then.
                while space.idle_bytes() > BYTES / 2 {
                    std::thread::yield_now();
                }
            }
        });
        let asked = asking.join();
        done.store(true, Ordering::Relaxed);
        asked.expect("no block is refused");
    });
    is_empty(&space);
}

/// The other thread is stopped between claiming the pages and giving them back, until the request
/// has noticed that.
#[test]
#[cfg(not(miri))]
fn memory_that_another_thread_is_giving_back_is_waited_for_at_the_limit() {
    let waited =
        "at the commit limit or out of addresses: what another thread gives back is waited for";
    let space = with_room_for_one();
    let allocate = |space: &Space| {
        space.arena(Growth::MICRO).unwrap().allocate(layout(BYTES, 8)).expect("it is not refused");
    };
    allocate(&space);
    assert!(space.idle_bytes() > BYTES);
    let (claims, is_claimed) = channel();
    let (waits, is_waited_for) = channel::<()>();
    std::thread::scope(|scope| {
        let giving = space.clone();
        scope.spawn(move || {
            let looked_at = giving.clone();
            let mut once = Some((claims, is_waited_for));
            marks::whenever("idle memory is being given back", move || {
                if looked_at.idle_bytes() < BYTES / 2
                    && let Some((claims, is_waited_for)) = once.take()
                {
                    let _ = claims.send(());
                    // No sender is left when the request has been served.
                    let _ = is_waited_for.recv();
                }
            });
            giving.trim().unwrap();
        });
        // Without debug assertions no thread is stopped, and there is no sender.
        let _ = is_claimed.recv();
        let asking = scope.spawn(|| {
            marks::whenever(waited, move || {
                let _ = waits.send(());
            });
            allocate(&space);
            passed(waited)
        });
        assert!(asking.join().unwrap() > 0 || !cfg!(debug_assertions), "nobody had to wait");
    });
    is_empty(&space);
}
