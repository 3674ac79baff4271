//! `heaplab import`: turn another tool's trace into a bundle.

use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `heaplab import`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> Result<ExitCode> {
    anyhow::bail!("heaplab import is not built yet")
}
