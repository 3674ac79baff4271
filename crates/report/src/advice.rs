//! A finding's advice as a change that can be tried on the recording.

use crate::numbered;
use heaplab_findings::{
    Basis, CHURN, CLOWNSHOES, Clownshoe, Findings, Found, GROWTH, Kind, LEAK, Options,
};
use heaplab_profile::choose::ChooseError;
use heaplab_size_class::Allocator;
use heaplab_text::shell::quoted;
use heaplab_what_if::{Change, Growth, Place, Rule, SizeRow, Sizes};
use std::path::Path;

/// The words that name all findings of a kind.
const ALL: [(&str, Kind); 4] = [
    ("all-clownshoes", CLOWNSHOES),
    ("all-growth", GROWTH),
    ("all-churn", CHURN),
    ("all-leaks", LEAK),
];

/// Options with every stack and size of a finding.
pub fn whole(options: Options) -> Options {
    Options { stacks_per_finding: usize::MAX, sizes_per_finding: usize::MAX, ..options }
}

/// The command that tries a finding of a report on the recording at `path`, but for the finding's
/// number.
pub fn command(path: &Path, process: Option<&str>, basis: Option<Basis>) -> String {
    let mut command = format!("heaplab what-if {}", quoted(path));
    if let Some(process) = process {
        command += &format!(" --process {}", quoted(Path::new(process)));
    }
    if let Some(basis) = basis {
        command += &format!(" --allocator {}", basis.name());
    }
    command + " --fix "
}

/// The changes that answer the findings which `wanted` names.
///
/// # Errors
/// The finding does not exist, or no change of a recording fits it.
pub fn rules(wanted: &[String], findings: &Findings) -> Result<Vec<Rule>, ChooseError> {
    let (mut rules, mut known) = (Vec::new(), Vec::new());
    for text in wanted {
        for (number, finding) in named(text, findings)? {
            if known.contains(&number) {
                continue;
            }
            known.push(number);
            match rule(finding) {
                Some(rule) => rules.push(rule),
                None => {
                    return Err(ChooseError::NotThere(format!(
                        "--fix {number}: what {:?} advises cannot be tried on a recording",
                        finding.title
                    )));
                }
            }
        }
    }
    Ok(rules)
}

/// The findings that `text` names, with their numbers in a report.
fn named<'a>(text: &str, findings: &'a Findings) -> Result<Vec<(usize, &'a Found)>, ChooseError> {
    let numbered: Vec<(usize, &Found)> = (1..).zip(numbered(findings)).collect();
    let chosen = |is: &dyn Fn(usize, &Found) -> bool| {
        let of = numbered.iter().filter(|(number, finding)| is(*number, finding));
        of.copied().collect::<Vec<_>>()
    };
    let found = match (text.parse::<usize>(), ALL.iter().find(|(name, _)| *name == text)) {
        (Ok(wanted), _) => chosen(&|number, _| number == wanted),
        // A finding without a remedy must not stop the others.
        (_, Some((_, kind))) => {
            chosen(&|_, finding| finding.kind == *kind && rule(finding).is_some())
        }
        _ => chosen(&|_, finding| finding.function == text),
    };
    if found.is_empty() {
        let there: Vec<String> = numbered
            .iter()
            .take(9)
            .map(|(number, finding)| {
                format!("{number} {} ({})", finding.function, finding.kind.name)
            })
            .collect();
        let there = match there.len() {
            0 => "this recording has no finding".into(),
            _ => format!("there are {}", there.join(", ")),
        };
        return Err(ChooseError::NotThere(format!("--fix {text}: no such finding; {there}")));
    }
    Ok(found)
}

/// The finding's advice as a change; `None`: it does not concern requests.
pub fn rule(finding: &Found) -> Option<Rule> {
    let change = match finding.kind {
        kind if kind == CLOWNSHOES => {
            let rows = finding.evidence::<Clownshoe>()?.sizes.iter().map(|size| SizeRow {
                from: size.request,
                to: size.free_request,
                beside: 0,
                displaces: true,
            });
            Change::Sizes(Sizes::Table(rows.collect()))
        }
        kind if kind == GROWTH => Change::Grow(Growth::Factor(2.0)),
        kind if kind == CHURN => Change::Reuse,
        kind if kind == LEAK => Change::DropUnfreed,
        _ => return None,
    };
    let name = match finding.function.as_str() {
        "" => "requests without a stack",
        function => function,
    };
    let stacks = finding.stacks.iter().map(|share| share.stack).collect();
    let place = Place::Stacks { name: name.into(), stacks };
    Some(Rule { place, except: Vec::new(), change })
}

/// The heap on which a finding was judged.
pub fn heap_of(finding: &Found, recorded_under: &str) -> &'static str {
    match finding.basis {
        Basis::Measured => Allocator::recorded(recorded_under).map_or("glibc", Allocator::heap),
        Basis::Table(allocator) => allocator.heap(),
    }
}
