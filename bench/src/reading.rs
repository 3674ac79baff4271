//! `cargo xtask bench reading`: time an event to read a program's bundle, beside other readers of
//! Parquet and heaptrack's reader of its own file in the same run. Checks also whether memory grows
//! with a bundle's length.

use super::measure;
use super::readers::{self, Reader};
use anyhow::{Context, Result, bail};
use heaplab_trace::bundle::{Bundle, BundleWriter, Meta, Selection};
use heaplab_trace::generate::{Distribution, Generator};
use heaplab_trace::{EventSink, EventSource};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `cargo xtask bench reading`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Millions of events of the long bundle; the short one has a twentieth. 0: only the recorded
    /// program
    #[arg(long, default_value_t = 200)]
    millions: u64,
    #[command(flatten)]
    program: readers::Args,
    /// Read this bundle once and print what it took (what the benchmark runs in a process of its
    /// own)
    #[arg(long, hide = true)]
    read: Option<PathBuf>,
    /// With --read: check the order of events too
    #[arg(long, hide = true)]
    verify: bool,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    if let Some(path) = &args.read {
        return read(path, args.verify);
    }
    let heaptrack = [Reader::Decompressed, Reader::HeaptrackPrint];
    readers::bench(
        &[&[Reader::Events, Reader::Verified, Reader::DuckDb, Reader::Pyarrow][..], &heaptrack]
            .concat(),
        &args.program,
    )?;
    if args.millions == 0 {
        return Ok(());
    }
    println!("\ngenerated bundles, a process a row");
    let folder = tempfile::tempdir()?;
    for events in [args.millions * 50_000, args.millions * 1_000_000] {
        let path = folder.path().join(format!("{events}.heaplab"));
        let mut generator = Generator::new(Distribution::default(), events, 1);
        let tables = generator.tables();
        let mut writer = BundleWriter::create(&path)?;
        generator.for_each(|event| writer.push(event))?;
        writer.finish(&tables, Meta::default())?;
        for mode in [&[][..], &["--verify"][..]] {
            let reader = Command::new(std::env::current_exe()?)
                .args(["reading", "--read"])
                .arg(&path)
                .args(mode)
                .status()?;
            if !reader.success() {
                bail!("the reading process failed ({reader})");
            }
        }
    }
    Ok(())
}

fn read(path: &Path, verify: bool) -> Result<()> {
    let from = measure::cpu_ns()?;
    let bundle = Bundle::open(path)?;
    let mut bytes = 0u64;
    if verify {
        bundle.verify()?;
    } else {
        bundle.events(Selection::default())?.for_each(|event| {
            bytes = bytes.wrapping_add(event.size);
            Ok(())
        })?;
    }
    let ns = (measure::cpu_ns()? - from) as f64 / bundle.meta().events as f64;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("VmHWM in /proc/self/status")?;
    let what = if verify { "verified" } else { "read" };
    println!(
        "{:>11} events {what:<8}: {ns:5.1} ns of CPU an event, peak resident {}",
        bundle.meta().events,
        peak.trim()
    );
    Ok(())
}
