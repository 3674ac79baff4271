//! `heaplab mark`: name this moment in a running recording.

use anyhow::{Result, bail};
use heaplab_record::mark::{self, NAME_BYTES_MAX, Which};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `heaplab mark`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  heaplab mark loaded                        in the only recording that runs
  heaplab mark -o app.heaplab 'all closed'   in the one that will write app.heaplab
  heaplab mark --pid 4711 loaded             in the one that process 4711 belongs to

`heaplab report --at loaded` then shows that moment, `--between loaded closed` the time between two.")]
pub struct Args {
    /// The moment's name
    name: String,
    /// The bundle that the recording will write
    #[arg(short, long, value_name = "BUNDLE", conflicts_with = "pid")]
    output: Option<PathBuf>,
    /// A process that is being recorded; the mark concerns it alone
    #[arg(long)]
    pid: Option<u32>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.name.is_empty() || args.name.len() > NAME_BYTES_MAX {
        bail!("a mark's name has 1 to {NAME_BYTES_MAX} bytes, this one {}", args.name.len());
    }
    let which = match (args.output, args.pid) {
        (Some(output), _) => Which::Output(output),
        (None, Some(pid)) => Which::Process(pid),
        (None, None) => Which::Only,
    };
    let spool = mark::find(&which)?;
    mark::set(&spool, &args.name, args.pid)?;
    Ok(ExitCode::SUCCESS)
}
