//! The cells to run. A plan is a list of blocks, each the same cells in its own order. Everything
//! about a plan follows from its fields, so machines that share a plan run parts of the same
//! experiment.

use crate::results::{HugePages, Settings, Workload};
use heaplab_heap::Traits;
use heaplab_replay::{CellKind, CellRequest, Selected};
use heaplab_statistics::Random;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use xxhash_rust::xxh3::xxh3_64;

/// The heap that does nothing, by name: a cell of every block.
pub const NULL_HEAP: &str = "null";
/// The canary's place in a block's order.
pub const CANARY: &str = "canary";

/// A heap to be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapCell {
    /// Its name with parameters.
    pub name: String,
    /// Environment variables that its process needs.
    pub environment: Vec<(String, String)>,
    /// Space cells: one where the heap's space depends on nothing but the program, more where it
    /// depends on time.
    pub space_cells: u32,
    /// The heap's name without huge pages; `None`: it has no such switch, or has it set.
    pub without_huge_pages: Option<String>,
    /// A cell writes a file, so that a kept cell does not stand in for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writes_file: bool,
}

/// Space cells of a heap whose space depends on time, and of all heaps with threads, whose order
/// differs from run to run: enough to show the variation.
const SPACE_CELLS: u32 = 3;

impl HeapCell {
    /// A heap of this name whose space depends on nothing but the program.
    pub fn named(name: &str) -> HeapCell {
        let (environment, without_huge_pages) = (Vec::new(), None);
        let name = name.into();
        HeapCell { name, environment, space_cells: 1, without_huge_pages, writes_file: false }
    }

    /// A heap as a cell of an experiment, which runs `threads` at once or one.
    pub fn of(heap: &dyn Selected, threads: bool) -> HeapCell {
        let Traits { environment, without_huge_pages, space_depends_on_time, writes_file, .. } =
            heap.traits();
        let space_cells = if space_depends_on_time || threads { SPACE_CELLS } else { 1 };
        let name = heap.to_string();
        HeapCell { name, environment, space_cells, without_huge_pages, writes_file }
    }
}

/// `I/N`: this machine's part of the blocks.
///
/// # Errors
/// The text has another form; the error names the right one.
pub fn shard(text: &str) -> Result<(u32, u32), String> {
    let parts = text
        .split_once('/')
        .and_then(|(part, parts)| Some((part.parse::<u32>().ok()?, parts.parse::<u32>().ok()?)));
    parts
        .filter(|(part, parts)| part < parts)
        .ok_or_else(|| "I/N with I below N, for example 0/4".into())
}

/// An experiment: one program, several heaps.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The replay program's file.
    pub program: PathBuf,
    /// Facts on the workload.
    pub workload: Workload,
    /// The heaps; the first is the baseline.
    pub heaps: Vec<HeapCell>,
    /// The settings of the measurement.
    pub settings: Settings,
    /// Measure space.
    pub space: bool,
    /// Measure time.
    pub time: bool,
    /// Check every block of every heap first.
    pub verify: bool,
    /// This machine's part: blocks whose number modulo `.1` is `.0`.
    pub shard: (u32, u32),
    /// The folder of block files; `None`: they are not kept.
    pub results: Option<PathBuf>,
    /// The folder of space cells.
    pub cache: Option<PathBuf>,
    /// Identifies the code that runs cells.
    pub code_version: String,
    /// Processor to stay on; `None`: any.
    pub core: Option<u32>,
}

/// No heaps, to be measured by this machine alone and not kept.
impl Default for Plan {
    fn default() -> Plan {
        Plan {
            program: PathBuf::new(),
            workload: Workload::default(),
            heaps: Vec::new(),
            settings: Settings::default(),
            space: true,
            time: true,
            verify: false,
            shard: (0, 1),
            results: None,
            cache: None,
            code_version: String::new(),
            core: None,
        }
    }
}

impl Plan {
    /// The fields in which results of one experiment must agree: all but the number of blocks and
    /// the machine's part.
    pub fn identity(&self) -> u64 {
        let settings = Settings { reps: 0, ..self.settings.clone() };
        let parts = (&self.workload, &self.heaps, settings, &self.code_version);
        xxh3_64(&serde_json::to_vec(&parts).unwrap_or_default())
    }

    /// The identity as files contain it.
    pub fn name(&self) -> String {
        format!("{:016x}", self.identity())
    }

    /// The cells of time block `block` in their order: heaps, the null heap, and the canary.
    pub fn order(&self, block: u32) -> Vec<&str> {
        let mut order: Vec<&str> =
            self.heaps.iter().map(|heap| heap.name.as_str()).chain([NULL_HEAP, CANARY]).collect();
        let mut random = Random(self.settings.seed ^ (u64::from(block) << 32));
        random.shuffle(&mut order);
        order
    }

    /// The blocks of this machine's part.
    pub fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        let (part, parts) = self.shard;
        (0..self.settings.reps).filter(move |block| block % parts.max(1) == part)
    }

    /// The request to a cell.
    pub fn request(&self, heap: &str, kind: CellKind) -> CellRequest {
        CellRequest {
            heap: heap.into(),
            kind,
            program: self.program.clone(),
            touch: self.settings.touch,
            threads: self.settings.threads,
            passes: self.settings.passes,
            // Threads are there to run at once.
            core: self.core.filter(|_| !self.settings.threads),
            huge_pages: self.huge_pages(kind),
        }
    }

    /// Whether a cell may have huge pages: for space the setting decides; time is measured as the
    /// program runs.
    fn huge_pages(&self, kind: CellKind) -> bool {
        let is_asked = self.settings.huge_pages != Some(HugePages::None);
        !self.settings.program_without_huge_pages && (kind != CellKind::Space || is_asked)
    }

    /// The request for a space cell under the other setting of huge pages; `None`: the program has
    /// no other.
    pub fn request_beside(&self, heap: &str) -> Option<CellRequest> {
        let asked = self.settings.huge_pages?;
        let request = self.request(heap, CellKind::Space);
        (!self.settings.program_without_huge_pages)
            .then_some(CellRequest { huge_pages: asked.other() == HugePages::System, ..request })
    }

    /// Whether a cell of a heap writes a file.
    pub(crate) fn writes_file(&self, heap: &str) -> bool {
        self.heaps.iter().any(|cell| cell.name == heap && cell.writes_file)
    }

    /// The environment of a heap's process.
    pub fn environment(&self, heap: &str) -> &[(String, String)] {
        self.heaps.iter().find(|cell| cell.name == heap).map_or(&[], |cell| &cell.environment)
    }
}

/// Passes that make a time cell run at least this many events: half a second or so, long enough
/// that the beginnings of the clock and the process do not count. Equal for all heaps, cheap or
/// dear. A tenth in a debug build, whose times mean nothing: it runs tests.
pub const CELL_EVENTS_MIN: u64 = if cfg!(debug_assertions) { 1_000_000 } else { 10_000_000 };

/// Cost of a thread's start and end, in events.
const EVENTS_A_THREAD: u64 = 500;

/// Repetitions of a program of `events` events that starts `threads` threads, in a time cell.
pub fn passes_for(events: u64, threads: u64) -> u32 {
    CELL_EVENTS_MIN
        .div_ceil(events.max(1).saturating_add(threads.saturating_mul(EVENTS_A_THREAD)))
        .clamp(1, 10_000) as u32
}
