//! `heaplab report`: say where the bytes go and what to change.

use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `heaplab report`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> Result<ExitCode> {
    anyhow::bail!("heaplab report is not built yet")
}
