//! `heaplab study`: reruns a published experiment and prints its claims beside what is measured.
//!
//! A claim is a block of labelled lines and not a row: five columns, one of them a command that
//! must stay whole to be copied, do not fit a terminal.

use crate::studies::{Outcome, STUDIES, Study, Verdict};
use crate::terminal;
use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `heaplab study`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  heaplab study                            list the studies
  heaplab study firefox-memory             measure every claim again and print the table
  heaplab study firefox-memory --only ff.sqlite
  heaplab study elastic-metaspace --pictures graphs
                                           draw the document's graphs, as SVG
  heaplab study firefox-memory --json      for machines: the claims, and `now`")]
pub struct Args {
    /// Which study; without one, they are listed
    name: Option<String>,
    /// Measure only this claim (may be repeated)
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// Draw the study's pictures into this folder instead of measuring its claims
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["only", "json"])]
    pictures: Option<PathBuf>,
    /// Print JSON: an array of objects {id, says, claimed, measured, command, verdict, why, exact,
    /// now, failed}; `verdict` is of `measured`, and `now` is null where nothing was measured
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let Some(name) = &args.name else {
        print!("{}", list(terminal::columns()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let Some(study) = STUDIES.iter().find(|study| study.name == name) else {
        let names: Vec<_> = STUDIES.iter().map(|study| study.name).collect();
        misasked!("there is no study {name:?}; there are: {}", names.join(", "));
    };
    if let Some(folder) = &args.pictures {
        let Some(files) = study.draw(folder)? else { misasked!("study {name} has no pictures") };
        for file in files {
            println!("{}", file.display())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let outcomes = measure(study, &args.only)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcomes)?)?;
    } else {
        print!("{}", table(study, &outcomes, terminal::columns()))?;
    }
    let failed = outcomes.iter().filter(|outcome| outcome.failed.is_some()).count();
    if failed > 0 {
        bail!("{failed} claim(s) could not be measured (see above)");
    }
    let broken = outcomes
        .iter()
        .filter(|outcome| {
            outcome.claim.exact && outcome.now.as_deref() != Some(&outcome.claim.measured)
        })
        .count();
    if broken > 0 {
        bail!(
            "{broken} exact claim(s) measured differently from studies/{}/claims.toml",
            study.name
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(study: &Study, only: &[String]) -> Result<Vec<Outcome>> {
    let claims = study.claims()?;
    if let Some(unknown) = only.iter().find(|id| !claims.iter().any(|claim| claim.id == **id)) {
        misasked!(
            "study {} has no claim {unknown:?}; there are: {}",
            study.name,
            claims.iter().map(|claim| claim.id.as_str()).collect::<Vec<_>>().join(", ")
        );
    }
    let chosen: Vec<_> =
        claims.into_iter().filter(|claim| only.is_empty() || only.contains(&claim.id)).collect();
    let progress = ProgressBar::new(chosen.len() as u64)
        .with_style(ProgressStyle::with_template("{pos}/{len} {msg}")?);
    let mut outcomes = Vec::new();
    for claim in chosen {
        progress.set_message(claim.id.clone());
        outcomes.push(study.run(claim));
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(outcomes)
}

/// Names and titles of all studies, in lines of so many columns.
fn list(columns: usize) -> String {
    let mut lines: String = STUDIES
        .iter()
        .map(|study| labelled(&format!("{:<18}", study.name), study.title, columns))
        .collect();
    lines.push_str("\n`heaplab study NAME` measures every claim of one again.\n");
    lines
}

/// The study's claims: what was claimed, what is measured, with which command, and why the two
/// differ. In lines of so many columns; only a word that is longer, and a command, may pass them.
fn table(study: &Study, outcomes: &[Outcome], columns: usize) -> String {
    let mut text = labelled("", study.title, columns);
    for outcome in outcomes {
        let claim = &outcome.claim;
        text.push('\n');
        text.push_str(&labelled("", &format!("{}: {}", claim.id, heading(outcome)), columns));
        text.push_str(&labelled("  says    ", &claim.says, columns));
        if !claim.claimed.is_empty() {
            text.push_str(&labelled("  claimed ", &claim.claimed, columns));
        }
        text.push_str(&labelled("  measured", &measured(study, outcome), columns));
        let command = if claim.command.is_empty() { "none yet" } else { &claim.command };
        text.push_str(&format!("  command  {command}\n"));
        text.push_str(&labelled("  why     ", &claim.why, columns));
    }
    let unmeasured = outcomes.iter().filter(|outcome| is_of_then(outcome)).count();
    let count =
        |verdict| outcomes.iter().filter(|outcome| outcome.claim.verdict == verdict).count();
    let verdicts = [Verdict::Reproduced, Verdict::Partly, Verdict::Differs, Verdict::Open];
    let counts: Vec<_> =
        verdicts.map(|verdict| format!("{} {}", count(verdict), word(verdict))).into();
    let claims = if outcomes.len() == 1 { "claim" } else { "claims" };
    text.push_str(&format!("\n{} {claims}: {}\n", outcomes.len(), counts.join(", ")));
    if unmeasured > 0 {
        text.push_str(&labelled(
            "",
            &format!("{unmeasured} of these were not measured by this run: their verdicts are of when the study was written."),
            columns,
        ));
    }
    text
}

/// Whether the verdict rests on what the study holds alone.
fn is_of_then(outcome: &Outcome) -> bool {
    outcome.now.is_none() && outcome.claim.verdict != Verdict::Open
}

/// The verdict, and whether it is of this run.
fn heading(outcome: &Outcome) -> String {
    let verdict = word(outcome.claim.verdict);
    match &outcome.failed {
        Some(_) => format!("{verdict} when the study was written; measuring it failed now"),
        None if is_of_then(outcome) => {
            format!("{verdict} when the study was written; not measured now")
        }
        None => verdict.into(),
    }
}

/// As the study's file has it.
fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::Partly => "partly",
        Verdict::Differs => "differs",
        Verdict::Open => "open",
    }
}

/// This run's figure; where there is none, the one that the study holds, said to be such.
fn measured(study: &Study, Outcome { claim, now, failed }: &Outcome) -> String {
    match now {
        Some(now) => now.clone(),
        None if failed.is_some() => {
            format!(
                "not now: {}; when the study was written: {}",
                failed.as_deref().unwrap_or_default(),
                claim.measured
            )
        }
        None if claim.measured.is_empty() => "nothing yet".into(),
        None => format!(
            "not here, where what studies/{}/README.md says to install is missing; when the study was written: {}",
            study.name, claim.measured
        ),
    }
}

/// The label and, beside it, the text, broken between words into as many lines as it takes.
fn labelled(label: &str, text: &str, width: usize) -> String {
    let indent = if label.is_empty() { 0 } else { label.chars().count() + 1 };
    let mut lines = String::new();
    let mut line = if label.is_empty() { String::new() } else { format!("{label} ") };
    let mut columns = indent;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let begun = columns > indent;
        if begun && columns + 1 + length > width {
            lines.push_str(&line);
            lines.push('\n');
            line = " ".repeat(indent);
            columns = indent;
        } else if begun {
            line.push(' ');
            columns += 1;
        }
        line.push_str(word);
        columns += length;
    }
    lines.push_str(line.trim_end());
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(study: &Study) -> Vec<Outcome> {
        let unmeasured = |claim| Outcome { claim, now: None, failed: None };
        study.claims().unwrap().into_iter().map(unmeasured).collect()
    }

    #[test]
    fn every_study_fits_a_terminal_and_shows_every_command() {
        for width in [60, 80, 120] {
            every_study_fits(width);
        }
    }

    fn every_study_fits(width: usize) {
        let mut texts = vec![list(width)];
        for study in STUDIES {
            let outcomes = outcomes(study);
            let text = table(study, &outcomes, width);
            for Outcome { claim, .. } in &outcomes {
                assert!(
                    text.contains(&format!("\n{}: {}", claim.id, word(claim.verdict))),
                    "{text}"
                );
                assert_eq!(
                    claim.command.is_empty(),
                    claim.verdict == Verdict::Open,
                    "{}",
                    claim.id
                );
                assert!(
                    text.contains(&format!("  command  {}", claim.command)),
                    "{} in {text}",
                    claim.command
                );
            }
            texts.push(text);
        }
        for text in texts {
            // A command stays whole, and so does a word.
            let is_whole =
                |line: &str| line.starts_with("  command  ") || !line.trim().contains(' ');
            let long = text.lines().find(|line| line.chars().count() > width && !is_whole(line));
            assert_eq!(long, None);
            assert!(width > 80 || text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
    }

    #[test]
    fn a_claim_is_a_block() {
        let study = &STUDIES[0];
        let mut outcomes = outcomes(study);
        outcomes.retain(|outcome| {
            ["ff.growth-fragmentation", "ff.sqlite", "ff.dark-matter"]
                .contains(&outcome.claim.id.as_str())
        });
        outcomes[1].now = Some("1.23x".into());
        outcomes[0].failed = Some("starting Node 24: there is no such file".into());
        insta::assert_snapshot!(table(study, &outcomes, 80));
    }

    #[test]
    fn a_word_longer_than_a_line_stays_whole() {
        let word = "x".repeat(80);
        assert_eq!(labelled("a", &format!("b {word} c"), 80), format!("a b\n  {word}\n  c\n"));
        assert_eq!(labelled("a", "", 80), "a\n");
    }
}
