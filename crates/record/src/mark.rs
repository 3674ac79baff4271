//! `heaplab mark`: names a moment of a running recording from outside.
//!
//! A mark is one line appended to a file of the spool, with a counter read here: it is exact even
//! while the drainer is busy, and survives the drainer.

use crate::clock::{self, Clock};
use crate::control;
use crate::error::RecordError;
use crate::proc_fs;
use crate::spool::MARKS_FILE;
pub use heaplab_preload::MARK_HEADER;
use heaplab_preload::SPOOL_VARIABLE;
use heaplab_trace::tables::NamedMoment;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Longest name, bytes.
pub const NAME_BYTES_MAX: usize = 256;
/// Most bytes read of the file.
const MARKS_BYTES_MAX: u64 = 64 << 20;

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsideMark {
    /// Counter at the mark.
    pub counter: u64,
    /// Its name.
    pub name: String,
    /// The process it concerns; none: all.
    #[serde(default)]
    pub pid: Option<u32>,
}

/// The recording to mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The recording that will write this bundle.
    Output(PathBuf),
    /// The recording of this process.
    Process(u32),
    /// This user's only recording.
    Only,
}

/// The spool folder of the bundle `output`: its path with ".spool" after it.
pub fn spool_of(output: &Path) -> PathBuf {
    // `app.heaplab/` is the folder `app.heaplab`, not its content.
    let mut name = output.components().as_path().as_os_str().to_owned();
    name.push(".spool");
    PathBuf::from(name)
}

/// Finds the spool of a running recording.
pub fn find(which: &Which) -> Result<PathBuf, RecordError> {
    let none = |text: String| RecordError::NoSuchRecording(text);
    match which {
        Which::Output(output) => {
            let spool = spool_of(output);
            if control::is_running(&spool) {
                Ok(spool)
            } else {
                Err(none(format!("no recording is running in {}", spool.display())))
            }
        }
        Which::Process(pid) => proc_fs::environment(*pid, SPOOL_VARIABLE)
            .map(PathBuf::from)
            .filter(|spool| control::is_running(spool))
            .ok_or_else(|| {
                none(format!("process {pid} is not being recorded (or is another user's)"))
            }),
        Which::Only => {
            // Programs started by a recorded program know its recording, whatever else runs.
            if let Some(spool) = own() {
                return Ok(spool);
            }
            let spools: BTreeSet<PathBuf> = proc_fs::all()
                .into_iter()
                .filter_map(|pid| proc_fs::environment(pid, SPOOL_VARIABLE))
                .map(PathBuf::from)
                .collect();
            let mut running = spools.into_iter().filter(|spool| control::is_running(spool));
            match (running.next(), running.next()) {
                (Some(spool), None) => Ok(spool),
                (None, _) => Err(none(String::from(
                    "no recording is running: start one with `heaplab record`",
                ))),
                (Some(one), Some(other)) => Err(none(format!(
                    "several recordings are running ({}, {}, ...): say which with -o or --pid",
                    one.display(),
                    other.display()
                ))),
            }
        }
    }
}

/// The recording that this process is a part of.
fn own() -> Option<PathBuf> {
    let spool = PathBuf::from(std::env::var_os(SPOOL_VARIABLE)?);
    control::is_running(&spool).then_some(spool)
}

/// Sets a mark now in the recording of this spool.
pub fn set(spool: &Path, name: &str, pid: Option<u32>) -> Result<(), RecordError> {
    let mark = OutsideMark { counter: clock::counter(), name: name.to_owned(), pid };
    let path = spool.join(MARKS_FILE);
    let mut line = serde_json::to_vec(&mark)
        .map_err(|error| RecordError::io("cannot write", &path)(error.into()))?;
    line.push(b'\n');
    let write = || File::options().create(true).append(true).open(&path)?.write_all(&line);
    write().map_err(RecordError::io("cannot write", &path))
}

/// The marks in a file's content, in order of time. Skips malformed lines (a torn last one).
pub fn parse(content: &[u8]) -> Vec<OutsideMark> {
    let lines = content.split(|byte| *byte == b'\n');
    let mut marks: Vec<OutsideMark> =
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    marks.retain(|mark| mark.name.len() <= NAME_BYTES_MAX);
    marks.sort_by_key(|mark| mark.counter);
    marks
}

/// Reads a spool's marks; without marks the file is missing.
pub fn read(spool: &Path) -> Vec<OutsideMark> {
    let mut content = Vec::new();
    if let Ok(file) = File::open(spool.join(MARKS_FILE)) {
        let _ = std::io::Read::read_to_end(
            &mut std::io::Read::take(file, MARKS_BYTES_MAX),
            &mut content,
        );
    }
    parse(&content)
}

/// A spool's marks as moments of the recording, in order of time.
pub(crate) fn moments(spool: &Path, clock: &Clock) -> Vec<NamedMoment> {
    let moment =
        |OutsideMark { counter, name, pid }| NamedMoment { name, time_ns: clock.ns(counter), pid };
    read(spool).into_iter().map(moment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{ControlPage, Settings};

    #[test]
    fn marks_are_kept_in_order() {
        let folder = tempfile::tempdir().unwrap();
        set(folder.path(), "loaded", None).unwrap();
        set(folder.path(), "closed \"all\"\n+ 30 s", Some(7)).unwrap();
        let marks = read(folder.path());
        let names: Vec<&str> = marks.iter().map(|mark| mark.name.as_str()).collect();
        assert_eq!(names, ["loaded", "closed \"all\"\n+ 30 s"]);
        assert!(marks[0].counter <= marks[1].counter);
        assert_eq!(
            parse(b"{\"counter\":1,\"name\":\"a\"}\n{\"coun"),
            [OutsideMark { counter: 1, name: String::from("a"), pid: None }]
        );
    }

    #[test]
    fn only_a_running_recording_can_be_marked() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("app.heaplab");
        let which = Which::Output(output.clone());
        assert!(find(&which).is_err());
        let spool = spool_of(&output);
        std::fs::create_dir(&spool).unwrap();
        let page = ControlPage::create(&spool, Settings::default()).unwrap();
        assert_eq!(find(&which).unwrap(), spool);
        drop(page);
        assert!(find(&which).is_err());
    }
}
