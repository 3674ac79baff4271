//! Instructions of a program by function, as callgrind counts them.
//!
//! Source: Valgrind's "Callgrind Format Specification". Functions are summed over files and
//! objects; a call's line has the count and the cost, callees included.

use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// A profile's content.
#[derive(Debug, Default)]
pub struct Profile {
    names: Vec<String>,
    /// Instructions of each function itself.
    own: Vec<u64>,
    /// Caller, callee, calls, instructions of the callee including its callees.
    edges: Vec<(usize, usize, u64, u64)>,
}

/// The common cost of some functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Calls from other functions.
    pub calls: u64,
    /// Instructions in these calls, callees included.
    pub inclusive: u64,
    /// Instructions of the functions themselves.
    pub own: u64,
}

impl Cost {
    /// The cost without another run's.
    pub fn less(self, other: Cost) -> Cost {
        Cost {
            calls: self.calls.saturating_sub(other.calls),
            inclusive: self.inclusive.saturating_sub(other.inclusive),
            own: self.own.saturating_sub(other.own),
        }
    }
}

impl Profile {
    /// All instructions.
    pub fn total(&self) -> u64 {
        self.own.iter().sum()
    }

    /// The common cost of the functions whose names contain one of `parts`.
    pub fn cost(&self, parts: &[&str]) -> Cost {
        let inside: Vec<bool> =
            self.names.iter().map(|name| parts.iter().any(|part| name.contains(part))).collect();
        let mut cost = Cost::default();
        for &(caller, callee, calls, instructions) in &self.edges {
            if inside[callee] && !inside[caller] {
                cost.calls += calls;
                cost.inclusive += instructions;
            }
        }
        cost.own = (0..inside.len()).filter(|at| inside[*at]).map(|at| self.own[at]).sum();
        cost
    }

    /// Parses a profile of instructions alone.
    ///
    /// # Errors
    /// A line outside of the format, with the line.
    pub fn parse(text: &str) -> Result<Profile> {
        let mut profile = Profile::default();
        let mut by_number: HashMap<&str, usize> = HashMap::new();
        let (mut caller, mut callee, mut calls) = (None, None, None);
        for (number, line) in text.lines().enumerate() {
            let place = || format!("line {} of the profile: {line:?}", number + 1);
            if let Some(events) = line.strip_prefix("events:") {
                ensure!(events.trim() == "Ir", "{}: expected instructions alone (Ir)", place());
            } else if let Some(name) = line.strip_prefix("fn=") {
                caller = Some(profile.function(name, &mut by_number).with_context(place)?);
            } else if let Some(name) = line.strip_prefix("cfn=") {
                callee = Some(profile.function(name, &mut by_number).with_context(place)?);
            } else if let Some(rest) = line.strip_prefix("calls=") {
                let count = rest.split_ascii_whitespace().next().and_then(|one| one.parse().ok());
                calls = Some(count.with_context(place)?);
            } else if line
                .starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first))
            {
                let cost = line.split_ascii_whitespace().nth(1).map_or(Ok(0), str::parse);
                let cost: u64 = cost.with_context(place)?;
                let caller = caller.with_context(place)?;
                match calls.take() {
                    Some(calls) => {
                        profile.edges.push((caller, callee.with_context(place)?, calls, cost))
                    }
                    None => profile.own[caller] += cost,
                }
            }
        }
        Ok(profile)
    }

    /// `(12) name` gives a function and its number; `(12)` refers to it.
    fn function<'a>(
        &mut self,
        text: &'a str,
        by_number: &mut HashMap<&'a str, usize>,
    ) -> Result<usize> {
        let (number, name) = text.split_once(')').context("expected (NUMBER) NAME")?;
        if !name.is_empty() {
            by_number.insert(number, self.names.len());
            self.names.push(name.trim().into());
            self.own.push(0);
        }
        by_number.get(number).copied().context("a function that no line has named")
    }
}

/// The words that run a program under callgrind.
pub fn words(file: &Path) -> Vec<String> {
    let out = format!("--callgrind-out-file={}", file.display());
    ["valgrind", "-q", "--tool=callgrind", &out].map(String::from).into()
}

/// Runs `command` (a program and its arguments) under callgrind.
///
/// # Errors
/// Valgrind is missing, the program failed, or the profile cannot be read.
pub fn run(command: &[String]) -> Result<Profile> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("profile");
    let words: Vec<String> = words(&file).into_iter().chain(command.iter().cloned()).collect();
    let ran = Command::new(&words[0]).args(&words[1..]).stdout(Stdio::null()).output();
    let ran = ran.context("cannot start valgrind (install it: apt-get install valgrind)")?;
    if !ran.status.success() {
        bail!("{words:?}: {}: {}", ran.status, String::from_utf8_lossy(&ran.stderr).trim());
    }
    Profile::parse(&std::fs::read_to_string(&file)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "version: 1\nevents: Ir\n\nfl=(1) a.c\nfn=(1) main\n1 10\ncfn=(2) list::take\ncalls=3 0\n+2 70\n\nfn=(2)\n4 50\ncfn=(3) list::link\ncalls=4 0\n* 20\n\nfn=(3)\n9 20\n";

    #[test]
    fn costs_are_with_and_without_what_is_called() {
        let profile = Profile::parse(TEXT).unwrap();
        assert_eq!(profile.total(), 80);
        assert_eq!(profile.cost(&["list::take"]), Cost { calls: 3, inclusive: 70, own: 50 });
        assert_eq!(profile.cost(&["list::"]), Cost { calls: 3, inclusive: 70, own: 70 });
        assert_eq!(profile.cost(&["none"]), Cost::default());
    }

    #[test]
    fn what_is_no_profile_is_refused_with_the_line() {
        let said = |text| Profile::parse(text).unwrap_err().to_string();
        assert!(said("events: Ir Dr\n").contains("line 1"), "{}", said("events: Ir Dr\n"));
        assert!(said("fn=(1)\n").contains("line 1"));
        assert!(said("3 4\n").contains("line 1"));
    }
}
