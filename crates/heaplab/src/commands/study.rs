//! `heaplab study`: rerun a published experiment and print its claims beside what is measured.

use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `heaplab study`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> Result<ExitCode> {
    anyhow::bail!("heaplab study is not built yet")
}
