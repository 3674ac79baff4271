//! Measurements whose figures stand in docs/benchmarks.md: one file a benchmark, peers in the same run.

mod measure;

use clap::{Args as ClapArgs, Subcommand};

/// Arguments of `cargo xtask bench`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {}

/// Runs the benchmark that was named.
pub fn run(args: Args) -> anyhow::Result<()> {
    match args.benchmark {}
}
