//! `heaplab mark`: name this moment in a running recording.

use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `heaplab mark`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> Result<ExitCode> {
    anyhow::bail!("heaplab mark is not built yet")
}
