//! The lines and JSON about a taken snapshot (docs/snapshot-json.md), and the files' names.

use crate::take::{Taken, part_of};
use crate::workers::Worker;
use heaplab_text::lines::one_line;
use heaplab_text::words::bytes;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A taken snapshot as JSON.
pub fn json(taken: &Taken) -> Value {
    json!({
        "format": "heaplab-snapshot-take",
        "version": 1,
        "file": taken.path.to_string_lossy(),
        "bytes": taken.bytes,
        "walking_s": taken.walking.as_secs_f64(),
        "receiving_s": taken.receiving.as_secs_f64(),
    })
}

/// A taken snapshot as a line for a person; `title` is the target's.
pub fn line(taken: &Taken, title: &str) -> String {
    format!(
        "{}: {} from {}; the target walked its heap for {:.1} s and sent for {:.1} s",
        taken.path.display(),
        bytes(taken.bytes),
        one_line(title),
        taken.walking.as_secs_f64(),
        taken.receiving.as_secs_f64()
    )
}

/// A snapshot that Node wrote by itself as JSON: its times are unknown.
pub fn own_json(path: &Path, bytes: u64) -> Value {
    json!({
        "format": "heaplab-snapshot-take",
        "version": 1,
        "file": path.to_string_lossy(),
        "bytes": bytes,
        "walking_s": null,
        "receiving_s": null,
    })
}

/// `a.heapsnapshot` as `a.worker-2.heapsnapshot`.
pub fn worker_path(path: &Path, worker: Option<&Worker>) -> PathBuf {
    let Some(worker) = worker else { return path.into() };
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path
        .extension()
        .map_or_else(String::new, |extension| format!(".{}", extension.to_string_lossy()));
    path.with_file_name(format!("{name}.worker-{}{extension}", worker.number))
}

/// Adds the worker whose heap the snapshot has.
pub fn with_worker(mut taken: Value, worker: Option<&Worker>) -> Value {
    taken["worker"] = worker.map_or(
        Value::Null,
        |worker| json!({"number": worker.number, "title": worker.title, "url": worker.url}),
    );
    taken
}

/// Moves a file, even to another file system. The moved file appears only when complete.
///
/// # Errors
/// A file cannot be moved, copied or removed.
pub fn renamed(from: &Path, to: &Path) -> std::io::Result<()> {
    if std::fs::rename(from, to).is_ok() {
        return Ok(());
    }
    let part = part_of(to);
    std::fs::copy(from, &part)?;
    std::fs::rename(&part, to)?;
    std::fs::remove_file(from)
}

/// `leak.heapsnapshot` with a number: `leak.1.heapsnapshot`.
pub fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_stem().map_or_else(OsString::new, OsString::from);
    name.push(format!(".{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_numbered_before_their_extension() {
        assert_eq!(
            numbered(Path::new("a/leak.heapsnapshot"), 2),
            Path::new("a/leak.2.heapsnapshot")
        );
        assert_eq!(numbered(Path::new("leak"), 1), Path::new("leak.1"));
    }
}
