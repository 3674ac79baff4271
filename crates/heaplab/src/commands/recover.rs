//! `heaplab recover`: finish a recording whose heaplab died.

use super::recording::{self, Finishing};
use anyhow::{Result, bail};
use heaplab_record::summary::Summary;
use heaplab_record::{control, finish::FinishOptions, jvm, mark::spool_of, node, output};
use heaplab_terminal::bus::{self, Mapped};
use heaplab_text::shell::quoted;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/recover.txt"))]
pub struct Args {
    /// The spool folder (or the bundle's name)
    spool: PathBuf,
    /// The bundle to write [default: the spool's name without .spool]
    #[arg(short, long, value_name = "BUNDLE")]
    output: Option<PathBuf>,
    /// Replace a bundle of that name
    #[arg(long)]
    force: bool,
    /// Do not remove the spool
    #[arg(long)]
    keep_spool: bool,
    #[command(flatten)]
    contents: recording::Contents,
    /// Print the summary as one line of JSON, the last line on standard error
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<ExitCode> {
    bus::is_an_error(Mapped::Spool);
    let spool = if spool_of(&args.spool).is_dir() { spool_of(&args.spool) } else { args.spool };
    if control::is_running(&spool) {
        bail!(
            "{} belongs to a recording that is still running: it finishes itself when its program ends",
            spool.display()
        );
    }
    let output = args.output.unwrap_or_else(|| output::output_of(&spool));
    if !spool.is_dir() {
        bail!("there is no spool {}: a recording that was finished has none", spool.display());
    }
    if !spool.join(control::CONTROL_FILE).exists() && spool.join("meta.json").exists() {
        let bundle = quoted(&spool);
        misasked!(
            "{} is a finished recording, and nothing of it is left to recover: `heaplab report {bundle}` reads it",
            spool.display()
        );
    }
    output::check_bundle(&output, args.force)?;
    let of_a_runtime = if jvm::is_spool(&spool) {
        Some(Summary::of_jvms(&jvm::recover(&spool, &output, args.force)?))
    } else if node::is_spool(&spool) {
        Some(Summary::of_nodes(&node::recover(&spool, &output, args.force)?))
    } else {
        None
    };
    if let Some(summary) = of_a_runtime {
        if !args.keep_spool {
            output::discard_spool(&spool)?;
        }
        recording::report(&summary, args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let quiet = args.json;
    let finished = recording::finish(&Finishing {
        spool,
        output,
        options: FinishOptions { replace: args.force, ..args.contents.options() },
        quiet,
        keep_spool: args.keep_spool,
    })?;
    recording::report(&Summary::of(&finished, None), args.json)?;
    Ok(ExitCode::SUCCESS)
}
