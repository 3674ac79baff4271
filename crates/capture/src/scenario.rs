//! A scenario: steps on a page, and the three moments at which its heap is taken.
//!
//! The text has one step a line, and `#` begins a comment:
//!
//! ```text
//! goto http://localhost:8080/
//! wait-for #app
//!
//! action:
//! click #open
//! wait-for .dialog
//!
//! back:
//! click #close
//! ```
//!
//! The action and its undoing are done once before anything is taken: caches fill then. After that
//! come the first heap, the action, the second heap, the undoing, the third heap.
//!
//! Source: memlab's scenarios (`url`, `action`, `back`), which are modules of JavaScript.

use crate::steps::{Step, read_step};
use crate::{CaptureError, Connection};
use serde_json::json;
use std::time::Duration;

/// The most steps of a scenario.
const STEPS_LIMIT: usize = 10_000;
/// Time for the page's reactions to an event: timers of zero, observers, finalizers.
const SETTLE: Duration = Duration::from_millis(200);

/// When a heap is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before the action.
    Base,
    /// After the action.
    Target,
    /// After the action was undone.
    Final,
}

impl Stage {
    /// All moments, in order.
    pub const ALL: [Stage; 3] = [Stage::Base, Stage::Target, Stage::Final];

    /// The name of its file.
    pub fn file_name(self) -> &'static str {
        match self {
            Stage::Base => "base.heapsnapshot",
            Stage::Target => "target.heapsnapshot",
            Stage::Final => "final.heapsnapshot",
        }
    }
}

/// A step and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    number: usize,
    text: String,
    step: Step,
}

/// What to do with a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    setup: Vec<Line>,
    action: Vec<Line>,
    back: Vec<Line>,
}

/// Why a text is no scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Misread {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what is expected.
    pub why: String,
}

/// Takes the heap of a page at a moment.
pub type Take<'t> = dyn FnMut(&mut Connection, Stage) -> Result<(), CaptureError> + 't;

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// A line is no step, a part is missing or stands twice, or the first step is no `goto`.
    pub fn read(text: &str) -> Result<Scenario, Misread> {
        let mut parts = [Some(Vec::new()), None, None];
        let mut part = 0;
        let mut last = 1;
        for (index, text) in text.lines().enumerate() {
            let (number, text) = (index + 1, text.trim());
            let misread = |why: String| Misread { line: number, why };
            last = number;
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let next = match text {
                "action:" => 1,
                "back:" => 2,
                _ => {
                    let step = read_step(text).map_err(misread)?;
                    let lines = parts[part].get_or_insert_default();
                    if lines.len() == STEPS_LIMIT {
                        return Err(misread(format!("there are more than {STEPS_LIMIT} steps")));
                    }
                    lines.push(Line { number, text: text.into(), step });
                    continue;
                }
            };
            if next != part + 1 {
                let order = "`action:` follows the steps that open the page, `back:` follows those of the action";
                return Err(misread(format!("{text:?} is out of place: {order}")));
            }
            part = next;
            parts[part] = Some(Vec::new());
        }
        let [Some(setup), Some(action), Some(back)] = parts else {
            let missing = if part == 0 { "action:" } else { "back:" };
            return Err(Misread { line: last, why: format!("there is no line {missing:?}") });
        };
        if !matches!(setup.first(), Some(Line { step: Step::Goto(_), .. })) {
            let line = setup.first().map_or(1, |first| first.number);
            let why = "the first step is `goto ADDRESS`, the page to open".into();
            return Err(Misread { line, why });
        }
        for (lines, name) in [(&action, "action:"), (&back, "back:")] {
            if lines.is_empty() {
                return Err(Misread { line: last, why: format!("no step follows {name:?}") });
            }
        }
        Ok(Scenario { setup, action, back })
    }

    /// Does the steps, and has `take` take the heap at each moment.
    ///
    /// # Errors
    /// [`CaptureError::Step`] where a step cannot be done, and what `take` fails with.
    pub fn run(&self, connection: &mut Connection, take: &mut Take) -> Result<(), CaptureError> {
        // A crashed page answers no command, and announces the crash only after this command.
        connection.ask("Inspector.enable", &json!({}))?;
        // A page with an open dialog does nothing else; the connection answers it.
        connection.ask("Page.enable", &json!({}))?;
        for part in [&self.setup, &self.action, &self.back] {
            steps(part, connection)?;
        }
        for (moment, part) in
            [(Stage::Base, &self.action), (Stage::Target, &self.back), (Stage::Final, &Vec::new())]
        {
            std::thread::sleep(SETTLE);
            connection.ask("HeapProfiler.collectGarbage", &json!({}))?;
            std::thread::sleep(SETTLE);
            take(connection, moment)?;
            steps(part, connection)?;
        }
        Ok(())
    }
}

fn steps(lines: &[Line], connection: &mut Connection) -> Result<(), CaptureError> {
    lines.iter().try_for_each(|line| {
        line.step.run(connection).map_err(|why| CaptureError::Step {
            line: line.number,
            step: line.text.clone(),
            why: Box::new(why),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_has_three_parts() {
        let scenario = Scenario::read(
            "# opens and closes\ngoto http://a/\n\naction:\n  click #open\n  wait 2s\nback:\nevaluate close()\n",
        )
        .unwrap();
        let steps = |lines: &[Line]| {
            lines.iter().map(|line| (line.number, line.step.clone())).collect::<Vec<_>>()
        };
        assert_eq!(steps(&scenario.setup), [(2, Step::Goto("http://a/".into()))]);
        assert_eq!(
            steps(&scenario.action),
            [(5, Step::Click("#open".into())), (6, Step::Wait(Duration::from_secs(2))),]
        );
        assert_eq!(steps(&scenario.back), [(8, Step::Evaluate("close()".into()))]);
    }

    #[test]
    fn what_is_no_scenario_is_told_by_its_line() {
        let why = |text: &str| Scenario::read(text).unwrap_err().to_string();
        for (text, expected) in [
            ("", "line 1: there is no line \"action:\""),
            ("goto http://a/\naction:\nclick a\n", "line 3: there is no line \"back:\""),
            ("goto http://a/\nback:\n", "line 2: \"back:\" is out of place"),
            ("goto http://a/\naction:\nclick a\naction:\n", "line 4: \"action:\" is out of place"),
            ("goto http://a/\naction:\nback:\nclick b", "line 4: no step follows \"action:\""),
            ("goto http://a/\naction:\nclick a\nback:", "line 4: no step follows \"back:\""),
            ("\nclick a\naction:\nclick a\nback:\nclick b", "line 2: the first step is `goto"),
            ("goto http://a/\nhover a", "line 2: \"hover\" is not a step"),
        ] {
            assert!(why(text).starts_with(expected), "{text:?}: {}", why(text));
        }
        let long = "wait 1s\n".repeat(STEPS_LIMIT + 1);
        assert!(why(&long).contains("more than 10000 steps"));
    }
}
