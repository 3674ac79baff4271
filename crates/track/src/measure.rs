//! Measures the commits that a store lacks.

use crate::TrackError;
use crate::bench::{Bench, Built, How};
use crate::plan::{coarse_to_fine, spread};
use crate::repository::Repository;
use crate::run::{Commit, Outcome};
use crate::store::{Store, Writer};
use std::sync::atomic::AtomicBool;

/// A store that is added to, and the bench that its runs come from.
pub struct Measurement<'a> {
    writer: Writer,
    bench: Bench<'a>,
    runs: u32,
}

impl<'a> Measurement<'a> {
    /// `runs` of each commit are wanted.
    ///
    /// # Errors
    /// Those of [`Bench::new`].
    pub fn new(
        repository: Repository,
        writer: Writer,
        runs: u32,
        how: &'a How,
        stop: &'a AtomicBool,
    ) -> Result<Measurement<'a>, TrackError> {
        let bench = Bench::new(repository, writer.store(), how, stop)?;
        Ok(Measurement { writer, bench, runs })
    }

    /// The store's present content.
    pub fn store(&self) -> &Store {
        self.writer.store()
    }

    /// Removes the tree.
    ///
    /// # Errors
    /// It cannot be removed: the next measurement has to.
    pub fn clear(&self) -> Result<(), TrackError> {
        self.bench.clear()
    }

    /// How many runs of a commit the store lacks: none of one that cannot be measured.
    pub fn missing(&self, commit: &Commit) -> u32 {
        match self.store().of_commit(&commit.id) {
            (0, true) => 0,
            (measured, _) => self.runs.saturating_sub(measured),
        }
    }

    /// The commits with missing runs in the order of measuring. Builds on top of one another go
    /// along the history; others are as in [`crate::plan`].
    pub fn to_measure<'c>(&self, commits: &[&'c Commit]) -> Vec<&'c Commit> {
        let order = match self.store().subject().incremental {
            true => (0..commits.len()).collect(),
            false => coarse_to_fine(commits.len()),
        };
        let commits = order.into_iter().map(|at| commits[at]);
        commits.filter(|commit| self.missing(commit) > 0).collect()
    }

    /// Builds a commit and adds its missing runs, or why there are none. False: somebody
    /// interrupted it.
    ///
    /// # Errors
    /// Those of [`Bench`], and a run that cannot be written.
    pub fn commit(&mut self, commit: &Commit) -> Result<bool, TrackError> {
        let wanted = self.missing(commit);
        if wanted == 0 {
            return Ok(true);
        }
        match self.bench.build(commit)? {
            Built::Well => {}
            Built::Stopped => return Ok(false),
            Built::Failed(failure) => {
                let outcome = Outcome::Failed(failure);
                let repetition = self.store().next_repetition(&commit.id);
                self.writer.add(self.bench.run_of(commit, repetition, outcome))?;
                return Ok(true);
            }
        }
        for _ in 0..wanted {
            let repetition = self.store().next_repetition(&commit.id);
            let Some(outcome) = self.bench.once(commit, repetition)? else { return Ok(false) };
            let has_failed = matches!(outcome, Outcome::Failed(_));
            self.writer.add(self.bench.run_of(commit, repetition, outcome))?;
            if has_failed {
                break;
            }
        }
        Ok(true)
    }
}

/// At most `most` of `commits`, spread evenly, both ends among them.
pub fn some(commits: &[Commit], most: Option<u32>) -> Vec<&Commit> {
    let chosen = spread(commits.len(), most.map_or(usize::MAX, |most| most as usize));
    chosen.into_iter().map(|at| &commits[at]).collect()
}
