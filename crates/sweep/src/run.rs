//! Runs jobs of a plan, and keeps each job's result in a file of its own.

use crate::node::Node;
use crate::plan::Plan as Asked;
use crate::progress::{Pace, Progress};
use crate::store::{self, About, SpaceFile, TimeFile};
use crate::{Job, SweepError, Work, jobs};
use heaplab_experiment::plan::Plan;
use heaplab_experiment::process::content_version;
use heaplab_experiment::run::{self, Measured, write_json};
use heaplab_experiment::summary::summarize;
use heaplab_experiment::{CellRunner, many, prepare};
use heaplab_profile::choose;
use heaplab_replay::Families;
use heaplab_trace::bundle::Bundle;
use heaplab_trace::program;
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// A plan whose bundles and heaps were found.
#[derive(Debug)]
pub struct Sweep {
    about: About,
    names: Vec<String>,
    plans: Vec<(String, Plan)>,
    repetitions: u32,
}

/// A job as a scheduler gets it.
#[derive(Debug, Serialize)]
pub struct Listed<'a> {
    job: String,
    bundle: &'a Path,
    experiment: &'a str,
    timed: bool,
}

impl Sweep {
    /// Opens every bundle and reads every heap's name, so that a mistake ends a sweep before its
    /// first cell. Cells are `executable`'s. Calls `report` with the name of each workload before
    /// it compiles its program: a large one takes minutes the first time.
    ///
    /// # Errors
    /// A heap is unknown, a bundle is missing, or one does not suit the other.
    pub fn prepare(
        path: &Path,
        asked: &Asked,
        families: &Families,
        executable: &Path,
        mut report: impl FnMut(&str),
    ) -> Result<Sweep, SweepError> {
        let wrong = |reason: String| SweepError::Plan { path: path.into(), reason };
        let heaps = asked.heaps.iter().map(|heap| {
            let mut one =
                families.parse_list(heap).map_err(|error| wrong(format!("heaps: {error:#}")))?;
            match (one.pop(), one.is_empty()) {
                (Some(only), true) => Ok(only),
                _ => Err(wrong(format!("heaps: expected one heap in each text, found {heap:?}"))),
            }
        });
        let heaps = heaps.collect::<Result<Vec<_>, _>>()?;
        let names = many::names(&asked.bundles)?;
        if let Some(missing) = asked.bundles.iter().find(|bundle| !bundle.exists()) {
            return Err(wrong(format!("bundles: {}: no such recording", missing.display())));
        }
        let mut plans = Vec::new();
        for (bundle, name) in asked.bundles.iter().zip(&names) {
            report(name);
            let bundle = Bundle::open(bundle)?;
            let selection = choose::process(&bundle, None)?;
            let program = program::cached(&bundle, selection)?;
            if program.facts().events == 0 {
                return Err(wrong(format!("bundles: {name} has nothing to replay")));
            }
            prepare::are_ready(&heaps, &program, executable)?;
            let (space, time) = asked.measures();
            let mut plan = Plan::of(&bundle, &program, &heaps, executable, &asked.how())?;
            // Where the bundle lies is no part of the experiment: other machines have it elsewhere.
            plan.workload.bundle = name.clone();
            plans.push((name.clone(), Plan { space, time, ..plan }));
        }
        let own = content_version(std::iter::once(executable))
            .map_err(SweepError::io(executable, "read"))?;
        let about = About::of(own, asked.measures(), &plans);
        Ok(Sweep { about, names, plans, repetitions: asked.repetitions })
    }

    /// All jobs, or those of part `.0` of `.1`.
    pub fn jobs(&self, (part, parts): (u32, u32)) -> impl Iterator<Item = Job> + '_ {
        let place = |job: &Job| self.names.iter().position(|name| *name == job.workload);
        self.all_jobs().filter(move |job| {
            place(job).is_some_and(|workload| jobs::part(workload, job.work, parts) == part)
        })
    }

    /// A job, for a scheduler that hands it out (docs/sweep.md).
    pub fn listed<'a>(&'a self, asked: &'a Asked, job: &Job) -> Option<Listed<'a>> {
        let place = self.names.iter().position(|name| *name == job.workload)?;
        Some(Listed {
            job: job.to_string(),
            bundle: asked.bundles.get(place)?,
            experiment: &self.about.workloads.get(place)?.experiment,
            timed: matches!(job.work, Work::Time(_)),
        })
    }

    fn all_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        jobs::all(&self.names, self.repetitions, (self.about.space, self.about.time))
    }

    /// The job of this name.
    ///
    /// # Errors
    /// The plan has none.
    pub fn job(&self, name: &str) -> Result<Job, SweepError> {
        self.all_jobs()
            .find(|job| job.to_string() == name)
            .ok_or_else(|| SweepError::NoJob(name.into()))
    }

    /// Cells that `jobs` run.
    fn cells(&self, jobs: &[Job]) -> u32 {
        jobs.iter().filter_map(|job| self.plan(job)).map(|plan| run::cells(&plan)).sum()
    }

    /// The plan of this job alone.
    fn plan(&self, job: &Job) -> Option<Plan> {
        let (_, plan) = self.plans.iter().find(|(name, _)| *name == job.workload)?;
        let mut plan = plan.clone();
        match job.work {
            Work::Space => plan.time = false,
            Work::Time(block) => {
                plan.space = false;
                // Of so many parts this one has this block alone.
                plan.shard = (block, self.repetitions.max(block + 1));
            }
        }
        Some(plan)
    }

    /// Runs the `jobs` without a file in `folder`. Calls `report` before each cell, and after each
    /// job.
    ///
    /// # Errors
    /// The folder holds another sweep or a file that heaplab did not write so, the plan lacks a
    /// job, the runner is stopped, the driver cannot be measured, or a file cannot be written.
    /// Finished jobs are kept.
    pub fn run(
        &self,
        jobs: &[Job],
        folder: &Path,
        node: &Node,
        runner: &dyn CellRunner,
        mut report: impl FnMut(&Progress),
    ) -> Result<(), SweepError> {
        self.about.keep(folder)?;
        let mut progress = Progress::of(jobs.len(), self.cells(jobs));
        let mut missing = Vec::new();
        for job in jobs {
            let Some(plan) = self.plan(job) else { return Err(SweepError::NoJob(job.to_string())) };
            if self.is_done(job, &plan, &store::file(folder, job))? {
                progress.had(run::cells(&plan));
            } else {
                missing.push(job);
            }
        }
        let mut pace = Pace::of(missing.iter().copied());
        for job in missing {
            let Some(plan) = self.plan(job) else { return Err(SweepError::NoJob(job.to_string())) };
            let path = store::file(folder, job);
            // Another machine may have run it meanwhile.
            if self.is_done(job, &plan, &path)? {
                pace.dropped(job);
                progress.had(run::cells(&plan));
                continue;
            }
            let (began, before) = (Instant::now(), progress.cells_done);
            let mut tell = |now: String| {
                progress.now = format!("{}, {now}", job.workload);
                progress.left = pace.left(began.elapsed());
                report(&progress);
                progress.cells_done += 1;
            };
            self.run_one(job, &plan, &path, node, runner, &mut tell)?;
            pace.finished(job, began.elapsed());
            progress.cells_done = before;
            progress.had(run::cells(&plan));
            progress.now = format!("{job} in {:.1} s", began.elapsed().as_secs_f64());
            progress.left = pace.left(Duration::ZERO);
            progress.has_finished = true;
            report(&progress);
            progress.has_finished = false;
        }
        Ok(())
    }

    /// Begins an empty folder, or accepts one of this sweep.
    ///
    /// # Errors
    /// The folder holds another sweep, or cannot be written to.
    pub fn begin(&self, folder: &Path) -> Result<(), SweepError> {
        self.about.keep(folder)
    }

    /// Whether the job has no file in `folder`.
    ///
    /// # Errors
    /// The plan lacks the job, or heaplab did not write the file so.
    pub fn is_missing(&self, job: &Job, folder: &Path) -> Result<bool, SweepError> {
        let Some(plan) = self.plan(job) else { return Err(SweepError::NoJob(job.to_string())) };
        Ok(!self.is_done(job, &plan, &store::file(folder, job))?)
    }

    /// Whether the job has a file. The file is read, so that a damaged one is reported before hours
    /// of work.
    fn is_done(&self, job: &Job, plan: &Plan, path: &Path) -> Result<bool, SweepError> {
        if !path.exists() {
            return Ok(false);
        }
        match job.work {
            Work::Space => {
                let one = self.about.workloads.iter().find(|one| one.name == job.workload);
                one.map(|one| store::read_space(path, one)).transpose()?;
            }
            Work::Time(_) => {
                store::read_time(path, plan)?;
            }
        }
        Ok(true)
    }

    fn run_one(
        &self,
        job: &Job,
        plan: &Plan,
        path: &Path,
        node: &Node,
        runner: &dyn CellRunner,
        tell: &mut dyn FnMut(String),
    ) -> Result<(), SweepError> {
        let node = node.clone();
        match job.work {
            Work::Space => {
                let mut measured = Measured::default();
                run::space(plan, runner, &mut measured, tell)?;
                let mut results = summarize(plan, &measured, node.machine.clone());
                results.measured_unix_s = 0;
                write_json(path, &SpaceFile { node, experiment: plan.name(), results })?;
            }
            Work::Time(number) => {
                let block = run::block(plan, runner, number, tell)?;
                write_json(path, &TimeFile { node, block })?;
            }
        }
        Ok(())
    }
}
