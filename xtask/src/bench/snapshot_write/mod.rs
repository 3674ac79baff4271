//! `cargo xtask bench snapshot-write`: what writing a snapshot costs: the Generator and the Writer on a graph of V8's proportions, the strings' table under
//! each hash, line ends of a one-line script, and CPython's heap, each with its bound.

mod graph;
mod python;
mod script;
mod strings;

use super::release;
use anyhow::Result;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

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

/// Parts, each in a process of its own so that memory can be told apart.
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

/// Bounds looked at by this process, and those that are not met.
static BOUNDS: AtomicU32 = AtomicU32::new(0);
static MISSED: AtomicU32 = AtomicU32::new(0);

/// Runs the benchmark. Fails where a bound is not met.
pub fn run(args: &Args) -> Result<()> {
    if let Some(part) = args.part {
        match part {
            Part::Graph => graph::run(args.millions * 1_000_000)?,
            Part::Strings => strings::run()?,
            Part::Script => script::run()?,
            Part::Python => python::run()?,
        }
        let (bounds, missed) = (BOUNDS.load(Relaxed), MISSED.load(Relaxed));
        println!("\n{bounds} bounds, {missed} not met");
        anyhow::ensure!(missed == 0, "{missed} of {bounds} bounds not met");
        return Ok(());
    }
    if release::again()? {
        return Ok(());
    }
    let mut failed = Vec::new();
    for part in ["graph", "strings", "script", "python"] {
        let mut child = std::process::Command::new(std::env::current_exe()?);
        let status = child.args(["bench", "snapshot-write", "--part", part, "--millions", &args.millions.to_string()]).status()?;
        if !status.success() {
            failed.push(part);
        }
        println!();
    }
    anyhow::ensure!(failed.is_empty(), "a bound is not met, or could not be looked at, in: {}", failed.join(", "));
    Ok(())
}

/// A row with its bound.
fn row(what: &str, measured: f64, unit: &str, bound: f64) {
    let met = measured <= bound;
    BOUNDS.fetch_add(1, Relaxed);
    MISSED.fetch_add(u32::from(!met), Relaxed);
    println!("{what:<46} {measured:8.2} {unit:<5} <= {bound}: {}", if met { "met" } else { "MISSED" });
}

/// A number with commas, as documents have it.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::thousands;

    #[test]
    fn commas_stand_between_thousands() {
        assert_eq!([0, 999, 1000, 1_022_527].map(thousands), ["0", "999", "1,000", "1,022,527"]);
    }
}
