//! `heaplab report`: say where the bytes go and what to change.
//!
//! The recording is read once; once more before that where it holds several processes and none was
//! named, to find the largest, and where `--verify` asks for it.

mod savings;

use crate::answer::HtmlFile;
use crate::heaps::FAMILIES;
use anyhow::Result;
use heaplab_experiment::kept;
use heaplab_findings::Basis;
use heaplab_jvm::jvms;
use heaplab_record::output;
use heaplab_report::{
    Analysis, DEFAULT_MODEL, HeapAt, JvmMetaspace, Report, analyse, analyse_for_page, json,
    metaspace, moments, on_model, page, select, text,
};
use heaplab_terminal::{self as terminal, progress};
use heaplab_text::paint::Look;
use heaplab_text::shell::quoted;
use heaplab_text::words;
use heaplab_trace::bundle::{Bundle, Selection};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `heaplab report`.
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
    /// Put lines of source files on the page, around the places that it names, where the files are
    /// on this machine: who gets the page can read them
    #[arg(long, requires = "html")]
    sources: bool,
    /// The replay that the page shows: a file of `replay --json`, or a folder of `replay --results`
    /// [default: the recording's last replay, and earlier ones that measured what it did not]
    #[arg(long, value_name = "RESULTS", requires = "html")]
    replay: Option<PathBuf>,
    /// Which process: its pid (PID#2: the second program of that pid), the name of its program, or
    /// all [default: the one with the largest peak]
    #[arg(long, value_name = "PID|NAME|all")]
    process: Option<String>,
    /// Show what is live at this moment
    #[arg(long, value_name = "MARK|TIME")]
    at: Option<String>,
    /// Show what changed between two moments
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with = "at")]
    between: Option<Vec<String>>,
    /// How many findings, stacks and sizes to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Judge slop by this allocator [default: the one recorded under; what costs nothing there, by
    /// the one of jemalloc and mimalloc on which it costs most]
    #[arg(long, value_name = "NAME", value_parser = parse_basis)]
    allocator: Option<Basis>,
    /// Of a JVM's metaspace, show its blocks as those of any other recording: by loader and type of
    /// metadata
    #[arg(long)]
    blocks: bool,
    /// Of a JVM's metaspace, show what the same workload holds on a model (metaspace:jdk11,
    /// metaspace:jdk17, ...) at each mark, and by kind of loader at the end or at --at; several
    /// times for several models
    #[arg(long, value_name = "METASPACE", conflicts_with_all = ["json", "html", "blocks", "between"])]
    model: Vec<String>,
    /// Show the pages of this heap when it has run the workload: at the end, or with --at
    /// collection:N after its N-th collection (heaplab heaps lists the heaps)
    #[arg(long, value_name = "HEAP", conflicts_with_all = ["json", "model", "between", "blocks"])]
    on: Option<String>,
    /// Check first that the recording is whole: every row against the format and against what a
    /// program can do
    #[arg(long)]
    verify: bool,
    /// Try what the findings advise, one by one, as heaplab what-if does, and show what each saves
    /// on its allocator beside what was estimated (as many as --top says)
    #[arg(long, conflicts_with_all = ["html", "on", "model", "blocks"])]
    verify_savings: bool,
}

/// An allocator to judge by, by its name.
pub fn parse_basis(text: &str) -> Result<Basis, String> {
    let names = || {
        let tables = heaplab_size_class::Allocator::ALL.map(|allocator| allocator.name());
        format!("expected measured, {}", tables.join(", "))
    };
    Basis::from_name(text).ok_or_else(names)
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let bundle = output::open(&args.bundle)?;
    args.html.check()?;
    let (selection, peaks) = progress(&bundle, "looking for the largest process", |read| {
        select(&bundle, args.process.as_deref(), read)
    })?;
    let heap_at = heap_at(&args, &bundle, selection)?;
    let at = if heap_at.is_some() { None } else { args.at.clone() };
    let wanted: Vec<String> =
        at.iter().cloned().chain(args.between.iter().flatten().cloned()).collect();
    verify(&args, &bundle)?;
    let look = terminal::look(args.top);
    let jvms = jvms(bundle.tables(), selection);
    if !args.model.is_empty() {
        return print_models(&args, &bundle, &jvms);
    }
    if let Some(heap_at) = heap_at.as_ref().filter(|_| !args.html.is_asked_for()) {
        print!("{}", heap_at.text(look.width))?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_text = !args.json && !args.html.is_asked_for() && !args.blocks;
    let is_metaspace = heaplab_jvm::is_metaspace(bundle.tables());
    if is_text && args.between.is_none() && is_metaspace {
        return print_metaspaces(&args, &bundle, &jvms, &look);
    }
    let metaspaces =
        if is_text { Vec::new() } else { metaspace::of_each(&bundle, &jvms, args.at.as_deref())? };
    let (moments, notes) =
        moments::requests(&wanted, bundle.tables(), bundle.meta().duration_ns, selection)?;
    notes.iter().for_each(|note| eprintln!("heaplab: {note}"));
    let analysis = progress(&bundle, "reading", |read| {
        let analyse = if args.html.is_asked_for() { analyse_for_page } else { analyse };
        analyse(&bundle, selection, args.allocator, moments, read)
    })?;
    let analysis = Analysis { peaks, ..analysis };
    let savings = match args.verify_savings {
        true => savings::verified(&bundle, selection, args.allocator, &analysis, args.top)?,
        false => Vec::new(),
    };
    let shown = moments::shown(&wanted, args.between.is_some(), &analysis.profile)?;
    let moment = args.at.as_ref().map_or(String::from("At the end"), |name| format!("At {name}"));
    let of_jvms: Vec<JvmMetaspace<'_>> = metaspaces
        .iter()
        .map(|of| JvmMetaspace {
            process: of.process,
            report: &of.report,
            findings: &of.findings,
            moment: &moment,
        })
        .collect();
    let report = Report {
        what_if: &what_if(&args),
        savings: &savings,
        metaspaces: &of_jvms,
        heap_at: heap_at.as_ref(),
        ..Report::new(&bundle, &analysis, &shown)
    };
    if args.html.is_asked_for() {
        let replays =
            kept::load(&args.bundle, analysis.process, args.replay.as_deref(), |error| {
                eprintln!("heaplab: the page has no replay: {error}; run heaplab replay again");
            })?;
        let page = page::page(&Report { replays: &replays, with_sources: args.sources, ..report });
        args.html.write(|| page::html(&page))?;
        if let Some(sources) = &page.sources {
            eprintln!("heaplab: {}", source_words(sources));
        }
        if !args.json {
            return Ok(ExitCode::SUCCESS);
        }
    }
    if args.json {
        print!("{}", json::document(&report)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for moments in args.between.iter().filter(|_| is_text && is_metaspace) {
        for jvm in &jvms {
            print_between(&bundle, *jvm, moments, &look)?;
        }
    }
    print!("{}", text::report(&report, &look))?;
    Ok(ExitCode::SUCCESS)
}

/// What of the source files the page holds.
fn source_words(sources: &page::model::Sources) -> String {
    let folder = |path: &String| Path::new(path).parent().map(|path| path.display().to_string());
    let mut folders: Vec<String> = sources.files.iter().filter_map(folder).collect();
    folders.dedup();
    let more = folders.len().saturating_sub(3);
    folders.truncate(3);
    let more = if more > 0 { format!(" and {more} more folders") } else { String::new() };
    let from = if folders.is_empty() {
        String::new()
    } else {
        format!(" in {}{more}", folders.join(", "))
    };
    format!(
        "the page holds {} around places in {}{from}; {} that debug information names could not be \
         read",
        words::plural(sources.excerpts.len() as u64, "excerpt"),
        words::plural(sources.files.len() as u64, "file"),
        words::plural(sources.missing_files as u64, "file"),
    )
}

/// Runs `read`, which says how many events it has read, behind a bar on a terminal.
pub fn progress<T>(
    bundle: &Bundle,
    what: &'static str,
    read: impl FnOnce(&mut dyn FnMut(u64)) -> T,
) -> T {
    let template = "{msg} {wide_bar} {human_pos} of {human_len} events";
    let bar = progress::bar(false, bundle.meta().events, template).with_message(what);
    read(&mut |events| bar.inc(events))
}

/// Prints what changed in one JVM's metaspace between two moments.
fn print_between(bundle: &Bundle, jvm: u32, moments: &[String], look: &Look) -> Result<()> {
    let [from, to] = moments else { return Ok(()) };
    let both = (metaspace::look(bundle, jvm, Some(from))?, metaspace::look(bundle, jvm, Some(to))?);
    let (Some(before), Some(after)) = both else { return Ok(()) };
    Ok(print!("{}", text::metaspace::between((from, &before), (to, &after), look))?)
}

/// Checks the whole recording and says so, where that was asked for.
fn verify(args: &Args, bundle: &Bundle) -> Result<()> {
    if args.verify {
        bundle.verify()?;
        let path = args.bundle.display();
        eprintln!("{path}: every row is as the format and the order of events ask");
    }
    Ok(())
}

/// The command that tries a finding of this report, but for its number.
fn what_if(args: &Args) -> String {
    let mut command = format!("heaplab what-if {}", quoted(&args.bundle));
    if let Some(process) = &args.process {
        command += &format!(" --process {}", quoted(Path::new(process)));
    }
    if let Some(basis) = args.allocator {
        command += &format!(" --allocator {}", basis.name());
    }
    command + " --fix "
}

/// Prints what each JVM's metaspace held; where the recording has no chunks, what was asked of it
/// and what a model makes of that.
fn print_metaspaces(args: &Args, bundle: &Bundle, jvms: &[u32], look: &Look) -> Result<ExitCode> {
    let at = args.at.as_deref();
    if heaplab_jvm::has_chunks(bundle.tables()) {
        for of in metaspace::of_each(bundle, jvms, at)? {
            print!("{}", text::metaspace::text(bundle, &of, at, look))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    for jvm in jvms {
        let asked = metaspace::asked_of(bundle, *jvm, at)?;
        print!("{}", text::metaspace::asked_text(bundle, *jvm, &asked, at, DEFAULT_MODEL, look))?;
        // The peak of what was asked for is no moment of a model.
        let moment = at.filter(|at| *at != "peak");
        print!("{}", on_model(bundle, *jvm, DEFAULT_MODEL, moment)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what each model of `--model` makes of each JVM.
fn print_models(args: &Args, bundle: &Bundle, jvms: &[u32]) -> Result<ExitCode> {
    for jvm in jvms {
        for name in &args.model {
            print!("{}", on_model(bundle, *jvm, name, args.at.as_deref())?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The heap of `--on`, when it has run the workload.
fn heap_at(args: &Args, bundle: &Bundle, selection: Selection) -> Result<Option<HeapAt>> {
    let Some(name) = &args.on else { return Ok(None) };
    let heap = FAMILIES.parse(name)?;
    FAMILIES.walked(heap.as_ref())?;
    let (at, for_page) = (args.at.as_deref(), args.html.is_asked_for());
    // The page draws free bytes by category, of a heap that tells them when asked.
    let telling = for_page.then(|| FAMILIES.parse(&format!("{name},categories=true")).ok());
    let runs = telling.flatten();
    let runs = runs.as_deref().unwrap_or(heap.as_ref());
    let shown = HeapAt::run(bundle, selection, runs, at, for_page)?;
    Ok(Some(HeapAt { heap: heap.to_string(), ..shown }))
}
