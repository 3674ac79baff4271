//! `heaplab check`: assertions about a recording, for CI.

use super::report::progress;
use crate::gate::Gate;
use anyhow::{Context, Result};
use heaplab_findings::Findings;
use heaplab_gate::{Answer, Assertion, Recording};
use heaplab_record::output;
use heaplab_report::{Analysis, analyse, profile_of, select};
use heaplab_terminal as terminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/check.txt"))]
pub struct Args {
    /// The recording
    bundle: PathBuf,
    #[command(flatten)]
    gate: Gate,
    /// The recording for `baseline`
    #[arg(long, value_name = "BUNDLE")]
    baseline: Option<PathBuf>,
    /// The process in each recording: pid, program's name, or all [default: the largest peak]
    #[arg(long, value_name = "PID|NAME|all")]
    process: Option<String>,
}

pub fn run(args: Args) -> Result<ExitCode> {
    args.gate.run("check", &args.bundle, Assertion::read, |assertions| {
        let with_findings = assertions.iter().any(Assertion::asks_findings);
        let read = |path: &PathBuf| read(&args, path, with_findings);
        let recording = read(&args.bundle)?;
        let baseline = args.baseline.as_ref().map(read).transpose()?;
        let mut answer = Answer::of(assertions, &recording, baseline.as_ref());
        let text = answer.text(terminal::columns());
        Ok((std::mem::take(&mut answer.decision), serde_json::to_value(answer)?, text))
    })
}

/// Looking for findings takes half of the time, and few assertions ask for them.
fn read(args: &Args, path: &Path, with_findings: bool) -> Result<Recording> {
    let bundle = output::open(path)?;
    let (selection, peaks) = progress(&bundle, "looking for the largest process", |read| {
        select(&bundle, args.process.as_deref(), read)
    })
    .with_context(|| path.display().to_string())?;
    let analysis = progress(&bundle, "reading", |read| {
        if with_findings {
            return analyse(&bundle, selection, None, Vec::new(), read);
        }
        Ok(Analysis {
            process: selection.process,
            peaks: Vec::new(),
            profile: profile_of(&bundle, selection, read)?,
            findings: Findings::default(),
            dark_matter: None,
        })
    })?;
    Ok(Recording { bundle, analysis: Analysis { peaks, ..analysis } })
}
