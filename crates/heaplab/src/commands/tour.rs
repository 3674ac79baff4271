//! `heaplab tour`: record, report and replay, shown on a bundled recording.

use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `heaplab tour`.
#[derive(Debug, Default, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> Result<ExitCode> {
    anyhow::bail!("heaplab tour is not built yet")
}
