//! The pieces of a text: numbers with units, texts, words and signs, each with its place.

use crate::Value;
use std::fmt;

/// Characters of a misread text that are shown before its place, and behind.
const SHOWN_CHARACTERS: usize = 200;

/// Units of bytes, as DevTools and as the kernel write them.
const UNITS: [(&str, i128); 10] = [
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
];

/// A text that is no expression: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misread {
    pub(crate) text: String,
    pub(crate) at: usize,
    pub(crate) why: String,
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
    /// 10, 1e3, 1.5MB: a whole number.
    Integer(i128),
    /// 0.5.
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
    pub(crate) next: usize,
}

const SIGNS: [&str; 18] = [
    "<=", ">=", "==", "!=", "&&", "||", "!", "<", ">", "=", "~", "(", ")", ",", "|", "+", "*", "/",
];
pub(crate) const COMPARISONS: [&str; 8] = ["<=", ">=", "==", "!=", "<", ">", "=", "~"];

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
    pub(crate) fn value_goes_on(&self) -> bool {
        let joins = |sign| COMPARISONS.contains(sign) || ["+", "-", "*", "/"].contains(sign);
        matches!(self.peek(), Some(Token::Sign(sign)) if joins(sign))
    }

    /// The word that is next if it stands behind a number, as a unit does.
    pub(crate) fn word_behind_number(&self) -> Option<&str> {
        let before = self.tokens.get(self.next.checked_sub(1)?);
        match (before, self.peek()) {
            (Some((Token::Integer(_) | Token::Number(_), _)), Some(Token::Word(word))) => {
                Some(word)
            }
            _ => None,
        }
    }

    /// The place of the next piece.
    pub(crate) fn place(&self) -> usize {
        self.tokens.get(self.next).map_or(self.text.len(), |(_, at)| *at)
    }
}

/// A number at the beginning of `rest` with its unit, and how long both are.
fn number(rest: &str) -> Result<(Token, usize), String> {
    let is_digit = |next: char| next.is_ascii_digit() || next == '_';
    let end =
        |from: usize| rest[from..].find(|next| !is_digit(next)).map_or(rest.len(), |at| from + at);
    let mut digits = end(0);
    if rest[digits..].starts_with('.') {
        digits = end(digits + 1);
    }
    if rest[digits..].starts_with(['e', 'E']) {
        let signed = digits + 1 + usize::from(rest[digits + 1..].starts_with(['+', '-']));
        // An e without digits behind it reads as a unit, and no unit has that name.
        if rest[signed..].starts_with(|next: char| next.is_ascii_digit()) {
            digits = end(signed);
        }
    }
    let text = rest[..digits].replace('_', "");
    let gap = rest[digits..].len() - rest[digits..].trim_start_matches(' ').len();
    let unit_text = &rest[digits + gap..];
    let unit_end =
        unit_text.find(|next: char| !next.is_ascii_alphabetic()).unwrap_or(unit_text.len());
    let unit = &unit_text[..unit_end];
    let (factor, length) = match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => (*factor, digits + gap + unit_end),
        // A word behind a space is the next thing. Glued to the number, or with a unit's letters,
        // it is an unknown unit.
        None if unit.is_empty() || (gap > 0 && !is_nearly_unit(unit)) => (1, digits),
        None => return Err(no_unit(unit)),
    };
    Ok((token(&text, factor).ok_or_else(|| format!("{text} is no number"))?, length))
}

fn is_nearly_unit(word: &str) -> bool {
    UNITS.iter().any(|(name, _)| name.eq_ignore_ascii_case(word))
}

/// The known units, for an unknown one.
pub(crate) fn no_unit(unit: &str) -> String {
    format!(
        "{unit:?} is no unit; there are B, kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (of 1024)"
    )
}

/// A whole number where it is one, however it is written.
fn token(text: &str, factor: i128) -> Option<Token> {
    if let Some(whole) = text.parse::<i128>().ok().and_then(|whole| whole.checked_mul(factor)) {
        return Some(Token::Integer(whole));
    }
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite())? * factor as f64;
    Some(match Value::from(value) {
        Value::Integer(whole) => Token::Integer(whole),
        _ => Token::Number(value),
    })
}

/// A number of bytes with its unit, `64kB` or `1.5 MiB`, and nothing else; `None`: it is none.
pub fn bytes(text: &str) -> Option<f64> {
    let text = text.trim();
    if !text.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    match number(text).ok()? {
        (Token::Integer(whole), length) if length == text.len() => Some(whole as f64),
        (Token::Number(value), length) if length == text.len() => Some(value),
        _ => None,
    }
}
