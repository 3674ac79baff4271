//! What is known of one JVM of the log: its live arenas and their blocks, and what each of its
//! threads is in the middle of.
//!
//! Addresses, arenas and threads mean something only within one process, so that everything keyed
//! by them is here; lines of several JVMs are told apart by their decoration `pid`.

use super::gaps::Level;
use super::{Importer, Map};
use crate::ObjectId;
use crate::import::jvm_log::kind::Possible;
use crate::tables::{Process, Reclaim};
use hashbrown::HashSet;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

/// Most JVMs of one log; lines of later ones are passed over. A build tool starts hundreds.
const JVMS_LIMIT: usize = 4096;

/// One JVM.
#[derive(Debug, Default)]
pub struct Jvm {
    /// Row of `processes`.
    pub row: u32,
    pub arenas: Map<u64, LiveArena>,
    pub threads: Map<u64, UnderWay>,
    /// Which thread waits to be told that it was given the block at an address.
    pub given: Map<u64, u64>,
    /// Nodes of which it is not known yet which space they are of.
    pub nodes: Vec<(u64, u64)>,
    /// Where the chunks begin that are in use.
    pub chunks_out: HashSet<u64, Xxh3DefaultBuilder>,
    pub committed_bytes: u64,
    pub resident_bytes: u64,
    pub resident_anonymous_bytes: u64,
    /// The log says of every leftover where it goes.
    pub explicit: bool,
    /// The first lines that a JVM writes were there.
    pub began: bool,
    /// It has named its granule, which a JVM does once, when it begins.
    pub settled: bool,
    /// What it said of its reclaim policy.
    pub reclaim: Reclaim,
    /// It has the metaspace that JDKs had before 16.
    pub old: bool,
    pub loaders: u64,
    pub last_tid: u64,
}

/// An arena that lives.
#[derive(Debug)]
pub struct LiveArena {
    pub row: u32,
    pub class: bool,
    pub partner: Option<u64>,
    pub possible: Possible,
    /// The kind of its loader is settled by its first chunk, or not known because its birth was not
    /// seen.
    pub settled: bool,
    pub blocks: Map<u64, (ObjectId, u64)>,
    pub level: Level,
}

/// What a thread is in the middle of.
#[derive(Debug, Default)]
pub struct UnderWay {
    pub row: u32,
    pub request: Option<Request>,
    pub commit: Option<(u64, u64)>,
    pub line: Option<(u64, u64)>,
    /// Words that may still be committed until `MaxMetaspaceSize` and until the threshold for
    /// collecting.
    pub left: Option<(u64, u64)>,
    pub root: Option<u64>,
    pub wastage: Option<u64>,
    /// Words of the current chunk that no known request explains, if the next line does not, and of
    /// how many blocks they are at least.
    pub gap: (u64, u64),
    /// Lines say to this thread which blocks it got.
    pub told: bool,
}

/// What was asked of an arena, and perhaps given.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub arena: u64,
    pub row: u32,
    pub words: u64,
    pub address: Option<u64>,
    pub usable_words: u64,
    /// It is served from the free blocks; where is not said yet.
    pub from_free_blocks: bool,
}

impl Jvm {
    /// What this thread asked for, if it is of `address` or not known to be of another; it waits no
    /// longer.
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
    /// Goes on with the JVM of this pid; false where there are too many.
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

    /// The rows of JVMs that have the old metaspace.
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

    /// Whether there was nothing but JVMs before 16, which log what no arena can be told from.
    pub fn is_old(&self) -> bool {
        self.counts.arenas == 0 && !self.old_jvms().is_empty()
    }

    /// The JVMs of which nothing is known because they are too old are refused, and named.
    pub(super) fn refuse_old(&mut self) {
        for row in self.old_jvms() {
            let process = &mut self.out.tables.processes[row as usize];
            process.refused = Some("it is older than JDK 16".into());
            let who = if process.pid == 0 {
                String::from("a JVM")
            } else {
                format!("the JVM {}", process.pid)
            };
            self.out.meta.losses.push(format!("the metaspace of {who}: it is older than JDK 16, and what it logs is not understood"));
        }
    }

    /// A JVM begins that has the pid of the current one: another, if that has ended.
    pub(super) fn begin_again(&mut self, pid: Option<u64>) {
        let processes = &self.out.tables.processes;
        if let Some(pid) = pid
            && processes[self.jvm.row as usize].ended_ns.is_some()
            && processes.len() < JVMS_LIMIT
        {
            self.jvm = self.begin(pid);
        }
    }

    /// What the recording noted of the current JVM: `{"executable": ..., "arguments": [...],
    /// "parent": PID}`.
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
        // What is damaged says nothing: the JVM is recorded without it.
        let Ok(noted) = serde_json::from_slice::<Noted>(text) else { return };
        let parent = self.parked.get(&noted.parent).map(|jvm| jvm.row);
        let process = &mut self.out.tables.processes[self.jvm.row as usize];
        (process.executable, process.arguments) = (noted.executable, noted.arguments);
        process.parent = parent.filter(|row| *row < self.jvm.row);
    }
}
