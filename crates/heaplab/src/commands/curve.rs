//! `heaplab curve`: space against time for any garbage-collected command.

mod lab;

use crate::answer;
use crate::commands::{interrupted, own_file, seconds};
use crate::usage_error::UsageError;
use anyhow::{Context, Result, bail};
use heaplab_curve::budget::Budget;
use heaplab_curve::files::Files;
use heaplab_curve::handling::{Cores, IgnoredStatuses, Output};
use heaplab_curve::minimum::{self, MinimumError};
use heaplab_curve::plan::{Plan, Settings, SpaceMeasure, TimeMeasure};
use heaplab_curve::question::Question;
use heaplab_curve::results::Results;
use heaplab_curve::run::{self, Ended, Measured};
use heaplab_curve::source::{CellSource, Commands, Hooks, Stopped};
use heaplab_curve::summary::{Asked, summarize};
use heaplab_curve::{measure, text};
use heaplab_experiment::plan::shard;
use heaplab_experiment::process;
use heaplab_experiment::results::{HugePages, Touch};
use heaplab_terminal as terminal;
use heaplab_terminal::{progress, whole_file};
use heaplab_text::lines;
use heaplab_text::shell;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/curve.txt"))]
pub struct Args {
    /// A recording whose workload the heaps of --on run, instead of a command
    #[arg(value_name = "BUNDLE", requires = "on", conflicts_with_all = [
        "command", "compare", "compare_command", "setup", "prepare", "conclude", "cleanup", "shell", "input", "ignore_failure",
        "output", "show_output", "cores", "interval"
    ])]
    bundle: Option<PathBuf>,
    /// The heaps that run the recording's workload, with parameters (heaplab heaps lists them)
    #[arg(long, value_name = "HEAPS", requires = "bundle")]
    on: Option<String>,
    /// The varied variable: NAME=RANGE or NAME=text{RANGE}text [default: the command's range]
    #[arg(long, value_name = "NAME=RANGE")]
    vary: Option<String>,
    /// Variants, separated by commas; if the option is repeated, each use gives one variant
    #[arg(long, value_name = "A,B", allow_hyphen_values = true)]
    compare: Vec<String>,
    /// Another command as a variant (quoted as for a shell); may be given more than once
    #[arg(long, value_name = "COMMAND", conflicts_with = "compare")]
    compare_command: Vec<String>,
    /// Names of the variants, in order
    #[arg(short = 'n', long, value_name = "NAME")]
    command_name: Vec<String>,
    /// Blocks, that is, runs of each setting. With fewer than 6, intervals are rough
    #[arg(short, long, visible_alias = "runs", value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    reps: u32,
    /// Uncounted runs of each setting before the first block
    #[arg(short, long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    warmup: u32,
    /// The time: wall, or cpu (user and system) [default: wall; for heaps cpu]
    #[arg(long, value_name = "WHICH")]
    time: Option<TimeMeasure>,
    /// The space: peak (of resident memory), anonymous (peak of anonymous memory), mean (of
    /// anonymous memory over the run); for heaps also committed (the heap's own peak)
    #[arg(long, value_name = "WHICH", default_value = "peak")]
    space: SpaceMeasure,
    /// Name the best setting within this space or time: 300MB, 1.5GiB, 12s
    #[arg(long, value_name = "BUDGET", value_parser = Budget::parse)]
    budget: Option<Budget>,
    /// Find the smallest setting that runs, by bisection of the range, instead of a curve
    #[arg(long, conflicts_with_all = ["budget", "results", "csv", "html", "svg", "parquet", "markdown"])]
    min_heap: bool,
    /// Do not measure variants without the varied value
    #[arg(long)]
    no_default: bool,
    #[command(flatten)]
    hooks: Hooks,
    /// Run the command by a shell, its words joined by spaces
    #[arg(short = 'S', long)]
    shell: bool,
    /// The file on the command's standard input [default: nothing]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Seconds after which heaplab ends a run and counts it as failed
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0, value_parser = |text: &str| seconds(text, 0.001..=31_536_000.0))]
    timeout: f64,
    /// Also count runs that end with a status other than 0, or only with these statuses
    #[arg(short, long, value_name = "CODES", num_args = 0..=1, require_equals = true, default_missing_value = "all-non-zero", value_parser = IgnoredStatuses::parse)]
    ignore_failure: Option<IgnoredStatuses>,
    /// Where the command's output goes: null, pipe (for programs that notice null), inherit
    /// (shown), or a file, written anew by each run
    #[arg(long, value_name = "WHERE", default_value = "null", value_parser = Output::parse)]
    output: Output,
    /// Show the command's output, on standard error: --output inherit
    #[arg(long, conflicts_with = "output")]
    show_output: bool,
    /// Processors that the command runs on: numbers (0,2-3) or all [default: the last one]
    #[arg(long, value_name = "LIST", value_parser = Cores::parse)]
    cores: Option<Cores>,
    /// Milliseconds between two readings of memory
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    interval: u64,
    /// Keep blocks, results.json and runs.parquet here; finished runs are not repeated
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Run only blocks I, I + N, I + 2 N, ... (with --results)
    #[arg(long, value_name = "I/N", value_parser = shard, requires = "results")]
    shard: Option<(u32, u32)>,
    /// Seed of the order and of resampling
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the results as JSON (docs/curve.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    files: Files,
    /// Blocks of heaps that the driver writes: all, known (all but blocks requested zeroed), none
    #[arg(long, value_name = "WHICH", default_value = "known", requires = "bundle")]
    touch: Touch,
    /// The workload's process: pid (PID#2: its second program), name, or all [default: the largest]
    #[arg(long, value_name = "PROCESS", requires = "bundle")]
    process: Option<String>,
    /// Huge pages of heaps: none, or system (as the system is set and each heap requests)
    #[arg(long, value_name = "WHICH", default_value = "none", requires = "bundle")]
    huge_pages: HugePages,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Serve one run: its request as JSON on standard input, its report on standard output
    #[arg(long, hide = true)]
    cell: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["cell", "bundle"])]
    command: Vec<String>,
}

pub fn run(args: Args) -> Result<ExitCode> {
    if args.cell {
        measure::serve().context("a run cannot be served")?;
        return Ok(ExitCode::SUCCESS);
    }
    args.files.check().map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => UsageError(error.to_string()).into(),
        _ => anyhow::Error::from(error),
    })?;
    if let Some(bundle) = &args.bundle {
        return lab::run(&args, bundle);
    }
    let question = question(&args);
    let vary = question.varied();
    let plan = question.of_commands()?;
    plan.inherited(&args.command).iter().for_each(|note| eprintln!("heaplab: note: {note}"));
    let executable = own_file()?;
    interrupted(|stop| {
        let arguments = vec![String::from("curve"), String::from("--cell")];
        let source = Commands {
            executable,
            arguments,
            hooks: args.hooks.clone(),
            input: args.input.clone(),
            stop,
        };
        commands(&args, plan, vary, &source)
    })
}

/// Measures commands, between the hooks that run before and after all of them.
fn commands(args: &Args, mut plan: Plan, vary: String, source: &Commands) -> Result<ExitCode> {
    // The setup may make the program.
    plan.code_version = source.code_version(&plan).unwrap_or_default();
    if run::is_complete(&plan) {
        return finish(args, &plan, measure_all(&plan, source, args.quiet), vary);
    }
    source.set_up(&plan)?;
    if args.min_heap {
        let code = find_minimum(args, &plan, source)?;
        source.clean_up(&plan)?;
        return Ok(code);
    }
    plan.code_version = source.code_version(&plan).context("cannot read the command's own file")?;
    source.check_runtime(&mut plan)?;
    let measured = measure_all(&plan, source, args.quiet);
    let cleaned = if matches!(measured.ended, Some(Ended::Stopped(Stopped::Interrupted))) {
        Ok(())
    } else {
        source.clean_up(&plan)
    };
    let code = finish(args, &plan, measured, vary)?;
    cleaned?;
    Ok(code)
}

/// Shows the measurements of commands.
fn finish(args: &Args, plan: &Plan, measured: Measured, vary: String) -> Result<ExitCode> {
    let asked = Asked {
        command: shell::line(&args.command),
        vary,
        budget: args.budget.clone(),
        workload: None,
    };
    show_curves(args, plan, measured, &asked)
}

/// Runs the plan, with progress.
fn measure_all(plan: &Plan, source: &dyn CellSource, is_quiet: bool) -> Measured {
    // A bar would break the command's output up.
    let is_hidden = is_quiet || matches!(plan.settings.output, Output::Inherit);
    let bar = progress::bar(is_hidden, 0, "{bar:20} {pos}/{len} runs, {eta} left  {wide_msg}");
    let measured = run::run(plan, source, |now| {
        // Variants may be called anything.
        progress::show(&bar, now.done.into(), now.total.into(), &lines::one_line(&now.now))
    });
    bar.finish_and_clear();
    measured
}

/// Shows the measurements and writes their files.
fn show_curves(
    args: &Args,
    plan: &Plan,
    mut measured: Measured,
    asked: &Asked,
) -> Result<ExitCode> {
    // Show finished runs, whatever failed after them.
    if measured.blocks.is_empty()
        && let Some(ended) = measured.ended.take()
    {
        bail!(ended);
    }
    let results = summarize(plan, &measured, asked);
    answer::print_pretty(args.json, &results, || text::results(&results, terminal::columns()))?;
    let unwritten = write_files(args, plan, &measured, &results);
    // The first error ended the measuring. A full disk may then spoil files, too.
    let ended = measured.ended.map(anyhow::Error::from);
    let mut errors = ended.into_iter().chain(unwritten);
    if let Some(first) = errors.next() {
        errors.for_each(|error| eprintln!("heaplab: {}", terminal::output::message(error.chain())));
        return Err(first);
    }
    Ok(ExitCode::from(match results.has_runs() {
        false => 1,
        true if results.is_without_effect() => 2,
        true => 0,
    }))
}

/// Writes every file that can be written, and says which cannot.
fn write_files(
    args: &Args,
    plan: &Plan,
    measured: &Measured,
    results: &Results,
) -> Vec<anyhow::Error> {
    let runs = args.results.as_ref().map(|folder| folder.join("runs.parquet"));
    let files = args.files.written(runs.as_deref(), plan, measured, results);
    let written = files.into_iter().map(|file| {
        let content =
            file.content.with_context(|| format!("cannot write {}", file.path.display()))?;
        Ok(whole_file::write_bytes(file.path, file.is_binary, &content)?)
    });
    let json = args.results.iter().map(|folder| {
        Ok(heaplab_experiment::run::write_json(&folder.join("results.json"), results)?)
    });
    written.chain(json).filter_map(Result::err).collect()
}

fn find_minimum(args: &Args, plan: &Plan, source: &dyn CellSource) -> Result<ExitCode> {
    let bar = progress::line(args.quiet, "{spinner} {msg}");
    let found = minimum::find(plan, source, |now| {
        let now = lines::one_line(now);
        bar.set_message(format!("{now} ({} tries at most)", minimum::TRIES))
    });
    bar.finish_and_clear();
    let found = match found {
        Err(error @ MinimumError::NoNumber(_)) => return Err(UsageError(error.to_string()).into()),
        other => other?,
    };
    answer::print_pretty(args.json, &found, || text::minima(&found, terminal::columns()))?;
    Ok(ExitCode::from(u8::from(found.iter().all(|found| found.least.is_none()))))
}

/// The question, the same for commands and for heaps.
fn question(args: &Args) -> Question {
    let cores = match &args.cores {
        Some(Cores(cores)) => cores.clone(),
        None => process::last_processor().into_iter().collect(),
    };
    let settings = Settings {
        reps: args.reps,
        warmup: args.warmup,
        seed: args.seed,
        confidence: 0.95,
        time: TimeMeasure::default(),
        space: args.space,
        default: !args.no_default,
        timeout_ms: (args.timeout * 1e3) as u64,
        interval_ms: args.interval,
        cores,
        ignore_failure: args.ignore_failure.clone().unwrap_or_default(),
        output: if args.show_output { Output::Inherit } else { args.output.clone() },
        shell: args.shell,
    };
    Question {
        command: args.command.clone(),
        vary: args.vary.clone(),
        compare: args.compare.clone(),
        compare_commands: args.compare_command.clone(),
        names: args.command_name.clone(),
        time: args.time,
        settings,
        shard: args.shard,
        results: args.results.clone(),
    }
}
