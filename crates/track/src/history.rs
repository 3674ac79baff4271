//! The content of a store: the commits in order, a series for each figure, its steps.

use crate::TrackError;
use crate::run::{Commit, Failure, Figures, Outcome, Run};
use crate::steps::{Shift, Step, steps, undecided};
use crate::store::{Store, Subject};
use heaplab_statistics::median;
use heaplab_text::words::plural;
use serde::Serialize;

/// A measured figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Requested bytes of live objects, a phase each.
    Live,
    /// Live objects, a phase each.
    Objects,
    /// Resident bytes, a phase each.
    Resident,
    /// Objects born over the run.
    Allocations,
    /// Bytes asked for over the run.
    Requested,
}

impl Figure {
    /// All measures, in the order of display.
    pub const ALL: [Figure; 5] =
        [Figure::Live, Figure::Objects, Figure::Resident, Figure::Allocations, Figure::Requested];

    /// The figure of this name.
    ///
    /// # Errors
    /// The name is unknown; the error lists the known ones.
    pub fn parse(text: &str) -> Result<Figure, String> {
        let known = Figure::ALL.into_iter().find(|figure| figure.name() == text);
        known.ok_or_else(|| Figure::ALL.map(Figure::name).join(", "))
    }

    /// As a user names it.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Live => "live",
            Figure::Objects => "objects",
            Figure::Resident => "resident",
            Figure::Allocations => "allocations",
            Figure::Requested => "requested",
        }
    }

    /// As a heading names it.
    pub fn title(self) -> &'static str {
        match self {
            Figure::Live => "live bytes",
            Figure::Objects => "live objects",
            Figure::Resident => "resident bytes",
            Figure::Allocations => "allocations over the run",
            Figure::Requested => "bytes asked for over the run",
        }
    }

    /// Whether it counts bytes.
    pub fn is_bytes(self) -> bool {
        !matches!(self, Figure::Objects | Figure::Allocations)
    }

    fn has_phases(self) -> bool {
        matches!(self, Figure::Live | Figure::Objects | Figure::Resident)
    }

    /// Its value in a run; `None`: not measured.
    pub fn of(self, figures: &Figures, phase: &str) -> Option<u64> {
        let at = || figures.phases.iter().find(|there| there.name == phase);
        match self {
            Figure::Live => Some(at()?.live_bytes),
            Figure::Objects => Some(at()?.objects),
            Figure::Resident => at()?.resident_bytes,
            Figure::Allocations => Some(figures.allocations),
            Figure::Requested => Some(figures.requested_bytes),
        }
    }
}

/// A history.
#[derive(Clone, Debug, Serialize)]
pub struct History {
    /// "heaplab-track-history".
    pub format: &'static str,
    /// 1.
    pub version: u32,
    /// The measure.
    pub subject: Subject,
    /// The commits, oldest first.
    pub commits: Vec<Place>,
    /// A series a figure and phase.
    pub series: Vec<Series>,
    /// What limits it, each a sentence.
    pub cautions: Vec<String>,
}

/// A commit of the history.
#[derive(Clone, Debug, Serialize)]
pub struct Place {
    /// Which.
    #[serde(flatten)]
    pub commit: Commit,
    /// Runs that were measured.
    pub runs: u32,
    /// Why runs are missing, all or some.
    pub failure: Option<Failure>,
    /// Unmeasured commits between the one before and this one.
    pub unmeasured_before: u64,
}

/// A figure over the commits.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// "loaded"; empty for figures of the whole run.
    pub phase: String,
    /// Which.
    pub figure: Figure,
    /// Where it was measured.
    pub points: Vec<Point>,
    /// Measured commits, by number, that lack it (a phase that an older program lacks).
    pub missing: Vec<usize>,
    /// Its steps, oldest first.
    pub steps: Vec<Stepped>,
    /// Number of the newest commits in which no step can be recognised yet.
    pub undecided: usize,
}

/// A commit's value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The commit's number in the history.
    pub commit: usize,
    /// The median of its runs.
    pub value: f64,
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// A step of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stepped {
    /// The first commit of the new level, by number.
    pub commit: usize,
    /// The last commit of the old level.
    pub last_before: usize,
    /// The step is behind this one, and not behind `latest`, with 95 %.
    pub earliest: usize,
    /// See there.
    pub latest: usize,
    /// What changed.
    #[serde(flatten)]
    pub shift: Shift,
    /// Commits that may have made it: 1, or more where commits between were not measured.
    pub candidates: u64,
}

impl Stepped {
    /// The change as a share of the level before.
    pub fn share(&self) -> f64 {
        let Shift { before, change, .. } = &self.shift;
        if *before == 0.0 { f64::INFINITY } else { change.value / before }
    }
}

/// A stretch of commits that were not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The commits, by number.
    pub commits: Vec<usize>,
    /// Why.
    pub reason: String,
    /// The last lines that the command of the first one wrote.
    pub output: String,
}

impl History {
    /// The store's content.
    ///
    /// # Errors
    /// The store has no run.
    pub fn of(store: &Store) -> Result<History, TrackError> {
        let runs = store.runs();
        if runs.is_empty() {
            return Err(TrackError::Absent(store.folder().to_owned()));
        }
        let commits = places(runs);
        let by_commit: Vec<Vec<&Figures>> = commits
            .iter()
            .map(|place| {
                let own = runs.iter().filter(|run| run.commit.id == place.commit.id);
                own.filter_map(Run::figures).collect()
            })
            .collect();
        let mut series = Vec::new();
        for figure in Figure::ALL {
            let phases = if figure.has_phases() { phases(&by_commit) } else { vec![String::new()] };
            series.extend(
                phases.into_iter().filter_map(|phase| one(figure, phase, &by_commit, &commits)),
            );
        }
        let cautions = cautions(store, &commits, &by_commit);
        Ok(History {
            format: "heaplab-track-history",
            version: 1,
            subject: store.subject().clone(),
            commits,
            series,
            cautions,
        })
    }

    /// The stretches that were not measured, with why.
    pub fn gaps(&self) -> Vec<Gap> {
        let mut gaps: Vec<Gap> = Vec::new();
        for (at, place) in self.commits.iter().enumerate().filter(|(_, place)| place.runs == 0) {
            let failure = place.failure.clone().unwrap_or_default();
            let reason = format!("{} failed: {}", failure.stage.text(), failure.reason);
            match gaps.last_mut() {
                Some(gap) if gap.reason == reason && gap.commits.last() == Some(&(at - 1)) => {
                    gap.commits.push(at);
                }
                _ => gaps.push(Gap { commits: vec![at], reason, output: failure.output }),
            }
        }
        gaps
    }

    /// The series of a figure, those of phases in their order.
    pub fn of_figure(&self, figure: Figure) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(move |series| series.figure == figure)
    }
}

fn places(runs: &[Run]) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for run in runs {
        if places.last().is_none_or(|last| last.commit.id != run.commit.id) {
            let before = places.last().map_or(run.commit.place, |last| last.commit.place + 1);
            places.push(Place {
                commit: run.commit.clone(),
                runs: 0,
                failure: None,
                unmeasured_before: run.commit.place.saturating_sub(before),
            });
        }
        let Some(last) = places.last_mut() else { continue };
        match &run.outcome {
            Outcome::Measured(_) => last.runs += 1,
            Outcome::Failed(failure) => last.failure = Some(failure.clone()),
        }
    }
    places
}

/// The phases of all runs, in the order of the newest run that has each.
fn phases(by_commit: &[Vec<&Figures>]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for figures in by_commit.iter().flatten().rev() {
        let mut at = 0;
        for phase in &figures.phases {
            match all.iter().position(|there| *there == phase.name) {
                Some(there) => at = there + 1,
                None => {
                    all.insert(at, phase.name.clone());
                    at += 1;
                }
            }
        }
    }
    all
}

fn one(
    figure: Figure,
    phase: String,
    by_commit: &[Vec<&Figures>],
    commits: &[Place],
) -> Option<Series> {
    let (mut numbers, mut values, mut points, mut missing) = (vec![], vec![], vec![], vec![]);
    for (commit, runs) in by_commit.iter().enumerate() {
        let of_runs: Vec<f64> = runs
            .iter()
            .filter_map(|figures| figure.of(figures, &phase))
            .map(|value| value as f64)
            .collect();
        let Some(value) = median(&of_runs) else {
            if !runs.is_empty() {
                missing.push(commit);
            }
            continue;
        };
        let low = of_runs.iter().copied().fold(f64::INFINITY, f64::min);
        let high = of_runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        points.push(Point { commit, value, low, high });
        numbers.push(commit);
        values.push(of_runs);
    }
    if points.is_empty() {
        return None;
    }
    let found = steps(&values).into_iter().map(|step| stepped(&step, &numbers, commits)).collect();
    let undecided = undecided(&values);
    Some(Series { phase, figure, points, missing, steps: found, undecided })
}

fn stepped(step: &Step, numbers: &[usize], commits: &[Place]) -> Stepped {
    let (first, last) = (numbers[step.earliest - 1], numbers[step.latest]);
    Stepped {
        commit: numbers[step.at],
        last_before: numbers[step.at - 1],
        earliest: first,
        latest: last,
        shift: step.shift,
        candidates: commits[last].commit.place.saturating_sub(commits[first].commit.place).max(1),
    }
}

fn cautions(store: &Store, commits: &[Place], by_commit: &[Vec<&Figures>]) -> Vec<String> {
    let mut cautions = Vec::new();
    if !store.damaged().is_empty() {
        let runs = plural(store.damaged().len() as u64, "run");
        let are = if store.damaged().len() == 1 { "is" } else { "are" };
        cautions.push(format!("{runs} {are} left out: the file cannot be read."));
    }
    let mut machines: Vec<_> = store.runs().iter().map(|run| &run.machine).collect();
    machines.dedup();
    let mut kinds = machines.clone();
    kinds.sort_by(|a, b| (&a.processor, &a.kernel).cmp(&(&b.processor, &b.kernel)));
    kinds.dedup();
    if kinds.len() > 1 {
        let names: Vec<String> = kinds
            .iter()
            .map(|machine| format!("{} with kernel {}", machine.processor, machine.kernel))
            .collect();
        cautions.push(format!(
            "The runs are of {} machines ({}): a step may be one from machine to machine.",
            kinds.len(),
            names.join("; ")
        ));
    }
    let mut programs: Vec<(&str, &Commit)> = Vec::new();
    for (place, figures) in commits.iter().zip(by_commit) {
        for of in figures {
            if programs.last().is_none_or(|(name, _)| *name != of.program) {
                programs.push((&of.program, &place.commit));
            }
        }
    }
    if programs.len() > 1 {
        let names: Vec<String> = programs
            .iter()
            .take(4)
            .map(|(name, commit)| format!("{name:?} from {}", commit.short()))
            .collect();
        cautions.push(format!(
            "The process looked at is not the same program in all runs ({}): --process names one.",
            names.join(", ")
        ));
    }
    cautions
}
