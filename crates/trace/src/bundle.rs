//! The finished recording: a folder `NAME.heaplab/` of Parquet tables and `meta.json` (docs/bundle-format.md).

use crate::{Event, EventSink, EventSource, TraceError, tables::Tables};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What is known of a recording as a whole (`meta.json`).
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Version of the format; see docs/bundle-format.md.
    pub format_version: u32,
    /// What wrote it: "heaplab 0.1.0".
    pub writer: String,
    /// The command that was recorded, or where the trace was imported from.
    pub program: String,
    /// The allocator recorded under: "glibc 2.36", "jemalloc (libjemalloc.so.2)"; empty: not known (usable sizes are not measured then).
    pub allocator: String,
    /// How deaths were learnt: "freed by the program", "noticed at a collection", "by reachability".
    pub death_rule: String,
    /// Frames kept a stack; 0: none were recorded.
    pub stack_depth: u32,
    /// Where the recording was cut; `None`: it is complete.
    pub cut: Option<String>,
    /// Events lost, and why, each a sentence; empty: none.
    pub losses: Vec<String>,
    /// Rows in `events.parquet`.
    pub events: u64,
    /// Objects born.
    pub objects: u64,
    /// Length of the recording.
    pub duration_ns: u64,
    /// When it began, seconds since 1970 UTC; 0: not known.
    pub began_unix_s: u64,
    /// "x86_64", "aarch64".
    pub architecture: String,
}

/// Which events of a bundle to give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only those of this row of `processes`; `None`: all.
    pub process: Option<u32>,
}

/// A finished recording, open for reading: the tables are in memory, the events stream.
#[derive(Debug)]
pub struct Bundle {
    path: PathBuf,
    meta: Meta,
    tables: Tables,
}

impl Bundle {
    /// Reads `meta.json` and the tables.
    pub fn open(path: &Path) -> Result<Bundle, TraceError> {
        let _ = path;
        todo!()
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is known of the recording as a whole.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// What the events refer to.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The events, from the first, those of `selection` only.
    pub fn events(&self, selection: Selection) -> Result<Events, TraceError> {
        let _ = selection;
        todo!()
    }
}

/// The events of a bundle.
#[derive(Debug)]
pub struct Events {}

impl EventSource for Events {
    fn next_batch(&mut self, batch: &mut Vec<Event>) -> Result<(), TraceError> {
        let _ = batch;
        todo!()
    }
}

/// Writes a bundle: it appears under its name only when [`BundleWriter::finish`] returns.
#[derive(Debug)]
pub struct BundleWriter {}

impl BundleWriter {
    /// Begins a bundle that will appear at `path`; fails where something is there already.
    pub fn create(path: &Path) -> Result<BundleWriter, TraceError> {
        let _ = path;
        todo!()
    }

    /// Writes the tables and `meta` (its counts are filled in here) and gives the bundle its name.
    pub fn finish(self, tables: &Tables, meta: Meta) -> Result<(), TraceError> {
        let _ = (tables, meta);
        todo!()
    }
}

impl EventSink for BundleWriter {
    fn push(&mut self, event: &Event) -> Result<(), TraceError> {
        let _ = event;
        todo!()
    }
}
