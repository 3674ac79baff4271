//! `heaplab study`: reruns a published experiment and prints its claims beside what is measured.

use crate::studies::{Outcome, STUDIES, Study};
use anyhow::{Result, bail};
use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::process::ExitCode;

/// Columns where there is no terminal to ask.
const WIDTH: u16 = 100;

/// Arguments of `heaplab study`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  heaplab study                            list the studies
  heaplab study firefox-memory             measure every claim again and print the table
  heaplab study firefox-memory --only ff.sqlite
  heaplab study elastic-metaspace --pictures graphs
                                           draw the document's graphs again, as SVG
  heaplab study firefox-memory --json      for machines: an array of claims with `now`, this run's figure")]
pub struct Args {
    /// Which study; without one, they are listed
    name: Option<String>,
    /// Measure only this claim (may be repeated)
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// Draw the study's pictures into this folder instead of measuring its claims
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["only", "json"])]
    pictures: Option<PathBuf>,
    /// Print JSON: an array of objects {id, says, claimed, measured, command, verdict, why, exact, now}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let Some(name) = &args.name else {
        for study in STUDIES {
            println!("{:20} {}", study.name, study.title)?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let Some(study) = STUDIES.iter().find(|study| study.name == name) else {
        let names: Vec<_> = STUDIES.iter().map(|study| study.name).collect();
        bail!("there is no study {name:?}; there are: {}", names.join(", "));
    };
    if let Some(folder) = &args.pictures {
        let Some(files) = study.draw(folder)? else { bail!("study {name} has no pictures") };
        for file in files {
            println!("{}", file.display())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let outcomes = measure(study, &args.only)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcomes)?)?;
    } else {
        print(study, &outcomes)?;
    }
    let broken = outcomes.iter().filter(|outcome| outcome.claim.exact && outcome.now.as_deref() != Some(&outcome.claim.measured)).count();
    if broken > 0 {
        bail!("{broken} exact claim(s) measured differently from studies/{}/claims.toml", study.name);
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(study: &Study, only: &[String]) -> Result<Vec<Outcome>> {
    let claims = study.claims()?;
    if let Some(unknown) = only.iter().find(|id| !claims.iter().any(|claim| claim.id == **id)) {
        bail!("study {} has no claim {unknown:?}", study.name);
    }
    let chosen: Vec<_> = claims.into_iter().filter(|claim| only.is_empty() || only.contains(&claim.id)).collect();
    let progress = ProgressBar::new(chosen.len() as u64).with_style(ProgressStyle::with_template("{pos}/{len} {msg}")?);
    let mut outcomes = Vec::new();
    for claim in chosen {
        progress.set_message(claim.id.clone());
        outcomes.push(study.run(claim)?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(outcomes)
}

fn print(study: &Study, outcomes: &[Outcome]) -> Result<()> {
    println!("{}\n", study.title)?;
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    if !table.is_tty() {
        table.set_width(WIDTH);
    }
    table.set_header(["claim", "claimed", "measured now", "verdict"]);
    for Outcome { claim, now } in outcomes {
        let verdict = format!("{:?}", claim.verdict).to_lowercase();
        table.add_row([
            format!("{}\n{}", claim.id, claim.says),
            claim.claimed.clone(),
            now.clone().unwrap_or_else(|| "-".into()),
            format!("{verdict}\n{}", claim.why),
        ]);
    }
    println!("{table}")
}
