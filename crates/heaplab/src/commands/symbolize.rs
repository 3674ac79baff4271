//! `heaplab symbolize`: resolve functions, files and lines of a bundle again.

use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `heaplab symbolize`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> Result<ExitCode> {
    anyhow::bail!("heaplab symbolize is not built yet")
}
