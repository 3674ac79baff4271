//! Forks while other threads work everywhere in a space: every child can use the space, and its
//! calls end.
//!
//! A child has no harness: it does its work and ends with `_exit`. One that hangs is ended by its
//! alarm.

#![cfg(not(miri))]

use heaplab_elastic::{Arena, CommitLimit, Growth, Options, Reclaim, Space};
use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longer than any child takes on a busy machine.
const CHILD_SECONDS: u32 = 30;
const FORKS: usize = 2_000;

/// The parent's threads leave the processors to the children for so long, again and again.
const REST: Duration = Duration::from_micros(200);

/// What ends a child that found something wrong.
const WRONG: i32 = 3;

fn options(reclaim: Reclaim) -> Options {
    Options { reserve_bytes: 1 << 30, reclaim, ..Options::default() }
}

fn policies() -> [Reclaim; 3] {
    let interval = Duration::from_millis(1);
    [
        Reclaim::Background { interval, keep_bytes: 0 },
        Reclaim::AtReturn { keep_bytes: 0 },
        Reclaim::AtReturn { keep_bytes: 1 << 20 },
    ]
}

/// Fills a few arenas, a large block among them, and lets them go.
fn work(space: &Space, rounds: usize) -> Result<(), heaplab_elastic::Error> {
    for round in 0..rounds {
        let arenas: Vec<Arena> =
            (0..4).map(|_| space.arena(Growth::SMALL)).collect::<Result<_, _>>()?;
        for (nth, arena) in arenas.iter().enumerate() {
            for block in 0..8 {
                let bytes = 24 + (round * 31 + nth * 57 + block * 211) % 900;
                let block = arena.allocate(Layout::from_size_align(bytes, 8).expect("a layout"))?;
                // SAFETY: the block has this size.
                unsafe { block.write_bytes(nth as u8, bytes) };
            }
        }
        arenas[0].allocate(Layout::from_size_align(700 << 10, 8).expect("a layout"))?;
    }
    Ok(())
}

/// In a child: every space is used, those that are made here too, by threads as well.
fn in_child(spaces: &[Space], mine: &Arena, nth: usize) -> Result<(), heaplab_elastic::Error> {
    mine.allocate(Layout::new::<[u64; 40]>())?;
    let (limited, spaces) = spaces.split_last().expect("there are spaces");
    // Absent threads may hold everything that it may commit; the call must still end.
    let _ = work(limited, 1);
    for space in spaces {
        let _ = (space.idle_bytes(), space.arenas());
        work(space, 1)?;
        space.trim()?;
    }
    let own = Space::new(options(policies()[nth % 3]))?;
    work(&own, 1)?;
    if nth.is_multiple_of(16) {
        let (space, other) = (spaces[nth / 16 % spaces.len()].clone(), own.clone());
        on_a_thread(&move || work(&space, 1).and_then(|()| work(&other, 1)))?;
    }
    Ok(())
}

type Act<'a> = &'a dyn Fn() -> Result<(), heaplab_elastic::Error>;

/// Runs `act` on a thread of the C library. A thread of std takes a lock of std as it begins. A
/// thread of the parent that began or ended at the fork holds that lock here for good.
fn on_a_thread(act: Act) -> Result<(), heaplab_elastic::Error> {
    extern "C" fn begin(act: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the caller waits for this thread, and lends it this.
        let (act, outcome) = unsafe { &mut *act.cast::<(Act, Option<_>)>() };
        *outcome = Some(act());
        std::ptr::null_mut()
    }
    let mut lent: (Act, Option<Result<(), heaplab_elastic::Error>>) = (act, None);
    // SAFETY: the lent values outlive the thread, which is joined.
    unsafe {
        let mut thread = std::mem::zeroed();
        let attributes = std::ptr::null();
        let began =
            libc::pthread_create(&raw mut thread, attributes, begin, (&raw mut lent).cast());
        assert_eq!((began, libc::pthread_join(thread, std::ptr::null_mut())), (0, 0));
    }
    lent.1.expect("the thread has ended")
}

/// Forks, runs `act` in the child, and returns how the child ended: 0, or its status.
fn forked(act: impl FnOnce() -> Result<(), heaplab_elastic::Error>) -> i32 {
    // SAFETY: the child runs `act` and ends. Of std's locks it takes the allocator's alone, which
    // forks; its threads are not std's ([`on_a_thread`]).
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "cannot fork: {}", std::io::Error::last_os_error());
        if child == 0 {
            libc::alarm(CHILD_SECONDS);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
            libc::_exit(if matches!(outcome, Ok(Ok(()))) { 0 } else { WRONG });
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        status
    }
}

#[test]
fn two_thousand_children_use_spaces_that_other_threads_were_in() {
    // The last one is at its limit, where a request waits for what others give back.
    let limited =
        Options { limit: Some(Arc::new(CommitLimit::new(6 << 20))), ..options(Reclaim::AtTrim) };
    let all = policies().map(options).into_iter().chain([limited]);
    let spaces: Vec<Space> = all.map(|options| Space::new(options).unwrap()).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for space in &spaces {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // The limit may refuse because of the others' memory.
                    let _ = work(space, 3);
                    std::thread::sleep(REST);
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                spaces.iter().for_each(|space| drop(space.trim()));
                std::thread::sleep(REST);
            }
        });
        scope.spawn(|| {
            for nth in 0.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let made: Vec<Space> =
                    policies().map(|reclaim| Space::new(options(reclaim)).unwrap()).into();
                drop(work(&made[nth % 3], 1));
                std::thread::sleep(REST);
            }
        });
        let mine = spaces[0].arena(Growth::STANDARD).unwrap();
        let failed: Vec<(usize, i32)> = (0..FORKS)
            .map(|nth| {
                let status = forked(|| {
                    in_child(&spaces, &mine, nth)?;
                    // A child is a parent as any other.
                    let grandchild = if nth.is_multiple_of(4) {
                        forked(|| in_child(&spaces, &mine, nth))
                    } else {
                        0
                    };
                    assert_eq!(grandchild, 0);
                    Ok(())
                });
                (nth, status)
            })
            .filter(|(_, status)| *status != 0)
            .take(3)
            .collect();
        done.store(true, Ordering::Relaxed);
        assert_eq!(
            failed,
            [],
            "children (number, status of wait): 14 is the alarm of one that hung"
        );
    });
}

#[test]
fn a_child_gives_back_in_the_background_as_its_parent_does() {
    let space = Space::new(options(Reclaim::Background {
        interval: Duration::from_millis(1),
        keep_bytes: 0,
    }))
    .unwrap();
    let status = forked(|| {
        // Until the alarm.
        for _ in 0..2 {
            work(&space, 1)?;
            while space.committed_bytes() > 0 {
                std::thread::yield_now();
            }
        }
        assert!(space.report()?.uncommit_times.background_ns > 0);
        Ok(())
    });
    assert_eq!(status, 0);
}
