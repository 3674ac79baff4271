//! `cargo xtask bench snapshot-write`: what writing a snapshot costs: the Generator and the Writer on a graph of V8's proportions, the strings' table under
//! each hash, line ends of a one-line script, and CPython's heap, each with its bound.

mod graph;
mod python;
mod script;
mod strings;

use super::release;
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

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    match args.part {
        Some(Part::Graph) => return graph::run(args.millions * 1_000_000),
        Some(Part::Strings) => return strings::run(),
        Some(Part::Script) => return script::run(),
        Some(Part::Python) => return python::run(),
        None => {}
    }
    if release::again()? {
        return Ok(());
    }
    for part in ["graph", "strings", "script", "python"] {
        let mut child = std::process::Command::new(std::env::current_exe()?);
        let status = child.args(["bench", "snapshot-write", "--part", part, "--millions", &args.millions.to_string()]).status()?;
        if !status.success() {
            anyhow::bail!("part {part} failed ({status})");
        }
        println!();
    }
    Ok(())
}

/// A row with its bound.
fn row(what: &str, measured: f64, unit: &str, bound: f64) {
    println!("{what:<46} {measured:8.2} {unit:<5} <= {bound}: {}", if measured <= bound { "met" } else { "MISSED" });
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
