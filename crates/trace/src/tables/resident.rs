//! What a process's resident memory consists of, at the moments at which the recorder asked the
//! kernel (`/proc/PID/smaps`).
//!
//! Each resident byte of a moment is in one part: the parts of a process at a moment add up to the
//! `Rss` lines of its mappings.

use crate::StackId;
use serde::{Deserialize, Serialize};

/// What a part of the resident memory is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ResidentKind {
    /// Live blocks of malloc, as they were requested.
    Blocks,
    /// The rest of the allocator's memory: free blocks, what it rounds up, its own tables.
    Allocator,
    /// Anonymous memory that the program mapped past malloc.
    Mapped,
    /// Stacks of threads.
    Stack,
    /// Executable pages of files.
    Code,
    /// Written pages of a program's or library's data, and its zeroed data.
    Data,
    /// Other pages of files.
    File,
    /// Memory shared with other processes that has no file on a disk.
    Shared,
    /// The recorder's own memory in the process.
    Recorder,
    /// Pages that the kernel gives to every process.
    Kernel,
    /// Anonymous memory of which the recorder did not see who mapped it.
    #[default]
    Unknown,
}

impl ResidentKind {
    /// Every kind with its name in `resident.parquet`.
    pub const ALL: [(ResidentKind, &'static str); 11] = [
        (ResidentKind::Blocks, "blocks"),
        (ResidentKind::Allocator, "allocator"),
        (ResidentKind::Mapped, "mapped"),
        (ResidentKind::Stack, "stack"),
        (ResidentKind::Code, "code"),
        (ResidentKind::Data, "data"),
        (ResidentKind::File, "file"),
        (ResidentKind::Shared, "shared"),
        (ResidentKind::Recorder, "recorder"),
        (ResidentKind::Kernel, "kernel"),
        (ResidentKind::Unknown, "unknown"),
    ];

    /// As the file has it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("unknown", |(_, name)| name)
    }
}

/// One part of a process's resident memory at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResidentPart {
    /// ns since the recording began.
    pub time_ns: u64,
    /// Row of `processes`.
    pub process: u32,
    /// What it is.
    pub kind: ResidentKind,
    /// The file, the mapping's name, or which stacks; empty where there is none.
    pub name: String,
    /// Who mapped it; 0: not recorded.
    pub stack: StackId,
    /// Resident bytes.
    pub bytes: u64,
    /// Of these, bytes in transparent huge pages.
    pub huge_bytes: u64,
    /// Mappings, or parts of mappings, that it is in.
    pub mappings: u32,
    /// Bytes of address space that the runtime says it reserved for all parts of this name at this
    /// time: in one of these parts; 0: not known.
    pub reserved_bytes: u64,
    /// Of these, bytes that the runtime says it committed.
    pub committed_bytes: u64,
}
