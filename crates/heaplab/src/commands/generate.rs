//! `heaplab generate`: a workload from stated distributions, as a bundle.

use crate::answer;
use anyhow::{Context, Result, anyhow};
use heaplab_generate::{Generator, Spec, SpecError, Statement};
use heaplab_terminal::progress;
use heaplab_trace::bundle::BundleWriter;
use heaplab_trace::{EventSink, EventSource};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

/// Largest file of sizes that is read, bytes.
const SIZES_BYTES_MAX: u64 = 64 << 20;

/// Arguments of `heaplab generate`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/generate.txt"))]
pub struct Args {
    /// What to generate, as KEY=VALUE,KEY=VALUE
    #[arg(value_name = "STATEMENT", default_value = "")]
    statement: String,
    /// The bundle to make; it must not exist
    #[arg(short, long, value_name = "BUNDLE")]
    output: PathBuf,
    /// Print the statement as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let spec = match Spec::parse(&args.statement, read) {
        Ok(spec) => spec,
        // The file is named rightly and what is in it is wrong, or it cannot be read.
        Err(error @ SpecError::Sizes { .. }) => return Err(anyhow!(error)),
        Err(error) => misasked!("{error}; see heaplab generate --help"),
    };
    let births = spec.births;
    let mut generator = Generator::new(spec);
    let mut writer = BundleWriter::create(&args.output)?;
    let template = "{wide_bar} {human_pos} of {human_len} births, {eta} left";
    let bar = progress::bar(false, births, template);
    let mut batch = Vec::new();
    loop {
        generator.next_batch(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        for event in &batch {
            writer.push(event)?;
        }
        bar.set_position(generator.counts().births);
    }
    bar.finish_and_clear();
    writer.finish(&generator.tables(), generator.meta())?;
    let statement = Statement::of(&generator);
    answer::print_pretty(args.json, &statement, || {
        format!("{}: {}\n{statement}", args.output.display(), generator.meta().program)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: &str) -> Result<String, String> {
    let text = || -> Result<String> {
        let file = File::open(path).with_context(|| format!("cannot open {path}"))?;
        let mut text = String::new();
        file.take(SIZES_BYTES_MAX + 1)
            .read_to_string(&mut text)
            .with_context(|| format!("cannot read {path}"))?;
        anyhow::ensure!(
            text.len() as u64 <= SIZES_BYTES_MAX,
            "{path}: larger than {SIZES_BYTES_MAX} bytes"
        );
        Ok(text)
    };
    text().map_err(|error| format!("{error:#}"))
}
