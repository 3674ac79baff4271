//! The spool of a Node's recording: the facts that heaplab writes before the program starts, the
//! settings that the addon reads, and where the streams are.

use crate::error::RecordError;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// What is recorded.
const FACTS_FILE: &str = "node.json";
/// For the addon: the depth of stacks.
const SETTINGS_FILE: &str = "node-settings";
/// A stream's name begins so, then the numbers of process and thread.
const STREAM_PREFIX: &str = "node-";

/// What is recorded, for whoever finishes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The command line.
    pub command: Vec<String>,
    /// The program's file.
    pub program: String,
    /// When the recording began, seconds since 1970.
    pub began_unix_s: u64,
    /// Bytes between two collections, as asked for.
    pub granularity_bytes: u64,
    /// Innermost frames of each stack.
    pub stack_depth: u32,
}

impl Facts {
    /// Writes them into the spool, and what the addon needs of them.
    pub fn write(&self, spool: &Path) -> Result<(), RecordError> {
        let path = spool.join(FACTS_FILE);
        let text = serde_json::to_vec(self)
            .map_err(|error| RecordError::io("cannot write", &path)(error.into()))?;
        fs::write(&path, text).map_err(RecordError::io("cannot write", &path))?;
        let path = spool.join(SETTINGS_FILE);
        fs::write(&path, format!("{}\n", self.stack_depth))
            .map_err(RecordError::io("cannot write", &path))
    }

    /// Reads them.
    pub fn read(spool: &Path) -> Result<Facts, RecordError> {
        let path = spool.join(FACTS_FILE);
        let mut text = Vec::new();
        let file = File::open(&path).map_err(RecordError::io("cannot open", &path))?;
        file.take(64 << 20)
            .read_to_end(&mut text)
            .map_err(RecordError::io("cannot read", &path))?;
        serde_json::from_slice(&text).map_err(|error| RecordError::NotASpool {
            path: spool.into(),
            reason: format!("{FACTS_FILE}: {error}"),
        })
    }
}

/// Whether a spool is one of a Node's heap.
pub fn is_spool(spool: &Path) -> bool {
    spool.join(FACTS_FILE).exists()
}

/// The streams, by name, and their bytes.
pub fn streams(spool: &Path) -> Vec<(PathBuf, u64)> {
    let is_stream = |name: &str| {
        let numbers = name.strip_prefix(STREAM_PREFIX).unwrap_or_default();
        !numbers.is_empty() && numbers.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    let entries = fs::read_dir(spool).into_iter().flatten().flatten();
    let mut streams: Vec<_> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_stream))
        .filter_map(|entry| {
            Some((entry.path(), entry.metadata().ok().filter(fs::Metadata::is_file)?.len()))
        })
        .collect();
    streams.sort();
    streams
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_back_and_streams_are_told_from_other_files() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_spool(folder.path()));
        let facts = Facts {
            command: vec!["node".into()],
            granularity_bytes: 4 << 20,
            stack_depth: 64,
            ..Facts::default()
        };
        facts.write(folder.path()).unwrap();
        fs::write(folder.path().join("node-7-8-0"), "abc").unwrap();
        assert!(is_spool(folder.path()) && Facts::read(folder.path()).unwrap() == facts);
        assert_eq!(streams(folder.path()), [(folder.path().join("node-7-8-0"), 3)]);
        assert_eq!(fs::read_to_string(folder.path().join(SETTINGS_FILE)).unwrap(), "64\n");
    }
}
