//! `heaplab compare`: whether a change helped.

use super::report::progress;
use crate::answer::HtmlFile;
use anyhow::{Context, Result, bail};
use heaplab_compare::{Limit, Reducer, Run, json, page, text};
use heaplab_findings::Basis;
use heaplab_record::output;
use heaplab_report::{analyse, moments, select};
use heaplab_terminal as terminal;
use heaplab_trace::bundle::Bundle;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/compare.txt"), override_usage = "heaplab compare [OPTIONS] <BEFORE>... [--] <AFTER>...")]
pub struct Args {
    /// The recordings before the change: one, or several before `--`
    #[arg(required = true, value_name = "BEFORE")]
    before: Vec<PathBuf>,
    /// The recordings after the change
    #[arg(last = true, value_name = "AFTER")]
    after: Vec<PathBuf>,
    /// Compare memory live at this moment
    #[arg(long, value_name = "MARK|TIME", default_value = "peak")]
    at: String,
    /// The process in each recording: pid, program's name, or all [default: the largest peak]
    #[arg(long, value_name = "PID|NAME|all")]
    process: Option<String>,
    /// Judge findings by this allocator, as `heaplab report` does
    #[arg(long, value_name = "NAME", value_parser = super::report::parse_basis)]
    allocator: Option<Basis>,
    /// Fail (exit code 1) if live bytes grow by more than this: `2%`, `64kB`, `0`
    #[arg(long, value_name = "PERCENT|BYTES", value_parser = Limit::parse)]
    fail_over: Option<Limit>,
    /// How many findings, functions, stacks and sizes to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Write everything as one JSON document (docs/compare-json.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: HtmlFile,
}

pub fn run(args: Args) -> Result<ExitCode> {
    let (before, after) = sides(&args)?;
    args.html.check()?;
    let mut reducer = Reducer::default();
    let before = reduced(&args, &mut reducer, before)?;
    let after = reduced(&args, &mut reducer, after)?;
    let comparison = reducer.compare(before, after, &args.at);
    let written = args.html.write(|| page::html(&comparison))?;
    if args.json {
        print!("{}", json::document(&comparison)?)?;
    } else if !written {
        print!("{}", text::comparison(&comparison, &terminal::look(args.top)))?;
    }
    let Some(excess) = args.fail_over.and_then(|limit| limit.excess(&comparison)) else {
        return Ok(ExitCode::SUCCESS);
    };
    eprintln!("heaplab compare: {excess}");
    Ok(ExitCode::FAILURE)
}

/// Two recordings, or those before `--` and those behind.
fn sides(args: &Args) -> Result<(&[PathBuf], &[PathBuf])> {
    let option =
        args.after.iter().find(|path| path.as_os_str().as_encoded_bytes().starts_with(b"--"));
    if let Some(option) = option {
        misasked!(
            "{} stands behind --, where recordings are: put options before them",
            option.display()
        );
    }
    match (&args.before[..], &args.after[..]) {
        ([before], []) => misasked!(
            "{} is compared with nothing: name the recording after the change, too",
            before.display()
        ),
        ([_, _], []) => Ok(args.before.split_at(1)),
        (_, []) => misasked!(
            "which are before the change and which are after it? Put -- between them: heaplab compare a1 a2 a3 -- b1 b2 b3"
        ),
        (before, after) => Ok((before, after)),
    }
}

/// Reads recordings, one after the other.
fn reduced(args: &Args, reducer: &mut Reducer, paths: &[PathBuf]) -> Result<Vec<Run>> {
    let read = |path: &PathBuf| {
        let bundle = output::open(path)?;
        // With several recordings, an error has to name its own.
        reduced_one(args, reducer, &bundle).with_context(|| path.display().to_string())
    };
    paths.iter().map(read).collect()
}

fn reduced_one(args: &Args, reducer: &mut Reducer, bundle: &Bundle) -> Result<Run> {
    let (selection, _) = progress(bundle, "looking for the largest process", |read| {
        select(bundle, args.process.as_deref(), read)
    })?;
    let wanted = [args.at.clone()];
    let (requests, notes) =
        moments::requests(&wanted, bundle.tables(), bundle.meta().duration_ns, selection)?;
    notes.iter().for_each(|note| eprintln!("heaplab: {}: {note}", bundle.path().display()));
    let analysis = progress(bundle, "reading", |read| {
        analyse(bundle, selection, args.allocator, requests, read)
    })?;
    if analysis.profile.totals.requests == 0 {
        bail!("no allocation of this process was recorded");
    }
    let shown = moments::shown(&wanted, false, &analysis.profile)?;
    Ok(reducer.reduce(bundle, &analysis, &shown))
}
