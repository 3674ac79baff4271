//! The claims of a study as text.
//!
//! A claim is a block of labelled lines, not a row: five columns do not fit a terminal, and one of
//! them is a command that must stay whole to be copied.

use crate::{Claim, Outcome, Study, Verdict};

/// The study's claims: the claimed and the measured figure, the command, and the reason of a
/// difference. Lines have at most `columns` columns; only a longer word and a command may exceed
/// them.
pub fn table(study: &Study, outcomes: &[Outcome], columns: usize) -> String {
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
    let verdicts =
        [Verdict::Reproduced, Verdict::Partly, Verdict::Differs, Verdict::NoFigure, Verdict::Open];
    let counts: Vec<_> =
        verdicts.map(|verdict| format!("{} {}", count(verdict), word(verdict))).into();
    let claims = if outcomes.len() == 1 { "claim" } else { "claims" };
    let counts = format!("{} {claims}: {}", outcomes.len(), counts.join(", "));
    text.push('\n');
    text.push_str(&labelled("", &counts, columns));
    if unmeasured > 0 {
        text.push_str(&labelled(
            "",
            &format!("{unmeasured} of these were not measured by this run: their verdicts are of when the study was written."),
            columns,
        ));
    }
    text
}

/// Whether the verdict rests only on the study's earlier measurement.
fn is_of_then(outcome: &Outcome) -> bool {
    outcome.now.is_none() && outcome.claim.verdict != Verdict::Open
}

/// The verdict, and whether it comes from this run.
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

/// The word in the study's file.
fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::Partly => "partly",
        Verdict::Differs => "differs",
        Verdict::NoFigure => "no figure",
        Verdict::Open => "open",
    }
}

/// This run's figure; without one the study's earlier figure, marked as such.
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

/// The label and, beside it, the text, broken between words into as many lines as necessary.
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

/// Whether the table fits a terminal of 60, 80 and 120 columns and shows every claim and command.
///
/// # Panics
/// The table fails the check.
pub fn check(study: &Study, claims: &[Claim]) {
    let outcomes: Vec<_> = claims
        .iter()
        .map(|claim| Outcome { claim: claim.clone(), now: None, failed: None })
        .collect();
    for width in [60, 80, 120] {
        let text = table(study, &outcomes, width);
        for claim in claims {
            assert!(
                text.contains(&format!("\n{}: {}", claim.id, word(claim.verdict))),
                "{} in {text}",
                claim.id
            );
            assert!(text.contains(&format!("  command  {}", claim.command)), "{text}");
        }
        // A command stays whole, and so does a word.
        let is_whole = |line: &str| line.starts_with("  command  ") || !line.trim().contains(' ');
        let long = text.lines().find(|line| line.chars().count() > width && !is_whole(line));
        assert_eq!(long, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: Study = Study {
        name: "made-up",
        title: "A document whose study is made up for this test",
        claims: r#"
[[claim]]
id = "ff.growth"
says = "exponential growth of buffers reduces what is left after closing tabs"
claimed = "-4.3 MiB"
measured = "left after closing and trimming, by pages -> doubling: jemalloc 14.3 -> 13.1 MiB (-1.1)"
command = "cargo xtask study made-up --only ff.growth"
verdict = "partly"
why = "400 buffers on today's allocators, not the browser of 2014."

[[claim]]
id = "ff.sqlite"
says = "SQLite's 8-byte size header turns 1,024 into 1,032"
claimed = "1.15-1.20x"
measured = "1.20x"
command = "cargo xtask study made-up --only ff.sqlite"
verdict = "partly"
why = "By what is live at the peak of the recording."

[[claim]]
id = "ff.dark-matter"
says = "heap-unclassified share of explicit"
claimed = "30-45 %"
measured = ""
command = ""
verdict = "open"
why = "Needs memory reporters."
"#,
        measure: |_| Ok(None),
        draw: None,
    };

    #[test]
    fn a_claim_is_a_block() {
        let claims = STUDY.claims().unwrap();
        check(&STUDY, &claims);
        let unmeasured = |claim| Outcome { claim, now: None, failed: None };
        let mut outcomes: Vec<_> = claims.into_iter().map(unmeasured).collect();
        outcomes[1].now = Some("1.23x".into());
        outcomes[0].failed = Some("starting Node 24: there is no such file".into());
        insta::assert_snapshot!(table(&STUDY, &outcomes, 80));
    }

    #[test]
    fn a_word_longer_than_a_line_stays_whole() {
        let word = "x".repeat(80);
        assert_eq!(labelled("a", &format!("b {word} c"), 80), format!("a b\n  {word}\n  c\n"));
        assert_eq!(labelled("a", "", 80), "a\n");
    }
}
