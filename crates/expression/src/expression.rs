//! The small language of `check` and `query`: comparisons of numbers and texts, with units, and
//! errors that point at their place.
//!
//! ```text
//! all        = one ("and" one | "or" one)*        "and" binds closer; && and || are the same
//! one        = "not" one | "!" one | "(" all ")" | sum comparison sum
//! comparison = "<" "<=" ">" ">=" "=" "==" "!=" "~"      ~: a text fits a pattern, in which * stands for any text
//! sum        = product (("+" | "-") product)*     product = value (("*" | "/") value)*
//! value      = "-" value | number unit? | "text" | name | name "(" argument ")" | "(" sum ")"
//! ```
//! Chains of `and`, `or`, + - * / are flat lists, however long, and what nests is bounded: no text
//! of a user's makes this recurse deeper than that. What names and functions mean is not known
//! here: [`Expression::evaluate`] asks.

use crate::token::{COMPARISONS, no_unit};
use crate::{Misread, Token, Tokens, Value};

/// Nested parentheses, `not`s and signs that are read; more is no assertion.
const DEPTH_MAX: usize = 50;
const TOO_DEEP: &str = "this is nested too deeply";
const NO_COMPARISON: &str = "expected a comparison (< <= > >= = != ~)";
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

impl Expression {
    /// Reads all of a text: an assertion, so that what it compares are numbers.
    pub fn read(text: &str) -> Result<Expression, Misread> {
        let mut tokens = Tokens::of(text)?;
        let expression = Expression::all(&mut tokens, 0).map_err(|mut misread| {
            if misread.why == NO_COMPARISON {
                misread.why = NO_COMPARISON.replace(" ~", "");
            }
            misread
        })?;
        match (tokens.peek(), tokens.word_behind_number()) {
            (None, _) => Ok(expression),
            (Some(_), Some(word)) => Err(tokens.misread(no_unit(word))),
            (Some(_), None) => Err(tokens.misread("expected and, or, or the end")),
        }
    }

    /// Reads a condition and leaves what follows it.
    pub fn all(tokens: &mut Tokens, depth: usize) -> Result<Expression, Misread> {
        let mut any = vec![Expression::both(tokens, depth)?];
        while tokens.word("or") || tokens.sign("||") {
            any.push(Expression::both(tokens, depth)?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Expression::Any(any) })
    }

    fn both(tokens: &mut Tokens, depth: usize) -> Result<Expression, Misread> {
        let mut every = vec![Expression::one(tokens, depth)?];
        while tokens.word("and") || tokens.sign("&&") {
            every.push(Expression::one(tokens, depth)?);
        }
        Ok(if every.len() == 1 { every.remove(0) } else { Expression::Every(every) })
    }

    fn one(tokens: &mut Tokens, depth: usize) -> Result<Expression, Misread> {
        if depth > DEPTH_MAX {
            return Err(tokens.misread(TOO_DEEP));
        }
        if tokens.word("not") || tokens.sign("!") {
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
        let sign = sign.ok_or_else(|| tokens.misread(NO_COMPARISON))?;
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
            Some(Token::Integer(_) | Token::Number(_) | Token::Text(_) | Token::Word(_)) => {}
            Some(Token::Sign("-")) => {
                tokens.take();
                let value = Expression::value(tokens, depth + 1)?;
                return Ok(Expression::Computed(
                    Expression::Constant(Value::Integer(0)).into(),
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
            Some(Token::Integer(whole)) => Ok(Expression::Constant(Value::Integer(whole))),
            Some(Token::Number(number)) => Ok(Expression::Constant(Value::Number(number))),
            Some(Token::Text(text)) => Ok(Expression::Constant(Value::Text(text))),
            Some(Token::Word(word)) if tokens.sign("(") => {
                let argument = match tokens.peek() {
                    Some(Token::Text(text) | Token::Word(text)) => Some(text.clone()),
                    Some(Token::Sign(")")) => None,
                    _ => {
                        return Err(
                            tokens.misread("expected a name, such as parse or \"Detached *\"")
                        );
                    }
                };
                tokens.next += usize::from(argument.is_some());
                if !tokens.sign(")") {
                    return Err(tokens.misread("expected a closing parenthesis; a name that is more than a word stands in quotes"));
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
            Expression::Constant(_) | Expression::Name(..) => None,
            Expression::Compared(_, left, right) => left.text().or_else(|| right.text()),
            Expression::Computed(first, steps) => {
                first.text().or_else(|| steps.iter().find_map(|(_, value)| value.text()))
            }
            Expression::Every(all) | Expression::Any(all) => all.iter().find_map(Expression::text),
            Expression::Not(one) => one.text(),
        }
    }

    /// Whether something in it has no value: it is divided by zero, or too large for a number.
    pub fn is_undefined(&self, name: &mut impl FnMut(&str, Option<&str>) -> Value) -> bool {
        match self {
            Expression::Constant(_) | Expression::Name(..) => false,
            Expression::Compared(_, left, right) => {
                left.is_undefined(name) || right.is_undefined(name)
            }
            Expression::Computed(first, steps) => {
                let mut undefined = first.is_undefined(name);
                for (sign, value) in steps {
                    let is_zero = *sign == "/" && value.evaluate(name).is_zero();
                    undefined |= is_zero || value.is_undefined(name);
                }
                undefined || !self.evaluate(name).is_finite()
            }
            Expression::Every(all) | Expression::Any(all) => {
                all.iter().any(|one| one.is_undefined(name))
            }
            Expression::Not(one) => one.is_undefined(name),
        }
    }

    /// Computes it; `name` gives the value of a name or a function's call. Conditions give 1 or 0.
    pub fn evaluate(&self, name: &mut impl FnMut(&str, Option<&str>) -> Value) -> Value {
        match self {
            Expression::Constant(value) => value.clone(),
            Expression::Name(text, argument, _) => name(text, argument.as_deref()),
            Expression::Not(one) => Value::truth(!one.is_true(name)),
            Expression::Every(all) => Value::truth(all.iter().all(|one| one.is_true(name))),
            Expression::Any(any) => Value::truth(any.iter().any(|one| one.is_true(name))),
            Expression::Compared(sign, left, right) => {
                left.evaluate(name).join(sign, &right.evaluate(name))
            }
            Expression::Computed(first, steps) => {
                let first = first.evaluate(name);
                steps
                    .iter()
                    .fold(first, |value, (sign, next)| value.join(sign, &next.evaluate(name)))
            }
        }
    }

    /// Whether the condition holds.
    pub fn is_true(&self, name: &mut impl FnMut(&str, Option<&str>) -> Value) -> bool {
        self.evaluate(name).is_true()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str) -> bool {
        Expression::read(text).unwrap().is_true(&mut |name, argument| match (name, argument) {
            ("count", Some("Session")) => Value::Integer(10),
            ("retained", Some("Detached *")) => Value::Number(1.5e6),
            ("class", None) => Value::Text("Detached <div>".into()),
            _ => Value::Integer(0),
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
    fn whole_numbers_stay_whole() {
        assert!(holds(
            "9007199254740993 = 9007199254740992 + 1 and 9007199254740993 != 9007199254740992"
        ));
        assert!(holds(
            "1e3 = 1000 and 1.5e3 = 1_500 and 1e-3 < 0.01 and 2E+2 = 200 and 1.5MB = 1500000"
        ));
        assert!(holds("1 / 2 = 0.5 and 4 / 2 = 2 and 10 / 4 * 2 = 5 and 2TiB > 2TB"));
        assert!(holds("170141183460469231731687303715884105727 + 1 > 1e38"));
    }

    #[test]
    fn what_has_no_value_is_told() {
        let undefined = |text: &str| {
            Expression::read(text).unwrap().is_undefined(&mut |_, _| Value::Integer(0))
        };
        assert!(undefined("1 / 0 = 1") && undefined("not (1 < 2 / count)"));
        assert!(undefined("0 * (1e308 * 1e308) != 1") && undefined("1e308 * 1e308 > 1"));
        assert!(!undefined("1 / 2 = 0.5 and 1e308 > 1"));
    }

    #[test]
    fn both_ways_to_write_and_or_and_not() {
        assert!(holds("1 = 2 && 1 = 1 || 1 = 1") && holds("!(1 = 2) && !1 = 2"));
        assert!(holds("!!(1 = 1) and 1 != 2"));
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
            "expected a closing parenthesis; a name that is more than a word stands in quotes"
        ));
        let no_unit = misread("1 < 5Mb");
        assert!(no_unit.starts_with("\"Mb\" is no unit; there are B, kB,"), "{no_unit}");
        // Also behind a blank, and in the middle.
        let listed = |text: &str| no_unit.lines().next() == misread(text).lines().next();
        assert!(listed("1 < 5 Mb") && listed("not (1 < 5 Mb) and 1 < 2"));
        assert_eq!(misread("1 < 5 M or 1 < 2").lines().nth(2), Some("        ^"));
        assert!(misread("1 < 5 M or 1 < 2").starts_with("\"M\" is no unit; there are B, kB,"));
        assert_eq!(
            misread("peak").lines().next(),
            Some("expected a comparison (< <= > >= = !=)"),
            "numbers fit no pattern"
        );
        let mut of_texts = Tokens::of("class").unwrap();
        assert!(Expression::all(&mut of_texts, 0).unwrap_err().why.ends_with("= != ~)"));
        assert!(misread("\"open < 1").starts_with("the quote is not closed"));
        assert!(misread("1 ; 2").contains("';' has no meaning here\n  1 ; 2\n    ^"));
        assert!(misread(&"(".repeat(10_000)).contains("nested too deeply"));
        assert!(
            misread("").contains("expected a number")
                && misread("count(Session)").contains("expected a comparison")
        );
    }
}
