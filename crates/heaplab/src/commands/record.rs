//! `heaplab record`: record what a program allocates.

use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `heaplab record`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> Result<ExitCode> {
    anyhow::bail!("heaplab record is not built yet")
}
