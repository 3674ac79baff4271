//! Building one commit in its tree and recording its command there.

use super::Limits;
use crate::choose;
use anyhow::{Context, Result};
use heaplab_experiment::results::Machine;
use heaplab_report::{analyse, select};
use heaplab_track::figures::figures;
use heaplab_track::repository::{Repository, without_git};
use heaplab_track::run::{Commit, Failure, Figures, Outcome, Run, Stage};
use heaplab_track::store::{Store, Subject};
use heaplab_track::{Ended, Limit, TrackError, ran};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How commits are measured. Its tree is removed with it.
pub struct Bench<'a> {
    repository: Repository,
    subject: Subject,
    tree: PathBuf,
    scratch: tempfile::TempDir,
    /// Where recordings are kept.
    recordings: Option<PathBuf>,
    executable: PathBuf,
    machine: Machine,
    limits: Limits,
    stop: &'a AtomicBool,
}

/// What the folders of recordings that are not kept begin with, in a store.
const SCRATCH: &str = "scratch-";

/// Removes the recordings that a killed heaplab left in its store. A folder has a name of its own
/// each time, so that a recorder that outlived its heaplab cannot write into that of the next.
fn remove_left(store: &Path) -> Result<()> {
    for entry in std::fs::read_dir(store).context("cannot read the store")?.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(SCRATCH.as_bytes()) {
            let path = entry.path();
            std::fs::remove_dir_all(&path)
                .with_context(|| format!("{}: cannot remove", path.display()))?;
        }
    }
    Ok(())
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

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.repository.clear(&self.tree) {
            eprintln!("heaplab track: note: {error}");
        }
    }
}

impl<'a> Bench<'a> {
    /// For the subject of a store.
    pub fn new(
        repository: Repository,
        store: &Store,
        limits: Limits,
        keep: bool,
        stop: &'a AtomicBool,
    ) -> Result<Bench<'a>> {
        let folder = store.folder().canonicalize().context("the store is gone")?;
        let tree = folder.join("tree");
        repository.clear(&tree)?;
        remove_left(&folder)?;
        let scratch = tempfile::Builder::new().prefix(SCRATCH).tempdir_in(&folder);
        let recordings = keep.then(|| folder.join("recordings"));
        if let Some(recordings) = &recordings {
            std::fs::create_dir_all(recordings).context("cannot keep recordings")?;
        }
        Ok(Bench {
            repository,
            subject: store.subject().clone(),
            tree,
            scratch: scratch.context("cannot make a folder for recordings")?,
            recordings,
            executable: std::env::current_exe().context("cannot find this program's own file")?,
            machine: heaplab_experiment::run::machine(),
            limits,
            stop,
        })
    }

    /// A run of this machine.
    pub fn run_of(&self, commit: &Commit, repetition: u32, outcome: Outcome) -> Run {
        Run::new(commit.clone(), repetition, self.machine.clone(), outcome)
    }

    /// Puts a commit's files into the tree and builds them.
    pub fn build(&self, commit: &Commit) -> Result<Built> {
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
        let limit = self.limit(self.limits.build_timeout);
        Ok(match ran(&mut command, &self.scratch.path().join("build.log"), limit)? {
            Ended::Well => Built::Well,
            Ended::Stopped => Built::Stopped,
            Ended::Badly { reason, output } => {
                Built::Failed(failure(Stage::Build, &reason, &output))
            }
        })
    }

    fn limit(&self, seconds: f64) -> Limit<'_> {
        Limit { time: Duration::from_secs_f64(seconds), stop: self.stop }
    }

    /// Records the command once; `None`: somebody interrupted it.
    pub fn once(&self, commit: &Commit, repetition: u32) -> Result<Option<Outcome>> {
        let bundle = match &self.recordings {
            Some(kept) if repetition == 1 => kept.join(format!("{}.heaplab", commit.short())),
            _ => self.scratch.path().join("run.heaplab"),
        };
        let mut command = Command::new(&self.executable);
        command.args(["record", "--progress", "never", "--force", "-o"]).arg(&bundle);
        match self.subject.recorder.as_str() {
            // Often enough for what is resident at a mark.
            "malloc" => command.args(["--samples", "20"]),
            other => command.arg(format!("--{other}")),
        };
        command.arg("--").args(&self.subject.command).current_dir(&self.tree);
        without_git(&mut command);
        let limit = self.limit(self.limits.timeout);
        Ok(Some(match ran(&mut command, &self.scratch.path().join("run.log"), limit)? {
            Ended::Stopped => return Ok(None),
            Ended::Well => match self.read(&bundle) {
                Ok(figures) => Outcome::Measured(figures),
                Err(error) => Outcome::Failed(failure(Stage::Recording, &format!("{error:#}"), "")),
            },
            Ended::Badly { reason, output } => {
                let stage = if bundle.exists() { Stage::Command } else { Stage::Recording };
                Outcome::Failed(failure(stage, &reason, &output))
            }
        }))
    }

    fn read(&self, bundle: &Path) -> Result<Figures> {
        let bundle = choose::open(bundle)?;
        let (selection, _) = select(&bundle, self.subject.process.as_deref(), &mut |_| {})?;
        let analysis = analyse(&bundle, selection, None, Vec::new(), &mut |_| {})?;
        Ok(figures(&bundle, &analysis))
    }
}

fn failure(stage: Stage, reason: &str, output: &str) -> Failure {
    let reason = heaplab_text::lines::cut(reason, 400);
    Failure { stage, reason, output: output.to_owned() }
}
