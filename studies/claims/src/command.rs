//! The command line of a study.

use crate::{Outcome, Study, table};
use anyhow::{Result, bail};
use clap::Parser;
use heaplab_terminal::{columns, progress};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measures the claims of a published document again and prints them beside what was claimed
#[derive(Debug, Parser)]
#[command(
    max_term_width = 80,
    after_help = "Examples:
  cargo xtask study                         list the studies
  cargo xtask study firefox-memory          measure every claim and print the table
  cargo xtask study firefox-memory --only ff.sqlite
  cargo xtask study elastic-metaspace --pictures graphs
                                            draw the document's graphs, as SVG
  cargo xtask study firefox-memory --json   for machines: the claims, and `now`

Exit codes: 0: every exact claim measured as the study says; 1: one did not, or
could not be measured; 2: there is no such claim or picture."
)]
struct Args {
    /// Measure only this claim (may be repeated)
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// Draw the study's pictures into this folder instead of measuring its claims
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["only", "json"])]
    pictures: Option<PathBuf>,
    /// Print JSON: an array of objects {id, says, claimed, measured, command, verdict, why, exact,
    /// slow, now, failed}; `verdict` is of `measured`, and `now` is null where nothing was measured
    #[arg(long)]
    json: bool,
}

/// The `main` of a study.
pub fn main(study: &Study) -> ExitCode {
    match run(study, std::env::args_os()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("study {}: {error:#}", study.name);
            ExitCode::FAILURE
        }
    }
}

/// Runs the study with the arguments of a command line; the first one is the program.
///
/// # Errors
/// A claim could not be measured, or an exact one measured differently.
pub fn run(
    study: &Study,
    arguments: impl IntoIterator<Item = impl Into<std::ffi::OsString> + Clone>,
) -> Result<ExitCode> {
    let args = Args::parse_from(arguments);
    let mut out = std::io::stdout().lock();
    if let Some(folder) = &args.pictures {
        let Some(draw) = study.draw else {
            eprintln!("study {} has no pictures", study.name);
            return Ok(ExitCode::from(2));
        };
        for file in draw(folder)? {
            writeln!(out, "{}", file.display())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let claims = study.claims()?;
    if let Some(unknown) = args.only.iter().find(|id| !claims.iter().any(|one| one.id == **id)) {
        let ids: Vec<_> = claims.iter().map(|claim| claim.id.as_str()).collect();
        eprintln!("study {} has no claim {unknown:?}; there are: {}", study.name, ids.join(", "));
        return Ok(ExitCode::from(2));
    }
    let outcomes = measure(study, &args.only)?;
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&outcomes)?)?;
    } else {
        write!(out, "{}", table::table(study, &outcomes, columns()))?;
    }
    let failed = outcomes.iter().filter(|outcome| outcome.failed.is_some()).count();
    if failed > 0 {
        bail!("{failed} claim(s) could not be measured (see above)");
    }
    let differs = |outcome: &&Outcome| {
        outcome.claim.exact && outcome.now.as_deref() != Some(&outcome.claim.measured)
    };
    let broken = outcomes.iter().filter(differs).count();
    if broken > 0 {
        bail!(
            "{broken} exact claim(s) measured differently from studies/{}/claims.toml",
            study.name
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(study: &Study, only: &[String]) -> Result<Vec<Outcome>> {
    let mut claims = study.claims()?;
    claims.retain(|claim| only.is_empty() || only.contains(&claim.id));
    let progress = progress::bar(false, claims.len() as u64, "{pos}/{len} {msg}");
    let mut outcomes = Vec::new();
    for claim in claims {
        progress.set_message(claim.id.clone());
        outcomes.push(study.run(claim));
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(outcomes)
}
