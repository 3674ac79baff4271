//! The order between threads: for each slot the number of the last published instruction.
//!
//! Most waits are short, because the other thread runs on another processor. So the thread first
//! only spins, then yields a few times, and then sleeps until the slot's counter changes (futex).
//! Without the sleep, hundreds of waiting threads would take turns to look and stop all progress.

use crate::pages::Pages;
use crate::system;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Looks before the first yield.
const SPINS: u32 = 100;
/// Looks with a yield between, before the thread sleeps.
const YIELDS: u32 = 16;
/// A failure wakes nobody, so sleepers check for one at this interval.
const SLEEP: Duration = Duration::from_millis(50);
/// A thread sleeps until the counter changes.
const SLEEPERS: u64 = 1 << 63;

/// The published numbers, by slot.
pub(super) struct Order {
    published: Pages<AtomicU64>,
    /// Longest sleep of a waiting thread before it checks whether another thread failed.
    sleep: Duration,
}

impl Order {
    pub(super) fn new(slots: usize) -> std::io::Result<Order> {
        Ok(Order { published: Pages::zeroed(slots)?, sleep: SLEEP })
    }

    /// Instruction `number` on `slot` is done.
    #[inline]
    pub(super) fn publish(&self, slot: u32, number: u64) {
        let counter = &self.published[slot as usize];
        if counter.swap(number, Ordering::Release) & SLEEPERS != 0 {
            system::wake_all(counter);
        }
    }

    /// Waits until instruction `number` on `slot` is done; false: another thread failed and it
    /// never will be.
    #[inline]
    pub(super) fn wait(&self, slot: u32, number: u64, failed: &AtomicBool) -> bool {
        let counter = &self.published[slot as usize];
        let mut looks = 0_u32;
        loop {
            let value = counter.load(Ordering::Acquire);
            if value & !SLEEPERS >= number {
                return true;
            }
            looks += 1;
            if looks < SPINS {
                std::hint::spin_loop();
                continue;
            }
            if failed.load(Ordering::Acquire) {
                return false;
            }
            if looks < SPINS + YIELDS {
                std::thread::yield_now();
                continue;
            }
            let marked = value | SLEEPERS;
            if value == marked
                || counter
                    .compare_exchange(value, marked, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                // It returns at once if the number was published in between.
                system::sleep_while(counter, marked, self.sleep);
            }
        }
    }

    /// Forgets all published numbers.
    pub(super) fn rewind(&mut self) {
        for counter in self.published.iter() {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleepers_are_woken_by_each_number_in_turn() {
        // A thread that nobody wakes sleeps on: the test would not end.
        let order = Order { sleep: Duration::from_secs(1 << 20), ..Order::new(2).unwrap() };
        let failed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for number in 1..=8 {
                let (order, failed) = (&order, &failed);
                // Each waits for the one before, on slot 0; the last one begins first.
                scope.spawn(move || {
                    assert!(order.wait(0, 9 - number, failed));
                    order.publish(0, 10 - number);
                });
            }
            while order.published[0].load(Ordering::Relaxed) & SLEEPERS == 0 {
                std::thread::yield_now();
            }
            order.publish(0, 1);
        });
        assert!(order.wait(0, 9, &failed));
    }

    #[test]
    fn a_failure_ends_a_wait() {
        let (order, failed) = (Order::new(1).unwrap(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| order.wait(0, 1, &failed));
            failed.store(true, Ordering::Release);
            assert!(!waiter.join().unwrap());
        });
    }
}
