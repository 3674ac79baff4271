//! The spool of a Node's recording: the facts that heaplab writes before the program starts, the
//! settings that the addon reads, and the streams.

use crate::error::RecordError;
use crate::spool::{read_facts, write_facts};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// File of the recording's facts.
const FACTS_FILE: &str = "node.json";
/// File for the addon: the depth of stacks.
const SETTINGS_FILE: &str = "node-settings";
/// Start of a stream's name; then the numbers of process and thread.
const STREAM_PREFIX: &str = "node-";

/// The recording's facts, for finishing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The command line.
    pub command: Vec<String>,
    /// The program's file.
    pub program: String,
    /// Start of the recording, seconds since 1970.
    pub began_unix_s: u64,
    /// Requested bytes between two collections.
    pub granularity_bytes: u64,
    /// Innermost frames of each stack.
    pub stack_depth: u32,
}

impl Facts {
    /// Writes the facts into the spool, and the addon's settings.
    pub fn write(&self, spool: &Path) -> Result<(), RecordError> {
        write_facts(spool, FACTS_FILE, self)?;
        let path = spool.join(SETTINGS_FILE);
        fs::write(&path, format!("{}\n", self.stack_depth))
            .map_err(RecordError::io("cannot write", &path))
    }

    /// Reads the facts.
    pub fn read(spool: &Path) -> Result<Facts, RecordError> {
        read_facts(spool, FACTS_FILE)
    }
}

/// Whether a spool is a Node recording's.
pub fn is_spool(spool: &Path) -> bool {
    spool.join(FACTS_FILE).exists()
}

/// The streams by name, with their bytes.
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
