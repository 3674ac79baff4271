//! Facts about a process from `/proc`: whether it lives, its memory, its program, its parent.
//!
//! Parsing is apart from reading. Anything may vanish between two reads; absence is an answer,
//! never an error.

use heaplab_preload::SPOOL_VARIABLE;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Processor time, in ticks, after which a program's dynamic linker is surely done.
const BEGIN_TICKS: u64 = 10;

/// The content of a kernel file, which has no size: the buffer has room for most, so one read is
/// enough.
fn content(path: String) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(8 << 10);
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn text(path: String) -> Option<String> {
    String::from_utf8(content(path).ok()?).ok()
}

/// The content of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The state's letter.
    pub state: u8,
    /// Processor time used, in the kernel's ticks, 10 ms as a rule.
    pub cpu_ticks: u64,
    /// Number of threads.
    pub threads: u32,
    /// Start, in ticks since boot.
    pub start_ticks: u64,
    /// How it ended, as a `waitpid` status; 0 while it runs, or if the kernel does not tell.
    pub wait_status: i32,
}

impl Stat {
    /// Parses the line. The name in parentheses may contain anything: fields are counted from the
    /// last parenthesis.
    pub fn parse(line: &str) -> Option<Stat> {
        let mut fields = line.get(line.rfind(')')? + 1..)?.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        // After the state (field 3): user and system time are fields 14 and 15, threads are field
        // 20, the start is field 22.
        let (user, system): (u64, u64) =
            (fields.nth(10)?.parse().ok()?, fields.next()?.parse().ok()?);
        let threads = fields.nth(4)?.parse().ok()?;
        let start_ticks = fields.nth(1)?.parse().ok()?;
        // Field 52; kernels before 3.5 lack it.
        let wait_status = fields.nth(29).and_then(|field| field.parse().ok()).unwrap_or(0);
        Some(Stat {
            state,
            cpu_ticks: user.saturating_add(system),
            threads,
            start_ticks,
            wait_status,
        })
    }

    /// Reads a living process's.
    pub fn read(pid: u32) -> Option<Stat> {
        let bytes = content(format!("/proc/{pid}/stat")).ok()?;
        Stat::parse(&String::from_utf8_lossy(&bytes))
    }

    /// Whether the process has made no progress since it had used `cpu_ticks`, because it gets no
    /// processor, waits for a disk or is stopped: its lack of actions then proves nothing.
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

/// Whether a process of this number exists, even one that `/proc` does not show.
pub fn exists(pid: u32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid as i32);
    pid.is_some_and(|pid| {
        !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
    })
}

/// The `maps` of all other visible processes.
pub fn all_maps() -> impl Iterator<Item = Vec<u8>> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id())
        .filter_map(|pid| content(format!("/proc/{pid}/maps")).ok())
}

/// How the process ended, as a `waitpid` status, until its parent has waited for it.
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
    /// Peak of resident bytes so far (`VmHWM`); 0: unknown.
    pub resident_peak_bytes: u64,
}

/// The memory of a process from `/proc/PID/status`. The kernel counts in batches of max(32, 2 a
/// processor) pages for each processor: with two processors a figure may be 256 KiB off. Exact
/// figures (smaps_rollup) would stop the target while the kernel walks its page tables.
pub fn memory(pid: u32) -> Option<Memory> {
    memory_of(&text(format!("/proc/{pid}/status"))?)
}

/// Whether a process has switched transparent huge pages off, or inherited the switch
/// (`PR_SET_THP_DISABLE`; Linux 5.0 and later tell). False if the kernel has no huge pages.
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

/// The numbers of the process's threads, at most `limit` of them.
pub fn threads(pid: u32, limit: usize) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.take(limit).collect()
}

/// The stack pointer of a thread that waits in the kernel; `None`: it runs, or may not be asked.
pub fn stack_pointer(pid: u32, thread: u32) -> Option<u64> {
    stack_pointer_of(&text(format!("/proc/{pid}/task/{thread}/syscall"))?)
}

/// "number arguments... stack-pointer instruction-pointer", or "-1 stack-pointer
/// instruction-pointer", or "running".
fn stack_pointer_of(line: &str) -> Option<u64> {
    let stack = line.split_ascii_whitespace().rev().nth(1)?;
    u64::from_str_radix(stack.strip_prefix("0x")?, 16).ok().filter(|stack| *stack != 0)
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

/// The process's number in its own namespace, which differs in a container.
pub fn innermost_number(pid: u32) -> Option<u32> {
    let status = text(format!("/proc/{pid}/status"))?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.map_or(Some(pid), |numbers| numbers.split_ascii_whitespace().last()?.parse().ok())
}

/// The words of the process's command line; empty if unreadable.
pub fn arguments(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.strip_suffix(&[0]).unwrap_or(&bytes).split(|byte| *byte == 0);
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .filter(|_| !bytes.is_empty())
        .collect()
}

/// The parent's pid; 0 if unknown.
pub fn parent(pid: u32) -> u32 {
    let status = text(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok()).unwrap_or(0)
}

/// The process's executable.
pub fn executable(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Whether the process has mapped a file with `part` in its path; `None` if unknown.
pub fn maps(pid: u32, part: &[u8]) -> Option<bool> {
    let maps = content(format!("/proc/{pid}/maps")).ok().filter(|maps| !maps.is_empty())?;
    Some(maps.windows(part.len()).any(|window| window == part))
}

/// The name of an ended process that nobody has waited for: its last program, 15 bytes at most.
pub fn name_of_ended(pid: u32) -> Option<String> {
    if Stat::read(pid)?.runs() {
        return None;
    }
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned())
}

/// The value of a variable in the process's initial environment.
pub fn environment(pid: u32, variable: &str) -> Option<OsString> {
    let all = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{variable}=");
    let value =
        all.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(prefix.as_bytes()))?;
    Some(OsString::from_vec(value.to_vec()))
}

/// Whether the process has the recording's spool in its environment.
pub fn is_of_recording(pid: u32, spool: &Path) -> bool {
    environment(pid, SPOOL_VARIABLE).is_some_and(|of| of == spool.as_os_str())
}

/// Whether a living process has the recording's spool in its environment.
pub fn recording_lives(spool: &Path) -> bool {
    all().into_iter().any(|pid| is_of_recording(pid, spool))
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

/// Every process that may be inspected.
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
        assert_eq!(
            stack_pointer_of("230 0x0 0x0 0x1 0x2 0x0 0x0 0x7ffc10 0x7fb5\n"),
            Some(0x7ffc10)
        );
        assert_eq!(stack_pointer_of("-1 0x7ffc20 0x7fb5\n"), Some(0x7ffc20));
        assert_eq!(stack_pointer_of("running\n"), None);
        assert_eq!(memory_of("VmRSS:\t    12 kB\n"), None);
        assert_eq!(user_of("Umask:\t0022\nUid:\t0\t65534\t0\t65534\n"), Some(65534));
    }
}
