//! The processes of a command and their memory, as `/proc` tells.
//!
//! A single process's anonymous memory is `RssAnon` of its status, which takes some microseconds to
//! read. For several processes it is `Pss_Anon` of `smaps_rollup`, which counts memory shared by a
//! fork once; reading it walks page tables, so it is read only for several processes. Everything
//! may vanish between two reads; absence is an answer.

use std::collections::HashMap;
use std::fs;

/// Memory of one process, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident bytes; proportional for several processes.
    pub resident_bytes: u64,
    /// Anonymous.
    pub anonymous_bytes: u64,
    /// Largest resident set of any single process so far, by the kernel's count.
    pub peak_bytes: u64,
}

/// The living descendants of `root`, without itself.
pub fn descendants(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in names.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if let Some((parent, state)) = fs::read(format!("/proc/{pid}/stat"))
            .ok()
            .and_then(|bytes| parent(&String::from_utf8_lossy(&bytes)))
            && state != b'Z'
            && state != b'X'
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut waiting = vec![root];
    while let Some(pid) = waiting.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        waiting.extend(below);
    }
    found
}

/// The descendants of `root` by the kernel's lists of children, without itself: fast, and perhaps
/// without some that begin or end meanwhile. Nothing if the kernel has no such lists.
pub fn listed_descendants(root: u32) -> Vec<u32> {
    let (mut found, mut waiting): (Vec<u32>, Vec<u32>) = (Vec::new(), vec![root]);
    while let Some(pid) = waiting.pop() {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children =
                children.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok());
            let before = found.len();
            found.extend(children);
            waiting.extend(&found[before..]);
        }
    }
    found
}

/// Parent and state in a line of `/proc/PID/stat`. The name in parentheses may contain anything, so
/// fields count from the last parenthesis.
fn parent(line: &str) -> Option<(u32, u8)> {
    let mut fields = line.get(line.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some((fields.next()?.parse().ok()?, state))
}

/// The memory of all `pids` together; `None`: none of them exists any more.
pub fn memory(pids: &[u32]) -> Option<Memory> {
    let each: Vec<(u32, Memory)> =
        pids.iter().filter_map(|pid| Some((*pid, status(&read(*pid, "status")?)?))).collect();
    let mut total = Memory {
        peak_bytes: each.iter().map(|(_, memory)| memory.peak_bytes).max()?,
        ..Memory::default()
    };
    for (pid, own) in &each {
        let shared = if each.len() > 1 {
            read(*pid, "smaps_rollup").and_then(|text| rollup(&text))
        } else {
            None
        };
        let own = shared.unwrap_or(*own);
        total.resident_bytes += own.resident_bytes;
        total.anonymous_bytes += own.anonymous_bytes;
    }
    Some(total)
}

/// A process's name.
pub fn name(pid: u32) -> String {
    let name = read(pid, "comm").unwrap_or_default();
    format!("{} (pid {pid})", name.trim_end())
}

fn read(pid: u32, file: &str) -> Option<String> {
    fs::read(format!("/proc/{pid}/{file}"))
        .ok()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// `/proc/PID/status`. A process that has ended has none of these lines.
fn status(text: &str) -> Option<Memory> {
    let resident_bytes = field(text, "VmRSS:")?;
    Some(Memory {
        resident_bytes,
        // Kernels before 4.5 do not report file memory separately.
        anonymous_bytes: field(text, "RssAnon:").unwrap_or(resident_bytes),
        peak_bytes: field(text, "VmHWM:").unwrap_or(resident_bytes),
    })
}

fn rollup(text: &str) -> Option<Memory> {
    let resident_bytes = field(text, "Pss:")?;
    Some(Memory {
        resident_bytes,
        anonymous_bytes: field(text, "Pss_Anon:").or_else(|| field(text, "Anonymous:"))?,
        peak_bytes: 0,
    })
}

/// The bytes on the line that begins with `name`, which is in kilobytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read() {
        let text = "Name:\tb\nVmHWM:\t    300 kB\nVmRSS:\t     200 kB\nRssAnon:\t     150 kB\nRssFile:\t      50 kB\n";
        assert_eq!(
            status(text),
            Some(Memory {
                resident_bytes: 200 << 10,
                anonymous_bytes: 150 << 10,
                peak_bytes: 300 << 10
            })
        );
        assert_eq!(status("Name:\tb\nState:\tZ (zombie)\n"), None);
        let text = "Rss:                 900 kB\nPss:                 501 kB\nPss_Dirty:           148 kB\nPss_Anon:            140 kB\n";
        assert_eq!(
            rollup(text),
            Some(Memory { resident_bytes: 501 << 10, anonymous_bytes: 140 << 10, peak_bytes: 0 })
        );
        assert_eq!(parent("7 (a) b (c) S 3 7 7"), Some((3, b'S')));
    }

    #[test]
    fn this_process_has_memory_and_children() {
        let own = memory(&[std::process::id()]).unwrap();
        assert!(
            own.peak_bytes >= own.resident_bytes
                && own.resident_bytes >= own.anonymous_bytes
                && own.anonymous_bytes > 0
        );
        let mut child = std::process::Command::new("sleep").arg("5").spawn().unwrap();
        assert!(descendants(std::process::id()).contains(&child.id()));
        // A kernel without lists of children (CONFIG_PROC_CHILDREN) tells none.
        let lists = format!("/proc/self/task/{}/children", std::process::id());
        let has_lists = fs::metadata(lists).is_ok();
        assert!(!has_lists || listed_descendants(std::process::id()).contains(&child.id()));
        let both = memory(&[std::process::id(), child.id()]).unwrap();
        assert!(both.resident_bytes > 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(memory(&[child.id()]), None);
    }
}
