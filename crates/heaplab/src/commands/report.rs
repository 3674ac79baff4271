//! `heaplab report`: say where the bytes go and what to change.
//!
//! One pass reads the recording. A pass before it finds the largest of several processes, unless
//! the user named one; another one serves `--verify`.

use crate::answer::HtmlFile;
use crate::commands::own_file;
use crate::heaps::{self, FAMILIES};
use anyhow::{Context, Result};
use heaplab_experiment::kept_replays;
use heaplab_experiment::trial::Trial;
use heaplab_findings::Basis;
use heaplab_jvm::is_metaspace;
use heaplab_profile::ProcessPeak;
use heaplab_record::output;
use heaplab_report::{
    HeapAt, Question, Report, Saved, Tried, advice, analyse_whole, heap_at, json, page, select,
    text,
};
use heaplab_size_class::Allocator;
use heaplab_terminal::{self as terminal, progress};
use heaplab_trace::bundle::{Bundle, Selection};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/report.txt"))]
pub struct Args {
    /// The recording
    bundle: PathBuf,
    /// Write everything as one JSON document (docs/report-json.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: HtmlFile,
    /// Put source lines around each named place on the page; everyone with the page can read them
    #[arg(long, requires = "html")]
    sources: bool,
    /// The replay to show on the page: a file of `replay --json`, or a folder of `replay --results`
    /// [default: the recording's last replay, completed from earlier ones]
    #[arg(long, value_name = "RESULTS", requires = "html")]
    replay: Option<PathBuf>,
    /// Which process: its pid (PID#2: the second program of that pid), the name of its program, or
    /// all [default: the one with the largest peak]
    #[arg(long, value_name = "PID|NAME|all")]
    process: Option<String>,
    /// Show memory live at this moment
    #[arg(long, value_name = "MARK|TIME")]
    at: Option<String>,
    /// Show changes between two moments
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with = "at")]
    between: Option<Vec<String>>,
    /// How many findings, stacks and sizes to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Judge slop by this allocator [default: the recording's; a finding without cost there by
    /// jemalloc or mimalloc, whichever costs more]
    #[arg(long, value_name = "NAME", value_parser = parse_basis)]
    allocator: Option<Basis>,
    /// Show the blocks of a JVM's metaspace like other recordings', by loader and type of metadata
    #[arg(long)]
    blocks: bool,
    /// Show what a JVM's metaspace workload holds on a model (metaspace:jdk11, ...; repeatable) at
    /// each mark, and by kind of loader at the end or at --at
    #[arg(long, value_name = "METASPACE", conflicts_with_all = ["json", "html", "blocks", "between"])]
    model: Vec<String>,
    /// Run the workload on these heaps and show their pages: at the end, or with --at collection:N
    /// after the N-th collection of each (heaplab heaps lists heaps)
    #[arg(long, value_name = "HEAPS", conflicts_with_all = ["model", "between", "blocks"])]
    on: Option<String>,
    /// First check every row of the recording against the format and the possible order of events
    #[arg(long)]
    verify: bool,
    /// Try the advice of each finding, one by one, as heaplab what-if does, and show the measured
    /// saving beside the estimate (for as many findings as --top says)
    #[arg(long, conflicts_with_all = ["on", "model", "blocks"])]
    verify_savings: bool,
}

/// The allocator that judges slop, by its name.
pub fn parse_basis(text: &str) -> Result<Basis, String> {
    let names = || {
        let tables = Allocator::ALL.into_iter().chain(Allocator::NAMED).map(Allocator::name);
        format!("expected measured, {}", tables.collect::<Vec<_>>().join(", "))
    };
    Basis::from_name(text).ok_or_else(names)
}

pub fn run(args: Args) -> Result<ExitCode> {
    let bundle = output::open(&args.bundle)?;
    args.html.check()?;
    let heaps = args.on.as_deref().map_or(Ok(Vec::new()), heaps::on)?;
    heaps.iter().try_for_each(|heap| FAMILIES.walked(heap.as_ref()))?;
    verify(&args, &bundle)?;
    let (selection, peaks) = progress(&bundle, "looking for the largest process", |read| {
        select(&bundle, args.process.as_deref(), read)
    })?;
    let question = question(&args, &bundle, selection);
    let heaps_at = question.heaps_at(&heaps, args.at.as_deref())?;
    let look = terminal::look(args.top);
    let is_text = !args.json && !question.is_page;
    let is_metaspace = is_text && !args.blocks && is_metaspace(bundle.tables());
    if !args.model.is_empty() {
        print!("{}", question.on_models(&args.model)?)?;
    } else if !heaps.is_empty() && args.json && !question.is_page {
        println!("{}", heap_at::json(&heaps_at))?;
    } else if !heaps.is_empty() && is_text {
        print!("{}", heap_at::text(&heaps_at, look.width))?;
    } else if is_metaspace && args.between.is_none() {
        print!("{}", question.metaspace_text(&look)?)?;
    } else {
        report(&args, &question, peaks, &heaps_at)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The question that the arguments ask about a selection.
fn question<'a>(args: &'a Args, bundle: &'a Bundle, selection: Selection) -> Question<'a> {
    let is_page = args.html.is_asked_for();
    let between = args.between.as_deref();
    Question {
        bundle,
        selection,
        // With --on it is a moment of the heaps.
        at: args.at.as_deref().filter(|_| args.on.is_none()),
        between: between.and_then(|names| Some([names.first()?.as_str(), names.get(1)?.as_str()])),
        allocator: args.allocator,
        is_page,
        with_metaspaces: args.json || is_page || args.blocks,
    }
}

/// Reads the recording, and writes the report as text, as JSON, as a page, or as the last two.
fn report(
    args: &Args,
    question: &Question<'_>,
    peaks: Vec<ProcessPeak>,
    heaps_at: &[HeapAt],
) -> Result<()> {
    let Question { bundle, selection, .. } = *question;
    let answer = progress(bundle, "reading", |read| {
        question.answer(peaks, &mut |note| eprintln!("heaplab: {note}"), read)
    })?;
    let report = Report {
        what_if: &advice::command(&args.bundle, args.process.as_deref(), args.allocator),
        savings: &savings(args, bundle, selection)?,
        metaspaces: &answer.metaspaces(),
        heaps_at,
        ..Report::new(bundle, &answer.analysis, &answer.shown)
    };
    if question.is_page {
        write_page(args, &report)?;
    }
    if args.json {
        print!("{}", json::document(&report)?)?;
    } else if !question.is_page {
        let look = terminal::look(args.top);
        if !args.blocks && is_metaspace(bundle.tables()) {
            print!("{}", question.metaspace_text(&look)?)?;
        }
        print!("{}", text::report(&report, &look))?;
    }
    Ok(())
}

/// Writes the page, with the replays that the recording keeps or `--replay` names.
fn write_page(args: &Args, report: &Report<'_>) -> Result<()> {
    let replays =
        kept_replays::load(&args.bundle, report.process, args.replay.as_deref(), |error| {
            eprintln!("heaplab: the page has no replay: {error}; run heaplab replay again");
        })?;
    let page = page::page(&Report { replays: &replays, with_sources: args.sources, ..*report });
    args.html.write(|| page::html(&page))?;
    if let Some(sources) = &page.sources {
        eprintln!("heaplab: {}", sources.words());
    }
    Ok(())
}

/// Runs `read` behind a bar on a terminal. `read` reports the number of events read.
pub fn progress<T>(
    bundle: &Bundle,
    what: &'static str,
    read: impl FnOnce(&mut dyn FnMut(u64)) -> T,
) -> T {
    let template = "{msg} {wide_bar} {human_pos} of {human_len} events";
    let bar = progress::bar(false, bundle.meta().events, template).with_message(what);
    read(&mut |events| bar.inc(events))
}

/// Tries the advice of each finding by itself, for `--verify-savings`.
fn savings(args: &Args, bundle: &Bundle, selection: Selection) -> Result<Vec<Saved>> {
    if !args.verify_savings {
        return Ok(Vec::new());
    }
    let analysis =
        progress(bundle, "reading", |read| analyse_whole(bundle, selection, args.allocator, read))?;
    let folder = tempfile::tempdir().context("cannot make a folder for changed workloads")?;
    let limit = Duration::from_secs(600);
    let trial = Trial { executable: own_file()?, space_only: true, reps: 1, limit };
    let tried = Tried { bundle, selection, analysis: &analysis };
    let mut say = |line| eprintln!("{line}");
    Ok(tried.savings(args.top, &FAMILIES, &trial, folder.path(), &mut say)?)
}

/// Serves `--verify`: checks the whole recording and says so.
fn verify(args: &Args, bundle: &Bundle) -> Result<()> {
    if args.verify {
        bundle.verify()?;
        let path = args.bundle.display();
        eprintln!("{path}: every row is as the format and the order of events ask");
    }
    Ok(())
}
