//! The step that a bisection looks for, and the side of a commit's runs.

use super::Found;
use crate::TrackError;
use crate::history::{Figure, History, Stepped};
use crate::measure::Measurement;
use crate::run::Commit;
use std::path::PathBuf;

/// A step whose commit is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoughtStep {
    /// The commits, `BEFORE..AFTER`.
    pub range: String,
    /// The phase.
    pub phase: String,
    /// The figure.
    pub figure: Figure,
}

impl SoughtStep {
    /// The range and the phase that are asked for, or those of the largest step, of those with
    /// several commits if there are any.
    ///
    /// # Errors
    /// The history has no such phase, or no step.
    pub fn of(
        history: &History,
        figure: Figure,
        between: Option<&str>,
        phase: Option<&str>,
    ) -> Result<SoughtStep, TrackError> {
        let sought = |range: String, found: &str| {
            let phase = phase.unwrap_or(found).to_owned();
            Ok(SoughtStep { range, phase, figure })
        };
        if let Some(range) = between {
            return sought(range.to_owned(), "peak");
        }
        let series = || {
            let all = history.of_figure(figure);
            all.filter(|of| of.phase.is_empty() || phase.is_none_or(|phase| phase == of.phase))
        };
        if series().next().is_none() {
            let names: Vec<&str> = history.of_figure(figure).map(|of| of.phase.as_str()).collect();
            let reason = format!("no run has such a phase; there are {}", names.join(", "));
            return Err(TrackError::NotThere(reason));
        }
        let steps = || series().flat_map(|of| of.steps.iter().map(move |step| (of, step)));
        // A step whose commit is known already is the answer only if there is no other.
        let is_open = |step: &Stepped| step.candidates > 1;
        let largest = steps().max_by(|(_, one), (_, other)| {
            let sizes = one.share().abs().total_cmp(&other.share().abs());
            is_open(one).cmp(&is_open(other)).then(sizes)
        });
        let Some((series, step)) = largest else {
            let reason = "the history has no step (heaplab track show); --between names the commits to look between";
            return Err(TrackError::NotThere(reason.into()));
        };
        let id = |at: usize| &history.commits[at].commit.id;
        sought(format!("{}..{}", id(step.earliest), id(step.latest)), &series.phase)
    }

    /// `live bytes at loaded`.
    pub fn title(&self) -> String {
        match self.figure {
            Figure::Allocations | Figure::Requested => self.figure.title().into(),
            _ => format!("{} at {}", self.figure.title(), self.phase),
        }
    }

    /// The values of a commit's runs, which are measured where the store lacks them; `None`: they
    /// cannot be.
    ///
    /// # Errors
    /// Those of [`Measurement::commit`], and [`TrackError::Interrupted`].
    pub fn values(
        &self,
        measurement: &mut Measurement,
        commit: &Commit,
    ) -> Result<Option<Vec<f64>>, TrackError> {
        if !measurement.commit(commit)? {
            return Err(TrackError::Interrupted);
        }
        let runs = measurement.store().runs().iter().filter(|run| run.commit.id == commit.id);
        let values: Vec<f64> = runs
            .filter_map(|run| self.figure.of(run.figures()?, &self.phase))
            .map(|value| value as f64)
            .collect();
        Ok((!values.is_empty()).then_some(values))
    }
}

/// The recordings of the commits before and after the found step, if the store keeps both.
pub fn recordings(
    found: Found,
    commits: &[Commit],
    measurement: &Measurement,
) -> Option<[PathBuf; 2]> {
    let (before, after) = match found {
        Found::NoStep => return None,
        Found::Commit(at) => (at - 1, at),
        Found::OneOf(low, high) => (low, high),
    };
    let folder = measurement.store().folder().join("recordings");
    let both = [before, after].map(|at| folder.join(format!("{}.heaplab", commits[at].short())));
    both.iter().all(|path| path.exists()).then_some(both)
}
