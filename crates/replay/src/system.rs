//! The kernel's figures for this process, read without allocating.

use std::ffi::CStr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Resident anonymous memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct Anonymous {
    /// Bytes in pages of all sizes.
    pub bytes: u64,
    /// The part in huge pages; 0 if the kernel does not tell.
    pub huge_bytes: u64,
}

/// Resident anonymous memory.
///
/// From the page tables (`/proc/self/smaps_rollup`), exactly. `RssAnon` in `/proc/self/status`
/// comes from counters that each CPU keeps and adds to the sum in batches (the kernel's
/// `percpu_counter`: of max(32, 2 a CPU) pages). With 2 CPUs it may be 256 KiB off, as much as a
/// small program's heap; it serves only without a rollup. `None` if neither can be read.
pub fn anonymous() -> Option<Anonymous> {
    let mut buffer = [0_u8; 8192];
    let rollup = read_start(c"/proc/self/smaps_rollup", &mut buffer);
    if let Some(bytes) = parse_kib(rollup, b"\nAnonymous:") {
        return Some(Anonymous {
            bytes,
            huge_bytes: parse_kib(rollup, b"\nAnonHugePages:").unwrap_or(0),
        });
    }
    let status = read_start(c"/proc/self/status", &mut buffer);
    Some(Anonymous { bytes: parse_kib(status, b"\nRssAnon:")?, huge_bytes: 0 })
}

/// Keeps transparent huge pages away from this process and those that it starts.
///
/// # Errors
/// The kernel refuses.
pub fn without_huge_pages() -> std::io::Result<()> {
    // SAFETY: the call takes numbers only.
    match unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Bytes of [`anonymous`] memory.
pub fn anonymous_bytes() -> Option<u64> {
    anonymous().map(|anonymous| anonymous.bytes)
}

/// The start of a file, as far as `buffer` has room; empty if unreadable.
fn read_start<'a>(path: &CStr, buffer: &'a mut [u8]) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: the path ends with a zero, and each read gets the remaining room.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return &[];
        }
        while length < buffer.len() {
            let read =
                libc::read(file, buffer[length..].as_mut_ptr().cast(), buffer.len() - length);
            if read <= 0 {
                break;
            }
            length += read as usize;
        }
        libc::close(file);
    }
    &buffer[..length]
}

/// The number of KiB that follows `field`, in bytes.
fn parse_kib(text: &[u8], field: &[u8]) -> Option<u64> {
    let start = text.windows(field.len()).position(|window| window == field)? + field.len();
    let digits = text[start..]
        .iter()
        .skip_while(|byte| byte.is_ascii_whitespace())
        .take_while(|byte| byte.is_ascii_digit());
    let mut seen = false;
    let kib = digits.fold(0_u64, |value, digit| {
        seen = true;
        value.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    });
    seen.then(|| kib.saturating_mul(1024))
}

/// A clock of this process, ns.
fn clock(id: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` may be written.
    unsafe { libc::clock_gettime(id, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CPU time of all threads of this process, user and system, ns.
pub fn cpu_ns() -> u64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Elapsed time, ns.
pub fn wall_ns() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Page faults served without I/O so far.
pub fn minor_faults() -> u64 {
    // SAFETY: all-zero bytes are a valid `rusage`, and it may be written.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage.ru_minflt as u64
    }
}

/// Keeps this process on one processor. Does nothing if the system refuses: the cell is then
/// noisier, not wrong.
pub fn pin_to(core: u32) {
    // SAFETY: all-zero bytes are an empty set, and the index is bounded.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if (core as usize) < libc::CPU_SETSIZE as usize {
            libc::CPU_SET(core as usize, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
        }
    }
}

/// Sleeps until [`wake_all`] is called for `word`, at most for `limit`; returns at once if `word`
/// is not `expected` any more, by its lower half. May also return for no reason.
pub fn sleep_while(word: &AtomicU64, expected: u64, limit: Duration) {
    let timeout = libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: limit.subsec_nanos().into(),
    };
    // SAFETY: the address is of four bytes that live as long as `word`, and the timeout lives
    // through the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            lower_half(word),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected as u32,
            &timeout,
        )
    };
}

/// Wakes all sleepers on `word`.
pub fn wake_all(word: &AtomicU64) {
    // SAFETY: the address is of four bytes that live as long as `word`.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            lower_half(word),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        )
    };
}

/// The changing half, which futexes compare.
fn lower_half(word: &AtomicU64) -> *mut u32 {
    word.as_ptr().cast::<u32>().wrapping_add(usize::from(cfg!(target_endian = "big")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_found_and_nothing_else() {
        let text = b"55a-7ff [rollup]\nRss:      1712 kB\nPss_Anon:    116 kB\nAnonymous:           116 kB\nLazyFree: 0 kB\n";
        assert_eq!(parse_kib(text, b"\nAnonymous:"), Some(116 * 1024));
        assert_eq!(parse_kib(text, b"\nRssAnon:"), None);
        assert_eq!(parse_kib(b"\nAnonymous: kB", b"\nAnonymous:"), None);
    }

    /// In a process of its own: the other tests' memory would count too.
    #[test]
    fn touched_pages_are_seen_exactly() {
        const ALONE: &str = "HEAPLAB_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            let output = command
                .args(["--exact", "system::tests::touched_pages_are_seen_exactly"])
                .env(ALONE, "1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let before = anonymous_bytes().unwrap();
        let pages = crate::pages::Pages::<u64>::zeroed(1 << 20).unwrap();
        let grown = anonymous_bytes().unwrap() - before;
        assert!((8 << 20..9 << 20).contains(&grown), "{grown}");
        drop(pages);
    }
}
