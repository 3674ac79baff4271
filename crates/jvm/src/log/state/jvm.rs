//! The state of one JVM of the log: its live arenas and their blocks, and the unfinished work of
//! each thread.
//!
//! Addresses, arenas and threads mean something only within one process, so everything keyed by
//! them is here; the decoration `pid` separates lines of several JVMs.

use super::gaps::Level;
use super::{Importer, Map};
use crate::Reclaim;
use crate::log::kind::Possible;
use hashbrown::HashSet;
use heaplab_trace::ObjectId;
use heaplab_trace::tables::Process;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

/// Most JVMs of one log; lines of later ones are skipped. A build tool starts hundreds.
const JVMS_LIMIT: usize = 4096;

/// One JVM.
#[derive(Debug, Default)]
pub struct Jvm {
    /// Row of `processes`.
    pub row: u32,
    pub arenas: Map<u64, LiveArena>,
    pub threads: Map<u64, UnderWay>,
    /// The thread that waits for the line about the block at an address.
    pub given: Map<u64, u64>,
    /// Nodes of a still unknown space.
    pub nodes: Vec<(u64, u64)>,
    /// Bases of the chunks in use.
    pub chunks_out: HashSet<u64, Xxh3DefaultBuilder>,
    pub committed_bytes: u64,
    pub resident_bytes: u64,
    pub resident_anonymous_bytes: u64,
    /// The log names each rest's destination.
    pub explicit: bool,
    /// The JVM's first lines were seen.
    pub began: bool,
    /// The JVM has printed its granule, which it does at its beginning.
    pub settled: bool,
    /// A report on a failed allocation has begun. It repeats the granule.
    pub reports_failure: bool,
    /// Its printed reclaim policy.
    pub reclaim: Reclaim,
    /// The JVM has the metaspace of JDKs before 16.
    pub old: bool,
    pub loaders: u64,
    pub last_tid: u64,
}

/// A live arena.
#[derive(Debug)]
pub struct LiveArena {
    pub row: u32,
    pub class: bool,
    pub partner: Option<u64>,
    pub possible: Possible,
    /// Its loader's kind is decided by its first chunk, or unknown without a seen birth.
    pub settled: bool,
    pub blocks: Map<u64, (ObjectId, u64)>,
    pub level: Level,
}

/// A thread's unfinished work.
#[derive(Debug, Default)]
pub struct UnderWay {
    pub row: u32,
    pub request: Option<Request>,
    pub commit: Option<(u64, u64)>,
    pub line: Option<(u64, u64)>,
    /// Words that may still be committed, up to `MaxMetaspaceSize` and up to the threshold for
    /// collecting.
    pub left: Option<(u64, u64)>,
    pub root: Option<u64>,
    pub wastage: Option<u64>,
    /// Words of the current chunk without a known request, unless the next line explains them, and
    /// the least number of their blocks.
    pub gap: (u64, u64),
    /// The log has a line for each block that this thread got.
    pub told: bool,
}

/// A request to an arena, perhaps granted.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub arena: u64,
    pub row: u32,
    pub words: u64,
    pub address: Option<u64>,
    pub usable_words: u64,
    /// The free blocks serve it; the address is not known yet.
    pub from_free_blocks: bool,
}

impl Jvm {
    /// Takes this thread's request for `address` or for an unknown address.
    pub fn take_request(&mut self, tid: u64, address: Option<u64>) -> Option<Request> {
        let is_it = |request: &mut Request| {
            address.is_none() || request.address.is_none() || request.address == address
        };
        let request = self.threads.get_mut(&tid)?.request.take_if(is_it)?;
        if let Some(given) = request.address
            && self.given.get(&given) == Some(&tid)
        {
            self.given.remove(&given);
        }
        Some(request)
    }
}

impl Importer {
    /// Switches to the JVM of this pid; false if there are too many.
    pub(super) fn enter(&mut self, pid: u64) -> bool {
        let Some(current) = self.pid else {
            self.pid = Some(pid);
            (self.out.tables.processes[0].pid, self.out.tables.processes[0].began_ns) =
                (pid as u32, self.time_ns);
            return true;
        };
        if current == pid {
            return true;
        }
        let next = match self.parked.remove(&pid) {
            Some(jvm) => jvm,
            None if self.out.tables.processes.len() >= JVMS_LIMIT => return false,
            None => self.begin(pid),
        };
        let before = std::mem::replace(&mut self.jvm, next);
        self.parked.insert(current, before);
        self.pid = Some(pid);
        true
    }

    fn begin(&mut self, pid: u64) -> Jvm {
        self.out.tables.processes.push(Process {
            pid: pid as u32,
            began_ns: self.time_ns,
            ..Process::default()
        });
        Jvm { row: self.out.tables.processes.len() as u32 - 1, ..Jvm::default() }
    }

    /// The rows of JVMs with the old metaspace.
    fn old_jvms(&self) -> Vec<u32> {
        let mut rows: Vec<u32> = self
            .parked
            .values()
            .chain([&self.jvm])
            .filter(|jvm| jvm.old)
            .map(|jvm| jvm.row)
            .collect();
        rows.sort_unstable();
        rows
    }

    /// Whether all JVMs were older than 16: their logs tell nothing of arenas.
    pub fn is_old(&self) -> bool {
        self.counts.arenas == 0 && !self.old_jvms().is_empty()
    }

    /// Refuses JVMs that are too old for their lines to be understood, and names them.
    pub(super) fn refuse_old(&mut self) {
        for row in self.old_jvms() {
            let process = &mut self.out.tables.processes[row as usize];
            process.refused = Some("it is older than JDK 16".into());
            let who = if process.pid == 0 {
                String::from("a JVM")
            } else {
                format!("the JVM {}", process.pid)
            };
            self.out.meta.losses.push(format!(
                "the metaspace of {who}: it is older than JDK 16, and its log is not understood"
            ));
        }
    }

    /// A JVM begins with the current one's pid: it is another process if the current one has ended.
    pub(super) fn begin_again(&mut self, pid: Option<u64>) {
        let processes = &self.out.tables.processes;
        if let Some(pid) = pid
            && processes[self.jvm.row as usize].ended_ns.is_some()
            && processes.len() < JVMS_LIMIT
        {
            self.jvm = self.begin(pid);
        }
    }

    /// Handles the recording's note of the current JVM:
    /// `{"executable": ..., "arguments": [...], "parent": PID}`.
    pub(super) fn about_process(&mut self, text: &[u8]) {
        #[derive(serde::Deserialize)]
        struct Noted {
            #[serde(default)]
            executable: String,
            #[serde(default)]
            arguments: Vec<String>,
            #[serde(default)]
            parent: u64,
        }
        // A damaged note is ignored: the JVM is recorded without it.
        let Ok(noted) = serde_json::from_slice::<Noted>(text) else { return };
        let parent = self.parked.get(&noted.parent).map(|jvm| jvm.row);
        let process = &mut self.out.tables.processes[self.jvm.row as usize];
        (process.executable, process.arguments) = (noted.executable, noted.arguments);
        process.parent = parent.filter(|row| *row < self.jvm.row);
    }
}
