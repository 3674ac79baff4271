//! What came of assertions as JUnit's XML, which CI servers show beside tests.
//!
//! Source: the schema that Jenkins, GitLab and GitHub's reporters read (`testsuite`, `testcase`,
//! `failure`, `error`). Text is escaped, and what XML 1.0 cannot hold is replaced.

use heaplab_text::markup::escaped;
use std::fmt::Write;

/// One assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The assertion.
    pub name: String,
    /// The result.
    pub result: Outcome,
}

impl Case {
    /// Cases of assertions where no assertion could be checked.
    pub fn unchecked(assertions: &[String], why: &str) -> Vec<Case> {
        let case =
            |name: &String| Case { name: name.clone(), result: Outcome::Unchecked(why.into()) };
        assertions.iter().map(case).collect()
    }
}

/// What came of an assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds; its values, for a person.
    Holds(String),
    /// It does not; its values.
    Fails(String),
    /// It could not be checked, and why.
    Unchecked(String),
}

/// The file: one suite.
pub fn document(suite: &str, cases: &[Case]) -> String {
    let count = |is: fn(&Outcome) -> bool| cases.iter().filter(|case| is(&case.result)).count();
    let failures = count(|result| matches!(result, Outcome::Fails(_)));
    let errors = count(|result| matches!(result, Outcome::Unchecked(_)));
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let numbers = format!("tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\"", cases.len());
    let _ = writeln!(out, "<testsuites name=\"heaplab\" {numbers}>");
    let _ = writeln!(out, "  <testsuite name=\"{}\" {numbers}>", escaped(suite));
    for case in cases {
        let name = escaped(&case.name);
        let _ = writeln!(out, "    <testcase name=\"{name}\" classname=\"{}\">", escaped(suite));
        let (tag, text) = match &case.result {
            Outcome::Holds(text) => ("system-out", text),
            Outcome::Fails(text) => ("failure", text),
            Outcome::Unchecked(text) => ("error", text),
        };
        let message = match &case.result {
            Outcome::Holds(_) => String::new(),
            _ => format!(" message=\"{}\"", escaped(text.lines().next().unwrap_or_default())),
        };
        let _ = writeln!(out, "      <{tag}{message}>{}</{tag}>", escaped(text));
        out.push_str("    </testcase>\n");
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_is_markup() {
        let case = |result| Case { name: "leaked(\"a<b>\") == 0 && peak < 1\u{1b}".into(), result };
        let text = document(
            "app \"x\" & co",
            &[
                case(Outcome::Holds("peak is 1".into())),
                case(Outcome::Fails("leaked is </failure>\nmore".into())),
                case(Outcome::Unchecked("no marks".into())),
            ],
        );
        assert!(text.contains("tests=\"3\" failures=\"1\" errors=\"1\""));
        assert!(text.contains(
            "name=\"leaked(&quot;a&lt;b&gt;&quot;) == 0 &amp;&amp; peak &lt; 1\u{fffd}\""
        ));
        assert!(text.contains("<failure message=\"leaked is &lt;/failure&gt;\">"));
        assert_eq!(text.matches("</failure>").count(), 1);
    }
}
