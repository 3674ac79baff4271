//! The dialogs of a page (`alert`, `confirm`, `prompt`, `beforeunload`), which stop it until
//! somebody answers: here nobody but the scenario would.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Different dialogs that are told; a page may open any number.
const TOLD_MAX: usize = 20;
/// Characters of a dialog's text that are told.
const TEXT_MAX: usize = 80;

/// Dialogs that were answered, each with how often.
#[derive(Debug, Default)]
pub struct Dialogs {
    told: BTreeMap<String, u64>,
}

impl Dialogs {
    /// The answer to a dialog: no, and to whether to leave the page yes, because a step leaves it.
    pub fn answered(&mut self, kind: &str, text: &str) -> Value {
        let accept = kind == "beforeunload";
        let line = if accept {
            "the page asked whether to leave it: it was left".to_owned()
        } else {
            let kind = if kind.is_empty() { "dialog" } else { kind };
            let mut shown: String = text.chars().take(TEXT_MAX).collect();
            if shown.len() < text.len() {
                shown.push('\u{2026}');
            }
            format!("the page opened {kind}({shown:?}): it was dismissed")
        };
        if self.told.len() < TOLD_MAX || self.told.contains_key(&line) {
            *self.told.entry(line).or_default() += 1;
        }
        json!({"accept": accept})
    }

    /// What was answered, in the order of the letters.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.told.iter().map(|(line, count)| match count {
            1 => line.clone(),
            count => format!("{line}, {count} times"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_asks_is_dismissed_but_for_leaving_it_and_told_within_limits() {
        let mut dialogs = Dialogs::default();
        assert_eq!(dialogs.answered("alert", "Saved"), json!({"accept": false}));
        assert_eq!(dialogs.answered("alert", "Saved"), json!({"accept": false}));
        assert_eq!(dialogs.answered("beforeunload", ""), json!({"accept": true}));
        let lines: Vec<_> = dialogs.lines().collect();
        assert_eq!(
            lines,
            [
                "the page asked whether to leave it: it was left",
                "the page opened alert(\"Saved\"): it was dismissed, 2 times",
            ]
        );
        (0..1000).for_each(|number| {
            dialogs.answered("prompt", &"long ".repeat(number));
        });
        assert_eq!(dialogs.lines().count(), TOLD_MAX);
        assert!(dialogs.lines().all(|line| line.chars().count() < 200));
    }
}
