//! The decision of a gate, for a recording or a heap snapshot.

use crate::junit::{Case, Outcome};

/// What came of the assertions of a gate.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// What came of each, for a CI server.
    pub cases: Vec<Case>,
    /// Why assertions may hold that mean nothing: these fail a strict gate.
    pub doubts: Vec<Doubt>,
    /// What else a person should know, a sentence each.
    pub notes: Vec<String>,
}

/// A reason why assertions may hold that mean nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// A sentence for a person.
    pub note: String,
    /// Why a strict gate fails.
    pub failure: &'static str,
}

impl Decision {
    /// Whether nothing fails; strict: nor is to be doubted.
    pub fn passes(&self, is_strict: bool) -> bool {
        let fails = |case: &Case| !matches!(case.result, Outcome::Holds(_));
        !self.cases.iter().any(fails) && (!is_strict || self.doubts.is_empty())
    }

    /// Why assertions could not be checked, a sentence each.
    pub fn errors(&self) -> impl Iterator<Item = &str> {
        self.cases.iter().filter_map(|case| match &case.result {
            Outcome::Unchecked(error) => Some(error.as_str()),
            _ => None,
        })
    }

    /// The cases; strict: doubts are cases that fail.
    pub fn into_cases(self, is_strict: bool) -> Vec<Case> {
        let doubts = self.doubts.into_iter().filter(|_| is_strict);
        let failed = doubts.map(|Doubt { note, failure }| Case {
            name: note,
            result: Outcome::Fails(failure.into()),
        });
        self.cases.into_iter().chain(failed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_fails_a_strict_gate_alone() {
        let case = |result| Case { name: "peak < 1".into(), result };
        let doubt = Doubt { note: "no stack has a function f".into(), failure: "mistyped" };
        let doubtful = Decision {
            cases: vec![case(Outcome::Holds(String::new()))],
            doubts: vec![doubt],
            notes: Vec::new(),
        };
        assert!(doubtful.passes(false) && !doubtful.passes(true));
        assert_eq!(doubtful.clone().into_cases(false).len(), 1);
        assert_eq!(doubtful.into_cases(true)[1].result, Outcome::Fails("mistyped".into()));
        let failed =
            Decision { cases: vec![case(Outcome::Fails("2".into()))], ..Decision::default() };
        assert!(!failed.passes(false));
    }
}
