//! How far a sweep is, and how long the rest takes.
//!
//! Blocks of one workload take equally long, those of two may differ a hundredfold. So the time
//! left is that of every missing job by the finished jobs of its own workload, not by all.

use crate::{Job, Work};
use std::collections::HashMap;
use std::time::Duration;

/// The progress of a sweep.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Jobs done.
    pub jobs_done: usize,
    /// Jobs there are.
    pub jobs: usize,
    /// Cells done.
    pub cells_done: u32,
    /// Cells there are.
    pub cells: u32,
    /// The running cell, or the finished job.
    pub now: String,
    /// Whether a job has just finished.
    pub has_finished: bool,
    /// How long the rest takes; `None`: no job like one of the rest has finished.
    pub left: Option<Duration>,
}

impl Progress {
    pub(crate) fn of(jobs: usize, cells: u32) -> Progress {
        let now = String::new();
        Progress { jobs_done: 0, jobs, cells_done: 0, cells, now, has_finished: false, left: None }
    }

    /// A job of so many cells is done.
    pub(crate) fn had(&mut self, cells: u32) {
        self.jobs_done += 1;
        self.cells_done += cells;
    }
}

/// Jobs of one workload, space or time.
#[derive(Debug, Default)]
struct Kind {
    left: u32,
    finished: u32,
    took: Duration,
}

/// How long jobs take.
#[derive(Debug)]
pub(crate) struct Pace(HashMap<(String, bool), Kind>);

fn kind(job: &Job) -> (String, bool) {
    (job.workload.clone(), job.work == Work::Space)
}

impl Pace {
    /// Of the jobs to run.
    pub(crate) fn of<'a>(jobs: impl Iterator<Item = &'a Job>) -> Pace {
        let mut kinds: HashMap<_, Kind> = HashMap::new();
        for job in jobs {
            kinds.entry(kind(job)).or_default().left += 1;
        }
        Pace(kinds)
    }

    /// The job need not run.
    pub(crate) fn dropped(&mut self, job: &Job) {
        let kind = self.0.entry(kind(job)).or_default();
        kind.left = kind.left.saturating_sub(1);
    }

    /// The job is done.
    pub(crate) fn finished(&mut self, job: &Job, took: Duration) {
        self.dropped(job);
        let kind = self.0.entry(kind(job)).or_default();
        kind.finished += 1;
        kind.took += took;
    }

    /// Time for all jobs left, of which one runs since `running`. A workload without a finished job
    /// of this kind counts as the slowest of those that have one; before the first, `None`.
    pub(crate) fn left(&self, running: Duration) -> Option<Duration> {
        let mean = |kind: &Kind| (kind.finished > 0).then(|| kind.took / kind.finished);
        let of_kind = |is_space: bool| {
            let kinds = || self.0.iter().filter(move |((_, space), _)| *space == is_space);
            let slowest = kinds().filter_map(|(_, kind)| mean(kind)).max();
            let mut sum = Duration::ZERO;
            for (_, kind) in kinds().filter(|(_, kind)| kind.left > 0) {
                sum += mean(kind).or(slowest)? * kind.left;
            }
            Some(sum)
        };
        // A job that takes longer than usual takes nothing off the others.
        let slowest = self.0.values().filter_map(mean).max().unwrap_or_default();
        Some((of_kind(true)? + of_kind(false)?).saturating_sub(running.min(slowest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_told_by_each_workloads_own_blocks() {
        let s = Duration::from_secs;
        let job =
            |workload: &str, block| Job { workload: workload.into(), work: Work::Time(block) };
        let jobs: Vec<Job> =
            (0..3).flat_map(|block| [job("short", block), job("long", block)]).collect();
        let mut pace = Pace::of(jobs.iter());
        assert_eq!(pace.left(s(0)), None, "nothing has finished");
        pace.finished(&jobs[0], s(1));
        assert_eq!(pace.left(s(0)), Some(s(5)), "what is unknown counts as what is known");
        pace.finished(&jobs[1], s(100));
        assert_eq!(pace.left(s(0)), Some(s(2 + 200)));
        assert_eq!(pace.left(s(1)), Some(s(201)));
        pace.finished(&jobs[2], s(3));
        assert_eq!(pace.left(s(0)), Some(s(2 + 200)), "the mean of one and three");
        for job in &jobs[3..] {
            pace.finished(job, s(100));
        }
        assert_eq!(pace.left(s(0)), Some(s(0)));
        assert_eq!(Pace::of([].into_iter()).left(s(0)), Some(s(0)));
    }

    #[test]
    fn times_are_unknown_while_only_space_was_measured() {
        let space = Job { workload: "a".into(), work: Work::Space };
        let time = Job { workload: "a".into(), work: Work::Time(0) };
        let mut pace = Pace::of([&space, &time].into_iter());
        pace.finished(&space, Duration::from_secs(7));
        assert_eq!(pace.left(Duration::ZERO), None);
    }
}
