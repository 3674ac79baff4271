//! Decides when a heap is worth a snapshot: at an interval, or each time that it nears its limit.
//!
//! V8 calls back a program whose heap nears its limit (`--heapsnapshot-near-heap-limit`). The
//! protocol has no such call, so heaplab polls the heap's use. A snapshot collects garbage. The
//! next snapshot is due when the heap has grown and nears its limit again: two snapshots of one
//! state show nothing new, and each stops the program.

use crate::CaptureError;
use crate::outcome::{numbered, renamed};
use crate::own_files::OwnFiles;
use crate::protocol::Connection;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// JavaScript that gives the limit of old objects, in bytes. V8 gives up when old objects reach
/// that limit. `heap_size_limit` also counts the young generation (three semi-spaces, each 16 MiB
/// by default): 108 MiB for a program with `--max-old-space-size=60`.
const LIMIT: &str = r"(() => {
    if (typeof process !== 'object' || !process.versions || !process.versions.node) return performance.memory.jsHeapSizeLimit;
    const flags = process.execArgv.concat((process.env.NODE_OPTIONS || '').split(' ')).join(' ').replace(/_/g, '-');
    const mebibytes = name => { const found = [...flags.matchAll(new RegExp('--' + name + '[= ](\\d+)', 'g'))].pop(); return found && Number(found[1]); };
    const old = mebibytes('max-old-space-size');
    const all = require('v8').getHeapStatistics().heap_size_limit;
    return Math.min(all, old ? old * 1048576 : all - 3 * (mebibytes('max-semi-space-size') || 16) * 1048576);
})()";
/// What old objects take.
const USED: &str = r"(() => {
    if (typeof process !== 'object' || !process.versions || !process.versions.node) return performance.memory.usedJSHeapSize;
    const spaces = require('v8').getHeapSpaceStatistics().filter(space => !space.space_name.startsWith('new'));
    return spaces.reduce((sum, space) => sum + space.space_used_size, 0);
})()";

/// The heap at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that old objects take.
    pub used_bytes: u64,
    /// Bytes that they may take.
    pub limit_bytes: u64,
}

/// Asks what old objects may take.
///
/// # Errors
/// The target is gone, or neither Node nor Chromium.
pub fn limit_bytes(connection: &mut Connection) -> Result<u64, CaptureError> {
    Ok(connection.number(LIMIT)? as u64)
}

/// Asks what old objects take.
///
/// # Errors
/// The target is gone, or neither Node nor Chromium.
pub fn used_bytes(connection: &mut Connection) -> Result<u64, CaptureError> {
    Ok(connection.number(USED)? as u64)
}

/// Decides when a heap nears its limit.
#[derive(Clone, Copy, Debug)]
pub struct Trigger {
    /// The part of the limit that is near it.
    near: f64,
    /// Bytes that old objects took after the last snapshot.
    left: Option<u64>,
}

/// Growth since the last snapshot that makes another one due, as a part of the limit.
const GROWN: f64 = 0.02;

impl Trigger {
    /// Due at `near` of the limit, a part of 1.
    pub fn new(near: f64) -> Trigger {
        Trigger { near, left: None }
    }

    /// Whether a snapshot is due.
    pub fn is_due(&self, usage: Usage) -> bool {
        let limit = usage.limit_bytes as f64;
        let grown =
            self.left.is_none_or(|left| usage.used_bytes as f64 >= left as f64 + GROWN * limit);
        usage.used_bytes as f64 >= self.near * limit && grown
    }

    /// A snapshot was taken, and this is used after it.
    pub fn taken(&mut self, used_bytes: u64) {
        self.left = Some(used_bytes);
    }
}

/// When a snapshot is due.
#[derive(Clone, Copy, Debug)]
pub enum Due {
    /// Each time that the heap nears its limit.
    NearLimit(Trigger),
    /// At this interval, the first at once.
    Every(Duration),
}

/// Takes snapshots of a heap when they are due, in numbered files.
#[derive(Debug)]
pub struct Watch {
    due: Due,
    poll: Duration,
    output: PathBuf,
    most: u32,
    taken: u32,
    began: Instant,
}

/// A file that Node wrote by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnSnapshot {
    /// Node ended before the file was whole. It stays where it is.
    Cut(PathBuf),
    /// The file has its number now, and this size in bytes.
    Moved(PathBuf, u64),
}

impl Watch {
    /// At most `most` snapshots in files called like `output`, with a `poll` between two looks at
    /// the heap.
    pub fn new(due: Due, poll: Duration, output: PathBuf, most: u32) -> Watch {
        Watch { due, poll, output, most, taken: 0, began: Instant::now() }
    }

    /// Snapshots so far.
    pub fn taken(&self) -> u32 {
        self.taken
    }

    /// Whether all snapshots are taken.
    pub fn is_over(&self) -> bool {
        self.taken == self.most
    }

    /// Waits until a snapshot is due, and returns its file. `look` hears how full the heap is.
    ///
    /// # Errors
    /// The target is gone, or neither Node nor Chromium.
    pub fn wait(
        &self,
        connection: &mut Connection,
        look: &mut dyn FnMut(Usage),
    ) -> Result<PathBuf, CaptureError> {
        loop {
            let usage = Usage {
                used_bytes: used_bytes(connection)?,
                limit_bytes: limit_bytes(connection)?,
            };
            look(usage);
            let is_due = match self.due {
                Due::Every(interval) => self.began.elapsed() >= interval * self.taken,
                Due::NearLimit(trigger) => trigger.is_due(usage),
            };
            if is_due {
                return Ok(self.next_file());
            }
            std::thread::sleep(self.poll);
        }
    }

    /// The snapshot that was due is taken.
    pub fn took(&mut self, connection: &mut Connection) {
        self.taken += 1;
        if let Due::NearLimit(trigger) = &mut self.due {
            trigger.taken(used_bytes(connection).unwrap_or(0));
        }
    }

    /// Gives the files that Node wrote by itself the next numbers, and returns each file as
    /// [`OwnFiles::found`] lists it.
    ///
    /// # Errors
    /// Their folder cannot be read. An item is an error if a file cannot be moved.
    pub fn take_over<'w>(
        &'w mut self,
        own: &'w OwnFiles,
    ) -> Result<impl Iterator<Item = Result<OwnSnapshot, CaptureError>> + 'w, CaptureError> {
        let unreadable = |source| CaptureError::Own { path: own.folder().into(), source };
        let found = own.found().map_err(unreadable)?;
        Ok(found.into_iter().map_while(move |(from, is_whole)| {
            if !is_whole {
                return Some(Ok(OwnSnapshot::Cut(from)));
            }
            if self.is_over() {
                return None;
            }
            let path = self.next_file();
            if let Err(source) = renamed(&from, &path) {
                return Some(Err(CaptureError::Own { path: from, source }));
            }
            self.taken += 1;
            let size = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
            Some(Ok(OwnSnapshot::Moved(path, size)))
        }))
    }

    fn next_file(&self) -> PathBuf {
        numbered(&self.output, self.taken + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_due_near_the_limit_and_again_when_the_heap_has_grown() {
        let usage = |used_bytes| Usage { used_bytes, limit_bytes: 1000 };
        let mut trigger = Trigger::new(0.8);
        assert!(!trigger.is_due(usage(799)));
        assert!(trigger.is_due(usage(800)));
        trigger.taken(810);
        assert!(!trigger.is_due(usage(820)), "the same state");
        assert!(trigger.is_due(usage(830)));
        trigger.taken(300);
        assert!(!trigger.is_due(usage(500)), "the collection helped");
        assert!(trigger.is_due(usage(801)));
    }

    #[test]
    fn nodes_own_snapshots_get_the_numbers_that_follow() {
        let folder = tempfile::tempdir().unwrap();
        let own = OwnFiles::in_folder(77, folder.path());
        let file = |number: u32, text: &str| {
            let name = format!("Heap.20261124.081500.77.0.00{number}.heapsnapshot");
            std::fs::write(folder.path().join(&name), text).unwrap();
            folder.path().join(name)
        };
        let cut = file(1, "{\"strings\":[");
        let beyond = [file(2, "{}"), file(3, "{}"), file(4, "{}")][2].clone();
        let output = folder.path().join("leak.heapsnapshot");
        let mut watch = Watch::new(Due::Every(Duration::ZERO), Duration::ZERO, output, 3);
        watch.taken = 1;
        let told: Vec<OwnSnapshot> =
            watch.take_over(&own).unwrap().collect::<Result<_, _>>().unwrap();
        let moved = |name: &str| OwnSnapshot::Moved(folder.path().join(name), 2);
        assert_eq!(
            told,
            [
                OwnSnapshot::Cut(cut.clone()),
                moved("leak.2.heapsnapshot"),
                moved("leak.3.heapsnapshot")
            ]
        );
        assert!(watch.is_over() && cut.exists() && beyond.exists());
    }
}
