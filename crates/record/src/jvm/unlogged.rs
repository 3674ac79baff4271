//! Finds JVMs among the program's descendants that write no log, so that a recording names what it
//! lacks.
//!
//! The option reaches a JVM by its command line or by an environment variable. A JVM has neither if
//! its parent got the option on the command line, or if its starter clears the variable. JVMs are
//! recognised by the library that every HotSpot maps. A process is checked a few times after each
//! change of its program, because it maps the library a moment later; checks without progress of
//! the process do not count. A JVM that ends between two checks is not seen.

use crate::proc_fs::{self, Stat};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The library of every HotSpot.
const LIBRARY: &[u8] = b"/libjvm.so";
/// Checks of a process's mappings, after which it is not a JVM until its program changes.
const LOOKS_MAX: u8 = 20;
/// Checks that must find the library in what may be a copy of its parent: a process that is about
/// to start a program is one for a moment.
const FOUND_LEAST: u8 = 2;
/// A look waits so many times as long as the last one took: programs of many threads and processes
/// take long to look at.
const WAIT: u32 = 20;
/// It waits so long at least.
const WAIT_LEAST: Duration = Duration::from_millis(20);
/// Most descendants that are looked at, and most that are remembered.
const PROCESSES_LIMIT: usize = 4096;

/// A JVM that is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnloggedJvm {
    /// Its pid.
    pub pid: u32,
    /// Its command line.
    pub arguments: Vec<String>,
}

/// Facts about a descendant.
#[derive(Debug, Default)]
struct Seen {
    program: PathBuf,
    /// Processor time of the process when it was first seen with this program.
    cpu_ticks: u64,
    looks: u8,
    found: u8,
    arguments: Vec<String>,
}

/// The descendants of a process.
#[derive(Debug)]
pub struct UnloggedJvms {
    root: u32,
    seen: HashMap<(u32, u64), Seen>,
    /// No look before.
    next: Instant,
}

impl UnloggedJvms {
    /// Those of `root`, itself included.
    pub fn of(root: u32) -> UnloggedJvms {
        UnloggedJvms { root, seen: HashMap::new(), next: Instant::now() }
    }

    /// Checks all descendants, if it is time.
    pub fn look(&mut self) {
        let start = Instant::now();
        if start < self.next {
            return;
        }
        for pid in proc_fs::descendants(self.root, PROCESSES_LIMIT) {
            let (Some(stat), Some(program)) = (Stat::read(pid), proc_fs::executable(pid)) else {
                continue;
            };
            let key = (pid, stat.start_ticks);
            if self.seen.len() >= PROCESSES_LIMIT && !self.seen.contains_key(&key) {
                continue;
            }
            let seen = self.seen.entry(key).or_default();
            if seen.program != program {
                *seen = Seen { program, cpu_ticks: stat.cpu_ticks, ..Seen::default() };
            }
            if seen.found < FOUND_LEAST && seen.looks < LOOKS_MAX {
                // On a busy machine one may wait for a processor for long before it maps anything.
                seen.looks += u8::from(!stat.is_held_up(seen.cpu_ticks));
                if proc_fs::maps(pid, LIBRARY) == Some(true) {
                    seen.arguments = proc_fs::arguments(pid);
                    // A process with other arguments than its parent's is no copy, and may have
                    // ended before the next check.
                    let is_own = proc_fs::arguments(proc_fs::parent(pid)) != seen.arguments;
                    seen.found = if is_own { FOUND_LEAST } else { seen.found + 1 };
                }
            }
        }
        self.next = Instant::now() + (start.elapsed() * WAIT).max(WAIT_LEAST);
    }

    /// The JVMs among them that were not `recorded`, by pid.
    pub fn but(self, recorded: impl Fn(u32, u64) -> bool) -> Vec<UnloggedJvm> {
        let jvms = self.seen.into_iter().filter(|((pid, start_ticks), seen)| {
            seen.found == FOUND_LEAST && !recorded(*pid, *start_ticks)
        });
        let mut unlogged: Vec<UnloggedJvm> =
            jvms.map(|((pid, _), seen)| UnloggedJvm { pid, arguments: seen.arguments }).collect();
        unlogged.sort_by_key(|jvm| jvm.pid);
        unlogged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// A started JVM is found, and another program is not.
    #[test]
    fn a_jvm_is_known_by_its_library() {
        let Ok(mut java) = Command::new("java")
            .args(["-version"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
        else {
            heaplab_oracle::skip("there is no java");
            return;
        };
        java.wait().unwrap();
        // It waits for the source of a program, which it compiles itself.
        let start = |program: &str, argument: &str| {
            Command::new(program)
                .arg(argument)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        };
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("Waits.java");
        std::fs::write(&source, "class Waits { public static void main(String[] a) throws Exception { System.in.read(); } }").unwrap();
        let (mut jvm, mut other) = (start("java", source.to_str().unwrap()), start("cat", "-"));
        let mut unlogged = UnloggedJvms::of(std::process::id());
        // The process is stopped before the first check, for longer than checks would go on.
        crate::signals::send(jvm.id(), libc::SIGSTOP);
        for _ in 0..2 * LOOKS_MAX {
            unlogged.next = Instant::now();
            unlogged.look();
        }
        crate::signals::send(jvm.id(), libc::SIGCONT);
        let deadline = Instant::now() + Duration::from_secs(600);
        let is_found = |unlogged: &UnloggedJvms| {
            unlogged
                .seen
                .iter()
                .any(|((pid, _), seen)| *pid == jvm.id() && seen.found == FOUND_LEAST)
        };
        while !is_found(&unlogged) && Instant::now() < deadline {
            unlogged.look();
            std::thread::sleep(Duration::from_millis(20));
        }
        let (jvm_pid, other_pid) = (jvm.id(), other.id());
        for child in [&mut jvm, &mut other] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
        let found: Vec<UnloggedJvm> = unlogged
            .but(|_, _| false)
            .into_iter()
            .filter(|one| [jvm_pid, other_pid].contains(&one.pid))
            .collect();
        let names: Vec<(u32, bool)> = found
            .iter()
            .map(|one| (one.pid, one.arguments.iter().any(|word| word.ends_with("Waits.java"))))
            .collect();
        assert_eq!(names, [(jvm_pid, true)]);
    }
}
