//! Huge pages for large columns, where they are cheap.
//!
//! A huge page takes one fault for 512 and one entry of the processor's table of pages for 512, which makes walks over large graphs a fifth faster. But
//! asking for one can cost far more than it saves: a kernel whose memory is in pieces moves pages together first, and a virtual machine that reports its
//! free memory to its host (Linux reports it in just these large blocks) gets each block back from the host at its first touch: 5 ms for 2 MB
//! where clearing it takes 0.1 ms. Neither can be known in advance, so it is measured: the first page of every few is touched
//! at once and the thread's own time looked at. When slow ones are more than bad luck the process asks for no more, and refuses those that it would get
//! unasked. What is bad luck grows with the pages that were fast: otherwise a file three times as large would meet the end of it three times as surely.

use super::Zero;

#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicU32, Ordering};

/// Smaller columns gain nothing.
#[cfg(target_os = "linux")]
const FROM_BYTES: usize = 4 << 20;
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 2 << 20;
/// One page of so many bytes is touched to see what pages cost.
#[cfg(target_os = "linux")]
const PIECE_BYTES: usize = 4 * PAGE_BYTES;
/// What 512 small pages cost at most.
#[cfg(target_os = "linux")]
const CHEAP_NS: u64 = 600_000;
/// So many slow pages end it: one may be bad luck,
#[cfg(target_os = "linux")]
const SLOW_MAX: u32 = 2;
/// and one more for each so many that were fast.
#[cfg(target_os = "linux")]
const FAST_A_SLOW: u32 = 8;

/// Pages whose cost was looked at.
#[cfg(target_os = "linux")]
struct Met {
    slow: AtomicU32,
    fast: AtomicU32,
}

#[cfg(target_os = "linux")]
impl Met {
    /// Whether huge pages are worth asking for.
    fn are_cheap(&self) -> bool {
        self.slow.load(Ordering::Relaxed) < SLOW_MAX + self.fast.load(Ordering::Relaxed) / FAST_A_SLOW
    }
}

/// Those that this process has met.
#[cfg(target_os = "linux")]
static MET: Met = Met { slow: AtomicU32::new(0), fast: AtomicU32::new(0) };

/// Gives a column that is all zero, and has not been touched since it was allocated, huge pages.
#[cfg(target_os = "linux")]
pub fn back<T: Zero>(column: &mut [T]) {
    back_while(column, &MET);
}

#[cfg(target_os = "linux")]
fn back_while<T: Zero>(column: &mut [T], met: &Met) {
    let values_a_page = PAGE_BYTES / size_of::<T>();
    let bytes = size_of_val(column);
    if bytes < FROM_BYTES {
        return;
    }
    let address = column.as_ptr() as usize;
    let (mut from, to) = whole_pages(address, bytes);
    while from < to && met.are_cheap() {
        let until = (from + PIECE_BYTES).min(to);
        advise(from, until, rustix::mm::Advice::LinuxHugepage);
        let first = (from - address).div_ceil(size_of::<T>());
        if column.get(first..first + values_a_page - 1).is_none() {
            return;
        }
        if touch_ns(&mut column[first]) > CHEAP_NS {
            met.slow.fetch_add(1, Ordering::Relaxed);
            advise(from, until, rustix::mm::Advice::LinuxNoHugepage);
        } else {
            met.fast.fetch_add(1, Ordering::Relaxed);
        }
        from = until;
    }
    // Where the system gives huge pages to all that do not refuse them (`transparent_hugepage/enabled` is `always`).
    advise(from, to, rustix::mm::Advice::LinuxNoHugepage);
}

/// The same for room of which nobody knows how much will be used: it is not touched, and goes by what other columns met.
#[cfg(target_os = "linux")]
pub fn reserve<T>(column: &mut Vec<T>) {
    let bytes = column.capacity() * size_of::<T>();
    if bytes < FROM_BYTES {
        return;
    }
    let (from, to) = whole_pages(column.as_ptr() as usize, bytes);
    let advice = if MET.are_cheap() { rustix::mm::Advice::LinuxHugepage } else { rustix::mm::Advice::LinuxNoHugepage };
    advise(from, to, advice);
}

/// The huge pages that lie within.
#[cfg(target_os = "linux")]
fn whole_pages(address: usize, bytes: usize) -> (usize, usize) {
    (address.next_multiple_of(PAGE_BYTES), (address + bytes) / PAGE_BYTES * PAGE_BYTES)
}

/// The time that this thread needs to write a zero for the first time.
#[cfg(target_os = "linux")]
fn touch_ns<T: Zero>(value: &mut T) -> u64 {
    let now = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let before = now();
    // SAFETY: the reference is valid and exclusive; the write is volatile only so that it happens, though the value is zero already.
    unsafe { std::ptr::write_volatile(value, T::ZERO) };
    let after = now();
    ((after.tv_sec - before.tv_sec) as u64).wrapping_mul(1_000_000_000).wrapping_add((after.tv_nsec - before.tv_nsec) as u64)
}

#[cfg(target_os = "linux")]
fn advise(from: usize, to: usize, advice: rustix::mm::Advice) {
    if from < to {
        // SAFETY: the range lies within an allocation that the caller holds, and these advices change how its pages are backed, never what
        // they hold. A refusal (a kernel without huge pages) changes nothing.
        let _ = unsafe { rustix::mm::madvise(from as *mut _, to - from, advice) };
    }
}

#[cfg(not(target_os = "linux"))]
pub fn back<T: Zero>(_column: &mut [T]) {}

#[cfg(not(target_os = "linux"))]
pub fn reserve<T>(_column: &mut Vec<T>) {}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel says of the mapping with that address: `nh` where it gets no huge pages. None where it says nothing.
    fn flags(address: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut within = false;
        for line in maps.lines() {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let ends = range.and_then(|(from, to)| Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?)));
            if let Some((from, to)) = ends {
                within = (from..to).contains(&address);
            } else if within && let Some(flags) = line.strip_prefix("VmFlags:") {
                return Some(format!("{flags} "));
            }
        }
        None
    }

    #[test]
    fn many_fast_pages_excuse_a_slow_one() {
        let met = |slow, fast| Met { slow: AtomicU32::new(slow), fast: AtomicU32::new(fast) };
        assert!(met(SLOW_MAX - 1, 0).are_cheap() && !met(SLOW_MAX, FAST_A_SLOW - 1).are_cheap());
        assert!(met(SLOW_MAX, FAST_A_SLOW).are_cheap() && !met(SLOW_MAX + 1, FAST_A_SLOW).are_cheap());
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
        let met = Met { slow: AtomicU32::new(SLOW_MAX + 1), fast: AtomicU32::new(FAST_A_SLOW + FAST_A_SLOW / 2) };
        back_while(&mut column, &met);
        let (from, to) = whole_pages(column.as_ptr() as usize, column.len());
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            eprintln!("skipped: the kernel has no huge pages");
            return;
        }
        let first = flags(from).expect("the kernel says how memory is backed");
        assert!(first.contains(" nh ") && flags(to - 1).is_some_and(|last| last.contains(" nh ")), "{first}");
    }
}
