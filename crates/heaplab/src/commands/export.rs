//! `heaplab export`: write a profile for another tool.

use crate::{choose, output};
use anyhow::Result;
use clap::ValueEnum;
use heaplab_export::{About, Detail, Export, Format, Moment, Weight};
use heaplab_profile::{MomentRequest, Options, profile};
use heaplab_trace::bundle::{Bundle, Selection};
use std::{
    io::{IsTerminal, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

const EXAMPLES: &str = "\
Examples:
  heaplab export app.heaplab --format pprof -o app.pb.gz          # go tool pprof app.pb.gz
  heaplab export app.heaplab --format speedscope -o app.json      # drop it on speedscope.app
  heaplab export app.heaplab --format firefox -o app.json         # load it in profiler.firefox.com
  heaplab export app.heaplab --format dhat -o app.json            # open it in valgrind's dh_view.html
  heaplab export app.heaplab --format collapsed --at loaded -o - | flamegraph.pl > app.svg

Every format but dhat shows what was in use at the moment --at, and what was allocated over the whole
run; dhat holds the peak and the end both. Sums are those of `heaplab report`.";

/// Arguments of `heaplab export`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The recording
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// What to write
    #[arg(long, short, value_enum)]
    format: FormatName,
    /// Where to write it; - is standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// When memory is in use: peak, end, the name of a mark, or a time such as 1.5s
    #[arg(long, value_name = "MOMENT", default_value = "peak")]
    at: String,
    /// Pid (PID#2: its second program) or program name of the process to show, or all; by default the one with the largest peak
    #[arg(long, value_name = "PROCESS")]
    process: Option<String>,
    /// The one number that collapsed stacks have room for
    #[arg(long, value_enum, value_name = "WEIGHT", default_value = "in-use-bytes")]
    weight: WeightName,
}

/// The formats, as they are called on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatName {
    /// Protobuf of pprof, gzipped
    Pprof,
    /// JSON of speedscope
    Speedscope,
    /// One line a stack, for flame graph scripts
    Collapsed,
    /// JSON of the Firefox Profiler
    Firefox,
    /// JSON of valgrind's DHAT viewer
    Dhat,
}

/// The weights, as they are called on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WeightName {
    /// Bytes in use at the moment
    InUseBytes,
    /// Objects in use at the moment
    InUseObjects,
    /// Bytes of all requests
    AllocatedBytes,
    /// All requests
    AllocatedObjects,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let format = format(&args);
    let misused = match format {
        Format::Pprof if args.output == Path::new("-") && stdout().is_terminal() => {
            Some("a pprof file is binary and standard output is a terminal: write to a file with -o FILE, or into a pipe")
        }
        Format::Dhat if args.at != "peak" && args.at != "end" => {
            Some("a DHAT file holds the peak and the end, and no other moment: leave --at out, or choose another format")
        }
        Format::Pprof | Format::Speedscope | Format::Firefox | Format::Dhat if args.weight != WeightName::InUseBytes => {
            Some("--weight is for collapsed stacks; the other formats hold all weights")
        }
        _ => None,
    };
    if let Some(misused) = misused {
        misasked!("{misused}");
    }
    let bundle = choose::open(&args.bundle)?;
    let selection = choose::process(&bundle, args.process.as_deref())?;
    let mut options = Options::default();
    let moment = match choose::moment(bundle.tables(), selection, &args.at)? {
        choose::Moment::Peak => Moment::Peak,
        choose::Moment::End => Moment::End,
        choose::Moment::At(at) => {
            options.moments.push(MomentRequest { name: args.at.clone(), at });
            Moment::Asked(0)
        }
    };
    let mut detail = Detail::new(bundle.meta().duration_ns > 0);
    let profile = profile(bundle.tables(), &mut bundle.events(selection)?, &options, &mut detail).map_err(choose::of_recording(&bundle))?;
    let about = about(&bundle, selection);
    let export = Export { tables: bundle.tables(), profile: &profile, detail: &detail, moment, about };
    output::write(&args.output, format == Format::Pprof, |mut out| Ok(export.write(format, &mut out)?))?;
    Ok(ExitCode::SUCCESS)
}

fn format(args: &Args) -> Format {
    let weight = match args.weight {
        WeightName::InUseBytes => Weight::InUseBytes,
        WeightName::InUseObjects => Weight::InUseObjects,
        WeightName::AllocatedBytes => Weight::AllocatedBytes,
        WeightName::AllocatedObjects => Weight::AllocatedObjects,
    };
    match args.format {
        FormatName::Pprof => Format::Pprof,
        FormatName::Speedscope => Format::Speedscope,
        FormatName::Collapsed => Format::Collapsed(weight),
        FormatName::Firefox => Format::Firefox,
        FormatName::Dhat => Format::Dhat,
    }
}

/// The title: the process's own command, or the recording's where all are shown.
fn about(bundle: &Bundle, selection: Selection) -> About {
    let processes = &bundle.tables().processes;
    let only = selection.process.or(if processes.len() == 1 { Some(0) } else { None });
    let process = only.and_then(|row| processes.get(row as usize));
    let command = process.map(|process| process.arguments.join(" ")).filter(|command| !command.is_empty());
    About {
        program: command.unwrap_or_else(|| bundle.meta().program.clone()),
        pid: process.map_or(0, |process| process.pid),
        began_unix_s: bundle.meta().began_unix_s,
    }
}
