//! `heaplab heaps`: list every heap there is, with its parameters.

use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `heaplab heaps`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> Result<ExitCode> {
    anyhow::bail!("heaplab heaps is not built yet")
}
