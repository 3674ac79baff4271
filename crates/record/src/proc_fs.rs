//! What `/proc` says about a process: whether it lives, how much memory it has, what it runs, whose
//! parent it is.
//!
//! Parsing is apart from reading. Everything may vanish between two reads; absence is an answer,
//! never an error.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Processor time, in ticks, within which a program's dynamic linker has long done its work.
const BEGIN_TICKS: u64 = 10;

/// The content of a file of the kernel, which states no size: with room for most of them, so that
/// one read is enough.
fn content(path: String) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(8 << 10);
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn text(path: String) -> Option<String> {
    String::from_utf8(content(path).ok()?).ok()
}

/// What `/proc/PID/stat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The state's letter.
    pub state: u8,
    /// Processor time that it has had, in the kernel's ticks, which are 10 ms as a rule.
    pub cpu_ticks: u64,
    /// Threads it has.
    pub threads: u32,
    /// When it started, in ticks since boot.
    pub start_ticks: u64,
    /// How it ended, as `waitpid` would say it; 0 while it runs, or where the kernel does not tell.
    pub wait_status: i32,
}

impl Stat {
    /// Reads the line. The name in parentheses may hold anything, so that fields are counted from
    /// the last one.
    pub fn parse(line: &str) -> Option<Stat> {
        let mut fields = line.get(line.rfind(')')? + 1..)?.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        // After the state (field 3): time in the program and in the kernel are fields 14 and 15,
        // threads are field 20, the start is field 22.
        let (user, system): (u64, u64) =
            (fields.nth(10)?.parse().ok()?, fields.next()?.parse().ok()?);
        let threads = fields.nth(4)?.parse().ok()?;
        let start_ticks = fields.nth(1)?.parse().ok()?;
        // Field 52, which kernels before 3.5 do not have.
        let wait_status = fields.nth(29).and_then(|field| field.parse().ok()).unwrap_or(0);
        Some(Stat {
            state,
            cpu_ticks: user.saturating_add(system),
            threads,
            start_ticks,
            wait_status,
        })
    }

    /// Of a living process.
    pub fn read(pid: u32) -> Option<Stat> {
        let bytes = content(format!("/proc/{pid}/stat")).ok()?;
        Stat::parse(&String::from_utf8_lossy(&bytes))
    }

    /// Whether the process has come no further since it had had `cpu_ticks`, as far as can be told,
    /// because it has no processor, waits for a disk or is stopped: what it has not done yet says
    /// nothing of what it will.
    pub fn is_held_up(&self, cpu_ticks: u64) -> bool {
        matches!(self.state, b'R' | b'D' | b'T' | b't')
            && self.cpu_ticks < cpu_ticks.saturating_add(BEGIN_TICKS)
    }

    /// Whether the process still runs. A leader that has ended while other threads go on looks like
    /// a zombie with threads.
    pub fn runs(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x') || self.threads > 1
    }
}

/// Whether there is a process of this number, which may be one that `/proc` does not show.
pub fn exists(pid: u32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid as i32);
    pid.is_some_and(|pid| {
        !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
    })
}

/// The mappings of all other processes that can be seen, as their `maps` have them.
pub fn all_maps() -> impl Iterator<Item = Vec<u8>> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id())
        .filter_map(|pid| content(format!("/proc/{pid}/maps")).ok())
}

/// How the process ended, as `waitpid` would say it, where nobody has waited for it yet.
pub fn wait_status(pid: u32, start_ticks: u64) -> Option<i32> {
    let stat = Stat::read(pid).filter(|stat| stat.state == b'Z' && stat.threads <= 1)?;
    // 0 may also mean that the kernel does not tell.
    (stat.wait_status != 0 && (start_ticks == 0 || stat.start_ticks == start_ticks))
        .then_some(stat.wait_status)
}

/// A process's memory as the kernel counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Resident bytes of all kinds.
    pub resident_bytes: u64,
    /// Of these, anonymous ones.
    pub anonymous_bytes: u64,
    /// The most resident bytes so far (`VmHWM`); 0: not known.
    pub resident_peak_bytes: u64,
}

/// The memory of a process, as `/proc/PID/status` states them. The kernel counts both in batches of
/// max(32, 2 a processor) pages for each processor, so that with two they may be 256 KiB off; exact
/// figures (smaps_rollup) would stop the target for as long as its page tables take to walk.
pub fn memory(pid: u32) -> Option<Memory> {
    memory_of(&text(format!("/proc/{pid}/status"))?)
}

/// Whether a process has switched transparent huge pages off, or was started by one that had
/// (`PR_SET_THP_DISABLE`; Linux 5.0 and later tell). Not where the kernel has none to give.
pub fn without_huge_pages(pid: u32) -> bool {
    text(format!("/proc/{pid}/status")).is_some_and(|status| huge_pages_are_off(&status))
}

fn huge_pages_are_off(status: &str) -> bool {
    status
        .lines()
        .find_map(|line| line.strip_prefix("THP_enabled:"))
        .is_some_and(|value| value.trim() == "0")
}

fn memory_of(status: &str) -> Option<Memory> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(Memory {
        resident_bytes: field("VmRSS:")?,
        anonymous_bytes: field("RssAnon:")?,
        resident_peak_bytes: field("VmHWM:").unwrap_or(0),
    })
}

/// The user that the process acts as (its effective user id).
pub fn user(pid: u32) -> Option<u32> {
    user_of(&text(format!("/proc/{pid}/status"))?)
}

fn user_of(status: &str) -> Option<u32> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))?
        .split_ascii_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// The words of the process's command line; none where it cannot be read.
pub fn arguments(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.strip_suffix(&[0]).unwrap_or(&bytes).split(|byte| *byte == 0);
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .filter(|_| !bytes.is_empty())
        .collect()
}

/// The parent's pid; 0 where it cannot be told.
pub fn parent(pid: u32) -> u32 {
    let status = text(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok()).unwrap_or(0)
}

/// The executable that the process runs.
pub fn executable(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Whether a file whose path contains `part` is mapped in the process; `None` where that cannot be
/// told.
pub fn maps(pid: u32, part: &[u8]) -> Option<bool> {
    let maps = content(format!("/proc/{pid}/maps")).ok().filter(|maps| !maps.is_empty())?;
    Some(maps.windows(part.len()).any(|window| window == part))
}

/// The name of a process that has ended and is not yet waited for: the last program that it ran, 15
/// bytes at most.
pub fn name_of_ended(pid: u32) -> Option<String> {
    if Stat::read(pid)?.runs() {
        return None;
    }
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned())
}

/// The value of a variable in the environment that the process was started with.
pub fn environment(pid: u32, variable: &str) -> Option<OsString> {
    let all = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{variable}=");
    let value =
        all.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(prefix.as_bytes()))?;
    Some(OsString::from_vec(value.to_vec()))
}

/// `root` and its descendants, at most `limit` of them.
pub fn descendants(root: u32, limit: usize) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        next += 1;
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for task in tasks.flatten() {
            let Ok(children) = fs::read_to_string(task.path().join("children")) else { continue };
            let room = limit.saturating_sub(found.len());
            found.extend(
                children
                    .split_ascii_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok())
                    .take(room),
            );
        }
    }
    found
}

/// Every process that may be looked at.
pub fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_fields() {
        let line = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 7 0 987654 18 19";
        let expected =
            Stat { state: b'S', cpu_ticks: 23, threads: 7, start_ticks: 987_654, wait_status: 0 };
        assert_eq!(Stat::parse(line), Some(expected));
        let whole: Vec<String> = (1..=52).map(|field| (field * 10).to_string()).collect();
        let ended = Stat::parse(&format!("1 (x) Z {}", whole[3..].join(" "))).unwrap();
        assert_eq!((ended.threads, ended.start_ticks, ended.wait_status), (200, 220, 520));
        assert_eq!(Stat::parse("42 (a"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn this_process_lives_and_has_memory() {
        let own = std::process::id();
        let stat = Stat::read(own).unwrap();
        assert!(stat.runs());
        let memory = memory(own).unwrap();
        assert!(
            memory.resident_bytes >= memory.anonymous_bytes
                && memory.anonymous_bytes > 0
                && memory.resident_peak_bytes > 0
        );
        assert!(descendants(own, 100).contains(&own));
    }

    #[test]
    fn how_a_process_ended_is_known_until_its_parent_has_waited() {
        let mut child =
            std::process::Command::new("sh").args(["-c", "kill -9 $$"]).spawn().unwrap();
        // SAFETY: `siginfo_t` is plain integers, for all of which zero is a valid value.
        let mut ended: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: waits for a child of this process, leaves it unwaited for, and writes to a
        // `siginfo_t` that lives through the call.
        let waited = unsafe {
            libc::waitid(libc::P_PID, child.id(), &raw mut ended, libc::WEXITED | libc::WNOWAIT)
        };
        assert_eq!(waited, 0);
        assert_eq!(wait_status(child.id(), 0), Some(9));
        child.wait().unwrap();
        assert_eq!(wait_status(child.id(), 0), None);
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let memory =
            Memory { resident_bytes: 12288, anonymous_bytes: 4096, resident_peak_bytes: 0 };
        assert!(huge_pages_are_off("VmRSS:\t12 kB\nTHP_enabled:\t0\n"));
        assert!(!huge_pages_are_off("THP_enabled:\t1\n") && !huge_pages_are_off(""));
        assert_eq!(memory_of("VmRSS:\t    12 kB\nRssAnon:\t     4 kB\n"), Some(memory));
        let peak = Memory { resident_peak_bytes: 20480, ..memory };
        assert_eq!(
            memory_of("VmHWM:\t    20 kB\nVmRSS:\t    12 kB\nRssAnon:\t     4 kB\n"),
            Some(peak)
        );
        assert_eq!(memory_of("VmRSS:\t    12 kB\n"), None);
        assert_eq!(user_of("Umask:\t0022\nUid:\t0\t65534\t0\t65534\n"), Some(65534));
    }
}
