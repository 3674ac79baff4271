//! `heaplab recover`: finish a recording whose heaplab died.

use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `heaplab recover`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> Result<ExitCode> {
    anyhow::bail!("heaplab recover is not built yet")
}
