//! `heaplab check`: what has to hold of a recording, for CI.

use super::report::progress;
use crate::choose;
use anyhow::{Context, Result, bail};
use heaplab_expression::Misread;
use heaplab_gate::junit::{self, Case, Outcome};
use heaplab_gate::{Assertion, Checked, Measured, Unmeasured, share_few_functions};
use heaplab_report::{Analysis, analyse, select};
use heaplab_terminal as terminal;
use heaplab_terminal::whole_file;
use heaplab_text::lines;
use heaplab_trace::bundle::Bundle;
use heaplab_trace::tables::process_label;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `heaplab check`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/check.txt"))]
pub struct Args {
    /// The recording
    bundle: PathBuf,
    /// What has to hold (may be repeated)
    #[arg(long = "assert", value_name = "ASSERTION", required = true, allow_hyphen_values = true)]
    assertions: Vec<String>,
    /// The recording that `baseline` is of
    #[arg(long, value_name = "BUNDLE")]
    baseline: Option<PathBuf>,
    /// Which process of each: its pid, the name of its program, or all [default: the one with the
    /// largest peak]
    #[arg(long, value_name = "PID|NAME|all")]
    process: Option<String>,
    /// Fail where a function is named that no stack has, or a recording is empty
    #[arg(long)]
    strict: bool,
    /// Write a JUnit file, too, for a CI server
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write JSON (docs/gates.md)
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    heaplab_terminal::bus::exits_with(2);
    may_write_junit(args.junit.as_deref())?;
    let read: Result<Vec<Assertion>, Misread> =
        args.assertions.iter().map(|text| Assertion::read(text)).collect();
    let assertions = match read {
        Ok(assertions) => assertions,
        Err(misread) => {
            eprintln!("heaplab check: {misread}");
            return unchecked(&args, &misread.to_string());
        }
    };
    match checked(&args, &assertions) {
        Ok((checked, doubts)) => told(&args, &checked, &doubts),
        Err(error) => {
            eprintln!("heaplab check: {error:#}");
            unchecked(&args, &format!("{error:#}"))
        }
    }
}

/// Why assertions may hold that mean nothing.
struct Doubts {
    /// Functions that no stack has, a sentence each.
    unknown_functions: Vec<String>,
    /// The recording has no allocation: a sentence.
    empty: Option<String>,
}

/// What came of each assertion, and what to doubt of them.
fn checked(args: &Args, assertions: &[Assertion]) -> Result<(Vec<Checked>, Doubts)> {
    let (bundle, analysis, program) = looked_at(args, &args.bundle)?;
    let empty = (analysis.profile.totals.requests == 0).then(|| {
        format!(
            "{}: no allocation was recorded, so that every upper bound holds",
            args.bundle.display()
        )
    });
    let measured = Measured::of(&bundle, &analysis);
    let baseline = args.baseline.as_ref().map(|path| looked_at(args, path)).transpose()?;
    let is_another = |(other_bundle, _, other): &&(Bundle, Analysis, String)| {
        *other != program && share_few_functions(bundle.tables(), other_bundle.tables())
    };
    if let Some((_, _, other)) = baseline.as_ref().filter(is_another) {
        eprintln!(
            "heaplab check: note: the baseline is of another program: {}, here {}",
            named(other),
            named(&program)
        );
    }
    let baseline = baseline.as_ref().map(|(bundle, analysis, _)| Measured::of(bundle, analysis));
    if baseline.is_some() && !assertions.iter().any(Assertion::asks_baseline) {
        eprintln!("heaplab check: note: no assertion asks for `baseline`");
    }
    let mut functions: Vec<String> = assertions.iter().flat_map(Assertion::functions).collect();
    functions.sort();
    functions.dedup();
    // One that only the baseline has went with the change.
    let is_known = |function: &String| {
        baseline.as_ref().is_some_and(|baseline| baseline.unknown(function).is_none())
    };
    let unknown = functions.iter().filter(|function| !is_known(function));
    let unknown_functions = unknown.filter_map(|function| measured.unknown(function)).collect();
    let checked = assertions.iter().map(|assertion| assertion.check(&measured, baseline.as_ref()));
    let checked = checked.collect::<Result<Vec<Checked>, Unmeasured>>()?;
    Ok((checked, Doubts { unknown_functions, empty }))
}

fn named(program: &str) -> &str {
    if program.is_empty() { "an unnamed program" } else { program }
}

/// A recording, what is to be known of the process that is looked at, and its program's name.
fn looked_at(args: &Args, path: &Path) -> Result<(Bundle, Analysis, String)> {
    let bundle = choose::open(path)?;
    let (selection, peaks) = progress(&bundle, "looking for the largest process", |read| {
        select(&bundle, args.process.as_deref(), read)
    })
    .with_context(|| path.display().to_string())?;
    let processes = &bundle.tables().processes;
    if let (Some(row), true) = (selection.process, peaks.len() > 1) {
        let label = process_label(processes, row as usize);
        let name = processes[row as usize].program_name();
        eprintln!(
            "heaplab check: note: {} has {} processes; this is about {label} {name}, the one with the largest peak (--process chooses)",
            path.display(),
            peaks.len()
        );
    }
    let program = processes.get(selection.process.unwrap_or(0) as usize);
    let program = program.map_or("", |process| process.program_name()).to_owned();
    let analysis =
        progress(&bundle, "reading", |read| analyse(&bundle, selection, None, Vec::new(), read))?;
    Ok((bundle, analysis, program))
}

/// Prints what came of the assertions.
fn told(args: &Args, checked: &[Checked], doubts: &Doubts) -> Result<ExitCode> {
    let unknown = &doubts.unknown_functions;
    unknown.iter().chain(&doubts.empty).for_each(|note| eprintln!("heaplab check: note: {note}"));
    let failed = checked.iter().filter(|checked| !checked.holds).count();
    if args.json {
        let answer = json!({"format": "heaplab-check", "version": 1, "failed": failed,
            "assertions": checked, "unknown_functions": unknown});
        println!("{}", serde_json::to_string_pretty(&answer)?)?;
    } else {
        for of in checked {
            let word = if of.holds { "holds   " } else { "FAILED  " };
            print!("{}", lines::paragraph(&of.assertion, word, word.len(), terminal::columns()))?;
            for line in of.values_text() {
                print!("{}", lines::paragraph(&line, "        ", 10, terminal::columns()))?;
            }
        }
    }
    let mut cases: Vec<Case> = checked.iter().map(Checked::case).collect();
    if args.strict {
        cases.extend(unknown.iter().map(|note| Case {
            name: note.clone(),
            result: Outcome::Fails("a function is named that no stack has".into()),
        }));
        cases.extend(doubts.empty.iter().map(|note| Case {
            name: note.clone(),
            result: Outcome::Fails("the recording is empty".into()),
        }));
    }
    written(args, &cases)?;
    let is_doubted = !unknown.is_empty() || doubts.empty.is_some();
    Ok(ExitCode::from(u8::from(failed > 0 || (args.strict && is_doubted))))
}

/// Nothing could be checked: each assertion is an error of the JUnit file, so that a server shows
/// that.
fn unchecked(args: &Args, why: &str) -> Result<ExitCode> {
    written(args, &Case::unchecked(&args.assertions, why))?;
    Ok(ExitCode::from(2))
}

fn written(args: &Args, cases: &[Case]) -> Result<()> {
    let suite = format!("heaplab check {}", args.bundle.display());
    junit_file(args.junit.as_deref(), &suite, cases)
}

/// Refuses to replace what is no JUnit file: a mistyped name is a recording or a source file.
pub fn may_write_junit(file: Option<&Path>) -> Result<()> {
    if let Some(file) = file.filter(|file| whole_file::holds_other_than(file, b"<testsuite")) {
        bail!(
            "{}: exists already and is no JUnit file: choose another name for --junit, or delete the file",
            file.display()
        );
    }
    Ok(())
}

/// Writes the JUnit file where one was asked for.
pub fn junit_file(file: Option<&Path>, suite: &str, cases: &[Case]) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let document = junit::document(suite, cases);
    Ok(whole_file::write_bytes(file, false, document.as_bytes())?)
}
