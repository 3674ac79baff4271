//! `heaplab export`: write a profile for another tool.

use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `heaplab export`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> Result<ExitCode> {
    anyhow::bail!("heaplab export is not built yet")
}
