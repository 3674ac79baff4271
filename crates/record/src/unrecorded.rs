//! Descendants that run without the recorder, and why. The watch finds them while they run, because
//! nothing tells afterwards.

use crate::execs::Exec;
use crate::proc_fs::Stat;
use crate::spool::note::Note;
use crate::{diagnose, preload, proc_fs};
use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most processes looked at.
const PROCESSES_MAX: usize = 4096;
/// Longest time between two looks.
const INTERVAL_MAX: Duration = Duration::from_millis(500);

/// An unrecorded descendant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecorded {
    /// Process number.
    pub pid: u32,
    /// Its program.
    pub executable: PathBuf,
    /// The reason.
    pub reason: String,
    /// Whether that is a file in the spool that cannot be read.
    pub is_unread: bool,
}

impl Unrecorded {
    /// Its note for the spool.
    pub fn note(&self) -> Note {
        Note::Unrecorded {
            pid: self.pid,
            executable: self.executable.to_string_lossy().into_owned(),
            reason: self.reason.clone(),
            is_unread: self.is_unread,
        }
    }
}

/// A process with an unreadable file: `executable` if it runs, else the last program that `execs`
/// has it start.
pub fn unread(pid: u32, reason: String, executable: Option<PathBuf>, execs: &[Exec]) -> Unrecorded {
    let noted = || {
        execs.iter().rfind(|exec| exec.pid == pid && !exec.is_child).map(|exec| exec.path.clone())
    };
    let executable =
        executable.or_else(noted).unwrap_or_else(|| PathBuf::from("an unknown program"));
    Unrecorded { pid, executable, reason, is_unread: true }
}

/// A process when first seen without the recorder.
#[derive(Debug)]
struct Suspect {
    executable: PathBuf,
    /// Processor time used by then.
    cpu_ticks: u64,
}

/// Looks for unrecorded descendants now and then: often at first, because many programs are short.
#[derive(Debug)]
pub struct Watch {
    root: u32,
    /// The spool's path as a prefix of its files' names.
    spool: Vec<u8>,
    next: Instant,
    interval: Duration,
    /// Seen without the recorder, perhaps only because the dynamic linker has not loaded it yet.
    suspected: HashMap<u32, Suspect>,
    told: HashSet<u32>,
}

impl Watch {
    /// Watches `root` and its descendants, which should record into `spool` (an absolute path).
    pub fn new(root: u32, spool: &Path) -> Watch {
        let interval = Duration::from_millis(8);
        let spool = [spool.as_os_str().as_bytes(), b"/"].concat();
        Watch {
            root,
            spool,
            next: Instant::now() + interval,
            interval,
            suspected: HashMap::new(),
            told: HashSet::new(),
        }
    }

    /// Those found since the last call.
    pub fn look(&mut self) -> Vec<Unrecorded> {
        let now = Instant::now();
        if now < self.next {
            return Vec::new();
        }
        self.interval = (self.interval * 3 / 2).min(INTERVAL_MAX);
        self.next = now + self.interval;
        let mut suspected = HashMap::new();
        let mut found = Vec::new();
        for pid in proc_fs::descendants(self.root, PROCESSES_MAX) {
            if self.told.contains(&pid) || self.records(pid) {
                continue;
            }
            let (Some(executable), Some(stat)) = (proc_fs::executable(pid), Stat::read(pid)) else {
                continue;
            };
            match self.suspected.remove(&pid).filter(|suspect| suspect.executable == executable) {
                // On a busy machine a program may wait long for a processor before its dynamic
                // linker begins.
                Some(suspect) if stat.is_held_up(suspect.cpu_ticks) => {
                    drop(suspected.insert(pid, suspect))
                }
                Some(_) => {
                    self.told.insert(pid);
                    let reason = reason(pid, &executable);
                    found.push(Unrecorded { pid, executable, reason, is_unread: false });
                }
                None => {
                    drop(suspected.insert(pid, Suspect { executable, cpu_ticks: stat.cpu_ticks }))
                }
            }
        }
        self.suspected = suspected;
        found
    }

    /// Whether the process records, as far as can be told. With the recorder loaded but none of the
    /// spool's files, only another user's process surely does not: a child made by a raw clone has
    /// files from its first event on.
    fn records(&self, pid: u32) -> bool {
        match proc_fs::maps(pid, preload::NAME_PREFIX.as_bytes()) {
            Some(false) => false,
            Some(true) => {
                foreign_user(pid).is_none() || proc_fs::maps(pid, &self.spool) != Some(false)
            }
            None => true,
        }
    }
}

/// The process's user, if not ours.
fn foreign_user(pid: u32) -> Option<u32> {
    proc_fs::user(pid).filter(|user| *user != rustix::process::geteuid().as_raw())
}

fn reason(pid: u32, executable: &std::path::Path) -> String {
    // AddressSanitizer would have ended this process, had it loaded the recorder.
    if let Some(obstacle) =
        diagnose::obstacle(executable, None).filter(|obstacle| !obstacle.ends_with_asan_options())
    {
        return obstacle.to_string();
    }
    let preloads = proc_fs::environment(pid, "LD_PRELOAD");
    let has_ours =
        preloads.is_some_and(|value| value.to_string_lossy().contains(preload::NAME_PREFIX));
    if let Some(user) = foreign_user(pid)
        .filter(|_| proc_fs::maps(pid, preload::NAME_PREFIX.as_bytes()) == Some(true))
    {
        format!("runs as another user (number {user}), who cannot write the spool")
    } else if has_ours {
        String::from(
            "has LD_PRELOAD in its environment, but its dynamic linker did not load the recorder",
        )
    } else {
        String::from(
            "was started without LD_PRELOAD in its environment: the starting program had removed it",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals;
    use std::process::{Child, Command, Stdio};

    fn start(command: &mut Command) -> Child {
        command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    /// A program stopped at its very beginning, as on a machine without a free processor, does not
    /// count as unrecorded.
    #[test]
    fn a_program_that_has_not_come_to_load_the_recorder_is_not_told() {
        let folder = tempfile::tempdir().unwrap();
        let spool = folder.path().canonicalize().unwrap();
        let object = preload::place(&spool).unwrap();
        let slow = start(Command::new("cat").env("LD_PRELOAD", &object));
        signals::send(slow.id(), libc::SIGSTOP);
        let other = start(&mut Command::new("cat"));
        let (mut watch, mut found) = (Watch::new(std::process::id(), &spool), Vec::new());
        let look = |watch: &mut Watch, found: &mut Vec<Unrecorded>| {
            std::thread::sleep(Duration::from_millis(5));
            found.extend(
                watch.look().into_iter().filter(|one| [slow.id(), other.id()].contains(&one.pid)),
            );
        };
        // The other one is reported at its second look or later, the stopped one not by then, nor
        // some looks later.
        while found.is_empty() {
            look(&mut watch, &mut found);
        }
        let looked = Instant::now();
        while looked.elapsed() < 3 * INTERVAL_MAX {
            look(&mut watch, &mut found);
        }
        signals::send(slow.id(), libc::SIGCONT);
        while !watch.records(slow.id()) {
            look(&mut watch, &mut found);
        }
        let told: Vec<u32> = found.iter().map(|one| one.pid).collect();
        assert_eq!(told, [other.id()], "{found:?}");
        end(slow);
        end(other);
    }
}
