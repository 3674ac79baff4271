//! Descendants that run without the recorder, and why: found while they run, because afterwards nothing tells.

use crate::{diagnose, preload, proc_fs};
use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Processes looked at.
const PROCESSES_MAX: usize = 4096;
/// Longest time between two looks.
const INTERVAL_MAX: Duration = Duration::from_millis(500);

/// A descendant that is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecorded {
    /// Its number.
    pub pid: u32,
    /// What it runs.
    pub executable: PathBuf,
    /// Why.
    pub reason: String,
}

/// Looks for them now and then: often at first, because many programs are short.
#[derive(Debug)]
pub struct Watch {
    root: u32,
    /// The spool's path as it begins the names of its files.
    spool: Vec<u8>,
    next: Instant,
    interval: Duration,
    /// Seen once without the recorder: perhaps only because its dynamic linker has not come to it.
    suspected: HashMap<u32, PathBuf>,
    told: HashSet<u32>,
}

impl Watch {
    /// For the descendants of `root`, itself included, that should record into `spool` (an absolute path).
    pub fn new(root: u32, spool: &Path) -> Watch {
        let interval = Duration::from_millis(8);
        let spool = [spool.as_os_str().as_bytes(), b"/"].concat();
        Watch { root, spool, next: Instant::now() + interval, interval, suspected: HashMap::new(), told: HashSet::new() }
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
            let Some(executable) = proc_fs::executable(pid) else { continue };
            if self.suspected.get(&pid) == Some(&executable) {
                self.told.insert(pid);
                found.push(Unrecorded { pid, reason: reason(pid, &executable), executable });
            } else {
                suspected.insert(pid, executable);
            }
        }
        self.suspected = suspected;
        found
    }

    /// Whether the process records, as far as can be told. With the recorder loaded, only another user's is sure not to when it has
    /// none of the spool's files: a child made by a raw clone has them from its first event on.
    fn records(&self, pid: u32) -> bool {
        match proc_fs::maps(pid, preload::NAME_PREFIX.as_bytes()) {
            Some(false) => false,
            Some(true) => foreign_user(pid).is_none() || proc_fs::maps(pid, &self.spool) != Some(false),
            None => true,
        }
    }
}

/// The user that the process acts as, if it is not ours.
fn foreign_user(pid: u32) -> Option<u32> {
    proc_fs::user(pid).filter(|user| *user != rustix::process::geteuid().as_raw())
}

fn reason(pid: u32, executable: &std::path::Path) -> String {
    if let Some(obstacle) = diagnose::obstacle(executable, None) {
        return obstacle.to_string();
    }
    let preloads = proc_fs::environment(pid, "LD_PRELOAD");
    let has_ours = preloads.is_some_and(|value| value.to_string_lossy().contains(preload::NAME_PREFIX));
    if let Some(user) = foreign_user(pid).filter(|_| proc_fs::maps(pid, preload::NAME_PREFIX.as_bytes()) == Some(true)) {
        format!("runs as another user (number {user}), who may not write the spool")
    } else if has_ours {
        String::from("has LD_PRELOAD in its environment, but its dynamic linker did not load the recorder")
    } else {
        String::from("was started without LD_PRELOAD in its environment: what started it cleaned the environment")
    }
}
