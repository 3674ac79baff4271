//! Work that a signal may interrupt, and that then cleans up and says what remains.

use crate::signals::{self, Signals};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Runs `work`. If a terminating signal arrives before it is done, this calls `tidy_up` beside it,
/// and heaplab ends with the status that a shell shows for that signal.
pub fn watched<T>(work: impl FnOnce() -> T, tidy_up: impl Fn() + Sync) -> T {
    let (Ok(signals), Ok((over, running))) =
        (Signals::take(), rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC))
    else {
        return work();
    };
    // Held while a signal is handled, so finished work is reported afterwards or not at all.
    let is_done = Mutex::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if let Some(signal) = next(&signals, &over)
                && let Ok(done) = is_done.lock()
                && !*done
            {
                tidy_up();
                std::process::exit(128 + signal);
            }
        });
        // Its end, even by a panic, ends the other thread.
        let _running = running;
        let result = work();
        if let Ok(mut done) = is_done.lock() {
            *done = true;
        }
        result
    })
}

/// Runs `work`, which polls a flag. The first terminating signal sets the flag, so `work` can end
/// with its results so far; a second one ends heaplab. Also returns the first signal.
pub fn flagged<T>(work: impl FnOnce(&AtomicBool) -> T) -> (T, Option<i32>) {
    let (flag, first) = (AtomicBool::new(false), AtomicI32::new(0));
    let (Ok(signals), Ok((over, running))) =
        (Signals::take(), rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC))
    else {
        return (work(&flag), None);
    };
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Some(signal) = next(&signals, &over) {
                if flag.swap(true, Ordering::Relaxed) {
                    std::process::exit(128 + signal);
                }
                first.store(signal, Ordering::Relaxed);
            }
        });
        // Its end, even by a panic, ends the other thread.
        let _running = running;
        work(&flag)
    });
    (result, Some(first.into_inner()).filter(|signal| *signal != 0))
}

/// The next signal that is not ignored (as nohup does with SIGHUP); `None` when the work is over.
fn next(signals: &Signals, over: &OwnedFd) -> Option<i32> {
    loop {
        let mut both = [
            PollFd::from_borrowed_fd(signals.descriptor(), PollFlags::IN),
            PollFd::new(over, PollFlags::IN),
        ];
        // An error is an interruption.
        let _ = poll(&mut both, None);
        if !both[1].revents().is_empty() {
            return None;
        }
        while let Some(arrived) = signals.next() {
            if !signals::is_ignored(arrived.signal) {
                return Some(arrived.signal);
            }
        }
    }
}
