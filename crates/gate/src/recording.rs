//! A gate of a recording: assertions checked against it, and reasons to doubt them.

use crate::assertion::{Assertion, Checked};
use crate::baseline::share_few_functions;
use crate::decision::{Decision, Doubt};
use crate::measured::Measured;
use heaplab_report::Analysis;
use heaplab_text::lines;
use heaplab_trace::bundle::Bundle;
use heaplab_trace::tables::process_label;
use serde::Serialize;
use std::collections::BTreeSet;

/// A recording that was read.
#[derive(Debug)]
pub struct Recording {
    /// The recording.
    pub bundle: Bundle,
    /// The analysis of the process that is looked at.
    pub analysis: Analysis,
}

impl Recording {
    /// The name of the program that is looked at, and the label of its process.
    fn program(&self) -> (&str, String) {
        let processes = &self.bundle.tables().processes;
        let row = self.analysis.process.unwrap_or(0) as usize;
        let name = processes.get(row).map_or("", |process| process.program_name());
        (name, process_label(processes, row))
    }

    /// Which of several processes is looked at, if the user chose none.
    fn note(&self) -> Option<String> {
        let peaks = &self.analysis.peaks;
        let (name, label) = self.program();
        (self.analysis.process.is_some() && peaks.len() > 1).then(|| {
            format!(
                "{} has {} processes; this is about {label} {name}, the one with the largest peak (--process chooses)",
                self.bundle.path().display(),
                peaks.len()
            )
        })
    }

    /// What was not recorded: a cut, and losses.
    fn lacks(&self) -> Vec<Doubt> {
        let (meta, path) = (self.bundle.meta(), self.bundle.path().display());
        let cut = meta.cut.iter().map(|cut| format!("{path} was cut: {cut}"));
        let losses = meta.losses.iter().map(|loss| format!("{path}: {loss}"));
        let doubt = |note| Doubt { note, failure: "the recording is not whole" };
        cut.chain(losses).map(doubt).collect()
    }

    /// Whether both are of one program, by its name or by its functions.
    fn is_of_the_program_of(&self, other: &Recording) -> bool {
        let few = || share_few_functions(self.bundle.tables(), other.bundle.tables());
        self.program().0 == other.program().0 || !few()
    }
}

/// What came of the assertions on a recording.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    format: &'static str,
    version: u32,
    /// How many assertions do not hold.
    pub failed: usize,
    /// What came of each.
    pub assertions: Vec<Checked>,
    /// Functions that no stack has, a sentence each.
    pub unknown_functions: Vec<String>,
    /// Reasons why assertions may hold that mean nothing, a sentence each: unknown functions, an
    /// empty recording, losses.
    pub doubts: Vec<String>,
    /// The gate's decision.
    #[serde(skip)]
    pub decision: Decision,
}

impl Answer {
    /// Checks assertions.
    pub fn of(
        assertions: &[Assertion],
        recording: &Recording,
        baseline: Option<&Recording>,
    ) -> Answer {
        let measured = Measured::of(&recording.bundle, &recording.analysis);
        let before = baseline.map(|of| Measured::of(&of.bundle, &of.analysis));
        let check = |assertion: &Assertion| assertion.check(&measured, before.as_ref());
        let checked: Vec<Checked> = assertions.iter().map(check).collect();
        let asked: BTreeSet<_> = assertions.iter().flat_map(Assertion::functions).collect();
        let functions: BTreeSet<String> =
            asked.iter().map(|(function, _)| function.clone()).collect();
        // A function that only the baseline has went with the change.
        let is_known = |function: &String| {
            before.as_ref().is_some_and(|before| before.unknown(function).is_none())
        };
        let unknown = functions.iter().filter(|function| !is_known(function));
        let unknown: Vec<String> = unknown.filter_map(|name| measured.unknown(name)).collect();
        let mut doubts: Vec<Doubt> = unknown
            .iter()
            .map(|note| Doubt {
                note: note.clone(),
                failure: "a function is named that no stack has",
            })
            .collect();
        let cut = asked.iter().flat_map(|(function, value)| {
            before.iter().chain([&measured]).filter_map(|side| side.cut(value, function))
        });
        doubts.extend(cut.map(|note| Doubt { note, failure: "stacks end before the function" }));
        if recording.analysis.profile.totals.requests == 0 {
            let path = recording.bundle.path().display();
            doubts.push(Doubt {
                note: format!(
                    "{path}: no allocation was recorded, so that every upper bound holds"
                ),
                failure: "the recording is empty",
            });
        }
        doubts.extend([Some(recording), baseline].into_iter().flatten().flat_map(Recording::lacks));
        let cases = checked.iter().map(Checked::case).collect();
        let failed = checked.iter().filter(|of| !of.holds && of.error.is_none()).count();
        let notes = notes(assertions, recording, baseline);
        Answer {
            format: "heaplab-check",
            version: 1,
            failed,
            assertions: checked,
            unknown_functions: unknown,
            doubts: doubts.iter().map(|doubt| doubt.note.clone()).collect(),
            decision: Decision { cases, doubts, notes },
        }
    }

    /// For a terminal of so many columns.
    pub fn text(&self, columns: usize) -> String {
        let mut text = String::new();
        for of in &self.assertions {
            let word = match &of.error {
                Some(_) => "UNKNOWN ",
                None if of.holds => "holds   ",
                None => "FAILED  ",
            };
            text += &lines::paragraph(&of.assertion, word, word.len(), columns);
            for line in of.values_text() {
                let own_indent = line.len() - line.trim_start().len();
                text += &lines::paragraph(&line, "", 10 + own_indent, columns);
            }
        }
        text
    }
}

fn notes(
    assertions: &[Assertion],
    recording: &Recording,
    baseline: Option<&Recording>,
) -> Vec<String> {
    let mut notes: Vec<String> = recording.note().into_iter().collect();
    let Some(baseline) = baseline else { return notes };
    notes.extend(baseline.note());
    if !recording.is_of_the_program_of(baseline) {
        let named = |of: &Recording| match of.program().0 {
            "" => String::from("an unnamed program"),
            name => name.to_owned(),
        };
        notes.push(format!(
            "the baseline is of another program: {}, here {}",
            named(baseline),
            named(recording)
        ));
    }
    if !assertions.iter().any(Assertion::asks_baseline) {
        notes.push("no assertion asks for `baseline`".into());
    }
    notes
}
