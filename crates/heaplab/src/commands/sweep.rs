//! `heaplab sweep`: many workloads on many heaps, by one machine or many.

use crate::commands::{interrupted, own_file};
use crate::{answer, heaps};
use anyhow::Result;
use clap::Subcommand;
use heaplab_experiment::own_heaps::cells;
use heaplab_experiment::plan::shard;
use heaplab_sweep::node::Node;
use heaplab_sweep::plan::Plan;
use heaplab_sweep::{Job, Progress, Report, Sweep, plot, table, text};
use heaplab_terminal::bus::{self, Mapped};
use heaplab_terminal::progress::{self, ProgressBar};
use heaplab_terminal::{self as terminal, whole_file};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
#[command(
    after_help = include_str!("../../help/sweep.txt"),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The plan: bundles, heaps, repetitions (docs/sweep.md)
    #[arg(value_name = "PLAN.toml", required = true)]
    plan: Option<PathBuf>,
    /// Keep results here, one file a job; existing jobs are not run again
    #[arg(short, long, value_name = "FOLDER", required_unless_present = "list")]
    output: Option<PathBuf>,
    /// Run only this part of the jobs
    #[arg(long, value_name = "I/N", value_parser = shard, conflicts_with = "job")]
    shard: Option<(u32, u32)>,
    /// Run only this job, for example sqlite/space or sqlite/block-00003; may be repeated
    #[arg(long, value_name = "JOB")]
    job: Vec<String>,
    /// Print every job as a line of JSON (with -o only missing jobs), and run none
    #[arg(long)]
    list: bool,
    /// The name of this machine [default: the host's name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the results of all machines together
    Report(ReportArgs),
}

#[derive(Debug, clap::Args)]
struct ReportArgs {
    /// The folders of one sweep, each with all or some of its files
    #[arg(value_name = "FOLDER", required = true)]
    folders: Vec<PathBuf>,
    /// Write the report as JSON (docs/sweep.md)
    #[arg(long)]
    json: bool,
    /// Write every comparison as a line of CSV to this file (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write every cell of the times as a row of this Parquet file
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Draw every ratio with its interval into this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

pub fn run(args: Args) -> Result<ExitCode> {
    match (&args.command, &args.plan) {
        (Some(Command::Report(report)), _) => show(report),
        (None, Some(plan)) => sweep(&args, plan),
        (None, None) => misasked!("sweep: expected a plan, or report"),
    }
}

fn sweep(args: &Args, path: &Path) -> Result<ExitCode> {
    bus::is_an_error(Mapped::Program);
    let executable = own_file()?;
    let asked = Plan::read(path)?;
    let opened = progress::spinner(args.quiet, String::new());
    let mut lines = Lines::beside(&opened, args.quiet);
    let sweep = Sweep::prepare(path, &asked, &heaps::FAMILIES, &executable, |name| {
        opened.set_message(format!("{name}: its program"));
        lines.say(false, || format!("{name}: compiling its program, if it is the first time"));
    });
    opened.finish_and_clear();
    let sweep = sweep?;
    let named = args.job.iter().map(|name| sweep.job(name)).collect::<Result<Vec<_>, _>>()?;
    let all = args.job.is_empty().then(|| sweep.jobs(args.shard.unwrap_or((0, 1))));
    let jobs = named.into_iter().chain(all.into_iter().flatten());
    let Some(folder) = args.output.as_ref().filter(|_| !args.list) else {
        return list(&sweep, &asked, jobs, args.output.as_deref());
    };
    let jobs: Vec<Job> = jobs.collect();
    let mut shown = Shown::of(args.quiet);
    let node = Node::this(args.node.as_deref());
    interrupted(|stop| {
        let runner = cells(executable, Duration::from_secs(asked.limit_s), Some(stop));
        let done = sweep.run(&jobs, folder, &node, &runner, |now| shown.show(now));
        shown.bar.finish_and_clear();
        done?;
        if args.shard.is_none() && args.job.is_empty() {
            let report = Report::read(std::slice::from_ref(folder), |_| ())?;
            print!("{}", text::report(&report, terminal::columns()))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Lines where standard error is no terminal, at most one a second.
struct Lines {
    are_shown: bool,
    last: Option<Instant>,
}

impl Lines {
    /// Beside a bar that only a terminal shows.
    fn beside(bar: &ProgressBar, is_quiet: bool) -> Lines {
        Lines { are_shown: !is_quiet && bar.is_hidden(), last: None }
    }

    fn say(&mut self, is_last: bool, line: impl FnOnce() -> String) {
        let is_time = self.last.is_none_or(|last| last.elapsed() >= Duration::from_secs(1));
        if self.are_shown && (is_time || is_last) {
            eprintln!("heaplab: {}", line());
            self.last = Some(Instant::now());
        }
    }
}

/// Shows how far a sweep is: a bar on a terminal; elsewhere a line when a job has finished.
struct Shown {
    bar: ProgressBar,
    lines: Lines,
}

impl Shown {
    fn of(is_quiet: bool) -> Shown {
        let bar = progress::bar(is_quiet, 0, "{bar:15} {pos}/{len} cells, {wide_msg}");
        Shown { lines: Lines::beside(&bar, is_quiet), bar }
    }

    fn show(&mut self, now: &Progress) {
        let left = text::left(now.left);
        let Progress { cells_done, cells, jobs_done, jobs, now: cell, .. } = now;
        progress::show(
            &self.bar,
            (*cells_done).into(),
            (*cells).into(),
            &format!("{left}  {cell}"),
        );
        if now.has_finished {
            let line = || format!("{jobs_done} of {jobs} jobs, {left}: {cell}");
            self.lines.say(jobs_done == jobs, line);
        }
    }
}

/// Prints every job, or every job without a file in `folder`, while it looks for the next.
fn list(
    sweep: &Sweep,
    asked: &Plan,
    jobs: impl Iterator<Item = Job>,
    folder: Option<&Path>,
) -> Result<ExitCode> {
    if let Some(folder) = folder {
        sweep.begin(folder)?;
    }
    for job in jobs {
        let is_missing = folder.map_or(Ok(true), |folder| sweep.is_missing(&job, folder))?;
        if let Some(listed) = sweep.listed(asked, &job).filter(|_| is_missing) {
            println!("{}", serde_json::to_string(&listed)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(args: &ReportArgs) -> Result<ExitCode> {
    let bar = progress::spinner(false, "reading blocks".into());
    let report = Report::read(&args.folders, |blocks| bar.set_message(format!("{blocks} blocks")));
    bar.finish_and_clear();
    let report = report?;
    if let Some(file) = &args.csv {
        whole_file::write_bytes(file, false, table::csv(&report).as_bytes())?;
    }
    if let Some(file) = &args.plot {
        whole_file::write_bytes(file, false, plot::picture(&report).as_bytes())?;
    }
    if let Some(file) = &args.parquet {
        table::write_cells(&args.folders, file)?;
    }
    let is_csv = args.csv.as_ref().is_some_and(|file| file.as_os_str() == "-");
    if !is_csv {
        answer::print_pretty(args.json, &report, || text::report(&report, terminal::columns()))?;
    }
    Ok(ExitCode::SUCCESS)
}
