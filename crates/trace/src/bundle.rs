//! The finished recording: a folder `NAME.heaplab/` of Parquet tables and `meta.json`
//! (docs/bundle-format.md).
//!
//! A bundle is written into a hidden folder beside its name and renamed when complete: it appears
//! whole or not at all. It is read as untrusted input: every reference between tables and from
//! events is checked against its table. [`Bundle::verify`] checks the order of events, in a pass of
//! its own.

mod columns;
mod read_events;
mod resident_codec;
mod tables_codec;
mod tables_file;
mod unfinished;
mod write_events;

pub use columns::COLUMNS as EVENT_COLUMNS;
pub use read_events::Events;
pub use unfinished::abandon;

use crate::order::OrderChecker;
use crate::parquet::footer::RowGroup;
use crate::{
    Event, EventSink, EventSource, TraceError,
    tables::{Frame, Tables},
};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Read};
use std::path::{Path, PathBuf};
use write_events::EventWriter;

/// The files of every bundle, handed to the macro `$with`: their only list, as literals, so that a
/// program can embed a bundle by `include_bytes!`.
#[macro_export]
macro_rules! with_bundle_files {
    ($with:ident) => {
        $with![
            "meta.json",
            "events.parquet",
            "stacks.parquet",
            "frames.parquet",
            "modules.parquet",
            "processes.parquet",
            "threads.parquet",
            "arenas.parquet",
            "marks.parquet",
            "samples.parquet"
        ]
    };
}

macro_rules! array {
    ($($name:literal),+) => { [$($name),+] };
}

/// The files of every bundle. A recording with chunks has `chunks.parquet` as well, one
/// that knows the parts of resident memory `resident.parquet`.
pub const FILES: [&str; 10] = with_bundle_files!(array);
/// The first of [`FILES`]; marks a folder as a bundle.
pub const META_FILE: &str = FILES[0];
/// Suffix of a bundle that is set aside; the number of the replacing process follows.
const SET_ASIDE: &str = ".replaced-";
/// Suffix of a bundle being written.
const UNFINISHED: &str = "unfinished";
/// Most folders that writers of one number may have left beside a bundle.
const FOLDERS_LEFT_MAX: u32 = 1000;
/// The second of [`FILES`].
pub const EVENTS_FILE: &str = FILES[1];

/// The version of the format as written.
pub const FORMAT_VERSION: u32 = 1;
/// The versions that can be read.
const SUPPORTED: &str = "1";
/// Largest `meta.json` believed, bytes.
const META_BYTES_LIMIT: u64 = 16 << 20;

/// Facts about a recording as a whole (`meta.json`).
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Version of the format; see docs/bundle-format.md.
    pub format_version: u32,
    /// The writing program: "heaplab 0.1.0".
    pub writer: String,
    /// The recorded command, or the source of an imported trace.
    pub program: String,
    /// The allocator of the recording: "glibc 2.36", "jemalloc (libjemalloc.so.2)"; empty: unknown
    /// (usable sizes are not measured then).
    pub allocator: String,
    /// How deaths were learnt: "freed by the program", "noticed at a collection", "by
    /// reachability".
    pub death_rule: String,
    /// For deaths noticed at collections: the requested bytes of the young generation, allocated
    /// between two collections; 0: unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub granularity_bytes: u64,
    /// Of a profile: one word in so many was sampled, and each object stands for its samples (see
    /// docs/bundle-format.md); 0: every object was recorded. A profile is no workload.
    #[serde(skip_serializing_if = "is_zero")]
    pub sampled_every_words: u64,
    /// Frames kept of each stack; 0: no stacks were recorded.
    pub stack_depth: u32,
    /// The place and reason of a cut; `None`: the recording is complete.
    pub cut: Option<String>,
    /// Events lost, and why, a sentence each; empty: none.
    pub losses: Vec<String>,
    /// Rows in `events.parquet`.
    pub events: u64,
    /// Objects born.
    pub objects: u64,
    /// Rows in `chunks.parquet`; 0: no such file.
    #[serde(skip_serializing_if = "is_zero")]
    pub chunks: u64,
    /// Rows in `resident.parquet`; 0: no such file.
    #[serde(skip_serializing_if = "is_zero")]
    pub resident: u64,
    /// Some reallocations may have moved their object without a word in the trace: the events'
    /// `moved` is a lower bound.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub moves_unknown: bool,
    /// An imported trace lacks lines between others; `losses` gives the least number.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gaps: bool,
    /// Rows of `processes` that had switched transparent huge pages off (`PR_SET_THP_DISABLE`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_huge_pages: Vec<u32>,
    /// Length of the recording.
    pub duration_ns: u64,
    /// Start of the recording, seconds since 1970 UTC; 0: unknown.
    pub began_unix_s: u64,
    /// "x86_64", "aarch64".
    pub architecture: String,
    /// The recording and the changes behind a workload that no program requested as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// Where a changed workload came from.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// The bundle of the recorded one.
    pub bundle: String,
    /// The changes, in words, in the order of the request.
    pub changes: Vec<String>,
    /// The assumptions of the changes, a sentence each.
    pub assumptions: Vec<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The events of a bundle to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only events of this row of `processes`; `None`: all.
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
        if path.symlink_metadata().is_err()
            && let Some(old) = set_aside(path)
        {
            let text = format!(
                "heaplab was ended while replacing it; the old one is {} now: rename it back",
                old.display()
            );
            let source = std::io::Error::new(std::io::ErrorKind::NotFound, text);
            return Err(TraceError::Io { path: path.into(), action: "open", source });
        }
        let meta = read_meta(&path.join(META_FILE))?;
        let tables = tables_codec::read_all(path, meta.chunks, meta.resident)?;
        Ok(Bundle { path: path.into(), meta, tables })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Facts about the recording as a whole.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The tables that the events refer to.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The events of `selection`, from the first.
    ///
    /// Each has an `object` under `meta().objects` and refers only to existing rows.
    /// [`Bundle::verify`] checks that frees are of live objects.
    pub fn events(&self, selection: Selection) -> Result<Events, TraceError> {
        Events::open(self, selection)
    }

    /// Replaces the table of frames, on disk and here: the file changes whole or not at all.
    ///
    /// Stacks keep their rows, so row n must still be the same frame; new rows (of functions
    /// inlined there) go to the end. So only one file changes, and cached replay programs stay
    /// valid.
    ///
    /// # Errors
    /// `frames` lacks a row that a stack refers to, or the folder cannot be written.
    pub fn rewrite_frames(&mut self, frames: Vec<Frame>) -> Result<(), TraceError> {
        let path = self.path.join("frames.parquet");
        let missing = self
            .tables
            .stacks
            .iter()
            .skip(1)
            .map(|node| node.frame)
            .find(|frame| *frame as usize >= frames.len());
        if let Some(frame) = missing {
            let found = format!("{} rows", frames.len());
            return Err(TraceError::Malformed {
                path,
                place: format!("row {frame}"),
                expected: "a frame that a stack refers to".into(),
                found,
            });
        }
        let unfinished = hidden_name(&path, UNFINISHED)?;
        // A file left by an earlier process of this number belongs to nobody.
        let _ = fs::remove_file(&unfinished);
        let written = tables_codec::write_frames(&unfinished, &frames)
            .and_then(|()| rename_finished(&unfinished, &path, false));
        if written.is_err() {
            // The returned error matters more than one about the remains.
            let _ = fs::remove_file(&unfinished);
        }
        written?;
        self.tables.frames = frames;
        Ok(())
    }

    /// Reads all events and checks their order ([`OrderChecker`]). Memory grows with the live
    /// objects only.
    pub fn verify(&self) -> Result<(), TraceError> {
        let mut checker = OrderChecker::new(self.path.join(EVENTS_FILE), &self.tables);
        self.events(Selection::default())?.for_each(|event| checker.check(event))?;
        if checker.objects() == self.meta.objects {
            return Ok(());
        }
        Err(TraceError::Malformed {
            path: self.path.join(META_FILE),
            place: "objects".into(),
            expected: format!("{}, as many as events.parquet has births", checker.objects()),
            found: self.meta.objects.to_string(),
        })
    }
}

fn read_meta(path: &Path) -> Result<Meta, TraceError> {
    let file = crate::regular::open(path, "open (is this folder a bundle?)")?;
    let mut text = Vec::new();
    file.take(META_BYTES_LIMIT + 1).read_to_end(&mut text).map_err(TraceError::io(path, "read"))?;
    if text.len() as u64 > META_BYTES_LIMIT {
        let (found, limit) = (text.len() as u64, META_BYTES_LIMIT);
        return Err(TraceError::Limit {
            path: path.into(),
            place: "its length".into(),
            what: "the number of bytes",
            found,
            limit,
        });
    }
    let malformed = |error: serde_json::Error| TraceError::Malformed {
        path: path.into(),
        place: format!("line {}", error.line()),
        expected: "the meta.json of a bundle".into(),
        found: error.to_string(),
    };
    // The version first: a newer one may have other keys of other types.
    #[derive(Deserialize)]
    struct Version {
        format_version: u64,
    }
    let version: Version = serde_json::from_slice(&text).map_err(malformed)?;
    if version.format_version != u64::from(FORMAT_VERSION) {
        return Err(TraceError::Version {
            path: path.into(),
            found: version.format_version.to_string(),
            supported: SUPPORTED.into(),
        });
    }
    serde_json::from_slice(&text).map_err(malformed)
}

/// Writes a bundle: it appears under its name only when [`BundleWriter::finish`] returns.
#[derive(Debug)]
pub struct BundleWriter {
    path: PathBuf,
    folder: Unfinished,
    events: EventWriter<BufWriter<File>>,
    replaces: bool,
}

/// The folder being written; removed unless it got its name.
#[derive(Debug)]
struct Unfinished(
    PathBuf,
    #[allow(dead_code, reason = "its lock shows that another process writes there")] File,
);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename nothing has this name: removing it fails, which does not matter.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl BundleWriter {
    /// Begins a bundle that will appear at `path`; fails if the path exists.
    pub fn create(path: &Path) -> Result<BundleWriter, TraceError> {
        let taken = std::io::Error::new(
            std::io::ErrorKind::AlreadyExists,
            "something of that name exists; remove it or choose another",
        );
        if path.symlink_metadata().is_ok() {
            return Err(TraceError::Io {
                path: path.into(),
                action: "create a bundle",
                source: taken,
            });
        }
        BundleWriter::begin(path, false)
    }

    /// As [`BundleWriter::create`], but replaces a bundle or an empty folder at `path`: the old one
    /// stays until the new one is whole, whatever happens before. Fails if anything else is there.
    pub fn replace(path: &Path) -> Result<BundleWriter, TraceError> {
        if path.symlink_metadata().is_ok() && !may_be_replaced(path) {
            return Err(not_a_bundle(path));
        }
        BundleWriter::begin(path, true)
    }

    fn begin(path: &Path, replaces: bool) -> Result<BundleWriter, TraceError> {
        let folder = begin_folder(path)?;
        let file = folder.0.join(EVENTS_FILE);
        let out = File::create_new(&file).map_err(TraceError::io(&file, "create"))?;
        let events =
            EventWriter::new(BufWriter::new(out)).map_err(TraceError::io(&file, "write"))?;
        Ok(BundleWriter { path: path.into(), folder, events, replaces })
    }

    /// Omits addresses, which only a check of the order needs and which compress worst. Call it
    /// before the first event.
    pub fn leave_out_addresses(&mut self) {
        self.events.leave_out_addresses();
    }

    /// Whether no event has been pushed.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The folder that will get the bundle's name.
    pub fn unfinished(&self) -> &Path {
        &self.folder.0
    }

    /// Writes the tables and `meta` (fills in its version and counts) and gives the bundle its
    /// name.
    ///
    /// Raises `meta.duration_ns` to the time of the last event if that is later.
    pub fn finish(self, tables: &Tables, meta: Meta) -> Result<(), TraceError> {
        self.finish_measured(tables, meta).map(drop)
    }

    /// As [`BundleWriter::finish`]; returns the sizes of the event columns, for measurements.
    pub fn finish_measured(
        self,
        tables: &Tables,
        mut meta: Meta,
    ) -> Result<Vec<RowGroup>, TraceError> {
        let BundleWriter { path, folder, events, replaces } = self;
        let file = folder.0.join(EVENTS_FILE);
        let (out, groups, counts) = events.finish().map_err(TraceError::io(&file, "write"))?;
        let out =
            out.into_inner().map_err(|error| TraceError::io(&file, "write")(error.into_error()))?;
        out.sync_all().map_err(TraceError::io(&file, "write"))?;
        tables_codec::write_all(&folder.0, tables)?;
        meta.format_version = FORMAT_VERSION;
        if meta.writer.is_empty() {
            meta.writer = concat!("heaplab ", env!("CARGO_PKG_VERSION")).into();
        }
        (meta.events, meta.objects, meta.chunks) =
            (counts.events, counts.objects, tables.chunks.len() as u64);
        meta.resident = tables.resident.len() as u64;
        meta.duration_ns = meta.duration_ns.max(counts.end_ns);
        let file = folder.0.join(META_FILE);
        let mut text = serde_json::to_vec_pretty(&meta)
            .map_err(|error| TraceError::io(&file, "write")(error.into()))?;
        text.push(b'\n');
        fs::write(&file, text).map_err(TraceError::io(&file, "write"))?;
        rename_finished(&folder.0, &path, replaces)?;
        Ok(groups)
    }
}

/// Whether `path` is a bundle or an empty folder: nothing else is ever replaced.
pub fn may_be_replaced(path: &Path) -> bool {
    let is_empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    path.join(META_FILE).exists() || is_empty()
}

/// A new hidden folder beside `path`. A process of this number may have left one (in a container
/// all may have the same number), or be writing to one in another container: then the next name is
/// taken.
fn begin_folder(path: &Path) -> Result<Unfinished, TraceError> {
    unfinished::remove(path);
    let mut hidden = hidden_name(path, UNFINISHED)?;
    for more in 1.. {
        match fs::create_dir(&hidden) {
            Ok(()) => break,
            Err(error)
                if error.kind() == std::io::ErrorKind::AlreadyExists && more < FOLDERS_LEFT_MAX =>
            {
                hidden = hidden_name(path, &format!("{UNFINISHED}.{more}"))?;
            }
            Err(error) => return Err(TraceError::io(&hidden, "create the folder")(error)),
        }
    }
    let locked = unfinished::lock(&hidden).map_err(TraceError::io(&hidden, "open the folder"))?;
    Ok(Unfinished(hidden, locked))
}

/// A hidden name beside `path`, with the process's number to keep two writers apart.
fn hidden_name(path: &Path, what: &str) -> Result<PathBuf, TraceError> {
    let nameless =
        || std::io::Error::new(std::io::ErrorKind::InvalidInput, "the path ends in no name");
    let name =
        path.file_name().ok_or_else(nameless).map_err(TraceError::io(path, "create a bundle"))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{what}-{}", std::process::id()));
    Ok(path.with_file_name(hidden))
}

/// Renames the finished folder to its name. A folder that appeared there meanwhile is replaced only
/// if empty, or if the caller asked for replacement.
fn rename_finished(from: &Path, to: &Path, replaces: bool) -> Result<(), TraceError> {
    let name =
        || fs::rename(from, to).map_err(TraceError::io(to, "give what is finished its name"));
    if !(replaces && to.symlink_metadata().is_ok()) {
        return name();
    }
    // It was a bundle before; by now it may be something else.
    if !may_be_replaced(to) {
        return Err(not_a_bundle(to));
    }
    // In one step, so that the name always has one of the two, whatever ends this process.
    let exchanged = rustix::fs::renameat_with(
        rustix::fs::CWD,
        from,
        rustix::fs::CWD,
        to,
        rustix::fs::RenameFlags::EXCHANGE,
    );
    let old = if exchanged.is_ok() { from.to_owned() } else { replace_in_two_steps(from, to)? };
    fs::remove_dir_all(&old).map_err(TraceError::io(&old, "remove the bundle that was replaced"))
}

/// For file systems that cannot exchange two names. Between the steps the old bundle has the
/// returned, unhidden name: if this process ends there, [`Bundle::open`] names the bundle's place.
fn replace_in_two_steps(from: &Path, to: &Path) -> Result<PathBuf, TraceError> {
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(format!("{SET_ASIDE}{}", std::process::id()));
    let old = to.with_file_name(name);
    // A bundle left by an earlier process of this number would be replaced again.
    if old.symlink_metadata().is_ok() && may_be_replaced(&old) {
        let _ = fs::remove_dir_all(&old);
    }
    fs::rename(to, &old).map_err(TraceError::io(to, "set aside the old bundle"))?;
    fs::rename(from, to)
        .map_err(TraceError::io(to, "give what is finished its name"))
        .inspect_err(|_| {
            // Back to its place; if this fails too, it stays here.
            let _ = fs::rename(&old, to);
        })?;
    Ok(old)
}

/// A bundle that should have been replaced at `path` and is missing there, because the replacing
/// process ended on the way.
fn set_aside(path: &Path) -> Option<PathBuf> {
    let prefix = [path.file_name()?.as_encoded_bytes(), SET_ASIDE.as_bytes()].concat();
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut candidates = entries
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(&prefix))
        .map(|entry| entry.path());
    candidates.find(|candidate| candidate.join(META_FILE).exists())
}

fn not_a_bundle(path: &Path) -> TraceError {
    let other = std::io::Error::new(
        std::io::ErrorKind::AlreadyExists,
        "what stands there is no bundle; choose another name",
    );
    TraceError::Io { path: path.into(), action: "replace a bundle", source: other }
}

impl EventSink for BundleWriter {
    #[inline(always)]
    fn push(&mut self, event: &Event) -> Result<(), TraceError> {
        self.events.push(event).map_err(|source| TraceError::Io {
            path: self.folder.0.join(EVENTS_FILE),
            action: "write",
            source,
        })
    }
}

#[cfg(test)]
mod damaged;
#[cfg(test)]
mod tests;
