//! `cargo xtask bench page`: the size of a long recording's page, and Chromium's time until the
//! first paint, until every section is drawn, until ranges can be chosen, and until a chosen range
//! is drawn.
//!
//! No peer in the run: other recorders' own viewers make their pages.

use super::measure::Spread;
use super::programs;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The bounds: bytes of the page, and milliseconds to the first paint with content.
const BYTES_MOST: u64 = 2_000_000;
const PAINT_MS_MOST: f64 = 1_000.0;

/// Arguments of `cargo xtask bench page`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A recording in place of the compiler's of traces/templates.cpp, some 12 million events
    #[arg(long, value_parser = super::existing)]
    recording: Option<PathBuf>,
    /// How often Chromium opens the page, each time as a new process
    #[arg(long, default_value = "9", value_parser = super::one_or_more)]
    reps: usize,
    /// The heaplab that records and reports [default: a release build of this tree]
    #[arg(long, value_parser = super::existing)]
    heaplab: Option<PathBuf>,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    let heaplab = programs::heaplab(args.heaplab.as_deref())?;
    let folder = tempfile::tempdir()?;
    let bundle = match &args.recording {
        Some(bundle) => bundle.clone(),
        None => recorded(&heaplab, folder.path())?,
    };
    let page = folder.path().join("page.html");
    let status =
        Command::new(&heaplab).arg("report").arg(&bundle).arg("--html").arg(&page).status()?;
    if !status.success() {
        bail!("heaplab report {} failed", bundle.display());
    }
    let bytes = std::fs::metadata(&page)?.len();
    let events = heaplab_trace::bundle::Bundle::open(&bundle)?.meta().events;
    let script = programs::root().join("crates/report/tests/browser/paint.mjs");
    let output = Command::new("node").arg(script).arg(&page).arg(args.reps.to_string()).output()?;
    if !output.status.success() {
        bail!(
            "Chromium did not open the page: {} (npm ci in crates/report/tests/browser installs \
             what drives it)",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    println!("{events} events, a page of {bytes} bytes, {} openings", args.reps);
    let mut paint_ms = f64::INFINITY;
    for line in String::from_utf8(output.stdout)?.lines() {
        let (name, values) = line.split_once(':').context("the script prints NAME: VALUES")?;
        let values: Vec<f64> =
            values.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let spread = Spread::of(values);
        println!(
            "{name:<28} {:>6.0} ms ({:.0} to {:.0})",
            spread.median, spread.least, spread.most
        );
        if name == "first paint" {
            paint_ms = spread.median;
        }
    }
    if bytes > BYTES_MOST || paint_ms > PAINT_MS_MOST {
        bail!("over the bounds: {BYTES_MOST} bytes, {PAINT_MS_MOST:.0} ms to the first paint");
    }
    Ok(())
}

fn recorded(heaplab: &Path, folder: &Path) -> Result<PathBuf> {
    let program = programs::compiler(folder)?;
    let bundle = folder.join("compiler.heaplab");
    programs::record(heaplab, 64, &program, &program.command, &bundle)?;
    Ok(bundle)
}
