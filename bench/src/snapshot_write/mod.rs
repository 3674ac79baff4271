//! `cargo xtask bench snapshot-write`: the cost of writing a snapshot: the Generator and the Writer
//! on a graph of V8's proportions, the strings' table under each hash, line ends of a one-line
//! script, and CPython's heap, each with its bound.

mod graph;
mod python;
mod script;
mod strings;

use super::bounds::Bounds;
use anyhow::Result;

/// Arguments of `cargo xtask bench snapshot-write`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Millions of nodes; edges are 20/6 times as many
    #[arg(long, default_value_t = 6)]
    millions: u64,
    /// Runs one part and prints it (what the benchmark runs in a process of its own)
    #[arg(long, hide = true, value_enum)]
    part: Option<Part>,
}

/// Parts, each in a process of its own, which keeps their memory apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Generator and Writer.
    Graph,
    /// StringsStorage.
    Strings,
    /// Line ends.
    Script,
    /// CPython's heap.
    Python,
}

/// Runs the benchmark. Fails if a bound is not met.
pub fn run(args: &Args) -> Result<()> {
    if let Some(part) = args.part {
        let mut bounds = Bounds::default();
        match part {
            Part::Graph => graph::run(args.millions * 1_000_000, &mut bounds)?,
            Part::Strings => strings::run(&mut bounds)?,
            Part::Script => script::run(&mut bounds)?,
            Part::Python => python::run(&mut bounds)?,
        }
        return bounds.finish();
    }
    let mut failed = Vec::new();
    for part in ["graph", "strings", "script", "python"] {
        let mut child = std::process::Command::new(std::env::current_exe()?);
        let status = child
            .args(["snapshot-write", "--part", part, "--millions", &args.millions.to_string()])
            .status()?;
        if !status.success() {
            failed.push(part);
        }
        println!();
    }
    anyhow::ensure!(
        failed.is_empty(),
        "a bound is not met, or could not be looked at, in: {}",
        failed.join(", ")
    );
    Ok(())
}
