//! Builds one commit in its tree and records its command there.

use crate::figures::figures;
use crate::repository::{Repository, without_git};
use crate::run::{Commit, Failure, Figures, Outcome, Run, Stage};
use crate::store::{Store, Subject};
use crate::work::{Ended, Limit, ran};
use crate::{TrackError, text};
use heaplab_experiment::results::Machine;
use heaplab_report::{analyse, select};
use heaplab_trace::bundle::Bundle;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How commits are measured.
#[derive(Clone, Debug)]
pub struct How {
    /// The heaplab that records.
    pub heaplab: PathBuf,
    /// After so long a run is ended and counts as failed.
    pub run_limit: Duration,
    /// The same for a build.
    pub build_limit: Duration,
    /// Whether the first recording of each commit stays in the store's `recordings`.
    pub keep: bool,
}

/// The place where commits are built and recorded. Dropping it removes its tree.
pub struct Bench<'a> {
    repository: Repository,
    subject: Subject,
    tree: PathBuf,
    scratch: tempfile::TempDir,
    /// Where recordings are kept.
    recordings: Option<PathBuf>,
    machine: Machine,
    how: &'a How,
    stop: &'a AtomicBool,
}

/// What came of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Built {
    /// It can be run.
    Well,
    /// It cannot.
    Failed(Failure),
    /// Somebody interrupted it.
    Stopped,
}

/// Prefix of the folders of recordings that a store does not keep.
const SCRATCH: &str = "scratch-";

/// Removes the recordings that a killed heaplab left in its store. Each folder has a new name, so a
/// recorder that outlived its heaplab cannot write into the next one's.
fn remove_leftovers(store: &Path) -> Result<(), TrackError> {
    let entries = std::fs::read_dir(store).map_err(TrackError::io(store, "read"))?;
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(SCRATCH.as_bytes()) {
            let path = entry.path();
            std::fs::remove_dir_all(&path).map_err(TrackError::io(&path, "remove"))?;
        }
    }
    Ok(())
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        // The next bench removes the remains, and says so if it cannot.
        let _ = self.clear();
    }
}

impl<'a> Bench<'a> {
    /// Opens a bench for the subject of a store. Setting `stop` ends the running command.
    ///
    /// # Errors
    /// The store's folder cannot be written to, or something else lies where the tree is to be.
    pub fn new(
        repository: Repository,
        store: &Store,
        how: &'a How,
        stop: &'a AtomicBool,
    ) -> Result<Bench<'a>, TrackError> {
        let folder = store.folder();
        let folder = folder.canonicalize().map_err(TrackError::io(folder, "find"))?;
        let tree = folder.join("tree");
        repository.clear(&tree)?;
        remove_leftovers(&folder)?;
        let scratch = tempfile::Builder::new().prefix(SCRATCH).tempdir_in(&folder);
        let recordings = how.keep.then(|| folder.join("recordings"));
        if let Some(recordings) = &recordings {
            std::fs::create_dir_all(recordings).map_err(TrackError::io(recordings, "make"))?;
        }
        Ok(Bench {
            repository,
            subject: store.subject().clone(),
            tree,
            scratch: scratch.map_err(TrackError::io(&folder, "write to"))?,
            recordings,
            machine: heaplab_experiment::run::machine(),
            how,
            stop,
        })
    }

    /// Removes the tree.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn clear(&self) -> Result<(), TrackError> {
        self.repository.clear(&self.tree)
    }

    /// A run of this machine.
    pub fn run_of(&self, commit: &Commit, repetition: u32, outcome: Outcome) -> Run {
        Run::new(commit.clone(), repetition, self.machine.clone(), outcome)
    }

    /// Puts a commit's files into the tree and builds them.
    ///
    /// # Errors
    /// git or a shell cannot be started, or the tree cannot be written to.
    pub fn build(&self, commit: &Commit) -> Result<Built, TrackError> {
        match self.repository.check_out(&self.tree, &commit.id, self.subject.incremental) {
            // A file that one commit has in the way of another.
            Err(TrackError::Git(reason)) => {
                return Ok(Built::Failed(failure(Stage::Build, &reason, "")));
            }
            other => other?,
        }
        let Some(build) = &self.subject.build else { return Ok(Built::Well) };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", build]).current_dir(&self.tree);
        without_git(&mut command);
        let limit = Limit { time: self.how.build_limit, stop: self.stop };
        Ok(match ran(&mut command, &self.scratch.path().join("build.log"), limit)? {
            Ended::Well => Built::Well,
            Ended::Stopped => Built::Stopped,
            Ended::Badly { reason, output } => {
                Built::Failed(failure(Stage::Build, &reason, &output))
            }
        })
    }

    /// Records the command once; `None`: somebody interrupted it.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn once(&self, commit: &Commit, repetition: u32) -> Result<Option<Outcome>, TrackError> {
        let bundle = match &self.recordings {
            Some(kept) if repetition == 1 => kept.join(format!("{}.heaplab", commit.short())),
            _ => self.scratch.path().join("run.heaplab"),
        };
        let mut command = Command::new(&self.how.heaplab);
        command.args(["record", "--progress", "never", "--force", "-o"]).arg(&bundle);
        match self.subject.recorder.as_str() {
            // Often enough for the resident memory at a mark.
            "malloc" => command.args(["--samples", "20"]),
            other => command.arg(format!("--{other}")),
        };
        command.arg("--").args(&self.subject.command).current_dir(&self.tree);
        without_git(&mut command);
        let limit = Limit { time: self.how.run_limit, stop: self.stop };
        Ok(Some(match ran(&mut command, &self.scratch.path().join("run.log"), limit)? {
            Ended::Stopped => return Ok(None),
            Ended::Well => match self.read(&bundle) {
                Ok(figures) => Outcome::Measured(figures),
                Err(error) => {
                    Outcome::Failed(failure(Stage::Recording, &text::causes(&*error), ""))
                }
            },
            Ended::Badly { reason, output } => {
                let stage = if bundle.exists() { Stage::Command } else { Stage::Recording };
                let output = without_recording(&output, &bundle);
                Outcome::Failed(failure(stage, &reason, &output))
            }
        }))
    }

    fn read(&self, bundle: &Path) -> Result<Figures, Box<dyn Error>> {
        let bundle = Bundle::open(bundle)?;
        let (selection, _) = select(&bundle, self.subject.process.as_deref(), &mut |_| {})?;
        let analysis = analyse(&bundle, selection, None, Vec::new(), &mut |_| {})?;
        if analysis.profile.totals.allocations == 0 {
            return Err("no allocation of this process was recorded".into());
        }
        Ok(figures(&bundle, &analysis))
    }
}

/// A command's last lines without the sentence on its recording, which lies in the scratch folder
/// and is deleted, and without the advice to look at it.
fn without_recording(output: &str, bundle: &Path) -> String {
    let name = bundle.file_name().unwrap_or_default().to_string_lossy();
    let mut is_of_recording = false;
    let is_kept = |line: &&str| {
        is_of_recording |= line.starts_with("heaplab: recorded ");
        let names_it = line.contains(&*name);
        let is_kept = !is_of_recording && !names_it && !line.starts_with("heaplab: next: ");
        is_of_recording &= !names_it;
        is_kept
    };
    output.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}

fn failure(stage: Stage, reason: &str, output: &str) -> Failure {
    let reason = heaplab_text::lines::cut(reason, 400);
    Failure { stage, reason, output: output.to_owned() }
}
