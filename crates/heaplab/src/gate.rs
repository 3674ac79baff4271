//! The common part of the gates for CI, `heaplab check` and `heaplab snapshot check`: reads
//! assertions, prints the outcome, writes it for a CI server.

use crate::answer;
use anyhow::{Error, Result, bail};
use heaplab_expression::Misread;
use heaplab_gate::Decision;
use heaplab_gate::junit::{self, Case};
use heaplab_terminal::{bus, whole_file};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of every gate.
#[derive(Debug, clap::Args)]
pub struct Gate {
    /// The assertion to check (may be repeated)
    #[arg(long = "assert", value_name = "ASSERTION", required = true, allow_hyphen_values = true)]
    assertions: Vec<String>,
    /// Also fail if nothing has an assertion's name, or if a recording is empty or lacks something
    #[arg(long)]
    strict: bool,
    /// Write JSON (docs/gates.md)
    #[arg(long)]
    json: bool,
    /// Also write a JUnit file, for a CI server
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl Gate {
    /// Reads the assertions, lets `decide` check them and render the answer as JSON and as text,
    /// and prints the outcome.
    pub fn run<A>(
        &self,
        command: &str,
        file: &Path,
        read: impl Fn(&str) -> Result<A, Misread>,
        decide: impl FnOnce(&[A]) -> Result<(Decision, Value, String)>,
    ) -> Result<ExitCode> {
        bus::exits_with(2);
        self.may_write_junit()?;
        let suite = format!("heaplab {command} {}", file.display());
        let assertions = self.assertions.iter().map(|text| read(text));
        let decided = assertions
            .collect::<Result<Vec<A>, Misread>>()
            .map_err(Error::from)
            .and_then(|assertions| decide(&assertions));
        let (decision, json, text) = match decided {
            Ok(decided) => decided,
            Err(error) => {
                eprintln!("heaplab {command}: {error:#}");
                // Each assertion is an error of the file, so that a server shows the reason.
                self.write_junit(
                    &suite,
                    &Case::unchecked(&self.assertions, &format!("{error:#}")),
                )?;
                return Ok(ExitCode::from(2));
            }
        };
        for note in &decision.notes {
            eprintln!("heaplab {command}: note: {note}");
        }
        let doubted = if self.strict { "--strict fails" } else { "note" };
        for doubt in &decision.doubts {
            eprintln!("heaplab {command}: {doubted}: {}", doubt.note);
        }
        let mut code = u8::from(!decision.passes(self.strict));
        for error in decision.errors() {
            eprintln!("heaplab {command}: {error}");
            code = 2;
        }
        answer::print_pretty(self.json, &json, || text)?;
        self.write_junit(&suite, &decision.into_cases(self.strict))?;
        Ok(ExitCode::from(code))
    }

    /// Refuses to replace a file that is no JUnit file, such as a recording or a source file.
    fn may_write_junit(&self) -> Result<()> {
        let is_of_others = |file: &&PathBuf| whole_file::holds_other_than(file, b"<testsuite");
        if let Some(file) = self.junit.as_ref().filter(is_of_others) {
            bail!(
                "{}: exists already and is no JUnit file: choose another name for --junit, or delete the file",
                file.display()
            );
        }
        Ok(())
    }

    fn write_junit(&self, suite: &str, cases: &[Case]) -> Result<()> {
        let Some(file) = &self.junit else { return Ok(()) };
        let document = junit::document(suite, cases);
        Ok(whole_file::write_bytes(file, false, document.as_bytes())?)
    }
}
