//! Notes: the rare facts that a spool keeps beside records, each a JSON object in its own block.

use crate::mappings::{Account, AnonymousRow, FilePart};
use serde::{Deserialize, Serialize};

/// One note.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// The first block: the started command.
    Began {
        /// The command line, for people (non-UTF-8 bytes replaced).
        command: Vec<String>,
        /// Seconds since 1970.
        unix_s: u64,
        /// The writing program: "heaplab 0.1.0".
        writer: String,
    },
    /// The started process.
    Started {
        /// Its number.
        pid: u32,
    },
    /// A process's memory as the system sees it.
    Sample {
        /// Counter of the sample.
        counter: u64,
        /// Process number.
        pid: u32,
        /// The image's `seq`.
        seq: u32,
        /// Resident bytes of all kinds.
        resident_bytes: u64,
        /// Resident anonymous bytes.
        resident_anonymous_bytes: u64,
        /// Peak of resident bytes so far as the kernel counts; 0: unknown.
        #[serde(default)]
        resident_peak_bytes: u64,
        /// It has switched transparent huge pages off (`PR_SET_THP_DISABLE`).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        without_huge_pages: bool,
    },
    /// What lies in a process's resident memory.
    Mappings {
        /// Counter right before the reading.
        counter: u64,
        /// Process number.
        pid: u32,
        /// The image's `seq`.
        seq: u32,
        /// Pages of files; `None`: as in the image's note before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        files: Option<Vec<FilePart>>,
        /// Anonymous mappings by address.
        anonymous: Vec<AnonymousRow>,
        /// The runtime's own account; `None`: as in the image's note before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        account: Option<Account>,
    },
    /// A process image ended.
    Ended {
        /// Counter when the end was seen.
        counter: u64,
        /// Process number.
        pid: u32,
        /// The image's `seq`.
        seq: u32,
        /// How.
        how: How,
    },
    /// A descendant that runs without the recorder.
    Unrecorded {
        /// Process number.
        pid: u32,
        /// Its executable.
        executable: String,
        /// Why it is not recorded.
        reason: String,
        /// Whether that is a file in the spool that cannot be read.
        #[serde(default)]
        is_unread: bool,
    },
    /// A loss that the bundle must report.
    Loss {
        /// A sentence.
        text: String,
    },
    /// The recording stopped before its processes ended; holds the reason.
    Cut {
        /// A sentence.
        text: String,
    },
    /// Everything was drained: the spool is complete.
    Complete {
        /// Counter at the end.
        counter: u64,
    },
}

/// How a process image ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It became another program.
    Exec,
    /// It is gone; only its own note says how (see `exited` in its file).
    Gone,
    /// It still ran at the end of the recording.
    Running,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_survive() {
        let notes = [
            Note::Sample {
                counter: u64::MAX,
                pid: 1,
                seq: 2,
                resident_bytes: 3,
                resident_anonymous_bytes: 4,
                resident_peak_bytes: 5,
                without_huge_pages: true,
            },
            Note::Ended { counter: 1, pid: 2, seq: 0, how: How::Signalled(9) },
            Note::Cut { text: String::from("the disk is full") },
        ];
        for note in notes {
            let text = serde_json::to_vec(&note).unwrap();
            assert_eq!(serde_json::from_slice::<Note>(&text).unwrap(), note);
        }
    }
}
