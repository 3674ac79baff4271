//! `heaplab what-if`: the saving of a change, predicted before anybody touches the code.
//!
//! It changes the recording, writes the changed one as a bundle, and replays both.

use super::replay;
use super::report::progress;
use crate::answer::HtmlFile;
use crate::commands::own_file;
use crate::usage_error::UsageError;
use crate::{answer, heaps};
use anyhow::{Result, bail};
use heaplab_experiment::trial::Trial;
use heaplab_findings::Basis;
use heaplab_record::output;
use heaplab_report::{WhatIf, advice, analyse_whole, profile_of, select};
use heaplab_terminal as terminal;
use heaplab_terminal::bus::{self, Mapped};
use heaplab_terminal::progress;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_what_if::{
    Changed, Changer, Rule, RuleOptions, WhatIfError, beside, change, is_recording,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/what-if.txt"))]
pub struct Args {
    /// The recording
    bundle: PathBuf,
    /// Make the change that a finding advises: its number in `heaplab report`, its function, or
    /// all-clownshoes, all-growth, all-churn, all-leaks
    #[arg(long, value_name = "FINDING")]
    fix: Vec<String>,
    #[command(flatten)]
    rules: RuleOptions,
    /// The changed bundle; it never replaces a recording [default: NAME.what-if.heaplab]
    #[arg(short, long, value_name = "BUNDLE")]
    output: Option<PathBuf>,
    /// The heaps, with parameters (heaplab heaps lists them)
    #[arg(long, value_name = "HEAPS", default_value = "glibc,jemalloc,mimalloc")]
    on: String,
    /// Blocks of time cells
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    reps: u32,
    /// Measure space only
    #[arg(long)]
    space: bool,
    /// The process: its pid (PID#2: its second program), its program's name, or all [default: the
    /// one with the largest peak]
    #[arg(long, value_name = "PID|NAME|all")]
    process: Option<String>,
    /// Judge findings by this allocator, as `heaplab report` does
    #[arg(long, value_name = "NAME", value_parser = super::report::parse_basis)]
    allocator: Option<Basis>,
    /// Seconds after which a cell counts as failed
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    limit: u64,
    /// Write the results as JSON (docs/what-if-json.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: HtmlFile,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

pub fn run(args: Args) -> Result<ExitCode> {
    bus::is_an_error(Mapped::Program);
    args.html.check()?;
    let bundle = output::open(&args.bundle)?;
    let specs = heaps::on(&args.on)?;
    let (selection, _) = progress(&bundle, "looking for the largest process", |read| {
        select(&bundle, args.process.as_deref(), read)
    })?;
    let asked = rules(&args)?;
    // Refuse unknown functions before reading the recording.
    Changer::new(bundle.tables(), &asked, selection.process)
        .map_err(|error| UsageError(error.to_string()))?;
    let analysis = progress(&bundle, "reading", |read| {
        analyse_whole(&bundle, selection, args.allocator, read)
    })?;
    if analysis.profile.totals.requests == 0 {
        bail!("{}: no allocation of this process was recorded", args.bundle.display());
    }
    let advised = args.rules.excepted(advice::rules(&args.fix, &analysis.findings)?);
    let rules = [advised, asked].concat();
    let path = args.output.clone().unwrap_or_else(|| beside(&args.bundle));
    if is_recording(&path) {
        bail!("{}: is a recording and would be replaced; name another with -o", path.display());
    }
    let changed = write(&bundle, &rules, selection, &path, args.quiet)?;
    let after = Bundle::open(&path)?;
    let profile_after = progress(&after, "reading", |read| profile_of(&after, selection, read))?;
    let (executable, limit) = (own_file()?, Duration::from_secs(args.limit));
    let trial = Trial { executable, space_only: args.space, reps: args.reps, limit };
    let bar = replay::progress_bar(args.quiet);
    let show = |now: &_| replay::show_progress(&bar, now);
    let replay = trial.replay([&bundle, &after], selection, &specs, show);
    bar.finish_and_clear();
    let replay = replay?;
    let whatif = WhatIf::new(&path, &rules, changed, [&analysis.profile, &profile_after], replay);
    let is_written = args.html.write(|| whatif.page())?;
    if args.json || !is_written {
        answer::print_pretty(args.json, &whatif, || whatif.text(&path, terminal::columns()))?;
    }
    let measured = whatif.replay.after.heaps.iter().any(|heap| heap.space.is_some());
    Ok(if measured { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The requested changes, without those of findings.
fn rules(args: &Args) -> Result<Vec<Rule>> {
    let rules = args.rules.rules().map_err(|error| UsageError(error.to_string()))?;
    if rules.is_empty() && args.fix.is_empty() {
        misasked!(
            "nothing is changed: ask for --fix, --size, --grow, --cap, --reuse, --drop or --arena (heaplab what-if --help has examples)"
        );
    }
    Ok(rules)
}

fn write(
    bundle: &Bundle,
    rules: &[Rule],
    selection: Selection,
    path: &Path,
    quiet: bool,
) -> Result<Changed> {
    let template = "changing {wide_bar} {human_pos} of {human_len} events";
    let bar = progress::bar(quiet, bundle.meta().events, template);
    let changed = change(bundle, rules, selection.process, path, |read| bar.set_position(read));
    bar.finish_and_clear();
    changed.map_err(|error| match error {
        WhatIfError::Trace(error) => heaplab_profile::choose::of_recording(bundle)(error).into(),
        asked => UsageError(asked.to_string()).into(),
    })
}
