//! `heaplab generate`: a workload from stated distributions, as a bundle.

use crate::answer;
use anyhow::{Result, anyhow};
use heaplab_generate::sizes::read_file as read_sizes;
use heaplab_generate::{Generator, Spec, SpecError, Statement};
use heaplab_terminal::progress;
use heaplab_trace::bundle::BundleWriter;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/generate.txt"))]
pub struct Args {
    /// The workload, as KEY=VALUE,KEY=VALUE
    #[arg(value_name = "STATEMENT", default_value = "")]
    statement: String,
    /// The bundle to create; it must not exist
    #[arg(short, long, value_name = "BUNDLE")]
    output: PathBuf,
    /// Print the statement as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<ExitCode> {
    let spec = match Spec::parse(&args.statement, read_sizes) {
        Ok(spec) => spec,
        // Not a usage error: the file exists, and its content is wrong or unreadable.
        Err(error @ SpecError::File { .. }) => return Err(anyhow!(error)),
        Err(error) => misasked!("{error}; see heaplab generate --help"),
    };
    let births = spec.births;
    let mut generator = Generator::new(spec);
    let mut writer = BundleWriter::create(&args.output)?;
    let template = "{wide_bar} {human_pos} of {human_len} births, {eta} left";
    let bar = progress::bar(false, births, template);
    generator.write(&mut writer, &mut |births| bar.set_position(births))?;
    bar.finish_and_clear();
    writer.finish(&generator.tables(), generator.meta())?;
    let statement = Statement::of(&generator);
    answer::print_pretty(args.json, &statement, || {
        format!("{}: {}\n{statement}", args.output.display(), generator.meta().program)
    })?;
    Ok(ExitCode::SUCCESS)
}
