//! The varied value: one range of values in one place, an environment variable or a word of the
//! command.
//!
//! A range stands in braces, with any text around it: `OCAMLRUNPARAM=o={20..320x10}`,
//! `-Xmx{64..1024x8}m`. If a variable's whole value is the range, braces may be left out:
//! `GOGC=25..800x8`. Three kinds:
//! - `FROM..TOxN`: N values, each larger than the one before it by the same *factor*. Parameters of
//!   heaps are ratios: the step from 20 to 40 equals that from 160 to 320.
//! - `FROM..TO+STEP`: values at a distance of STEP.
//! - `A,B,C`: these values, in this order.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Most values of one range: a setting is a fresh process in every block.
pub const VALUES_MAX: usize = 1_000;

/// The place of the value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// `NAME=...`: the place `{NAME}` in a word of the command if there is one, else an environment
    /// variable.
    Name(String),
    /// A word of the command, by its index.
    Word(usize),
}

/// A range of values and the text around it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vary {
    /// The place of the value.
    pub target: Target,
    /// Text before the value.
    pub before: String,
    /// The values as texts for the place.
    pub values: Vec<String>,
    /// Text behind it.
    pub after: String,
}

/// A range that cannot be parsed, with the place of the mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct RangeError {
    /// The given text.
    pub text: String,
    /// Characters before the place.
    pub at: usize,
    /// The mistake, or the expectation.
    pub reason: String,
}

impl fmt::Display for RangeError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let shown: String = self
            .text
            .chars()
            .map(|letter| if letter.is_control() { '?' } else { letter })
            .collect();
        write!(out, "{}\n  {shown}\n  {}^", self.reason, " ".repeat(self.at))
    }
}

/// The syntax of ranges, for messages.
const KINDS: &str = "20..320x10 (10 values, equal factors), 20..320+20 (equal steps) or a,b,c";

impl Vary {
    /// Parses `NAME=TEXT{RANGE}TEXT` or `NAME=RANGE`.
    ///
    /// # Errors
    /// The place of the mistake, and the mistake.
    pub fn of_variable(text: &str) -> Result<Vary, RangeError> {
        let error = |at: usize, reason: String| RangeError {
            text: text.into(),
            at: text[..at].chars().count(),
            reason,
        };
        let Some((name, value)) = text.split_once('=') else {
            return Err(error(text.len(), "expected NAME=RANGE".into()));
        };
        if let Some((at, _)) = name.char_indices().find(|(at, letter)| !is_name(*letter, *at)) {
            return Err(error(at, "this cannot stand in a variable's name".into()));
        }
        if name.is_empty() {
            return Err(error(0, "expected the name of a variable".into()));
        }
        let begin = name.len() + 1;
        let target = Target::Name(name.into());
        match braces(value).map_err(|(at, reason)| error(begin + at, reason))? {
            Some((open, close)) => {
                let values = range(&value[open + 1..close])
                    .map_err(|(at, reason)| error(begin + open + 1 + at, reason))?;
                Ok(Vary {
                    target,
                    before: value[..open].into(),
                    values,
                    after: value[close + 1..].into(),
                })
            }
            None => {
                let values = range(value).map_err(|(at, reason)| error(begin + at, reason))?;
                Ok(Vary { target, before: String::new(), values, after: String::new() })
            }
        }
    }

    /// Finds the one range in braces in the words of a command; other braces are the command's own.
    ///
    /// # Errors
    /// Two ranges, or braces that resemble a range and are none. Returns `None` without any.
    pub fn of_words(words: &[String]) -> Result<Option<Vary>, RangeError> {
        let mut found: Option<Vary> = None;
        for (index, word) in words.iter().enumerate() {
            let error = |at: usize, reason: String| RangeError {
                text: word.clone(),
                at: word[..at].chars().count(),
                reason,
            };
            let Ok(Some((open, close))) = braces(word) else { continue };
            let inside = &word[open + 1..close];
            // `{print $1, $2}` is a program of awk.
            if inside.contains(char::is_whitespace)
                || !inside.contains("..") && !inside.contains(',')
            {
                continue;
            }
            let values = range(inside).map_err(|(at, reason)| error(open + 1 + at, reason))?;
            if found.is_some() {
                return Err(error(
                    open,
                    "this is a second range, and one is varied at a time".into(),
                ));
            }
            found = Some(Vary {
                target: Target::Word(index),
                before: word[..open].into(),
                values,
                after: word[close + 1..].into(),
            });
        }
        Ok(found)
    }

    /// The text with the value in its place.
    pub fn with(&self, value: &str) -> String {
        format!("{}{value}{}", self.before, self.after)
    }

    /// The name of a setting, the value with the text that belongs to it: `o=80`, `-Xmx64m`,
    /// `GOGC=100`.
    pub fn label(&self, value: &str) -> String {
        let separates = |letter: char| letter == ',' || letter.is_whitespace();
        let before = self.before.rsplit(separates).next().unwrap_or("");
        let after = self.after.split(separates).next().unwrap_or("");
        match &self.target {
            Target::Name(name) if before.is_empty() => format!("{name}={value}{after}"),
            _ => format!("{before}{value}{after}"),
        }
    }

    /// The name of the variable or parameter; `None`: a word of the command is varied.
    pub fn name(&self) -> Option<&str> {
        match &self.target {
            Target::Name(name) => Some(name),
            Target::Word(_) => None,
        }
    }

    /// The value as a number, if it is one.
    pub fn number(&self, index: usize) -> Option<f64> {
        self.values.get(index)?.parse().ok()
    }
}

fn is_name(letter: char, at: usize) -> bool {
    letter == '_' || letter.is_ascii_alphabetic() || (at > 0 && letter.is_ascii_digit())
}

/// The only pair of braces in `text`.
fn braces(text: &str) -> Result<Option<(usize, usize)>, (usize, String)> {
    let Some(open) = text.find('{') else {
        return match text.find('}') {
            Some(close) => Err((close, "this brace closes nothing".into())),
            None => Ok(None),
        };
    };
    let Some(close) = text[open..].find('}').map(|length| open + length) else {
        return Err((open, "this brace is not closed".into()));
    };
    match text[close + 1..].find('{') {
        Some(second) => {
            Err((close + 1 + second, "this is a second range, and one is varied at a time".into()))
        }
        None => Ok(Some((open, close))),
    }
}

/// The values of a range without its braces.
fn range(text: &str) -> Result<Vec<String>, (usize, String)> {
    if let Some(dots) = text.find("..") {
        return steps(text, dots);
    }
    if !text.contains(',') {
        return Err((text.len(), format!("expected a range: {KINDS}")));
    }
    let mut values: Vec<String> = Vec::new();
    let mut at = 0;
    for value in text.split(',') {
        if value.is_empty() {
            return Err((at, "expected a value".into()));
        }
        if values.iter().any(|known| known == value) {
            return Err((at, format!("{value} stands there twice")));
        }
        values.push(value.into());
        at += value.len() + 1;
    }
    bounded(values, 0)
}

fn bounded(values: Vec<String>, at: usize) -> Result<Vec<String>, (usize, String)> {
    match values.len() {
        0..2 => Err((at, "one value is no range".into())),
        2..=VALUES_MAX => Ok(values),
        _ => Err((at, format!("a range has at most {VALUES_MAX} values"))),
    }
}

/// `FROM..TOxN` and `FROM..TO+STEP`.
fn steps(text: &str, dots: usize) -> Result<Vec<String>, (usize, String)> {
    if let Some(equals) = text[..dots].rfind('=') {
        let (before, range) = text.split_at(equals + 1);
        return Err((
            equals + 1,
            format!("a range with text around it stands in braces: {before}{{{range}}}"),
        ));
    }
    let first = number(&text[..dots], 0)?;
    let rest = dots + 2;
    let Some(kind) = text[rest..].find(['x', '+']).map(|length| rest + length) else {
        number(&text[rest..], rest)?;
        return Err((text.len(), "expected how many values (x10) or how far apart (+20)".into()));
    };
    let last = number(&text[rest..kind], rest)?;
    if last <= first {
        return Err((rest, "expected a number above the first".into()));
    }
    // Keeps as many decimals as the range's ends have: programs may require whole numbers.
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let (from, to) = (&text[..dots], &text[rest..kind]);
    if text.as_bytes()[kind] == b'x' {
        let count: usize = text[kind + 1..]
            .parse()
            .map_err(|_| (kind + 1, String::from("expected how many values, a whole number")))?;
        if !(2..=VALUES_MAX).contains(&count) {
            return Err((kind + 1, format!("expected from 2 to {VALUES_MAX} values")));
        }
        if first <= 0.0 {
            return Err((
                0,
                "equal factors need a beginning above 0; equal steps are written FROM..TO+STEP"
                    .into(),
            ));
        }
        let digits = match decimals(from).max(decimals(to)) {
            0 => 0,
            digits => digits + 1,
        };
        let value = |index: usize| first * (last / first).powf(index as f64 / (count - 1) as f64);
        let mut values: Vec<String> =
            (0..count).map(|index| written(value(index), digits)).collect();
        // In a short range whole numbers may coincide.
        values.dedup();
        return bounded(values, kind + 1);
    }
    let step = number(&text[kind + 1..], kind + 1)?;
    if step <= 0.0 {
        return Err((kind + 1, "expected a step above 0".into()));
    }
    let count = ((last - first) / step + 1e-9).floor();
    if count >= VALUES_MAX as f64 {
        return Err((kind + 1, format!("these are more than {VALUES_MAX} values")));
    }
    let digits = decimals(from).max(decimals(to)).max(decimals(&text[kind + 1..]));
    bounded(
        (0..=count as usize).map(|index| written(first + step * index as f64, digits)).collect(),
        kind + 1,
    )
}

fn number(text: &str, at: usize) -> Result<f64, (usize, String)> {
    let is_number = !text.is_empty()
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| byte.is_ascii_digit() || byte == b'.' || (at == 0 && byte == b'-'));
    let value: Option<f64> = if is_number { text.parse().ok() } else { None };
    value.filter(|value| value.abs() < 1e15).ok_or_else(|| {
        let wrong =
            text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(0);
        (at + wrong, String::from("expected a number"))
    })
}

/// With at most `decimals` decimals, without trailing zeroes.
fn written(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if decimals == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(text: &str) -> Vec<String> {
        Vary::of_variable(text).unwrap().values
    }

    #[test]
    fn ranges_of_each_kind() {
        assert_eq!(values("O=o={20..320x10}").join(" "), "20 27 37 50 69 93 127 173 235 320");
        assert_eq!(values("GOGC=25..800x8").join(" "), "25 41 67 110 181 297 488 800");
        assert_eq!(values("O={20..100+20}").join(" "), "20 40 60 80 100");
        assert_eq!(values("O={0..10+4}").join(" "), "0 4 8");
        assert_eq!(values("O={0.5..4x4}").join(" "), "0.5 1 2 4");
        assert_eq!(values("O={1..3x9}").join(" "), "1 2 3");
        assert_eq!(values("O={next,first,best}").join(" "), "next first best");
    }

    #[test]
    fn text_around_a_range_is_kept() {
        let vary = Vary::of_variable("JAVA_TOOL_OPTIONS=-Xss1m -Xmx{64..1024x5}m -Xint").unwrap();
        assert_eq!(vary.with(&vary.values[0]), "-Xss1m -Xmx64m -Xint");
        assert_eq!(vary.label("64"), "-Xmx64m");
        assert_eq!(
            Vary::of_variable("OCAMLRUNPARAM=s=32k,o={20..320x10}").unwrap().label("80"),
            "o=80"
        );
        assert_eq!(Vary::of_variable("GOGC=25..800x8").unwrap().label("25"), "GOGC=25");
        assert_eq!(
            Vary::of_variable("GOMEMLIMIT={64..128x3}MiB").unwrap().label("64"),
            "GOMEMLIMIT=64MiB"
        );
    }

    #[test]
    fn a_range_in_a_word_of_the_command() {
        let words = ["awk", "{print $1}", "--heap={64..512x4}m"].map(String::from);
        let vary = Vary::of_words(&words).unwrap().unwrap();
        assert_eq!((vary.target.clone(), vary.label("64")), (Target::Word(2), "--heap=64m".into()));
        assert_eq!(Vary::of_words(&words[..2]), Ok(None));
        let of_awk = ["awk", "{print $1,$2}", "{ if (NR in a) print; }"].map(String::from);
        assert_eq!(Vary::of_words(&of_awk), Ok(None));
        let twice = ["-a={1,2}", "-b={1,2}"].map(String::from);
        assert!(Vary::of_words(&twice).unwrap_err().reason.contains("second range"));
    }

    #[test]
    fn what_is_wrong_is_pointed_at() {
        let said = |text: &str| Vary::of_variable(text).unwrap_err().to_string();
        let all = [
            "GOGC",
            "GO GC=1..2x3",
            "=1..2x3",
            "O=o={20..320x10",
            "O=o=20}",
            "O={1,2}{3,4}",
            "O={20..320}",
            "O={20..320x}",
            "O={20..320x1}",
            "O={20..m320x4}",
            "O={320..20x4}",
            "O={0..20x4}",
            "O={1..2+0}",
            "O={1..20000+1}",
            "O={a,,b}",
            "O={a,b,a}",
            "O={20}",
            "O=100",
        ]
        .map(said)
        .join("\n");
        insta::assert_snapshot!(all);
    }

    proptest! {
        #[test]
        fn any_text_gives_values_or_a_place_within_it(text in "[A-Z]{0,3}=?[a-z=]{0,3}\\{?[0-9.x+,-]{0,14}\\}?[a-zé]{0,3}") {
            match Vary::of_variable(&text) {
                Ok(vary) => {
                    prop_assert!(vary.values.len() >= 2);
                    for value in &vary.values {
                        prop_assert!(vary.with(value).contains(value.as_str()));
                    }
                }
                Err(error) => prop_assert!(error.at <= text.chars().count(), "{error}"),
            }
        }

        #[test]
        fn equal_factors_rise_from_end_to_end(from in 1_u32..1_000, more in 1_u32..100_000, count in 2_usize..50) {
            let to = from + more;
            let values: Vec<f64> = values(&format!("A={from}..{to}x{count}")).iter().map(|value| value.parse().unwrap()).collect();
            prop_assert_eq!(values[0], f64::from(from));
            prop_assert_eq!(values[values.len() - 1], f64::from(to));
            prop_assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
