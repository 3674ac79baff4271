//! One step on a page: an action of a user, done by real mouse and keyboard events.

use crate::{CaptureError, Connection};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long a page may take to load or to show an element.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at a page.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The longest wait that a step may ask for.
const WAIT_LIMIT: Duration = Duration::from_secs(3600);
/// The page's own steps, as a message lists them.
const STEPS: &str =
    "goto ADDRESS, click SELECTOR, type TEXT, wait TIME, wait-for SELECTOR, evaluate JAVASCRIPT";
/// The object group of [`Step::Evaluate`]'s values, released at once: held values would stay alive.
const GROUP: &str = "heaplab";

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Open an address and wait until it has loaded.
    Goto(String),
    /// Click on an element, once it is visible.
    Click(String),
    /// Type into the element that has the focus.
    Type(String),
    /// Wait.
    Wait(Duration),
    /// Wait until the element exists.
    WaitFor(String),
    /// Run JavaScript in the page, and wait for its promise.
    Evaluate(String),
}

/// Reads a step.
pub fn read_step(text: &str) -> Result<Step, String> {
    let (verb, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let step = match verb {
        "goto" => Step::Goto(rest.into()),
        "click" => Step::Click(rest.into()),
        "type" => Step::Type(rest.into()),
        "wait" => Step::Wait(read_time(rest)?),
        "wait-for" => Step::WaitFor(rest.into()),
        "evaluate" => Step::Evaluate(rest.into()),
        _ => return Err(format!("{verb:?} is not a step; expected one of {STEPS}")),
    };
    if rest.is_empty() {
        return Err(format!("nothing follows {verb:?}; expected one of {STEPS}"));
    }
    Ok(step)
}

fn read_time(text: &str) -> Result<Duration, String> {
    let time = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => number.parse().ok().map(Duration::from_millis),
        (None, Some(number)) => number.parse().ok().map(Duration::from_secs),
        (None, None) => None,
    };
    time.filter(|time| *time <= WAIT_LIMIT)
        .ok_or_else(|| format!("{text:?} is not a time up to an hour, such as 500ms or 2s"))
}

impl Step {
    /// Does it.
    pub fn run(&self, connection: &mut Connection) -> Result<(), CaptureError> {
        match self {
            Step::Goto(address) => goto(connection, address),
            Step::Click(selector) => click(connection, selector),
            Step::Type(text) => {
                connection.ask("Input.insertText", &json!({"text": text})).map(|_| ())
            }
            Step::Wait(time) => {
                std::thread::sleep(*time);
                Ok(())
            }
            Step::WaitFor(selector) => {
                let found = format!("!!document.querySelector({})", literal(selector));
                until(connection, &found, "no element fits").map(|_| ())
            }
            Step::Evaluate(script) => evaluate(connection, script, false).map(|_| ()),
        }
    }
}

fn goto(connection: &mut Connection, address: &str) -> Result<(), CaptureError> {
    let answer = connection.ask("Page.navigate", &json!({"url": address}))?;
    if let Some(why) = answer["errorText"].as_str() {
        return Err(CaptureError::Page(format!("the address cannot be opened: {why}")));
    }
    until(connection, "document.readyState === 'complete'", "it has not loaded").map(|_| ())
}

fn click(connection: &mut Connection, selector: &str) -> Result<(), CaptureError> {
    let place = format!(
        "(() => {{ const element = document.querySelector({}); \
         if (!element) return null; \
         element.scrollIntoView({{block: 'center', inline: 'center', behavior: 'instant'}}); \
         const box = element.getBoundingClientRect(); \
         return box.width && box.height ? [box.x + box.width / 2, box.y + box.height / 2] : null; \
         }})()",
        literal(selector)
    );
    let place = until(connection, &place, "no visible element fits")?;
    let mut mouse = |kind: &str, button: &str| {
        let event =
            json!({"type": kind, "x": place[0], "y": place[1], "button": button, "clickCount": 1});
        connection.ask("Input.dispatchMouseEvent", &event).map(|_| ())
    };
    mouse("mouseMoved", "none")?;
    mouse("mousePressed", "left")?;
    mouse("mouseReleased", "left")
}

/// The first value of an expression that is true as JavaScript has it. A page on its way to another
/// has no place to ask, and is asked again.
fn until(connection: &mut Connection, expression: &str, why: &str) -> Result<Value, CaptureError> {
    let end = Instant::now() + PATIENCE;
    loop {
        let value = match evaluate(connection, expression, true) {
            Err(CaptureError::Refused { .. }) => Value::Null,
            value => value?,
        };
        if !matches!(value, Value::Null | Value::Bool(false)) {
            return Ok(value);
        }
        if Instant::now() >= end {
            let seconds = PATIENCE.as_secs();
            return Err(CaptureError::Page(format!("{why} after {seconds} s")));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn evaluate(
    connection: &mut Connection,
    expression: &str,
    by_value: bool,
) -> Result<Value, CaptureError> {
    let evaluation = json!({
        "expression": expression, "returnByValue": by_value, "objectGroup": GROUP,
        "awaitPromise": true, "userGesture": true, "silent": true,
    });
    let mut answer = connection.ask("Runtime.evaluate", &evaluation)?;
    connection.ask("Runtime.releaseObjectGroup", &json!({"objectGroup": GROUP}))?;
    let thrown = &answer["exceptionDetails"];
    if thrown.is_null() {
        return Ok(answer["result"]["value"].take());
    }
    let said = thrown["exception"]["description"].as_str().or(thrown["text"].as_str());
    let line = said.and_then(|said| said.lines().next()).unwrap_or("something without a text");
    Err(CaptureError::Page(format!("it throws {line}")))
}

/// A text as JavaScript writes it.
fn literal(text: &str) -> Value {
    Value::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_a_limit() {
        assert_eq!(read_step("wait 500ms"), Ok(Step::Wait(Duration::from_millis(500))));
        assert_eq!(read_step("wait\t3600s"), Ok(Step::Wait(WAIT_LIMIT)));
        for wrong in ["wait 5", "wait -1s", "wait", "wait 3601s", "wait 99999999999999999999s"] {
            assert!(read_step(wrong).unwrap_err().contains("is not a time"), "{wrong}");
        }
        assert!(read_step("click").unwrap_err().contains("nothing follows \"click\""));
    }
}
