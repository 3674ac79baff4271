//! The small language of `check` and `query`: comparisons of numbers and texts, with units, and
//! errors that point at their place.
//!
//! ```text
//! all        = one ("and" one | "or" one)*        "and" binds closer
//! one        = "not" one | "(" all ")" | sum comparison sum
//! comparison = "<" "<=" ">" ">=" "=" "==" "!=" "~"      ~: a text fits a pattern, in which * stands for any text
//! sum        = product (("+" | "-") product)*     product = value (("*" | "/") value)*
//! value      = "-" value | number unit? | "text" | name | name "(" argument ")" | "(" sum ")"
//! ```
//! Chains of `and`, `or`, + - * / are flat lists, however long, and what nests is bounded: no text
//! of a user's makes this recurse deeper than that. What names and functions mean is not known
//! here: [`Expression::evaluate`] asks.

use super::subject::Pattern;
use std::fmt;

/// Nested parentheses, `not`s and signs that are read; more is no assertion.
const DEPTH_MAX: usize = 50;
const TOO_DEEP: &str = "this is nested too deeply";
/// Characters of a misread text that are shown before its place, and behind.
const SHOWN_CHARACTERS: usize = 200;

/// Units of bytes, as DevTools and as the kernel write them.
const UNITS: [(&str, f64); 9] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TB", 1e12),
];

/// A text that is no expression: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misread {
    text: String,
    at: usize,
    why: String,
}

impl fmt::Display for Misread {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let (before, behind) = self.text.split_at(self.at);
        let skipped = before.chars().count().saturating_sub(SHOWN_CHARACTERS);
        let dots = |left_out: bool| if left_out { "..." } else { "" };
        let mut shown: String =
            dots(skipped > 0).chars().chain(before.chars().skip(skipped)).collect();
        let column = shown.chars().count();
        shown.extend(behind.chars().take(SHOWN_CHARACTERS));
        shown.push_str(dots(behind.chars().count() > SHOWN_CHARACTERS));
        write!(out, "{}\n  {}\n  {:column$}^", self.why, shown.replace(char::is_control, " "), "")
    }
}

impl std::error::Error for Misread {}

/// A piece of the text.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// 10, 1.5MB.
    Number(f64),
    /// "Detached *".
    Text(String),
    /// count, where.
    Word(String),
    /// ( ) , | < <= ...
    Sign(&'static str),
}

/// The pieces of a text with their places.
#[derive(Clone, Debug)]
pub struct Tokens {
    text: String,
    tokens: Vec<(Token, usize)>,
    next: usize,
}

/// A value while it is computed.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

/// What is computed.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A number, a text.
    Constant(Value),
    /// A name, or a function's call with its argument; with its place in the text.
    Name(String, Option<String>, usize),
    /// Two values compared.
    Compared(&'static str, Box<Expression>, Box<Expression>),
    /// A value, and what is done to it in turn: + - or * /.
    Computed(Box<Expression>, Vec<(&'static str, Expression)>),
    /// All of them hold: and.
    Every(Vec<Expression>),
    /// One of them holds: or.
    Any(Vec<Expression>),
    /// not.
    Not(Box<Expression>),
}

const SIGNS: [&str; 15] =
    ["<=", ">=", "==", "!=", "<", ">", "=", "~", "(", ")", ",", "|", "+", "*", "/"];
const COMPARISONS: [&str; 8] = ["<=", ">=", "==", "!=", "<", ">", "=", "~"];

impl Tokens {
    /// Cuts a text into its pieces.
    pub fn of(text: &str) -> Result<Tokens, Misread> {
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(first) = text[at..].chars().next() {
            let wrong = |why: &str| Misread { text: text.into(), at, why: why.into() };
            let rest = &text[at..];
            let (token, length) = if first.is_whitespace() {
                at += first.len_utf8();
                continue;
            } else if first.is_ascii_digit()
                || (first == '.' && rest[1..].starts_with(|next: char| next.is_ascii_digit()))
            {
                number(rest).map_err(|why| wrong(&why))?
            } else if first == '"' || first == '\'' {
                let end = rest[1..].find(first).ok_or_else(|| wrong("the quote is not closed"))?;
                (Token::Text(rest[1..=end].into()), end + 2)
            } else if first.is_alphabetic() || first == '_' || first == '$' {
                let end = rest
                    .find(|next: char| !(next.is_alphanumeric() || next == '_' || next == '$'))
                    .unwrap_or(rest.len());
                (Token::Word(rest[..end].into()), end)
            } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                (Token::Sign(sign), sign.len())
            } else if first == '-' {
                (Token::Sign("-"), 1)
            } else {
                return Err(wrong(&format!("{first:?} has no meaning here")));
            };
            tokens.push((token, at));
            at += length;
        }
        Ok(Tokens { text: text.into(), tokens, next: 0 })
    }

    /// The next piece, not taken.
    pub fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(token, _)| token)
    }

    /// Takes the next piece.
    pub fn take(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.next += 1;
        token
    }

    /// Takes the sign if it is next.
    pub fn sign(&mut self, sign: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Sign(next)) if *next == sign);
        self.next += usize::from(is);
        is
    }

    /// Takes the word if it is next.
    pub fn word(&mut self, word: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Word(next)) if next == word);
        self.next += usize::from(is);
        is
    }

    /// An error at the next piece.
    pub fn misread(&self, why: impl Into<String>) -> Misread {
        self.misread_at(self.tokens.get(self.next).map_or(self.text.len(), |(_, at)| *at), why)
    }

    /// An error at a place of the text.
    pub fn misread_at(&self, at: usize, why: impl Into<String>) -> Misread {
        Misread { text: self.text.clone(), at, why: why.into() }
    }

    /// Whether what comes next joins the value before it to another.
    fn value_goes_on(&self) -> bool {
        matches!(self.peek(), Some(Token::Sign(sign)) if COMPARISONS.contains(sign) || ["+", "-", "*", "/"].contains(sign))
    }

    /// The place of the next piece.
    fn place(&self) -> usize {
        self.tokens.get(self.next).map_or(self.text.len(), |(_, at)| *at)
    }
}

fn number(rest: &str) -> Result<(Token, usize), String> {
    let digits = rest
        .find(|next: char| !(next.is_ascii_digit() || next == '.' || next == '_'))
        .unwrap_or(rest.len());
    let value: f64 = rest[..digits]
        .replace('_', "")
        .parse()
        .map_err(|_| format!("{} is no number", &rest[..digits]))?;
    let gap = rest[digits..].len() - rest[digits..].trim_start_matches(' ').len();
    let unit_text = &rest[digits + gap..];
    let unit_end =
        unit_text.find(|next: char| !next.is_ascii_alphabetic()).unwrap_or(unit_text.len());
    let unit = &unit_text[..unit_end];
    match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => Ok((Token::Number(value * factor), digits + gap + unit_end)),
        // A word behind a space is the next thing; glued to the number it is a unit that there is
        // none of.
        None if unit.is_empty() || gap > 0 => Ok((Token::Number(value), digits)),
        None => Err(format!(
            "{unit:?} is no unit; there are B, kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB (of 1024)"
        )),
    }
}

impl Expression {
    /// Reads all of a text.
    pub fn read(text: &str) -> Result<Expression, Misread> {
        let mut tokens = Tokens::of(text)?;
        let expression = Expression::all(&mut tokens, 0)?;
        match tokens.peek() {
            None => Ok(expression),
            Some(_) => Err(tokens.misread("expected and, or, or the end")),
        }
    }

    /// Reads a condition and leaves what follows it.
    pub fn all(tokens: &mut Tokens, depth: usize) -> Result<Expression, Misread> {
        let mut any = vec![Expression::both(tokens, depth)?];
        while tokens.word("or") {
            any.push(Expression::both(tokens, depth)?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Expression::Any(any) })
    }

    fn both(tokens: &mut Tokens, depth: usize) -> Result<Expression, Misread> {
        let mut every = vec![Expression::one(tokens, depth)?];
        while tokens.word("and") {
            every.push(Expression::one(tokens, depth)?);
        }
        Ok(if every.len() == 1 { every.remove(0) } else { Expression::Every(every) })
    }

    fn one(tokens: &mut Tokens, depth: usize) -> Result<Expression, Misread> {
        if depth > DEPTH_MAX {
            return Err(tokens.misread(TOO_DEEP));
        }
        if tokens.word("not") {
            return Ok(Expression::Not(Expression::one(tokens, depth + 1)?.into()));
        }
        // A parenthesis opens a condition or a sum: what a comparison follows was a sum.
        let before = tokens.next;
        if tokens.sign("(") {
            match Expression::all(tokens, depth + 1) {
                Ok(all) if tokens.sign(")") && !tokens.value_goes_on() => return Ok(all),
                Err(misread) if misread.why == TOO_DEEP => return Err(misread),
                _ => {}
            }
        }
        tokens.next = before;
        let left = Expression::sum(tokens, depth)?;
        let sign = COMPARISONS.iter().find(|sign| tokens.sign(sign));
        let sign =
            sign.ok_or_else(|| tokens.misread("expected a comparison (< <= > >= = != ~)"))?;
        let right = Expression::sum(tokens, depth)?;
        Ok(Expression::Compared(sign, left.into(), right.into()))
    }

    fn sum(tokens: &mut Tokens, depth: usize) -> Result<Expression, Misread> {
        Expression::chain(tokens, ["+", "-"], |tokens| {
            Expression::chain(tokens, ["*", "/"], |tokens| Expression::value(tokens, depth))
        })
    }

    /// Values with one of two signs between them.
    fn chain(
        tokens: &mut Tokens,
        signs: [&'static str; 2],
        value: impl Fn(&mut Tokens) -> Result<Expression, Misread>,
    ) -> Result<Expression, Misread> {
        let first = value(tokens)?;
        let mut steps = Vec::new();
        while let Some(sign) = signs.into_iter().find(|sign| tokens.sign(sign)) {
            steps.push((sign, value(tokens)?));
        }
        Ok(if steps.is_empty() { first } else { Expression::Computed(first.into(), steps) })
    }

    fn value(tokens: &mut Tokens, depth: usize) -> Result<Expression, Misread> {
        let place = tokens.place();
        if depth > DEPTH_MAX {
            return Err(tokens.misread(TOO_DEEP));
        }
        match tokens.peek() {
            Some(Token::Number(_) | Token::Text(_) | Token::Word(_)) => {}
            Some(Token::Sign("-")) => {
                tokens.take();
                let value = Expression::value(tokens, depth + 1)?;
                return Ok(Expression::Computed(
                    Expression::Constant(Value::Number(0.0)).into(),
                    vec![("-", value)],
                ));
            }
            Some(Token::Sign("(")) => {
                tokens.take();
                let sum = Expression::sum(tokens, depth + 1)?;
                return if tokens.sign(")") {
                    Ok(sum)
                } else {
                    Err(tokens.misread("expected a closing parenthesis"))
                };
            }
            _ => return Err(tokens.misread("expected a number, a text or a name")),
        }
        match tokens.take() {
            Some(Token::Number(number)) => Ok(Expression::Constant(Value::Number(number))),
            Some(Token::Text(text)) => Ok(Expression::Constant(Value::Text(text))),
            Some(Token::Word(word)) if tokens.sign("(") => {
                let argument = match tokens.peek() {
                    Some(Token::Text(text) | Token::Word(text)) => Some(text.clone()),
                    Some(Token::Sign(")")) => None,
                    _ => {
                        return Err(
                            tokens.misread("expected a class, such as Session or \"Detached *\"")
                        );
                    }
                };
                tokens.next += usize::from(argument.is_some());
                if !tokens.sign(")") {
                    return Err(tokens.misread("expected a closing parenthesis; a class that is more than a word stands in quotes"));
                }
                Ok(Expression::Name(word, Some(argument.unwrap_or_default()), place))
            }
            Some(Token::Word(word)) => Ok(Expression::Name(word, None, place)),
            _ => Err(tokens.misread("expected a number, a text or a name")),
        }
    }

    /// Calls `each` with every name and function: its name, its argument, its place.
    pub fn names(&self, each: &mut impl FnMut(&str, Option<&str>, usize)) {
        match self {
            Expression::Constant(_) => {}
            Expression::Name(name, argument, place) => each(name, argument.as_deref(), *place),
            Expression::Compared(_, left, right) => {
                left.names(each);
                right.names(each);
            }
            Expression::Computed(first, steps) => {
                first.names(each);
                steps.iter().for_each(|(_, value)| value.names(each));
            }
            Expression::Every(all) | Expression::Any(all) => {
                all.iter().for_each(|one| one.names(each))
            }
            Expression::Not(one) => one.names(each),
        }
    }

    /// A text that stands for itself, not as the argument of a function.
    pub fn text(&self) -> Option<&str> {
        match self {
            Expression::Constant(Value::Text(text)) => Some(text),
            Expression::Constant(Value::Number(_)) | Expression::Name(..) => None,
            Expression::Compared(_, left, right) => left.text().or_else(|| right.text()),
            Expression::Computed(first, steps) => {
                first.text().or_else(|| steps.iter().find_map(|(_, value)| value.text()))
            }
            Expression::Every(all) | Expression::Any(all) => all.iter().find_map(Expression::text),
            Expression::Not(one) => one.text(),
        }
    }

    /// Whether something in it is divided by zero.
    pub fn divides_by_zero(&self, name: &mut impl FnMut(&str, Option<&str>) -> Value) -> bool {
        match self {
            Expression::Constant(_) | Expression::Name(..) => false,
            Expression::Compared(_, left, right) => {
                left.divides_by_zero(name) || right.divides_by_zero(name)
            }
            Expression::Computed(first, steps) => {
                let mut zero = first.divides_by_zero(name);
                for (sign, value) in steps {
                    let is_zero = *sign == "/"
                        && matches!(value.evaluate(name), Value::Number(number) if number == 0.0);
                    zero |= is_zero || value.divides_by_zero(name);
                }
                zero
            }
            Expression::Every(all) | Expression::Any(all) => {
                all.iter().any(|one| one.divides_by_zero(name))
            }
            Expression::Not(one) => one.divides_by_zero(name),
        }
    }

    /// Computes it; `name` gives the value of a name or a function's call. Conditions give 1 or 0.
    pub fn evaluate(&self, name: &mut impl FnMut(&str, Option<&str>) -> Value) -> Value {
        match self {
            Expression::Constant(value) => value.clone(),
            Expression::Name(text, argument, _) => name(text, argument.as_deref()),
            Expression::Not(one) => truth(!one.is_true(name)),
            Expression::Every(all) => truth(all.iter().all(|one| one.is_true(name))),
            Expression::Any(any) => truth(any.iter().any(|one| one.is_true(name))),
            Expression::Compared(sign, left, right) => {
                join(sign, &left.evaluate(name), &right.evaluate(name))
            }
            Expression::Computed(first, steps) => {
                let first = first.evaluate(name);
                steps
                    .iter()
                    .fold(first, |value, (sign, next)| join(sign, &value, &next.evaluate(name)))
            }
        }
    }

    /// Whether the condition holds.
    pub fn is_true(&self, name: &mut impl FnMut(&str, Option<&str>) -> Value) -> bool {
        matches!(self.evaluate(name), Value::Number(number) if number != 0.0)
    }
}

fn truth(is: bool) -> Value {
    Value::Number(f64::from(u8::from(is)))
}

fn join(sign: &str, left: &Value, right: &Value) -> Value {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match sign {
            "+" => Value::Number(left + right),
            "-" => Value::Number(left - right),
            "*" => Value::Number(left * right),
            "/" => Value::Number(left / right),
            "<" => truth(left < right),
            "<=" => truth(left <= right),
            ">" => truth(left > right),
            ">=" => truth(left >= right),
            "!=" => truth(left != right),
            "=" | "==" => truth(left == right),
            // No number fits a pattern.
            _ => truth(false),
        },
        (Value::Text(left), Value::Text(right)) => match sign {
            "~" => truth(Pattern::new(right.clone()).fits(left)),
            "<" => truth(left < right),
            "<=" => truth(left <= right),
            ">" => truth(left > right),
            ">=" => truth(left >= right),
            "=" | "==" => truth(left == right),
            "!=" => truth(left != right),
            _ => Value::Number(f64::NAN),
        },
        // A number and a text are never equal.
        _ => truth(sign == "!="),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str) -> bool {
        Expression::read(text).unwrap().is_true(&mut |name, argument| match (name, argument) {
            ("count", Some("Session")) => Value::Number(10.0),
            ("retained", Some("Detached *")) => Value::Number(1.5e6),
            ("class", None) => Value::Text("Detached <div>".into()),
            _ => Value::Number(0.0),
        })
    }

    #[test]
    fn comparisons_units_and_words() {
        assert!(
            holds("count(Session) <= 10")
                && !holds("count(Session)<10")
                && holds("count( 'Session' ) = 2 * (3 + 2)")
        );
        assert!(
            holds("retained(\"Detached *\") < 2MB")
                && holds("retained(\"Detached *\") > 1.4 MiB")
                && holds("1KiB = 1_024 B")
        );
        assert!(
            holds("class ~ \"Detached *\" and not class = \"x\"")
                && holds("(1 > 2 or 2 > 1) and 3 = 3")
                && holds("(1 + 1) * 2 = 4")
        );
        assert!(holds("1 = 2 and 1 = 1 or 1 = 1"), "and binds closer");
        assert!(holds("10 - 3 - 2 = 5") && holds("8 / 2 / 2 = 2"));
    }

    #[test]
    fn a_value_may_have_a_sign() {
        assert!(holds("-1 < 0 and 3 - -2 = 5 and -(1 + 2) * 2 = -6 and 2 * -3 = -6 and --1 = 1"));
        assert!(holds("-count(Session) = -10 and (-1) * 2 = -2 and not -1 > 0 and 1-1 = 0"));
    }

    #[test]
    fn long_texts_are_read_and_deep_ones_refused() {
        let long = |joint: &str, one: &str| vec![one; 100_000].join(joint);
        assert!(holds(&long(" and ", "1 = 1")) && !holds(&long(" or ", "1 = 2")));
        assert!(
            holds(&format!("{} = 100000", long("+", "1")))
                && holds(&format!("{} = 1", long(" * ", "1")))
        );
        for opening in ["(", "not ", "-", "-(", "not ("] {
            let error = Expression::read(&format!("{}1 = 1", opening.repeat(100_000)))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("nested too deeply") && error.len() < 2000,
                "{opening}: {error}"
            );
        }
        let broken = format!("{} and", long(" and ", "1 = 1"));
        let error = Expression::read(&broken).unwrap_err().to_string();
        assert!(error.starts_with("expected a number") && error.len() < 2000, "{error}");
    }

    #[test]
    fn a_number_fits_no_pattern() {
        assert!(!holds("count(Session) ~ 10") && !holds("1 ~ \"*\""));
    }

    #[test]
    fn errors_point_at_their_place() {
        let misread = |text: &str| Expression::read(text).unwrap_err().to_string();
        assert_eq!(
            misread("count(Session) <="),
            "expected a number, a text or a name\n  count(Session) <=\n                   ^"
        );
        assert_eq!(misread("1 < 2 3"), "expected and, or, or the end\n  1 < 2 3\n        ^");
        assert!(misread("retained(Detached *) < 1").starts_with(
            "expected a closing parenthesis; a class that is more than a word stands in quotes"
        ));
        assert!(misread("1 < 5Mb").starts_with("\"Mb\" is no unit"));
        assert!(misread("\"open < 1").starts_with("the quote is not closed"));
        assert!(misread("1 ; 2").contains("';' has no meaning here\n  1 ; 2\n    ^"));
        assert!(misread(&"(".repeat(10_000)).contains("nested too deeply"));
        assert!(
            misread("").contains("expected a number")
                && misread("count(Session)").contains("expected a comparison")
        );
    }
}
