//! One assertion: its names, its result for a recording, and if it fails the functions that have
//! most of its values.

use crate::baseline::{replaced, split};
use crate::junit::{Case, Outcome};
use crate::measured::{Measured, Unmeasured};
use crate::names::{Takes, known, wrong};
use heaplab_expression::{Expression, Misread, Tokens, Value};
use heaplab_text::words::{bytes, count};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Functions named where an assertion fails.
const LARGEST: usize = 3;

/// An assertion with known names only.
#[derive(Clone, Debug)]
pub struct Assertion {
    text: String,
    expression: Expression,
}

/// A value that an assertion asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// `peak`, `leaked("parse_*")`.
    pub call: String,
    /// Whether the value is the baseline's.
    pub of_baseline: bool,
    /// Bytes or a count.
    pub value: u64,
    /// Whether the value is in bytes.
    pub is_bytes: bool,
    /// If the assertion fails, the functions with the largest shares of the value.
    pub largest: Vec<Largest>,
}

/// A function with its part of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Largest {
    /// Its name, without arguments.
    pub function: String,
    /// Its part.
    pub value: u64,
    /// The stack with most of the part: frames with their places, the function first, at most
    /// eight.
    pub stack: Vec<String>,
}

/// The result of an assertion for a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The assertion as written.
    pub assertion: String,
    /// Whether it holds.
    pub holds: bool,
    /// The values used, each once.
    pub values: Vec<Asked>,
    /// Why it could not be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Checked {
    /// For a CI server.
    pub fn case(&self) -> Case {
        let values = self.values_text().join("\n");
        let result = match &self.error {
            Some(error) => Outcome::Unchecked(error.clone()),
            None if self.holds => Outcome::Holds(values),
            None => Outcome::Fails(values),
        };
        Case { name: self.assertion.clone(), result }
    }

    /// The values, a line each. If the assertion fails: with the functions that have most of each,
    /// and an indented line for the stack of each function.
    pub fn values_text(&self) -> Vec<String> {
        let number = |asked: &Asked, value: u64| {
            if asked.is_bytes { bytes(value) } else { count(value) }
        };
        let line = |asked: &Asked| {
            let is_rounded = asked.is_bytes && asked.value >= 1024;
            let exact =
                if is_rounded { format!(" ({} bytes)", count(asked.value)) } else { String::new() };
            let baseline = if asked.of_baseline { " of the baseline" } else { "" };
            let largest = asked.largest.iter();
            let largest = largest.map(|of| format!("{} {}", of.function, number(asked, of.value)));
            let largest = largest.collect::<Vec<_>>().join(", ");
            let most =
                if largest.is_empty() { String::new() } else { format!("; most of it: {largest}") };
            format!("{}{baseline} is {}{exact}{most}", asked.call, number(asked, asked.value))
        };
        let stack = |of: &Largest| format!("  {}", of.stack.join(" < "));
        let lines = |asked| std::iter::once(line(asked)).chain(asked.largest.iter().map(stack));
        self.values.iter().flat_map(lines).collect()
    }
}

impl Assertion {
    /// Reads an assertion. Checks that every name in it is known, and that it compares numbers.
    ///
    /// # Errors
    /// The text is not an assertion; the error points at the place.
    pub fn read(text: &str) -> Result<Assertion, Misread> {
        let written = Expression::read(text)?;
        let mut found: Option<(usize, String)> = None;
        if let Some(stray) = written.text() {
            let place = [format!("\"{stray}\""), format!("'{stray}'")]
                .iter()
                .find_map(|quoted| text.find(quoted))
                .unwrap_or(0);
            found = Some((
                place,
                format!(
                    "there is no text to compare with; a function stands in a name, such as leaked({stray:?})"
                ),
            ));
        }
        written.names(&mut |name, argument, place| {
            let why = match name {
                "baseline" if argument.is_none() => None,
                "baseline" => Some(
                    "baseline takes no name: it stands for the other side of its comparison".into(),
                ),
                _ => wrong(name, argument),
            };
            if let Some(why) = why {
                found.get_or_insert((place, why));
            }
        });
        if found.is_none() {
            match replaced(&written) {
                Ok(expression) => return Ok(Assertion { text: text.into(), expression }),
                Err(wrong) => found = Some(wrong),
            }
        }
        let (place, why) = found.unwrap_or_default();
        Err(Tokens::of(text)?.misread_at(place, why))
    }

    /// The assertion as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it asks something of a baseline.
    pub fn asks_baseline(&self) -> bool {
        let mut asks = false;
        self.expression.names(&mut |name, _, _| asks |= split(name).0);
        asks
    }

    /// Whether it asks for findings, of the recording or of its baseline.
    pub fn asks_findings(&self) -> bool {
        let mut asks = false;
        self.expression.names(&mut |name, _, _| asks |= split(name).1 == "findings");
        asks
    }

    /// The functions that are named, each with the value that is asked of it.
    pub fn functions(&self) -> BTreeSet<(String, String)> {
        let mut functions = BTreeSet::new();
        self.expression.names(&mut |name, argument, _| {
            let value = split(name).1;
            if known(value).is_some_and(|name| name.takes == Takes::Function) {
                let named = argument.filter(|name| !name.is_empty());
                functions.extend(named.map(|function| (function.to_owned(), value.to_owned())));
            }
        });
        functions
    }

    /// What came of it. It cannot be checked if a value was not measured, a divisor is zero, a
    /// result is too large, or the baseline is missing.
    pub fn check(&self, recording: &Measured<'_>, baseline: Option<&Measured<'_>>) -> Checked {
        self.checked(recording, baseline).unwrap_or_else(|error| Checked {
            assertion: self.text.clone(),
            holds: false,
            values: Vec::new(),
            error: Some(error.to_string()),
        })
    }

    fn checked(
        &self,
        recording: &Measured<'_>,
        baseline: Option<&Measured<'_>>,
    ) -> Result<Checked, Unmeasured> {
        let mut calls: Vec<(String, String)> = Vec::new();
        self.expression.names(&mut |name, argument, _| {
            let call = (name.to_owned(), argument.unwrap_or_default().to_owned());
            if !calls.contains(&call) {
                calls.push(call);
            }
        });
        let mut values: BTreeMap<(String, String), u64> = BTreeMap::new();
        for (name, argument) in &calls {
            let (of_baseline, text) = split(name);
            let of = if of_baseline { baseline } else { Some(recording) };
            let of = of.ok_or_else(|| {
                Unmeasured(format!(
                    "{}: baseline needs another recording: --baseline other.heaplab",
                    self.text
                ))
            })?;
            values.insert((name.clone(), argument.clone()), of.value(text, argument)?);
        }
        let mut ask = |name: &str, argument: Option<&str>| {
            let call = (name.to_owned(), argument.unwrap_or_default().to_owned());
            Value::from(values.get(&call).copied().unwrap_or(0))
        };
        if self.expression.is_undefined(&mut ask) {
            return Err(Unmeasured(format!(
                "{}: something is divided by zero or too large, which is neither more nor less than anything",
                self.text
            )));
        }
        let holds = self.expression.is_true(&mut ask);
        let asked = |call: &(String, String)| {
            let (of_baseline, name) = split(&call.0);
            let largest = if holds || of_baseline {
                Vec::new()
            } else {
                recording.largest(name, &call.1, LARGEST)
            };
            Asked {
                call: if call.1.is_empty() {
                    name.to_owned()
                } else {
                    format!("{name}({:?})", call.1)
                },
                of_baseline,
                value: values.get(call).copied().unwrap_or(0),
                is_bytes: known(name).is_some_and(|name| name.is_bytes),
                largest,
            }
        };
        Ok(Checked {
            assertion: self.text.clone(),
            holds,
            values: calls.iter().map(asked).collect(),
            error: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misread(text: &str) -> String {
        Assertion::read(text).unwrap_err().to_string()
    }

    #[test]
    fn names_are_known_or_pointed_at() {
        assert!(
            Assertion::read("peak < 50MB && leaked('parse_*') == 0 || !(findings(leak) > 1)")
                .is_ok()
        );
        assert!(Assertion::read("live(loaded) < 1e6 and peak() / end < 3").is_ok());
        assert_eq!(
            misread("1 < paek"),
            "paek is not known; there are peak, end, leaked, live, objects, allocations, reallocations, temporary, requested, copied, slop, resident, findings, baseline\n  1 < paek\n      ^"
        );
        assert!(misread("live < 1").starts_with("live needs a mark"));
        assert!(misread("slop(parse) < 1").starts_with("slop is of the whole run"));
        assert!(
            misread("findings(leaks) < 1").contains("there are clownshoes, growth, churn, leak")
        );
        assert!(misread("peak != \"many\"").ends_with("\n  peak != \"many\"\n          ^"));
    }

    #[test]
    fn baseline_stands_for_the_other_side() {
        assert!(Assertion::read("allocations(render) < 1.1 * baseline").unwrap().asks_baseline());
        assert!(Assertion::read("baseline + 1MB > peak + end").unwrap().asks_baseline());
        assert!(!Assertion::read("peak < 1MB").unwrap().asks_baseline());
        for asked in ["findings < 2", "findings(leak) < 1", "findings <= baseline"] {
            assert!(Assertion::read(asked).unwrap().asks_findings(), "{asked}");
        }
        assert!(!Assertion::read("peak < baseline").unwrap().asks_findings());
        assert!(misread("peak - baseline < 1MB").contains("write peak < baseline + 1MB"));
        assert!(misread("baseline < 1MB").contains("which has no name"));
        assert!(misread("baseline < baseline").contains("and that is one itself"));
        assert!(misread("peak < baseline(peak)").starts_with("baseline takes no name"));
    }
}
