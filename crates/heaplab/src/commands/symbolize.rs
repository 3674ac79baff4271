//! `heaplab symbolize`: resolve functions, files and lines of a bundle again.
//!
//! Recording resolves them already. This command is for debug files that were installed later, and
//! for recordings from another machine.

use crate::answer;
use anyhow::Result;
use heaplab_record::output;
use heaplab_record::symbolize::{listing, symbolize};
use heaplab_symbols::Options;
use heaplab_terminal as terminal;
use heaplab_terminal::bus::{self, Mapped};
use std::{path::PathBuf, process::ExitCode};

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/symbolize.txt"))]
pub struct Args {
    /// The recording
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// A folder of debug files, searched before /usr/lib/debug (may be repeated)
    #[arg(long, value_name = "DIR")]
    debug_dir: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<ExitCode> {
    bus::is_an_error(Mapped::Modules);
    let mut bundle = output::open(&args.bundle)?;
    let mut options = Options::default();
    options.debug_dirs.splice(0..0, args.debug_dir);
    let mut tables = bundle.tables().clone();
    let modules = symbolize(&mut tables, &options);
    bundle.rewrite_frames(tables.frames)?;
    let text = || listing::text(&modules, terminal::columns());
    answer::print_pretty(args.json, &listing::json(&modules), text)?;
    Ok(ExitCode::SUCCESS)
}
