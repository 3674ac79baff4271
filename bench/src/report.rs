//! `cargo xtask bench report`: the cost of `heaplab report` on a program's recording, beside
//! heaptrack_print on heaptrack's of the same program in the same run; and the cost an event of the
//! pass behind a report. Checks also whether its memory grows with the number of events: it may
//! grow only with live objects and distinct stacks, and the generated workload has a fixed number
//! of both.

use super::readers::{self, Reader};
use anyhow::{Context, Result, bail};
use heaplab_findings::{Options, find};
use heaplab_profile::Profile;
use heaplab_trace::EventSource;
use heaplab_trace::generate::{Distribution, Generator};
use std::process::Command;

/// Arguments of `cargo xtask bench report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Millions of events of the long workload; the short one has a twentieth. 0: only the recorded
    /// program
    #[arg(long, default_value_t = 200)]
    millions: u64,
    #[command(flatten)]
    program: readers::Args,
    /// Analyse so many events once and print what it took (what the benchmark runs in a process of
    /// its own)
    #[arg(long, hide = true, requires = "what")]
    events: Option<u64>,
    /// With --events: which part
    #[arg(long, hide = true, value_enum)]
    what: Option<What>,
}

/// Parts of a report; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// The generator alone, to be subtracted.
    Generate,
    /// The profile.
    Profile,
    /// The findings watching it.
    Findings,
}

/// Largest allowed difference of resident memory between the two lengths: tables keyed by the
/// 20,000 live objects double late (chains of reallocations take up to 300 bytes an object). Over
/// 190 million more events that is 0.04 bytes an event.
const SLACK_KB: u64 = 8192;

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    if let (Some(events), Some(what)) = (args.events, args.what) {
        return analyse(events, what);
    }
    readers::bench(&[Reader::Report, Reader::HeaptrackPrint], &args.program)?;
    if args.millions == 0 {
        return Ok(());
    }
    println!("\ngenerated events, a process a row");
    for (what, name) in
        [(What::Generate, "generate"), (What::Profile, "profile"), (What::Findings, "findings")]
    {
        let mut resident = Vec::new();
        for events in [args.millions * 50_000, args.millions * 1_000_000] {
            let mut child = Command::new(std::env::current_exe()?);
            let output =
                child.args(["report", "--events", &events.to_string(), "--what", name]).output()?;
            if !output.status.success() {
                bail!(
                    "the analysing process failed ({}): {}",
                    output.status,
                    String::from_utf8_lossy(&output.stderr)
                );
            }
            let text = String::from_utf8(output.stdout)?;
            print!("{text}");
            let kilobytes =
                text.split_whitespace().rev().nth(1).and_then(|word| word.parse::<u64>().ok());
            resident.push(kilobytes.context("the analysing process printed no peak")?);
        }
        if what != What::Generate && resident[1] > resident[0] + SLACK_KB {
            bail!("memory grows with the events: {} kB, then {} kB", resident[0], resident[1]);
        }
    }
    println!("memory does not grow with the events (by less than {SLACK_KB} kB)");
    Ok(())
}

fn analyse(events: u64, what: What) -> Result<()> {
    let mut generator = Generator::new(Distribution::default(), events, 1);
    let tables = generator.tables();
    let options = heaplab_profile::ProfileOptions::default();
    let from = super::measure::cpu_ns()?;
    let (live, stacks) = match what {
        What::Generate => {
            generator.for_each(|_| Ok(()))?;
            (0, 0)
        }
        What::Profile => {
            let profile = Profile::of(&tables, &mut generator, &options)?;
            (profile.peak.live.objects, profile.stacks.len())
        }
        What::Findings => {
            let (profile, findings) = find(&tables, &mut generator, &options, Options::default())?;
            (profile.peak.live.objects, profile.stacks.len() + findings.limits.len())
        }
    };
    let ns = (super::measure::cpu_ns()? - from) as f64 / events as f64;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("VmHWM in /proc/self/status")?;
    let name = format!("{what:?}").to_lowercase();
    println!(
        "{events:>11} events {name:<8}: {ns:5.1} ns an event, {live} live, {stacks} stacks, resident {}",
        peak.trim()
    );
    Ok(())
}
