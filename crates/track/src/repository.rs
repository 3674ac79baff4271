//! The project's git repository, asked and never changed but for a tree of heaplab's own.
//!
//! Commits are built in a `git worktree` beside the user's checkout, always in the same folder,
//! because the length of a path changes what some programs allocate. Hooks do not run there, and
//! variables such as `GIT_DIR`, which a hook sets, are removed.

use crate::TrackError;
use crate::run::Commit;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Commits of a range at most.
const COMMITS_MAX: usize = 100_000;

/// A repository.
#[derive(Clone, Debug)]
pub struct Repository {
    folder: PathBuf,
}

impl Repository {
    /// The repository that `folder` is in.
    ///
    /// # Errors
    /// The folder is in no repository, or git is missing.
    pub fn of(folder: &Path) -> Result<Repository, TrackError> {
        let repository = Repository { folder: folder.to_owned() };
        let top = repository.lines(&["rev-parse", "--show-toplevel"]).map_err(|error| match error {
            TrackError::Git(said) if folder.is_dir() && said.contains("not a git repository") => {
                TrackError::Git(format!(
                    "{said}\n{} is in no checkout of a project: go to one, or name one by --repository",
                    folder.display()
                ))
            }
            other => other,
        })?;
        let top = top.first().filter(|top| !top.is_empty()).ok_or_else(|| {
            TrackError::Git(format!(
                "{} is in a repository without a checkout: go to a clone of it, or name one by --repository",
                folder.display()
            ))
        })?;
        Ok(Repository { folder: top.into() })
    }

    /// The top of the checkout.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the project's store is unless a user names another: beside the checkout.
    pub fn store(&self) -> PathBuf {
        let mut beside = self.folder.as_os_str().to_owned();
        beside.push(".track");
        beside.into()
    }

    /// Facts about the checkout that a user should know before hours of measuring.
    ///
    /// # Errors
    /// git fails.
    pub fn notes(&self) -> Result<Vec<&'static str>, TrackError> {
        let shallow = "this clone lacks older commits; after git fetch --unshallow a store of it \
                       has another order";
        let changed = "the checkout has changes that are not committed; commits are measured, and \
                       they are not";
        let notes = [(self.is_shallow()?, shallow), (self.is_changed()?, changed)];
        Ok(notes.into_iter().filter_map(|(applies, note)| applies.then_some(note)).collect())
    }

    /// The name of the first commit, by first parents from `HEAD`.
    ///
    /// # Errors
    /// There is no commit.
    pub fn project(&self) -> Result<String, TrackError> {
        let roots = self.lines(&["rev-list", "--first-parent", "--max-parents=0", "HEAD"])?;
        roots
            .into_iter()
            .next_back()
            .ok_or_else(|| TrackError::Git(format!("{} has no commit", self.folder.display())))
    }

    /// Whether older commits are missing, so that places in the history are not final.
    ///
    /// # Errors
    /// git fails.
    fn is_shallow(&self) -> Result<bool, TrackError> {
        Ok(self.lines(&["rev-parse", "--is-shallow-repository"])?.concat() == "true")
    }

    /// Whether files of the checkout differ from its commit.
    ///
    /// # Errors
    /// git fails.
    fn is_changed(&self) -> Result<bool, TrackError> {
        Ok(!self.lines(&["status", "--porcelain", "--untracked-files=no"])?.is_empty())
    }

    /// The commits of a range, oldest first, by first parents. Of `A..B` A is one: a history has to
    /// begin with what came before. A single name is that commit alone.
    ///
    /// # Errors
    /// git does not know the commits, the range is empty, or it is too long.
    pub fn commits(&self, range: &str) -> Result<Vec<Commit>, TrackError> {
        if range.starts_with('-') {
            return Err(TrackError::NotThere(format!(
                "{range:?} is no range of commits: write v1..HEAD"
            )));
        }
        let (from, to) = match range.split_once("..") {
            Some((from, to)) => (Some(from), to.trim_start_matches('.')),
            None => (None, range),
        };
        let named = |name: &str| {
            let name = if name.is_empty() { "HEAD" } else { name };
            let wanted = format!("{name}^{{commit}}");
            let found =
                self.lines(&["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted]);
            found.ok().and_then(|lines| lines.into_iter().next()).ok_or_else(|| {
                TrackError::NotThere(format!(
                    "{name:?} is no commit of {}: git log shows what there is",
                    self.folder.display()
                ))
            })
        };
        let to = named(to)?;
        let mut commits = Vec::new();
        match from {
            Some(from) => {
                let from = named(from)?;
                commits.extend(self.listed(&[&from, "--max-count=1"])?);
                if from != to {
                    let after = self.listed(&[&to, &format!("^{from}")])?;
                    if after.is_empty() {
                        return Err(TrackError::NotThere(format!(
                            "{range} has no commits: what is older stands first"
                        )));
                    }
                    commits.extend(after);
                }
            }
            None => commits.extend(self.listed(&[&to, "--max-count=1"])?),
        }
        if commits.len() > COMMITS_MAX {
            return Err(TrackError::NotThere(format!(
                "{range} has {} commits, more than the {COMMITS_MAX} of a history",
                commits.len()
            )));
        }
        let counted = self.lines(&["rev-list", "--first-parent", "--count", &to])?.concat();
        let last: u64 = counted.parse().unwrap_or(0);
        let all = commits.len() as u64;
        for (at, commit) in commits.iter_mut().enumerate() {
            commit.place = (last + at as u64 + 1).saturating_sub(all);
        }
        // The range may begin beside the line of first parents.
        if let Some(first) = commits.first_mut()
            && from.is_some()
        {
            let counted = self.lines(&["rev-list", "--first-parent", "--count", &first.id])?;
            first.place = first.place.min(counted.concat().parse().unwrap_or(first.place));
        }
        Ok(commits)
    }

    fn listed(&self, arguments: &[&str]) -> Result<Vec<Commit>, TrackError> {
        let all =
            [&["log", "--first-parent", "--reverse", "--format=%H %ct %s"], arguments, &["--"]];
        let lines = self.lines(&all.concat())?;
        let commit = |line: &String| {
            let mut parts = line.splitn(3, ' ');
            let (id, time) = (parts.next()?, parts.next()?);
            Some(Commit {
                id: id.into(),
                committed_unix_s: time.parse().ok()?,
                subject: parts.next().unwrap_or("").chars().take(200).collect(),
                place: 0,
            })
        };
        Ok(lines.iter().filter_map(commit).collect())
    }

    /// Removes the tree of an earlier run that was killed.
    ///
    /// # Errors
    /// The folder is there and is none of ours.
    pub fn clear(&self, tree: &Path) -> Result<(), TrackError> {
        // git's own list first: it may know a folder that is gone.
        let _ = self.git(&["worktree", "remove", "--force", "--force"], Some(tree));
        if tree.join(".git").is_file() {
            std::fs::remove_dir_all(tree).map_err(TrackError::io(tree, "remove"))?;
        }
        let _ = self.git(&["worktree", "prune"], None);
        if tree.exists() {
            return Err(TrackError::Misread {
                path: tree.to_owned(),
                reason: "commits are to be built here, and something else is there: move it away"
                    .into(),
            });
        }
        Ok(())
    }

    /// Puts a commit's files into the folder `tree`; `kept` says whether the folder has another
    /// commit's files already.
    ///
    /// # Errors
    /// git fails; its words are the error.
    pub fn check_out(&self, tree: &Path, commit: &str, kept: bool) -> Result<(), TrackError> {
        if kept && tree.join(".git").exists() {
            let own = Repository { folder: tree.to_owned() };
            return own.done(&["checkout", "--quiet", "--force", "--detach", commit], None);
        }
        self.clear(tree)?;
        let mut words = vec!["worktree", "add", "--quiet", "--force", "--detach"];
        let Some(path) = tree.to_str() else {
            return Err(TrackError::Git(format!("{}: not Unicode", tree.display())));
        };
        words.extend([path, commit]);
        self.done(&words, None)
    }

    fn done(&self, arguments: &[&str], path: Option<&Path>) -> Result<(), TrackError> {
        let output = self.git(arguments, path)?;
        if output.status.success() {
            return Ok(());
        }
        Err(refused(arguments, &output))
    }

    fn lines(&self, arguments: &[&str]) -> Result<Vec<String>, TrackError> {
        let output = self.git(arguments, None)?;
        if !output.status.success() {
            return Err(refused(arguments, &output));
        }
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }

    fn git(&self, arguments: &[&str], path: Option<&Path>) -> Result<Output, TrackError> {
        let mut git = Command::new("git");
        git.args(["-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false", "-C"]);
        git.arg(&self.folder).args(arguments).args(path).stdin(Stdio::null());
        without_git(&mut git);
        git.output().map_err(|error| {
            TrackError::Git(format!("git cannot be started: {error}; heaplab track needs it"))
        })
    }
}

/// Removes from a command the variables that would lead git to another repository.
pub fn without_git(command: &mut Command) {
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR"] {
        command.env_remove(name);
    }
}

fn refused(arguments: &[&str], output: &Output) -> TrackError {
    let said = String::from_utf8_lossy(&output.stderr);
    let what = arguments.first().copied().unwrap_or("");
    TrackError::Git(format!("git {what}: {}", said.trim()))
}
