//! The tables that events refer to. All are small beside the events and are held in memory whole.
//!
//! Ids are row numbers. Row 0 of `stacks` is "no stack", row 0 of `arenas` the malloc arena that
//! never dies; the other tables begin with their first real row.

mod function_names;
mod function_path;
mod processes;
mod resident;
mod site;

pub use processes::{process_label, recorded_first};
pub use resident::{ResidentKind, ResidentPart};
pub use site::bare_name;

use crate::StackId;
use serde::{Deserialize, Serialize};

/// A node of the stack tree: this frame, called from the frames of `parent`. `parent` is always a
/// smaller row, so that a cycle cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct StackNode {
    /// The caller's node; 0 for the outermost frame.
    pub parent: StackId,
    /// Row of `frames`: the innermost frame at this return address (its `inlined_into` leads
    /// outwards).
    pub frame: u32,
}

/// A place in code. Physical frames (a return address) and, after symbolizing, the functions
/// inlined there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Frame {
    /// Row of `modules`; `None` where the address lay in no module (JIT code).
    pub module: Option<u32>,
    /// Offset in the module as its file numbers addresses (virtual address less load bias), or the
    /// absolute address without a module. It is the return address; look symbols up at one less.
    pub address: u64,
    /// Demangled; `None` where no symbol covers the address: show module + offset then.
    pub function: Option<String>,
    /// Source file.
    pub file: Option<String>,
    /// Source line, from 1; 0: not known.
    pub line: u32,
    /// The frame this one was inlined into, an enclosing function at the same address.
    pub inlined_into: Option<u32>,
}

/// A mapped executable or library.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Module {
    /// Path as the target saw it (non-UTF-8 bytes percent-encoded).
    pub path: String,
    /// GNU build id in hexadecimal; empty where the file has none.
    pub build_id: String,
    /// Row of `processes`.
    pub process: u32,
    /// Load bias: address in memory less address in the file.
    pub bias: u64,
    /// Bytes of address space from the first to the last segment.
    pub size: u64,
    /// When it was loaded, ns since the recording began.
    pub loaded_ns: u64,
    /// When it was unloaded.
    pub unloaded_ns: Option<u64>,
}

/// A process of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Process {
    /// The operating system's number.
    pub pid: u32,
    /// Row of the parent, where it was recorded too.
    pub parent: Option<u32>,
    /// The executable's path.
    pub executable: String,
    /// Its arguments, the program's name first.
    pub arguments: Vec<String>,
    /// How it began: the recording's own child, fork, or exec (the same pid with a new program is a
    /// new row).
    pub began: Began,
    /// When, ns since the recording began.
    pub began_ns: u64,
    /// How it ended.
    pub ended: Ended,
    /// When; `None` where it was still running when the recording ended.
    pub ended_ns: Option<u64>,
    /// Nothing was recorded for this process, and why.
    pub refused: Option<String>,
}

/// How a process began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Began {
    /// Started by heaplab, or the only one of an imported trace.
    #[default]
    Started,
    /// A fork of its parent, with a copy of its heap.
    Fork,
    /// An exec: a new, empty heap.
    Exec,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Not known, or still running.
    #[default]
    Unknown,
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It became another program.
    Exec,
}

/// A thread of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Thread {
    /// Row of `processes`.
    pub process: u32,
    /// The operating system's number.
    pub tid: u32,
    /// Its name when first seen; empty where not known.
    pub name: String,
}

/// An arena: a region that dies as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Arena {
    /// The arena's purpose: "malloc", "class", "non-class", "request", ...
    pub kind: String,
    /// Row of the arena that belongs to the same owner (metaspace: class and non-class).
    pub partner: Option<u32>,
    /// The arena's owner (a class loader's name).
    pub loader: String,
    /// The growth policy it was made with.
    pub growth_policy: String,
}

/// A named moment.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mark {
    /// As the user or the program named it.
    pub name: String,
    /// ns since the recording began.
    pub time_ns: u64,
    /// Row of `processes`; `None`: all.
    pub process: Option<u32>,
}

/// A moment named from outside during a recording: a mark to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedMoment {
    /// Its name.
    pub name: String,
    /// ns since the recording began.
    pub time_ns: u64,
    /// The process it concerns; `None`: all.
    pub pid: Option<u32>,
}

/// The process's memory as the system saw it at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// ns since the recording began.
    pub time_ns: u64,
    /// Row of `processes`.
    pub process: u32,
    /// Resident bytes, all kinds.
    pub resident_bytes: u64,
    /// Resident anonymous bytes: what heaps are made of.
    pub resident_anonymous_bytes: u64,
    /// The most resident bytes that the kernel has counted until then; 0: not known. It forgets
    /// nothing between two samples.
    pub resident_peak_bytes: u64,
    /// Committed bytes where a heap says so; 0: not known.
    pub committed_bytes: u64,
}

/// The name of a heap's operation on a chunk. The crate that knows the recorded runtime defines
/// names; the workload knows [`OpName::TRIM`] alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OpName([u8; 15]);

impl OpName {
    /// Everything that could be given back to the system was asked for, as another heap is when the
    /// workload is replayed.
    pub const TRIM: OpName = OpName(*b"purge\0\0\0\0\0\0\0\0\0\0");

    /// Of 1 to 15 bytes; `None`: the text is of other length.
    pub fn new(text: &str) -> Option<OpName> {
        let mut bytes = [0; 15];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        (!text.is_empty() && !text.contains('\0')).then_some(OpName(bytes))
    }

    /// As `chunks.parquet` has it.
    pub fn text(&self) -> &str {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..length]).unwrap_or("")
    }
}

impl std::fmt::Debug for OpName {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        self.text().fmt(out)
    }
}

/// One row of what became of chunks. Fields that the operation does not use are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ChunkEvent {
    /// What happened.
    pub op: OpName,
    /// How many rows of `events.parquet` came before it.
    pub row: u64,
    /// ns since the recording began.
    pub time_ns: u64,
    /// Where the chunk, the range or the block begins.
    pub address: u64,
    /// The length in bytes.
    pub bytes: u64,
    /// Row of `arenas`; 0: none.
    pub arena: u32,
    /// Row of `processes` with this address space.
    pub process: u32,
}

/// Everything that events refer to.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Tables {
    /// The stack tree; row 0 is "no stack".
    pub stacks: Vec<StackNode>,
    /// Places in code.
    pub frames: Vec<Frame>,
    /// Executables and libraries.
    pub modules: Vec<Module>,
    /// Processes.
    pub processes: Vec<Process>,
    /// Threads.
    pub threads: Vec<Thread>,
    /// Arenas; row 0 is the malloc arena.
    pub arenas: Vec<Arena>,
    /// Named moments, in order.
    pub marks: Vec<Mark>,
    /// Memory as the system saw it, in order of time.
    pub samples: Vec<Sample>,
    /// What became of chunks, in order; empty where the recording does not show it.
    pub chunks: Vec<ChunkEvent>,
    /// The parts of resident memory, in order of time; empty if not recorded.
    pub resident: Vec<ResidentPart>,
}

impl Tables {
    /// The rows of `frames` for `stack`, innermost first, inlined frames included. Ends at the
    /// root; bounded, because parents are smaller rows.
    pub fn frames_of(&self, stack: StackId) -> impl Iterator<Item = u32> + '_ {
        let mut node = stack;
        let mut inline = None;
        std::iter::from_fn(move || {
            let frame = match inline.take() {
                Some(frame) => frame,
                None if node == 0 => return None,
                None => {
                    let here = self.stacks.get(node as usize)?;
                    node = if here.parent < node { here.parent } else { 0 };
                    here.frame
                }
            };
            inline = self.frames.get(frame as usize)?.inlined_into.filter(|outer| *outer > frame);
            Some(frame)
        })
    }

    /// The frames of a stack without those inlined into them, the innermost first.
    pub fn physical_frames_of(&self, stack: StackId) -> impl Iterator<Item = u32> + '_ {
        let mut node = stack;
        std::iter::from_fn(move || {
            let here = self.stacks.get(node as usize).filter(|_| node != 0)?;
            node = if here.parent < node { here.parent } else { 0 };
            Some(here.frame)
        })
    }

    /// Whether a process ran when a mark was set, so that its figures at the mark mean something;
    /// `None`: all processes. It ran at its own marks, whatever its times say.
    pub fn ran_at_mark(&self, row: usize, process: Option<u32>) -> bool {
        let row_of = |process: u32| self.processes.get(process as usize);
        let (Some(mark), Some(process)) = (self.marks.get(row), process) else { return true };
        mark.process == Some(process)
            || row_of(process).is_none_or(|process| process.ran_at(mark.time_ns))
    }

    /// A name for this mark alone: `loaded`, and for a second one of that name `loaded#2`.
    pub fn mark_name(&self, row: usize) -> String {
        let Some(Mark { name, .. }) = self.marks.get(row) else { return String::new() };
        let before = self.marks[..row].iter().filter(|mark| mark.name == *name).count();
        if before == 0 { name.clone() } else { format!("{name}#{}", before + 1) }
    }

    /// What to show for a frame: the function, or module + offset, or the bare address.
    pub fn frame_label(&self, frame: u32) -> String {
        let Some(frame) = self.frames.get(frame as usize) else { return String::from("?") };
        if let Some(function) = &frame.function {
            return function.clone();
        }
        match frame.module.and_then(|module| self.modules.get(module as usize)) {
            Some(module) => {
                let name = module.path.rsplit('/').next().unwrap_or(&module.path);
                format!("{name}+{:#x}", frame.address)
            }
            None => format!("{:#x}", frame.address),
        }
    }
}
