//! `heaplab pressure`: a running program drops memory that it can make again.

use super::about::Show;
use anyhow::Result;
use heaplab_about::{Model, ask, difference};
use heaplab_text::words;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/pressure.txt"))]
pub struct Args {
    /// A process with reporters
    #[arg(value_parser = ask::process)]
    pid: u32,
    #[command(flatten)]
    show: Show,
}

pub fn run(args: Args) -> Result<ExitCode> {
    let patience = args.show.patience();
    let before = ask::report(args.pid, patience)?;
    let after = ask::pressure(args.pid, patience)?;
    match after.said.callbacks {
        Some(0) => eprintln!("heaplab: the program has no callback for memory pressure"),
        callbacks => {
            eprintln!("heaplab: {} ran", words::plural(callbacks.unwrap_or(0), "callback"));
        }
    }
    args.show.print(&Model::of_difference(&difference::between(&before, &after)))?;
    Ok(ExitCode::SUCCESS)
}
