//! Snapshots that Node takes by itself when its heap is at the limit.
//!
//! V8 calls back a program whose heap is full before it gives up. The call comes even in a loop
//! that never returns to the event loop, and faster than any poll from outside. Node's
//! `--heapsnapshot-near-heap-limit` writes a snapshot in that call.
//! `v8.setHeapSnapshotNearHeapLimit` (Node 16.18, 18.10 and later) switches the same on in a
//! running program. The files appear in the program's folder under Node's own names
//! (`Heap.DATE.TIME.PID.THREAD.NUMBER.heapsnapshot`).
//!
//! Source: Node's `src/heap_utils.cc`, `src/env.cc` (`NearHeapLimitCallback`), `src/util.cc`
//! (`DiagnosticFilename`).

use crate::{CaptureError, Connection};
use serde::Deserialize;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Switches Node's own snapshots on; returns the pid and their folder, null if Node cannot write
/// them.
const ARRANGE: &str = r"(() => {
    const v8 = typeof process === 'object' && process.versions && process.versions.node && require('v8');
    if (!v8 || !v8.setHeapSnapshotNearHeapLimit) return null;
    const flags = process.execArgv.concat((process.env.NODE_OPTIONS || '').split(' '));
    const own = flags.map(flag => /^--(diagnostic-dir|heapsnapshot-near-heap-limit)=(.*)/.exec(flag)).filter(Boolean);
    const given = name => (own.find(flag => flag[1] === name) || [])[2];
    if (!given('heapsnapshot-near-heap-limit')) v8.setHeapSnapshotNearHeapLimit(COUNT);
    return {pid: process.pid, folder: require('path').resolve(given('diagnostic-dir') || '.')};
})()";

/// The folder to search, and for which files, once the program has ended.
#[derive(Clone, Debug)]
pub struct OwnFiles {
    pid: u32,
    folder: PathBuf,
    since: SystemTime,
}

#[derive(Deserialize)]
struct Arranged {
    pid: u32,
    folder: PathBuf,
}

impl OwnFiles {
    /// Has Node take up to so many snapshots when its heap is full. `None`: it cannot, or writes
    /// where they are not found from here.
    ///
    /// # Errors
    /// The target is gone or silent.
    pub fn arrange(
        connection: &mut Connection,
        count: u32,
    ) -> Result<Option<OwnFiles>, CaptureError> {
        let since = SystemTime::now();
        let value = connection.value(&ARRANGE.replace("COUNT", &count.to_string()))?;
        let arranged: Option<Arranged> = serde_json::from_value(value).unwrap_or(None);
        Ok(arranged
            .filter(|arranged| arranged.folder.is_dir())
            .map(|Arranged { pid, folder }| OwnFiles { pid, folder, since }))
    }

    /// All of a process's files in a folder.
    #[cfg(test)]
    pub(crate) fn in_folder(pid: u32, folder: &Path) -> OwnFiles {
        OwnFiles { pid, folder: folder.into(), since: SystemTime::UNIX_EPOCH }
    }

    /// Where the files appear.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The files by age, the oldest first, and whether each is whole.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn found(&self) -> io::Result<Vec<(PathBuf, bool)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_new = || Some(entry.metadata().ok()?.modified().ok()? >= self.since);
            if let Some(number) = name.to_str().and_then(|name| self.number(name))
                && is_new().unwrap_or(false)
            {
                files.push((number, entry.path()));
            }
        }
        files.sort();
        Ok(files
            .into_iter()
            .map(|(_, path)| (path.clone(), is_whole(&path).unwrap_or(false)))
            .collect())
    }

    /// The number in a name that this process gives.
    fn number(&self, name: &str) -> Option<u32> {
        let mut parts = name.strip_suffix(".heapsnapshot")?.strip_prefix("Heap.")?.rsplit('.');
        let (number, _thread, pid) = (parts.next()?, parts.next()?, parts.next()?);
        (pid.parse() == Ok(self.pid)).then(|| number.parse().ok()).flatten()
    }
}

/// Whether the text ends as a snapshot ends.
fn is_whole(path: &Path) -> io::Result<bool> {
    const TAIL_BYTES: u64 = 64;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(tail.trim_ascii_end().ends_with(b"}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_process_s_files_are_found_and_cut_ones_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        file("Heap.20261124.081500.77.0.002.heapsnapshot", "{\"strings\":[]}\n");
        file("Heap.20261124.081400.77.0.001.heapsnapshot", "{\"strings\":[");
        file("Heap.20261124.081400.78.0.001.heapsnapshot", "{}");
        file("Heap.heapsnapshot", "{}");
        let of = |since| OwnFiles { pid: 77, folder: folder.path().into(), since };
        let found = of(SystemTime::UNIX_EPOCH).found().unwrap();
        let told: Vec<bool> = found.iter().map(|(_, whole)| *whole).collect();
        assert_eq!(told, [false, true]);
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        assert!(of(later).found().unwrap().is_empty(), "of a process before");
    }
}
