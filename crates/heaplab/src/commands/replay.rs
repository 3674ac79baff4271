//! `heaplab replay`: run a recorded workload on other heaps.

use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `heaplab replay`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> Result<ExitCode> {
    anyhow::bail!("heaplab replay is not built yet")
}
