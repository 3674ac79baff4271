//! The control page: settings for targets, and the lock that shows targets a living drainer.

use crate::clock::{Clock, ClockReading};
use crate::error::RecordError;
use crate::ring;
use heaplab_preload::layout::{self, Control};
use memmap2::MmapRaw;
use std::fs::File;
use std::mem::{offset_of, size_of};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering;

/// The control page's file name in the spool.
pub const CONTROL_FILE: &str = "control";

/// Settings that targets read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Innermost frames of each stack; 0: none.
    pub stack_depth: u32,
    /// Bytes of a ring.
    pub ring_bytes: u32,
    /// Bytes of each process's first ring.
    pub first_ring_bytes: u32,
    /// Bytes of a nested ring.
    pub nested_bytes: u32,
    /// A signal that sets a mark; 0: none.
    pub mark_signal: u32,
    /// `CONTROL_...` flags of the layout.
    pub flags: u32,
}

/// Size of a process's first ring as a multiple of the other rings, without call stacks and with
/// them.
const FIRST_RING: (u32, u32) = (4, 2);

/// Bytes of each process's first ring, given `ring_bytes` of the others. The thread with the first
/// ring does most in most programs; a larger ring keeps its two ends out of the same cache lines.
/// With call stacks the same thread also keeps many of them, and the ring gets the rest of the
/// recorder's memory.
pub fn first_ring_bytes(ring_bytes: u32, stack_depth: u32) -> u32 {
    let times = if stack_depth == 0 { FIRST_RING.0 } else { FIRST_RING.1 };
    ring_bytes.saturating_mul(times).min(ring::DATA_BYTES_MAX as u32)
}

/// The drainer's control page; holds the lock until dropped.
#[derive(Debug)]
pub struct ControlPage {
    map: MmapRaw,
    origin: ClockReading,
    _locked: File,
}

/// Takes (or asks for) the open-file-description write lock of a whole file. Returns whether the
/// lock was taken (or is free).
fn lock(file: &File, command: libc::c_int) -> bool {
    // SAFETY: `flock` is plain integers; zero is a valid value for all of them.
    let mut whole: libc::flock = unsafe { std::mem::zeroed() };
    whole.l_type = libc::F_WRLCK as libc::c_short;
    whole.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is open, and the command reads and writes one `flock`, which lives
    // through the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut whole) };
    result == 0 && (command != libc::F_OFD_GETLK || whole.l_type == libc::F_UNLCK as libc::c_short)
}

/// Whether a living drainer holds the spool.
pub fn is_running(spool: &Path) -> bool {
    File::options()
        .read(true)
        .write(true)
        .open(spool.join(CONTROL_FILE))
        .is_ok_and(|file| !lock(&file, libc::F_OFD_GETLK))
}

/// Start of the recording in `spool` on CLOCK_MONOTONIC, in ns, and the clock that turns a mark's
/// stamp into time since then.
pub fn clock_of(spool: &Path) -> Result<(u64, Clock), RecordError> {
    let not_a_spool = |reason: String| RecordError::NotASpool { path: spool.to_owned(), reason };
    let page = spool.join(CONTROL_FILE);
    let control =
        ControlFacts::parse(&std::fs::read(&page).map_err(RecordError::io("cannot read", &page))?)
            .map_err(not_a_spool)?;
    let clock = Clock::between(control.origin, control.later.unwrap_or_else(ClockReading::now));
    let clock = clock.ok_or_else(|| {
        not_a_spool(String::from("its control page has no clock readings that fit together"))
    })?;
    Ok((control.origin.monotonic_ns, clock))
}

impl ControlPage {
    /// Makes the page in `spool`, locks it, and starts the recording.
    pub fn create(spool: &Path, settings: Settings) -> Result<ControlPage, RecordError> {
        let path = spool.join(CONTROL_FILE);
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(RecordError::io("cannot create", &path))?;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 4096)
            .or_else(|_| file.set_len(4096).map_err(|_| rustix::io::Errno::NOSPC))
            .map_err(|error| RecordError::io("cannot write", &path)(error.into()))?;
        if !lock(&file, libc::F_OFD_SETLK) {
            return Err(RecordError::SpoolInUse(spool.to_owned()));
        }
        let map = MmapRaw::map_raw(&file).map_err(RecordError::io("cannot map", &path))?;
        let origin = ClockReading::now();
        let page = Control {
            version: layout::VERSION,
            state: layout::CONTROL_RECORDING.into(),
            stack_depth: settings.stack_depth,
            ring_bytes: settings.ring_bytes,
            first_ring_bytes: settings.first_ring_bytes,
            nested_bytes: settings.nested_bytes,
            mark_signal: settings.mark_signal,
            flags: settings.flags.into(),
            drainer_pid: std::process::id(),
            origin_counter: origin.counter,
            origin_ns: origin.monotonic_ns,
            ..Control::default()
        };
        // SAFETY: the mapping is 4096 bytes, page-aligned, and no other process knows it before the
        // target starts.
        unsafe { map.as_mut_ptr().cast::<Control>().write(page) };
        let control = ControlPage { map, origin, _locked: file };
        control.page().magic.store(layout::CONTROL_MAGIC, Ordering::Release);
        Ok(control)
    }

    fn page(&self) -> &Control {
        // SAFETY: the mapping holds a Control (written by `create`) while `self` lives; every field
        // that a running target may write is an atomic.
        unsafe { &*self.map.as_ptr().cast::<Control>() }
    }

    /// When the recording began.
    pub fn origin(&self) -> ClockReading {
        self.origin
    }

    /// Files that targets have made so far.
    pub fn announced(&self) -> u64 {
        self.page().announced.load(Ordering::Acquire)
    }

    /// The refusals so far and their reason.
    pub fn refused(&self) -> Option<Refused> {
        let page = self.page();
        let count = page.refused.load(Ordering::Acquire);
        let read = |value: &std::sync::atomic::AtomicU32| value.load(Ordering::Relaxed);
        let (pid, errno, step) =
            (read(&page.refused_pid), read(&page.refused_errno) as i32, read(&page.refused_step));
        (count > 0).then_some(Refused { count, pid, errno, step })
    }

    /// Asks processes to note their memory at exit(). Call before the first process starts.
    pub fn ask_for_memory(&self) {
        self.page().flags.fetch_or(layout::CONTROL_MEMORY, Ordering::Release);
    }

    /// Asks processes to write what their memory reporters name. Call before the first process
    /// starts.
    pub fn ask_for_reports(&self) {
        self.page().flags.fetch_or(layout::CONTROL_REPORTS, Ordering::Release);
    }

    /// Renews the later pair of clock readings, which recovery needs.
    pub fn tick(&self) {
        let now = ClockReading::now();
        self.page().end_ns.store(now.monotonic_ns, Ordering::Relaxed);
        self.page().end_counter.store(now.counter, Ordering::Release);
    }

    /// Tells targets to stop recording.
    pub fn stop(&self) {
        self.page().state.store(layout::CONTROL_STOPPED, Ordering::Release);
    }
}

/// The facts in a control page that finishing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlFacts {
    /// Clocks at the start of the recording.
    pub origin: ClockReading,
    /// The last sign of life from the drainer; `None`: it never gave one.
    pub later: Option<ClockReading>,
    /// Frames wanted of each stack.
    pub stack_depth: u32,
    /// Whether stacks were to have Python's frames.
    pub is_python: bool,
    /// The refusals and their reason.
    pub refused: Option<Refused>,
}

/// Processes and threads that could not be recorded, for lack of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Number of refusals.
    pub count: u32,
    /// The last process refused.
    pub pid: u32,
    /// Its errno.
    pub errno: i32,
    /// The step that failed (`layout::STEP_...`).
    pub step: u32,
}

impl Refused {
    /// Why the last one was refused; continues "process N".
    pub fn reason(&self) -> String {
        if self.step == layout::STEP_SANDBOX {
            return String::from(
                "had entered a sandbox (seccomp): its children cannot be recorded",
            );
        }
        let step = match self.step {
            layout::STEP_PROCESS_FILE => "its file in the spool",
            layout::STEP_RING_FILE => "a ring's file in the spool",
            _ => "memory",
        };
        if self.errno == libc::EFBIG {
            return format!(
                "may not have {step}: its limit on the size of files (RLIMIT_FSIZE) forbids it; raise it with `ulimit -f unlimited`"
            );
        }
        if self.errno == libc::ENOSPC || self.errno == libc::EDQUOT {
            return format!("found no space for {step}");
        }
        format!("could not have {step}: {}", std::io::Error::from_raw_os_error(self.errno))
    }
}

impl ControlFacts {
    /// Parses a control page; the error names the fault.
    pub fn parse(bytes: &[u8]) -> Result<ControlFacts, String> {
        if bytes.len() < size_of::<Control>() {
            return Err(format!("its control page has {} bytes", bytes.len()));
        }
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if u64_at(offset_of!(Control, magic)) != layout::CONTROL_MAGIC {
            return Err(String::from(
                "its control page does not begin with the right magic number",
            ));
        }
        let version = u32_at(offset_of!(Control, version));
        if version != layout::VERSION {
            let ours = layout::VERSION;
            return Err(format!(
                "its layout has version {version}; this heaplab reads version {ours}: finish it with the heaplab that wrote it"
            ));
        }
        let end = u64_at(offset_of!(Control, end_counter));
        let refused = u32_at(offset_of!(Control, refused));
        Ok(ControlFacts {
            origin: ClockReading {
                counter: u64_at(offset_of!(Control, origin_counter)),
                monotonic_ns: u64_at(offset_of!(Control, origin_ns)),
            },
            later: (end != 0).then(|| ClockReading {
                counter: end,
                monotonic_ns: u64_at(offset_of!(Control, end_ns)),
            }),
            stack_depth: u32_at(offset_of!(Control, stack_depth)),
            is_python: u32_at(offset_of!(Control, flags)) & layout::CONTROL_PYTHON != 0,
            refused: (refused > 0).then(|| Refused {
                count: refused,
                pid: u32_at(offset_of!(Control, refused_pid)),
                errno: u32_at(offset_of!(Control, refused_errno)) as i32,
                step: u32_at(offset_of!(Control, refused_step)),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_rings_are_larger_and_no_larger_than_what_is_read() {
        let of = |ring_bytes| [0, 1, 64].map(|depth| first_ring_bytes(ring_bytes, depth));
        assert_eq!(of(512 << 10), [2 << 20, 1 << 20, 1 << 20]);
        assert_eq!((of(512 << 20), of(1 << 30)), ([1 << 30; 3], [1 << 30; 3]));
    }

    #[test]
    fn a_page_is_written_locked_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings {
            stack_depth: 16,
            ring_bytes: 1 << 20,
            first_ring_bytes: 1 << 20,
            nested_bytes: 4096,
            mark_signal: 10,
            ..Settings::default()
        };
        let page = ControlPage::create(folder.path(), settings).unwrap();
        assert!(is_running(folder.path()));
        let read = || {
            ControlFacts::parse(&std::fs::read(folder.path().join(CONTROL_FILE)).unwrap()).unwrap()
        };
        assert_eq!((read().stack_depth, read().origin, read().later), (16, page.origin(), None));
        page.tick();
        assert!(read().later.is_some());
        drop(page);
        assert!(!is_running(folder.path()));
    }

    #[test]
    fn what_is_no_page_is_refused() {
        assert!(ControlFacts::parse(b"").is_err());
        assert!(ControlFacts::parse(&[0; 4096]).is_err());
        let folder = tempfile::tempdir().unwrap();
        drop(ControlPage::create(folder.path(), Settings::default()).unwrap());
        let mut page = std::fs::read(folder.path().join(CONTROL_FILE)).unwrap();
        page[offset_of!(Control, version)] -= 1;
        let error = ControlFacts::parse(&page).unwrap_err();
        assert!(
            error.starts_with(
                "its layout has version 4; this heaplab reads version 5: finish it with the heaplab"
            ),
            "{error}"
        );
    }
}
