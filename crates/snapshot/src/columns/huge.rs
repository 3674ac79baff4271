//! Huge pages for large columns, where they are cheap.
//!
//! A huge page takes one fault for 512, and clears in a fifth of the time of 512 small pages. But
//! asking for one can cost far more than it saves. A kernel with fragmented memory moves pages
//! together first. A virtual machine that reports its free memory to its host (Linux reports it in
//! just these large blocks) gets each block back from the host at its first touch: 5 ms for 2 MB
//! that clear in 0.2 ms. Nobody can know the cost in advance, so it is measured: each page is
//! touched at once, and the thread's own time is read. Fast pages earn credit, slow ones spend it.
//! The credit is bounded. So when cheap pages run out and all further ones are slow, the loss is
//! the same few milliseconds, however many cheap ones there were. And the fast pages around it pay
//! for an occasional slow one, in a file of any size. Without credit the process asks for no more
//! huge pages, refuses those that it would get unasked, and has small pages mapped many at a time,
//! which saves a fifth of the cost of single faults.

use super::Zero;

#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicI64, Ordering};

/// Smaller columns gain nothing.
#[cfg(target_os = "linux")]
const FROM_BYTES: usize = 4 << 20;
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 2 << 20;
/// What 512 small pages cost at least.
#[cfg(target_os = "linux")]
const SMALL_NS: i64 = 600_000;
/// What huge pages may cost more than small ones before they have saved anything,
#[cfg(target_os = "linux")]
const CREDIT_NS: i64 = 5_000_000;
/// and how much of what they have saved counts.
#[cfg(target_os = "linux")]
const CREDIT_MAX_NS: i64 = 12_000_000;

/// What huge pages may still cost, ns.
#[cfg(target_os = "linux")]
struct Credit(AtomicI64);

#[cfg(target_os = "linux")]
impl Credit {
    /// Whether huge pages are worth asking for.
    fn is_left(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Counts a page's cost. Two threads that count at once may lose one of both, which costs a
    /// page more or less.
    fn count(&self, page_ns: i64) {
        let left = self.0.load(Ordering::Relaxed);
        if left > 0 {
            self.0.store(
                left.saturating_add(SMALL_NS.saturating_sub(page_ns)).min(CREDIT_MAX_NS),
                Ordering::Relaxed,
            );
        }
    }
}

/// This process's.
#[cfg(target_os = "linux")]
static CREDIT: Credit = Credit(AtomicI64::new(CREDIT_NS));

/// Gives a column that is all zero, and has not been touched since it was allocated, huge pages.
#[cfg(target_os = "linux")]
pub fn back<T: Zero>(column: &mut [T]) {
    back_while(column, &CREDIT);
}

#[cfg(target_os = "linux")]
fn back_while<T: Zero>(column: &mut [T], credit: &Credit) {
    let values_a_page = PAGE_BYTES / size_of::<T>();
    let bytes = size_of_val(column);
    if bytes < FROM_BYTES {
        return;
    }
    let address = column.as_ptr() as usize;
    let (mut from, to) = whole_pages(address, bytes);
    if credit.is_left() {
        advise(from, to, rustix::mm::Advice::LinuxHugepage);
    }
    while from < to && credit.is_left() {
        let first = (from - address).div_ceil(size_of::<T>());
        if column.get(first..first + values_a_page - 1).is_none() {
            return;
        }
        credit.count(touch_ns(&mut column[first]));
        from += PAGE_BYTES;
    }
    // Where the system gives huge pages to all that do not refuse them
    // (`transparent_hugepage/enabled` is `always`).
    advise(from, to, rustix::mm::Advice::LinuxNoHugepage);
    advise(from, to, rustix::mm::Advice::LinuxPopulateWrite);
}

/// The huge pages that lie within.
#[cfg(target_os = "linux")]
fn whole_pages(address: usize, bytes: usize) -> (usize, usize) {
    (address.next_multiple_of(PAGE_BYTES), (address + bytes) / PAGE_BYTES * PAGE_BYTES)
}

/// The time that this thread needs to write a zero for the first time.
#[cfg(target_os = "linux")]
fn touch_ns<T: Zero>(value: &mut T) -> i64 {
    let now = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let before = now();
    // SAFETY: the reference is valid and exclusive; the write is volatile only so that it happens,
    // though the value is zero already.
    unsafe { std::ptr::write_volatile(value, T::ZERO) };
    let after = now();
    (after.tv_sec - before.tv_sec)
        .saturating_mul(1_000_000_000)
        .saturating_add(after.tv_nsec - before.tv_nsec)
}

#[cfg(target_os = "linux")]
fn advise(from: usize, to: usize, advice: rustix::mm::Advice) {
    if from < to {
        // SAFETY: the range lies within an allocation that the caller holds, and these advices
        // change how and when its pages are backed, never what they hold. A refusal (a kernel
        // without huge pages) changes nothing.
        let _ = unsafe { rustix::mm::madvise(from as *mut _, to - from, advice) };
    }
}

#[cfg(not(target_os = "linux"))]
pub fn back<T: Zero>(_column: &mut [T]) {}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's flags of the mapping at that address: `nh` means no huge pages. `None` if the
    /// kernel gives none.
    fn flags(address: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut within = false;
        for line in maps.lines() {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let ends = range.and_then(|(from, to)| {
                Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
            });
            if let Some((from, to)) = ends {
                within = (from..to).contains(&address);
            } else if within && let Some(flags) = line.strip_prefix("VmFlags:") {
                return Some(format!("{flags} "));
            }
        }
        None
    }

    const FAST_NS: i64 = SMALL_NS / 3;
    const SLOW_NS: i64 = 8 * SMALL_NS;

    /// How many slow pages in a row end it after so many fast ones.
    fn slow_after(fast: usize) -> usize {
        let credit = Credit(AtomicI64::new(CREDIT_NS));
        (0..fast).for_each(|_| credit.count(FAST_NS));
        (1..).find(|_| (credit.count(SLOW_NS), !credit.is_left()).1).unwrap_or(0)
    }

    #[test]
    fn the_end_of_the_cheap_ones_costs_the_same_after_any_number() {
        assert_eq!(slow_after(0), 2);
        assert!(slow_after(100) > 2);
        assert_eq!(slow_after(100), slow_after(1_000_000));
    }

    #[test]
    fn a_slow_one_now_and_then_is_made_up_for() {
        let credit = Credit(AtomicI64::new(CREDIT_NS));
        for page in 0..100_000 {
            credit.count(if page % 20 == 10 { SLOW_NS } else { FAST_NS });
        }
        assert!(credit.is_left());
        (0..10).for_each(|_| credit.count(SLOW_NS));
        (0..100_000).for_each(|_| credit.count(FAST_NS));
        assert!(!credit.is_left(), "what is over is over");
    }

    #[test]
    fn what_is_slow_is_refused() {
        let mut column = vec![0u8; 32 << 20];
        let other = vec![0u8; 32 << 20];
        let (other_from, other_to) = whole_pages(other.as_ptr() as usize, other.len());
        advise(other_from, other_to, rustix::mm::Advice::LinuxNoHugepage);
        if flags(other_from).is_none_or(|flags| !flags.contains(" nh ")) {
            eprintln!("skipped: nobody takes advice here, or says so (an emulated processor)");
            return;
        }
        back_while(&mut column, &Credit(AtomicI64::new(0)));
        let (from, to) = whole_pages(column.as_ptr() as usize, column.len());
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            eprintln!("skipped: the kernel has no huge pages");
            return;
        }
        let first = flags(from).expect("the kernel says how memory is backed");
        assert!(
            first.contains(" nh ") && flags(to - 1).is_some_and(|last| last.contains(" nh ")),
            "{first}"
        );
    }
}
