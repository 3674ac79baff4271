//! `heaplab mark`: name this moment in a running recording.

use anyhow::Result;
use heaplab_profile::choose::is_of_every_recording;
use heaplab_record::mark::{self, MARK_HEADER, NAME_BYTES_MAX, Which};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/mark.txt"))]
pub struct Args {
    /// The moment's name
    #[arg(required_unless_present = "header")]
    name: Option<String>,
    /// Print heaplab.h, the header with the macro HEAPLAB_MARK, and mark nothing
    #[arg(long, conflicts_with_all = ["name", "recording", "pid"])]
    header: bool,
    /// The bundle that the running recording will write
    #[arg(
        long,
        short_alias = 'o',
        alias = "output",
        value_name = "BUNDLE",
        conflicts_with = "pid"
    )]
    recording: Option<PathBuf>,
    /// A process that is being recorded; the mark concerns it alone
    #[arg(long)]
    pid: Option<u32>,
}

pub fn run(args: Args) -> Result<ExitCode> {
    if args.header {
        print!("{MARK_HEADER}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = args.name.unwrap_or_default();
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        misasked!("a mark's name has 1 to {NAME_BYTES_MAX} bytes, this one {}", name.len());
    }
    if is_of_every_recording(&name) {
        misasked!("{name:?} names no mark: peak, end and times are moments of every recording");
    }
    if name.contains(char::is_control) {
        misasked!("{name:?} names no mark: it has a character that cannot be printed");
    }
    let which = match (args.recording, args.pid) {
        (Some(output), _) => Which::Output(output),
        (None, Some(pid)) => Which::Process(pid),
        (None, None) => Which::Only,
    };
    let spool = mark::find(&which)?;
    mark::set(&spool, &name, args.pid)?;
    Ok(ExitCode::SUCCESS)
}
