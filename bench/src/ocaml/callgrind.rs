//! Instructions by function: valgrind's callgrind runs a command, and its file is read.
//!
//! Source: valgrind's manual, "Callgrind Format Specification". Names and positions are requested
//! uncompressed, so that each line is complete by itself.

use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The counts of callgrind.
#[derive(Debug, Default)]
pub struct Counted {
    /// Instructions of the whole process.
    pub total: u64,
    /// By function: calls, and instructions from call to return, its callees included.
    calls: HashMap<String, (u64, u64)>,
}

impl Counted {
    /// Instructions within the calls of functions whose name satisfies `is`, and the number of
    /// these calls. Such functions must not call each other.
    pub fn within(&self, is: impl Fn(&str) -> bool) -> Result<(u64, u64)> {
        let found = self.calls.iter().filter(|(name, _)| is(name));
        let sum = found.fold((0, 0), |sum, (_, &(calls, cost))| (sum.0 + cost, sum.1 + calls));
        if sum.1 == 0 {
            bail!("callgrind saw no call of a function that is to be counted");
        }
        Ok(sum)
    }
}

/// The words before a command that run it under callgrind, with output into `file`.
pub fn before(file: &Path) -> Vec<OsString> {
    let mut written = OsString::from("--callgrind-out-file=");
    written.push(file);
    let options = ["--compress-strings=no", "--compress-pos=no", "--error-exitcode=9", "-q"];
    let tool = ["valgrind", "--tool=callgrind"].map(OsString::from);
    tool.into_iter().chain([written]).chain(options.map(OsString::from)).collect()
}

/// Parses callgrind's output.
pub fn read(path: &Path) -> Result<Counted> {
    let file = std::fs::File::open(path)
        .with_context(|| format!("{}: callgrind wrote nothing", path.display()))?;
    parse(BufReader::new(file)).with_context(|| path.display().to_string())
}

fn parse(file: impl BufRead) -> Result<Counted> {
    let mut counted = Counted::default();
    // A call: the callee and the count. Its cost is the second number of the next line.
    let (mut callee, mut calls) = (String::new(), None);
    for line in file.lines() {
        let line = line?;
        if let Some(name) = line.strip_prefix("cfn=") {
            callee = name.to_owned();
        } else if let Some(call) = line.strip_prefix("calls=") {
            calls = Some(first(call)?);
        } else if let Some(total) = line.strip_prefix("totals: ") {
            counted.total = first(total)?;
        } else if let Some(calls) = calls.take() {
            let cost = line.split(' ').nth(1).unwrap_or_default();
            let sum = counted.calls.entry(callee.clone()).or_default();
            *sum = (sum.0 + calls, sum.1 + first(cost)?);
        }
    }
    Ok(counted)
}

fn first(text: &str) -> Result<u64> {
    let digits = text.split(' ').next().unwrap_or_default();
    digits.parse().with_context(|| format!("{text:?}: expected a count"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_added_up() {
        let text = "events: Ir\n\nfn=main\n16 400\ncfn=work\ncalls=3 20\n17 900\ncfi=a.c\n\
            cfn=work\ncalls=1 20\n18 50\n\nfn=work\n20 950\n\ntotals: 1350\n";
        let counted = parse(text.as_bytes()).unwrap();
        assert_eq!(counted.total, 1350);
        assert_eq!(counted.within(|name| name == "work").unwrap(), (950, 4));
        assert!(counted.within(|name| name == "other").is_err());
    }
}
