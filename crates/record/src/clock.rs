//! The recorder's clock: the processor's counter, and its conversion into nanoseconds.
//!
//! Targets stamp with the bare counter because reading it costs a third of `clock_gettime`. Two
//! pairs (counter, CLOCK_MONOTONIC), one at the beginning and one as late as possible, give the
//! rate. Both clocks are constant and shared by all cores on every machine that heaplab supports
//! (invariant TSC; the architected counter of aarch64).

use heaplab_preload::layout::COUNTER_BITS;
use std::time::SystemTime;

const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;

/// Seconds since 1970.
pub(crate) fn unix_s() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The counter now, cut to the bits that stamps keep.
#[inline]
pub fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: rdtsc exists on every x86-64 processor and touches no memory.
        unsafe { core::arch::x86_64::_rdtsc() & COUNTER_MASK }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let value: u64;
        // SAFETY: the virtual counter may be read from user space on Linux, and reading it touches
        // no memory.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
        value & COUNTER_MASK
    }
}

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The counter.
    pub counter: u64,
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
}

impl ClockReading {
    /// Reads both clocks now. Of several readings takes the one with the least delay between them.
    pub fn now() -> ClockReading {
        let read = || {
            let before = counter();
            let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            let after = counter();
            let monotonic_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
            (after - before, ClockReading { counter: before + (after - before) / 2, monotonic_ns })
        };
        (0..5)
            .map(|_| read())
            .min_by_key(|(delay, _)| *delay)
            .map_or_else(|| read().1, |(_, moment)| moment)
    }
}

/// Turns counters into nanoseconds since the recording began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    origin: u64,
    /// ns per tick, as a 32.32 fixed-point number.
    rate: u64,
}

impl Clock {
    /// From the pair at the beginning and a later one. `None`: no time passed between them.
    pub fn between(origin: ClockReading, later: ClockReading) -> Option<Clock> {
        let ticks = later.counter.checked_sub(origin.counter).filter(|ticks| *ticks > 0)?;
        let ns = later.monotonic_ns.checked_sub(origin.monotonic_ns).filter(|ns| *ns > 0)?;
        let rate = u64::try_from((u128::from(ns) << 32) / u128::from(ticks))
            .ok()
            .filter(|rate| *rate > 0)?;
        Some(Clock { origin: origin.counter, rate })
    }

    /// Nanoseconds since the recording began; 0 for earlier counters.
    #[inline]
    pub fn ns(&self, counter: u64) -> u64 {
        ((u128::from(counter.saturating_sub(self.origin)) * u128::from(self.rate)) >> 32) as u64
    }

    /// The counter at the start of the recording.
    pub fn origin(&self) -> u64 {
        self.origin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds() {
        let origin = ClockReading { counter: 1000, monotonic_ns: 5_000_000_000 };
        let clock = Clock::between(
            origin,
            ClockReading { counter: 1000 + 2_100_000_000, monotonic_ns: 6_000_000_000 },
        )
        .unwrap();
        assert_eq!(clock.ns(999), 0);
        assert_eq!(clock.ns(1000 + 210), 99, "rounded down");
        let hour = clock.ns(1000 + 2_100_000_000 * 3600);
        assert!(hour.abs_diff(3_600_000_000_000) < 2000, "{hour}");
        assert_eq!(Clock::between(origin, origin), None);
    }

    #[test]
    fn the_counter_and_the_system_agree() {
        let origin = ClockReading::now();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let later = ClockReading::now();
        let clock = Clock::between(origin, later).unwrap();
        assert!(clock.ns(later.counter).abs_diff(later.monotonic_ns - origin.monotonic_ns) <= 1);
    }
}
